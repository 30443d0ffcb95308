"""Capture of a shell's state at its end: the script that prints it, and the reading of that."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise

from kogniterm.execution.shell import emulation
from kogniterm.execution.shell.emulation import script
from kogniterm.execution.shell.shell_state import (
    FILLED_AT_START,
    Fresh,
    ShellState,
    decode,
    quote_word,
)


def capture_file(folder: bytes | None) -> bytes:
    """Return the script that prints a shell's state; `folder` is the executor's, None in a sandbox.

    A shell outside of sandboxes adds its background processes, and asks in `folder` for its
    descriptors to be taken over. One in a sandbox adds whether its folder is gone, and whether it
    has descriptors of its own.
    """
    if folder is None:
        special = script("sandboxed")
    else:
        files = {"ASK": b"ask", "ANSWER": b"answer", "NEVER": b"statuses/never"}
        paths = {word: quote_word(folder + b"/" + name) for word, name in files.items()}
        special = script("outside", STATUSES=quote_word(folder + b"/statuses"), **paths)
    return script("state") + special + script("end")


_FIELDS = (
    *("status", "pipe", "letters", "last", "cwd", "seconds", "umask"),
    *("functions", "flags", "variables", "aliases", "traps", "disabled"),
    *("positional", "local", "folders"),
    *("exit_action", "children", "background", "ended", "jobs", "gone", "held"),
)
"""Fields that the capture file writes, in its order, each ended by a NUL."""

_VALUE = rb"""(?:"[^"\\]*+(?:\\.[^"\\]*+)*"|\$?'[^'\\]*+(?:\\.[^'\\]*+)*'|\\.|[^"'\\\n]++)*"""
_VARIABLE = re.compile(
    rb"declare (-\S+) ([A-Za-z_][A-Za-z0-9_]*)(?:=(" + _VALUE + rb"))?\n", re.DOTALL
)
_FUNCTION = re.compile(rb"declare (-f\w*) ([^\n]+)\n?")
_ALIAS = re.compile(rb"alias (?:-- )?([^=\n]+)=(?:'[^']*+'|\\')*\n")
_DISABLED = re.compile(rb"enable -n ([^\s]{1,40})\n")
_TRAP = re.compile(rb"trap -- ('(?:[^']|'\\'')*') (\S+)\n")

_KEPT_BY_BASH = frozenset(
    b"""BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND
    BASH_ENV BASH_EXECUTION_STRING BASH_LINENO BASH_LOADABLES_PATH BASH_MONOSECONDS BASH_SOURCE
    BASH_SUBSHELL BASH_VERSINFO BASH_VERSION COMP_WORDBREAKS COMP_CWORD COMP_KEY COMP_LINE
    COMP_POINT COMP_TYPE DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD HOSTTYPE
    LINENO MACHTYPE OSTYPE PIPESTATUS PPID PWD RANDOM SECONDS SHELLOPTS SHLVL SRANDOM UID
    BASH_TRAPSIG _""".split()
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
    pids = (
        _number(pid) for pid in (*field["children"].split()[-_MOST_CHILDREN:], field["background"])
    )
    known = (*previous.children, *(pid for pid in pids if pid is not None))
    pairs = ((b"e", b"errexit"), (b"u", b"nounset"), (b"x", b"xtrace"), (b"f", b"noglob"))
    return ShellState(
        variables=_merge_table(table, previous.variables, overlay, hidden),
        missing=FILLED_AT_START - table.keys(),
        functions=_functions(field["functions"], [name for _, name in listed], previous.background),
        function_flags={
            name: b"\\builtin declare " + kind + b" " + name + b"\n"
            for kind, name in listed
            if kind != b"-f"
        },
        shopts=_names(kept.get(b"BASHOPTS")),
        options=_names(kept.get(b"SHELLOPTS"))
        | {name for letter, name in pairs if letter in field["letters"]},
        fresh=fresh,
        limits=kept.get(b"__kt_limits", b""),
        aliases=_aliases(field["aliases"]),
        disabled=frozenset(_DISABLED.findall(field["disabled"])),
        traps={
            name: emulation.without_last_background(
                b"\\builtin trap -- " + action + b" " + name + b"\n", previous.background
            )
            for action, name in _TRAP.findall(dump[:begin] + field["traps"])
            if name != b"EXIT"
        },
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
        children=tuple(dict.fromkeys(known))[-_MOST_CHILDREN:],
        ended=_read_end(background, _number(field["ended"])),
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
    table: dict[bytes, bytes] = {}
    position = 0
    while match := _ALIAS.match(printed, position):
        position = match.end()
        table[match[1]] = match[0]
    return table


def _variables(printed: bytes) -> tuple[dict[bytes, bytes], dict[bytes, bytes]] | None:
    """Return the declarations by name, and the values of bash's and our own variables as printed.

    It is None when the text is not a row of declarations.
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
    """Return the options in a list like that of SHELLOPTS, as printed."""
    return frozenset((value or b"").strip(b'"').split(b":")) - {b""}


def _read_end(background: int | None, code: int | None) -> tuple[int, int] | None:
    if background is None or code is None or code == _NO_CHILD:
        return None
    return background, code


def _merge_table(
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
