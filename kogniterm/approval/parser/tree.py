"""The statements the parser builds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from kogniterm.types import Phrase


@dataclass(frozen=True, slots=True)
class Literal:
    """Characters that stand for themselves; unquoted ones may be glob characters or `~`."""

    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name` or `${name}`."""

    name: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(…)` or backticks ("command"), `<(…)` ("input"), `>(…)` ("output")."""

    node: Node
    kind: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """An expansion whose value is not worked out; `opaque` says what could not be read at all.

    `digits` is true for arithmetic and lengths, `names` are the variables it looks at,
    `targets` those that arithmetic gives a value, `settles` those it gives one in any case,
    `computes` those whose value is a subscript or an offset, `given` is the text it may put in the
    value's place; `whole` is true where it is the value itself, or an element of it.
    """

    quoted: bool
    inner: tuple[Substitution, ...] = ()
    opaque: Phrase | None = None
    digits: bool = False
    names: tuple[str, ...] = ()
    assigns: str | None = None
    targets: tuple[str, ...] = ()
    computes: tuple[str, ...] = ()
    given: str = ""
    settles: tuple[str, ...] = ()
    whole: bool = False


Part = Literal | Variable | Substitution | Unknown


@dataclass(frozen=True, slots=True)
class Word:
    """One word of the source."""

    raw: str
    parts: tuple[Part, ...]


class Spans(NamedTuple):
    """The places of expansions: start offset to end offset and built substitution."""

    substitutions: Mapping[int, tuple[int, Substitution]]
    expansions: Mapping[int, int]


NO_SPANS = Spans({}, {})


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`; `values` are several words for an array.

    `computes` are the names in a subscript: one that is no map takes them for expressions.
    `adds` says that something of the old value stays: with `+=`, or where it sets an element.
    """

    name: str
    values: tuple[Word, ...]
    array: bool = False
    computes: tuple[str, ...] = ()
    adds: bool = False


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
    """A subshell or a braced or redirected compound, or a statement `negated` by `!`."""

    body: Node
    subshell: bool = False
    redirects: tuple[Redirect, ...] = ()
    negated: bool = False


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
    """Text that could not be read; `why` is the reason in words."""

    text: str
    why: Phrase


Node = Simple | Pipeline | Sequence | Group | Branch | Loop | Function | Test | Opaque


def simple_commands(node: Node) -> Iterator[Simple]:
    """Yield the simple commands in `node`, without those in functions, in no order."""
    return (part for part in parts_of(node) if isinstance(part, Simple))


def parts_of(
    node: Node, function_of: Callable[[str], Function | None] | None = None
) -> Iterator[object]:
    """Yield the nodes, assignments, words and expansions in `node`, in no order.

    What a substitution holds is left out, and bodies of functions, but for those called: these
    `function_of` finds by the name of the program.
    """
    stack: list[object] = [node]
    called: set[str] = set()
    while stack:
        current = stack.pop()
        if isinstance(current, tuple):
            stack.extend(current)
        elif isinstance(current, _INNER) and (function_of or not isinstance(current, Function)):
            yield current
            stack.extend(getattr(current, field.name) for field in fields(current))
            if isinstance(current, Simple) and current.words and function_of is not None:
                name = current.words[0].raw
                stack.append(function_of(name) if name not in called else None)
                called.add(name)


_INNER = (
    Simple, Pipeline, Sequence, Group, Branch, Loop, Function, Test, Redirect, Assignment, Word,
    Unknown,
)  # fmt: skip
