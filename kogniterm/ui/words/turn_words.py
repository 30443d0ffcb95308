"""Words for the way of a turn and its end: tools, agents, retries, limits, programs left running.

Needs no drawing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kogniterm.runtime.budgets import option_that_raises
from kogniterm.storage.folders import seen_from
from kogniterm.text.shorten import cut, one_line
from kogniterm.text.visible import render, without_marks
from kogniterm.types import Answer, LeftRunning, Phrase, Usage
from kogniterm.ui.locale import _, duration, plural, tokens, translate

EXIT_STATUS = Phrase(
    "Exit status: 0 done, 1 not done, 2 wrong usage or settings, 3 blocked by a refusal or a "
    "missing approval, 4 a limit was reached, 5 the model failed, 130 interrupted."
)
WORTH_TELLING = 30.0
"""Seconds of waiting for the user from which that is told."""


def again(seconds: float, attempt: int, of: int) -> str:
    """Return when a failed call is made again, and which of how many tries failed.

    A call that waits for a limit, of the attempt 0, has not failed.
    """
    if not attempt:
        return _("Continues in {left}.").format(left=f"{max(seconds, 0):.0f} s")
    numbers = {"attempt": attempt, "of": of}
    if seconds < 0.5:
        return _("Retrying ({attempt} of {of}).").format(**numbers)
    left = f"{seconds:.0f} s"
    return _("Retrying in {left} ({attempt} of {of}).").format(left=left, **numbers)


def usage_text(usage: Usage, seconds: float, waited: float = 0.0) -> str:
    parts = [duration(seconds)]
    if waited >= WORTH_TELLING:
        wait = duration(waited)
        parts = [_("{time} (and {wait} waiting for you)").format(time=duration(seconds), wait=wait)]
    if usage.input or usage.output:
        spent = _("{input} tokens in, {output} out").format(
            input=tokens(usage.input), output=tokens(usage.output)
        )
        if usage.cached:
            spent += " " + _("({cached} from the cache)").format(cached=tokens(usage.cached))
        parts.append(spent)
    return " · ".join(parts)


def limit_hint(answer: Answer) -> str:
    """Return how to raise the limit that ended the turn; "" when none did."""
    if answer.stop != "budget":
        return ""
    option = option_that_raises(answer.reason) if answer.reason else ""
    if not option:
        return _("Completed work is kept. Raise the limit with /budget, then continue.")
    return _(
        "Completed work is kept. Raise the limit with {option}, or with /budget at the prompt, "
        "then continue."
    ).format(option=option)


def end_reason(answer: Answer) -> str:
    """Return why the turn stopped, without reasons that are already on the screen."""
    told = answer.refused_by or (answer.not_verified and answer.stop == "not_done")
    reason = translate(answer.reason) if answer.reason and not told else stop_text(answer.stop)
    hint = answer.reason.values.get("hint") if answer.reason else None
    return f"{reason} {translate(hint)}" if told and isinstance(hint, Phrase) else reason


def stop_text(stop: str) -> str:
    """Return why a turn ended, where the runtime gave no reason of its own."""
    return {
        "not_done": _("The task was not completed."),
        "refused": _("The task may be incomplete: an action was refused."),
        "budget": _("A limit was reached."),
        "model_failed": _("The model failed."),
        "interrupted": _("You stopped the turn."),
        "plan_only": _("This is the plan; nothing was changed."),
    }.get(stop, _("The turn ended early."))


_LONGEST_COMMAND = 200
_ENDED = {
    "sandbox": Phrase("Stopped: {command} (programs in the sandbox cannot stay running)"),
    "asked": Phrase("Stopped: {command} (--end-jobs)"),
    "background": Phrase("Stopped: {command} (background job; keep one with nohup or /jobs keep)"),
}


def left_texts(programs: Sequence[LeftRunning]) -> list[Phrase]:
    """Return a sentence for each program, those that stay first, and what to do about it."""
    return [_told(one) for one in sorted(programs, key=lambda one: not one.stays)]


def _told(one: LeftRunning) -> Phrase:
    command = one_line(one.command, _LONGEST_COMMAND)
    if not one.stays:
        return Phrase(_ENDED[one.why].template, {"command": command})
    values = {
        "command": command,
        "pids": ", ".join(map(str, one.pids)),
        "kill": one.end_with,
        "path": one.output_path,
    }
    if one.output_path:
        return Phrase(
            "Still running: {command} (process {pids}), output in {path}; stop it with: {kill}",
            values,
        )
    return Phrase("Still running: {command} (process {pids}); stop it with: {kill}", values)


EDITS = frozenset({"edit_file", "write_file"})
"""Tools whose result says what they did, and to which file."""
_EDIT = re.compile(
    r"(edit|create|Wrote) (.+) \((?:\+(\d+) -(\d+) lines|(\d+) replacements|no changes)\)\.?",
    re.DOTALL,
)
"""The sentence in which these tools tell the model what an edit would do or did."""


def tool_label(name: str) -> str:
    """Return what the tool `name` does; a tool of a server or an extension keeps its name."""
    label = _LABELS.get(name)
    if label is not None:
        return translate(label)
    return _shown(re.sub(r"^mcp__(.+?)__", r"\1: ", name))


def shown_result(observation: str, length: int) -> str:
    """Return the beginning of an observation, without the marks that are for the model."""
    return one_line(without_marks(observation), length)


def edit_words(told: str, folder: str = "") -> str:
    """Return what an edit would do or did in the user's language; other texts as they are."""
    found = _EDIT.fullmatch(told)
    if found is None:
        return told
    words = {
        "edit": _("edit {path} ({extent})"),
        "create": _("create {path} ({extent})"),
        "Wrote": _("Wrote {path} ({extent})"),
    }[found[1]]
    path = seen_from(folder, found[2]) if folder else found[2]
    extent = _("+{added} -{removed} lines").format(added=found[3], removed=found[4])
    if found[3] is None:
        extent = _("no changes")
    if found[5]:
        extent = _("{count} replacements").format(count=found[5])
    return words.format(path=path, extent=extent)


