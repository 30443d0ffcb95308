"""The state of the shell: what the first command starts with, and each one leaves to the next.

Carried: folder and folder stack, variables with all attributes, functions, aliases, shell
options, disabled builtins, umask, resource limits, traps, positional parameters, `$?`,
PIPESTATUS, `$_` and the count of SECONDS. Descriptors go another way (`descriptors`).

There are two lineages, for what ran in a sandbox is foreign to everything outside it. Its
functions, aliases, variables, options and traps are given to later sandboxed commands only; a
command that runs outside goes on where the last one outside stopped, in the folder where the
session is. What a command changes outside was approved, and is carried to both sides, name by name.
Process numbers are given to no sandbox and taken from none: they may mean another process there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from kogniterm.errors import ExecutionError
from kogniterm.settings import HEADER_NAMES

SECRET_NAMES = (
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS_JSON",
    *HEADER_NAMES,
)
"""Keys of model providers and of a telemetry collector that belong to KogniTerm; variables named
KOGNITERM_* go too."""

UNATTENDED: Mapping[str, str] = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "PSQL_PAGER": "cat",
    "AWS_PAGER": "",
    # A file that fits the screen is printed without waiting for a key, and stays to be read.
    "LESS": "-FRX",
    # `false` fails at once; `true` would accept whatever stood in the editor.
    "GIT_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GCM_INTERACTIVE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
"""Set while nobody is at the keyboard, so that programs neither page, edit nor prompt."""

PROPOSED: Mapping[str, str] = {
    name: value
    for name, value in UNATTENDED.items()
    if name.endswith("PAGER") or name in ("GIT_OPTIONAL_LOCKS", "PIP_DISABLE_PIP_VERSION_CHECK")
}
"""For commands that nobody typed: what only reads must not run a repository's own pager, refresh
an index, or look for updates."""

UNCACHED: Mapping[str, str] = {"PYTHONDONTWRITEBYTECODE": "1"}
"""For what may run a script of a skill or plugin: the cache that Python leaves beside it would be
a file that nobody accepted."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DROPPED = frozenset(
    {"BASH_ENV", "ENV", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "_", "SHLVL"}
    | {"PWD", "OLDPWD", "LINES", "COLUMNS"}
)
"""Would run code or change options before a command starts, or belong to another shell."""


