"""Tell whether a command is one that was started before: for runs whose outcome is unknown.

Two commands are the same when they read the same to the shell in the same folder, whatever their
spacing and quoting. A command repeats another when it is the same, or when one of its programs that
does more than read stands in the other with the same arguments and in the same folder, or when it
writes the same file with a program of the same arguments. Where it cannot be told in which folder a
program runs, it counts as run in each that the command may be in. Placeholders of secrets are
numbered anew by each process, so all of them are the same.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import fields, is_dataclass

from kogniterm.approval.analysis.analyser import classify
from kogniterm.approval.analysis.shared_findings import UNREAD
from kogniterm.approval.parser.parse import parse
from kogniterm.approval.parser.tree import Literal, Node, Opaque, Sequence, Simple, Unknown, Word

_PATTERN = frozenset("*?[]{}~")
"""Characters with a meaning to the shell only where they are not quoted."""


_SECRET = re.compile(r"\[secret:(?:\w+-)?\d+\]")
_MOVES = ("cd", "pushd", "popd")
_ANYWHERE = "?"
"""Stands for a folder that only the shell knows."""
_UNKNOWN = "…"
"""The sign of an unknown part in a report."""

_Act = tuple[str, tuple[str, ...]]


def same_command(command: str, folder: str, before: str, folder_before: str) -> bool:
    """Return whether `command` in `folder` is `before` in `folder_before`."""
    return _form(_remove_numbers(command), folder) == _form(_remove_numbers(before), folder_before)


def repeats(command: str, folder: str, before: str, folder_before: str) -> bool:
    """Return whether `command` would do again what `before` did, or a part of it."""
    if same_command(command, folder, before, folder_before):
        return True
    acts = _acts(_remove_numbers(command), folder)
    acts_before = _acts(_remove_numbers(before), folder_before)
    return any(
        argv == argv_before and (where == where_before or _ANYWHERE in (where, where_before))
        for where, argv in acts
        for where_before, argv_before in acts_before
    )


def _remove_numbers(command: str) -> str:
    return _SECRET.sub("[secret]", command)


def _acts(command: str, folder: str) -> set[_Act]:
    """Return the acts of a command.

    These are each program that does more than read, with each folder it may run in, and each
    changed file with the programs that only read.
    """
    report, start = classify(command, cwd=folder), posixpath.normpath(folder)
    sure = _is_straight(parse(command))
    acts: set[_Act] = set()
    readers: set[tuple[str, ...]] = set()
    for argv, part in zip(report.programs, report.parts, strict=True):
        if classify(shlex.join(argv)).label != "safe_readonly" and argv != UNREAD:
            named = (posixpath.basename(argv[0]), *argv[1:])
            entered = {_UNKNOWN: _ANYWHERE}.get(part.folder, part.folder) or start
            acts |= {(entered, named), (entered if sure else start, named)}
        elif argv != UNREAD and argv[0] not in _MOVES:
            readers.add(argv)
    changed = {
        _enter_folder(folder, e.target) for e in report.effects if e.kind in ("write", "delete")
    }
    return acts | {(path, argv) for path in changed for argv in readers or {()}}


def _is_straight(node: Node) -> bool:
    """Return whether each statement runs only after the one before it went well, in one shell."""
    first, *rest = _statements(node)
    return isinstance(first[1], Simple) and all(
        op == "&&" and isinstance(item, Simple) for op, item in rest
    )


def _enter_folder(folder: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(folder, name))


def _form(command: str, folder: str) -> tuple[object, ...]:
    """Return the folder that a leading `cd` leads to, and the statements in a comparable form."""
    statements, folder = _statements(parse(command)), posixpath.normpath(folder)
    while len(statements) > 1 and statements[1][0] in (";", "&&"):
        name = _folder_of(statements[0][1])
        if name is None:
            break
        folder, statements = _enter_folder(folder, name), statements[1:]
    _, first = statements[0]
    rest = ((op, _plain(node)) for op, node in statements[1:])
    return folder, _plain(first), *rest


def _statements(node: Node) -> list[tuple[str, Node]]:
    """Return the statements of a sequence in order, each with the operator in front of it.

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
    """Return the folder of a plain `cd FOLDER`, or None."""
    if not isinstance(node, Simple) or node.assignments or node.redirects or len(node.words) != 2:
        return None
    verb, name = map(_word, node.words)
    plain = len(verb) == len(name) == 1 and isinstance(name[0], str)
    return str(name[0]) if plain and verb == ("cd",) and name[0] != "-" else None


def _plain(value: object) -> object:
    """Return a tree as nested tuples, without differences that the shell ignores."""
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
    """Return a word without its quotes, except around characters of a pattern."""
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
