"""Stand-ins for builtins that know exit traps and processes of earlier shells.

Some builtins are stood in for by functions, and only in commands where it matters:

* `trap`, when the command (or a carried function) sets an EXIT trap or lists the traps: our own
  EXIT trap writes the state, so the user's action is kept beside it and run after it. It runs at
  the end of the command that set it, as with `bash -c`; when setting it is all the command does,
  it is carried and runs when a later command exits, as in one terminal.
* `wait`, while background processes of earlier commands are known: they are not this shell's
  children any more, but their exit codes were noted where `wait` can read them.
* `jobs`, `kill %n`, `fg`, `bg` and `disown`, while what they list is still running: a shell numbers
  only its own jobs, so those of earlier commands come first and its own after them.
* `disown`, when the command mentions it: what is disowned stays when the executor ends, so it is
  noted where the supervisor reads it.

`$!` cannot be set in a shell that has not started the process itself. After a command that left
one it is replaced by `${!:-PID}`, in the next command's text and in carried functions and traps.

A shell without job control gives a program in the background an empty input. One that is a whole
command, without redirections, gets the terminal that becomes its job's.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from kogniterm.execution.process.outliving import DISOWNED
from kogniterm.execution.shell.shell_state import (
    EarlierJob,
    ShellState,
    decode,
    encode,
    quote_word,
)
from kogniterm.host.processes import process_state

_SCRIPTS = Path(__file__).with_name("scripts")
_PLACE = re.compile(rb"@([A-Z]+)@")
_TRAP_WORD = re.compile(rb"\btrap\b", re.IGNORECASE)
_EXIT_NAME = re.compile(rb"\b(?:SIG)?EXIT\b|\s0\b", re.IGNORECASE)
_LISTS_TRAPS = re.compile(rb"\btrap(?:\s+-p\b|[ \t]*(?:[;|&\n)]|\Z))")
_LONE_TRAP = re.compile(
    r"""\s*trap\s+(?:--\s+)?(?:'[^']*'|"(?:[^"\\]|\\.)*"|[^\s;&|'"]+)(?:\s+\w+)+\s*;?\s*\Z""",
    re.DOTALL,
)
_EXITS = re.compile(r"(?:^|[;&|\n({]|\b(?:then|do|else))\s*exit\b")


@cache
def _text_of(name: str) -> bytes:
    return (_SCRIPTS / f"{name}.bash").read_bytes()


def script(name: str, **values: bytes) -> bytes:
    """Return one of the bash scripts beside this module, each `@NAME@` in it filled in."""
    return _PLACE.sub(lambda place: values[place[1].decode()], _text_of(name))


def exit_trap(state: ShellState, command: str) -> bytes:
    """Return a stand-in for `trap` where `command` or a carried function may need one, else b"".

    `__kt_fire` tells the capture file when to run the action: 1 always, 0 only when it changed in
    this command, empty never.
    """
    data, functions = encode(command), state.function_text
    if not (
        state.exit_action
        or _LISTS_TRAPS.search(data)
        or _sets_exit_trap(data)
        or (b"trap" in functions and _sets_exit_trap(functions))
    ):
        return b""
    fire = b"1" if _EXITS.search(command) else b"0"
    if _LONE_TRAP.match(command):
        fire = b""
    action = quote_word(actions_with_last_background(state.exit_action, state.background))
    prelude = b"__kt_exit=%s __kt_before=%s __kt_fire=%s\n" % (action, action, fire)
    return script("trap") + prelude


def _sets_exit_trap(source: bytes) -> bool:
    """Return whether some line names EXIT after `trap`; in linear time, whatever the text is."""
    for line in source.split(b"\n"):
        word = _TRAP_WORD.search(line)
        if word is not None and _EXIT_NAME.search(line, word.end()):
            return True
    return False


