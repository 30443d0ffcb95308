"""The shell's state between commands: written by the shell that ends, read by the next one.

Every command runs as `bash -c TEXT`, exactly the text that was approved. Bash reads an *enter*
file first (BASH_ENV), which restores the state and sets an EXIT trap; the trap sources a *leave*
file, which dumps the state with builtins alone into a file of this command's own. Nothing of
this touches the command's output. A dump counts only when it is complete, so a command that is
killed leaves the last good state in place.

Carried: folder and folder stack, variables with all attributes, functions, aliases, shell
options, umask, traps, positional parameters, `$?` and `$_`. Not carried: descriptors opened
with `exec`, and variables that bash itself maintains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

LEAVE_SCRIPT = rb"""__kt_status=$? __kt_flags=$- __kt_last=$_
\builtin set +eux
\builtin printf '\0begin\0%s\0%s\0%s\0%s\0' "$__kt_status" "$__kt_flags" "$__kt_last" "$PWD"
\builtin umask; \builtin printf '\0'
\builtin shopt -p; \builtin printf '\0'
\builtin set +o; \builtin printf '\0'
\builtin declare -f; \builtin printf '\0'
\builtin declare -F; \builtin printf '\0'
\builtin declare -p; \builtin printf '\0'
\builtin alias -p; \builtin printf '\0'
\builtin trap -p; \builtin printf '\0'
if [[ ${#FUNCNAME[@]} -gt 1 ]]; then \builtin printf 'inside'; \builtin printf '\0'; \builtin local -p
else
  if [[ $# -gt 0 ]]; then \builtin printf ' %q' "$@"; fi
  \builtin printf '\0'
fi
\builtin printf '\0'
\builtin dirs -l -p; \builtin printf '\0'
\builtin printf '%s\0%s\0end\0' "$BASH_COMMAND" "$!"
if [[ $__kt_flags == *u* ]]; then \builtin set -u; fi
if [[ $__kt_flags == *e* ]]; then \builtin set -e; fi
if [[ $__kt_flags == *x* ]]; then \builtin set -x; fi
\builtin return "$__kt_status"
"""

_VALUE = rb"""(?:"(?:[^"\\]|\\.)*+"|\$?'(?:[^'\\]|\\.)*+'|\\.|[^"'\\\n])*+"""
_VARIABLE = re.compile(
    rb"declare (-\S+) ([A-Za-z_][A-Za-z0-9_]*)(?:=" + _VALUE + rb")?\n", re.DOTALL
)
_FUNCTION_FLAGS = re.compile(rb"declare (-f\w*) (.+)\n")
_TRAP = re.compile(rb"trap -- ('(?:[^']|'\\'')*+') (\S+)\n")
_OPTION = re.compile(rb"set ([-+])o (\S+)\n")

_KEPT_BY_BASH = frozenset(
    b"""BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND
    BASH_ENV BASH_EXECUTION_STRING BASH_LINENO BASH_LOADABLES_PATH BASH_REMATCH BASH_SOURCE
    BASH_SUBSHELL BASH_VERSINFO BASH_VERSION COMP_WORDBREAKS COMP_CWORD COMP_KEY COMP_LINE
    COMP_POINT COMP_TYPE DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD HOSTTYPE
    LINENO MACHTYPE OSTYPE PIPESTATUS PPID PWD RANDOM SECONDS SHELLOPTS SHLVL SRANDOM UID _
    __kt_status __kt_flags __kt_last __kt_exit""".split()
)
_OPTIONS_NOT_CARRIED = frozenset({b"noexec", b"onecmd", b"privileged", b"history", b"histexpand"})
_OPTIONS_ON_AT_START = frozenset({b"braceexpand", b"hashall", b"interactive-comments"})
_SIZE_NAMES = frozenset({b"LINES", b"COLUMNS"})
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
    status: int = 0
    last_argument: bytes = b""
    cwd: str = "/"
    background: int | None = None
    overridden: frozenset[bytes] = frozenset()
    """Names of the overlay that the command set itself."""


def first_state(env: Mapping[str, str], cwd: str) -> ShellState:
    """The state before the first command: the environment and the folder, nothing else."""
    return ShellState(variables={encode(k): exported(k, v) for k, v in env.items()}, cwd=cwd)


def encode(text: str) -> bytes:
    """Text to the bytes a shell gets; undecodable bytes survive the round trip."""
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


def enter_script(
    state: ShellState, command: str, leave: bytes, dump: bytes, overlay: Mapping[bytes, bytes]
) -> bytes:
    """What bash reads before `command`: restores `state` and arranges for the dump.

    `overlay` are declarations for this command alone. The restored text comes before anything
    that would trace, check or alter it: functions before aliases, options last.
    """
    options = b"".join(
        line
        for line in state.shell_options.splitlines(keepends=True)
        if b"expand_aliases" not in line
    )
    expand = b"shopt -u" if b"shopt -u expand_aliases" in state.shell_options else b"shopt -s"
    variables = {**state.variables, **overlay}
    parts = [
        b"\\builtin unset BASH_ENV\n",
        options,
        state.functions,
        state.function_flags,
        b"".join(variables.values()),
        state.aliases,
        b"umask " + state.umask + b"\n" if state.umask else b"",
    ]
    parts += [
        b"\\builtin pushd -n " + quoted(f) + b" >/dev/null\n" for f in reversed(state.folders[1:])
    ]
    parts.append(b"\\builtin set --" + state.positional + b"\n")
    parts.append(state.traps)
    trap = b"{ . " + quoted(leave) + b"; } 2>/dev/null >|" + quoted(dump)
    parts.append(b"\\builtin trap -- " + quoted(trap) + b" EXIT\n")
    parts.append(expand + b" expand_aliases\n")
    parts.append(b"\\builtin : " + quoted(state.last_argument) + b"\n")
    parts.append(_set_options(state.options))
    # `$?` is restored only for a command that looks at it: bash reports some syntax errors with
    # the status it had before.
    dies_of_status = b"set -o errexit\n" in state.options
    status = state.status if _READS_STATUS.search(command) and not dies_of_status else 0
    parts.append(b"\\builtin return %d\n" % status)
    return b"".join(parts)


def _set_options(printed: bytes) -> bytes:
    """`set` commands for options that differ from a fresh shell's; tracing comes last."""
    changed = []
    for sign, name in _OPTION.findall(printed):
        if name not in _OPTIONS_NOT_CARRIED and (sign == b"-") != (name in _OPTIONS_ON_AT_START):
            changed.append((name in (b"xtrace", b"verbose"), b"set " + sign + b"o " + name))
    changed.sort()
    return b"; ".join(line for _late, line in changed) + b"\n" if changed else b""


def read_dump(
    dump: bytes, previous: ShellState, overlay: Mapping[bytes, bytes]
) -> ShellState | None:
    """The state in `dump`; None when it is incomplete or not what bash prints.

    Variables of `overlay` that the command left alone get their earlier value back.
    """
    begin = dump.find(b"\0begin\0")
    parts = dump[begin + 7 :].split(b"\0")
    if begin < 0 or len(parts) != 19 or parts[-2] != b"end":
        return None
    (
        status,
        _flags,
        last,
        cwd,
        umask,
        shopts,
        options,
        functions,
        flags,
        variables,
        aliases,
        traps,
        positional,
        local,
        folders,
        last_command,
        background,
    ) = _named(parts)
    del last_command
    table = _variables(variables)
    if table is None:
        return None
    inside = positional == b"inside"
    hidden = _variables(local) if inside else {}
    overridden = frozenset(name for name in overlay if table.get(name) != overlay[name])
    table = _restored(table, previous.variables, overlay, hidden or {})
    return ShellState(
        variables=table,
        functions=functions,
        function_flags=b"".join(
            b"declare " + kind + b" " + name + b"\n"
            for kind, name in _FUNCTION_FLAGS.findall(flags)
            if kind != b"-f"
        ),
        shell_options=shopts,
        options=options,
        aliases=aliases,
        traps=b"".join(
            b"trap -- " + action + b" " + name + b"\n"
            for action, name in _TRAP.findall(traps)
            if name != b"EXIT"
        ),
        positional=previous.positional if inside else positional,
        folders=tuple(folders.splitlines()),
        umask=umask.strip(),
        status=int(status or 0),
        last_argument=last,
        cwd=decode(cwd) or previous.cwd,
        background=int(background) if background.isdigit() else None,
        overridden=overridden,
    )


def _named(parts: list[bytes]) -> tuple[bytes, ...]:
    return tuple(parts[:17])


def _variables(printed: bytes) -> dict[bytes, bytes] | None:
    """Declarations by name; None when the text is not a row of declarations."""
    table: dict[bytes, bytes] = {}
    position = 0
    while position < len(printed):
        match = _VARIABLE.match(printed, position)
        if match is None:
            return None
        position = match.end()
        name = match[2]
        if name in _KEPT_BY_BASH or (name in _SIZE_NAMES and b"x" not in match[1]):
            continue
        table[name] = match[0]
    return table


def _restored(
    table: dict[bytes, bytes],
    previous: Mapping[bytes, bytes],
    overlay: Mapping[bytes, bytes],
    hidden: Mapping[bytes, bytes],
) -> dict[bytes, bytes]:
    for name in (*overlay, *hidden):
        if name in hidden or table.get(name) == overlay[name]:
            if name in previous:
                table[name] = previous[name]
            else:
                table.pop(name, None)
    return table


def without_dump(state: ShellState, status: int, folder: str) -> ShellState:
    """The last good state after a command whose shell could not write its own."""
    return replace(state, status=status, cwd=folder, background=None)
