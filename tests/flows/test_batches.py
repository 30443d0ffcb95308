"""Learning from several turns with one model call, with the real Gemini client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kogniterm.runtime.budgets import turn_uses
from kogniterm.sessions.fold import NOTHING_USED, usage_of_note
from kogniterm.sessions.records import Noted
from tests.flows.conftest import Flow, MakeFlow
from tests.flows.program import replayed
from tests.support.fake_gemini import Answer, FakeGemini, text_answer
from tests.support.forge import Forge

MODEL = "google_genai:gemini-2.5-flash"


@pytest.fixture
def gemini(make_flow: MakeFlow, fake_gemini: FakeGemini) -> Flow:
    fake_gemini.answer_with(answered)
    return make_flow(model=MODEL, google_api_key="a-key", google_base_url=fake_gemini.url)


def is_reading(body: dict[str, Any]) -> bool:
    return "long-term memory" in str(body.get("systemInstruction"))


def answered(body: dict[str, Any]) -> Answer:
    if not is_reading(body):
        return text_answer("All right.")
    quote = "we deploy on Tuesdays"
    fact = {"text": "They deploy on Tuesdays", "quote": quote, "category": "project"}
    return text_answer(json.dumps({"facts": [{**fact, "confidence": 0.9}]}))


def readings(fake: FakeGemini) -> list[str]:
    return [json.dumps(seen.contents) for seen in fake.requests if is_reading(seen.body)]


async def test_three_turns_are_read_at_the_end_and_counted(
    gemini: Flow, fake_gemini: FakeGemini, forge: Forge
) -> None:
    for task in ("have a look", "by the way, we deploy on Tuesdays", "is that all?"):
        await gemini.run(task)
    session = gemini.session
    assert session is not None
    assert session.memory is not None
    assert readings(fake_gemini) == []
    spent = session.state.usage
    await session.finish()
    (read,) = readings(fake_gemini)
    assert read.count("NEW USER") == 3
    assert [fact.text for fact in session.memory.context.memory.facts()] == [
        "They deploy on Tuesdays"
    ]
    (note,) = [one.body for one in session.journal.records() if isinstance(one.body, Noted)
               and usage_of_note(one.body) != NOTHING_USED]  # fmt: skip
    used = usage_of_note(note)
    assert used.calls == 1
    assert session.state.usage == spent + used
    last = turn_uses(session.journal.records())[-1]
    assert (last.turn, last.models[MODEL].calls) == (3, 2)
    gemini.close()
    assert replayed(forge, gemini) == (0, {"turns": 3, "commands": 0, "divergence": None})


async def test_an_idle_session_is_read_without_waiting_for_its_end(
    gemini: Flow, fake_gemini: FakeGemini
) -> None:
    await gemini.run("by the way, we deploy on Tuesdays")
    session = gemini.session
    assert session is not None
    assert session.memory is not None
    session.memory.idle_seconds = 0.0
    await gemini.run("is that all?")
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    assert session.memory.context.memory.facts()
    (read,) = readings(fake_gemini)
    assert read.count("NEW USER") == 2
    await session.finish()
    assert len(readings(fake_gemini)) == 1


async def test_what_was_not_read_before_a_crash_is_read_after_the_resume(
    gemini: Flow, fake_gemini: FakeGemini
) -> None:
    await gemini.run("by the way, we deploy on Tuesdays")
    assert gemini.session is not None
    session_id = gemini.session.id
    await gemini.session.open_model.close()
    gemini.close()  # without `finish`, as a killed process
    session = gemini.open(session_id)
    assert session.memory is not None
    await gemini.run("go on")
    await session.finish()
    assert [fact.text for fact in session.memory.context.memory.facts()] == [
        "They deploy on Tuesdays"
    ]
