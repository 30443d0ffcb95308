"""Local MCP servers as processes: which program, with which environment, in which sandbox."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from kogniterm.approval import sandbox_failure
from kogniterm.errors import ExecutionError, ToolError
from kogniterm.execution.process.confined_program import ConfinedProgram
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.execution.shell.shell_state import UNCACHED
from kogniterm.host.programs import find_user_program
from kogniterm.runtime.trust.plugin_folders import PROJECT
from kogniterm.storage.folders import expand_path, private_folder
from kogniterm.tools.mcp.server_config import ServerConfig
from kogniterm.types import Phrase

_BASE = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER", PROJECT)
"""Variables that a server gets besides those of its entry; none of them is a secret."""
_NETWORK = re.compile(
    r"(?i:https?|all|no)_(?i:proxy)|SSL_CERT_(?:FILE|DIR)|(?:REQUESTS|CURL)_CA_BUNDLE|PIP_CERT"
    r"|NODE_EXTRA_CA_CERTS|GIT_SSL_CAINFO|npm_config_cafile"
)
"""Variables of proxies and certificates, for a server that may use the network."""
_CACHES = {
    "npm_config_cache": "npm",
    "UV_CACHE_DIR": "uv",
    "UV_TOOL_DIR": "uv-tools",
    "PIP_CACHE_DIR": "pip",
    "XDG_CACHE_HOME": "cache",
}
"""The folders of programs that download servers: the rest of the home is not writable."""
_PIECE = 1 << 16
_CONFINED = Phrase("{reason} in the sandbox")
_OFFLINE = Phrase("{reason} in the sandbox, without network")
_READ_ONLY = Phrase(
    '{reason} in the sandbox, where your home is read-only ("own_home": true in its entry gives it '
    "a home of its own)"
)


class StartedServer:
    """A running server, as the transport reads and writes it."""

    def __init__(self, program: ConfinedProgram, box: Sandbox | None, own_home: bool) -> None:
        self.program = program
        self.box = box
        self.own_home = own_home

    async def read(self) -> bytes:
        assert self.program.process.stdout is not None
        return await self.program.process.stdout.read(_PIECE)

    async def write(self, data: bytes) -> None:
        assert self.program.process.stdin is not None
        self.program.process.stdin.write(data)
        await self.program.process.stdin.drain()

    async def end(self) -> None:
        await self.program.end()

    @property
    def complaints(self) -> bytes:
        return self.program.complaints

    @property
    def confined(self) -> Phrase | None:
        if self.box is None:
            return None
        failure = sandbox_failure(self.complaints.decode("utf-8", "replace"), 1)
        if failure is not None and failure.widen == "write" and not self.own_home:
            return _READ_ONLY
        return _CONFINED if self.box.network else _OFFLINE


class ServerStarter:
    """Starts the local servers of one workspace.

    `bounds` is the sandbox of the workspace, None where the user switched it off; `temporary` is
    its private /tmp, `states` the folder below which each server has one to write to.
    """

    def __init__(
        self,
        workspace: str,
        bounds: Sandbox | None,
        temporary: Callable[[], str],
        states: Path,
        environ: Mapping[str, str],
    ) -> None:
        self.workspace = workspace
        self.bounds = bounds
        self.temporary = temporary
        self.states = states
        self.environ = environ

    async def start(self, config: ServerConfig) -> StartedServer:
        """Start a server, whose variables are filled in. Raises `ToolError`."""
        box = self._sandbox(config)
        cwd = str(expand_path(self.workspace, config.cwd)) if config.cwd else self.workspace
        argv = [self._program(config, cwd), *config.args]
        try:
            program = await ConfinedProgram.start(
                argv,
                env=self._environment(config, box),
                cwd=cwd,
                sandbox=box,
                temporary=self.temporary(),
            )
        except ExecutionError as error:
            raise ToolError(
                "The MCP server {name} could not be started: {why}", name=config.name, why=error
            ) from error
        return StartedServer(program, box, config.own_home)

    def _program(self, config: ServerConfig, cwd: str) -> str:
        if "/" in config.command:
            return str(expand_path(cwd, config.command))
        found = find_user_program(config.command, self.workspace)
        if found is None:
            raise ToolError(
                "The MCP server {name} could not be started: {program} is not installed.",
                name=config.name,
                program=config.command,
            )
        return found

    def _environment(self, config: ServerConfig, box: Sandbox | None) -> dict[str, str]:
        given = {
            name: value
            for name, value in self.environ.items()
            if name in _BASE or name.startswith("LC_")
        }
        if box is None or box.network:
            given |= {k: v for k, v in self.environ.items() if _NETWORK.fullmatch(k)}
        state = self._state(config)
        caches = {} if box is None else {name: str(state / at) for name, at in _CACHES.items()}
        uncached = UNCACHED if config.of_project else {}
        if config.own_home:
            private_folder(state / "home")
            given["HOME"] = str(state / "home")
        return {**given, **caches, **uncached, **config.env}

    def _sandbox(self, config: ServerConfig) -> Sandbox | None:
        if not config.sandbox or self.bounds is None:
            return None
        if self.bounds.kind == "none":
            raise ToolError(
                "The MCP server {name} was not started, because no sandbox works here; to run it "
                'without one, set "sandbox": false in {file}.',
                name=config.name,
                file=config.origin,
            )
        state = self._state(config)
        private_folder(state)
        # Its own folder is below the cache, which is otherwise closed.
        closed = [one for one in self.bounds.closed if not state.is_relative_to(one)]
        for folder in (state, self.states):
            closed += [str(one) for one in folder.parent.iterdir() if one != folder]
        return replace(
            self.bounds, network=config.network, writable=(str(state),), closed=tuple(closed)
        )

    def _state(self, config: ServerConfig) -> Path:
        """Return the folder of a server; another project's server of that name has another."""
        place = hashlib.sha256(config.origin.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        return self.states / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', config.name)}-{place}"
