"""The searches of Gemini, OpenAI and Anthropic: what is asked, what is found, what is counted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from kogniterm.errors import ModelQuotaError, ModelUnavailableError
from kogniterm.models.calling import ModelOptions
from kogniterm.models.model_registry import open_model
from kogniterm.models.providers.langchain import LangChainModel
from kogniterm.protocols import Model
from kogniterm.types import ModelInfo, ModelRequest, Reply, Usage, WebSource
from tests.support.asking import TOOLS, OpenGemini, Pauses
from tests.support.fake_gemini import FakeGemini, candidate

QUERY = "newest release of httpx"
FOUND = WebSource("httpx · PyPI", "https://pypi.org/project/httpx", "The newest is 1.0.")


async def search(model: Model) -> Reply:
    request = ModelRequest((HumanMessage(QUERY),), TOOLS, purpose="web_search")
    found = [event async for event in model.stream(request)]
    assert isinstance(found[-1], Reply)
    return found[-1]


@pytest.fixture
async def openai(fake_gemini: FakeGemini, pauses: Pauses) -> AsyncIterator[LangChainModel]:
    async for model in opened("openai", fake_gemini, pauses):
        yield model


@pytest.fixture
async def anthropic(fake_gemini: FakeGemini, pauses: Pauses) -> AsyncIterator[LangChainModel]:
    async for model in opened("anthropic", fake_gemini, pauses):
        yield model


async def opened(provider: str, fake: FakeGemini, pauses: Pauses) -> AsyncIterator[LangChainModel]:
    options = ModelOptions(keys={provider: "a-key"}, base_urls={provider: fake.url})
    info = ModelInfo(f"{provider}:some-model", provider, 20_000, 1_000)
    model = LangChainModel(info, options, pauses.caller(info.name, options))
    yield model
    await model.aclose()


def grounded() -> dict[str, Any]:
    chunk = candidate([{"text": "The newest is 1.0."}], "STOP", {"promptTokenCount": 9})
    chunk["candidates"][0]["groundingMetadata"] = {
        "webSearchQueries": ["httpx release"],
        "groundingChunks": [
            {"web": {"uri": FOUND.url, "title": FOUND.title}},
            {"web": {"uri": "https://example.org/b", "title": "b"}},
            {"retrievedContext": {"uri": "gs://own"}},
        ],
        "groundingSupports": [
            {"segment": {"endIndex": 18, "text": FOUND.text}, "groundingChunkIndices": [0]}
        ],
    }
    return chunk


async def test_gemini_searches_with_google_and_names_the_pages(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.chunks(candidate([{"text": "I looked. "}]), grounded())
    reply = await search(open_gemini())
    assert fake_gemini.last.body["tools"] == [{"googleSearch": {}}]
    assert reply.message.text == "I looked. The newest is 1.0."
    assert reply.sources == (FOUND, WebSource("b", "https://example.org/b"))
    assert reply.usage.input == 9
    assert "grounding_metadata" not in reply.message.response_metadata


def events(*payloads: dict[str, Any]) -> list[bytes]:
    return [
        f"event: {one['type']}\ndata: {json.dumps({**one, 'sequence_number': number})}\n\n".encode()
        for number, one in enumerate(payloads)
    ]


def responses(status: str = "completed") -> list[bytes]:
    """Return a stream of OpenAI's Responses: a search, then text with an annotation."""
    annotation = {
        "type": "url_citation", "url": FOUND.url, "title": FOUND.title,
        "start_index": 0, "end_index": 18,
    }  # fmt: skip
    text = {"type": "output_text", "text": FOUND.text, "annotations": [annotation], "logprobs": []}
    searched = {"id": "ws_1", "type": "web_search_call", "status": "completed",
                "action": {"type": "search", "query": QUERY}}  # fmt: skip
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": status,
               "content": [text]}  # fmt: skip
    response = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "some-model",
        "status": "in_progress", "output": [], "parallel_tool_calls": True, "tools": [],
        "tool_choice": "auto",
    }  # fmt: skip
    usage = {
        "input_tokens": 30, "output_tokens": 5, "total_tokens": 35,
        "input_tokens_details": {"cached_tokens": 2},
        "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    ended = {**response, "status": status, "output": [searched, message], "usage": usage}
    if status == "incomplete":
        ended["incomplete_details"] = {"reason": "max_output_tokens"}
    where = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    return events(
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": searched},
        {"type": "response.output_item.done", "output_index": 0, "item": searched},
        {"type": "response.output_item.added", "output_index": 1,
         "item": {**message, "content": [], "status": "in_progress"}},
        {"type": "response.content_part.added", **where, "part": {**text, "text": ""}},
        {"type": "response.output_text.delta", **where, "delta": FOUND.text, "logprobs": []},
        {"type": "response.output_text.annotation.added", **where, "annotation_index": 0,
         "annotation": annotation},
        {"type": "response.output_text.done", **where, "text": FOUND.text, "logprobs": []},
        {"type": "response.output_item.done", "output_index": 1, "item": message},
        {"type": f"response.{status}", "response": ended},
    )  # fmt: skip


async def test_openai_searches_through_its_responses(
    openai: LangChainModel, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*responses())
    reply = await search(openai)
    assert fake_gemini.last.path == "/responses"
    assert fake_gemini.last.body["tools"] == [{"type": "web_search"}]
    assert reply.message.text == FOUND.text
    assert reply.sources == (WebSource(FOUND.title, FOUND.url),)
    assert reply.usage == Usage(30, 5, 2, 1)


async def test_a_cut_search_of_openai_is_no_answer(
    openai: LangChainModel, fake_gemini: FakeGemini
) -> None:
    for _ in range(4):
        fake_gemini.raw(*responses()[:6], ending="cut")
    with pytest.raises(ModelUnavailableError, match="cut before the reply was complete"):
        await search(openai)


async def test_anthropic_searches_and_cites(
    anthropic: LangChainModel, fake_gemini: FakeGemini
) -> None:
    page = {"type": "web_search_result", "url": FOUND.url, "title": FOUND.title,
            "encrypted_content": "x", "page_age": None}  # fmt: skip
    other = {**page, "url": "https://example.org/b", "title": "b"}
    asked = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
              "content": [page, other]}  # fmt: skip
    citation = {
        "type": "web_search_result_location", "url": FOUND.url, "title": FOUND.title,
        "encrypted_index": "y", "cited_text": FOUND.text,
    }  # fmt: skip
    used = {"input_tokens": 12, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
               "content": [], "stop_reason": None, "usage": used}  # fmt: skip
    query = {"type": "input_json_delta", "partial_json": json.dumps({"query": QUERY})}
    fake_gemini.raw(
        *events(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": asked},
            {"type": "content_block_delta", "index": 0, "delta": query},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": result},
            {"type": "content_block_stop", "index": 1},
            {"type": "content_block_start", "index": 2,
             "content_block": {"type": "text", "text": "", "citations": []}},
            {"type": "content_block_delta", "index": 2,
             "delta": {"type": "citations_delta", "citation": citation}},
            {"type": "content_block_delta", "index": 2,
             "delta": {"type": "text_delta", "text": FOUND.text}},
            {"type": "content_block_stop", "index": 2},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
             "usage": {**used, "output_tokens": 6}},
            {"type": "message_stop"},
        )
    )  # fmt: skip
    reply = await search(anthropic)
    (tool,) = fake_gemini.last.body["tools"]
    assert (tool["type"], tool["name"]) == ("web_search_20250305", "web_search")
    assert reply.message.text == FOUND.text
    assert reply.sources == (FOUND, WebSource("b", "https://example.org/b"))
    assert reply.usage.calls == 1


