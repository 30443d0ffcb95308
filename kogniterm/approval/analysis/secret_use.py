"""The use of the user's secrets in a command: which it names, and which programs receive them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from kogniterm.approval.analysis.paths_and_variables import names
from kogniterm.approval.parser.parse import parse
from kogniterm.approval.parser.tree import Assignment, Literal, Loop, Opaque, Simple, Unknown, Word
from kogniterm.approval.policy.rules import program_name
from kogniterm.types import RiskReport

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BUILTINS = names("""
    echo printf test [ true false : cd pushd popd dirs pwd export declare typeset local readonly
    read mapfile readarray set unset shift return exit break continue let wait umask type hash
    alias unalias shopt getopts kill jobs trap
""")
"""Builtins that start no program; what they are given may still reach any of the command."""
_FILTERS = names("head tail wc sort uniq cut tr grep")
"""Programs that only pass on what another one printed, if no argument may be a file."""
HARMLESS = _FILTERS | names("echo printf true false : test [")
"""Programs that need no grant of their own beside the one that gets a secret."""


class SecretUse(NamedTuple):
    """The secrets that a command names, and the programs that receive them.

    `unread` is true for a text that mentions a secret and could not be parsed: it sets none.
    """

    names: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    unread: bool = False


def names_variables(command: str, wanted: Collection[str]) -> frozenset[str] | None:
    """Return which of the variables `wanted` the parsed text names; None if it cannot be parsed.

    A name counts wherever it stands as a word of its own, in quotes too, but not in a comment.
    """
    if not any(name in command for name in wanted):
        return frozenset()
    parts = tuple(_parts(parse(command)))
    if any(isinstance(one, Opaque) or (isinstance(one, Unknown) and one.opaque) for one in parts):
        return None
    return _secrets_named(parts, wanted)


def secret_use(report: RiskReport, wanted: Collection[str]) -> SecretUse:
    """Return how the command of `report` uses the secrets called `wanted`.

    Every program that it starts has them in its environment. Left out is what only filters the
    output of a program that a secret is handed to directly.
    """
    found = names_variables(report.command, wanted)
    if not found:
        mentioned = tuple(sorted(name for name in wanted if name in report.command))
        return SecretUse() if found is not None else SecretUse(mentioned, unread=True)
    parts = tuple(_parts(parse(report.command)))
    givers = [
        one for one in parts if isinstance(one, Simple) and _secrets_named(_parts(one), found)
    ]
    first = [program_name(one.words[0].raw) if one.words else "" for one in givers]
    inside = {id(part) for one in givers for part in _parts(one)}
    direct = all(name and name not in _BUILTINS for name in first) and not _secrets_named(
        [one for one in parts if id(one) not in inside], found
    )
    # A file with secrets; a variable is shown as `$NAME`.
    reads_secrets = any(one.kind == "secret" and one.target[:1] != "$" for one in report.effects)
    started = dict.fromkeys(
        program_name(argv[0])
        for argv in report.programs
        if argv and argv[0] not in _BUILTINS and not argv[0].endswith("=…")
        if not (direct and _only_filters(argv, first) and not reads_secrets)
    )
    programs = tuple(started) or tuple(dict.fromkeys(filter(None, first))) or ("bash",)
    return SecretUse(tuple(sorted(found)), programs)


def _parts(value: object) -> Iterator[object]:
    """Yield every statement, word and part below `value`, and `value` itself."""
    if isinstance(value, tuple):
        for one in value:
            yield from _parts(one)
    elif dataclasses.is_dataclass(value):
        yield value
        for one in dataclasses.fields(value):
            yield from _parts(getattr(value, one.name))


def _secrets_named(parts: Iterable[object], wanted: Collection[str]) -> frozenset[str]:
    said = {name for one in parts for text in _texts(one) for name in _IDENTIFIER.findall(text)}
    return frozenset(said.intersection(wanted))


def _texts(part: object) -> tuple[str, ...]:
    """Return the source text of a part, as far as it may hold names."""
    if isinstance(part, Word):
        return (part.raw,)
    if isinstance(part, Literal):  # a heredoc has no other text
        return (part.text,)
    if isinstance(part, Assignment):
        return (part.name, *part.computes)
    return (part.variable or "",) if isinstance(part, Loop) else ()


def _only_filters(argv: tuple[str, ...], first: Collection[str]) -> bool:
    name, *words = argv
    return program_name(name) in _FILTERS and program_name(name) not in first and not any(
        sign in word for word in words for sign in "/…"
    )  # fmt: skip
