"""An editor shows what runs, and gets no secret."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kogniterm.addons.acp.session_updates import FrontWords, SessionUpdates
from kogniterm.types import events
from tests.addons.acp.conftest import MakeEditor
from tests.flows.test_every_sink_redacts import OTHERS, find_secrets
from tests.flows.test_same_bytes import body, harmless
from tests.support.acp_editor import editing

NOT_ALONE = (events.CommandOutput, events.TurnEnded, events.JobsLeft)
"""An editor gets these with a command that runs, or from the session."""


def editor(given: Sequence[Any]) -> str:
    """Return what an editor gets over ACP."""

    async def sent() -> list[str]:
        made: list[Callable[[], Any]] = []
        outbox: Any = SimpleNamespace(
            put=lambda update: made.append(lambda: update),
            put_late=lambda key, make: made.append(make),
        )
        say: Callable[[Any], str] = str
        words = FrontWords(
            say, lambda tool, text: f"{tool} {text}", lambda answer: "", lambda left: ()
        )
        session: Any = SimpleNamespace(
            state=SimpleNamespace(title="", usage=None),
        )
        updates = SessionUpdates(session, outbox, words)
        updates.usage = lambda: None  # type: ignore[method-assign]  # numbers only
        for event in given:
            updates(event)
        return [str(update()) for update in made]

    return "\n".join(asyncio.run(sent()))


@pytest.mark.parametrize(
    "kind", [one for one in OTHERS if one not in NOT_ALONE], ids=lambda kind: kind.__name__
)
def test_an_editor_gets_every_text_of_an_event_redacted(kind: Any) -> None:
    assert find_secrets(editor, kind) == []


async def test_an_editor(make_editor: MakeEditor) -> None:
    made = harmless(22, 25)
    editor = make_editor("\n".join(f"  - {json.dumps({'run': one})}" for one in made))
    editor.answers = ["approve"] * len(made)
    async with editing(editor):
        session = await editor.open()
        await editor.say(session, "go")
    shown = [one.call["rawInput"]["command"] for one in editor.asked]
    assert len(shown) == len(made)
    found = [(editor.work / f"got-{number}").read_text() for number in range(len(made))]
    assert found == [*map(body, made)]