_DISOWNS = re.compile(rb"\bdisown\b")
_MOST_ENDED = 8
_JOB_WORDS = re.compile(r"%|\b(?:jobs|[fb]g|disown)\b")
_PROCESS_WORDS = re.compile(r"\$!|\$\{!|(?:^|[\s;&|({])(?:wait|jobs|fg|bg|disown|kill|pkill)\b|%\d")
_LISTED = re.compile(rb"\[(\d+)\][-+ ]? +\d+ (?:Running|Stopped)\b.*\n(?: +\d+ .*\n)*")
_LISTED_PID = re.compile(rb"^(?:\[\d+\][-+ ]?)? +(\d+) ", re.MULTILINE)
_LISTED_TEXT = re.compile(rb"(?:Running|Stopped(?: \([^)\n]*\))?|\n +\d+) +(.*)")


def known_jobs(previous: tuple[EarlierJob, ...], listed: bytes) -> tuple[EarlierJob, ...]:
    """Return the jobs of before and those that this shell's `jobs -l` printed.

    Ended ones keep their numbers while another runs, and for one command more: `kill %1` may be
    followed by `wait %1`.
    """
    highest = max((job.number for job in previous), default=0)
    jobs = [job._replace(runs=_runs(job.pids)) for job in previous]
    for match in _LISTED.finditer(listed):
        text = b" ".join(_LISTED_TEXT.findall(match[0])).replace(_INPUT.encode(), b" &")
        pids = tuple(int(pid) for pid in _LISTED_PID.findall(match[0]))
        jobs.append(EarlierJob(highest + int(match[1]), pids, text, _runs(pids)))
    if not any(job.runs for job in (*previous, *jobs)):
        return ()
    ended = [job for job in jobs if not job.runs]
    return tuple(job for job in jobs if job.runs or job in ended[-_MOST_ENDED:])


def _runs(pids: tuple[int, ...]) -> bool:
    """Return whether any of them runs; one that has ended may still wait to be collected."""
    states = (process_state(pid) for pid in pids)
    return any(state is not None and state.state not in "ZX" for state in states)


def mentions_processes(command: str) -> bool:
    """Return whether `command` may ask for processes of earlier commands."""
    return bool(_PROCESS_WORDS.search(command))


def stand_ins(state: ShellState, command: str, statuses: bytes) -> list[bytes]:
    """Return functions for the builtins that `command` may ask for processes of earlier commands.

    Exit codes of background processes stand in the folder `statuses` a moment before the kernel
    forgets them. It is empty in a sandbox, where none are known.
    """
    found, functions = [], state.function_text
    if state.children:
        pids = b" ".join(b"%d" % pid for pid in state.children)
        found.append(script("wait", FOLDER=quote_word(statuses), PIDS=pids))
    # Inside functions only `%n` counts.
    asks = _JOB_WORDS.search(command) or b"kill %" in functions or b"wait %" in functions
    if state.jobs and asks:
        lists = {job.number: b" ".join(b"%d" % pid for pid in job.pids) for job in state.jobs}
        cases = [b"    %%%d) __kt_j=(%s);;\n" % item for item in lists.items()]
        rows = b"\n".join(b"%d %d %s" % (job.number, job.pids[0], job.text) for job in state.jobs)
        found.append(
            script(
                "jobs",
                FOLDER=quote_word(statuses),
                CASES=b"".join(cases),
                HIGHEST=b"%d" % max(lists),
                LAST=lists[max((job.number for job in state.jobs if job.runs), default=max(lists))],
                LIST=quote_word(rows),
            )
        )
    if statuses and ("disown" in command or _DISOWNS.search(functions)):
        found.append(script("disown", DISOWNED=quote_word(statuses + b"/" + DISOWNED.encode())))
    return found


_SEEDS = re.compile(r"(?:^|[\s;&|({])RANDOM=")
_NAMED_AFTER_SHELL = re.compile(r"[\w./-](?:\$\$|\$\{\$\})(?![\w({])")


