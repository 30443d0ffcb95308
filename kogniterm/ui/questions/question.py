"""The model of a question: what it shows, which keys and words it takes, and what comes of them.

A question is a value. Acting on it returns the question as it is then, its answer, or what the
driver has to do before it goes on. Two drivers ask: `panel` at the prompt, with single keys, and
`lines` wherever the terminal edits whole lines. `ChoiceQuestion` is the simplest question.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from kogniterm.ui.locale import _, translate
from kogniterm.ui.words.key_table import KEYS, WORDS, letter

if TYPE_CHECKING:
    from typing import Self, TypeAlias

    from kogniterm.runtime.fixed_questions import FixedQuestion
    from kogniterm.runtime.fixed_questions import Value as FixedValue
    from kogniterm.ui.screen.paint import Painter


Value = TypeVar("Value")


class Shown(NamedTuple):
    """A key as it is shown and what it does; `more` keys show only while lines are out of sight."""

    key: str
    does: str
    more: bool = False


class Entry(NamedTuple):
    """Words that a question wants. `prompt` asks for them in the panel, `ask` line by line.

    They start from `start`. A `word` confirms: the panel takes it only after the pause, and shows
    `waiting` until then; it is one of `accepts`. With `listed` choices, below a `heading`, the
    panel takes a key for each instead of words.
    """

    prompt: str = ""
    ask: str = ""
    start: str = ""
    word: bool = False
    accepts: tuple[str, ...] = ()
    waiting: str = ""
    heading: str = ""
    listed: tuple[str, ...] = ()


class QuestionText(NamedTuple):
    """A question's lines: those before `must_see` have to be shown before it can be approved.

    `to_end` asks for the end of the lines, where an answer is being chosen.
    """

    lines: list[str]
    must_see: int = 0
    to_end: bool = False


class Answered(NamedTuple, Generic[Value]):
    """The question has its answer."""

    value: Value


class Stopped:
    """The user stopped the turn instead of answering."""


class Editing(NamedTuple):
    """The driver opens the user's editor with `text` and calls `edited` with what was saved."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Question(ABC, Generic[Value]):
    """A question whose answer is a `Value`. `note` says what came of the last key."""

    note: str = ""

    free: ClassVar[bool] = False
    """True where words on the input line are the answer."""
    invited: ClassVar[bool] = False
    """True where the user asked for the question, so that its keys need no pause."""
    chords: ClassVar[Collection[str]] = ()
    """Further keys that it takes, also while words stand on the input line."""
    confirms: ClassVar[bool] = False
    """True where a key counts only with Enter, because it grants something."""
    reasons: ClassVar[bool] = False
    """True where words on the input line reject, as the reason."""
    reading: ClassVar[Collection[str]] = ()
    """Keys that move in a question longer than the screen."""

    def with_note(self, note: str) -> Self:
        """Return the question with a note for the user."""
        return replace(self, note=note)

    @abstractmethod
    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> QuestionText:
        """Return what is shown where there are `rows` rows; `words` stand on the input line."""

    @abstractmethod
    def transcript(self, painter: Painter, columns: int, answer: Answered[Value] | None) -> str:
        """Return what stays in the scrollback; `answer` is None when the turn was stopped."""

    @property
    def entry(self) -> Entry | None:
        """The words that are wanted now; None while single keys are."""
        return None

    # --- single keys ---------------------------------------------------------------------------

    @abstractmethod
    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return the keys to show; `typing` says that words stand on the line."""

    @property
    def hint(self) -> str:
        """The effect of Enter and Esc with words on the line."""
        return _("Your text stays on the line · Esc: back to the question")

    def options(self) -> Collection[str]:
        """Return the single keys that do something now."""
        return ()

    @abstractmethod
    def press(self, key: str, *, seen: bool = True) -> Step[Value]:
        """Take a single key; `seen` says that everything was shown that must be."""

    def entered(self, text: str) -> Step[Value]:
        """Take the words that `entry` wanted."""
        return self

    def line_changed(self, words: str) -> Question[Value]:
        """Take note of what stands on the input line now."""
        return self

    def words(self, text: str) -> Step[Value]:
        """Take what was written on the input line; the question itself has no use for it."""
        return self

    def edited(self, text: str) -> Step[Value]:
        """Take a text that was saved in the user's editor."""
        return self

    def back(self) -> Step[Value] | None:
        """Take Esc; None when there is nothing to go back from."""
        return None

    # --- whole lines ---------------------------------------------------------------------------

    @abstractmethod
    def text(self, painter: Painter, columns: int) -> QuestionText:
        """Return what is shown line by line; what must be seen is shown a page at a time."""

    @abstractmethod
    def menu(self) -> Sequence[str]:
        """Return the answers that the line driver offers."""

    @abstractmethod
    def typed(self, line: str) -> Step[Value] | None:
        """Take a whole line; None when it is no answer."""

    @abstractmethod
    def ended(self) -> Value:
        """Return the answer at the end of input."""

    @property
    def mistakes(self) -> Sequence[str]:
        """The mistakes in the text that was edited."""
        return ()


