"""The statements the parser builds: small, frozen, and no more than the analysis needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kogniterm.approval.wordparts import Word

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`; `values` are several words for an array.

    `computes` are the names in a subscript: one that is no map takes them for expressions.
    """

    name: str
    values: tuple[Word, ...]
    array: bool = False
    computes: tuple[str, ...] = ()
    appends: bool = False


@dataclass(frozen=True, slots=True)
class Redirect:
    """`>`, `<`, `>>`, `2>&1`…; a heredoc or here-string has `body` instead of `target`."""

    op: str
    target: Word | None
    body: Word | None = None


@dataclass(frozen=True, slots=True)
class Simple:
    """Assignments, words and redirects of one simple command."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Statements joined by pipes."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """Statements with the operator that precedes each: "" for the first, ; & && ||."""

    items: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A subshell or a braced or redirected compound."""

    body: Node
    subshell: bool = False
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """if, case: `always` is evaluated, each of `parts` maybe."""

    always: Node
    parts: tuple[Node, ...]
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """for, while, until, select: `head` and `body` run any number of times."""

    body: Node
    head: Node | None = None
    variable: str | None = None
    words: tuple[Word, ...] | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A function definition."""

    name: str
    body: Node


@dataclass(frozen=True, slots=True)
class Test:
    """`[[ … ]]` or `(( … ))`: the words (or arithmetic) in it, in order."""

    words: tuple[Word, ...]
    extended: bool


@dataclass(frozen=True, slots=True)
class Opaque:
    """Text nobody could read; `why` in words for a person."""

    text: str
    why: str


Node = Simple | Pipeline | Sequence | Group | Branch | Loop | Function | Test | Opaque
