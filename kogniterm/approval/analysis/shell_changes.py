"""Shell state that a command leaves for later commands, by its text; the folder does not count.

A command that runs because it only reads leaves none. So one that sets state for later commands is
applied by its text, where it does nothing else and has no expansions, or needs approval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kogniterm.approval.analysis.shared_findings import BUILTINS_WITH_STATE
from kogniterm.approval.parser import tree
from kogniterm.approval.parser.parse import parse
from kogniterm.types import ShellChange

_NOTHING_KEPT = frozenset({
    "bg", "bind", "cd", "complete", "disown", "exit", "fc", "fg", "hash", "history", "jobs", "kill",
    "logout", "return", "suspend", "times", "wait",
})  # fmt: skip
"""Builtins of which later commands get nothing, or the folder alone."""
_SHOW_WITHOUT_NAMES = frozenset({
    "alias", "declare", "dirs", "enable", "export", "readonly", "shopt", "trap", "typeset",
    "ulimit", "umask",
})  # fmt: skip
_FILLS = frozenset({"read", "mapfile", "readarray", "getopts", "let", "printf"})
_DECLARES = frozenset({"declare", "export", "local", "readonly", "typeset"})
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LITERAL = re.compile(r"'[^']*'|\"[^\"$`\\]*\"|[\w./:@%+,=^-]*", re.ASCII)
_SWITCH = re.compile(r"([-+])([eufC]*)(?:o (pipefail|errexit|nounset|noglob))?(?: |\Z)")
_LETTERS = {"e": "errexit", "u": "nounset", "f": "noglob", "C": "noclobber"}


def sets_in_shell(command: str) -> tuple[str, ...]:
    """Return the names of what `command` sets for later ones.

    Variables that only loops give a value (`for`, `select`, `while read`, an assignment in a body)
    do not count: nobody expects them to last.
    """
    found = (name for node, loop in _own(parse(command)) for name in _names(node, in_loop=loop))
    return tuple(dict.fromkeys(found))


def _own(node: tree.Node, *, in_loop: bool = False) -> Iterator[tuple[tree.Node, bool]]:
    """Yield the statements that the shell itself runs, each with whether it is in a loop."""
    inner: tuple[tree.Node | None, ...] = ()
    if isinstance(node, tree.Sequence):
        inner = tuple(item for _, item in node.items)
    elif isinstance(node, tree.Pipeline):
        inner = node.parts if len(node.parts) == 1 else ()  # else each is a shell of its own
    elif isinstance(node, tree.Group):
        inner = () if node.subshell else (node.body,)
    elif isinstance(node, tree.Branch):
        inner = (node.always, *node.parts)
    elif isinstance(node, tree.Loop):
        inner, in_loop = (node.head, node.body), True
    else:
        yield node, in_loop
    for one in inner:
        if one is not None:
            yield from _own(one, in_loop=in_loop)


def _names(node: tree.Node, *, in_loop: bool) -> Iterator[str]:
    if isinstance(node, tree.Function):
        yield f"{node.name}()"
    elif isinstance(node, tree.Test) and not (node.extended or in_loop):
        yield from _given_by(node.words)
    elif isinstance(node, tree.Opaque):
        yield "…"
    if not isinstance(node, tree.Simple):
        return
    words = [word.raw for word in node.words]
    while words and words[0] in ("command", "builtin", "time", "-p", "--"):
        if words.pop(0) == "command" and words[:1] in (["-v"], ["-V"]):
            return
    name, rest = (words[0].strip("'\"\\"), words[1:]) if words else ("", [])
    if not in_loop:
        yield from _given_by((*node.words, *(w for one in node.assignments for w in one.values)))
    if name in _DECLARES or (not words and not in_loop):
        yield from (one.name for one in node.assignments)
    shows = name in _SHOW_WITHOUT_NAMES and all(word[0] == "-" for word in rest)
    shows = shows or (name == "printf" and not "".join(rest[:1]).startswith("-v"))
    if name not in BUILTINS_WITH_STATE | {"printf"} or name in _NOTHING_KEPT or shows:
        return
    if not (name == "set" and rest in ([], ["-o"], ["+o"])) and not (name in _FILLS and in_loop):
        named = [word.strip("'\"").partition("=")[0] for word in rest if word[:1] not in "-+"]
        given = named[:1] if name == "printf" else named[-1:]
        yield from named if name in _DECLARES else (name in _FILLS and given) or [name]


def _given_by(words: Iterable[tree.Word]) -> Iterator[str]:
    """Yield the variables to which expansions give a value."""
    for part in (part for word in words for part in word.parts):
        if isinstance(part, tree.Unknown):
            yield from (*part.targets, *((part.assigns,) if part.assigns else ()))


def literal_changes(command: str) -> tuple[ShellChange, ...]:
    """Return the changes of which a command consists; none where it does or needs anything else."""
    parsed, found = parse(command), list[ShellChange]()
    if isinstance(parsed, tree.Function):
        return (ShellChange("function", parsed.name, command),)
    for op, node in parsed.items if isinstance(parsed, tree.Sequence) else (("", parsed),):
        plain = isinstance(node, tree.Simple) and not node.redirects and op not in ("||", "&")
        changes = _of_simple(node) if plain and isinstance(node, tree.Simple) else []
        if not changes:
            return ()
        found += changes
    twice = len({change.name for change in found}) < len(found)
    negated = re.search(r"(?:^|\s)!", command)  # which the parser does not keep
    return () if twice or negated else tuple(found)


def _of_simple(node: tree.Simple) -> list[ShellChange]:
    words = [word.raw for word in node.words]
    if words[:1] == ["set"] and not node.assignments:
        text, found = " ".join(words[1:]), list[ShellChange]()
        for match in _SWITCH.finditer(text):
            names = [_LETTERS[letter] for letter in match[2]] + ([match[3]] if match[3] else [])
            found += (ShellChange("option", name, match[1]) for name in names)
        return found if re.fullmatch(f"(?:{_SWITCH.pattern})+", text) else []
    # Assignments before the word belong to that command alone; the parser then takes it for any.
    declares = bool(words) and node.words[0].parts == (tree.Literal("export", quoted=True),)
    if words and not declares:
        return []
    found = [ShellChange("export", name) for name in words[1:]]
    for one in node.assignments:
        literal = len(one.values) < 2 and all(_LITERAL.fullmatch(word.raw) for word in one.values)
        if one.array or one.adds or one.computes or not literal:
            return []
        parts = [part for word in one.values for part in word.parts]
        value = "".join(part.text for part in parts if isinstance(part, tree.Literal))
        found.append(ShellChange("export" if words else "set", one.name, value))
    return found if all(_NAME.fullmatch(change.name) for change in found) else []
