"""Secrets as they are said in English and Spanish: "the wifi password is …", "el PIN es …".

A sentence that names a password may tell it or only talk about it ("the password is wrong").
What follows is taken for the secret when it is written as no word is, or when it stands where
the sentence ends and is none of the words by which one talks about passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

WORDS = (
    *("password", "passphrase", "passcode", "passwd", "contrase", "clave", "frase de paso"),
    *(
        "token",
        "secret",
        "credential",
        "credencial",
        "api key",
        " pass ",
        "pw is",
        "key is",
        "wifi",
        "wi-fi",
        "llave",
    ),
)
"""Lower-case words one of which stands in every line worth a look."""

_STRONG = (
    r"key[ ](?:for|to|of)[ ](?:the|our|my)[ ](?:wi-?fi|network|router)"
    r"|(?:secret|seed|recovery)[ ]phrase|frase[ ](?:secreta|semilla)"
    r"|pass[ -]?(?:word|phrase|code)|passwd|(?:wi-?fi|wlan|network|router)[ ]key"
    r"|contrase(?:ñ|n\u0303?)a|frase[ ]de[ ]paso|palabra[ ]de[ ]paso|mi[ ]clave"
    r"|clave[ ]de[ ](?:acceso|entrada|usuario|red|(?:la[ ])?wi-?fi)"
    r"|clave[ ]del?[ ](?:(?:el|la|mi|su)[ ])?(?:wi-?fi|router|correo|banco|portátil|ordenador"
    r"|servidor)"
)
_WEAK = (
    r"pass|pwd?|clave|llave[ ]de[ ](?:la[ ])?api|token|secret|secreto|credentials?"
    r"|credencial(?:es)?"
    r"|(?:api|access|secret|license|licence|account|encryption|ssh|deploy)[ ]key"
)
_VALUE = (
    r"(?:[\"'`«“](?P<quoted>[^\"'`«»“”\r\n]{3,80})[\"'`»”]"
    r"|(?P<open>[^\s\"'`«»“”<>|$%{}\[\]\\][^\s\"'`«»“”<>|]{2,200}))"
)
_BE = r"(?:is|was|are|es|era|será|son)"
_TOLD = re.compile(
    rf"(?i)\b(?:(?P<strong>{_STRONG})|(?P<weak>{_WEAK}))\b(?:[\"`»]|'(?!s\b))?"
    rf"(?:[ \t]+(?!{_BE}\b|to\b|a\b|por\b)[^\s.;:=!?,\"<>|(){{}}]{{1,30}}){{0,7}}?"
    rf"[ \t]*(?:(?P<be>\b{_BE}(?:[ ](?:now|still|ahora|todavía|siempre|simply|just))?[ ]?:?"
    rf"|'s\b|:=|=>|->|→|[:=])[ \t]*"
    rf"|[ \t](?P<to>to|a|por)[ \t]+|,?[ \t](?=[^\s\d]{{0,40}}\d)){_VALUE}"
)
_CALLED = re.compile(
    r"(?i)[ \t](?:(?:is|es|was|era)[ ](?:my|our|the|mi|nuestra|la)|(?:as|como|de|for)"
    r"(?:[ ](?:the|my|your|our|its|a|la|mi|tu|su|nuestra))?)"
    rf"[ ](?:[\w-]{{1,20}}[ ]){{0,2}}?(?:{_STRONG}|clave)\b"
)
_LAST_WORD = re.compile(r"[\"'`»”]?(?P<drow>[^\s\"'`«»“”<>|$%{}\[\]]{4,80})(?![^\s\"'`«“])")
"""Matches the reversed text before a name given afterwards: "use … as the password"."""
_MEASURE = re.compile(
    r"(?i)\d+[-–]?(?:bits?|chars?|characters?|bytes?|days?|hours?|ms|s|m|h|d|k|kb|mb|x|th|st|nd|rd)"
    r"|[\d.,:/%+-]+|v?\d+(?:\.\w+)+|x\.?509\w{0,4}|[a-z]+\(\d\w*\)|[+-]\w|--?[a-z][\w-]*"
    r"|(?:sha|md|utf|aes|base|rsa|ipv|oauth|ed|pbkdf|crc|argon|tls|hs|rs|es|scram-sha|bcrypt|des|rc"
    r"|ntlmv|ssha|pkcs|krb|http)[-_]?\d[\d._-]{0,6}[a-z]{0,6}"
)
_CODE = re.compile(
    r".*(?:[(){}]|::|->|\w\.\w+\.|://).*|[\w.-]*/[\w./-]*|\w+=.*|[A-Za-z_]+\[.*|\.\w+"
)
_PREDICATES = """
    identical idéntica idéntico demasiado automatically
    a about above accepted again all allowed also always an and any appended applied are as
    ascii ask asked at auto available bad based be because been before being below blank both
    but by can cannot case changed clear cleared complex correct dead default different
    disabled do does down easy either empty enabled encrypted enough entered equal exactly
    expected expired false fine first for free from gone good hard hashed have here hidden how
    if ignored in incorrect invalid it its just kept known last left less like local locked
    long longer lost made mandatory masked may me mine missing more must my needed never new
    next no non none not nothing null obsolete of off ok okay old on once one only open
    optional or other our out over own plain plaintext please present printed private prompt
    public random read ready really required reset right safe salted same secret sensitive
    sent set shared short shown similar simple so still stored strong stronger such supplied
    text that the their them then there these this those to too true two typed unchanged
    undefined under unique unknown unset unsafe until up upon used useless user valid very
    visible weak what when where which while who why with within without wrong yes yet you
    your yours zero known-bad too-short el la los las un una unos unas lo de del al en con sin
    por para como que se es son era fue ser si ya ni o u y e tu su mi sus mis este esta estos
    esa ese eso aquí ahí allí así aún bien mal muy más menos nueva nuevo vieja viejo antigua
    antiguo corta larga débil fuerte segura seguro inválida inválido válida válido vacía vacío
    igual distinta diferente misma mismo correcta correcto incorrecta incorrecto errónea
    erróneo opcional necesaria necesario obligatoria obligatorio secreta secreto privada
    privado pública público única único sencilla fácil difícil buena mala otra otro cualquiera
    ninguna nula nulo siempre nunca todavía ahora antes después cuando donde cual cuál qué
    cómo solo sólo también tampoco importante sensible aleatoria predeterminada confidencial
    parte cuestión esencial constancia tiempo paciencia trabajo amor vida hoy mañana ayer todo
    nada algo alguien nadie mía tuya suya nuestra vuestra important essential confidential
    ours theirs hers his everything something patience time love
