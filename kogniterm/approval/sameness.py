"""Tell whether a command is one that was started before: for runs whose outcome is unknown.

Two commands are the same when they read the same to the shell in the same folder, whatever their
spacing and quoting. A command repeats another when it is the same, or when one of its programs that
does more than read stands in the other with the same arguments and in the same folder.
"""

from __future__ import annotations

import posixpath
from dataclasses import fields, is_dataclass

from kogniterm.approval.findings import UNREAD
from kogniterm.approval.risk import classify
from kogniterm.approval.rules import quoted
from kogniterm.approval.shellparse import parse
from kogniterm.approval.shelltree import Node, Opaque, Sequence, Simple
from kogniterm.approval.wordparts import Literal, Unknown, Word

_PATTERN = frozenset("*?[]{}~")
"""What means something to the shell only where it is not quoted."""


def same_command(command: str, folder: str, before: str, folder_before: str) -> bool:
    """Return whether `command` in `folder` is `before` in `folder_before`."""
    return _form(command, folder) == _form(before, folder_before)


def repeats(command: str, folder: str, before: str, folder_before: str) -> bool:
    """Return whether `command` would do again what `before` did, or a part of it."""
    if same_command(command, folder, before, folder_before):
        return True
    return not _acts(command, folder).isdisjoint(_acts(before, folder_before))


def _acts(command: str, folder: str) -> set[tuple[str, tuple[str, ...]]]:
    """The programs that do more than read, each with its arguments and folder."""
    found = set()
    for argv in classify(command, cwd=folder).programs:
        if argv[:1] in (("cd",), ("pushd",)):
            folder = _entered(folder, argv[-1]) if len(argv) > 1 else folder
        elif argv and argv != UNREAD and classify(quoted(argv)).label != "safe_readonly":
            found.add((folder, argv))
    return found


def _entered(folder: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(folder, name))


def _form(command: str, folder: str) -> tuple[object, ...]:
    """What the shell reads, with the folder that a leading `cd` leads to."""
    statements, folder = _statements(parse(command)), posixpath.normpath(folder)
    while len(statements) > 1 and statements[1][0] in (";", "&&"):
        name = _folder_of(statements[0][1])
        if name is None:
            break
        folder, statements = _entered(folder, name), statements[1:]
    _, first = statements[0]
    rest = ((op, _plain(node)) for op, node in statements[1:])
    return folder, _plain(first), *rest


def _statements(node: Node) -> list[tuple[str, Node]]:
    """The statements of a sequence in order, each with the operator in front of it.

    The parser nests what a redirection stands behind.
    """
    if not isinstance(node, Sequence) or not node.items:
        return [("", node)]
    found: list[tuple[str, Node]] = []
    for op, item in node.items:
        (_, first), *rest = _statements(item)
        found += [(";" if op in ("", "\n") else op, first), *rest]
    return found


def _folder_of(node: Node) -> str | None:
    """The folder that a plain `cd FOLDER` leads to."""
    if not isinstance(node, Simple) or node.assignments or node.redirects or len(node.words) != 2:
        return None
    verb, name = map(_word, node.words)
    plain = len(verb) == len(name) == 1 and isinstance(name[0], str)
    return str(name[0]) if plain and verb == ("cd",) and name[0] != "-" else None


def _plain(value: object) -> object:
    """A tree as nested tuples, without what makes no difference to the shell."""
    if isinstance(value, Word):
        return _word(value)
    if isinstance(value, Opaque):
        return ("Opaque", *value.text.split())
    if isinstance(value, Sequence):
        if not value.items:
            return ("Sequence",)
        return ("Sequence", *((op, _plain(node)) for op, node in _statements(value)))
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if is_dataclass(value):
        parts = (_plain(getattr(value, field.name)) for field in fields(value))
        return (type(value).__name__, *parts)
    return value


def _word(word: Word) -> tuple[object, ...]:
    """A word without its quotes, except round what is a pattern where it is not quoted."""
    if any(isinstance(part, Unknown) for part in word.parts):
        return (("raw", word.raw),)
    found: list[object] = []
    for part in word.parts:
        if not isinstance(part, Literal):
            found.append(_plain(part))
        elif part.quoted and _PATTERN & set(part.text):
            found.append(("quoted", part.text))
        elif found and isinstance(found[-1], str):
            found[-1] += part.text
        else:
            found.append(part.text)
    return tuple(found)
