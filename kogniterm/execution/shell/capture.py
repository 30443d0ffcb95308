"""What a shell leaves when it ends: the script that prints its state, and the reading of that."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise

from kogniterm.execution.shell import emulation
from kogniterm.execution.shell.shell_state import FILLED_AT_START, Fresh, ShellState, decode, quoted

_STATE = rb"""__kt_flags=$-
\builtin set +euxf
\builtin mapfile -d '' -t __kt_limits </proc/self/limits
if [[ ! -d $PWD ]]; then __kt_cwd=$(\builtin pwd -P || :); fi
\builtin printf '\0begin\0%s\0%s\0%s\0%s\0%s\0%s\0' "$__kt_status" "$__kt_pipe" \
  "$__kt_flags" "$__kt_last" "${__kt_cwd:-$PWD}" "$SECONDS"
\builtin umask; \builtin printf '\0'
\builtin declare -f; \builtin printf '\0'
\builtin declare -F; \builtin printf '\0'
\builtin declare -p; \builtin printf '\0'
\builtin alias -p; \builtin printf '\0'
\builtin trap -p; \builtin printf '\0'
\builtin enable -n; \builtin printf '\0'
if [[ ${#FUNCNAME[@]} -gt 1 ]]; then
  \builtin printf 'inside\0'; \builtin local -p
else
  if [[ $# -gt 0 ]]; then \builtin printf ' %q' "$@"; fi
  \builtin printf '\0'
fi
\builtin printf '\0'
\builtin dirs -l -p; \builtin printf '\0'
if [[ -n ${__kt_fire+x} ]]; then
  if [[ $__kt_fire == 1 || ( $__kt_fire == 0 && $__kt_exit != "$__kt_before" ) ||
    ( -n $__kt_fire && $__kt_flags == *e* && $__kt_status -ne 0 ) ]]
  then __kt_action=$__kt_exit __kt_exit=
  else __kt_action=
  fi
fi
\builtin printf '%s\0' "${__kt_exit-}"
"""

_PROCESSES = rb"""\builtin jobs -p; \builtin printf '\0%s\0' "$!"
if [[ -n $! ]]; then
  for __kt_n in 1 2 3 4 5 6 7 8 9 10; do
    if [[ ! -d /proc/$! ]]; then \builtin break; fi; \builtin read -t 0.002 __kt_r <>NEVER
  done
fi
if [[ -n $! && ! -d /proc/$! ]]; then \builtin wait "$!"; \builtin printf %s $?; __kt_n=; fi
\builtin printf '\0'
\builtin jobs -l; \builtin printf '\0\0\0end\0'
__kt_fds=(/proc/$$/fd/*)
if [[ ${#__kt_fds[@]} -ne 6 || ! -t 0 || ! -t 10 || ! -t 11 ]]; then
  \builtin printf '%d\n' $$ 1<>ASK; \builtin read -r -t 5 __kt_fds <>ANSWER
fi
if [[ -n $! && -n $__kt_n && ! -d /proc/$! ]]; then
  \builtin wait "$!"; \builtin printf '%d\n' $? >|STATUSES/$!
fi
"""
"""What a shell outside adds: its background processes, and the request to take its descriptors."""

_SANDBOXED = rb"""\builtin printf '\0%s\0\0\0' "$!"
if [[ ! -d ${__kt_cwd:-$PWD} ]]; then \builtin printf gone; fi; \builtin printf '\0'
__kt_fds=(/proc/$$/fd/*)
for __kt_n in "${__kt_fds[@]}"; do
  __kt_r=${__kt_n##*/}
  case $__kt_r in
    0|1|2|90|91|95|255) \builtin continue;;
    1[0-9]|2[0-9]|3[01]|9[2-4]) if [[ -t $__kt_r ]]; then \builtin continue; fi;;
  esac
  if [[ -e $__kt_n ]]; then \builtin printf held; \builtin break; fi
done
if [[ ! -t 0 ]]; then \builtin printf held; fi
\builtin printf '\0end\0'
"""
"""What a shell in a sandbox adds: that its folder is gone, and that it has descriptors of its
own, which nobody takes over. Not counted is what `shell_files` gave it (90, 91, 95), the script
(255), and where bash keeps its terminal while a redirection stands in for it (10 on, or 92 on).

Process numbers in there mean other processes elsewhere, or none.
"""

_END = rb"""if [[ $__kt_flags == *u* ]]; then \builtin set -u; fi
if [[ $__kt_flags == *e* ]]; then \builtin set -e; fi
if [[ $__kt_flags == *f* ]]; then \builtin set -f; fi
if [[ $__kt_flags == *x* ]]; then \builtin set -x; fi
\builtin return "$__kt_status"
"""

# A process that ends at the same time as the shell could be reaped by it after the last look, and
# its exit code would be lost: so one that is about to end gets 20 ms, and what ends after that is
# noted as the leader would have noted it.
#
# The shell has open what every one has: its terminal on 0, what its own trap stands in for (10 and
# 11, the terminal too), the trap's 1 and 2, and the folder of descriptors itself. When there is
# more, or one of them leads elsewhere, it asks for what it has to be taken over, and waits.


def script(folder: bytes) -> bytes:
    """The capture file for shells outside of sandboxes; `folder` is the executor's."""
    names = (
        (b"ASK", folder + b"/ask"),
        (b"ANSWER", folder + b"/answer"),
        (b"NEVER", folder + b"/statuses/never"),
        (b"STATUSES", folder + b"/statuses"),
    )
    processes = _PROCESSES
    for name, path in names:
        processes = processes.replace(name, quoted(path))
    return _STATE + processes + _END


SANDBOXED = _STATE + _SANDBOXED + _END
"""The capture file of a shell in a sandbox."""


_FIELDS = (
    *("status", "pipe", "letters", "last", "cwd", "seconds", "umask"),
    *("functions", "flags", "variables", "aliases", "traps", "disabled"),
    *("positional", "local", "folders"),
    *("exit_action", "children", "background", "ended", "jobs", "gone", "held"),
)
"""What the capture file writes, in its order, each ended by a NUL."""

_VALUE = rb"""(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|\$?'[^'\\]*+(?:\\.[^'\\]*+)*+'|\\.|[^"'\\\n]++)*+"""
_VARIABLE = re.compile(
    rb"declare (-\S+) ([A-Za-z_][A-Za-z0-9_]*)(?:=(" + _VALUE + rb"))?\n", re.DOTALL
)
_FUNCTION = re.compile(rb"declare (-f\w*) ([^\n]+)\n?")
_ALIAS = re.compile(rb"alias (?:-- )?([^=\n]+)=(?:'[^']*+'|\\')*+\n")
_DISABLED = re.compile(rb"enable -n ([^\s]{1,40})\n")
_TRAP = re.compile(rb"trap -- ('(?:[^']|'\\'')*+') (\S+)\n")

_KEPT_BY_BASH = frozenset(
    b"""BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND
    BASH_ENV BASH_EXECUTION_STRING BASH_LINENO BASH_LOADABLES_PATH BASH_SOURCE
    BASH_SUBSHELL BASH_VERSINFO BASH_VERSION COMP_WORDBREAKS COMP_CWORD COMP_KEY COMP_LINE
    COMP_POINT COMP_TYPE DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD HOSTTYPE
    LINENO MACHTYPE OSTYPE PIPESTATUS PPID PWD RANDOM SECONDS SHELLOPTS SHLVL SRANDOM UID
    _""".split()
)
_OURS_ALONE = b"__kt_"
_MOST_CHILDREN = 64
_NO_CHILD = 127
_MOST_CODES = 1024
_MOST_DIGITS = 18
_RESERVED = frozenset(
    b"if then else elif fi case esac for select while until do done in function time coproc".split()
)
"""Words that bash writes `function` before when they name one."""
_STAND_INS = frozenset(b"trap wait kill jobs fg bg disown __kt_job __kt_pids".split())
"""Functions of `emulation`, when they hold a name of ours."""
_SIZE_NAMES = frozenset({b"LINES", b"COLUMNS"})


def read_dump(
    dump: bytes, previous: ShellState, overlay: Mapping[bytes, bytes]
) -> ShellState | None:
    """Return the state in `dump`; None when it is incomplete or not what bash prints.

    Variables of `overlay` that the command left alone get their earlier value back. A dump may
    come from a sandbox and hold anything: this never raises, and takes time linear in its size.
    """
    begin = dump.find(b"\0begin\0")
    parts = dump[begin + 7 :].split(b"\0", len(_FIELDS) + 1)
    if begin < 0 or len(parts) != len(_FIELDS) + 2 or parts[-2] != b"end":
        return None
    field = dict(zip(_FIELDS, parts, strict=False))
    declared = _variables(field["variables"])
    if declared is None:
        return None
    table, kept = declared
    inside = field["positional"] == b"inside"
    hidden = (_variables(field["local"]) or ({},))[0] if inside else {}
    fresh = previous.fresh or Fresh(
        _names(kept.get(b"__kt_fresh")), kept.get(b"__kt_fresh_limits", b"")
    )
    background, seconds = _number(field["background"]), _number(field["seconds"])
    listed = _FUNCTION.findall(field["flags"])
    return ShellState(
        variables=_restored(table, previous.variables, overlay, hidden),
        missing=FILLED_AT_START - table.keys(),
        functions=_functions(field["functions"], [name for _, name in listed], previous.background),
        function_flags={
            name: b"\\builtin declare " + kind + b" " + name + b"\n"
            for kind, name in listed
            if kind != b"-f"
        },
        shopts=_names(kept.get(b"BASHOPTS")),
        options=_options(kept, field["letters"]),
        fresh=fresh,
        limits=kept.get(b"__kt_limits", b""),
        aliases=_aliases(field["aliases"]),
        disabled=frozenset(_DISABLED.findall(field["disabled"])),
        traps=_traps(dump[:begin] + field["traps"], previous.background),
        positional=previous.positional if inside else field["positional"],
        folders=tuple(field["folders"].rstrip(b"\n").split(b"\n")),
        umask=field["umask"].strip(),
        status=(_number(field["status"]) or 0) & 255,
        pipe=tuple((_number(code) or 0) & 255 for code in field["pipe"].split()[:_MOST_CODES]),
        clock=None if seconds is None else time.monotonic() - seconds,
        last_argument=field["last"],
        cwd=decode(field["cwd"]) or previous.cwd,
        exit_action=emulation.without_last_background(field["exit_action"], previous.background),
        background=background or previous.background,
        children=_known_children(previous, field["children"], field["background"]),
        ended=_ended(background, _number(field["ended"])),
        jobs=emulation.known_jobs(previous.jobs, field["jobs"]),
        gone=bool(field["gone"]),
        held=bool(field["held"]),
        overridden=frozenset(name for name in overlay if table.get(name) != overlay[name]),
    )


def _number(digits: bytes) -> int | None:
    """Return the number that `digits` are; None when they are none, or too many."""
    return int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else None


def _functions(
    printed: bytes, names: Sequence[bytes], background: int | None
) -> dict[bytes, bytes]:
    """Return the definitions in `printed` by name, without the stand-ins of `emulation`.

    `names` are in the order of `printed`. What cannot be told apart stays together, for only the
    whole has to be right.
    """
    starts: list[tuple[bytes, int]] = []
    position = 0
    for name in names:
        header = (b"function " if name in _RESERVED else b"") + name + b" () \n"
        if not printed.startswith(header, position):
            position = printed.find(b"\n" + header, position) + 1
            if position == 0:
                break
        starts.append((name, position))
        position += len(header)
    table: dict[bytes, bytes] = {}
    for (name, start), (_, end) in pairwise((*starts, (b"", len(printed)))):
        text = printed[start:end]
        if not (name in _STAND_INS and b"__kt_" in text):
            table[name] = emulation.without_last_background(text, background)
    return table


def _aliases(printed: bytes) -> dict[bytes, bytes]:
    """Return the `alias` commands in `printed` by name."""
    table: dict[bytes, bytes] = {}
    position = 0
    while match := _ALIAS.match(printed, position):
        position = match.end()
        table[match[1]] = match[0]
    return table


def _traps(printed: bytes, background: int | None) -> dict[bytes, bytes]:
    """Return commands that set the user's traps, by signal; that on EXIT is ours."""
    return {
        name: emulation.without_last_background(
            b"\\builtin trap -- " + action + b" " + name + b"\n", background
        )
        for action, name in _TRAP.findall(printed)
        if name != b"EXIT"
    }


def _variables(printed: bytes) -> tuple[dict[bytes, bytes], dict[bytes, bytes]] | None:
    """(declarations by name, values of bash's and our own variables as printed).

    None when the text is not a row of declarations.
    """
    table: dict[bytes, bytes] = {}
    kept: dict[bytes, bytes] = {}
    position = 0
    while position < len(printed):
        match = _VARIABLE.match(printed, position)
        if match is None:
            return None
        position = match.end()
        name = match[2]
        if name in _KEPT_BY_BASH or name.startswith(_OURS_ALONE):
            kept[name] = match[3] or b""
        elif name not in _SIZE_NAMES or b"x" in match[1]:
            table[name] = match[0]
    return table, kept


def _names(value: bytes | None) -> frozenset[bytes]:
    """The options in a list like that of SHELLOPTS, as printed."""
    return frozenset((value or b"").strip(b'"').split(b":")) - {b""}


def _known_children(previous: ShellState, children: bytes, background: bytes) -> tuple[int, ...]:
    pids = (_number(pid) for pid in (*children.split()[-_MOST_CHILDREN:], background))
    known = (*previous.children, *(pid for pid in pids if pid is not None))
    return tuple(dict.fromkeys(known))[-_MOST_CHILDREN:]


def _ended(background: int | None, code: int | None) -> tuple[int, int] | None:
    if background is None or code is None or code == _NO_CHILD:
        return None
    return background, code


def _restored(
    table: dict[bytes, bytes],
    previous: Mapping[bytes, bytes],
    overlay: Mapping[bytes, bytes],
    hidden: Mapping[bytes, bytes],
) -> dict[bytes, bytes]:
    table = dict(table)
    for name in (*overlay, *hidden):
        if name in hidden or table.get(name) == overlay[name]:
            if name in previous:
                table[name] = previous[name]
            else:
                table.pop(name, None)
    return table


def _options(kept: Mapping[bytes, bytes], letters: bytes) -> frozenset[bytes]:
    """The options that were on, those too that are off while the state is printed."""
    pairs = ((b"e", b"errexit"), (b"u", b"nounset"), (b"x", b"xtrace"), (b"f", b"noglob"))
    return _names(kept.get(b"SHELLOPTS")) | {name for letter, name in pairs if letter in letters}
