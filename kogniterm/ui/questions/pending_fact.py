"""The question whether a fact that was inferred is kept: one key, at a quiet moment.

Nothing waits for the answer. Words on the line are no answer: Enter sends them as a task, and the
fact waits in `/memory list`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from kogniterm.types import Phrase
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import Answered, ChoiceQuestion, Document, Option, Step
from kogniterm.ui.words.key_table import ANSWER_WORDS

if TYPE_CHECKING:
    from kogniterm.ui.screen.paint import Painter

Choice = Literal["confirm", "drop", "later"]


class PendingAnswer(NamedTuple):
    """The user's choice; `words` is what they wrote instead, a task or a command."""

    choice: Choice
    words: str = ""


@dataclass(frozen=True)
class PendingFactQuestion(ChoiceQuestion[PendingAnswer]):
    """Asks whether the fact that waits as `label` is kept."""

    label: str
    fact: str

    def text(self, painter: Painter, columns: int) -> Document:
        """Return the same lines as at the prompt."""
        return self.document(painter, columns, len(self.body) * columns)

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
        values = {"id": self.label, "text": self.fact}
        if choice == "confirm":
            return Phrase("{id} is kept: {text}", values)
        if choice == "drop":
            return Phrase("{id} is dropped: {text}", values)
        return Phrase("{id} waits; /memory confirm {id} or /forget {id} decides.", values)

    @property
    def hint(self) -> str:
        """The effect of Enter and Esc with words on the line."""
        return _("Enter: send your text; the fact waits · Esc: back to the question")

    def words(self, text: str) -> Step[PendingAnswer]:
        """Take a task: the fact waits."""
        return Answered(PendingAnswer("later", text)) if text.strip() else self

    def typed(self, line: str) -> Step[PendingAnswer] | None:
        """Answer with a line that is exactly a key; other words are a task.

        Words such as "yes" are neither: a key was meant.
        """
        said = line.strip().lower()
        if said in self.by_key:
            return self.press(said)
        return None if said in ANSWER_WORDS else Answered(PendingAnswer("later", line))


def pending_fact_question(label: str, text: str, source: Phrase) -> PendingFactQuestion:
    """Return the question whether a fact is kept, which shows where it comes from."""
    from kogniterm.text.shorten import one_line

    fact = one_line(text)
    return PendingFactQuestion(
        _("Remember this for later? {id}").format(id=label),
        [f"  {fact}", (f"  {one_line(translate(source))}", "muted")],
        [
            Option("yes", _("keep it"), PendingAnswer("confirm")),
            Option("no", _("drop it"), PendingAnswer("drop")),
            Option("later", _("decide later"), PendingAnswer("later")),
        ],
        label,
        fact,
    )
