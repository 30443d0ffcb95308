"""Restoring of the shell's state: the files that the next command's shell reads at its start.

Every command runs as `bash -c TEXT`, exactly the text that was approved. Bash reads an *enter*
file first (BASH_ENV), which restores the state and sets an EXIT trap; the trap sources a *capture*
file, which dumps the state with builtins alone to this command's own place (`shell_files`). Nothing
of this touches the command's output. A dump counts only when it is complete, so a command that is
killed leaves the last good state in place. What sandboxed commands leave is kept
apart (`Lineages`).

Only what differs from a fresh shell is restored.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kogniterm.execution.shell import emulation
from kogniterm.execution.shell.shell_state import (
    AS_IN_A_FRESH_SHELL,
    FILLED_AT_START,
    OPTIONS_ON_AT_START,
    UNATTENDED,
    ShellState,
    declare_line,
    encode,
    quote_word,
)
from kogniterm.types import ShellChange

_LETTERS = {
    b"Max cpu time": (b"t", 1),
    b"Max file size": (b"f", 1024),
    b"Max data size": (b"d", 1024),
    b"Max stack size": (b"s", 1024),
    b"Max core file size": (b"c", 1024),
    b"Max resident set": (b"m", 1024),
    b"Max processes": (b"u", 1),
    b"Max open files": (b"n", 1),
    b"Max locked memory": (b"l", 1024),
    b"Max address space": (b"v", 1024),
    b"Max file locks": (b"x", 1),
    b"Max pending signals": (b"i", 1),
    b"Max msgqueue size": (b"q", 1),
    b"Max nice priority": (b"e", 1),
    b"Max realtime priority": (b"r", 1),
    b"Max realtime timeout": (b"R", 1),
}
"""The kernel's names (proc(5), /proc/PID/limits) with the letters and units of bash's `ulimit`."""

_LINE = re.compile(rb"(Max [a-z ]{1,30}?) {2,40}(\d{1,20}|unlimited) {1,40}(\d{1,20}|unlimited)")
"""Bounded throughout: a sandboxed shell may say anything of its limits."""

_UNLIMITED = b"unlimited"


def limit_commands(before: bytes, after: bytes) -> bytes:
    """Return `ulimit` commands that lead from the limits `before` to `after`; b"" when equal.

    Both are texts in which the lines of /proc/PID/limits stand, in whatever quotes.
    """
    if before == after or not after:
        return b""
    old = {match[1]: match.groups()[1:] for match in _LINE.finditer(before)}
    raised: list[bytes] = []
    soft: list[bytes] = []
    lowered: list[bytes] = []
    for match in _LINE.finditer(after):
        name, values = match[1], match.groups()[1:]
        if name not in _LETTERS or name not in old:
            continue
        letter, unit = _LETTERS[name]
        for flag, was, now in zip((b"S", b"H"), old[name], values, strict=True):
            if was == now:
                continue
            lines = soft if flag == b"S" else raised if _value(now) > _value(was) else lowered
            value = now if now == _UNLIMITED else b"%d" % (int(now) // unit)
            lines.append(b"\\builtin ulimit -" + flag + b" -" + letter + b" " + value + b"\n")
    # A soft limit is never above its hard one, neither on the way up nor on the way down.
    return b"".join(raised + soft + lowered)


def _value(limit: bytes) -> float:
    return math.inf if limit == _UNLIMITED else int(limit)


_CAPTURE = rb"""{ __kt_status=$? __kt_pipe="${PIPESTATUS[@]}" __kt_last=$_
\builtin trap -p DEBUG RETURN; \builtin trap - DEBUG RETURN; \. %s; } 2>/dev/null %s"""
"""The text of our EXIT trap: into the dump go the traps that a sourced file does not see or would
set off, then what the capture file writes. The first line is for what any command would change."""

_OPTIONS_NOT_CARRIED = frozenset({b"noexec", b"onecmd", b"privileged", b"history", b"histexpand"})
_ALIASES = b"expand_aliases"
_NOTE_FRESH = b"""__kt_fresh=$BASHOPTS
\\builtin mapfile -d '' -t __kt_fresh_limits </proc/self/limits
"""
_PLAIN = re.compile(rb'declare -x ([A-Za-z_]\w*)="([^"\\\n]*+(?:\\.[^"\\\n]*+)*)"\n')
_NOT_INHERITED = re.compile(
    rb"BASH|LC_|LD_|LANG|MALLOC_|GLIBC_|GCONV_|LOCPATH|NLSPATH|SHELLOPTS|POSIX|TMOUT|PS\d|"
    rb"(?:IFS|PATH|PWD|OLDPWD|SHLVL|OPT\w+|RANDOM|SRANDOM|SECONDS|LINENO|HISTCMD|EPOCH\w+|"
    rb"DIRSTACK|FUNCNAME|GROUPS|PIPESTATUS|COMP_\w+|LINES|COLUMNS|UID|EUID|PPID|_)\Z"
)
"""Names that would change how bash itself starts, or that it keeps itself."""
_ATTRIBUTES = re.compile(rb"declare (--|-x) ")
_USUAL_OPTIONS = OPTIONS_ON_AT_START | frozenset(
    {b"errexit", b"nounset", b"pipefail", b"noglob", b"noclobber"}
)
"""Options under which a change is what it is without them, and prints nothing."""
_ESCAPED = re.compile(rb"\\(.)")
_LONGEST_INHERITED = 4 << 10
_MOST_INHERITED = 64 << 10
_READS_STATUS = re.compile(
    r"\$\{?#?\?|\b(?:exit|return)\b|PIPESTATUS|(?:^|[\s;&|({])(?:source|\.)\s", re.MULTILINE
)
_EXTENDED_PATTERN = re.compile(rb"[?*+@!]\(")
_MOST_NAMES = 1000
"""Limit of functions or aliases that are looked for in a command."""


class Files(NamedTuple):
    """Paths of what a shell reads, as the shell gets them.

    `capture` is the capture file, `restore` what the enter file sources, `functions` what that
    sources in turn, `dump` the redirection that leads to where the state belongs, `statuses` the
    folder where exit codes of background processes are noted.
    """

    capture: bytes
    restore: bytes
    functions: bytes
    dump: bytes
    statuses: bytes


def inheritable(variables: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return values of exported variables that a shell may just as well get in its environment.

    That costs it a fifth of what a declaration does. Left out is what would alter the shell
    itself (a library path is for its children), and what is too large for an environment.
    """
    values: dict[bytes, bytes] = {}
    room = _MOST_INHERITED
    for name, line in variables.items():
        match = _PLAIN.fullmatch(line)
        if match is None or len(line) > _LONGEST_INHERITED or _NOT_INHERITED.match(name):
            continue
        room -= len(line)
        if room < 0:
            break
        values[name] = _ESCAPED.sub(rb"\1", match[2])
    return values


