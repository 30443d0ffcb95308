"""The question whether a fact that was inferred is kept: one key, at a quiet moment.

Nothing waits for the answer. Words on the line are no answer: Enter sends them as a task, and the
fact waits in `/memory list`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from kogniterm.types import Phrase
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import (
    Answered,
    Document,
    Option,
    Question,
    Shown,
    Step,
    by_key,
)
from kogniterm.ui.words.key_table import ANSWER_WORDS

if TYPE_CHECKING:
    from kogniterm.ui.screen.paint import Painter

Choice = Literal["confirm", "drop", "later"]


class PendingAnswer(NamedTuple):
    """The user's choice; `words` is what they wrote instead, a task or a command."""

    choice: Choice
    words: str = ""


@dataclass(frozen=True)
class PendingFactQuestion(Question[PendingAnswer]):
    """Shows a fact that waits, `label` and `text`, and `source`, where it comes from."""

    label: str
    text_of_fact: str
    source: Phrase

    @property
    def _choices(self) -> list[Option]:
        return [
            Option("yes", _("keep it"), "confirm"),
            Option("no", _("drop it"), "drop"),
            Option("later", _("decide later"), "later"),
        ]

    def _lines(self, painter: Painter, columns: int) -> list[str]:
        from rich.text import Text

        from kogniterm.text.shorten import one_line
        from kogniterm.ui.screen.paint import Readable

        title = _("Remember this for later? {id}").format(id=self.label)
        parts = [
            Readable(Text(title, "heading")),
            Readable(Text(f"  {one_line(self.text_of_fact)}")),
            Readable(Text(f"  {one_line(translate(self.source))}", "muted")),
        ]
        return [line for part in parts for line in painter.lines(part, columns)]

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> Document:
        """Return the fact and where it comes from."""
        return Document(self._lines(painter, columns)[: max(rows, 1)])

    def transcript(
        self, painter: Painter, columns: int, answer: Answered[PendingAnswer] | None
    ) -> str:
        """Return what became of the fact; nothing where the question made room for a task."""
        from rich.text import Text

        if answer is None:
            return ""
        said = translate(self.outcome(answer.value.choice))
        return painter.paint(Text(said, "muted"), columns)

    def outcome(self, choice: Choice) -> Phrase:
        """Return what became of the fact."""
        from kogniterm.text.shorten import one_line

        values = {"id": self.label, "text": one_line(self.text_of_fact)}
        if choice == "confirm":
            return Phrase("{id} is kept: {text}", values)
        if choice == "drop":
            return Phrase("{id} is dropped: {text}", values)
        return Phrase("{id} waits; /memory confirm {id} or /forget {id} decides.", values)

    @property
    def hint(self) -> str:
        """The effect of Enter and Esc with words on the line."""
        return _("Enter: send your text; the fact waits · Esc: back to the question")

    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return the keys with what they do."""
        return [Shown(option.key, option.words) for option in self._choices]

    def options(self) -> Collection[str]:
        """Return the keys that answer."""
        return by_key(self._choices)

    def press(self, key: str, *, seen: bool = True) -> Step[PendingAnswer]:
        """Answer with `key`."""
        option = by_key(self._choices).get(key)
        return self if option is None else _chosen(option)

    def words(self, text: str) -> Step[PendingAnswer]:
        """Take a task: the fact waits."""
        return Answered(PendingAnswer("later", text)) if text.strip() else self

    def text(self, painter: Painter, columns: int) -> Document:
        """Return the same lines as at the prompt."""
        return Document(self._lines(painter, columns))

    def menu(self) -> Sequence[str]:
        """Return each answer with its key."""
        return [f"{option.key} = {option.words}" for option in self._choices]

    def typed(self, line: str) -> Step[PendingAnswer] | None:
        """Answer with a line that is exactly a key; other words are a task.

        Words such as "yes" are neither: a key was meant.
        """
        said = line.strip().lower()
        option = by_key(self._choices).get(said)
        if option is not None:
            return _chosen(option)
        if said in ANSWER_WORDS:
            return None
        return Answered(PendingAnswer("later", line))

    def ended(self) -> PendingAnswer:
        """Return the answer that changes nothing."""
        return PendingAnswer("later")


def _chosen(option: Option) -> Answered[PendingAnswer]:
    choices: dict[str, Choice] = {"confirm": "confirm", "drop": "drop"}
    return Answered(PendingAnswer(choices.get(option.value, "later")))
