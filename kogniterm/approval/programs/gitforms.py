"""Forms of git's verbs that only read, or that lose work: those that a table cannot tell apart."""

from __future__ import annotations

import re
from collections.abc import Callable

from kogniterm.approval.naming import names
from kogniterm.approval.options import Parsed

_LISTING = {
    "branch": frozenset(
        names(
            """
    a r v vv l list all remotes verbose show-current merged no-merged contains no-contains sort
    points-at format column no-column color no-color i ignore-case abbrev no-abbrev q
    """
        )
    ),
    "tag": frozenset(
        names(
            """
    l list n sort contains no-contains merged no-merged points-at format column no-column color
    i ignore-case
    """
        )
    ),
    "stash": frozenset(),
}


def _listing(verb: str) -> Callable[[Parsed, str], bool]:
    allowed = _LISTING[verb]

    def reads(parsed: Parsed, first: str) -> bool:
        names = {option.name for option in parsed.options}
        lists = bool(
            names & {"l", "list", "contains", "merged", "no-merged", "points-at", "no-contains"}
        )
        return names <= allowed and (not first or lists)

    return reads


def _config_reads(parsed: Parsed, first: str) -> bool:
    names = {option.name for option in parsed.options}
    reading = {
        "get",
        "get-all",
        "get-regexp",
        "list",
        "l",
        "get-urlmatch",
        "show-origin",
        "show-scope",
        "global",
        "local",
        "system",
        "z",
        "null",
        "name-only",
        "includes",
        "type",
        "bool",
        "int",
        "worktree",
    }
    asks = bool(names & {"get", "get-all", "get-regexp", "list", "l", "get-urlmatch"})
    return names <= reading and (
        asks or first in {"get", "list"} or (len(parsed.operands) == 1 and bool(first))
    )


_DIFF_DOES_MORE = ("textconv", "ext-diff", "output", "show-signature")
READING_FORMS: dict[str, Callable[[Parsed, str], bool]] = {
    "branch": _listing("branch"),
    "tag": _listing("tag"),
    "stash": lambda parsed, first: first in {"list", "show"} and not parsed.has(*_DIFF_DOES_MORE),
    "remote": lambda parsed, first: (
        (not first and {o.name for o in parsed.options} <= {"v", "verbose"}) or first == "get-url"
    ),
    "reflog": lambda parsed, first: (
        first not in {"expire", "delete", "drop"}
        and not parsed.has("output", "ext-diff", "textconv", "show-signature")
    ),
    "worktree": lambda _, first: first == "list",
    "notes": lambda _, first: first in {"", "list", "show"},
    "bisect": lambda _, first: first in {"log", "view"},
    "submodule": lambda _, first: first in {"", "status"},
    "config": _config_reads,
    "var": lambda _, first: first.endswith("_IDENT") or first == "GIT_DEFAULT_BRANCH",
    "symbolic-ref": lambda parsed, _: (
        len(parsed.operands) == 1 and {o.name for o in parsed.options} <= {"q", "quiet", "short"}
    ),
    "help": lambda parsed, _: parsed.has("a", "all", "g", "guides"),
}
DESTROYS: dict[str, Callable[[Parsed, str], bool]] = {
    "push": lambda parsed, _: (
        any(o.name in {"f", "d"} or re.match(r"for|del|mir|pru", o.name) for o in parsed.options)
        or any(re.match(r"[+:]", operand.value) for operand in parsed.operands[1:])
    ),
    "reset": lambda parsed, _: any(re.match(r"ha", o.name) for o in parsed.options),
    "clean": lambda parsed, _: not parsed.has("n", "dry-run"),
    "stash": lambda _, first: first in {"drop", "clear"},
    "reflog": lambda _, first: first in {"expire", "delete", "drop"},
    "gc": lambda parsed, _: any(o.name.startswith("pru") for o in parsed.options),
    "checkout": lambda parsed, first: parsed.has("f", "force") or first in {".", "*", "./"},
    "restore": lambda parsed, first: first in {".", "*", "./"} and not parsed.has("staged", "S"),
    "worktree": lambda parsed, first: first == "remove" and parsed.has("f", "force"),
    "rm": lambda parsed, first: parsed.has("f", "force") and parsed.has("r"),
}
