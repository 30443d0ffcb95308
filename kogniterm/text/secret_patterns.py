"""The shapes of secrets: vendor tokens, contexts that make a value secret, and spoken secrets.

Each shape of a token comes from what its vendor documents or visibly issues. Only the secret part
is matched, so what stays readable (names, hosts, users) stays readable after redaction.

Secrets are also told in sentences, English or Spanish: "the wifi password is …", "el PIN es …". A
sentence that names a password may tell it or only talk about it ("the password is wrong"). What
follows is taken for the secret when it is written as no word is, or when it stands where the
sentence ends and is none of the words by which one talks about passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

from kogniterm.text.language import word_list

_SHAPES = Path(__file__).parent / "secret_shapes"


def _rows(name: str) -> list[list[str]]:
    """Return the rows of a table: kind, words, pattern."""
    lines = (_SHAPES / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("# ")]


_VENDOR_TOKENS = _rows("tokens")


@cache
def vendor_tokens(start: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the kinds of token that may begin like `start`, a match of `VENDOR_WORDS`.

    All kinds for "". Each has its pattern, for `match` where one may start. Most texts have a few
    starts and no token, so only the patterns of these are made.
    """
    return tuple(
        (kind, _token(pattern))
        for kind, words, pattern in _VENDOR_TOKENS
        if not start
        or any(word.startswith(start) or start.startswith(word) for word in words.split())
    )


@cache
def _token(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9_])(?=[A-Za-z0-9])(?:{pattern})")


def _starts() -> Iterator[str]:
    """Yield one alternative a first letter: a search skips to it, then looks back past it."""
    words = sorted({word for _, starts, _ in _VENDOR_TOKENS for word in starts.split()})
    for letter, same in groupby(words, key=lambda word: word[0]):
        rests = "|".join(re.escape(word[1:]) for word in same)
        yield f"{letter}(?<![A-Za-z0-9_].)(?:{rests})"


VENDOR_WORDS = re.compile("|".join(_starts()))
"""The words that vendors' tokens begin with: far quicker than trying every shape at every word."""
VENDOR_DIGITS = re.compile(
    r"[0-9a-fMNO](?<![A-Za-z0-9_].)"
    r"(?:[0-9a-f]{31}-|(?<=[MNO])[A-Za-z\d_-]{23,27}\.|\d{7,9}:AA)"
)
"""The beginnings of those that begin with no word."""

_QUOTE = r"[\"']?"
_PIECES = {
    "PEM": (
        r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
        r"(?P<s>(?:\r?\n[A-Za-z0-9+/=]{1,64}){1,2}\r?\n(?=-{4,5} ?END )"
        r"|(?:\s{0,4}[A-Z][\w-]{2,20}: [^\n]{0,200}(?=\n)){0,6}(?=[^-]{0,200}[A-Za-z0-9+/]{16})"
        r"[^-]{16,20000}(?:-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5})?)"
    ),
    "LINE": r"[^\n|;]{0,200}?",
    "QUOTE": _QUOTE,
    "SECRET_FLAG": (
        r"(?:[a-z-]{0,30}(?:password|passwd|passphrase|secret|token|api-?key|access-key"
        r"|secret-key|auth-?key|private-key|storepass|keypass))"
    ),
    "SECRET_PARAMETER": (
        r"(?:access_token|api_?key|key|token|sig|signature|auth|password|secret|client_secret"
        r"|x-amz-signature|x-amz-security-token|x-goog-signature|code)"
    ),
    "SESSION": (
        r"(?:[a-z_.-]{0,20}sess(?:ion)?_?(?:id|key|token)?|phpsessid|jsessionid|connect\.sid"
        r"|csrf_?token|xsrf-token|remember_token|refresh_token|id_token)"
    ),
    "BETWEEN": r"(?:[ \t]+(?!(?:is|es|era|was)\b)[^\s\d.;:=!?,\"]{1,20}){0,6}?",
    "IS": rf"{_QUOTE}\s{{0,3}}(?:(?:is|es|era|was)\b(?: el| la| the)?|[:=#-])?\s{{0,3}}{_QUOTE}",
    "IS_SAID": (
        rf"{_QUOTE}\s{{0,3}}(?:(?:is|es|era|was)(?: now| ahora| el| la| the)?:?(?= )|:)"
        rf"\s{{0,3}}{_QUOTE}"
    ),
}
"""Parts of the patterns in the table of contexts, where each stands as %NAME%."""


@cache
def context_pattern(pattern: str) -> re.Pattern[str]:
    """Return a pattern of `CONTEXTS`. Most texts have the words of none, so none is made before."""
    return re.compile(re.sub("%([A-Z_]+)%", lambda piece: _PIECES[piece[1]], pattern))


