"""The shell's state between commands: written by the shell that ends, read by the next one.

Every command runs as `bash -c TEXT`, exactly the text that was approved. Bash reads an *enter*
file first (BASH_ENV), which restores the state and sets an EXIT trap; the trap sources a *leave*
file, which dumps the state with builtins alone into a file of this command's own. Nothing of
this touches the command's output. A dump counts only when it is complete, so a command that is
killed leaves the last good state in place.

Carried: folder and folder stack, variables with all attributes, functions, aliases, shell
options, umask, traps, positional parameters, `$?`, PIPESTATUS, `$_` and the count of SECONDS.
Not carried: descriptors opened with `exec`, and other variables that bash itself maintains.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kogniterm.execution import continuity

_LEAVE = rb"""{ __kt_status=$? __kt_pipe="${PIPESTATUS[@]}" __kt_last=$_
\builtin trap -p DEBUG; \. %s; } 2>/dev/null >|%s"""
"""What our EXIT trap does: into the dump goes the DEBUG trap, which a sourced file does not see,
then what the leave file writes. The first line is for what any command would change."""

_LIMIT = re.compile(rb"-(\w)\) +(\S+)\n")
_OPTION = re.compile(rb"set ([-+])o (\S+)\n")

_OPTIONS_NOT_CARRIED = frozenset({b"noexec", b"onecmd", b"privileged", b"history", b"histexpand"})
_OPTIONS_ON_AT_START = frozenset({b"braceexpand", b"hashall", b"interactive-comments"})
_READS_STATUS = re.compile(r"\$\{?#?\?|\b(?:exit|return)\b|PIPESTATUS")


@dataclass(frozen=True, slots=True)
class ShellState:
    """What one command leaves to the next. Values are bash source text, as bash printed it."""

    variables: Mapping[bytes, bytes] = field(default_factory=dict)
    functions: bytes = b""
    function_flags: bytes = b""
    shell_options: bytes = b""
    options: bytes = b""
    aliases: bytes = b""
    traps: bytes = b""
    positional: bytes = b""
    folders: tuple[bytes, ...] = ()
    umask: bytes = b""
    limits: tuple[bytes, bytes] = (b"", b"")
    """Soft and hard resource limits, as `ulimit -a` prints them."""
    status: int = 0
    pipe: tuple[int, ...] = ()
    """PIPESTATUS."""
    clock: float | None = None
    """The moment (`time.monotonic`) at which SECONDS was 0."""
    last_argument: bytes = b""
    cwd: str = "/"
    exit_action: bytes = b""
    """What a user's EXIT trap is to do, waiting for a command that exits."""
    background: int | None = None
    """`$!` of an earlier command."""
    children: tuple[int, ...] = ()
    """Background processes of earlier commands that `wait` may still be asked for."""
    ended: tuple[int, int] | None = None
    """The process `$!` and its exit code, when it ended before the shell did."""
    jobs: tuple[continuity.CarriedJob, ...] = ()
    """What `jobs` listed in earlier shells and still runs."""
    overridden: frozenset[bytes] = frozenset()
    """Names of the overlay that the command set itself."""


@dataclass(frozen=True, slots=True)
class Files:
    """Paths in the executor's private folder, as a shell gets them.

    `leave` is the leave file, `restore` what the enter file sources, `dump` what
    this command writes, `statuses` the folder where exit codes of background processes are noted.
    """

    leave: bytes
    restore: bytes
    dump: bytes
    statuses: bytes


def first_state(env: Mapping[str, str], cwd: str) -> ShellState:
    """The state before the first command: the environment and the folder, nothing else."""
    return ShellState(variables={encode(k): exported(k, v) for k, v in env.items()}, cwd=cwd)


def encode(text: str) -> bytes:
    """Text to a shell's bytes, undecodable ones too; UnicodeEncodeError for half a character."""
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    """The inverse of `encode`."""
    return data.decode("utf-8", "surrogateescape")


def quoted(value: bytes) -> bytes:
    """`value` as one word of bash source."""
    return b"'" + value.replace(b"'", b"'\\''") + b"'"


def exported(name: str, value: str) -> bytes:
    """The declaration of an exported variable."""
    escaped = re.sub(rb'([\\"$`])', rb"\\\1", encode(value))
    return b"declare -x " + encode(name) + b'="' + escaped + b'"\n'


