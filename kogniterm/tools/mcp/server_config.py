"""MCP servers as users configure them: the `mcpServers` shape that terminal agents share.

The fields are those of Claude Code's `.mcp.json`; `httpUrl`, `includeTools`, `excludeTools` and
`trust` are gemini-cli's, `enabled` and `environment` those of codex and opencode. Nothing of an
entry is executed or resolved here: `${NAME}` is filled in when a server is started.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kogniterm.errors import SettingsError, UnusableValueError
from kogniterm.settings.user_files import json_values
from kogniterm.text.shorten import one_line
from kogniterm.text.spelling import closest_word
from kogniterm.types import Phrase

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
CALL_SECONDS = 300.0
"""Time limit of a call without one of its own; progress of the server extends it."""
START_SECONDS = 60.0
"""Time limit of a start: `npx` and `uvx` may download the server first."""
MAX_SERVERS = 100
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_LOCAL_ONLY = frozenset({
    "command", "args", "env", "environment", "cwd", "sandbox", "network", "own_home",
})  # fmt: skip
_REMOTE_ONLY = frozenset({"url", "httpUrl", "headers", "oauth", "insecure"})
_BOTH = frozenset({
    "type", "transport", "timeout", "startup_timeout", "enabled", "disabled", "includeTools",
    "excludeTools", "description", "trust", "alwaysAllow",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class OAuthConfig:
    """The known details of a sign-in to a server; all of them can be left to discovery."""

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = ()
    callback_port: int = 0


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One MCP server. It is local (`command`) or remote (`url`).

    `env` and `headers` may hold `${NAME}`. Times are in seconds. `network` lets a local server use
    the network from within the sandbox; with `sandbox` False it runs outside, which only the
    user's own file may say. `include` are the only tools offered, if any; `exclude` never are.
    """

    name: str
    origin: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    oauth: OAuthConfig = field(default_factory=OAuthConfig)
    insecure: bool = False
    timeout: float = CALL_SECONDS
    startup_timeout: float = START_SECONDS
    enabled: bool = True
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    sandbox: bool = True
    network: bool = False
    of_project: bool = False
    own_home: bool = False

    @property
    def local(self) -> bool:
        """Return whether it is a program of this machine."""
        return bool(self.command)

    @property
    def shown(self) -> str:
        """Return the command line or the address, for the screen."""
        return " ".join((self.command, *self.args)) if self.local else self.url

    @property
    def launch(self) -> Mapping[str, Any]:
        """Return what the user trusts of it: how it is reached, and the names that it gets."""
        if not self.local:
            return {"url": self.url, "headers": sorted(self.headers), "insecure": self.insecure}
        return {
            "command": self.command,
            "args": list(self.args),
            "env": sorted(self.env),
            "cwd": self.cwd,
            "network": self.network,
            "sandbox": self.sandbox,
            **({"own_home": True} if self.own_home else {}),
        }

    def missing(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the names of variables that it needs and `environ` does not have."""
        names: list[str] = []
        self._fill_text(environ, names)
        return tuple(dict.fromkeys(names))

    def resolve(self, environ: Mapping[str, str]) -> ServerConfig:
        """Return it with every `${NAME}` filled in. Raises `UnusableValueError` without one."""
        names: list[str] = []
        made = self._fill_text(environ, names)
        if names:
            raise UnusableValueError(
                "{names} not set in your environment", names=", ".join(dict.fromkeys(names))
            )
        return made

    def _fill_text(self, environ: Mapping[str, str], missing: list[str]) -> ServerConfig:
        def put(text: str) -> str:
            return _fill_text(text, environ, missing)

        return replace(
            self,
            command=put(self.command),
            args=tuple(map(put, self.args)),
            env={name: put(value) for name, value in self.env.items()},
            cwd=put(self.cwd),
            url=put(self.url),
            headers={name: put(value) for name, value in self.headers.items()},
            oauth=replace(self.oauth, client_secret=put(self.oauth.client_secret)),
        )

    def offers(self, tool: str) -> bool:
        """Return whether its configuration lets a tool of it be offered."""
        return tool not in self.exclude and (not self.include or tool in self.include)


class Servers(NamedTuple):
    """The servers of one file, and a sentence about each entry that cannot be used."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[Phrase, ...] = ()


def parse_servers(text: str, origin: str, *, of_project: bool = False) -> Servers:
    """Return the servers in the JSON `text` of a file, which is named in messages as `origin`.

    A wrong entry is a problem, and the others are used; so is a text that is no such JSON at all.
    """
    try:
        data = json_values(origin, text if text.strip("\ufeff \n") else "{}").data
    except SettingsError as error:
        return Servers((), (error.text,))
    entries = data.get("mcpServers", {})
    if not isinstance(entries, dict):
        what = {"file": origin}
        return Servers(
            (), (Phrase("{file} needs an object mcpServers with a name for each server.", what),)
        )
    found: list[ServerConfig] = []
    problems: list[Phrase] = []
    for name, entry in list(entries.items())[:MAX_SERVERS]:
        try:
            found.append(parse_server(name, entry, origin, of_project=of_project))
        except UnusableValueError as error:
            problems.append(
                Phrase(
                    "MCP server {name} in {file} is not used: {why}.",
                    {"name": one_line(name, 60), "file": origin, "why": error.text},
                )
            )
    return Servers(tuple(found), tuple(problems))


def parse_server(
    name: str, entry: object, origin: str = "", *, of_project: bool = False
) -> ServerConfig:
    """Return the server of one entry. Raises `UnusableValueError` that says what is wrong."""
    if not NAME.fullmatch(name) or "__" in name:
        raise UnusableValueError(
            "its name must be up to 63 letters, digits, dots, - or _ (not two together)"
        )
    if not isinstance(entry, dict):
        raise UnusableValueError("it must be an object with a command or a url")
    reader = _Entry(entry)
    command, url = reader.text("command"), reader.text("url") or reader.text("httpUrl")
    if bool(command) == bool(url):
        raise UnusableValueError("it needs either a command or a url")
    reader.check_names(remote=bool(url))
    if url and not re.match(r"https?://[^\s/]", url):
        raise UnusableValueError("its url must begin with https:// or http://")
    if "/" in command and command[0] not in "/~" and not (of_project or reader.text("cwd")):
        # It would be another program in each folder, of whoever wrote that.
        raise UnusableValueError("its command must be a name, or a path that begins with /")
    sandbox = reader.flag("sandbox", default=True)
    if of_project and not sandbox:
        raise UnusableValueError("only your own mcp.json may let a server run outside the sandbox")
    return ServerConfig(
        name, origin, command, reader.words("args"),
        {**reader.texts("environment"), **reader.texts("env")},
        reader.text("cwd"), url, reader.texts("headers"), reader.oauth(),
        reader.flag("insecure", default=False), reader.seconds("timeout", CALL_SECONDS),
        reader.seconds("startup_timeout", START_SECONDS),
        reader.flag("enabled", default=True) and not reader.flag("disabled", default=False),
        reader.words("includeTools"), reader.words("excludeTools"),
        sandbox, reader.flag("network", default=False), of_project,
        reader.flag("own_home", default=False),
    )  # fmt: skip


class _Entry:
    """Reads the fields of one entry, each with its type."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._entry = entry

    def check_names(self, *, remote: bool) -> None:
        """Raise `UnusableValueError` for a field that there is not, or not for such a server."""
        known = _BOTH | (_REMOTE_ONLY if remote else _LOCAL_ONLY)
        for name in self._entry:
            if name in known or name in _LOCAL_ONLY | _REMOTE_ONLY:
                continue
            near = closest_word(name, sorted(known))
            if near:
                raise UnusableValueError(
                    "there is no field {name} (did you mean {near}?)", name=name, near=near
                )

    def text(self, name: str) -> str:
        value = self._entry.get(name, "")
        if not isinstance(value, str) or "\0" in value:
            raise UnusableValueError("{field} must be text", field=name)
        return value.strip()

    def words(self, name: str) -> tuple[str, ...]:
        value = self._entry.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str | int) for one in value):
            raise UnusableValueError("{field} must be a list of texts", field=name)
        return tuple(str(one) for one in value)

    def texts(self, name: str) -> Mapping[str, str]:
        value = self._entry.get(name, {})
        if not isinstance(value, dict) or not all(
            isinstance(one, str | int | float) and "\0" not in str(one) for one in value.values()
        ):
            raise UnusableValueError("{field} must be an object of texts", field=name)
        return {str(key): str(one) for key, one in value.items()}

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._entry.get(name, default)
        if not isinstance(value, bool):
            raise UnusableValueError("{field} must be true or false", field=name)
        return value

    def seconds(self, name: str, default: float) -> float:
        value = self._entry.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
            raise UnusableValueError("{field} must be a number of seconds", field=name)
        return float(value)

    def oauth(self) -> OAuthConfig:
        value = self._entry.get("oauth", {})
        if not isinstance(value, dict):
            raise UnusableValueError("{field} must be an object", field="oauth")
        inner = _Entry(value)
        port = value.get("callbackPort", 0)
        if not isinstance(port, int) or not 0 <= port < 65_536:
            raise UnusableValueError("{field} must be a port", field="oauth.callbackPort")
        return OAuthConfig(
            inner.text("clientId"), inner.text("clientSecret"), inner.words("scopes"), port
        )


def _fill_text(text: str, environ: Mapping[str, str], missing: list[str]) -> str:
    """Return `text` with `${NAME}` and `${NAME:-default}` filled in from `environ`.

    Names without a value are added to `missing`.
    """

    def value(found: re.Match[str]) -> str:
        known = environ.get(found[1]) or found[2]
        if known is None:
            missing.append(found[1])
            return ""
        return known

    return _VARIABLE.sub(value, text)