CONTEXTS = tuple(
    (kind, ("private key",) if kind == "private_key" else tuple(words.split()), pattern)
    for kind, words, pattern in _rows("contexts")
)
"""Surroundings that make a value secret: kind, words to look for first, pattern.

`context_pattern` compiles the pattern.
"""

SURE = frozenset({"private_key", "slack_webhook", "discord_webhook", "password_hash", "aws_secret"})
"""Contexts so particular that a value looking like a placeholder is still hidden."""

STRONG = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase)?|pwd|(?:\b|_)pw|secret|(?:api|secret|access|private|auth|master"
    r"|encryption|signing|account|storage|shared|service|license|deploy|app|webhook|session|hmac"
    r"|jwt|consumer|client)[_-]?key|credentials?|auth[_-]?token|access[_-]?token|refresh[_-]?token"
    r"|bearer[_-]?token|api[_-]?token|bot[_-]?token|client[_-]?secret|_authtoken|_auth|_password"
    r"|salt|pin(?:code)?|seed[_-]?phrase|dsn|(?:\b|_)psk|contrase(?:ñ|n\u0303?)a(?:[_-]\w{1,20})?"
    r"|(?:^|[_.-])clave[_-](?:secreta|privada|maestra|api)|cvv2?|cvc2?)$"
)
WEAK = re.compile(
    r"(?i)(?:token|auth|key|keys|apikey|sid|cookie|session|credential|nonce|signature|secret\w*"
    r"|_pat)$"
)
KEY_OR_PASSWORD = re.compile(r"(?i)(?:^|[_.-])clave(?:[_-]\w{1,20})?$")
"""Names that mean a password as often as the key of a table."""
NOT_SECRET = re.compile(
    r"(?i)(?:public|publishable|primary|foreign|cache|sort|partition|hash|object|map|unique|index"
    r"|group|row|translation|registry|idempotency|page|next|continuation|hot|short|storage_class"
    r"|lookup|dict|s3|bucket|fingerprint)[_.-]?(?:key|keys|token|id)$|(?:max|min|num|total|input"
    r"|output|prompt|completion|cached)[_-]?tokens?$|tokens$|secretsmanager$|monkey$|turkey$"
    r"|hockey$|keybinding|^(?:key|keys|auth|sid|pin|salt|session|signature|nonce)$"
)
HOT = re.compile(
    r"(?i)pass|pwd|pw\b|secret|key|token|auth|cred|salt|pin|dsn|cookie|sess|sid|nonce|sign|seed"
    r"|_pat|psk|contrase|clave"
)
OPERATOR = re.compile(r"=>|:=|==|[=:]")
NAME_REVERSED = re.compile(
    r"[ \t]{0,20}[\"'`]?\\?(?:\][\"'\w]{1,30}\[)?(?P<eman>[\w.-]{0,60}[A-Za-z_$])"
)
"""Matches the reversed text before an operator: matching backwards keeps the search linear."""
VALUE_AFTER = re.compile(
    r"[ \t]{0,20}(?:(?P<q>\\?[\"'`])(?P<quoted>[^\"'`\r\n]{3,4000}?)(?P=q)"
    r"|(?P<open>[^\s\"'`,;&|<>(){}\[\]]{4,4000})(?P<after>[(\[]?))"
)

_WORDS = (
    "true|false|null|none|nil|undefined|yes|no|on|off|required|optional|string|str|int|integer|bool"
    "|boolean|text|password|passwd|secret|token|key|value|default|empty|unset|hidden|masked"
    "|redacted|removed"
    "|changeme|change_me|change-me|replaceme|todo|fixme|tbd|n/a|example|sample|test|dummy"
    "|fake|foo|bar|foobar"
    "|placeholder|insert|username|user|admin|root|localhost|env|environ|vault|prompt|stdin"
    "|file|keyring"
    "|type|name|self|this|any|object|function|expired|invalid|missing|incorrect|correct|wrong"
    "|denied|accepted"
    "|basic|bearer|digest|oauth|oauth2|enabled|disabled|auto|manual|sha256|sha1|md5|rsa"
    "|ed25519|hmac|aes"
)
PLACEHOLDER = re.compile(
    rf"(?i)^(?:(?:{_WORDS})$|[x*•.#_-]+$|(.)\1+$"
    r"|.*(?:\byour\b|your[_-]|[_-]here$|change[_-]?me|replace[_-]?(?:me|with)|<[^>]*>|\.\.\.|…"
    r"|\*{3,}|(?:^|[_-])x{4,}|placeholder|redacted|^secret_\d+$|example[_-](?:key|token|secret|password)"
    r"|insert[_-]|dummy|todo|\[secret:(?:\w+-)?\d+\])|!\w+|[$%]\{?\{?[\w.]+|\{\{.*|\$\(.*|%\(.*|@\w+\(|<.*"
    r"|process\.env.*|os\.(?:environ|getenv).*|env[.:(].*|(?:arn|urn|vault|secret|ssm|op|file"
    r"|https?)://?.*|arn:.*)"
)


