"""What a person says to a turn that is running: kept until the model has it for good.

Each agent hears every word once: the main one, and the sub-agents that are at work or begin
before the main one has heard it. A word is heard when the call that was made with it is in the
journal; a call that is cut short gives it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Steering:
    """The words of a turn in order, and how many of them each agent has heard or been given.

    Agents are named by the id of their call; the main one has the empty name.
    """

    _words: list[str] = field(default_factory=list)
    _heard: dict[str, int] = field(default_factory=dict)
    _given: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> None:
        """Say `text` before the next model call."""
        self._words.append(text)

    def take(self, agent: str = "") -> Sequence[str]:
        """What to say with the model call that `agent` is about to make."""
        # What the main agent has heard before it handed a task over, it has made part of it.
        heard = self._heard.setdefault(agent, self._heard.get("", 0))
        self._given[agent] = len(self._words)
        return tuple(self._words[heard:])

    def journaled(self, agent: str = "") -> None:
        """What `agent` was given is in the journal now."""
        if agent in self._given:
            self._heard[agent] = self._given.pop(agent)

    def unheard(self) -> tuple[str, ...]:
        """What the main agent had not heard when the turn ended, once."""
        left = tuple(self._words[self._heard.get("", 0) :])
        self._words.clear()
        self._heard.clear()
        self._given.clear()
        return left