def base_environment(
    env: Mapping[str, str] | None, secrets: Iterable[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parts of `env` that commands inherit: (names a shell can hold, all others).

    Without `env` they are those of this process's own environment.
    """
    if env is None:
        from kogniterm.settings import environment  # its only reader

        env = environment()
    hidden = set(secrets)
    shell: dict[str, str] = {}
    other: dict[str, str] = {}
    for name, value in env.items():
        if name in hidden or name in _DROPPED or name.startswith("KOGNITERM_"):
            continue
        (shell if _IDENTIFIER.match(name) else other)[name] = value
    if shell.get("TERM", "dumb") in ("", "dumb", "unknown"):
        shell["TERM"] = "xterm-256color"
    return shell, other


OPTIONS_ON_AT_START = frozenset({b"braceexpand", b"hashall", b"interactive-comments"})
FILLED_AT_START = frozenset(b"HOSTNAME IFS OLDPWD OPTERR OPTIND PATH PS4 SHELL TERM".split())
"""Variables that bash gives itself when it starts without."""
AS_IN_A_FRESH_SHELL = frozenset(
    {
        b"declare -- IFS=$' \\t\\n'\n",
        b'declare -- OPTERR="1"\n',
        b'declare -i OPTIND="1"\n',
        b'declare -- PS4="+ "\n',
    }
)
"""Declarations of variables as every shell has them at its start."""


class EarlierJob(NamedTuple):
    """A job of an earlier shell: its number for the user, its processes, its command."""

    number: int
    pids: tuple[int, ...]
    text: bytes
    runs: bool = True


class Fresh(NamedTuple):
    """The start of every shell: only what differs from it has to be restored."""

    shopts: frozenset[bytes]
    limits: bytes


@dataclass(frozen=True, slots=True)
class ShellState:
    """State that one command leaves to the next. Values are source text as bash printed it."""

    variables: Mapping[bytes, bytes] = field(default_factory=dict)
    missing: frozenset[bytes] = frozenset()
    """Unset variables that bash would set by itself."""
    functions: Mapping[bytes, bytes] = field(default_factory=dict)
    """Definitions by name, in bash's order; together they are what bash printed."""
    function_flags: Mapping[bytes, bytes] = field(default_factory=dict)
    """Declarations of functions that are exported, traced or read-only."""
    shopts: frozenset[bytes] | None = None
    """The `shopt` options that are on; None before the first command."""
    options: frozenset[bytes] = OPTIONS_ON_AT_START
    """The `set` options that are on."""
    fresh: Fresh | None = None
    aliases: Mapping[bytes, bytes] = field(default_factory=dict)
    disabled: frozenset[bytes] = frozenset()
    """Builtins that are switched off."""
    traps: Mapping[bytes, bytes] = field(default_factory=dict)
    positional: bytes = b""
    folders: tuple[bytes, ...] = ()
    umask: bytes = b""
    limits: bytes = b""
    """Resource limits, as bash prints an array of what the kernel says."""
    status: int = 0
    pipe: tuple[int, ...] = ()
    """PIPESTATUS."""
    clock: float | None = None
    """The moment (`time.monotonic`) at which SECONDS was 0."""
    last_argument: bytes = b""
    cwd: str = "/"
    exit_action: bytes = b""
    """The action of a user's EXIT trap, waiting for a command that exits."""
    background: int | None = None
    """`$!` of an earlier command."""
    children: tuple[int, ...] = ()
    """Background processes of earlier commands that `wait` may still be asked for."""
    ended: tuple[int, int] | None = None
    """The process `$!` and its exit code, when it ended before the shell did."""
    jobs: tuple[EarlierJob, ...] = ()
    """Jobs that earlier shells listed and that still run."""
    gone: bool = False
    """The folder did not exist any more, for a shell in a sandbox."""
    held: bool = False
    """The shell had descriptors of its own that nobody took over."""
    overridden: frozenset[bytes] = frozenset()
    """Names of the overlay that the command set itself."""

    @property
    def function_text(self) -> bytes:
        """Return all functions, as bash printed them."""
        return b"".join(self.functions.values())

    @property
    def is_plain(self) -> bool:
        """Return whether names mean programs here, and nothing of the user's runs by itself."""
        redefined = self.functions or self.aliases or self.traps or self.exit_action
        changed = self.disabled or self.options != OPTIONS_ON_AT_START or self.held
        # With the option for aliases, which every shell here has, nothing is said without any.
        shopts, fresh = self.shopts or frozenset(), self.fresh
        switched = fresh is not None and bool((shopts ^ fresh.shopts) - {b"expand_aliases"})
        return not (redefined or changed or switched)

    def without_processes(self) -> ShellState:
        return replace(self, background=None, children=(), ended=None, jobs=())

    def without_values(self, values: Iterable[bytes]) -> ShellState:
        """Return the state without the variables that hold one of `values`."""
        values = tuple(values)
        kept = {
            name: line
            for name, line in self.variables.items()
            if not any(value in line for value in values)
        }
        return self if len(kept) == len(self.variables) else replace(self, variables=kept)

    def without_dump(self, status: int, folder: str) -> ShellState:
        """Return the state after a command that could not write its own."""
        return replace(
            self,
            status=status,
            pipe=(),
            cwd=folder,
            ended=None,
            gone=False,
            held=False,
            overridden=frozenset(),
        )

    def with_folder_of(self, left: ShellState) -> ShellState:
        """Return the state after a command of which only the folder and exit status count."""
        state = replace(self.without_dump(left.status, left.cwd), pipe=left.pipe, gone=left.gone)
        name = b"OLDPWD"  # where `cd -` leads
        if left.cwd == self.cwd or name not in left.variables:
            return state
        variables = {**self.variables, name: left.variables[name]}
        return replace(state, variables=variables, missing=self.missing - {name})


def meaning(before: ShellState, left: ShellState, command: str) -> tuple[str, ...]:
    """Return what of the shell, as `command` found and left it, changes what its text means.

    These are options, the names of functions and aliases in the text with `()`, `traps`, and
    `unknown` for a shell that left no state.
    """
    states = (before, left)
    names = {name for state in states for name in (*state.functions, *state.aliases)}
    names.intersection_update(re.findall(rb"[^\s;&|()<>'\"`$]+", encode(command)))
    return (
        *(name for name in ("errexit", "pipefail") if encode(name) in before.options),
        *(f"{decode(name)}()" for name in sorted(names)),
        *(("traps",) if any(state.traps or state.exit_action for state in states) else ()),
        *(() if left.pipe else ("unknown",)),
    )


def first_state(env: Mapping[str, str], cwd: str, umask: bytes = b"") -> ShellState:
    """Return the state before the first command: the environment, the folder and the umask."""
    variables = {encode(k): export_line(k, v) for k, v in env.items()}
    return ShellState(variables=variables, cwd=cwd, umask=umask)


def encode(text: str) -> bytes:
    """Return a shell's bytes for `text`. Raises UnicodeEncodeError for half a character."""
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    """Return the text for a shell's bytes, undecodable ones too."""
    return data.decode("utf-8", "surrogateescape")


def quote_word(value: bytes) -> bytes:
    """Return `value` as one word of bash source."""
    return b"'" + value.replace(b"'", b"'\\''") + b"'"


def export_line(name: str, value: str) -> bytes:
    """Return the declaration of an exported variable."""
    return declare_line(name, value, b"-x")


def declare_line(name: str, value: str, attributes: bytes) -> bytes:
    """Return the declaration of a variable with these attributes (`--` for none)."""
    escaped = re.sub(rb'([\\"$`])', rb"\\\1", encode(value))
    return b"declare " + attributes + b" " + encode(name) + b'="' + escaped + b'"\n'


_UNSAID = frozenset(b"BASH_REMATCH HOSTNAME IFS OLDPWD OPTARG OPTERR OPTIND PS4 SHELL TERM".split())
"""Variables that change with almost every command, or that bash sets by itself when it starts."""
_SET_ON_THE_WAY = frozenset({b"LC_CTYPE"})
"""Variables that the interpreter which starts a shell inside sets where there is no locale."""
_KNOWN_AT_START = frozenset(b"IFS OPTERR OPTIND PS4".split())
"""Variables that every shell starts with, with values that are known."""
_MOST_SAID = 8
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Start:
    """The place where a command starts: `folder`, and then `inside` if only its sandbox has that.

    `real` is what the folder must be without links, where that was looked at before.
    """

    wrapped: bool
    folder: str
    real: str | None = None
    inside: str | None = None
    notes: list[str] = field(default_factory=list)


class Lineages(NamedTuple):
    """The states that the next command starts from, outside of sandboxes and inside.

    `inside` is None before the first sandboxed command. `apart` are names that sandboxed commands
    changed and no command outside has been told of. `real` is the folder of `outside` without
    links, when it was last entered; a sandboxed command may have put a link in its place since.
    `elsewhere` is the folder of sandboxed commands when it does not exist outside.
    """

    outside: ShellState
    real: str
    inside: ShellState | None = None
    apart: tuple[bytes, ...] = ()
    elsewhere: str | None = None

    @classmethod
    def first(cls, state: ShellState) -> Lineages:
        """Return the lineages before the first command, which gets `state`."""
        return cls(state, str(_resolve_folder(state.cwd, state.cwd)))

    def state(self, *, wrapped: bool) -> ShellState:
        """Return the state that the next command gets, in a sandbox when it is `wrapped`."""
        if not wrapped:
            return self.outside
        state = (self.inside or self.outside).without_processes()
        return replace(state, missing=state.missing | (_SET_ON_THE_WAY - state.variables.keys()))

    def after_inside(self, left: ShellState) -> Lineages:
        """Return the lineages after a sandboxed command left `left`."""
        before = self.state(wrapped=True)
        left = left.without_processes()
        names = dict.fromkeys((*self.apart, *_changed_names(before, left)))
        changed = self._replace(inside=left, apart=tuple(names), elsewhere=None)
        claimed = _resolve_folder(left.cwd, self.real)
        if left.cwd == self.outside.cwd and str(claimed) == self.real:
            return changed  # as it was, links of the user's included
        folder = claimed if left.gone else _existing(claimed)
        return changed._replace(
            outside=replace(self.outside, cwd=str(folder)),
            real=str(folder),
            elsewhere=None if folder == claimed else left.cwd,
        )

    def after_outside(self, left: ShellState) -> Lineages:
        """Return the lineages after a command outside of sandboxes left `left`."""
        inside = None if self.inside is None else merge_changes(self.inside, self.outside, left)
        return Lineages(left, str(_resolve_folder(left.cwd, self.real)), inside)

    def with_status(self, left: ShellState, *, wrapped: bool) -> Lineages:
        """Return the lineages with the exit status of a command that changed nothing else."""

        def ended(state: ShellState) -> ShellState:
            return replace(
                state, status=left.status, pipe=left.pipe, last_argument=left.last_argument
            )

        if wrapped:
            return self._replace(inside=ended(self.state(wrapped=True)))
        inside = None if self.inside is None else ended(self.inside)
        return self._replace(outside=ended(self.outside), inside=inside)

    def folder(self) -> tuple[str, str]:
        """Return the folder that the next command starts in, and that without links.

        When the one where the session is has gone, or was exchanged for a link, that is the nearest
        above it which has not.
        """
        with suppress(OSError, ValueError):
            opened = os.open(self.outside.cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if os.readlink(f"/proc/self/fd/{opened}") == self.real:  # noqa: PTH115 - no file
                    return self.outside.cwd, self.real
            finally:
                os.close(opened)
        found = Path(self.real)
        while found != found.parent and not (
            _is_folder(found) and _resolve_folder(str(found), "/") == found
        ):
            found = found.parent
        return str(found), str(found)

    def start(self, wanted: str | None, *, wrapped: bool) -> Start:
        """Return where the next command starts: in `wanted`, or where the session is.

        When that has gone it is the nearest folder that exists. Raises ExecutionError when there
        is no folder `wanted`.
        """
        folder, elsewhere = self.outside.cwd, self.elsewhere
        if wanted:
            folder = str(Path(folder, wanted))
            if not _is_folder(Path(folder)):
                raise ExecutionError("Folder {path} does not exist.", path=folder)
            return Start(wrapped, folder)
        found, real = self.folder()
        notes = []
        if elsewhere is not None and not wrapped:
            notes.append(f"{only_inside(elsewhere)}; started in {_shown(found)}.")
        elif elsewhere is None and found != folder:
            gone = "is another folder now" if _is_folder(Path(folder)) else "no longer exists"
            notes.append(f"{_shown(folder)} {gone}; started in {_shown(found)}.")
        return Start(wrapped, found, real, elsewhere if wrapped else None, notes)

    def missing_outside(self, left: ShellState) -> tuple[str, ...]:
        """Return the names of what sandboxed commands changed and one outside did not have.

        `left` is what the command outside left. Of many, only the first are named.
        """
        if self.inside is None:
            return ()
        inside = self.inside
        names = [_shown(decode(n)) for n in self.apart if _values(inside, n) != _values(left, n)]
        return (*names[:_MOST_SAID], *("…" for _ in names[_MOST_SAID : _MOST_SAID + 1]))


def only_inside(folder: str) -> str:
    """Return the beginning of a note: that `folder` is not there outside."""
    return f"{_shown(folder)} does not exist outside the sandbox"


def _is_folder(path: Path) -> bool:
    """Return whether `path` is a folder; False when it cannot be looked at."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _shown(text: str) -> str:
    """Return a name from a sandbox as it may be shown."""
    return "".join(char if char.isprintable() else "?" for char in text[:_LONGEST_NAME])


def _resolve_folder(wanted: str, before: str) -> Path:
    """Return `wanted` without links. A sandboxed command may claim anything: then `before`."""
    folder = Path(wanted)
    try:
        return (folder if folder.is_absolute() else Path(before)).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name that is too long
        return Path(before)


def _existing(folder: Path) -> Path:
    while not _is_folder(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def merge_changes(inside: ShellState, before: ShellState, after: ShellState) -> ShellState:
    """Return `inside` with everything that a command outside changed from `before` to `after`."""
    fresh = after.fresh or Fresh(frozenset(), b"")
    # What the first shell starts with is not something that its command changed.
    given = (
        frozenset(
            name
            for name in FILLED_AT_START - before.variables.keys()
            if name not in _KNOWN_AT_START or after.variables.get(name) in AS_IN_A_FRESH_SHELL
        )
        if before.fresh is None
        else frozenset()
    )
    variables = _apply_changes(inside.variables, before.variables, after.variables, given)
    return replace(
        inside,
        variables=variables,
        missing=frozenset(name for name in inside.missing | after.missing if name not in variables),
        functions=_apply_changes(inside.functions, before.functions, after.functions),
        function_flags=_apply_changes(
            inside.function_flags, before.function_flags, after.function_flags
        ),
        aliases=_apply_changes(inside.aliases, before.aliases, after.aliases),
        traps=_apply_changes(inside.traps, before.traps, after.traps),
        shopts=_switched_options(
            inside.shopts or frozenset(), before.shopts or fresh.shopts, after.shopts or frozenset()
        ),
        options=_switched_options(inside.options, before.options, after.options),
        disabled=_switched_options(inside.disabled, before.disabled, after.disabled),
        positional=_newer(inside.positional, before.positional, after.positional),
        folders=after.folders if after.folders[1:] != before.folders[1:] else inside.folders,
        umask=_newer(inside.umask, before.umask, after.umask),
        limits=_newer(inside.limits, before.limits or fresh.limits, after.limits),
        exit_action=_newer(inside.exit_action, before.exit_action, after.exit_action),
        status=after.status,
        pipe=after.pipe,
        last_argument=after.last_argument,
        cwd=after.cwd,
    )


def _newer(inside: bytes, before: bytes, after: bytes) -> bytes:
    return inside if after == before else after


def _switched_options(
    inside: frozenset[bytes], before: frozenset[bytes], after: frozenset[bytes]
) -> frozenset[bytes]:
    return (inside | (after - before)) - (before - after)


def _apply_changes(
    inside: Mapping[bytes, bytes],
    before: Mapping[bytes, bytes],
    after: Mapping[bytes, bytes],
    apart_from: frozenset[bytes] = frozenset(),
) -> dict[bytes, bytes]:
    table = dict(inside)
    for name in (before.keys() | after.keys()) - apart_from:
        if before.get(name) == after.get(name):
            continue
        if name in after:
            table[name] = after[name]
        else:
            table.pop(name, None)
    return table


def _changed_names(before: ShellState, after: ShellState) -> list[bytes]:
    """Return the names of variables, functions and aliases that differ, and are worth telling."""
    names: set[bytes] = set()
    for old, new in (
        (before.variables, after.variables),
        (before.functions, after.functions),
        (before.aliases, after.aliases),
    ):
        names |= {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    return sorted(names - _UNSAID)


def changed_names(before: ShellState, after: ShellState) -> tuple[str, ...]:
    """Return a few of the differences of two states that would be carried over, for a note."""
    given = FILLED_AT_START if before.fresh is None else frozenset()
    names = [_shown(decode(name)) for name in _changed_names(before, after) if name not in given]
    names += ["cwd"] if before.cwd != after.cwd else []
    return (*names[:_MOST_SAID], *("…" for _ in names[_MOST_SAID : _MOST_SAID + 1]))


def _values(state: ShellState, name: bytes) -> tuple[bytes | None, ...]:
    return (state.variables.get(name), state.functions.get(name), state.aliases.get(name))
