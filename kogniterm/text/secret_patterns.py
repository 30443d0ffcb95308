"""The shapes of secrets: one table of vendor tokens, and the contexts that make a value secret.

Each shape comes from what its vendor documents or visibly issues. Only the secret part is
matched, so what stays readable (names, hosts, users) stays readable after redaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

_SHAPES = Path(__file__).parent / "secret_shapes"


def _rows(name: str) -> list[list[str]]:
    """The rows of a table: kind, words, pattern."""
    lines = (_SHAPES / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("# ")]


_VENDOR_TOKENS = _rows("tokens")

VENDOR = re.compile(
    r"(?<![A-Za-z0-9_])(?=[A-Za-z0-9])(?:"
    + "|".join(f"(?P<{k}>{p})" for k, _, p in _VENDOR_TOKENS)
    + ")"
)
"""The tokens themselves, for `match` where one may start."""


def _starts() -> Iterator[str]:
    """One alternative a first letter: a search skips to it, then looks back past it."""
    words = sorted({word for _, starts, _ in _VENDOR_TOKENS for word in starts.split()})
    for letter, same in groupby(words, key=lambda word: word[0]):
        rests = "|".join(re.escape(word[1:]) for word in same)
        yield f"{letter}(?<![A-Za-z0-9_].)(?:{rests})"


VENDOR_STARTS = (
    re.compile("|".join(_starts())),
    re.compile(
        r"[0-9a-fMNO](?<![A-Za-z0-9_].)"
        r"(?:[0-9a-f]{31}-|(?<=[MNO])[A-Za-z\d_-]{23,27}\.|\d{7,9}:AA)"
    ),
)
"""Where a vendor's token may start: far quicker than trying every shape at every word."""

_PEM = (
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    r"(?P<s>(?:\r?\n[A-Za-z0-9+/=]{1,64}){1,2}\r?\n(?=-{4,5} ?END )"
    r"|(?:\s{0,4}[A-Z][\w-]{2,20}: [^\n]{0,200}(?=\n)){0,6}(?=[^-]{0,200}[A-Za-z0-9+/]{16})"
    r"[^-]{16,20000}(?:-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5})?)"
)
_LINE = r"[^\n|;]{0,200}?"
_QUOTE = r"[\"']?"
_SECRET_FLAG = (
    r"(?:[a-z-]{0,30}(?:password|passwd|passphrase|secret|token|api-?key|access-key"
    r"|secret-key|auth-?key|private-key|storepass|keypass))"
)
_SECRET_PARAMETER = (
    r"(?:access_token|api_?key|key|token|sig|signature|auth|password|secret|client_secret"
    r"|x-amz-signature|x-amz-security-token|x-goog-signature|code)"
)
_SESSION = (
    r"(?:[a-z_.-]{0,20}sess(?:ion)?_?(?:id|key|token)?|phpsessid|jsessionid|connect\.sid"
    r"|csrf_?token|xsrf-token|remember_token|refresh_token|id_token)"
)

_BETWEEN = r"(?:[ \t]+(?!(?:is|es|era|was)\b)[^\s\d.;:=!?,\"]{1,20}){0,6}?"
_IS = rf"{_QUOTE}\s{{0,3}}(?:(?:is|es|era|was)\b(?: el| la| the)?|[:=#-])?\s{{0,3}}{_QUOTE}"
_IS_SAID = (
    rf"{_QUOTE}\s{{0,3}}(?:(?:is|es|era|was)(?: now| ahora| el| la| the)?:?(?= )|:)"
    rf"\s{{0,3}}{_QUOTE}"
)

_PIECES = {
    "PEM": _PEM,
    "LINE": _LINE,
    "QUOTE": _QUOTE,
    "SECRET_FLAG": _SECRET_FLAG,
    "SECRET_PARAMETER": _SECRET_PARAMETER,
    "SESSION": _SESSION,
    "BETWEEN": _BETWEEN,
    "IS": _IS,
    "IS_SAID": _IS_SAID,
}


def _whole(pattern: str) -> str:
    return re.sub("%([A-Z_]+)%", lambda piece: _PIECES[piece[1]], pattern)


CONTEXTS = tuple(
    (
        kind,
        ("private key",) if kind == "private_key" else tuple(words.split()),
        re.compile(_whole(pattern)),
    )
    for kind, words, pattern in _rows("contexts")
)
"""What makes a value secret by what stands round it: kind, words to look for first, pattern."""

SURE = frozenset({"private_key", "slack_webhook", "discord_webhook", "password_hash", "aws_secret"})
"""Contexts so particular that a value looking like a placeholder is still hidden."""

STRONG = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase)?|pwd|(?:\b|_)pw|secret|(?:api|secret|access|private|auth|master"
    r"|encryption|signing"
    r"|account|storage|shared|service|license|deploy|app|webhook|session|hmac|jwt|consumer|client)"
    r"[_-]?key|credentials?|auth[_-]?token|access[_-]?token|refresh[_-]?token|bearer[_-]?token"
    r"|api[_-]?token|bot[_-]?token|client[_-]?secret|_authtoken|_auth|_password|salt"
    r"|pin(?:code)?|seed[_-]?phrase|dsn|(?:\b|_)psk|contrase(?:ñ|n\u0303?)a(?:[_-]\w{1,20})?"
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
    r"|group"
    r"|row|translation"
    r"|registry|idempotency|page|next|continuation|hot|short|storage_class|lookup|dict|s3"
    r"|bucket|fingerprint)"
    r"[_.-]?(?:key|keys|token|id)$|(?:max|min|num|total|input|output|prompt|completion"
    r"|cached)[_-]?tokens?$"
    r"|tokens$|secretsmanager$|monkey$|turkey$|hockey$|keybinding|^(?:key|keys|auth|sid|pin|salt"
    r"|session"
    r"|signature|nonce)$"
)
HOT = re.compile(
    r"(?i)pass|pwd|pw\b|secret|key|token|auth|cred|salt|pin|dsn|cookie|sess|sid|nonce|sign|seed"
    r"|_pat"
    r"|psk|contrase|clave"
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
    r"|\*{3,}|(?:^|[_-])x{4,}"
    r"|placeholder|redacted|example[_-](?:key|token|secret|password)|insert[_-]|dummy|todo"
    r"|\[secret:\d+\])"
    r"|!\w+|[$%]\{?\{?[\w.]+|\{\{.*|\$\(.*|%\(.*|@\w+\(|<.*|process\.env.*|os\.(?:environ"
    r"|getenv).*|env[.:(].*"
    r"|(?:arn|urn|vault|secret|ssm|op|file|https?)://?.*|arn:.*)"
)
