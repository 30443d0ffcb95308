"""What a person says to a turn that is running: kept until the model has it for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Steering:
    """Words wait here for the next model call; a call that is cut short gives them back."""

    _waiting: list[str] = field(default_factory=list)
    _given: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Say `text` before the next model call."""
        self._waiting.append(text)

    def take(self) -> Sequence[str]:
        """What to say with the model call that is about to be made."""
        self._given += self._waiting
        self._waiting.clear()
        return tuple(self._given)

    def journaled(self) -> None:
        """What was taken is in the journal now."""
        self._given.clear()

    def unheard(self) -> tuple[str, ...]:
        """What no model call took before the turn ended, once."""
        left = (*self._given, *self._waiting)
        self._given.clear()
        self._waiting.clear()
        return left
