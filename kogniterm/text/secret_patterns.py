"""The shapes of secrets: vendor tokens, contexts that make a value secret, and spoken secrets.

Each shape of a token comes from what its vendor documents or visibly issues. Only the secret part
is matched, so what stays readable (names, hosts, users) stays readable after redaction.

Secrets are also told in sentences, English or Spanish: "the wifi password is …", "el PIN es …". A
sentence that names a password may tell it or only talk about it ("the password is wrong"). What
follows is taken for the secret when it is written as no word is, or when it stands where the
sentence ends and is none of the words by which one talks about passwords.

Numbers of cards, bank accounts and identity documents are distinguished from an order number or a
sum by their issuer's checksum; one without a checksum counts only next to its own name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
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


# --- numbers with a checksum ---

Found = tuple[int, int, str]
"""The start and end of a number, and its kind."""

# Each begins with the class of its first character, so that the search skips to it, and looks
# back past it afterwards.
_DIGITS_FIRST = re.compile(
    r"[0-9](?<![\w.+/-].)(?:"
    r"(?P<payment_card>(?:(?<=[3-6])\d|(?<=2)[2-7])\d\d(?<!\d{4} \d{4})(?:"
    r"(?P<sign>[ -])(?:\d{4}(?P=sign)\d{4}(?P=sign)\d{4}(?! \d{4}\b)|\d{6}(?P=sign)\d{4,5})"
    r"|\d{10,15})(?![\w-]|\.\d))"
    r"|(?P<social_security_number>\d\d-\d\d-\d{4}(?![\w-]))"
    r"|(?P<cpf>\d\d\.\d{3}\.\d{3}-\d\d(?![\w-]))"
    r"|(?P<rut>\d?\.\d{3}\.\d{3}-[\dkK](?![\w-]))"
    r"|(?P<dni>\d{7}-?[A-Za-z](?![\w-])|\d?\.\d{3}\.\d{3}-?[A-Za-z](?![\w-]))"
    r"|(?P<cuit>(?:(?<=2)[0347]|(?<=3)[034])-\d{8}-\d(?![\w-]))"
    r"|(?P<nir>(?<=[12]) ?\d\d ?(?:0[1-9]|1[0-2]) ?\d[\dAB] ?\d{3} ?\d{3} ?\d\d(?![\w-]))"
    r")"
)
_LETTERS_FIRST = re.compile(
    r"[A-Za-z](?<![A-Za-z0-9_/+-].)(?:"
    r"(?P<iban>[A-Za-z]\d\d[ -]?[A-Za-z0-9]{4}[ -]?[A-Za-z0-9][A-Za-z0-9 -]{6,33})"
    r"|(?P<nie>(?<=[XYZxyz])-?\d{7}-?[A-Za-z](?![\w-]))"
    r"|(?P<curp>[A-Z]{3}\d{6}[HMX][A-Z]{5}[A-Z0-9]\d(?![\w-]))"
    r"|(?P<codice_fiscale>[A-Z]{5}\d\d[ABCDEHLMPRST]\d\d[A-Z]\d{3}[A-Z](?![\w-]))"
    r")"
)
_IBAN_LENGTHS = dict(
    re.findall(
        r"([A-Z]{2})(\d\d)",
        "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BR29BY28CH21CR22CY28CZ24DE22DK18DO28EE20EG29ES24FI18"
        "FO18FR27GB22GE22GI23GL18GR27GT28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20"
        "LU20LV21MC27MD24ME22MK19MR27MT31MU30NL18NO15PK24PL28PS29PT25QA29RO24RS22SA24SC31SE24SI19"
        "SK24SM27ST25SV28TL23TN24TR26UA29VA22VG24XK20",
    )
)
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_ODD_PLACES = (
    *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18),
    *(20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
)


def identity_numbers(text: str) -> Iterator[Found]:
    """Yield the cards, accounts and identity numbers of `text` whose checksum holds."""
    for pattern in (_DIGITS_FIRST, _LETTERS_FIRST):
        for match in pattern.finditer(text):
            kind, start = match.lastgroup or "", match.start()
            length = _CHECKS[kind](match[0].upper())
            if length:
                yield start, start + length, kind


def _digits(text: str) -> str:
    return "".join(one for one in text if one.isdigit())


def luhn_holds(digits: str) -> bool:
    """Return whether the last digit is the check digit of ISO/IEC 7812."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 * (value > 9)
    return total % 10 == 0


