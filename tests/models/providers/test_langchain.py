"""The contract of all providers: their real clients with a server on 127.0.0.1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage

from kogniterm.agent.replies import clean_reply, is_unusable
from kogniterm.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelBlockedError,
    ModelError,
    ModelNotFoundError,
    ModelQuotaError,
    ModelTimeoutError,
    ModelUnavailableError,
    SettingsError,
)
from kogniterm.models.calling import ModelOptions
from kogniterm.models.catalog import price_of
from kogniterm.models.providers.gemini import GeminiModel
from kogniterm.models.providers.langchain import LangChainModel
from kogniterm.types import AnswerDelta, ModelInfo, ModelRetried, ToolSpec, Usage
from tests.support.asking import TOOLS, Heard, Pauses, ask, hear, request
from tests.support.fake_gemini import Answer, FakeGemini
from tests.support.provider_streams import (
    anthropic_stream,
    gemini_stream,
    ollama_stream,
    openai_call,
    openai_stream,
    spoken,
)

Opener = Callable[..., LangChainModel | GeminiModel]
LANGCHAIN = ("openai", "anthropic", "ollama")
PROVIDERS = (*LANGCHAIN, "google_genai")


@pytest.fixture
async def open_one(fake_gemini: FakeGemini, pauses: Pauses) -> AsyncIterator[Opener]:
    opened: list[LangChainModel | GeminiModel] = []

    def open_model(provider: str, url: str = "", **more: Any) -> LangChainModel | GeminiModel:
        options = ModelOptions(
            keys={provider: "a-key"}, base_urls={provider: url or fake_gemini.url}, **more
        )
        info = ModelInfo(f"{provider}:some-model", provider, 20_000, 1_000)
        kind = GeminiModel if provider == "google_genai" else LangChainModel
        opened.append(kind(info, options, pauses.caller(info.name, options)))
        return opened[-1]

    yield open_model
    for model in opened:
        await model.aclose()


def called(provider: str) -> list[bytes]:
    """Return two calls in one reply, streamed as the provider does it."""
    command = '{"command": "ls -la", "purpose": "look"}'
    if provider == "openai":
        return openai_stream(
            {"content": "Let me look."},
            openai_call(0, "call_a", "execute_command", ""),
            openai_call(0, None, None, command[:9]),
            openai_call(0, None, None, command[9:]),
            openai_call(1, "call_b", "read_file", '{"path": "a"}'),
            finish="tool_calls",
        )
    if provider == "anthropic":
        return anthropic_stream(
            {"text": "Let me look."},
            {"name": "execute_command", "json": command},
            {"name": "read_file", "json": '{"path": "a"}'},
            stop="tool_use",
        )
    calls = [("execute_command", json.loads(command)), ("read_file", {"path": "a"})]
    if provider == "google_genai":
        parts = [{"functionCall": {"name": name, "args": given}} for name, given in calls]
        return gemini_stream({"text": "Let me look."}, *parts)
    return ollama_stream(
        {"content": "Let me look."},
        *(
            {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}
            for name, arguments in calls
        ),
    )


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_text_streams_and_is_counted(
    provider: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*spoken(provider, "Hel", "lo"))
    heard = await ask(open_one(provider), SystemMessage("Be brief."), "hi")
    assert [e.text for e in heard.events if isinstance(e, AnswerDelta)] == ["Hel", "lo"]
    assert heard.message.text == "Hello"
    cached = 0 if provider == "ollama" else 8
    assert heard.reply.usage == Usage(12, 3, cached, 1)
    assert "Be brief." in json.dumps(fake_gemini.last.body)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_streamed_tool_calls_are_joined_and_answered(
    provider: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*called(provider))
    fake_gemini.raw(*spoken(provider, "done"))
    model = open_one(provider)
    heard = await ask(model, "look", tools=TOOLS)
    calls = heard.message.tool_calls
    assert [(call["name"], call["args"]) for call in calls] == [
        ("execute_command", {"command": "ls -la", "purpose": "look"}),
        ("read_file", {"path": "a"}),
    ]
    assert heard.text == "Let me look."
    answers = [ToolMessage(f"answer {n}", tool_call_id=c["id"]) for n, c in enumerate(calls)]
    await ask(model, HumanMessage("look"), heard.message, *answers, tools=TOOLS)
    sent = json.dumps(fake_gemini.last.body)
    assert "answer 0" in sent
    assert "answer 1" in sent
    # Gemini names the tool in the answer too.
    assert sent.count("execute_command") == (3 if provider == "google_genai" else 2)


def broken_call(provider: str, arguments: str) -> list[bytes]:
    if provider == "openai":
        return openai_stream(
            openai_call(0, "call_a", "execute_command", arguments), finish="tool_calls"
        )
    return anthropic_stream({"name": "execute_command", "json": arguments}, stop="tool_use")


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "arguments",
    [
        '{"command": "rm -rf /tmp/scra',
        '{"command": "ls"',
        '{"command": "ls",}',
        "ls -la",
        '["ls"]',
        "null",
        '"ls"',
        "{'command': 'ls'}",
        '{"command": "ls"} {"command": "pwd"}',
        '{"command": "\\ud800"}',
        '{"a":' * 3000,
    ],
)
async def test_arguments_that_are_no_whole_object_are_never_completed(
    provider: str, arguments: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*broken_call(provider, arguments))
    heard = await ask(open_one(provider), tools=TOOLS)
    assert heard.message.tool_calls == []
    (invalid,) = heard.message.invalid_tool_calls
    assert invalid["name"] == "execute_command"
    assert invalid["args"] == arguments
    assert invalid["error"]
    assert invalid["id"]


async def test_no_arguments_at_all_are_an_empty_object(
    open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*broken_call("openai", ""))
    heard = await ask(open_one("openai"), tools=TOOLS)
    assert heard.message.tool_calls[0]["args"] == {}


STATUSES: dict[str, tuple[int, str, type[ModelError], bool]] = {
    "bad key": (401, "invalid api key", ModelAuthError, False),
    "forbidden": (403, "no permission", ModelAuthError, False),
    "unknown model": (404, "model not found", ModelNotFoundError, False),
    "rate limit": (429, "slow down", ModelQuotaError, True),
    "internal": (500, "oops", ModelUnavailableError, True),
    "overloaded": (529, "overloaded", ModelUnavailableError, True),
    "too long": (400, "prompt is too long: 9 tokens > 8 maximum", ContextOverflowError, False),
    "bad request": (400, "no such parameter", ModelError, False),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", STATUSES)
async def test_a_status_becomes_one_clear_error(
    name: str, provider: str, open_one: Opener, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    status, words, kind, again = STATUSES[name]
    inner = {"message": words, "type": "some_error"}
    for _ in range(4):
        body = {"error": words} if provider == "ollama" else {"type": "error", "error": inner}
        fake_gemini.raw_body(status, json.dumps(body), {"Retry-After": "3"})
    with pytest.raises(ModelError) as caught:
        await ask(open_one(provider))
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert "a-key" not in str(caught.value)
    assert len(fake_gemini.requests) == (4 if again else 1)
    if again and provider != "ollama":
        assert pauses.taken == [3.0, 3.0, 3.0]


async def test_a_spent_quota_is_not_asked_again(open_one: Opener, fake_gemini: FakeGemini) -> None:
    error = {"message": "You exceeded your current quota", "code": "insufficient_quota"}
    fake_gemini.raw_body(429, json.dumps({"error": error}))
    with pytest.raises(ModelQuotaError, match="exceeded your current quota"):
        await ask(open_one("openai"))
    assert len(fake_gemini.requests) == 1


async def test_a_stream_of_nothing_but_comments_is_a_silence(
    open_one: Opener, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    """A service that stalls may keep its connection alive all the same."""
    for _ in range(2):
        fake_gemini.trickle(b": ping\n\n", every=0.02)
    fake_gemini.raw(*spoken("openai", "awake"))
    heard = await ask(open_one("openai", idle=0.3))
    assert heard.message.text == "awake"
    assert [one.reason.template for one in heard.retries] == [
        "{provider} at {host} stopped responding."
    ] * 2


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_web_page_in_place_of_a_reply_is_not_asked_for_again(
    provider: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    """A network's sign-in page, or the page of a server whose path is wrong."""
    fake_gemini.raw_body(200, "<html>Sign in</html>", {"Content-Type": "text/html; charset=utf-8"})
    with pytest.raises(ModelUnavailableError, match=r"a web page.*check the base URL"):
        await ask(open_one(provider))
    assert len(fake_gemini.requests) == 1