SPOKEN_WORDS = (
    "password", "passphrase", "passcode", "passwd", "contrase", "clave", "frase de paso", "token",
    "secret", "credential", "credencial", "api key", " pass ", "pw is", "key is", "wifi", "wi-fi",
    "llave",
)  # fmt: skip
"""Lower-case words of which every line with a spoken secret holds one."""

_SURE_NAME = (
    r"key[ ](?:for|to|of)[ ](?:the|our|my)[ ](?:wi-?fi|network|router)|(?:secret|seed"
    r"|recovery)[ ]phrase|frase[ ](?:secreta|semilla)|pass[ -]?(?:word|phrase|code)|passwd"
    r"|(?:wi-?fi|wlan|network|router)[ ]key|contrase(?:ñ|n\u0303?)a|frase[ ]de[ ]paso"
    r"|palabra[ ]de[ ]paso|mi[ ]clave|clave[ ]de[ ](?:acceso|entrada|usuario|red|(?:la[ ])?wi-?fi)"
    r"|clave[ ]del?[ ](?:(?:el|la|mi|su)[ ])?(?:wi-?fi|router|correo|banco|portátil|ordenador"
    r"|servidor)"
)
_DOUBTFUL_NAME = (
    r"pass|pwd?|clave|llave[ ]de[ ](?:la[ ])?api|token|secret|secreto|credentials?"
    r"|credencial(?:es)?|(?:api|access|secret|license|licence|account|encryption|ssh|deploy)[ ]key"
)
_VALUE = (
    r"(?:[\"'`«“](?P<quoted>[^\"'`«»“”\r\n]{3,80})[\"'`»”]"
    r"|(?P<open>[^\s\"'`«»“”<>|$%{}\[\]\\][^\s\"'`«»“”<>|]{2,200}))"
)
_BE = r"(?:is|was|are|es|era|será|son)"
_TOLD = (
    rf"(?i)\b(?:(?P<strong>{_SURE_NAME})|(?P<weak>{_DOUBTFUL_NAME}))\b(?:[\"`»]|'(?!s\b))?"
    rf"(?:[ \t]+(?!{_BE}\b|to\b|a\b|por\b)[^\s.;:=!?,\"<>|(){{}}]{{1,30}}){{0,7}}?"
    rf"[ \t]*(?:(?P<be>\b{_BE}(?:[ ](?:now|still|ahora|todavía|siempre|simply|just))?[ ]?:?"
    rf"|'s\b|:=|=>|->|→|[:=])[ \t]*"
    rf"|[ \t](?P<to>to|a|por)[ \t]+|,?[ \t](?=[^\s\d]{{0,40}}\d)){_VALUE}"
)
_CALLED = (
    r"(?i)[ \t](?:(?:is|es|was|era)[ ](?:my|our|the|mi|nuestra|la)|(?:as|como|de|for)"
    r"(?:[ ](?:the|my|your|our|its|a|la|mi|tu|su|nuestra))?)"
    rf"[ ](?:[\w-]{{1,20}}[ ]){{0,2}}?(?:{_SURE_NAME}|clave)\b"
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
_NOT_SAID = frozenset(word for line in word_list("about_passwords") for word in line)
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
    """Return whether `value` is written as a password is and a word is not: letters and digits."""
    mixed = any(one.isdigit() for one in value) and any(one.isalpha() for one in value)
    return mixed and len(value) >= 5 and not (_MEASURE.fullmatch(value) or _CODE.fullmatch(value))


@cache
def _spoken(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def spoken_secrets(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the secrets told in the lines from `start` to `end`."""
    for match in _spoken(_TOLD).finditer(text, start, end):
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
    for match in _spoken(_CALLED).finditer(text, start, end):
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
    """Return whether a sentence, or a note on a network, says that a single word is the secret."""
    sign, near = match["be"], match.string[max(0, match.start() - 12) : match.end()]
    return bool(sign) and (sign[0] not in ":=-→" or bool(_OWN.search(near)))


def _is_mixed(value: str) -> bool:
    """Return whether `value` is too long, or of too many kinds of characters, for a name."""
    kinds = (str.isupper, str.islower, str.isdigit, lambda one: not one.isalnum())
    return len(value) >= 8 or sum(any(map(kind, value)) for kind in kinds) >= 3


def _is_last_word(text: str, value: str, end: int) -> bool:
    """Return whether `value` ends its sentence and is not a word about passwords."""
    return (
        len(value) >= 4
        and _PLAIN.fullmatch(value) is not None
        and not _is_said(value.lower())
        and _ENDS.match(text, end) is not None
    )


def _is_said(value: str) -> bool:
    parts = value.replace("-", " ").split()
    return len(parts) < 4 and any(one in _NOT_SAID or _TALKED.search(one) for one in parts)