"""
_NOT_SAID = frozenset(_PREDICATES.split())
_TALKED = re.compile(
    r"(?i)(?:ed|ing|able|ible|ive|ous|ful|less|ly|ary|ory|ad[ao]s?|id[ao]s?|mente|ción|sión|tion"
    r"|sion|ry)$"
)
_ENDS = re.compile(
    r"[.,;!?)\"'»”]*(?:[ \t]*(?:$|[\r\n])|[ \t]+(?:and|but|y|pero|ok|vale|please|for|para|since"
    r"|desde|because|porque)\b|[.,;!?)]+\s)"
)
_INNER_SIGN = re.compile(r"[^\W\d_]+[!@#%&*?+_~^]{1,2}[^\W\d_]{2,}[!?]?")
_OWN = re.compile(r"(?i)wi-?fi|wlan|\b(?:mi|my|our|nuestra)[ ](?=pass|contras)")
_PHRASE = re.compile(r"[a-zñáéíóú]{3,12}(?: [a-zñáéíóú]{3,12}){2,11}(?=[.!]?[ \t]*(?:$|[\r\n]))")
_PLAIN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


def is_written(value: str) -> bool:
    """Whether `value` is written as a password is and a word is not: letters and digits."""
    mixed = any(one.isdigit() for one in value) and any(one.isalpha() for one in value)
    return mixed and len(value) >= 5 and not (_MEASURE.fullmatch(value) or _CODE.fullmatch(value))


def spoken_secrets(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the secrets told between `start` and `end` stand; those places are whole lines."""
    for match in _TOLD.finditer(text, start, end):
        if match["quoted"] is not None:
            if _is_quoted_secret(match):
                yield match.span("quoted")
            continue
        first, value = match.start("open"), match["open"].rstrip(".,;:)")
        last = first + len(value)
        if not match["strong"]:
            tells = is_written(value) and _is_mixed(value)
        elif is_written(value) or (match["be"] and _INNER_SIGN.fullmatch(value)):
            tells = True
        else:
            phrase = _PHRASE.match(text, first) if _is_told(match) else None
            tells = _is_told(match) and _is_last_word(text, value, last)
            if phrase is not None and not any(map(_is_said, phrase[0].lower().split())):
                tells, last = True, phrase.end()
        if tells:
            yield first, last
    for match in _CALLED.finditer(text, start, end):
        before = _LAST_WORD.match(text[max(start, match.start() - 100) : match.start()][::-1])
        if before is not None and is_written(before["drow"][::-1]):
            yield match.start() - before.end(), match.start() - before.start("drow")


def _is_quoted_secret(match: re.Match[str]) -> bool:
    value, words = match["quoted"], match["quoted"].lower().split()
    if not (match["strong"] and match["be"]):
        return is_written(value) and (bool(match["strong"]) or _is_mixed(value))
    if len(value) < 4 or not words or _CODE.fullmatch(value):
        return False
    return len(words) > 3 or not (words[0] in _NOT_SAID or _is_said(value.lower()))


def _is_told(match: re.Match[str]) -> bool:
    """Whether a word alone may be the secret: a sentence says so, or a note on a network does."""
    sign, near = match["be"], match.string[max(0, match.start() - 12) : match.end()]
    return bool(sign) and (sign[0] not in ":=-→" or bool(_OWN.search(near)))


def _is_mixed(value: str) -> bool:
    """Whether so many kinds of characters, or so many, are no name that somebody gave a thing."""
    kinds = (str.isupper, str.islower, str.isdigit, lambda one: not one.isalnum())
    return len(value) >= 8 or sum(any(map(kind, value)) for kind in kinds) >= 3


def _is_last_word(text: str, value: str, end: int) -> bool:
    """Whether `value` ends its sentence and is no word by which one talks about passwords."""
    return (
        len(value) >= 4
        and _PLAIN.fullmatch(value) is not None
        and not _is_said(value.lower())
        and _ENDS.match(text, end) is not None
    )


def _is_said(value: str) -> bool:
    parts = value.replace("-", " ").split()
    return len(parts) < 4 and any(one in _NOT_SAID or _TALKED.search(one) for one in parts)
