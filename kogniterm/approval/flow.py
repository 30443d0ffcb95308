"""How values move between statements: through pipes, loops and redirections."""

from __future__ import annotations

import re
from dataclasses import replace

from kogniterm.approval.naming import names
from kogniterm.approval.places import (
    HOLE,
    is_harmless_device,
)
from kogniterm.approval.scope import Argument, Scope, expand, expand_single
from kogniterm.approval.shelltree import (
    Branch,
    Group,
    Loop,
    Node,
    Pipeline,
    Redirect,
    Sequence,
    Simple,
)
from kogniterm.approval.wordparts import Literal, Unknown, Word
from kogniterm.approval.words import decode_ansi

MAX_TEXT = 100_000
MAX_PIPES = 800
"""An unfinished pipe costs the parser time that grows with the square of its length."""


def too_long(command: str) -> bool:
    """Whether reading `command` could take longer than a person would wait."""
    return len(command) > MAX_TEXT or command.count("|") > MAX_PIPES


def goes_to_device(redirect: Redirect, scope: Scope) -> bool:
    """Whether a redirection leads to `/dev/null` or its kin."""
    if redirect.target is None:
        return True
    return is_harmless_device(expand_single(redirect.target, scope).value)


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


def element(value: Argument) -> Argument:
    """An element of an array literal, without the subscript it may be written with."""
    bare = re.sub(r"^\[[^\]]*\]\+?=", "", value.value)
    return value if bare == value.value else replace(value, value=bare, glob=False)


def assigned_names(node: Node) -> dict[str, bool]:
    """Names a statement may assign, and whether only numbers; found without recursion."""
    found: dict[str, bool] = {}
    stack: list[Node] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, Simple):
            for assignment in current.assignments:
                number = len(assignment.values) == 1 and _is_number(assignment.values[0])
                found[assignment.name] = number and found.get(assignment.name, True)
        elif isinstance(current, Pipeline):
            stack.extend(current.parts)
        elif isinstance(current, Sequence):
            stack.extend(item for _, item in current.items)
        elif isinstance(current, Branch):
            stack.extend((current.always, *current.parts))
        elif isinstance(current, Group | Loop):
            stack.append(current.body)
    return found


def _is_number(word: Word) -> bool:
    if len(word.parts) != 1:
        return False
    part = word.parts[0]
    if isinstance(part, Literal):
        return part.text.isdigit()
    return isinstance(part, Unknown) and part.digits


def programs_in(node: Node) -> list[str]:
    """The names of programs a statement visibly starts, without recursion into substitutions."""
    found: list[str] = []
    stack: list[Node] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, Simple):
            found.extend(current.words[0].raw.rpartition("/")[2:] if current.words else ())
        elif isinstance(current, Pipeline):
            stack.extend(current.parts)
        elif isinstance(current, Sequence):
            stack.extend(item for _, item in current.items)
        elif isinstance(current, Group):
            stack.append(current.body)
    return found


def said(part: Node, scope: Scope) -> str | None:
    """What an echo or printf in front of a pipe says, if it is known."""
    if not isinstance(part, Simple) or not part.words:
        return None
    words = [argument for word in part.words for argument in expand(word, scope)]
    if words[0].value not in {"echo", "printf"} or not all(argument.known for argument in words):
        return None
    texts = [argument.value for argument in words[1:]]
    option = texts.pop(0) if texts and re.fullmatch(r"-[neE]+", texts[0]) else ""
    spoken = " ".join(texts)
    if words[0].value == "echo" and "e" not in option:
        return spoken
    return decode_ansi(spoken).replace("%s", " ").replace("%b", " ")


_PASSES_LINES = frozenset(
    names(
        """
    grep egrep fgrep sort uniq head tail tac shuf
    """
    )
)


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
    if flat[0] != "find" or "-printf" in flat or "-fprintf" in flat:
        return None
    root = flat[1] if len(flat) > 1 and flat[1][:1] not in {"-", "(", "!"} else "."
    if root.startswith(HOLE):
        return None
    return Argument(f"{root.rstrip('/')}/{HOLE}", split=True, tainted=True)