def agent_label(number: int, task: str, name: str = "") -> str:
    """Return what the screen calls a sub-agent, or a custom command that runs commands."""
    values = {"number": number, "task": one_line(task, 100), "name": one_line(name, 40)}
    if name.startswith("/"):
        return _("custom command {task}").format(**values)
    if name:
        return _("sub-agent {number}, {name}: {task}").format(**values)
    return _("sub-agent {number}: {task}").format(**values)


LONGEST = 300
"""Characters of one value that are shown at most; the line is cut at the screen's width too."""
_UNTOLD = frozenset({"purpose", "quote"})
"""Arguments that are reasons for the call, not what it is about."""

Given = Mapping[str, Any]


def tool_words(name: str, arguments: str, *, strict: bool = False) -> str:
    """Return `arguments`, a JSON object, of the tool `name` on one line; empty without any.

    In a `strict` call they are empty unless they are what the tool takes.
    """
    if strict and name not in _WORDS:
        return ""
    try:
        given = json.loads(arguments)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return "" if strict else _shown(arguments)
    words = _WORDS.get(name, _describe_arguments)
    try:
        return words(given)
    except (KeyError, TypeError, ValueError):
        return "" if strict else _describe_arguments(given)


def _shown(value: object) -> str:
    """Return `value` on one line, hidden characters made visible."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    # Cut before it is looked at: a value may be a whole file.
    return " ".join(render(cut(text, LONGEST)).split())


def _quote_value(value: object) -> str:
    return f'"{_shown(value)}"'


def _describe_arguments(given: Given) -> str:
    """Return any tool's arguments."""
    return ", ".join(
        f"{_shown(name)}: {_shown(value)}"
        for name, value in given.items()
        if name not in _UNTOLD and value not in ("", None)
    )


