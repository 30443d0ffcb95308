"""The secrets of a command that a placeholder may cover where the command is shown or kept.

What is judged and run is never redacted; only what is shown, kept and sent is. A placeholder must
not hide anything that a shell or a program acts on: it stands for an unbroken run of literal
characters inside one word, and the command with other characters in its place has to do the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace

from kogniterm.approval.analysis.analyser import classify
from kogniterm.approval.parser.parse import parse
from kogniterm.approval.parser.tree import Literal, Opaque, Word
from kogniterm.text.redact import find_runs, replace_values
from kogniterm.types import Effect, RiskReport

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