def _card(text: str) -> int:
    """Return the length of `text` if it is a card number, else 0."""
    digits = _digits(text)
    sizes = (15,) if digits[:2] in ("34", "37") else (14,) if digits[:2] in _DINERS else (16, 19)
    fits = len(digits) in sizes and len(set(digits)) > 1
    return len(text) if fits and luhn_holds(digits) else 0


_DINERS = ("30", "36", "38", "39")


def _iban(text: str) -> int:
    wanted, at = int(_IBAN_LENGTHS.get(text[:2], 0)), 0
    account = ""
    for at, one in enumerate(text):  # noqa: B007  # where it ended is what is asked
        if one not in " -":
            account += one
            if len(account) == wanted:
                break
    else:
        return 0
    if text[at + 1 : at + 2].isalnum():
        return 0
    number = "".join(str(int(one, 36)) for one in account[4:] + account[:4])
    return at + 1 if int(number) % 97 == 1 else 0


def _dni(text: str) -> int:
    return len(text) if _DNI_LETTERS[int(_digits(text)) % 23] == text[-1] else 0


def _nie(text: str) -> int:
    number = int(f"{'XYZ'.index(text[0])}{_digits(text)}")
    return len(text) if _DNI_LETTERS[number % 23] == text[-1] else 0


def _social_security(text: str) -> int:
    area, group, serial = text.split("-")
    issued = area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"
    return len(text) if issued else 0


def _weighted_sum(digits: Sequence[str], weights: Sequence[int]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True))


def _cpf(text: str) -> int:
    digits = _digits(text)
    first = _weighted_sum(digits[:9], range(10, 1, -1)) * 10 % 11 % 10
    second = _weighted_sum(digits[:10], range(11, 1, -1)) * 10 % 11 % 10
    holds = digits[9:] == f"{first}{second}" and len(set(digits)) > 1
    return len(text) if holds else 0


def _rut(text: str) -> int:
    digits = _digits(text[:-1])
    total = _weighted_sum(digits[::-1], [2 + place % 6 for place in range(len(digits))])
    if "0K987654321"[total % 11] == text[-1].upper():
        return len(text)
    return _dni(text) if text[-1] == "K" else 0


def _cuit(text: str) -> int:
    digits = _digits(text)
    check = -_weighted_sum(digits[:10], (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return len(text) if check == int(digits[10]) else 0


def _nir(text: str) -> int:
    number = text.replace(" ", "").replace("2A", "19").replace("2B", "18")
    holds = number.isdigit() and 97 - int(number[:13]) % 97 == int(number[13:])
    return len(text) if holds else 0


def _curp(text: str) -> int:
    values = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    total = sum(values.index(one) * (18 - place) for place, one in enumerate(text[:17]))
    return len(text) if str(-total % 10) == text[17] else 0


def _codice_fiscale(text: str) -> int:
    total = 0
    for place, one in enumerate(text[:15]):
        value = int(one) if one.isdigit() else ord(one) - ord("A")
        total += value if place % 2 else _ODD_PLACES[value]
    return len(text) if chr(ord("A") + total % 26) == text[15] else 0


_CHECKS: dict[str, Callable[[str], int]] = {
    "payment_card": _card,
    "social_security_number": _social_security,
    "dni": _dni,
    "cpf": _cpf,
    "rut": _rut,
    "cuit": _cuit,
    "nir": _nir,
    "iban": _iban,
    "nie": _nie,
    "curp": _curp,
    "codice_fiscale": _codice_fiscale,
}
