"""Streams of the providers, as bytes for the fake server to send."""

from __future__ import annotations

import json
from typing import Any

from tests.support.fake_gemini import candidate, event


def openai_stream(*deltas: dict[str, Any], finish: str | None = "stop") -> list[bytes]:
    """Return server-sent events of a chat completion: deltas, finish, usage and DONE."""

    def chunk(choices: list[dict[str, Any]], **more: Any) -> bytes:
        body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return b"data: " + json.dumps({**body, "choices": choices, **more}).encode() + b"\n\n"

    chunks = [chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    if finish is not None:
        chunks.append(chunk([{"index": 0, "delta": {}, "finish_reason": finish}]))
        usage = {
            "prompt_tokens": 12,
            "completion_tokens": 3,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 8},
        }
        chunks.append(chunk([], usage=usage))
        chunks.append(b"data: [DONE]\n\n")
    return chunks


def openai_call(
    index: int, call_id: str | None, name: str | None, arguments: str
) -> dict[str, Any]:
    """Return the delta of a piece of a tool call."""
    function = {"arguments": arguments, **({"name": name} if name else {})}
    piece: dict[str, Any] = {"index": index, "function": function}
    if call_id:
        piece |= {"id": call_id, "type": "function"}
    return {"tool_calls": [piece]}


def openai_responses(
    text: str, call: tuple[str, str], *, thought: str = "", cut: str = ""
) -> list[bytes]:
    """Return events of OpenAI's Responses API: a summary, text and a call, or cut for a reason."""

    def event(kind: str, **body: Any) -> bytes:
        data = json.dumps({"type": kind, "sequence_number": 0, **body})
        return f"event: {kind}\ndata: {data}\n\n".encode()

    def response(status: str, **more: Any) -> dict[str, Any]:
        base = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-6-sol"}
        fixed = {"output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return {**base, **fixed, "status": status, "incomplete_details": None, **more}

    summary = {"type": "summary_text", "text": thought}
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": []}
    message = {"id": "m_1", "type": "message", "role": "assistant", "content": []}
    name, arguments = call
    wanted = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": name}
    usage = {
        "input_tokens": 12,
        "output_tokens": 3,
        "total_tokens": 15,
        "input_tokens_details": {"cached_tokens": 8},
        "output_tokens_details": {"reasoning_tokens": 1},
    }
    end = {"status": "completed"} if not cut else {
        "status": "incomplete", "incomplete_details": {"reason": cut},
    }  # fmt: skip
    return [
        event("response.created", response=response("in_progress")),
        event("response.output_item.added", output_index=0, item=reasoning),
        event("response.reasoning_summary_part.added", item_id="rs_1", output_index=0,
              summary_index=0, part={**summary, "text": ""}),
        event("response.reasoning_summary_text.delta", item_id="rs_1", output_index=0,
              summary_index=0, delta=thought),
        event("response.output_item.done", output_index=0,
              item={**reasoning, "summary": [summary], "encrypted_content": "c2VjcmV0"}),
        event("response.output_item.added", output_index=1, item=message),
        event("response.output_text.delta", item_id="m_1", output_index=1, content_index=0,
              delta=text, logprobs=[]),
        event("response.output_item.added", output_index=2, item={**wanted, "arguments": ""}),
        event("response.function_call_arguments.delta", item_id="fc_1", output_index=2,
              delta=arguments),
        event("response.output_item.done", output_index=2, item={**wanted, "arguments": arguments}),
        event(f"response.{end['status']}", response={**response(""), **end, "usage": usage}),
    ]  # fmt: skip


def anthropic_stream(
    *blocks: dict[str, Any], stop: str | None = "end_turn", read: int = 8, written: int = 0
) -> list[bytes]:
    """Return server-sent events of `{"text": …}` or `{"name": …, "json": …}` blocks.

    `read` and `written` are tokens of the provider's cache.
    """

    def event(kind: str, **body: Any) -> bytes:
        data = json.dumps({"type": kind, **body})
        return f"event: {kind}\ndata: {data}\n\n".encode()

    counted = {
        "input_tokens": 4,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**counted, "output_tokens": 1},
    }
    events = [event("message_start", message=message)]
    for index, block in enumerate(blocks):
        if "text" in block:
            start: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": block["text"]}]
        else:
            start = {"type": "tool_use", "id": f"toolu_{index}", "name": block["name"], "input": {}}
            half = len(block["json"]) // 2
            parts = (block["json"][:half], block["json"][half:])
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        events.append(event("content_block_start", index=index, content_block=start))
        events += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
        events.append(event("content_block_stop", index=index))
    if stop is not None:
        delta = {"stop_reason": stop, "stop_sequence": None}
        events.append(event("message_delta", delta=delta, usage={**counted, "output_tokens": 3}))
        events.append(event("message_stop"))
    return events


def ollama_stream(*messages: dict[str, Any], done: str | None = "stop") -> list[bytes]:
    """Return lines of a chat: one per message piece, then the counts."""
    base = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
    lines = [
        {**base, "message": {"role": "assistant", "content": "", **message}, "done": False}
        for message in messages
    ]
    if done is not None:
        counts = {"prompt_eval_count": 12, "eval_count": 3}
        empty = {"role": "assistant", "content": ""}
        lines.append({**base, "message": empty, "done": True, "done_reason": done, **counts})
    return [json.dumps(line).encode() + b"\n" for line in lines]


def gemini_stream(*parts: dict[str, Any], finish: str = "STOP") -> list[bytes]:
    """Return server-sent events of Gemini, one per part; the last one has the finish and usage."""
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 3, "cachedContentTokenCount": 8}
    chunks = [candidate([part]) for part in parts[:-1]]
    return [event(chunk) for chunk in (*chunks, candidate(list(parts[-1:]), finish, usage))]


def spoken(provider: str, *texts: str, finish: str = "") -> list[bytes]:
    """Return a whole reply of text, streamed as the provider does it."""
    if provider == "openai":
        return openai_stream(*({"content": text} for text in texts), finish=finish or "stop")
    if provider == "anthropic":
        return anthropic_stream(*({"text": text} for text in texts), stop=finish or "end_turn")
    if provider == "google_genai":
        return gemini_stream(*({"text": text} for text in texts), finish=finish or "STOP")
    return ollama_stream(*({"content": text} for text in texts), done=finish or "stop")