FINISHES = {
    ("openai", "content_filter"): ModelBlockedError,
    ("anthropic", "refusal"): ModelBlockedError,
    ("anthropic", "model_context_window_exceeded"): ContextOverflowError,
}


@pytest.mark.parametrize(("provider", "finish"), FINISHES)
async def test_a_finish_that_is_none_is_an_error(
    provider: str, finish: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*spoken(provider, "half of", finish=finish))
    with pytest.raises(FINISHES[provider, finish]):
        await ask(open_one(provider))


@pytest.mark.parametrize(
    ("provider", "finish"),
    [
        ("openai", "length"),
        ("anthropic", "max_tokens"),
        ("ollama", "length"),
        ("google_genai", "MAX_TOKENS"),
    ],
)
async def test_a_cut_reply_comes_with_what_is_wrong(
    provider: str, finish: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*spoken(provider, "half of", finish=finish))
    heard = await ask(open_one(provider))
    assert heard.message.text == "half of"
    assert "output limit" in str(is_unusable(heard.message))


async def test_half_a_call_of_a_cut_reply_is_no_call(
    open_one: Opener, fake_gemini: FakeGemini
) -> None:
    half = openai_call(0, "call_a", "execute_command", '{"command": "rm -rf /tmp/x')
    fake_gemini.raw(*openai_stream(half, finish="length"))
    heard = await ask(open_one("openai"), tools=TOOLS)
    assert heard.message.tool_calls == []
    assert "output limit" in str(is_unusable(heard.message))


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_empty_reply_is_handed_on(
    provider: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*spoken(provider))
    heard = await ask(open_one(provider))
    assert is_unusable(heard.message) == "it was empty"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("ending", ["cut", "done"])
