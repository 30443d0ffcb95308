"""A question with a few fixed answers, one key each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kogniterm.ui.prompt.key_table import KEYS, WORDS, letter
from kogniterm.ui.questions.question import Answered, Document, Question, Shown, Step

if TYPE_CHECKING:
    from kogniterm.ui.screen.paint import Painter

_ACTIONS = frozenset(key.action for key in KEYS if key.where == "choice")


@dataclass(frozen=True, slots=True)
class Option:
    """One answer: its action in the table of keys, or a key of its own; words; value."""

    action: str
    words: str
    value: str

    @property
    def key(self) -> str:
        """The key that is shown, in the language in use."""
        return letter(self.action) if self.action in _ACTIONS else self.action

    @property
    def english(self) -> str:
        """The key in English, which works as well unless it means something else."""
        return letter(self.action, "en") if self.action in _ACTIONS else self.action


def by_key(options: Sequence[Option]) -> dict[str, Option]:
    """Return the options by every key that chooses one."""
    found = {option.key: option for option in options}
    for option in options:
        found.setdefault(option.english, option)
    return found


def chosen(options: Sequence[Option], line: str) -> Option | None:
    """Return the option that a whole line stands for: exactly its key or its word."""
    said = line.strip().lower()
    named = {word: option for option in options for word in WORDS.get(option.action, ())}
    return by_key(options).get(said) or named.get(said)


@dataclass(frozen=True)
class ChoiceQuestion(Question[str]):
    """Shows `title` and `body`; the answer is the value of one of `choices`."""

    title: str
    body: Sequence[str]
    choices: Sequence[Option]

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> Document:
        """Return the title and the end of the body."""
        from rich.text import Text

        head = painter.lines(Text(self.title, "heading"), columns)
        body = [line for text in self.body for line in painter.lines(Text(text), columns)]
        room = max(rows - len(head), 0)
        return Document([*head, *(body[-room:] if room else [])])

    def transcript(self, painter: Painter, columns: int, answer: Answered[str] | None) -> str:
        """Return the title."""
        from rich.text import Text

        return painter.paint(Text(self.title, "heading"), columns)

    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return a key for each answer."""
        return [Shown(option.key, option.words) for option in self.choices]

    def options(self) -> Collection[str]:
        """Return the keys that answer."""
        return by_key(self.choices)

    def press(self, key: str, *, seen: bool = True) -> Step[str]:
        """Answer with `key`."""
        option = by_key(self.choices).get(key)
        return Answered(option.value) if option is not None else self

    def text(self, painter: Painter, columns: int) -> Document:
        """Return title and body as they are."""
        return Document([self.title, *self.body])

    def menu(self) -> Sequence[str]:
        """Return each answer with its key."""
        return [f"{option.key} = {option.words}" for option in self.choices]

    def typed(self, line: str) -> Step[str] | None:
        """Answer with a line that is exactly a key or its word."""
        option = chosen(self.choices, line)
        return Answered(option.value) if option is not None else None

    def ended(self) -> str:
        """Return the last answer, which changes nothing."""
        return self.choices[-1].value