def _lines(given: Given, usual: int) -> str:
    """Return which lines of a file, where the call names any; empty for its beginning."""
    if "start" not in given and "lines" not in given:
        return ""
    start, count = int(given.get("start", 1)), int(given.get("lines", usual))
    if start < 0:
        return ", " + plural("last line", "last {count} lines", -start)
    if count == 1:
        return ", " + _("line {number}").format(number=start)
    return ", " + _("lines {first}-{last}").format(first=start, last=start + count - 1)


def _below(what: str, given: Given) -> str:
    """Return `what`, and the folder unless it is the one the session works in."""
    where = given.get("path", ".")
    if where in ("", "."):
        return what
    return _("{what} in {where}").format(what=what, where=_shown(where))


def _search_text(given: Given) -> str:
    found = _below(_quote_value(given["pattern"]), given)
    return f"{found}, {_shown(given['glob'])}" if given.get("glob") else found


def _recall_history(given: Given) -> str:
    if given.get("entry") is not None:
        return _("entry {number}").format(number=int(given["entry"]))
    return _quote_value(given["words"])


def _web_fetch(given: Given) -> str:
    start = int(given.get("start", 0))
    address = _shown(given["url"])
    if not start:
        return address
    return f"{address}, " + _("from character {number}").format(number=start)


def _github(given: Given) -> str:
    number = given.get("number")
    what = f"#{int(number)}" if number is not None else _shown(given.get("path", ""))
    return " ".join(part for part in (_shown(given["action"]), _shown(given["repo"]), what) if part)


def _one(key: str, shown: Callable[[object], str]) -> Callable[[Given], str]:
    return lambda given: shown(given[key])


_WORDS: Mapping[str, Callable[[Given], str]] = {
    "read_file": lambda given: _shown(given["path"]) + _lines(given, 250),
    "write_file": _one("path", _shown),
    "edit_file": _one("path", _shown),
    "search_text": _search_text,
    "find_files": lambda given: _below(_shown(given.get("glob", "*")), given),
    "recall_history": _recall_history,
    "recall": _one("question", _quote_value),
    "remember": _one("text", _quote_value),
    "forget": _one("id", _shown),
    "calculate": _one("formula", _shown),
    "web_fetch": _web_fetch,
    "web_search": _one("query", _quote_value),
    "find_tools": _one("query", _quote_value),
    "call_tool": _one("tool", _shown),
    "use_skill": _one("name", _shown),
    "github": _github,
    "jobs": lambda given: " ".join(
        _shown(given[key]) for key in ("action", "id") if given.get(key)
    ),
    "delegate": _one("task", _shown),
    "complete_step": _one("step", _shown),
    "end_turn": _one("outcome", _shown),
}

QUIET_TOOLS = frozenset({"make_plan", "complete_step", "end_turn"})
"""Tools whose effect is shown by itself, as a plan or as the end of the turn."""

_LABELS: Mapping[str, Phrase] = {
    "read_file": Phrase("Read"),
    "write_file": Phrase("Write"),
    "edit_file": Phrase("Edit"),
    "search_text": Phrase("Search for"),
    "find_files": Phrase("Find files"),
    "recall_history": Phrase("Read this session:"),
    "recall": Phrase("Search memory:"),
    "remember": Phrase("Remember"),
    "forget": Phrase("Forget memory"),
    "calculate": Phrase("Calculate"),
    "web_fetch": Phrase("Fetch"),
    "web_search": Phrase("Search the web for"),
    "find_tools": Phrase("Find tools for"),
    "call_tool": Phrase("Call"),
    "use_skill": Phrase("Use skill"),
    "github": Phrase("Look up on GitHub:"),
    "jobs": Phrase("Background jobs:"),
    "delegate": Phrase("Start a sub-agent:"),
    "execute_command": Phrase("Run"),
    "run_on_hosts": Phrase("Run on hosts:"),
    "ask_user": Phrase("Ask you"),
    "make_plan": Phrase("Make a plan"),
    "complete_step": Phrase("Complete plan step"),
    "end_turn": Phrase("End the turn:"),
}