def not_carried(command: str) -> list[str]:
    """Return notes on what no later command can go on with; most often none."""
    notes = []
    if _SEEDS.search(command):
        notes.append("The sequence of random numbers that RANDOM=… starts ends with this command.")
    words = command.split() if "$$" in command or "${$}" in command else ()
    if any(
        _NAMED_AFTER_SHELL.search(word) and "=" not in word and "/proc/$" not in word
        for word in words
    ):
        notes.append("$$ is another number in every command: keep a name made of it in a variable.")
    return notes


_PIECE = re.compile(
    r"""(?P<plain>\\. | '[^']*' | \$'(?:[^'\\]|\\.)*' | (?<![^\s;&|(])\#[^\n]* | <<<)
    | (?P<here><<-?[ \t]*(?P<end>(?:\\.|'[^']*'|"[^"]*"|[^\s;&|()<>'"\\])+))
    | (?P<line>\n)
    | (?P<quoted>"(?:[^"\\]|\\.)*")
    | (?P<last>\$!|\$\{!\})""",
    re.DOTALL | re.VERBOSE,
)
_LAST = re.compile(r"(\\.)|\$!|\$\{!\}", re.DOTALL)


_INPUT = " 0<&0 &"
_ALONE = re.compile(
    r"""\s*(?!nohup\b|setsid\b)(?=\S)((?:[\w@%+=:,./~$ \t-]|'[^']*'|"[^"`$\\]*")+)&\s*"""
)


def with_terminal(command: str) -> str:
    """Return `command` with the terminal as its input, if it is a program in the background."""
    alone = _ALONE.fullmatch(command)
    return f"{alone[1].rstrip()}{_INPUT}" if alone else command


def expand_last_background(command: str, pid: int | None) -> str:
    """Return `command` with `$!` replaced by `${!:-pid}`, an earlier job until it has its own.

    Text that the shell would not expand (quoted, comments, here-documents with a quoted end) is
    left alone.
    """
    if pid is None or ("$!" not in command and "${!}" not in command):
        return command
    word = f"${{!:-{pid}}}"
    parts: list[str] = []
    documents: list[re.Match[str]] = []
    position = 0
    while match := _PIECE.search(command, position):
        parts.append(command[position : match.start()])
        position = match.end()
        kind = match.lastgroup
        if kind == "last":
            parts.append(word)
        elif kind == "quoted":
            parts.append(_LAST.sub(lambda m: m[1] or word, match[0]))
        else:
            parts.append(match[0])
        if kind == "here":
            documents.append(match)
        elif kind == "line" and documents:
            text, position = _documents(command, position, documents, word)
            parts.append(text)
            documents = []
    return "".join(parts) + command[position:]


def _documents(
    command: str, position: int, documents: list[re.Match[str]], word: str
) -> tuple[str, int]:
    """Expand here-documents that begin at `position` as their ends say; returns where they stop."""
    parts: list[str] = []
    for document in documents:
        end = re.sub(r"\\(.)|['\"]", r"\1", document["end"])
        tabs = r"\t*" if document[0].startswith("<<-") else ""
        stop = re.compile(rf"^{tabs}{re.escape(end)}$", re.MULTILINE).search(command, position)
        if stop is None:
            continue  # not a here-document after all: a shift in an expression, say
        body = command[position : stop.end()]
        expands = end == document["end"]
        parts.append(_LAST.sub(lambda m: m[1] or word, body) if expands else body)
        position = stop.end()
    return "".join(parts), position


def with_last_background(source: bytes, pid: int | None) -> bytes:
    """Apply `expand_last_background` to functions as bash prints them."""
    if pid is None or b"$!" not in source:
        return source
    text = expand_last_background(decode(source), pid)
    return encode(text)


def actions_with_last_background(actions: bytes, pid: int | None) -> bytes:
    """Apply it to the actions of traps, whose quotes are not the shell's last word."""
    return actions if pid is None else actions.replace(b"$!", b"${!:-%d}" % pid)


def without_last_background(source: bytes, pid: int | None) -> bytes:
    return source if pid is None else source.replace(b"${!:-%d}" % pid, b"$!")
