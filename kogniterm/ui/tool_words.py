"""What a tool was given, as a person would say it: a file and its lines, words and where.

Tools that are not known here, and arguments that are no JSON object (recordings of earlier
versions), are shown as `name: value`. Characters that cannot be seen are made visible.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kogniterm.approval.display import render
from kogniterm.ui.locale import _, plural

LONGEST = 300
"""Characters of one value that are shown at most; the line is cut at the screen's width too."""
_UNTOLD = frozenset({"purpose", "quote"})
"""Arguments that are reasons for the call, not what it is about."""

Given = Mapping[str, Any]


def tool_words(name: str, arguments: str) -> str:
    """One line for `arguments`, a JSON object, of the tool `name`; empty if it was given none."""
    try:
        given = json.loads(arguments)
    except ValueError:
        return _shown(arguments)
    if not isinstance(given, dict):
        return _shown(arguments)
    words = _WORDS.get(name, _named)
    try:
        return words(given)
    except (KeyError, TypeError, ValueError):
        return _named(given)


def _shown(value: object) -> str:
    """`value` on one line, hidden characters made visible."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    # Cut before it is looked at: a value may be a whole file.
    cut = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return " ".join(render(cut).split())


def _quoted(value: object) -> str:
    return f'"{_shown(value)}"'


def _named(given: Given) -> str:
    """Any tool's arguments."""
    return ", ".join(
        f"{_shown(name)}: {_shown(value)}"
        for name, value in given.items()
        if name not in _UNTOLD and value not in ("", None)
    )


def _lines(given: Given, usual: int) -> str:
    """Which lines of a file, where the call names any; empty for its beginning."""
    if "start" not in given and "lines" not in given:
        return ""
    start, count = int(given.get("start", 1)), int(given.get("lines", usual))
    if start < 0:
        return ", " + plural("the last line", "the last {count} lines", -start)
    if count == 1:
        return ", " + _("line {number}").format(number=start)
    return ", " + _("lines {first}-{last}").format(first=start, last=start + count - 1)


def _read_file(given: Given) -> str:
    return _shown(given["path"]) + _lines(given, 250)


def _read_output(given: Given) -> str:
    where = _shown(given["path"]) + _lines(given, 100)
    if not given.get("pattern"):
        return where
    return _("{what} in {where}").format(what=_quoted(given["pattern"]), where=where)


def _below(what: str, given: Given) -> str:
    """`what`, and the folder unless it is the one the session works in."""
    where = given.get("path", ".")
    if where in ("", "."):
        return what
    return _("{what} in {where}").format(what=what, where=_shown(where))


def _search_text(given: Given) -> str:
    found = _below(_quoted(given["pattern"]), given)
    return f"{found}, {_shown(given['glob'])}" if given.get("glob") else found


def _find_files(given: Given) -> str:
    return _below(_shown(given.get("glob", "*")), given)


def _recall_history(given: Given) -> str:
    if given.get("entry") is not None:
        return _("entry {number}").format(number=int(given["entry"]))
    return _quoted(given["words"])


def _web_fetch(given: Given) -> str:
    start = int(given.get("start", 0))
    address = _shown(given["url"])
    if not start:
        return address
    return f"{address}, " + _("from character {number} on").format(number=start)


def _github(given: Given) -> str:
    number = given.get("number")
    what = f"#{int(number)}" if number is not None else _shown(given.get("path", ""))
    return " ".join(part for part in (_shown(given["action"]), _shown(given["repo"]), what) if part)


def _jobs(given: Given) -> str:
    return " ".join(_shown(given[key]) for key in ("action", "id") if given.get(key))


def _one(key: str, shown: Callable[[object], str]) -> Callable[[Given], str]:
    return lambda given: shown(given[key])


_WORDS: Mapping[str, Callable[[Given], str]] = {
    "read_file": _read_file,
    "read_output": _read_output,
    "search_text": _search_text,
    "find_files": _find_files,
    "recall_history": _recall_history,
    "recall": _one("question", _quoted),
    "remember": _one("text", _quoted),
    "forget": _one("id", _shown),
    "calculate": _one("formula", _shown),
    "web_fetch": _web_fetch,
    "web_search": _one("query", _quoted),
    "github": _github,
    "jobs": _jobs,
    "delegate": _one("task", _shown),
}
