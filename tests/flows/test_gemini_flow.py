"""Whole turns with the real Gemini client against a server on this machine."""

from __future__ import annotations

from itertools import pairwise
from urllib.parse import urlsplit

import pytest

from kogniterm.sessions.history import SessionHistory
from kogniterm.types import Usage, events
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.program import replayed
from tests.support.fake_gemini import FakeGemini, candidate
from tests.support.forge import Forge


@pytest.fixture
def gemini(make_flow: MakeFlow, fake_gemini: FakeGemini) -> Flow:
    return make_flow(
        decisions=[yes, yes, yes],
        model="google_genai:gemini-2.5-flash",
        google_api_key="a-key-of-the-person",
        google_base_url=fake_gemini.url,
        model_retries=1,
    )


def run(command: str) -> tuple[str, dict[str, str]]:
    return "execute_command", {"command": command, "purpose": "Look"}


async def test_every_request_begins_with_the_one_before(
    gemini: Flow, fake_gemini: FakeGemini
) -> None:
    for n in range(3):
        fake_gemini.call(run(f"echo {n}"))
    fake_gemini.say("Done.")
    await gemini.run("count")
    contents = [seen.contents for seen in fake_gemini.requests]
    for before, after in pairwise(contents):
        assert after[: len(before)] == before
    assert len({str(seen.body["systemInstruction"]) for seen in fake_gemini.requests}) == 1
    assert len({str(seen.body["tools"]) for seen in fake_gemini.requests}) == 1
    assert len(fake_gemini.requests[0].raw) < 8_760


async def test_the_window_of_the_example_settings_works(
    make_flow: MakeFlow, fake_gemini: FakeGemini
) -> None:
    flow = make_flow(
        model="google_genai:gemini-flash-latest",
        google_api_key="a-key-of-the-user",
        google_base_url=fake_gemini.url,
        context_window=32_768,
    )
    fake_gemini.say("Hello.")
    assert (await flow.run("hi")).text == "Hello."


def searched(text: str) -> dict[str, object]:
    """Return the reply of a request with Google's search: a text and one page."""
    page = {"web": {"uri": "https://pypi.org/project/httpx", "title": "httpx"}}
    chunk = candidate([{"text": text}], "STOP", {"promptTokenCount": 40, "candidatesTokenCount": 8})
    chunk["candidates"][0]["groundingMetadata"] = {"groundingChunks": [page]}
    return chunk


async def test_the_web_is_searched_by_gemini_and_counted_with_the_turn(
    gemini: Flow, fake_gemini: FakeGemini, forge: Forge
) -> None:
    fake_gemini.call(("web_search", {"query": "newest httpx", "purpose": "Find it"}))
    fake_gemini.chunks(searched("The newest is 1.0; my key is sk-ant-api03-" + "ab12" * 10))
    fake_gemini.say("It is 1.0.")
    answer = await gemini.run("what is the newest httpx?")
    assert answer.text == "It is 1.0."
    host = urlsplit(fake_gemini.url).netloc
    (proposed,) = gemini.of(events.ActionProposed)
    assert [effect.target for effect in proposed.report.effects] == [host]
    asked, told = fake_gemini.requests[1].body, fake_gemini.requests[2].contents[-1]
    assert asked["tools"] == [{"googleSearch": {}}]
    assert "systemInstruction" not in asked
    assert len(asked["contents"]) == 1
    assert "newest httpx" in str(asked["contents"])
    result = str(told["parts"][0]["functionResponse"]["response"])
    assert "The newest is 1.0" in result
    assert "https://pypi.org/project/httpx" in result
    assert "sk-ant-api03" not in result
    assert answer.usage.calls == 3
    assert answer.usage.input == 11 + 40 + 11
    assert gemini.session.state.usage == answer.usage
    used = SessionHistory(gemini.session.journal.records()).models
    assert sum(used.values(), Usage()) == answer.usage
    assert sum(event.usage.input for event in gemini.of(events.ModelAnswered)) == answer.usage.input
    await gemini.session.finish()
    gemini.close()
    assert replayed(forge, gemini) == (0, {"turns": 1, "commands": 0, "divergence": None})


async def test_a_failed_search_is_an_observation(gemini: Flow, fake_gemini: FakeGemini) -> None:
    fake_gemini.call(("web_search", {"query": "x"}))
    fake_gemini.fail(429, "slow down")
    fake_gemini.fail(429, "slow down")
    fake_gemini.say("I could not search.")
    answer = await gemini.run("search")
    assert answer.text == "I could not search."
    (ended,) = gemini.of(events.ActionEnded)
    assert ended.failed
    assert ended.observation.startswith("The web search by google_genai:gemini-2.5-flash failed: ")
