"""From a provider's stream of message chunks to our events and one clean reply.

Imports LangChain's messages at the top: this module is only ever imported by adapters, and
they are imported lazily.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    InvalidToolCall,
    ToolCall,
    message_chunk_to_message,
)
from langchain_core.messages.tool import invalid_tool_call, tool_call

from kogniterm.text.visible import whole, with_texts
from kogniterm.types import (
    UNUSABLE,
    AnswerDelta,
    ThoughtDelta,
    ToolSpec,
    Usage,
    WebSource,
)


def tool_form(tool: ToolSpec) -> dict[str, Any]:
    """Return `tool` as an OpenAI-style function, the common form of LangChain's `bind_tools`."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": valid_schema(tool.parameters),
        },
    }


def valid_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's schema without the names that lead nowhere.

    For one reference or required property that is missing, providers refuse every tool.
    """
    return dict(_valid(schema, schema))


def _valid(schema: object, root: Mapping[str, Any]) -> Any:
    if isinstance(schema, list | tuple):
        return [_valid(one, root) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: _valid(one, root) for key, one in schema.items()}
    properties, required = schema.get("properties", {}), schema.get("required")
    is_object = schema.get("type") == "object" or "properties" in schema
    if is_object and isinstance(properties, Mapping) and isinstance(required, list | tuple):
        kept["required"] = [name for name in required if name in properties]
    if isinstance(reference := schema.get("$ref"), str):
        target: object = root if reference.startswith("#") else None
        for step in reference.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, Mapping) else None
        if target is None:
            del kept["$ref"]
    return kept


KEPT_METADATA = ("model_provider", "model_name", "finish_reason", "stop_reason", "done_reason")
"""Response metadata that later calls or users need; the rest is provider noise, some of it
in enums that no journal should hold."""
LONGEST_REPLY = 2_000_000
"""Characters of a reply, thoughts and arguments included: several times what the longest output
limit of any known model allows. What comes beyond is not waited for."""
TOO_LONG = f"it was longer than {LONGEST_REPLY} characters; say far less at once"
"""Explanation for the model of why a reply was not read to its end."""
KEPT_OF_TOO_LONG = 4_000
"""Characters that stay of a reply that was too long, so that the model sees what it did."""
THOUGHT_BLOCKS = frozenset({"thinking", "reasoning"})
"""Types of content blocks that hold thinking, in a field of the same name."""
THOUGHT_KEY = "reasoning_content"
"""The place of thinking outside the content, which the client of Ollama uses."""


def deltas(chunk: AIMessageChunk) -> Iterator[AnswerDelta | ThoughtDelta]:
    """Yield the text a chunk adds to the answer and to the model's thinking."""
    thought = chunk.additional_kwargs.get(THOUGHT_KEY)
    if thought:
        yield ThoughtDelta(whole(str(thought)))
    blocks = [chunk.content] if isinstance(chunk.content, str) else chunk.content
    for block in blocks:
        if isinstance(block, str):
            if block:
                yield AnswerDelta(whole(block))
            continue
        kind = str(block.get("type"))
        if kind == "text" and block.get("text"):
            yield AnswerDelta(whole(block["text"]))
        elif kind in THOUGHT_BLOCKS and (said := _thought(block, kind)):
            yield ThoughtDelta(whole(said))


def _thought(block: Mapping[str, Any], kind: str) -> str:
    """Return the thinking in a block, or the provider's summary of it."""
    parts = block.get("summary") or ()
    return str(block.get(kind) or "") or "".join(str(part.get("text") or "") for part in parts)


def size_of(chunk: AIMessageChunk) -> int:
    """Return how many characters a chunk adds to the reply."""
    blocks = [chunk.content] if isinstance(chunk.content, str) else chunk.content
    texts = (block if isinstance(block, str) else str(block) for block in blocks)
    thought = len(str(chunk.additional_kwargs.get(THOUGHT_KEY) or ""))
    return (
        thought
        + sum(map(len, texts))
        + sum(len(call["args"] or "") for call in chunk.tool_call_chunks)
    )


class Gathered:
    """The chunks of a reply, as far as one may go on."""

    def __init__(self) -> None:
        self._chunks: list[AIMessageChunk] = []
        self._size = 0
        self.problem = ""

    def take(self, chunk: AIMessageChunk) -> bool:
        """Take in a chunk; False when the reply is too long to go on with."""
        self._chunks.append(chunk)
        self._size += size_of(chunk)
        if self._size > LONGEST_REPLY:
            self.problem = TOO_LONG
        return not self.problem

    def leave(self) -> AIMessage:
        """Return the beginning of a reply whose next event is too long to be read."""
        self.problem = TOO_LONG
        return self.message()

    def message(self) -> AIMessage:
        """Return the whole message; of one that is too long the beginning, without its calls."""
        if not self.problem:
            return join_chunks(self._chunks)
        said = "".join(d.text for chunk in self._chunks[:1_000] for d in deltas(chunk))
        return AIMessage(said[:KEPT_OF_TOO_LONG])


