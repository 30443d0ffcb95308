"""What kind of input this is, decided by fixed rules, because the model is too small to.

Talk gets a fixed, honest answer; a question about the world in general gets prose that is
marked as unverified; everything else becomes one command per part of the request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kogniterm.models.local.language import Language, language_of, plain

_GREETING = (
    r"(hi|hello|hey|hola|buenas|good (morning|afternoon|evening)|buen(os|as) (dias|tardes|noches)|"
    r"que tal|how are you|como estas)( there| kogniterm| a todos| que tal| how are you)*"
)
_THANKS = (
    r"(ok |vale |great |genial |perfect[oa]? )?(many thanks|thanks|thank you|thx|gracias|"
    r"muchas gracias|mil gracias)( very much| a lot| so much| por todo| por la ayuda)?|"
    r"(ok|okay|vale|great|cool|nice|perfect|genial|perfecto|de acuerdo|entendido)"
)
_FAREWELL = r"(bye|goodbye|good bye|see you|adios|chao|hasta (luego|pronto|manana))( kogniterm)?"
_ABILITIES = (
    r"(help|ayuda)|(please )?(what|how) can you (do|help)( for)?( me)?( with)?|"
    r"(can|could) you help( me)?|what do you do|"
    r"(que|como) (sabes|puedes) (hacer|ayudar(me)?)( por mi)?|(me )?puedes ayudar(me)?|"
    r"en que (me )?puedes ayudar(me)?|para que sirves"
)
_IDENTITY = (
    r"who are you|what are you|which model (are you|is this)|what model (are you|is this)|"
    r"what is your name|are you (a |an )?(bot|human|ai|robot)|quien eres|que eres|"
    r"que modelo (eres|es este)|como te llamas|eres (un |una )?(bot|humano|persona|ia|robot)"
)

TALK: tuple[tuple[str, Mapping[Language, str]], ...] = (
    (
        _GREETING,
        {
            "en": "Hello. Tell me what you want done in this folder, one thing at a time.",
            "es": "Hola. Dime qué quieres hacer en esta carpeta, una cosa cada vez.",
        },
    ),
    (_THANKS, {"en": "You are welcome.", "es": "De nada."}),
    (_FAREWELL, {"en": "Goodbye. Ctrl-D leaves.", "es": "Adiós. Con Ctrl-D se sale."}),
    (
        _ABILITIES,
        {
            "en": "I am a small model that runs on this machine, without network or key. I turn "
            "one simple request into one shell command: finding, counting, searching, sizes, "
            "renaming, archives, git, processes, dates. You see the command before it runs, and "
            "its real output is the answer. I am often wrong, so read the command first. For "
            "work in many steps, set up a larger model: `kogniterm doctor` says how.",
            "es": "Soy un modelo pequeño que corre en esta máquina, sin red ni clave. Convierto "
            "una petición sencilla en una orden de la terminal: buscar, contar, tamaños, "
            "renombrar, archivos comprimidos, git, procesos, fechas. Ves la orden antes de que "
            "se ejecute, y su salida real es la respuesta. Me equivoco a menudo: lee la orden. "
            "Para trabajos de muchos pasos, configura un modelo mayor: `kogniterm doctor` dice "
            "cómo.",
        },
    ),
    (
        _IDENTITY,
        {
            "en": "I am KogniTerm, running its embedded local model: Qwen2.5-Coder, a small "
            "model that works in this machine's memory and sends nothing anywhere.",
            "es": "Soy KogniTerm con su modelo local: Qwen2.5-Coder, un modelo pequeño que "
            "trabaja en la memoria de esta máquina y no envía nada a ningún sitio.",
        },
    ),
)
_TALK = tuple((re.compile(pattern), answers) for pattern, answers in TALK)

_KNOWLEDGE = re.compile(
    r"^(please )?(what (is|are) (an?|the (difference|meaning|purpose)) |what does .* mean|"
    r"explain (to me )?(what|how|why|the (difference|concept|idea)) |why (is|are|do|does|would) |"
    r"what is the difference between |"
    r"que (es|son) (una?|unos|unas) |que significa |que diferencia hay |"
    r"cual es la diferencia |explica(me)? (que|como|por que|la diferencia) |por que )"
)
_NAMES_A_FILE = re.compile(r"[\w-]\.[a-z]{1,5}\b|/|\b(here|this|these|aqui|est[ae]s?)\b")


_GOES_ON = re.compile(
    r"(and|also|now|but|what about|how about|same|the same|only|again|instead|"
    r"y|e|ahora|tambien|pero|lo mismo|solo|otra vez|en cambio)\b"
)
_LONGEST_FOLLOW_UP = 8


def goes_on(text: str) -> bool:
    """Whether a short input only makes sense after the one before ("and in the docs folder?")."""
    words = plain(text).lstrip("¿ ").split()
    return len(words) <= _LONGEST_FOLLOW_UP and bool(_GOES_ON.match(" ".join(words)))


def small_talk(text: str) -> str | None:
    """The answer to pure conversation, None if `text` is anything more than that."""
    words = re.sub(r"[^\w\s]", " ", plain(text))
    words = " ".join(words.split())
    for pattern, answers in _TALK:
        if pattern.fullmatch(words):
            return answers[language_of(text)]
    return None


def is_knowledge_question(text: str) -> bool:
    """Whether no command could answer this: a question about the world, not about this machine."""
    words = plain(text).lstrip("¿ ").strip()
    return bool(_KNOWLEDGE.match(words)) and not _NAMES_A_FILE.search(words)


# --- several requests in one input -------------------------------------------------------------

MAX_PARTS = 8
_IMPERATIVES = (
    "add|append|archive|calculate|change|check|clone|commit|compare|compress|convert|copy|count|"
    "create|decompress|delete|display|download|echo|extract|find|generate|get|give|initiali[sz]e|"
    "install|kill|list|make|merge|move|open|pack|print|put|read|remove|rename|replace|restore|run|"
    "save|search|set|show|sort|stage|start|stop|tell|touch|unpack|unzip|write|zip|"
    "agrega|anade|archiva|borra|busca|calcula|cambia|comprime|comprueba|convierte|copia|crea|"
    "cuenta|cuentame|descarga|descomprime|dime|elimina|empaqueta|encuentra|escribe|extrae|genera|"
    "guarda|haz|imprime|inicia|lista|mata|muestra|muestrame|mueve|ordena|pon|quita|reemplaza|"
    "renombra|sustituye|une"
)
_ITEM = re.compile(r"^\s*(?:\d{1,2}[.)]|[-*•])\s+(.+)$")
_CONNECTIVE = re.compile(
    r"(?:\s*[,;.]\s*|\s+)(?:and\s+|y\s+)?"
    r"(?:then|after that|afterwards|next|finally|luego|despues|a continuacion|finalmente|"
    r"por ultimo)\s*,?\s+"
    rf"(?=(?:{_IMPERATIVES})\b)"
)
_SENTENCE = re.compile(rf"[.;]\s+(?=(?:{_IMPERATIVES})\b)")
_FIRST = re.compile(r"^(?:first(?:ly)?|primero)\s*,?\s+")


def parts_of(text: str) -> tuple[str, ...]:
    """The requests in `text`, in order: list items, or what explicit connectives join.

    A connective only counts when an imperative follows it, and nothing is cut inside quotes.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    items = [match.group(1).strip() for line in lines if (match := _ITEM.match(line))]
    if len(items) >= 2 and len(items) >= len(lines) - 1:
        return tuple(items[:MAX_PARTS])
    # Same length as the text, so that positions found here are positions there.
    folded = "".join(plain(char)[:1] or char for char in text)
    folded = re.sub(r"([\"'`«“]).*?[\"'`»”]", lambda match: "_" * len(match.group()), folded)
    cuts = sorted(
        [match.span() for match in _CONNECTIVE.finditer(folded)]
        + [match.span() for match in _SENTENCE.finditer(folded)]
    )
    parts, start = [], 0
    if first := _FIRST.match(folded):
        start = first.end()
    for begin, end in cuts:
        if begin < start:
            continue
        parts.append(text[start:begin])
        start = end
    parts.append(text[start:])
    cleaned = [part.strip().rstrip(".;,") for part in parts]
    return tuple(part for part in cleaned if part)[:MAX_PARTS] or (text,)
