"""Several requests in one input: where the person joined them, they are taken apart by rules.

The model does one command at a time and never loops, so nothing else would do the second thing.
"""

from __future__ import annotations

import re

from kogniterm.models.local.language import plain

MAX_PARTS = 8
_IMPERATIVES = (
    "add|append|archive|build|calculate|change|check|clean|clone|commit|compare|compress|convert|"
    "copy|count|create|decompress|delete|display|download|echo|edit|extract|fetch|filter|find|"
    "generate|get|give|initiali[sz]e|insert|install|join|kill|let|list|look|make|merge|move|open|"
    "pack|print|pull|push|put|read|remove|rename|replace|restore|reverse|run|save|search|see|set|"
    "show|sort|split|stage|start|stop|store|sum|switch|tag|take|tell|test|touch|unpack|unzip|"
    "verify|view|write|zip|"
    "abre|actualiza|agrega|anade|archiva|borra|busca|calcula|cambia|combina|compara|comprime|"
    "comprueba|convierte|copia|corta|crea|cuenta|cuentame|dame|deja|descarga|descomprime|dime|"
    "divide|edita|ejecuta|elimina|empaqueta|encuentra|ensena|ensename|escribe|extrae|filtra|"
    "genera|guarda|guardal[oa]|haz|imprime|inicia|instala|invierte|junta|lee|limpia|lista|mata|"
    "mete|mira|muestra|muestrame|mueve|ordena|pasa|pon|prueba|quita|reemplaza|renombra|revisa|"
    "saca|suma|sustituye|une|vacia|ve|verifica"
)
_ORDER = rf"(?:{_IMPERATIVES})(?:l[oae]s?)?\b"
_ASKING = "how many|how big|how large|which|what is|cuant[oa]s?|cual|que hay"
_THEN = (
    "then|after that|after this|afterwards|next|finally|lastly|second(?:ly)?|third(?:ly)?|also|"
    "once (?:that is |that's )?done|when (?:that is |you are )?done|"
    "luego|despues(?: de eso)?|a continuacion|finalmente|por ultimo|segundo|tercero|tambien|"
    "ademas|tras eso|acto seguido|seguidamente|cuando termines|una vez hecho(?: eso| esto)?"
)
_ITEM = re.compile(r"^\s*(?:\d{1,2}[.)]|[-*•])\s+(.+)$")
_INLINE_ITEM = re.compile(rf"(?:^|[\s,;:.])\s*\d[.)]\s+(?={_ORDER})")
_CONNECTIVE = re.compile(
    r"(?:\s*[,;.]\s*|\s+)(?:and\s+|y\s+)?"
    rf"(?:{_THEN})\s*,?\s+(?=¿?(?:{_ORDER}|(?:{_ASKING})\b))"
)
_SENTENCE = re.compile(rf"[.;]\s+(?={_ORDER})")
_FIRST = re.compile(r"^(?:first(?:ly)?|primero)(?: of all)?\s*,?\s+")
_IMPERATIVE = re.compile(_ORDER)
_QUOTED = re.compile(r"\"[^\"]*\"|`[^`]*`|«[^»]*»|“[^”]*”|(?<!\w)'[^']*'(?!\w)")
# Making a folder is a thing of its own whatever is done with it next.
_FOLDER = (
    r"(?:create|make|crea|haz) (?:me )?(?:a |an |the |un |una |la |el )?(?:new |nueva? )?"
    r"(?:folder|directory|carpeta|directorio) (?:named |called |llamad[oa] )?(?P<name>[\w./-]*\w)"
)
_FOLDER_AND = re.compile(rf"{_FOLDER},?(?P<cut>\s+(?:and|y)\s+)(?={_ORDER})")
_MADE = re.compile(rf"^{_FOLDER}$")
_INTO_IT = re.compile(
    r"\b(?:in|into|to|inside) (?:it|there)\b|\b(?:dentro de |en )ella\b|\b(?:ahi|alli)\b"
)
_OF_IT = re.compile(r"^(list|lista(?=la|lo))\s?(it|la|lo)$")


def parts_of(text: str) -> tuple[str, ...]:
    """The requests in `text`, in order: list items, or what explicit connectives join.

    A connective only counts when an imperative follows it, and nothing is cut inside quotes.
    "it" and "there" name the folder that an earlier part makes.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    items = [match.group(1).strip() for line in lines if (match := _ITEM.match(line))]
    if len(items) >= 2 and len(items) >= len(lines) - 1:
        parts = items
    elif len(lines) >= 2 and all(_IMPERATIVE.match(_folded(line.strip())) for line in lines):
        parts = [part for line in lines for part in _cut(line.strip())]
    else:
        parts = _cut(text)
    cleaned = [part.strip().rstrip(".;,") for part in parts]
    return _resolved([part for part in cleaned if part][:MAX_PARTS]) or (text,)


def _folded(text: str) -> str:
    """As `plain`, but of the same length, so that positions in it are positions in `text`."""
    return "".join(plain(char)[:1] or char for char in text)


def _cut(text: str) -> list[str]:
    folded = _QUOTED.sub(lambda match: "_" * len(match.group()), _folded(text))
    cuts = [m.span() for rule in (_CONNECTIVE, _SENTENCE) for m in rule.finditer(folded)]
    cuts += [match.span("cut") for match in _FOLDER_AND.finditer(folded)]
    inline = [match.span() for match in _INLINE_ITEM.finditer(folded)]
    if len(inline) >= 2:
        cuts += inline
    parts, start = [], 0
    if first := _FIRST.match(folded):
        start = first.end()
    for begin, end in sorted(cuts):
        if begin >= start:
            parts.append(text[start:begin])
            start = end
    return [*parts, text[start:]]


def _resolved(parts: list[str]) -> tuple[str, ...]:
    """`parts` with "into it" and "list it" told by name where an earlier part makes a folder."""
    folder = ""
    told = []
    for part in parts:
        folded = _folded(part)
        if folder and (match := _INTO_IT.search(folded)):
            word = "en la carpeta" if match.group()[:3] in ("en ", "den", "ahi", "all") else "into"
            part = f"{part[: match.start()]}{word} {folder}{part[match.end() :]}"
        elif folder and (match := _OF_IT.match(folded)):
            part = f"{match.group(1)} {'the folder' if match.group(2) == 'it' else 'la carpeta'} "
            part += folder
        elif made := _MADE.match(folded):
            folder = part[made.start("name") : made.end("name")]
        told.append(part)
    return tuple(told)
