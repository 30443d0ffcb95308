"""Facts read by a model after the answer: at the prompt or later, with the real Gemini client."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from kogniterm.runtime.session import LiveSession
from kogniterm.sessions.fold import NOTHING_USED, usage_of_note
from kogniterm.sessions.history import SessionHistory
from kogniterm.sessions.records import Noted
from tests.flows.conftest import Flow, MakeFlow
from tests.flows.program import replayed
from tests.support.fake_gemini import Answer, FakeGemini, text_answer
from tests.support.forge import Forge

MODEL = "google_genai:gemini-2.5-flash"


@pytest.fixture
def gemini(make_flow: MakeFlow, fake_gemini: FakeGemini) -> Flow:
    fake_gemini.answer_with(answered)
    return at(make_flow, fake_gemini)


def at(make_flow: MakeFlow, fake_gemini: FakeGemini, **flags: object) -> Flow:
    return make_flow(model=MODEL, google_api_key="a-key", google_base_url=fake_gemini.url, **flags)


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


async def quiet() -> None:
    """Wait until nothing happens in the background."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


async def left(flow: Flow, *said: str) -> LiveSession:
    """Say something in a session of `kogniterm run`, and end it; return the session."""
    for text in said:
        await flow.run(text)
    session = flow.session
    await session.finish()
    flow.close()
    return session


async def start(flow: Flow) -> list[str]:
    """Start a session at the prompt, and return the facts known when it is quiet."""
    session = flow.open()
    session.memory.read("start")
    await quiet()
    facts = [fact.text for fact in session.memory.context.memory.facts("active", "pending")]
    await session.finish()
    flow.close()
    return facts


TUESDAYS = "by the way, we deploy on Tuesdays"
FACT = ["They deploy on Tuesdays"]


async def test_a_run_asks_no_model_and_the_next_start_reads_it_once(
    gemini: Flow, fake_gemini: FakeGemini, forge: Forge
) -> None:
    await left(gemini, "have a look", TUESDAYS, "is that all?")
    assert readings(fake_gemini) == []
    assert await start(gemini) == FACT
    (read,) = readings(fake_gemini)
    assert read.count("NEW USER") == 3
    assert await start(gemini) == FACT
    assert len(readings(fake_gemini)) == 1


async def test_a_reading_is_counted_and_replayed(
    gemini: Flow, fake_gemini: FakeGemini, forge: Forge
) -> None:
    gemini.at_prompt = True
    await gemini.run("have a look")
    session = gemini.session
    session.memory.idle_seconds = 0.0
    spent = session.state.usage
    await gemini.run(TUESDAYS)
    spent += spent
    await quiet()
    (read,) = readings(fake_gemini)
    assert read.count("NEW USER") == 2
    (note,) = [one.body for one in session.journal.records() if isinstance(one.body, Noted)
               and usage_of_note(one.body) != NOTHING_USED]  # fmt: skip
    used = usage_of_note(note)
    assert used.calls == 1
    assert session.state.usage == spent + used
    last = SessionHistory(session.journal.records()).turns[-1]
    assert (last.number, last.models[MODEL].calls) == (2, 2)
    await session.finish()
    assert len(readings(fake_gemini)) == 1
    gemini.close()
    assert replayed(forge, gemini) == (0, {"turns": 2, "commands": 0, "divergence": None})


@pytest.mark.parametrize("ends", ["exit", "next input"])
async def test_a_model_that_never_ends_reading_holds_nothing(
    gemini: Flow, fake_gemini: FakeGemini, ends: str
) -> None:
    asked = threading.Event()

    def answer(body: dict[str, Any]) -> Answer:
        if not is_reading(body):
            return text_answer("All right.")
        asked.set()
        return Answer(ending="hang")

    fake_gemini.answer_with(answer)
    gemini.at_prompt = True
    await gemini.run("Remember that we deploy on Tuesdays.")
    session = gemini.session
    assert session.memory is not None
    assert await asyncio.to_thread(asked.wait, 60)
    if ends == "next input":
        gemini.at_prompt = False
        assert (await gemini.run("and now?")).text == "All right."
        await quiet()  # the reading was given up
    await session.finish()
    assert [str(one) for one in session.memory.waiting_lines()] == [
        "Saved to memory as m1: “we deploy on Tuesdays.”"
    ]
    gemini.close()
    fake_gemini.answer_with(answered)
    assert await start(gemini) == ["we deploy on Tuesdays."]  # known already, in other words


async def test_what_was_edited_or_dropped_before_it_is_read_does_not_return(
    gemini: Flow, fake_gemini: FakeGemini
) -> None:
    session = await left(gemini, "Remember that we deploy on Tuesdays.")
    again = gemini.open()
    memory = again.memory.context.memory
    (fact,) = memory.facts()
    memory.updater.edit(fact, "We deploy on Mondays.")
    await again.finish()
    gemini.close()
    assert await start(gemini) == ["We deploy on Mondays."]
    assert session.id != again.id


async def test_what_is_deleted_or_forgotten_is_not_read(
    gemini: Flow, fake_gemini: FakeGemini
) -> None:
    gone = await left(gemini, TUESDAYS)
    kept = await left(gemini, "by the way, we deploy from Vigo", TUESDAYS)
    again = gemini.open()
    assert again.memory is not None
    again.archive.store.delete([gone.id])
    again.archive.forgetter(again.memory).forget((), phrases=["Tuesdays"])
    gemini.close()
    assert await start(gemini) == []
    assert not [one for one in readings(fake_gemini) if "Tuesdays" in one]
    assert kept.id != gone.id


async def test_no_more_than_twenty_turns_wait(gemini: Flow, fake_gemini: FakeGemini) -> None:
    await left(gemini, *(f"we bought lamp {number}" for number in range(12)))
    await left(gemini, *(f"we bought chair {number}" for number in range(12)))
    await start(gemini)
    (newer, older) = readings(fake_gemini)
    assert (newer.count("NEW USER"), older.count("NEW USER")) == (12, 8)
    assert "lamp 11" in older
    assert "NEW USER: we bought lamp 3" not in older
    await start(gemini)
    assert len(readings(fake_gemini)) == 2


@pytest.mark.parametrize("kept", ["off", "session"])
async def test_nothing_of_a_session_that_keeps_nothing_is_read_later(
    make_flow: MakeFlow, fake_gemini: FakeGemini, kept: str
) -> None:
    fake_gemini.answer_with(answered)
    session = await left(at(make_flow, fake_gemini, memory=kept), TUESDAYS)
    later = at(make_flow, fake_gemini)
    later.open(session.id)
    await left(later, "go on")
    assert await start(later) == []
    assert not [one for one in readings(fake_gemini) if "NEW USER: by the way" in one]


async def test_what_was_not_read_before_a_crash_is_read_after_it(
    gemini: Flow, fake_gemini: FakeGemini
) -> None:
    await gemini.run(TUESDAYS)
    await gemini.session.open_model.close()
    gemini.close()  # without `finish`, as a killed process
    assert await start(gemini) == FACT
