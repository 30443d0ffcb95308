"""The surface above the prompt draws by the clock only what moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kogniterm.ui.prompt import prompt
from kogniterm.ui.screen.screen_preferences import choose_theme


class CountingApplication:
    """Counts the drawings that are asked for."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.drawn = 0

    def invalidate(self) -> None:
        self.drawn += 1


async def drawn_in_many_ticks(*, question_open: bool) -> int:
    """Return how often a hundred rounds of the loop draw, the first drawing apart."""
    surface = prompt.PromptSurface(choose_theme("plain", color=False, background=None))
    application: Any = CountingApplication()
    surface.app = application
    surface.hides_live = lambda: question_open
    surface.animate(True)
    for _ in range(100):
        await asyncio.sleep(0)
    surface.animate(False)
    return application.drawn - 1


@pytest.mark.parametrize("question_open", [True, False])
def test_only_what_moves_is_drawn_by_the_clock(
    monkeypatch: pytest.MonkeyPatch, question_open: bool
) -> None:
    monkeypatch.setattr(prompt, "TICK_SECONDS", 0.0)
    monkeypatch.setattr(prompt, "FRAME_SECONDS", 0.0)
    drawn = asyncio.run(drawn_in_many_ticks(question_open=question_open))
    assert (drawn == 0) is question_open
