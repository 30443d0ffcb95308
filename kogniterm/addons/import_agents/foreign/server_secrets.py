"""Secrets that stand in the entries of MCP servers, and the variables to take their place.

A value counts as secret by its shape, or by the name that it is given to: the shapes alone would
miss the keys of smaller services.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kogniterm.text.redact import find_secrets
from kogniterm.text.secret_patterns import NOT_SECRET, STRONG, WEAK

_LONG = 12
"""Characters from which on the value of a bare name may be a secret."""

_HEADER_NAME = re.compile(r"(?i)(?:proxy-)?authorization$|(?:^|[_-])pat$")
_BARE_NAME = re.compile(r"(?i)-*(?:key|keys|auth|sid|pin|salt|session|signature|nonce)")
"""Names that mean a secret only where their value looks like one."""
_NO_SECRET = re.compile(
    r"|true|false|yes|no|on|off|null|none|https?://[^\s@?]*|.*\$\{\w+(?::-[^}]*)?\}.*"
    r"|(?:~|\.{1,2})/[\w./ ~-]*|/[\w.~-]+/[\w./ ~-]*",
    re.IGNORECASE | re.DOTALL,
)
"""Switches, addresses, references and paths."""
_NUMBER = re.compile(r"\d{1,8}")
_ASSIGNED = re.compile(r"(-{0,2}[A-Za-z][\w.-]*)=(.+)", re.DOTALL)
_HEADER = re.compile(r"([A-Za-z][\w-]*)(:\s*)(.+)", re.DOTALL)
_SCHEME = re.compile(r"(?i)((?:bearer|basic|token|digest|apikey)\s+)(.+)", re.DOTALL)
_IN_QUERY = re.compile(r"(?i)([?&][\w.-]*(?:key|token|secret|auth|sig)[\w.-]*=)([^&#\s]+)")


class ServerSecret(NamedTuple):
    """A secret of a server, and the variable that its entry refers to in its place.

    `set` says whether the variable is set in the user's environment, `same` if to this value.
    """

    server: str
    variable: str
    value: str
    set: bool = False
    same: bool = False


def extract_secrets(
    servers: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]
) -> tuple[Mapping[str, Mapping[str, Any]], tuple[ServerSecret, ...]]:
    """Return the servers with references in place of their secrets, and these secrets."""
    names = _Variables(environ)
    made = {name: _ServerEntry(name, names).of(entry) for name, entry in servers.items()}
    return made, tuple(names.secrets.values())


class _Variables:
    """The names given to secrets: the same value gets the same name, and no two values share."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._names = {value: name for name, value in environ.items() if len(value) >= 8}
        self.secrets: dict[tuple[str, str], ServerSecret] = {}

    def sets(self, name: str) -> bool:
        """Return whether the user's environment has a variable of this name."""
        return name in self._environ

    def reference(self, server: str, wanted: str, value: str) -> str:
        """Return the reference that stands for a secret: `wanted` if it is free."""
        known = self._names.get(value, "")
        wanted = re.sub(r"\W+", "_", wanted).strip("_") or "SECRET"
        own = re.sub(r"\W+", "_", f"{server}_{wanted}").strip("_").upper()
        taken = {one.variable: one.value for one in self.secrets.values()}
        choices = [known, wanted, own, *(f"{own}_{number}" for number in range(2, 1000))]
        name = next(one for one in choices if one and taken.get(one, value) == value)
        if name[0].isdigit():
            name = f"_{name}"
        there = self._environ.get(name)
        secret = ServerSecret(server, name, value, there is not None, there == value)
        self.secrets.setdefault((server, name), secret)
        return f"${{{name}}}"


