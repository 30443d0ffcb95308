"""What a shell word is made of; the values the lexer gives and the analysis takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kogniterm.approval.shelltree import Node


@dataclass(frozen=True, slots=True)
class Literal:
    """Characters that stand for themselves; unquoted ones may be glob characters or `~`."""

    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name` or `${name}`, whole."""

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
    `targets` those that arithmetic only gives a value, `computes` those whose value is a subscript,
    `given` is the text it may put in the value's place.
    """

    quoted: bool
    inner: tuple[Substitution, ...] = ()
    opaque: str | None = None
    digits: bool = False
    names: tuple[str, ...] = ()
    assigns: str | None = None
    targets: tuple[str, ...] = ()
    computes: tuple[str, ...] = ()
    given: str = ""


Part = Literal | Variable | Substitution | Unknown


@dataclass(frozen=True, slots=True)
class Word:
    """One word of the source."""

    raw: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Spans:
    """Where the tree saw expansions: start offset to (end offset, built substitution or None)."""

    substitutions: Mapping[int, tuple[int, Substitution]]
    expansions: Mapping[int, int]


NO_SPANS = Spans({}, {})
