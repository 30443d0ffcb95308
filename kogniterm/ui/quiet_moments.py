"""Questions and offers that wait for a quiet moment: inferred facts, and repeated requests.

A moment is quiet when nothing runs or waits, no question is open, and nothing stands on the input
line. A task that begins meanwhile withdraws the question, which is then asked at the next moment.
One key answers; words on the line are no answer: Enter sends them as a task, and the fact waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from kogniterm.errors import KognitermError, TurnInterruptedError
from kogniterm.types import Phrase
from kogniterm.ui.front import Front
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import Answered, ChoiceQuestion, Option, QuestionText, Step
from kogniterm.ui.turns import Turns
from kogniterm.ui.words.key_table import ANSWER_WORDS

if TYPE_CHECKING:
    from kogniterm.memory import Fact
    from kogniterm.runtime.services.memory_service import MemoryService
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

    def text(self, painter: Painter, columns: int) -> QuestionText:
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


MOST = 3
"""Facts that are asked about at one moment; the others wait for the next one."""


class QuietMoments:
    """Asks about the facts of a session that wait for the user; each is asked about once."""

    def __init__(
        self,
        memory: Callable[[], MemoryService | None],
        front: Callable[[], Front],
        turns: Turns,
        say: Callable[[Phrase], None],
    ) -> None:
        self.memory, self.front, self.turns, self.say = memory, front, turns, say
        self._asking: asyncio.Task[PendingAnswer] | None = None

    def withdraw(self) -> None:
        """Take back the question: a task begins, or the session is left."""
        if self._asking is not None:
            self._asking.cancel()

    async def use(self) -> str:
        """Ask now, if the moment is quiet; return what the user wrote instead of an answer.

        A failure of memory asks nothing.
        """
        await self.turns.settle()
        memory = self.memory()
        if memory is None:
            return ""
        with contextlib.suppress(KognitermError):
            for line in memory.saved_lines():
                self.say(line)
            front = self.front()
            busy = self.turns.running or self.turns.queue or self._asking is not None
            keyboard, _screen = front.terminal_files
            quiet = not (busy or front.question_open or front.draft()) and os.isatty(keyboard)
            if quiet and (offer := memory.offered_line()) is not None:
                self.say(offer)
            for fact in memory.to_confirm("asked")[:MOST] if quiet else ():
                answer = await self._ask(fact)
                if answer is None:
                    break
                memory.announce(fact, "asked")
                if answer.choice == "later":
                    return answer.words.strip()
                memory.decide(fact, confirmed=answer.choice == "confirm")
        return ""

    async def _ask(self, fact: Fact) -> PendingAnswer | None:
        """Ask about one fact; None when the question was withdrawn."""
        from kogniterm.memory.recall import because

        question = pending_fact_question(fact.label, fact.text, because(fact))
        self._asking = asyncio.ensure_future(self.front().questions.ask(question))
        try:
            answer = await self._asking
            if self.front().questions.stays:
                self.say(question.outcome(answer.choice))
            return answer
        except (asyncio.CancelledError, TurnInterruptedError):
            return None
        finally:
            self._asking.cancel()
            self._asking = None
