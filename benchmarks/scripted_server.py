"""A scripted model on 127.0.0.1 that agents talk to in the protocol of their provider.

It has every agent run commands that do nothing, whatever it is asked, and then answers.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "Affirmative"
"""The answer: a word that stands on no screen otherwise."""
_SHELL = re.compile(r"(execute_command|exec_command|shell_command|shell|bash)", re.IGNORECASE)
_RESULT = re.compile(
    rb'"functionResponse"|"type": ?"(?:\w+_call_output|tool_result)"|"role": ?"tool"'
)


@dataclass
class Requests:
    """The requests of one run: when each came, and its size in bytes."""

    times: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


class ScriptedServer(ThreadingHTTPServer):
    """A model that has `command` run `steps` times, and then answers."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.expect(0)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def expect(self, steps: int, command: str = "true") -> Requests:
        """Begin a run of so many steps; return what is noted of its requests."""
        self.steps, self.command, self.requests = steps, command, Requests()
        return self.requests

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: programs hang up when they end."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a reply's text waits for the receipt of its head
    server: ScriptedServer

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        self._send(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        build = next((make for end, make in _REPLIES.items() if end in self.path), None)
        if build is None:
            self._send(b"{}", "application/json")
            return
        found = self.server.requests
        found.times.append(time.perf_counter())
        found.sizes.append(len(raw))
        body = json.loads(raw)
        done = len(_RESULT.findall(raw))
        call = None
        if done < self.server.steps:
            call = _shell_call(body, f"{self.server.command} # {done}")
        events = build(call, f"{done}_{len(found.sizes)}")
        if build is _ollama:
            data = "".join(f"{json.dumps(one)}\n" for one in events)
            self._send(data.encode(), "application/x-ndjson")
            return
        data = "".join(
            (f"event: {one['type']}\n" if "type" in one else "") + f"data: {json.dumps(one)}\n\n"
            for one in events
        )
        self._send(data.encode(), "text/event-stream")

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


Call = tuple[str, dict[str, Any]]


def _shell_call(body: Mapping[str, Any], command: str) -> Call | None:
    """Return a call of the tool that runs commands; None if the request offers none."""
    offered = [
        tool
        for one in body.get("tools") or []
        for tool in one.get("functionDeclarations", [one.get("function", one)])
        if _SHELL.fullmatch(tool.get("name", ""))
    ]
    if not offered:
        return None
    schema: dict[str, Any] = next(
        (offered[0][name] for name in ("parametersJsonSchema", "parameters", "input_schema")
         if name in offered[0]), {},
    )  # fmt: skip
    known = schema.get("properties", {})
    name = "cmd" if "cmd" in known else "command"
    is_list = str(known.get(name, {}).get("type", "")).lower() == "array"
    arguments: dict[str, Any] = dict.fromkeys(schema.get("required", ()), "measure")
    arguments[name] = ["bash", "-c", command] if is_list else command
    return offered[0]["name"], arguments


def _gemini(call: Call | None, number: str) -> Iterator[dict[str, Any]]:
    del number
    part = (
        {"text": ANSWER} if call is None else {"functionCall": {"name": call[0], "args": call[1]}}
    )
    content = {"role": "model", "parts": [part]}
    yield {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
           "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9,
                             "totalTokenCount": 18}}  # fmt: skip


def _responses(call: Call | None, number: str) -> Iterator[dict[str, Any]]:
    base = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "scripted"}
    item: dict[str, Any] = {"id": f"item_{number}", "status": "completed"}
    if call is None:
        text = {"type": "output_text", "text": ANSWER, "annotations": []}
        item |= {"type": "message", "role": "assistant", "content": [text]}
    else:
        item |= {"type": "function_call", "call_id": f"call_{number}", "name": call[0],
                 "arguments": json.dumps(call[1])}  # fmt: skip
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18,
             "input_tokens_details": {"cached_tokens": 0},
             "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
    yield {"type": "response.created", "response": {**base, "status": "in_progress", "output": []}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    whole = {**base, "status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": whole}


def _messages(call: Call | None, number: str) -> Iterator[dict[str, Any]]:
    message: dict[str, Any] = {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "scripted",
        "content": [], "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 9},
    }  # fmt: skip
    yield {"type": "message_start", "message": message}
    if call is None:
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": ANSWER}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "usage": {"output_tokens": 9},
           "delta": {"stop_reason": "tool_use" if call else "end_turn",
                     "stop_sequence": None}}  # fmt: skip
    yield {"type": "message_stop"}


def _chat(call: Call | None, number: str) -> Iterator[dict[str, Any]]:
    base = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 1,
            "model": "scripted"}  # fmt: skip
    delta: dict[str, Any] = {"role": "assistant", "content": ANSWER}
    if call is not None:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        one = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        delta = {"role": "assistant", "content": None, "tool_calls": [one]}
    finish = "tool_calls" if call else "stop"
    yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}],
           "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}}  # fmt: skip


def _ollama(call: Call | None, number: str) -> Iterator[dict[str, Any]]:
    del number
    base = {"model": "scripted", "created_at": "2026-01-01T00:00:00Z"}
    message: dict[str, Any] = {"role": "assistant", "content": ANSWER}
    if call is not None:
        calls = [{"function": {"name": call[0], "arguments": call[1]}}]
        message = {"role": "assistant", "content": "", "tool_calls": calls}
    yield {**base, "message": message, "done": False}
    yield {**base, "message": {"role": "assistant", "content": ""}, "done": True,
           "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 9}  # fmt: skip


_REPLIES = {
    "streamGenerateContent": _gemini,
    "/responses": _responses,
    "/messages": _messages,
    "/chat/completions": _chat,
    "/api/chat": _ollama,
}