def apply_changes(state: ShellState, changes: Sequence[ShellChange]) -> ShellState | None:
    """Return the state that a shell with `state` would leave after `changes`, or None.

    None stands for doubt: variables with other attributes or that bash itself uses, and shells in
    which a trap, an alias or a function could come between.
    """
    own = state.functions.keys() & {b"export", b"set"} or state.aliases or state.disabled
    if own or b"DEBUG" in state.traps or not state.options <= _USUAL_OPTIONS:
        return None
    variables, functions, options = dict(state.variables), dict(state.functions), state.options
    for kind, text, value in changes:
        name = encode(text)
        if kind == "option":
            options = options | {name} if value == "-" else options - {name}
        elif kind == "function":
            if name in state.function_flags:
                return None
            functions[name] = encode(f"{value}\n")
        else:
            old = variables.get(name, b"declare -- ")
            known = _ATTRIBUTES.match(old)
            special = _NOT_INHERITED.match(name) or name in FILLED_AT_START or text in UNATTENDED
            if known is None or special:
                return None
            attributes = b"-x" if kind == "export" else known[1]
            _, given, before = old.partition(b"=")
            plain = b"declare -x " + name + (given + before or b"\n")
            variables[name] = plain if value is None else declare_line(text, value, attributes)
    left = replace(state.without_dump(0, state.cwd), pipe=(0,), last_argument=b"")
    names = frozenset(encode(change.name) for change in changes)
    return replace(
        left, variables=variables, functions=functions, options=options, overridden=names
    )


