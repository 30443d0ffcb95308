"""Secrets in a command: which it names, which programs receive them, and which may be covered.

What is judged and run is never redacted; only what is shown, kept and sent is. A placeholder must
not hide anything that a shell or a program acts on: it stands for an unbroken run of literal
characters inside one word, and the command with other characters in its place has to do the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import NamedTuple

from kogniterm.approval.analysis.analyser import classify
from kogniterm.approval.analysis.paths_and_variables import names
from kogniterm.approval.parser.parse import parse
from kogniterm.approval.parser.tree import Assignment, Literal, Loop, Opaque, Simple, Unknown, Word
from kogniterm.approval.policy.rules import program_name
from kogniterm.text.redact import find_runs, replace_values
from kogniterm.types import Effect, RiskReport

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
    elif is_dataclass(value):
        yield value
        for one in fields(value):
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


_HOST = re.compile(r"\w[\w+.-]*://(?:[^/@]*@)?([^/:?#]+)")
_HOST_INSIDE = re.compile(
    r"(?:^|[@/:=])(?:(?:[\w-]+\.)+[a-z]{2,12}|\d+(?:\.\d+){3})(?:$|[/:?#])|://"
)
"""A secret that contains a host would hide it."""
_LONGEST = 100_000
"""Characters of a command beyond which nothing is covered: its analysis would take too long."""


def mask_command(
    command: str,
    find: Callable[[str], Sequence[str]],
    mark: Callable[[str, Sequence[str]], str],
    exists: Callable[[str], bool] = lambda word: False,
) -> str:
    """Return `command` with a placeholder for each of its secrets that one may cover.

    `find` returns the secrets in a text that are runs of plain characters, `mark` replaces them.
    What `exists` knows as a path is not covered. A placeholder can lead to another secret, so the
    search begins again until it finds nothing; what may be covered is always decided on `command`.
    """
    if len(command) > _LONGEST:
        return command
    words = list(_words(parse(command)))
    # What is found in the whole text may reach beyond a word in which a secret stands.
    found = [*find(command), *(value for word in words for value in find("".join(word)))]
    report = classify(command) if found else None
    covered: list[str] = []
    refused: set[str] = set()
    shown = command
    while report is not None and (new := {*found} - {*covered} - refused):
        for value in sorted(new, key=lambda value: (-len(value), value)):
            inside = [word for word in words if any(value in text for text in word)]
            # What makes a value secret in one word says nothing of the same text in another.
            alone = len(inside) < 2 or all(value in find("".join(word)) for word in inside)
            if alone and value in command and _may_cover(command, report, inside, value, exists):
                covered.append(value)
            else:
                # A part of it may be covered still, as the password of a URL.
                refused.add(value)
        shown = mark(command, covered)
        parts = (value[one.start : one.end] for value in refused for one in find_runs(value))
        found = [*find(shown), *parts]
    return shown


def _may_cover(
    command: str,
    report: RiskReport,
    inside: Sequence[tuple[str, ...]],
    value: str,
    exists: Callable[[str], bool],
) -> bool:
    """Return whether a placeholder may cover `value`, which stands in the words `inside`."""
    if sum(text.count(value) for word in inside for text in word) != command.count(value):
        return False  # a comment, a name of a variable, or text that could not be read
    whole = ["".join(word) for word in inside]
    if any(map(_names_option, whole, [value] * len(whole))) or any(map(exists, {value, *whole})):
        return False
    if _HOST_INSIDE.search(value):
        return False
    other = "x" * len(value)
    return _acts(report, value, other) == _acts(classify(command.replace(value, other)))


def _names_option(word: str, value: str) -> bool:
    """Return whether `value` reaches into the name of an option."""
    if not word.startswith("-"):
        return False
    named = len(word.partition("=")[0]) if word.startswith("--") else 1
    return word.index(value) <= named


def _acts(report: RiskReport, value: str = "", other: str = "") -> object:
    """Return the acts of a command, with `other` for `value` where it is only an argument."""

    def arguments(words: Sequence[str]) -> tuple[str, ...]:
        rest = words[1:] if not value else [word.replace(value, other) for word in words[1:]]
        return (*words[:1], *rest)

    def target(effect: Effect) -> Effect:
        host = _HOST.match(effect.target)
        if not value or effect.kind != "network" or host is None or value in host[1]:
            return effect
        return replace(effect, target=effect.target.replace(value, other))

    calls = [replace(call, words=arguments(call.words)) for call in report.git_calls]
    programs = [arguments(words) for words in report.programs]
    # Of these files some are only looked for; one that is there is no secret.
    deciding = [name.replace(value, other) if value else name for name in report.deciding]
    return report.label, [*map(target, report.effects)], deciding, calls, programs


def _words(value: object) -> Iterator[tuple[str, ...]]:
    """Yield the literal texts of each word in a tree; a part that could not be read has none."""
    if isinstance(value, Word):
        texts = tuple(part.text for part in value.parts if isinstance(part, Literal))
        if texts:
            yield texts
        for part in value.parts:
            if not isinstance(part, Literal):
                yield from _words(part)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _words(one)
    elif is_dataclass(value) and not isinstance(value, Opaque):
        for one in fields(value):
            yield from _words(getattr(value, one.name))


def redact_command(command: str) -> str:
    """Return `command` with `[redacted:kind]` for its secrets, as far as one may be covered."""
    kinds: dict[str, str] = {}

    def find(text: str) -> Sequence[str]:
        found = find_runs(text)
        kinds.update((text[one.start : one.end], one.kind) for one in found)
        return [text[one.start : one.end] for one in found]

    def mark(text: str, values: Sequence[str]) -> str:
        return replace_values(text, values, lambda value: f"[redacted:{kinds.get(value, 'value')}]")

    return mask_command(command, find, mark)
