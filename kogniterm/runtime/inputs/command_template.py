"""The text of a custom command: its parts, and the user's arguments put into them.

Read are Markdown as Claude Code has it (`$ARGUMENTS`, `$1`, in skills `$0`, a command in backticks
behind `!`), and the prompts of gemini-cli's TOML files (`{{args}}`, `!{command}`, `@{path}`).
Arguments are put in last, so that nothing in them is read as a part, and into a command only
quoted for the shell. A place where no quoting would hold is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from kogniterm.errors import UsageError

Format = Literal["markdown", "skill", "gemini"]

_MARKDOWN_PLACE = re.compile(r"\$(?:ARGUMENTS\[(\d{1,2})\]|(ARGUMENTS)\b|([1-9])(?!\d))")
_SKILL_PLACE = re.compile(r"\$(?:ARGUMENTS\[(\d{1,2})\]|(ARGUMENTS)\b|([0-9])(?!\d))")
_GEMINI_PLACE = re.compile(r"\{\{\s*(args)\s*\}\}")
_MARKDOWN_COMMAND = re.compile(
    r"^```!\s*\n(.*?)^```[ \t]*$|(?:^|(?<=\s))!`([^`\n]+)`", re.DOTALL | re.MULTILINE
)
_GEMINI_PART = re.compile(r"([!@])\{")
_UNSAFE = re.compile(r"""<<(?!<)|\bcase\b|\$\{[^}]*['"`]""")
"""Text that hides the quotes that hold: a here-document, patterns that end with `)`, and quotes
inside of braces."""


class TemplatePart(NamedTuple):
    """A piece of a template; a command is replaced by its output."""

    text: str
    is_command: bool = False


class Template(NamedTuple):
    """The text of a custom command in one of the formats."""

    body: str
    format: Format = "markdown"

    @property
    def takes_arguments(self) -> bool:
        """Return whether the text says where arguments go."""
        return self._place.search(self.body) is not None

    @property
    def _place(self) -> re.Pattern[str]:
        places = {"markdown": _MARKDOWN_PLACE, "skill": _SKILL_PLACE, "gemini": _GEMINI_PLACE}
        return places[self.format]

    def fill(self, argument: str) -> tuple[TemplatePart, ...]:
        """Return the parts with `argument` put in, text and command in turn, text first and last.

        Raises `UsageError` where a part has no end, and for a command that cannot take arguments.
        """
        read = _gemini_parts if self.format == "gemini" else _markdown_parts
        given = _Arguments(argument, self._place, split=self.format != "gemini")
        parts = [TemplatePart("")]
        for part in read(self.body):
            if part.is_command:
                parts += [
                    TemplatePart(given.in_command(part.text.strip()), is_command=True),
                    TemplatePart(""),
                ]
            else:
                parts[-1] = TemplatePart(parts[-1].text + given.in_text(part.text))
        if argument and not self.takes_arguments:
            parts[-1] = TemplatePart(f"{parts[-1].text.rstrip()}\n\n{argument}")
        return tuple(parts)


def _markdown_parts(body: str) -> Iterator[TemplatePart]:
    end = 0
    for found in _MARKDOWN_COMMAND.finditer(body):
        yield TemplatePart(body[end : found.start()])
        yield TemplatePart(found[1] or found[2], is_command=True)
        end = found.end()
    yield TemplatePart(body[end:])


def _gemini_parts(body: str) -> Iterator[TemplatePart]:
    end = 0
    while (found := _GEMINI_PART.search(body, end)) is not None:
        yield TemplatePart(body[end : found.start()])
        end = _closing(body, found.end())
        inside = body[found.end() : end - 1].strip()
        if found[1] == "!":
            yield TemplatePart(inside, is_command=True)
        else:
            yield TemplatePart(f'@"{inside}"' if re.search(r"\s", inside) else f"@{inside}")
    yield TemplatePart(body[end:])


def _closing(body: str, start: int) -> int:
    """Return the position behind the brace that ends a part begun before `start`."""
    depth = 1
    for at in range(start, len(body)):
        depth += (body[at] == "{") - (body[at] == "}")
        if not depth:
            return at + 1
    raise UsageError("A command or a file in it has no closing brace.")


class _Arguments(NamedTuple):
    """The text behind the name; with `split`, `$ARGUMENTS` gives a command words."""

    text: str
    place: re.Pattern[str]
    split: bool

    @property
    def words(self) -> Sequence[str]:
        try:
            return shlex.split(self.text)
        except ValueError:
            return self.text.split()

    def _value(self, found: re.Match[str]) -> str:
        """Return what stands at a place: everything, or one of the words."""
        if found.re is _GEMINI_PLACE or found[2]:
            return self.text
        number = int(found[1] or found[3])
        if found.re is _MARKDOWN_PLACE and found[3]:
            number -= 1  # a skill counts from 0, a custom command from 1
        return self.words[number] if number < len(self.words) else ""

    def in_text(self, text: str) -> str:
        """Return `text` with the arguments put in."""
        return self.place.sub(self._value, text)

    def in_command(self, command: str) -> str:
        """Return a command with the arguments put in, quoted as it needs at each place."""
        if not command:
            raise UsageError("A command in it is empty.")
        if not self.place.search(command):
            return command
        if _UNSAFE.search(command):
            raise _unsafe(command)
        return _Quoting(command, self._at).fill(self.place)

    def _at(self, found: re.Match[str], quotes: str) -> str:
        value = self._value(found)
        if quotes:
            # The quotes are left and entered again: nothing inside of double ones would hold.
            return f"{quotes}{shlex.quote(value)}{quotes}"
        if self.split and found.re is not _GEMINI_PLACE and found[2]:
            return shlex.join(self.words)
        return shlex.quote(value) if value else ""


def _unsafe(command: str) -> UsageError:
    return UsageError(
        "Arguments cannot be put safely into this command: {command}. Put the place for them "
        "outside of backticks, braces, arithmetic and here-documents.",
        command=" ".join(command.split()),
    )


_COMMENT = re.compile(r"#[^\n]*")
_OPENINGS = {"$((": "))", "$(": ")", "${": "}", "`": "`", '"': '"'}
_PLAIN_OPENINGS = {"$'": "'", "((": "))", "(": ")", "'": "'"}
"""The beginning of a level and its end; the second ones mean nothing in double quotes."""
_SAFE = frozenset(("", "$(", "(", '"', "'"))


class _Quoting:
    """Reads a command from left to right and knows in which quotes and brackets it is."""

    def __init__(self, command: str, put: Callable[[re.Match[str], str], str]) -> None:
        self._command = command
        self._put = put
        self._levels = [""]
        """The opening of each level; nothing at the bottom."""
        self._at = 0

    def fill(self, place: re.Pattern[str]) -> str:
        """Return the command with every place filled in."""
        done: list[str] = []
        while self._at < len(self._command):
            found = place.match(self._command, self._at)
            if found is None:
                done.append(self._next(self._command[self._at :]))
                self._at += len(done[-1])
                continue
            level = self._levels[-1]
            if level not in _SAFE:
                raise _unsafe(self._command)
            self._at = found.end()
            quotes = level if level in ('"', "'") else ""
            if level == "'" and found[0][1:].isdigit():
                done.append(found[0])  # a field of awk, as the shell reads it
            elif quotes and done[-1] == quotes and self._command.startswith(quotes, self._at):
                done[-1] = self._put(found, quotes)[1:-1]
                self._levels.pop()
                self._at += 1
            else:
                done.append(self._put(found, quotes))
        return "".join(done)

    def _next(self, rest: str) -> str:
        """Return the next piece of the command, and go into or out of a level with it."""
        level = self._levels[-1]
        closing = {**_OPENINGS, **_PLAIN_OPENINGS}.get(level, "")
        if rest[0] == "\\" and level != "'":
            return rest[:2]
        if closing and rest.startswith(closing):
            self._levels.pop()
            return closing
        if level in ("'", "$'", "`"):
            return rest[0]
        if level != '"':
            comment = _COMMENT.match(rest)
            if comment is not None and self._command[self._at - 1 : self._at] in _BEFORE_COMMENT:
                return comment[0]
        openings = _OPENINGS if level == '"' else {**_OPENINGS, **_PLAIN_OPENINGS}
        for opening in openings:
            if rest.startswith(opening):
                self._levels.append(opening)
                return opening
        return rest[0]


_BEFORE_COMMENT = ("", *" \t\n;|&(")