async def test_a_stream_cut_anywhere_is_asked_again(
    provider: str, ending: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    whole = called(provider)
    ends = {"openai": 3, "anthropic": 2, "ollama": 1, "google_genai": 1}
    last = len(whole) - ends[provider]
    model = open_one(provider, tries=2)
    for pieces in range(1, last + 1):
        fake_gemini.raw(*whole[:pieces], ending=ending)
        fake_gemini.raw(*whole)
        heard = await ask(model, tools=TOOLS)
        assert len(heard.retries) == 1
        assert len(heard.message.tool_calls) == 2


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_leaving_the_stream_closes_the_connection(
    provider: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*spoken(provider, "first", "second")[:3], ending="hang")
    stream = open_one(provider).stream(request("go"))
    await anext(stream)
    await stream.aclose()
    assert await asyncio.to_thread(fake_gemini.gone.wait, 60)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_silence_beyond_idle_is_asked_again(
    provider: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    model = open_one(provider, idle=0.5, tries=100)  # a busy machine may be silent for as long
    fake_gemini.raw(ending="hang")
    fake_gemini.answer_with(lambda _: Answer(tuple(spoken(provider, "ok"))))
    heard = await ask(model)
    assert "stopped responding" in str(heard.retries[0].reason)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_silence_beyond_the_deadline_ends_the_call(
    provider: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    late = open_one(provider, deadline=0.2)
    late.preload()
    fake_gemini.raw(ending="hang")
    with pytest.raises(ModelTimeoutError):
        await ask(late)
    assert await asyncio.to_thread(fake_gemini.gone.wait, 60)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_refused_connection_names_the_address(
    provider: str, open_one: Opener, closed_port: int
) -> None:
    model = open_one(provider, f"http://127.0.0.1:{closed_port}", tries=1)
    with pytest.raises(ModelUnavailableError, match=f"127.0.0.1:{closed_port}"):
        await ask(model)


async def test_an_overload_inside_a_stream_is_asked_again(
    open_one: Opener, fake_gemini: FakeGemini
) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    begun = anthropic_stream({"text": "I"}, stop=None)
    fake_gemini.raw(*begun, f"event: error\ndata: {json.dumps(error)}\n\n".encode())
    fake_gemini.raw(*spoken("anthropic", "ok"))
    heard: Heard = await hear(open_one("anthropic"), request("x"), [])
    assert "Overloaded" in str(heard.retries[0].reason)
    assert [type(one) for one in heard.events[:2]] == [AnswerDelta, ModelRetried]


async def test_what_each_provider_is_told(open_one: Opener, fake_gemini: FakeGemini) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    for provider in LANGCHAIN:
        fake_gemini.raw(*spoken(provider, "{}"))
        await ask(open_one(provider, temperature=0.5, max_output=50), schema=schema)
    openai, anthropic, ollama = (seen.body for seen in fake_gemini.requests)
    assert openai["temperature"] == 0.5
    assert openai["max_completion_tokens"] == 50
    assert openai["response_format"]["json_schema"]["schema"] == schema
    assert openai["stream_options"] == {"include_usage": True}
    assert anthropic["cache_control"] == {"type": "ephemeral"}
    assert anthropic["max_tokens"] == 1_000
    assert ollama["options"]["num_ctx"] == 20_000
    assert ollama["options"]["num_predict"] == 50
    assert ollama["format"] == schema


async def test_anthropic_is_told_to_cache_tools_system_text_and_history(
    open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*spoken("anthropic", "ok"))
    fake_gemini.raw(*spoken("anthropic", "ok"))
    model = open_one("anthropic")
    heard = await ask(model, SystemMessage("Be brief."), "hi", tools=TOOLS)
    await ask(model, SystemMessage("Be brief."), "hi", heard.message, "go on", tools=TOOLS)
    mark = {"type": "ephemeral"}
    first, second = (seen.body for seen in fake_gemini.requests)
    for body in (first, second):
        assert [tool.get("cache_control") for tool in body["tools"]] == [None, mark]
        assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
        assert body["cache_control"] == mark  # the last block of the last message
        assert json.dumps(body).count("cache_control") == 3
    assert second["tools"] == first["tools"]
    assert second["tools"][1]["input_schema"] == dict(TOOLS[1].parameters)
    assert second["messages"][: len(first["messages"])] == first["messages"]


async def test_caching_can_be_switched_off(open_one: Opener, fake_gemini: FakeGemini) -> None:
    fake_gemini.raw(*spoken("anthropic", "ok"))
    await ask(open_one("anthropic", prompt_cache=False), SystemMessage("x"), "hi", tools=TOOLS)
    assert "cache_control" not in json.dumps(fake_gemini.last.body)


async def test_tokens_that_anthropic_stores_are_counted(
    open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*anthropic_stream({"text": "ok"}, read=0, written=2_000))
    fake_gemini.raw(*anthropic_stream({"text": "ok"}, read=2_000, written=30))
    model = open_one("anthropic")
    first = (await ask(model, "hi")).reply.usage
    second = (await ask(model, "hi")).reply.usage
    assert first == Usage(2_004, 3, 0, 1, written=2_000)
    assert second == Usage(2_034, 3, 2_000, 1, written=30)
    price = price_of("anthropic:claude-sonnet-4-6")
    assert price is not None
    fresh, read, write = 3.0, 0.30, 3.75
    assert price.cost(second) == pytest.approx((4 * fresh + 2_000 * read + 30 * write + 45) / 1e6)
    assert price.saving(first) == pytest.approx(-2_000 * (write - fresh) / 1e6)
    saved = 2_000 * (fresh - read) - 30 * (write - fresh)
    assert price.saving(second) == pytest.approx(saved / 1e6)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google_genai"])
async def test_a_redirect_is_not_followed_with_the_key(
    provider: str, open_one: Opener, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    elsewhere = fake_gemini.url.replace("127.0.0.1", "localhost")
    fake_gemini.raw_body(307, "", {"Location": elsewhere})
    with pytest.raises(ModelUnavailableError, match="redirects"):
        await ask(open_one(provider))
    assert len(fake_gemini.requests) == 1
    assert pauses.taken == []


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1", "http://", "127.0.0.1:80", "http://[::1", "http://h:port", "  "]
)
def test_an_address_that_is_none_is_refused_at_once(
    provider: str, url: str, open_one: Opener
) -> None:
    with pytest.raises(SettingsError, match="is not a valid address"):
        open_one(provider, url)


async def test_ollama_is_found_at_its_address(open_one: Opener, fake_gemini: FakeGemini) -> None:
    fake_gemini.raw(*spoken("ollama", "here"))
    assert (await ask(open_one("ollama", fake_gemini.url))).text == "here"


def piece(call_id: str | None, name: str | None, arguments: Any, **index: Any) -> dict[str, Any]:
    made = openai_call(0, call_id, name, arguments)
    del made["tool_calls"][0]["index"]
    made["tool_calls"][0].update(index)
    return made


LOOSE_CALLS = {
    "no index": [piece("a", "execute_command", '{"comm'), piece(None, None, 'and": "ls"}')],
    "null index": [
        piece("a", "execute_command", '{"comm', index=None),
        piece(None, None, 'and": "ls"}', index=None),
    ],
    "repeated names": [
        piece("a", "execute_command", '{"comm', index=0),
        piece("a", "execute_command", 'and": "ls"}', index=0),
    ],
    "one index": [
        piece("a", "execute_command", '{"command": "ls"}', index=0),
        piece("b", "execute_command", '{"command": "ls"}', index=0),
    ],
    "negative index": [
        piece("a", "execute_command", '{"comm', index=-1),
        piece(None, None, 'and": "ls"}', index=-1),
    ],
    "index from 1": [
        piece("a", "execute_command", '{"comm', index=1),
        piece(None, None, 'and": "ls"}', index=1),
    ],
    "index that counts nothing": [piece("a", "execute_command", '{"command": "ls"}', index=10**12)],
    "arguments that are no text": [piece("a", "execute_command", {"command": "ls"}, index=0)],
}


@pytest.mark.parametrize("kind", LOOSE_CALLS)
@pytest.mark.parametrize("finish", ["", None, "tool_calls"])
async def test_calls_of_a_loosely_compatible_service_are_whole(
    kind: str, finish: str | None, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    stream = openai_stream(*LOOSE_CALLS[kind], finish=finish)
    fake_gemini.raw(*stream, *([b"data: [DONE]\n\n"] if finish is None else []))
    calls = (await ask(open_one("openai"), tools=TOOLS)).message.tool_calls
    wanted = ("execute_command", {"command": "ls"})
    assert {call["id"] for call in calls} == ({"a", "b"} if kind == "one index" else {"a"})
    assert [(call["name"], call["args"]) for call in calls] == [wanted] * len(calls)


async def test_a_reply_that_is_no_stream_is_read(open_one: Opener, fake_gemini: FakeGemini) -> None:
    function = {"name": "execute_command", "arguments": '{"command": "ls"}'}
    message = {"role": "assistant", "content": "Hello", "tool_calls": [
        {"id": "a", "type": "function", "function": function},
    ]}  # fmt: skip
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    fake_gemini.raw_body(200, json.dumps({"id": "c", "model": "m", "choices": [choice]}))
    heard = await ask(open_one("openai"), tools=TOOLS)
    assert heard.message.text == "Hello"
    assert heard.message.tool_calls[0]["args"] == {"command": "ls"}


async def test_the_words_of_a_failure_that_is_no_stream_are_shown(
    open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw_body(200, json.dumps({"error": {"message": "the model is loading"}}))
    with pytest.raises(ModelUnavailableError, match="the model is loading"):
        await ask(open_one("openai", tries=1))


@pytest.mark.parametrize("done", [b"data: [DONE]\n\n", b""])
async def test_usage_that_comes_with_every_chunk_is_counted_once(
    done: bytes, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    pieces = openai_stream({"content": "Hel"}, {"content": "lo"}, finish=None)
    for number, data in enumerate(pieces, 1):
        event = json.loads(data.removeprefix(b"data: "))
        event["usage"] = {"prompt_tokens": 12, "completion_tokens": number, "total_tokens": 0}
        if number == len(pieces):
            event["choices"][0]["finish_reason"] = "stop"
        pieces[number - 1] = b"data: " + json.dumps(event).encode() + b"\n\n"
    fake_gemini.raw(*pieces, done)
    heard = await ask(open_one("openai"))
    assert (heard.text, heard.reply.usage) == ("Hello", Usage(12, 2, 0, 1))


@pytest.mark.parametrize("provider", ["openai", "google_genai"])
async def test_a_reason_that_comes_with_every_chunk_is_one_reason(
    provider: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    """An unusable reply would be asked for again, and a cut one taken for whole."""
    reasons = {"openai": ("stop", "length"), "google_genai": ("STOP", "MAX_TOKENS")}
    for finish in reasons[provider]:
        start, end = (spoken(provider, text, finish=finish) for text in ("Hel", "lo"))
        fake_gemini.raw(*(one for one in start if b"[DONE]" not in one), *end)
    model = open_one(provider)
    whole, cut = await ask(model), await ask(model)
    assert whole.text == cut.text == "Hello"
    assert not is_unusable(whole.message)
    assert is_unusable(cut.message)


@pytest.mark.parametrize("finish", ["error", "abort"])
async def test_a_reply_that_failed_in_the_middle_is_asked_for_again(
    finish: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*spoken("openai", "Hel", finish=finish))
    fake_gemini.raw(*spoken("openai", "Hello"))
    heard = await ask(open_one("openai"))
    assert heard.message.text == "Hello"
    assert len(heard.retries) == 1


async def test_a_repeated_id_is_renamed_in_the_blocks_too(
    open_one: Opener, fake_gemini: FakeGemini
) -> None:
    call = {"name": "read_file", "json": '{"path": "a"}'}
    twice = [one.replace(b"toolu_1", b"toolu_0") for one in anthropic_stream(call, call)]
    fake_gemini.raw(*twice)
    fake_gemini.raw(*spoken("anthropic", "done"))
    model = open_one("anthropic")
    reply = clean_reply((await ask(model, tools=TOOLS)).reply).message
    answers = [ToolMessage("x", tool_call_id=str(one["id"])) for one in reply.tool_calls]
    await ask(model, HumanMessage("go"), reply, *answers, tools=TOOLS)
    sent = fake_gemini.last.body["messages"][1]["content"]
    ids = [block["id"] for block in sent if block["type"] == "tool_use"]
    assert len(ids) == len(set(ids)) == 2


async def test_gemini_gets_the_schemas_of_tools_whole(
    open_one: Opener, fake_gemini: FakeGemini
) -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    schema = {
        "type": "object",
        "$defs": {"node": node},
        "properties": {
            "fixed": {"const": "a"},
            "port": {"type": "integer", "minimum": 1, "maximum": 65535, "default": 80},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
            "name": {"type": ["string", "null"], "pattern": "^[a-z]+$"},
            "node": {"$ref": "#/$defs/node"},
        },
        "required": ["fixed"],
        "additionalProperties": False,
    }
    lost = {"a": {"$ref": "#/$defs/none"}, "b": {"$ref": "https://schema.example/x"}, "c": True}
    odd = {"type": "object", "properties": lost, "required": ["a", "gone"]}
    tools = (ToolSpec("whole", "Whole.", schema), ToolSpec("odd", "Odd.", odd))
    fake_gemini.raw(*spoken("google_genai", "done"))
    await ask(open_one("google_genai"), tools=(*TOOLS, *tools))
    (*_, whole, odd) = fake_gemini.last.body["tools"][0]["functionDeclarations"]
    assert whole["parameters_json_schema"] == schema
    assert "parameters" not in whole
    assert odd["parameters_json_schema"]["properties"] == {"a": {}, "b": {}, "c": True}
    assert odd["parameters_json_schema"]["required"] == ["a"]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_no_provider_gets_a_required_property_that_is_missing(
    provider: str, open_one: Opener, fake_gemini: FakeGemini
) -> None:
    pair = {"type": "object", "required": ["none"]}
    schema = {"type": "object", "properties": {"pair": pair}, "required": ["pair", "gone"]}
    fake_gemini.raw(*spoken(provider, "done"))
    await ask(open_one(provider), tools=(ToolSpec("odd", "Odd.", schema),))
    sent = json.dumps(fake_gemini.last.body["tools"])
    assert '["pair"]' in sent
    assert "gone" not in sent
    assert "none" not in sent


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_variable_of_a_proxy_that_fails_is_named(
    provider: str, open_one: Opener, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", f"socks5://127.0.0.1:{closed_port}")
    with pytest.raises(ModelUnavailableError, match="proxy in all_proxy"):
        await ask(open_one(provider, "http://model.example", tries=1))


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google_genai"])
async def test_proxies_and_certificates_are_the_machines(
    provider: str, open_one: Opener, fake_gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "fd00::/8,[::1],127.0.0.1")
    fake_gemini.raw(*spoken(provider, "here"))
    assert (await ask(open_one(provider))).message.text == "here"
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    with pytest.raises(ModelError, match="check SSL_CERT_FILE"):
        await ask(open_one(provider, "https://127.0.0.1:1"))
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("ALL_PROXY", "ftp://127.0.0.1:1")
    with pytest.raises(ModelError, match="proxy in ALL_PROXY is not a valid address"):
        await ask(open_one(provider, "https://127.0.0.1:1"))
