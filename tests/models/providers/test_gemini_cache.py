"""Content stored at Gemini: created, used, extended, lost, deleted, and what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from kogniterm.models.catalog import price_of
from kogniterm.models.providers.gemini import GeminiModel
from kogniterm.models.providers.gemini_cache import ListedCache, ProviderCaches, delete_listed
from kogniterm.types import Usage
from tests.support.asking import TOOLS, OpenGemini, ask
from tests.support.fake_gemini import FakeGemini

SYSTEM = SystemMessage("Be brief.")


class Talk:
    """A conversation that grows by a question and its reply."""

    def __init__(self, model: GeminiModel, fake: FakeGemini) -> None:
        self.model = model
        self.fake = fake
        self.messages: list[BaseMessage] = [SYSTEM]

    async def turn(self, tokens: int, *, cached: int = 0, tools: Any = TOOLS) -> Usage:
        counted = {
            "promptTokenCount": tokens,
            "cachedContentTokenCount": cached,
            "candidatesTokenCount": 10,
        }
        self.fake.say("fine", usage=counted)
        self.messages.append(HumanMessage(f"question {len(self.messages)}"))
        heard = await ask(self.model, *self.messages, tools=tools)
        self.messages.append(heard.message)
        await self.stored()
        return heard.reply.usage

    async def stored(self) -> None:
        """Wait for what is done in the background."""
        wire = self.model._wire
        assert wire is not None
        assert wire.prefixes is not None
        if wire.prefixes._work is not None:
            await wire.prefixes._work

    @property
    def last(self) -> dict[str, Any]:
        return self.fake.last.body


@pytest.fixture
async def talk(open_gemini: OpenGemini, fake_gemini: FakeGemini, tmp_path: Path) -> Talk:
    return Talk(open_gemini(provider_caches=tmp_path / "listed"), fake_gemini)


async def test_the_beginning_is_stored_where_no_cache_served_it(
    talk: Talk, fake_gemini: FakeGemini
) -> None:
    await talk.turn(2_000)
    assert fake_gemini.caches == {}
    await talk.turn(2_100)
    whole = talk.last
    ((name, stored),) = fake_gemini.caches.items()
    assert stored["model"] == "models/gemini-2.5-flash"
    assert stored["ttl"] == "300s"
    for part in ("contents", "systemInstruction", "tools"):
        assert stored[part] == whole[part]
    usage = await talk.turn(2_600, cached=2_500)
    body = talk.last
    assert body["cachedContent"] == name
    assert not {"systemInstruction", "tools", "toolConfig"} & set(body)
    assert body["generationConfig"] == whole["generationConfig"]
    assert [one["role"] for one in body["contents"]] == ["model", "user"]
    assert body["contents"][-1]["parts"] == [{"text": "question 5"}]
    assert usage == Usage(2_600 + 2_500, 10, 2_500, 1, written=2_500, stored=2_500 * 300)


async def test_the_price_of_storing_is_part_of_the_cost(talk: Talk) -> None:
    await talk.turn(2_000)
    await talk.turn(2_100)
    usage = await talk.turn(2_600, cached=2_500)
    price = price_of("google_genai:gemini-2.5-flash")
    assert price is not None
    storage = 2_500 * 300 / 3600 * 1.00
    paid = 100 * 0.30 + 2_500 * 0.30 + 2_500 * 0.075 + 10 * 2.50 + storage
    assert price.cost(usage) == pytest.approx(paid / 1e6)
    saved = 2_500 * (0.30 - 0.075) - 2_500 * 0.30 - storage
    assert price.saving(usage) == pytest.approx(saved / 1e6)
    later = await talk.turn(2_700, cached=2_500)
    assert price.saving(later) == pytest.approx(2_500 * 0.225 / 1e6)


async def test_where_geminis_own_cache_serves_nothing_is_stored(
    talk: Talk, fake_gemini: FakeGemini
) -> None:
    for tokens in (2_000, 2_100, 2_200):
        await talk.turn(tokens, cached=tokens - 200)
    assert fake_gemini.cache_calls == []


@pytest.mark.parametrize(
    ("name", "more", "tokens", "tools"),
    [
        ("gemini-2.5-flash", {}, 900, TOOLS),
        ("gemini-2.5-pro", {}, 3_000, TOOLS),
        ("gemini-2.5-flash", {"prompt_cache": False}, 3_000, TOOLS),
        ("gemini-2.5-flash", {}, 3_000, ()),
        ("gemma-3-27b", {}, 9_000, TOOLS),
    ],
    ids=["too short", "too short for Pro", "switched off", "no agent", "another model"],
)
async def test_nothing_is_stored_otherwise(
    open_gemini: OpenGemini,
    fake_gemini: FakeGemini,
    name: str,
    more: dict[str, Any],
    tokens: int,
    tools: Any,
) -> None:
    model = open_gemini(name, **more)
    for number in range(3):
        fake_gemini.say("fine", usage={"promptTokenCount": tokens, "candidatesTokenCount": 1})
        messages = [HumanMessage(f"question {n}") for n in range(number + 1)]
        await ask(model, SYSTEM, *messages, tools=tools)
    await model.aclose()
    assert fake_gemini.cache_calls == []
    assert all("cachedContent" not in seen.body for seen in fake_gemini.requests)


async def test_a_refusal_is_not_asked_for_again_and_changes_nothing(
    talk: Talk, fake_gemini: FakeGemini
) -> None:
    fake_gemini.refuse_caches = 429
    for tokens in (2_000, 2_100, 2_200, 2_300):
        await talk.turn(tokens)
    assert fake_gemini.cache_calls == [("POST", "cachedContents")]
    assert all("cachedContent" not in seen.body for seen in fake_gemini.requests)


async def test_expired_content_is_noticed_and_the_whole_request_is_sent(
    talk: Talk, fake_gemini: FakeGemini
) -> None:
    await talk.turn(2_000)
    await talk.turn(2_100)
    fake_gemini.caches.clear()
    before = len(fake_gemini.requests)
    await talk.turn(2_200)
    first, second = (seen.body for seen in fake_gemini.requests[before:])
    assert "cachedContent" in first
    assert "cachedContent" not in second
    assert second["systemInstruction"]["parts"][0]["text"] == "Be brief."
    assert len(second["contents"]) == 5
    # The content is stored anew after the reply, and used by the next request.
    ((name, stored),) = fake_gemini.caches.items()
    assert stored["contents"] == second["contents"]
    await talk.turn(2_300, cached=2_200)
    assert talk.last["cachedContent"] == name


async def test_it_is_stored_anew_when_the_history_has_doubled(
    talk: Talk, fake_gemini: FakeGemini
) -> None:
    await talk.turn(2_000)
    await talk.turn(2_100)
    (old,) = fake_gemini.caches
    await talk.turn(4_000, cached=2_500)
    assert list(fake_gemini.caches) == [old]
    await talk.turn(5_100, cached=2_500)
    (new,) = fake_gemini.caches
    assert new != old
    assert [one for one, _name in fake_gemini.cache_calls] == ["POST", "POST", "DELETE"]


async def test_content_in_use_is_extended(talk: Talk, fake_gemini: FakeGemini) -> None:
    await talk.turn(2_000)
    await talk.turn(2_100)
    assert talk.model._wire is not None
    prefixes = talk.model._wire.prefixes
    assert prefixes is not None
    began = prefixes.now()
    prefixes.now = lambda: began + 200
    await talk.turn(2_600, cached=2_500)
    assert fake_gemini.cache_calls[-1][0] == "PATCH"
    usage = await talk.turn(2_700, cached=2_500)
    assert usage.written == 0
    assert 2_500 * 195 < usage.stored < 2_500 * 205


async def test_another_history_does_not_use_it(talk: Talk, fake_gemini: FakeGemini) -> None:
    await talk.turn(2_000)
    await talk.turn(2_100)
    fake_gemini.say("fine")
    await ask(talk.model, SYSTEM, HumanMessage("something else"), tools=TOOLS)
    assert "cachedContent" not in talk.last
    fake_gemini.say("fine")
    await ask(talk.model, SystemMessage("Other."), *talk.messages[1:], "more", tools=TOOLS)
    assert "cachedContent" not in talk.last
    await talk.turn(2_200, cached=2_000)
    assert "cachedContent" in talk.last


async def test_the_end_of_a_session_deletes_it(
    talk: Talk, fake_gemini: FakeGemini, tmp_path: Path
) -> None:
    await talk.turn(2_000)
    await talk.turn(2_100)
    (file,) = (tmp_path / "listed").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(file.read_bytes())) == {"name", "url", "expires"}
    await talk.model.aclose()
    assert fake_gemini.caches == {}
    assert list((tmp_path / "listed").iterdir()) == []


async def test_listed_content_is_deleted_from_elsewhere(
    talk: Talk, fake_gemini: FakeGemini, tmp_path: Path, closed_port: int
) -> None:
    await talk.turn(2_000)
    await talk.turn(2_100)
    caches = ProviderCaches(tmp_path / "listed")
    (one,) = caches.current(0.0)
    assert delete_listed(one, "a-key")
    assert fake_gemini.caches == {}
    assert delete_listed(one, "a-key")  # it is gone already
    fake_gemini.refuse_caches = 403
    assert not delete_listed(one, "another-key")
    assert not delete_listed(ListedCache(one.name, f"http://127.0.0.1:{closed_port}", 1.0), "a-key")
    assert list(caches.current(one.expires)) == []
    assert list((tmp_path / "listed").iterdir()) == []
