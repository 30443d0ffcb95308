"""The real Gemini client with a Gemini endpoint on 127.0.0.1: successful calls."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from kogniterm.models.calling import ModelOptions
from kogniterm.models.providers.gemini import GeminiModel
from kogniterm.types import ModelInfo, Usage
from tests.support.asking import TOOLS, OpenGemini, ask
from tests.support.fake_gemini import FakeGemini


async def test_the_key_goes_in_a_header_and_our_own_header_stays_here(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.say("x")
    await ask(open_gemini())
    seen = fake_gemini.last
    assert seen.path == "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    headers = {name.lower(): value for name, value in seen.headers.items()}
    assert headers["x-goog-api-key"] == "a-key"
    assert not [name for name in headers if "kogniterm" in name]
    assert int(headers["content-length"]) == len(seen.raw)


async def test_usage_counts_cached_and_thinking_tokens(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 80,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 20,
        "totalTokenCount": 125,
    }
    fake_gemini.say("a", "b", usage=usage)
    heard = await ask(open_gemini())
    assert heard.reply.usage == Usage(input=100, output=25, cached=80, calls=1)


async def test_thoughts_stream_apart_and_their_signatures_come_back(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    model = open_gemini("gemini-3-pro-preview", thoughts=True)
    fake_gemini.parts(
        {"text": "I should look.", "thought": True},
        {
            "functionCall": {"name": "execute_command", "args": {"command": "ls"}},
            "thoughtSignature": "c2lnbmVk",
        },
        model="gemini-3-pro-preview",
    )
    fake_gemini.say("done", model="gemini-3-pro-preview")
    first = await ask(model, "go", tools=TOOLS)
    assert first.thoughts == "I should look."
    assert first.text == ""
    answer = ToolMessage("ok", tool_call_id=first.message.tool_calls[0]["id"])
    await ask(model, HumanMessage("go"), first.message, answer, tools=TOOLS)
    model_parts = fake_gemini.last.contents[1]["parts"]
    signed = [part for part in model_parts if "functionCall" in part]
    assert signed[0]["thoughtSignature"] == "c2lnbmVk"
    config = fake_gemini.last.body["generationConfig"]
    assert config["thinkingConfig"] in ({"include_thoughts": True}, {"includeThoughts": True})


async def test_metadata_keeps_what_matters_as_plain_strings(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.say("x")
    heard = await ask(open_gemini())
    assert heard.message.response_metadata == {
        "model_provider": "google_genai",
        "model_name": "gemini-2.5-flash",
        "finish_reason": "STOP",
    }
    assert type(heard.message) is AIMessage


async def test_settings_reach_the_request(open_gemini: OpenGemini, fake_gemini: FakeGemini) -> None:
    fake_gemini.say("{}")
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    model = open_gemini(temperature=0.25, max_output=77)
    await ask(model, SystemMessage("Be brief."), "hi", schema=schema)
    body = fake_gemini.last.body
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    config = body["generationConfig"]
    assert config["temperature"] == 0.25
    assert config["maxOutputTokens"] == 77
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"] == schema


async def test_no_temperature_is_sent_when_none_is_set(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.say("x")
    await ask(open_gemini())
    assert "temperature" not in fake_gemini.last.body["generationConfig"]


async def test_a_gateway_or_vertex_variable_does_not_move_the_request(
    open_gemini: OpenGemini, fake_gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSMITH_GATEWAY", "http://127.0.0.1:1")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "a-project")
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "http://127.0.0.1:1")
    fake_gemini.say("here")
    heard = await ask(open_gemini(tries=1))
    assert heard.text == "here"
    assert fake_gemini.last.path.startswith("/v1beta/models/gemini-2.5-flash:")
    from langsmith.utils import tracing_is_enabled

    assert not tracing_is_enabled()


async def test_the_server_is_told_the_deadline_not_the_longest_silence(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    """If told the idle limit, the provider would end every reply that takes longer in total."""
    fake_gemini.say("x")
    await ask(open_gemini(deadline=77.0, idle=5.0))
    assert fake_gemini.last.headers["X-Server-Timeout"] == "77"


async def test_calls_at_the_same_time_do_not_mix(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    def echo(body: dict[str, object]) -> object:
        from tests.support.fake_gemini import text_answer

        return text_answer(body["contents"][-1]["parts"][0]["text"])

    fake_gemini.answer_with(echo)
    model = open_gemini()
    heard = await asyncio.gather(*(ask(model, f"question {n}") for n in range(8)))
    assert [one.text for one in heard] == [f"question {n}" for n in range(8)]


def test_one_model_serves_one_event_loop_after_another(fake_gemini: FakeGemini) -> None:
    options = ModelOptions(keys={"google_genai": "k"}, base_urls={"google_genai": fake_gemini.url})
    model = GeminiModel(ModelInfo("google_genai:gemini-2.5-flash", "google_genai", 1, 1), options)

    async def once() -> str:
        heard = await ask(model)
        await model.aclose()
        return heard.text

    for word in ("one", "two"):
        fake_gemini.say(word)
        assert asyncio.run(once()) == word


def test_preload_constructs_once_from_any_thread(fake_gemini: FakeGemini) -> None:
    from concurrent.futures import ThreadPoolExecutor

    options = ModelOptions(keys={"google_genai": "k"}, base_urls={"google_genai": fake_gemini.url})
    model = GeminiModel(ModelInfo("google_genai:gemini-2.5-flash", "google_genai", 1, 1), options)
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(model.preload) for _ in range(4)]:
            future.result()
    fake_gemini.say("x")

    async def once() -> str:
        heard = await ask(model)
        await model.aclose()
        return heard.text

    assert asyncio.run(once()) == "x"