def join_chunks(chunks: Sequence[AIMessageChunk]) -> AIMessage:
    """Return the whole message of a stream, with its raw response metadata.

    Joined once at the end: adding chunk by chunk validates the growing message every time.
    """
    first, rest = chunks[0], list(chunks[1:])
    merged = first + rest if rest else first
    message = message_chunk_to_message(merged)
    if not isinstance(message, AIMessage) or not isinstance(merged, AIMessageChunk):
        raise TypeError(f"a model streamed a {type(message).__name__}")
    calls, invalid = _strict_calls(merged)
    metadata = dict(merged.response_metadata)
    # Some services repeat these with each chunk, and LangChain joins them as pieces of a text.
    for chunk in chunks:
        for key in KEPT_METADATA:
            if value := chunk.response_metadata.get(key):
                metadata[key] = value
    update = {
        "response_metadata": metadata,
        "content": with_texts(message.content, whole),
        "tool_calls": calls,
        "invalid_tool_calls": invalid,
    }
    return message.model_copy(update=update)


def _strict_calls(merged: AIMessageChunk) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Return the tool calls whose arguments are whole JSON objects, and the others.

    LangChain completes cut JSON while it streams, and would keep the completion: half a
    command would pass for a whole one. Here only what parses as it stands is a tool call.
    """
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for chunk in merged.tool_call_chunks:
        call_id = chunk["id"] or f"call_{uuid4().hex}"
        name, raw = chunk["name"] or "", chunk["args"] or ""
        arguments, problem = _arguments(raw)
        if not name:
            problem = "the call names no tool"
        if arguments is None or problem:
            invalid.append(
                invalid_tool_call(name=chunk["name"], args=raw, id=call_id, error=problem)
            )
        else:
            calls.append(tool_call(name=name, args=arguments, id=call_id))
    return calls, invalid


def _arguments(raw: str) -> tuple[dict[str, Any] | None, str | None]:
    """Return the arguments in `raw`, or what is wrong with it; empty text means none."""
    if not raw.strip():
        return {}, None
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        return None, f"the arguments are not JSON: {error}"
    if not isinstance(value, dict):
        return None, f"the arguments are a JSON {type(value).__name__}, not an object"
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return None, "the arguments hold half of a character"
    return value, None


def clean_message(message: AIMessage, problem: str = "") -> AIMessage:
    """Return `message` as it joins the history: provider noise dropped, signatures kept.

    `problem` says why it cannot be used.

    `additional_kwargs["function_call"]` is a legacy copy of the tool calls that streaming
    concatenates into something unparsable; the tool calls themselves are authoritative.
    """
    metadata = {
        key: str(message.response_metadata[key])
        for key in KEPT_METADATA
        if message.response_metadata.get(key)
    }
    if problem:
        metadata[UNUSABLE] = problem
    extras = {
        key: value
        for key, value in message.additional_kwargs.items()
        if key not in {"function_call", "tool_calls"}
    }
    return message.model_copy(update={"response_metadata": metadata, "additional_kwargs": extras})


WRITTEN = ("cache_creation", "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
"""Parts of the input that a provider stored in its cache, as the clients name them."""


def usage_of(message: AIMessage) -> Usage:
    """Return the tokens of one call as the provider counted them, or zeros."""
    counted = message.usage_metadata
    if counted is None:
        return Usage(calls=1)
    details: Mapping[str, Any] = counted.get("input_token_details") or {}
    return Usage(
        input=counted["input_tokens"],
        output=counted["output_tokens"],
        cached=details.get("cache_read") or 0,
        calls=1,
        written=sum(details.get(name) or 0 for name in WRITTEN),
    )


def sources_of(message: AIMessage) -> tuple[WebSource, ...]:
    """Return the pages that a provider's search led to, in the form of any of the providers."""
    blocks = [block for block in message.content if isinstance(block, Mapping)]
    grounding = message.response_metadata.get("grounding_metadata") or {}
    found: dict[str, WebSource] = {}
    for one in (*_gemini_sources(grounding), *_cited_sources(blocks)):
        before = found.get(one.url)
        if before is None or not before.text:
            found[one.url] = one
    return tuple(found.values())


def _gemini_sources(metadata: Mapping[str, Any]) -> Iterator[WebSource]:
    """Yield Gemini's sources: pages, each with the passages of the reply that rest on it."""
    passages: dict[int, list[str]] = {}
    for support in metadata.get("grounding_supports") or ():
        text = (support.get("segment") or {}).get("text") or ""
        for index in support.get("grounding_chunk_indices") or ():
            passages.setdefault(index, []).append(str(text))
    for index, chunk in enumerate(metadata.get("grounding_chunks") or ()):
        web = chunk.get("web") or {}
        if web.get("uri"):
            text = " ".join(dict.fromkeys(passages.get(index, ())))
            yield WebSource(str(web.get("title") or ""), str(web["uri"]), text)


def _cited_sources(blocks: Iterable[Mapping[str, Any]]) -> Iterator[WebSource]:
    """Yield the sources of Anthropic (results and citations) and of OpenAI (annotations)."""
    for block in blocks:
        results = block.get("content") if block.get("type") == "web_search_tool_result" else ()
        quoted = (block.get("citations") or (), block.get("annotations") or ())
        for listed in (results if isinstance(results, list) else (), *quoted):
            for one in listed:
                if isinstance(one, Mapping) and one.get("url"):
                    title, text = one.get("title") or "", one.get("cited_text") or ""
                    yield WebSource(str(title), str(one["url"]), str(text))
