"""Questions that wait for a quiet moment: whether an inferred fact is kept.

A moment is quiet when nothing runs or waits, no question is open, and nothing stands on the input
line. A task that begins meanwhile withdraws the question, which is then asked at the next moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from kogniterm.errors import KognitermError, TurnInterruptedError
from kogniterm.types import Phrase
from kogniterm.ui.front import Front
from kogniterm.ui.turns import Turns

if TYPE_CHECKING:
    from kogniterm.memory import Fact
    from kogniterm.runtime.services.memory_service import MemoryService
    from kogniterm.ui.questions.pending_fact import PendingAnswer

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
            for fact in memory.to_confirm("asked")[:MOST] if self._is_quiet() else ():
                answer = await self._ask(fact)
                if answer is None:
                    break
                memory.announce(fact, "asked")
                if answer.choice == "later":
                    return answer.words.strip()
                memory.decide(fact, confirmed=answer.choice == "confirm")
        return ""

    def _is_quiet(self) -> bool:
        front = self.front()
        busy = self.turns.running or self.turns.queue or self._asking is not None
        keyboard, _screen = front.terminal_files
        return not (busy or front.question_open or front.draft()) and os.isatty(keyboard)

    async def _ask(self, fact: Fact) -> PendingAnswer | None:
        """Ask about one fact; None when the question was withdrawn."""
        from kogniterm.memory.recall import because
        from kogniterm.ui.questions.pending_fact import pending_fact_question

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