def enter_scripts(
    state: ShellState, command: str, files: Files, overlay: Mapping[bytes, bytes]
) -> tuple[bytes, bytes]:
    """(enter, restore): what bash reads before `command`, and what that file sources.

    `overlay` are declarations for this command alone. The restored text comes before anything
    that would trace, check or alter it: functions after variables, options and traps last. Its
    complaints (a variable that has become read-only, say) go nowhere.
    """
    options = b"".join(
        line
        for line in state.shell_options.splitlines(keepends=True)
        if b"expand_aliases" not in line
    )
    restore = [
        options,
        b"".join({**state.variables, **overlay}.values()),
        state.aliases,
        b"umask " + state.umask + b"\n" if state.umask else b"",
        *(b"\\builtin pushd -n " + quoted(f) + b" >/dev/null\n" for f in state.folders[:0:-1]),
        b"\\builtin set --" + state.positional + b"\n",
        _resource_limits(state.limits),
        continuity.with_last_background(state.functions, state.background),
        state.function_flags,
    ]
    if state.clock is not None:
        restore.append(b"SECONDS=%d\n" % (time.monotonic() - state.clock))
    if state.children:
        restore.append(continuity.wait_prelude(files.statuses, state.children))
    if state.jobs and continuity.mentions_jobs(command, state.functions):
        restore.append(continuity.job_prelude(state.jobs))
    trap = leave_trap(files.leave, files.dump)
    if state.exit_action or continuity.minds_exit_trap(command, state.functions):
        restore.append(
            continuity.exit_trap_prelude(
                command,
                continuity.actions_with_last_background(state.exit_action, state.background),
            )
        )
        action = b'\\builtin eval "${__kt_action-}"'
        # The branches keep `$?`, and `set -e` does not end the trap before the action.
        trap = b"if " + trap + b"; then " + action + b"; else " + action + b"; fi"
    restore.append(b"\\builtin trap -- " + quoted(trap) + b" EXIT\n")
    expand = b"-u" if b"shopt -u expand_aliases" in state.shell_options else b"-s"
    restore.append(b"\\builtin shopt " + expand + b" expand_aliases\n")
    enter = [
        b"\\builtin unset BASH_ENV\nBASH_ARGV0=bash\n",
        b"\\builtin . " + quoted(files.restore) + b" 2>/dev/null\n",
        _last_words(state, command),
    ]
    return b"".join(enter), b"".join(restore)


def leave_trap(leave: bytes, dump: bytes) -> bytes:
    """The text of the EXIT trap that writes `dump` by the file `leave`."""
    return _LEAVE % (quoted(leave), quoted(dump))


def _last_words(state: ShellState, command: str) -> bytes:
    """Options, `$_`, `$?` and traps, in an order in which none of them disturbs the others."""
    last = b"\\builtin : " + quoted(state.last_argument) + b"\n"
    fires = any(name in state.traps for name in (b" DEBUG\n", b" ERR\n", b" RETURN\n"))
    traps = continuity.actions_with_last_background(state.traps, state.background)
    words = [b"{\n", b"" if fires else traps, _set_options(state.options), last]
    # `$?` is restored only for a command that looks at it: bash reports some syntax errors with
    # the status it had before.
    dies_of_status = b"set -o errexit\n" in state.options
    if _READS_STATUS.search(command) and not (state.status and dies_of_status) and not fires:
        codes = state.pipe if "PIPESTATUS" in command else ()
        if state.status or any(codes):
            exits = [b"(\\builtin exit %d)" % code for code in codes or (state.status,)]
            words.append(b" | ".join(exits) + b"\n")
    words += [traps if fires else b"", b"} 2>/dev/null\n"]
    return b"".join(words)


def _resource_limits(printed: tuple[bytes, bytes]) -> bytes:
    """`ulimit` commands; setting a limit to what it is does no harm."""
    lines = []
    for kind, text in zip((b"-S", b"-H"), printed, strict=True):
        lines += [
            b"\\builtin ulimit " + kind + b" -" + letter + b" " + value + b"\n"
            for letter, value in _LIMIT.findall(text)
            if letter != b"p"
        ]
    return b"".join(lines)


def _set_options(printed: bytes) -> bytes:
    """`set` commands for options that differ from a fresh shell's; tracing comes last."""
    changed = []
    for sign, name in _OPTION.findall(printed):
        if name not in _OPTIONS_NOT_CARRIED and (sign == b"-") != (name in _OPTIONS_ON_AT_START):
            changed.append(
                (name in (b"xtrace", b"verbose"), b"\\builtin set " + sign + b"o " + name)
            )
    changed.sort()
    return b"; ".join(line for _late, line in changed) + b"\n" if changed else b""


def without_dump(state: ShellState, status: int, folder: str) -> ShellState:
    """The last good state after a command whose shell could not write its own."""
    return replace(state, status=status, cwd=folder)
