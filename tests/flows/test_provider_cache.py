"""Content stored at Gemini in a session: used by the next turn, forgotten, deleted at the end."""

from __future__ import annotations

import pytest

from kogniterm.cli.main import main
from kogniterm.runtime.session import LiveSession
from kogniterm.sessions.history import SessionHistory
from tests.flows.conftest import Flow, MakeFlow
from tests.flows.test_read_later import MODEL
from tests.support.fake_gemini import FakeGemini

BIG = {"promptTokenCount": 3_000, "candidatesTokenCount": 10}
SERVED = {**BIG, "promptTokenCount": 3_100, "cachedContentTokenCount": 2_500}


@pytest.fixture
def gemini(make_flow: MakeFlow, fake_gemini: FakeGemini) -> Flow:
    return make_flow(
        model=MODEL, google_api_key="a-key", google_base_url=fake_gemini.url, memory="session"
    )


async def stored(flow: Flow, fake: FakeGemini) -> LiveSession:
    """Run two turns, after which the beginning of the requests is stored."""
    for task in ("the heron is grey", "and now?"):
        fake.say("Fine.", usage=BIG)
        await flow.run(task)
    wire = flow.session.modes.model._model._wire  # type: ignore[attr-defined]  # inside the cache
    await wire.prefixes._work
    return flow.session


async def test_the_next_turn_uses_it_and_the_session_deletes_it(
    gemini: Flow, fake_gemini: FakeGemini
) -> None:
    session = await stored(gemini, fake_gemini)
    ((name, content),) = fake_gemini.caches.items()
    assert "the heron is grey" in str(content["contents"])
    fake_gemini.say("All.", usage=SERVED)
    answer = await gemini.run("is that all?")
    assert answer.text == "All."
    assert fake_gemini.last.body["cachedContent"] == name
    assert "heron" not in str(fake_gemini.last.body)
    assert (answer.usage.written, answer.usage.cached) == (2_500, 2_500)
    last = SessionHistory(session.journal.records()).turns[-1]
    assert last.models[MODEL].stored == 2_500 * 300
    await session.finish()
    assert fake_gemini.caches == {}


async def agrees(*_: object) -> bool:
    return True


async def test_forgetting_deletes_it_and_the_session_goes_on(
    gemini: Flow, fake_gemini: FakeGemini
) -> None:
    session = await stored(gemini, fake_gemini)
    receipt = await session.forgetting.command(agrees, "the heron is grey")
    assert receipt is not None
    assert receipt.proved
    assert ("Gemini's cache", 1) in [(str(part.place), part.removed) for part in receipt.parts]
    assert fake_gemini.caches == {}
    fake_gemini.say("All.", usage=BIG)
    assert (await gemini.run("is that all?")).text == "All."
    assert "heron" not in str(fake_gemini.last.body)


async def test_what_cannot_be_deleted_is_reported(gemini: Flow, fake_gemini: FakeGemini) -> None:
    session = await stored(gemini, fake_gemini)
    fake_gemini.refuse_caches = 500
    receipt = await session.forgetting.command(agrees, "the heron is grey")
    assert receipt is not None
    told = [str(place) for place in receipt.unreachable]
    assert any("that Gemini keeps in its cache until" in one for one in told)


async def test_the_command_line_deletes_what_a_killed_process_left(
    gemini: Flow, fake_gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await stored(gemini, fake_gemini)
    wire = session.modes.model._model._wire  # type: ignore[attr-defined]  # inside the cache
    wire.prefixes = None  # a killed process deletes nothing
    await session.open_model.close()
    gemini.close()
    assert len(fake_gemini.caches) == 1
    for name, value in gemini.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GOOGLE_API_KEY", "a-key")
    assert main(["memory", "forget", "the heron is grey", "--yes"]) == 0
    assert fake_gemini.caches == {}
    assert list((gemini.data / "provider-caches").iterdir()) == []
