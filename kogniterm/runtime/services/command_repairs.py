"""Commands that failed and what worked in their place, read from the journal; needs no model.

A failure and a later success are one lesson only when they belong together, by one of these rules,
tried in this order:

1. The same command again, after a change that explains it: an edit of a file, or a command that
   names a word of the error line ("No module named 'flask'", then `pip install flask`).
2. A typing mistake: nearly the same text, or an unknown program with the same operands.
3. The same program and subcommand, and operands that are alike, equal, or absent in one of them.
4. Another program with a word in common that says what for (`make unit`, `pytest tests/unit`), as
   the last command of the turn, or of the plan step, that did anything.
5. Another program in the same plan step, as the last command before the step was done.

Commands that only look are never what worked in place of another program, and their failures count
only with an error line: `grep` that finds nothing has not failed. Commands that were refused,
interrupted, stopped or ended by a signal teach nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from kogniterm.memory.learnings import error_line
from kogniterm.sessions.history import SessionHistory
from kogniterm.sessions.records import Record
from kogniterm.types import Plan

TURNS = 2
"""Turns after the one of the failure in which a success may still belong to it."""

ALIKE = 0.8
"""Share of the letters that two commands with a typing mistake have in common."""

ALIKE_OPERANDS = 0.6
LONGEST_FIX = 3
"""Edited files that are named as what fixed a command; with more, no one of them did."""

_STOPPED = (130, 137, 141, 143)
"""Exit codes of commands that a signal ended: interrupted, killed, a closed pipe, terminated."""

_NOT_FOUND = 127
_WRAPPERS = frozenset(
    ("sudo", "env", "time", "nice", "nohup", "command", "exec", "uv", "poetry", "npx", "run")
)
_TIDYING = re.compile(
    r"rm|mv|cp|mkdir|rmdir|touch|chmod|chown|ln|kill|pkill|cd|export|unset|echo|printf|true|"
    r"false|sleep|read|set|source|tee"
)
"""Programs that prepare something, and are not what another program was run for."""

_LOOKING = re.compile(
    r"ls|cat|head|tail|less|more|grep|rg|egrep|find|which|type|command|stat|file|wc|diff|cmp|"
    r"test|pwd|tree|du|df|ps|env|id|date|uname|history|man"
)
_GENERIC = re.compile(
    r"with|from|this|that|then|into|over|file|files|main|home|user|local|usr|var|tmp|opt|root|"
    r"true|none|null|make|http|https|python|bash|shell|exec|code|data|name|path|line|args|"
    r"help|version|verbose|quiet|force|all"
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]{3,}")


class Repair(NamedTuple):
    """A command that failed for `task`, and what worked; with `fix`, the same command after it."""

    seq: int
    task: str
    failed: str
    worked: str
    exit_code: int
    output: str
    fix: str = ""


class _Run(NamedTuple):
    """A command that ran to its end, and where: `step` is the plan step that was open."""

    seq: int
    turn: int
    task: str
    command: str
    exit_code: int
    output: str
    agent: str
    step: str
    looks: bool
    edited: tuple[str, ...] = ()
    """The files that were edited since the command before."""
    words: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        if self.exit_code == 0 or self.exit_code in _STOPPED:
            return False
        return not self.looks or bool(error_line(self.output))

    @property
    def program(self) -> str:
        return self.words[0] if self.words else ""


def repairs(records: Iterable[Record], after: int = 0) -> list[Repair]:
    """Return the repairs in the records of some turns whose success is a record after `after`."""
    runs = _runs(records)
    found: list[Repair] = []
    used: set[int] = set()
    for number, failure in enumerate(runs):
        if not failure.failed or failure.seq in used:
            continue
        later = [
            one
            for one in runs[number + 1 :]
            if one.turn - failure.turn <= TURNS and one.agent == failure.agent
        ]
        success, fix = _what_worked(failure, later)
        if success is None:
            continue
        # The failures on the way to it belong to the same lesson.
        used.update(one.seq for one in later if one.seq < success.seq and one.failed)
        if success.seq > after:
            found.append(
                Repair(
                    success.seq,
                    failure.task,
                    failure.command,
                    success.command,
                    failure.exit_code,
                    failure.output,
                    fix,
                )
            )
    return found


def _what_worked(failure: _Run, later: Sequence[_Run]) -> tuple[_Run | None, str]:
    """Return the success that `failure` belongs to, and the fix when it is the same command."""
    good = [one for one in later if one.exit_code == 0]
    for one in good:
        if one.command.split() == failure.command.split():
            between = [run for run in later if run.seq <= one.seq]
            fix = _fix(failure, between)
            return (one, fix) if fix else (None, "")
    for rule in (_is_typo, _is_same_program):
        if (found := next((one for one in good if rule(failure, one)), None)) is not None:
            return found, ""
    for one in good:
        if _is_other_way(failure, one, later):
            return one, ""
    return None, ""


def _fix(failure: _Run, between: Sequence[_Run]) -> str:
    """Return what was done between a failure and the success of the same command, or ""."""
    told = set(_words(error_line(failure.output)))
    for run in between[:-1]:
        acts = run.exit_code == 0 and not run.looks
        if acts and told & (set(_words(run.command)) - set(_words(failure.command))):
            return run.command
    edited = list(dict.fromkeys(file for run in between for file in run.edited))
    if 0 < len(edited) <= LONGEST_FIX:
        return f"edit {', '.join(edited)}"
    return ""


def _is_typo(failure: _Run, success: _Run) -> bool:
    if failure.exit_code == _NOT_FOUND and failure.words[1:] == success.words[1:]:
        return bool(failure.words[1:]) or _alike(failure.program, success.program, ALIKE_OPERANDS)
    one, two = " ".join(failure.words), " ".join(success.words)
    return (
        len(failure.words) == len(success.words)
        and _alike(one, two, ALIKE)
        and all(
            _alike(a, b, ALIKE_OPERANDS) for a, b in zip(failure.words, success.words, strict=True)
        )
    )


def _is_same_program(failure: _Run, success: _Run) -> bool:
    if failure.program != success.program:
        return False
    mine, theirs = _operands(failure), _operands(success)
    if mine == theirs:
        return True
    if not failure.looks and (not mine[1:] or not theirs[1:]) and mine[:1] == theirs[:1]:
        return True
    if not failure.looks and (not mine or not theirs):
        return True
    return any(
        _alike(a.lower(), b.lower(), ALIKE_OPERANDS)
        for a in mine
        for b in theirs
        if len(a) > 2 and len(b) > 2
    )


def _is_other_way(failure: _Run, success: _Run, later: Sequence[_Run]) -> bool:
    """Return whether another program did what the failed one was run for."""
    for one in (failure, success):
        if one.looks or not one.program or _TIDYING.fullmatch(one.program):
            return False
    after = [one for one in later if one.seq > success.seq and not one.looks]
    here = (success.turn, success.step)
    if any((one.turn, one.step) == here for one in after):
        return False
    mine, theirs = set(_words(failure.command)), set(_words(success.command))
    mine.discard(failure.program.lower())
    if mine & theirs or any(word in success.program.lower() for word in mine):
        return True
    return bool(failure.step) and failure.step == success.step and failure.turn == success.turn


def _operands(run: _Run) -> list[str]:
    return [word for word in run.words[1:] if not word.startswith("-")]


def _alike(one: str, two: str, share: float) -> bool:
    return one == two or SequenceMatcher(None, one, two, autojunk=False).ratio() >= share


def _words(text: str) -> list[str]:
    """Return the words that say what a command is for, in lower case, without plural endings."""
    found = (one.lower() for one in _WORD.findall(text))
    return [one.removesuffix("s") for one in found if not _GENERIC.fullmatch(one)]


def _runs(records: Iterable[Record]) -> list[_Run]:
    """Return the commands that ended by themselves, in the order of their ends."""
    edited: dict[str, list[str]] = {}
    runs: list[_Run] = []
    for turn in SessionHistory(records).all_turns:
        for action in turn.ended:
            request, result = action.request, action.result
            agent = request.agent if request is not None else ""
            if action.status != "finished":
                continue
            if result is None:
                if request is not None and action.effect == "edit":
                    path = str(request.arguments.get("path", ""))
                    edited.setdefault(agent, []).append(path)
            elif result.ended == "exited" and result.exit_code is not None:
                words = tuple(_split(result.command))
                looks = (action.report is not None and action.report.label == "safe_readonly") or (
                    bool(words) and _LOOKING.fullmatch(words[0]) is not None
                )
                plans = [plan for seq, plan in turn.plans if seq < action.ended_seq]
                step = _open_step(plans[-1] if plans and not agent else None)
                changed = tuple(filter(None, edited.pop(agent, [])))
                runs.append(
                    _Run(
                        action.ended_seq, turn.number, turn.input.typed, result.command,
                        result.exit_code, result.text, agent, step, looks, changed, words,
                    )
                )  # fmt: skip
    return runs


def _open_step(plan: Plan | None) -> str:
    """Return the id of the plan step that is worked on, or ""."""
    if plan is None:
        return ""
    waiting = (one.id for one in plan.steps if one.status in ("active", "pending"))
    return next(waiting, "")


def _split(command: str) -> list[str]:
    """Return the words of a command without what only wraps it; paths of programs are dropped."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    while words and (words[0] in _WRAPPERS or re.match(r"\w+=", words[0])):
        words = words[1:]
    if len(words) > 2 and re.fullmatch(r"python[\d.]*", words[0]) and words[1] == "-m":
        words = words[2:]
    if words:
        words[0] = re.sub(r"^(python|pip)3(?:\.\d+)?$", r"\1", words[0].rsplit("/", 1)[-1])
    return words