def enter_scripts(
    state: ShellState,
    command: str,
    files: Files,
    overlay: Mapping[bytes, bytes],
    inherited: Container[bytes] = (),
    folder: str | None = None,
) -> tuple[bytes, bytes, bytes]:
    """Return the files (enter, restore, functions) for `command`; each one sources the next.

    `overlay` are declarations for this command alone; variables named in `inherited` are in the
    shell's environment already; `folder` is where the shell goes first, when it cannot be started
    there. The restored text comes before anything that would trace, check or alter it: functions
    after variables, options and traps last. Its complaints (a variable that has become read-only,
    say) go nowhere.
    """
    restore = [
        _shopts(state),
        b"".join(
            line
            for name, line in {**state.variables, **overlay}.items()
            if name not in inherited and line not in AS_IN_A_FRESH_SHELL
        ),
        *(b"\\builtin unset -v " + name + b"\n" for name in state.missing - overlay.keys()),
        *state.aliases.values(),
        b"umask " + state.umask + b"\n" if state.umask else b"",
        *(b"\\builtin pushd -n " + quote_word(f) + b" >/dev/null\n" for f in state.folders[:0:-1]),
        b"\\builtin set --" + state.positional + b"\n" if state.positional else b"",
        b"" if state.fresh is None else limit_commands(state.fresh.limits, state.limits),
        _read_functions(state, files),
        *state.function_flags.values(),
    ]
    if state.clock is not None:
        restore.append(b"SECONDS=%d\n" % (time.monotonic() - state.clock))
    restore += emulation.stand_ins(state, command, files.statuses)
    trap, prelude = capture_trap(files), emulation.exit_trap(state, command)
    if prelude:
        restore.append(prelude)
        action = b'\\builtin eval "${__kt_action-}"'
        # The branches keep `$?`, and `set -e` does not end the trap before the action.
        trap = b"if " + trap + b"; then " + action + b"; else " + action + b"; fi"
    restore.append(b"\\builtin trap -- " + quote_word(trap) + b" EXIT\n")
    restore += (b"\\builtin enable -n " + name + b"\n" for name in sorted(state.disabled))
    if state.shopts is None or _ALIASES in state.shopts:
        restore.append(b"\\builtin shopt -s expand_aliases\n")
    enter = [
        b"\\builtin unset BASH_ENV\nBASH_ARGV0=bash\n",
        b"\\builtin . " + quote_word(files.restore) + b" 2>/dev/null\n",
        b"" if folder is None else b"\\builtin cd -- " + quote_word(encode(folder)) + b"\n",
        _last_words(state, command),
    ]
    functions = emulation.with_last_background(state.function_text, state.background)
    return b"".join(enter), b"".join(restore), functions


def _read_functions(state: ShellState, files: Files) -> bytes:
    """Return the commands that define the functions.

    They are a file of their own because what bash prints of a function it cannot always read
    again: then that file ends there, and nothing else of the state is lost with it.
    """
    if not state.functions:
        return b""
    read = b"\\builtin . " + quote_word(files.functions) + b"\n"
    if b"extglob" not in (state.shopts or ()) and _EXTENDED_PATTERN.search(state.function_text):
        return b"\\builtin shopt -s extglob\n" + read + b"\\builtin shopt -u extglob\n"
    return read


def capture_trap(files: Files) -> bytes:
    """Return the text of the EXIT trap that writes the dump by the capture file."""
    return _CAPTURE % (quote_word(files.capture), files.dump)


def _last_words(state: ShellState, command: str) -> bytes:
    """Return options, `$_`, `$?` and traps, in an order in which none disturbs the others."""
    last = b"\\builtin : " + quote_word(state.last_argument) + b"\n"
    fires = b"DEBUG" in state.traps or b"RETURN" in state.traps
    traps = emulation.actions_with_last_background(b"".join(state.traps.values()), state.background)
    words = [b"{\n", b"" if fires else traps, _set_options(state.options), last]
    codes = state.pipe if "PIPESTATUS" in command else ()
    if not fires and (state.status or any(codes)) and _reads_status(state, command):
        exits = [b"(\\builtin exit %d)" % code for code in codes or (state.status,)]
        # What fails before `&&` neither ends a shell with `set -e` nor sets off an ERR trap.
        words.append(b" | ".join(exits) + (b" && :\n" if state.status else b"\n"))
    words += [traps if fires else b"", b"} 2>/dev/null\n"]
    return b"".join(words)


def _reads_status(state: ShellState, command: str) -> bool:
    """Return whether `command` may look at `$?`, by itself or in a function or alias that it uses.

    For others it is not restored: bash reports some syntax errors with the status it had before.
    """
    if _READS_STATUS.search(command):
        return True
    words = encode(command)
    return any(
        len(table) > _MOST_NAMES or any(name in words for name in table)
        for table in (state.functions, state.aliases)
        if any(b"$?" in text or b"PIPESTATUS" in text for text in table.values())
    )


def _shopts(state: ShellState) -> bytes:
    """Return `shopt` commands for options that differ from a fresh shell's.

    The first shell notes what it starts with. Aliases are expanded from the last line on.
    """
    if state.shopts is None or state.fresh is None:
        return _NOTE_FRESH
    lines = [
        b"\\builtin shopt " + flag + b" " + b" ".join(sorted(names)) + b"\n"
        for flag, names in (
            (b"-s", state.shopts - state.fresh.shopts - {_ALIASES}),
            (b"-u", state.fresh.shopts - state.shopts),
        )
        if names
    ]
    return b"".join(lines)


def _set_options(on: frozenset[bytes]) -> bytes:
    """Return `set` commands for options that differ from a fresh shell's; tracing comes last."""
    changed = [(b"-o", name) for name in on - OPTIONS_ON_AT_START]
    changed += [(b"+o", name) for name in OPTIONS_ON_AT_START - on]
    changed = [item for item in changed if item[1] not in _OPTIONS_NOT_CARRIED]
    changed.sort(key=lambda item: (item[1] in (b"xtrace", b"verbose"), item[1]))
    lines = [b"\\builtin set " + sign + b" " + name for sign, name in changed]
    return b"; ".join(lines) + b"\n" if lines else b""