class _ServerEntry:
    """Puts references into one entry."""

    def __init__(self, server: str, names: _Variables) -> None:
        self._server = server
        self._names = names

    def of(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entry with references in place of its secrets."""
        made = dict(entry)
        for key, named in (("env", self._variable), ("headers", self._header)):
            if isinstance(made.get(key), Mapping):
                made[key] = {name: named(name, str(one)) for name, one in made[key].items()}
        sign_in = made.get("oauth")
        if isinstance(sign_in, Mapping) and isinstance(sign_in.get("clientSecret"), str):
            secret = self._value_or_reference("client-secret", sign_in["clientSecret"])
            made["oauth"] = {**sign_in, "clientSecret": secret}
        if isinstance(made.get("args"), list):
            made["args"] = self._arguments([str(one) for one in made["args"]])
        for key in ("url", "command"):
            if isinstance(made.get(key), str):
                made[key] = self._in_text(key, made[key])
        return made

    def _variable(self, name: str, value: str) -> str:
        if is_secret(name, value) or (self._names.sets(name) and find_secrets(value)):
            return self._names.reference(self._server, name, value)
        return self._in_text(name, value)

    def _header(self, name: str, value: str) -> str:
        scheme = _SCHEME.fullmatch(value)
        start, rest = (scheme[1], scheme[2]) if scheme else ("", value)
        if not (scheme or is_secret(name, rest)) or _NO_SECRET.fullmatch(rest):
            return self._in_text(name, value)
        wanted = "TOKEN" if name.lower() == "authorization" else name
        own = f"{self._server}_{wanted}".upper()
        return start + self._names.reference(self._server, own, rest)

    def _arguments(self, words: list[str]) -> list[str]:
        """Return arguments; what stands before a value, in its word or as an option, names it."""
        made: list[str] = []
        option = ""
        for word in words:
            assigned, header = _ASSIGNED.fullmatch(word), _HEADER.fullmatch(word)
            if assigned and is_secret(assigned[1], assigned[2]):
                made.append(f"{assigned[1]}={self._value_or_reference(assigned[1], assigned[2])}")
            elif header and option.lower() in ("-h", "--header"):
                made.append(header[1] + header[2] + self._header(header[1], header[3]))
            elif option and not word.startswith("-") and is_secret(option, word):
                made.append(self._value_or_reference(option, word))
            else:
                made.append(self._in_text("argument", word))
            option = word if word.startswith("-") and not assigned else ""
        return made

    def _value_or_reference(self, option: str, value: str) -> str:
        if _NO_SECRET.fullmatch(value):
            return value
        plain = option.strip("-")
        own = plain if plain.isupper() else f"{self._server}_{plain}".upper().replace("-", "_")
        return self._names.reference(self._server, own, value)

    def _in_text(self, name: str, text: str) -> str:
        """Return a text whose secrets have a shape of their own, with references for them."""
        own = f"{self._server}_{name}_SECRET".upper()

        def put(value: str) -> str:
            return self._names.reference(self._server, own, value)

        text = _IN_QUERY.sub(
            lambda found: found[0] if _NO_SECRET.fullmatch(found[2]) else found[1] + put(found[2]),
            text,
        )
        pieces: list[str] = []
        end = 0
        for secret in find_secrets(text):
            if "${" not in text[secret.start : secret.end]:
                pieces += [text[end : secret.start], put(text[secret.start : secret.end])]
                end = secret.end
        return "".join([*pieces, text[end:]])


def is_secret(name: str, value: str) -> bool:
    """Return whether the value given to a name is to be treated as a secret."""
    if _NO_SECRET.fullmatch(value):
        return False
    if STRONG.search(name) or _HEADER_NAME.search(name):
        return True
    if _BARE_NAME.fullmatch(name):
        return len(value) >= _LONG and any(one.isdigit() for one in value)
    if WEAK.search(name) and not NOT_SECRET.search(name) and not _NUMBER.fullmatch(value):
        return True
    start = len(name) + 2
    found = find_secrets(f'{name}="{value}"')
    return any(one.start <= start and one.end >= start + len(value) for one in found)