Step: TypeAlias = "Question[Value] | Answered[Value] | Stopped | Editing"


class Asker(Protocol):
    """A driver of questions.

    `can_edit` tells whether there is an editor, `stays` whether a question remains on the screen
    when it is answered.
    """

    can_edit: bool
    stays: bool

    async def ask(self, question: Question[Value]) -> Value:
        """Ask until there is an answer. Raises `TurnInterruptedError` when the turn is stopped."""

    def renew(self, change: Callable[[Question[Any]], Question[Any]]) -> None:
        """Let `change` replace the questions that wait, where news came for them."""


_ACTIONS = frozenset(key.action for key in KEYS if key.where == "choice")


class Option(NamedTuple, Generic[Value]):
    """One answer: its action in the table of keys, or a key of its own; words; value.

    `about` is said beside the words in a list.
    """

    action: str
    words: str
    value: Value
    about: str = ""

    @property
    def key(self) -> str:
        """The key that is shown, in the language in use."""
        return letter(self.action) if self.action in _ACTIONS else self.action

    @property
    def english(self) -> str:
        """The key in English, which works as well unless it means something else."""
        return letter(self.action, "en") if self.action in _ACTIONS else self.action


def find_option(options: Sequence[Option[Value]], line: str) -> Option[Value] | None:
    """Return the option that a whole line stands for: exactly its key or its word."""
    said = line.strip().lower()
    named = {word: option for option in options for word in WORDS.get(option.action, ())}
    return _by_key(options).get(said) or named.get(said)


def means_yes(line: str) -> bool:
    """Return whether a whole line is exactly yes, or its key."""
    return find_option((Option("yes", "", "yes"),), line) is not None


def _by_key(options: Sequence[Option[Value]]) -> dict[str, Option[Value]]:
    found = {option.key: option for option in options}
    for option in options:
        found.setdefault(option.english, option)
    return found


@dataclass(frozen=True)
class ChoiceQuestion(Question[Value]):
    """Shows `title` and `body`, of which a part may have a style; one of `choices` answers.

    The last one changes nothing.
    """

    title: str
    body: Sequence[str | tuple[str, str]]
    choices: Sequence[Option[Value]]

    reading = ("pageup", "pagedown")

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> QuestionText:
        """Return the title and the body."""
        from rich.text import Text

        from kogniterm.ui.screen.paint import Readable

        head = painter.lines(Readable(Text(self.title, "heading")), columns)
        parts = (Readable(Text.assemble(part)) for part in self.body)
        return QuestionText(
            [*head, *(line for part in parts for line in painter.lines(part, columns))]
        )

    def transcript(self, painter: Painter, columns: int, answer: Answered[Value] | None) -> str:
        """Return the title with the answer."""
        from rich.text import Text

        chosen = (one.words for one in self.choices if answer and one.value == answer.value)
        words = next(chosen, "")
        return painter.paint(
            Text.assemble((self.title, "heading"), "  ", (words, "accent")), columns
        )

    @property
    def by_key(self) -> Mapping[str, Option[Value]]:
        """The answers by every key that gives one."""
        return _by_key(self.choices)

    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return a key for each answer, and the one that reads on."""
        answers = (Shown(option.key, option.words) for option in self.choices)
        return [Shown("Page-Down", _("more"), more=True), *answers]

    def options(self) -> Collection[str]:
        """Return the keys that answer."""
        return self.by_key

    def press(self, key: str, *, seen: bool = True) -> Step[Value]:
        """Answer with `key`."""
        option = self.by_key.get(key)
        return Answered(option.value) if option is not None else self

    def text(self, painter: Painter, columns: int) -> QuestionText:
        """Return title and body as they are."""
        return QuestionText(
            [self.title, *(one if isinstance(one, str) else one[0] for one in self.body)]
        )

    def menu(self) -> Sequence[str]:
        """Return each answer with its key."""
        return [f"{option.key} = {option.words}" for option in self.choices]

    def typed(self, line: str) -> Step[Value] | None:
        """Answer with a line that is exactly a key or its word."""
        option = find_option(self.choices, line)
        return Answered(option.value) if option is not None else None

    def ended(self) -> Value:
        """Return the last answer."""
        return self.choices[-1].value


_ACTION_OF = {"more": "yes", "end": "no"}
"""The actions in the table of keys, for the answers that are not named like theirs."""


async def ask_fixed(asker: Asker, question: FixedQuestion[FixedValue]) -> FixedValue:
    """Ask a question of the runtime with fixed answers."""
    options = [
        Option(_ACTION_OF.get(one.value, one.value), translate(one.words), one.value)
        for one in question.answers
    ]
    body = question.body.split("\n") if question.body else []
    return await asker.ask(ChoiceQuestion(translate(question.title), body, options))
