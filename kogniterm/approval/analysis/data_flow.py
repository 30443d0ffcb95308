"""How values move between statements: through pipes, loops and redirections."""

from __future__ import annotations

import re
from dataclasses import replace

from kogniterm.approval.analysis.expansion import Argument, Scope, expand, expand_single, variable
from kogniterm.approval.analysis.name_tables import names
from kogniterm.approval.analysis.path_kinds import HOLE, is_harmless_device, secret_sought
from kogniterm.approval.parser.tree import (
    Assignment,
    Literal,
    Node,
    Redirect,
    Simple,
    Unknown,
    Word,
    simple_commands,
)

MAX_TEXT = 100_000
MAX_PIPES = 800
"""An unfinished pipe costs the parser time that grows with the square of its length."""


def too_long(command: str) -> bool:
    """Return whether reading `command` could take longer than a person would wait."""
    return len(command) > MAX_TEXT or command.count("|") > MAX_PIPES


def goes_to_device(redirect: Redirect, scope: Scope) -> bool:
    """Return whether a redirection leads to `/dev/null` or its kin."""
    if redirect.target is None:
        return True
    return is_harmless_device(expand_single(redirect.target, scope).value)


# Version managers stand in front of these, and may fetch what a project file asks for.
_MANAGED = frozenset({"cargo", "rustc", "rustfmt"})


def tells_version(words: list[str]) -> bool:
    """Return whether a command of these words only tells its version or how it is used."""
    return words[1:] in (["--version"], ["--help"]) and words[0] not in _MANAGED


def prints_nothing(words: list[str]) -> bool:
    """Return whether a command of these words only empties the file its output goes to."""
    silent = words[0] in {":", "true", "false"} or words[1:] == ["/dev/null"]
    return silent or words in (["echo", "-n"], ["printf", ""])


def matched(pattern: Argument) -> Argument:
    """One of the names that a pattern has matched: also quoted it stands for what was found.

    What ends as the pattern says is seldom an option.
    """
    if not pattern.glob or pattern.value[-1:] not in "*?]":
        return pattern
    value = re.sub(r"[*?]+|\[[^]]*\]", HOLE, pattern.value)
    return replace(pattern, value=value, glob=False, tainted=True)


def any_of(values: list[Argument]) -> Argument:
    """One argument standing for any of `values`."""
    if not values:
        return Argument(HOLE, split=True)
    first = values[0]
    if all(value == first for value in values):
        return first
    tainted = any(v.maybe_option or v.tainted or v.value[:1] in {"-", HOLE} for v in values)
    prefix = (
        ""
        if tainted or not all(v.value[:1] in "./" or v.value[:1].isalnum() for v in values)
        else "./"
    )
    names = tuple(name for value in values for name in value.names)
    inner = tuple(item for value in values for item in value.inner)
    return Argument(
        prefix + HOLE, split=any(v.split for v in values), tainted=tainted, names=names, inner=inner
    )


def assigned(assignment: Assignment, values: list[Argument], scope: Scope) -> Argument:
    """What a variable holds after `name=value`, `name+=value` or `name=(…)`."""
    if not values and not assignment.array:
        return Argument("")
    value = values[0] if len(values) == 1 and not assignment.array else any_of(values)
    if not assignment.appends:
        return value
    before = variable(assignment.name, scope)
    return replace(value, value=before.value + value.value, tainted=True)


def element(value: Argument) -> Argument:
    """An element of an array literal, without the subscript it may be written with."""
    bare = re.sub(r"^\[[^\]]*\]\+?=", "", value.value)
    return value if bare == value.value else replace(value, value=bare, glob=False)


def assigned_names(node: Node) -> dict[str, bool]:
    """Names a statement may assign, and whether only numbers."""
    found: dict[str, bool] = {}
    for assignment in (one for command in simple_commands(node) for one in command.assignments):
        number = len(assignment.values) == 1 and _is_number(assignment.values[0])
        found[assignment.name] = number and found.get(assignment.name, True)
    return found


def _is_number(word: Word) -> bool:
    if len(word.parts) != 1:
        return False
    part = word.parts[0]
    if isinstance(part, Literal):
        return part.text.isdigit()
    return isinstance(part, Unknown) and part.digits


def programs_in(node: Node) -> set[str]:
    """The names of programs a statement visibly starts, but for those in substitutions."""
    started = (command.words[0].raw for command in simple_commands(node) if command.words)
    return {name.rpartition("/")[2] for name in started}


_PASSES_LINES = names(
    """
    grep egrep fgrep sort uniq head tail tac shuf
    """
)


_NAME_TESTS = re.compile(r"-i?(?:name|path|regex)|-i?wholename")


def sought(words: list[str]) -> tuple[str, ...]:
    """The patterns by which a find narrows what it finds, as globs; wildcards alone do not."""
    found = []
    for before, word, pattern in zip(["", *words], words, words[1:], strict=False):
        if not _NAME_TESTS.fullmatch(word) or before in {"!", "-not"}:
            continue
        if word.endswith("regex"):
            pattern = pattern.replace(".*", "*").replace("\\.", ".").strip("^$")
        if pattern.strip("*?/[]") not in {"", "."} or re.match(r"\.[^/]", pattern):
            found.append(pattern)
    return tuple(found)


def found_below(root: str, patterns: tuple[str, ...]) -> Argument:
    """What a find from `root` by these patterns hands on: the name that matters most."""
    telling = filter(None, map(secret_sought, patterns))
    name = next(iter((*telling, *patterns)), "")
    name = f"{HOLE}/{name}" if name else HOLE
    return Argument(f"{root.rstrip('/')}/{name}", bool(patterns), split=True, tainted=True)


def piped_items(part: Node, scope: Scope, before: Argument | None) -> Argument | None:
    """What the output of `part` gives xargs, line by line, where that is known to be paths."""
    if not isinstance(part, Simple) or not part.words:
        return None
    words = [expand(word, scope) for word in part.words]
    flat = [argument.value for group in words for argument in group]
    if flat[0] == "grep" and any(re.fullmatch(r"-\w*(?:r\w*l|l\w*r)\w*", word) for word in flat):
        below = flat[-1]
        known = below == "." or below.startswith(("./", "/"))
        return Argument(f"{below.rstrip('/')}/{HOLE}", split=True, tainted=True) if known else None
    if flat[0] in _PASSES_LINES:
        return before
    if flat[0] == "ls" and len(words) == len(flat):
        named = [group[0] for group in words[1:] if not group[0].value.startswith("-")]
        telling = (one for one in named if one.glob and secret_sought(one.value))
        return next(telling, None)
    if flat[0] != "find" or "-printf" in flat or "-fprintf" in flat:
        return None
    root = flat[1] if len(flat) > 1 and flat[1][:1] not in {"-", "(", "!"} else "."
    if root.startswith(HOLE):
        return None
    return found_below(root, sought(flat))