async def test_a_refused_search_is_a_failure_of_the_model(
    anthropic: LangChainModel, fake_gemini: FakeGemini
) -> None:
    for _ in range(4):
        fake_gemini.fail(429, "slow down")
    with pytest.raises(ModelQuotaError):
        await search(anthropic)


@pytest.mark.parametrize(
    ("name", "urls", "host"),
    [
        ("google_genai:gemini-flash-latest", {}, "generativelanguage.googleapis.com"),
        ("google_genai:gemini-flash-latest", {"google_genai": "https://u:p@g.org/x"}, "g.org"),
        ("google_genai:gemma-3-27b-it", {}, ""),
        ("openai:gpt-5.6", {}, "api.openai.com"),
        ("openai:gpt-4.1-nano", {}, ""),
        ("openai:gpt-5.6", {"openai": "https://other.org/v1"}, ""),
        ("anthropic:claude-sonnet-5", {}, "api.anthropic.com"),
        ("ollama:llama3", {}, ""),
    ],
)
def test_only_a_provider_itself_searches(name: str, urls: dict[str, str], host: str) -> None:
    keys = dict.fromkeys(("google_genai", "openai", "anthropic"), "a-key")
    assert open_model(name, ModelOptions(keys=keys, base_urls=urls)).info.search_host == host
