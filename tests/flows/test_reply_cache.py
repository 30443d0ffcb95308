"""Kept replies of models in sessions: reused, counted, forgotten and deleted with their session."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.cli.main import main
from kogniterm.runtime.context import compact
from kogniterm.runtime.session import LiveSession
from kogniterm.types import Usage
from tests.flows.conftest import Flow, MakeFlow
from tests.flows.test_read_later import MODEL, answered, is_reading
from tests.support.fake_gemini import FakeGemini, text_answer


@pytest.fixture
def gemini(make_flow: MakeFlow, fake_gemini: FakeGemini) -> Flow:
    return with_model(make_flow, fake_gemini)


def with_model(make_flow: MakeFlow, fake_gemini: FakeGemini, **more: object) -> Flow:
    fake_gemini.answer_with(
        lambda body: answered(body) if is_reading(body) else text_answer("We looked at periwinkle.")
    )
    return make_flow(model=MODEL, google_api_key="a-key", google_base_url=fake_gemini.url, **more)


async def summed_up(session: LiveSession) -> Usage:
    """Return what a summary of the session costs; the history stays as it is."""
    made = await compact(session.state, session.modes.model, 60, asked=True)
    assert made.summary == "We looked at periwinkle."
    return made.usage


def kept(flow: Flow) -> list[Path]:
    return sorted(flow.data.glob("model-replies/*/*.json"))


async def used(flow: Flow) -> LiveSession:
    for task in ("have a look", "and now?", "is that all?"):
        await flow.run(task)
    return flow.session


async def test_a_second_summary_of_the_same_history_is_free(
    gemini: Flow, fake_gemini: FakeGemini
) -> None:
    session = await used(gemini)
    first = await summed_up(session)
    assert (first.calls, first.reused) == (1, 0)
    asked = len(fake_gemini.requests)
    second = await summed_up(session)
    assert second == Usage(reused=1, reused_input=first.input, reused_output=first.output)
    assert len(fake_gemini.requests) == asked
    session.use_model("google_genai:gemini-2.5-pro")
    assert (await summed_up(session)).calls == 1


async def test_answers_are_never_kept(gemini: Flow, fake_gemini: FakeGemini) -> None:
    await used(gemini)
    assert kept(gemini) == []
    assert len(fake_gemini.requests) == 3


async def test_the_setting_switches_it_off(make_flow: MakeFlow, fake_gemini: FakeGemini) -> None:
    flow = with_model(make_flow, fake_gemini, model_cache=False)
    session = await used(flow)
    assert [(await summed_up(session)).calls for _ in range(2)] == [1, 1]
    assert kept(flow) == []


async def test_forgetting_deletes_every_kept_reply(gemini: Flow) -> None:
    session = await used(gemini)
    await summed_up(session)
    assert b"periwinkle" in kept(gemini)[0].read_bytes()

    async def agrees(*_: object) -> bool:
        return True

    receipt = await session.forgetting.command(agrees, "periwinkle")
    assert receipt is not None
    assert receipt.proved
    assert ("kept replies of models", 1) in [(str(p.place), p.removed) for p in receipt.parts]
    assert kept(gemini) == []


async def test_a_deleted_session_takes_its_replies_along(
    gemini: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await used(gemini)
    await summed_up(session)
    session_id = session.id
    assert [file.parent.name for file in kept(gemini)] == [session_id]
    await session.open_model.close()
    gemini.close()
    for name, value in gemini.environ.items():
        monkeypatch.setenv(name, value)
    assert main(["sessions", "delete", session_id, "--yes"]) == 0
    assert kept(gemini) == []
    assert not (gemini.data / "model-replies" / session_id).exists()
