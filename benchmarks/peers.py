"""Measure codex and Claude Code beside KogniTerm, in one run, with one scripted model server.

    python -m benchmarks.peers [--runs 3] [--steps 20]

The programs come from npm, into a folder that is removed afterwards. The server speaks to each in
the protocol that it uses, and has every step run a command that does nothing. Sandboxes are off,
approvals too. Quote the ratios.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.bench import table
from benchmarks.measuring import Usage, become_subreaper, home, middle, program, quiet
from benchmarks.rows import Row

PACKAGES = ("@openai/codex", "@anthropic-ai/claude-code")
PEERS = ("codex", "Claude Code")
_SHELL = re.compile(r"(execute_command|exec_command|shell_command|shell|bash)", re.IGNORECASE)
_RESULT = re.compile(rb'"functionResponse"|"type": ?"(?:\w+_call_output|tool_result)"')
_KEY = "sk-scripted"


@dataclass
class Requests:
    """The requests of one run: when the first came, and the size of each in bytes."""

    first: float = 0.0
    sizes: list[int] = field(default_factory=list)


class ScriptedServer(ThreadingHTTPServer):
    """A model that has `steps` commands run, whatever it is asked, and then answers."""

    daemon_threads = True

    def __init__(self, steps: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.steps, self.requests = steps, Requests()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: programs hang up when they end."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
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
        found.first = found.first or time.perf_counter()
        found.sizes.append(len(raw))
        body = json.loads(raw)
        done = len(_RESULT.findall(raw))
        call = _shell_call(body, done) if done < self.server.steps else None
        events = build(call, f"{done}_{len(found.sizes)}")
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


def _shell_call(body: Mapping[str, Any], step: int) -> Call | None:
    """Return a call of the tool that runs commands; None if the request offers none."""
    offered = [
        tool
        for one in body.get("tools") or []
        for tool in one.get("functionDeclarations", [one])
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
    command = f"true # {step}"
    arguments: dict[str, Any] = dict.fromkeys(schema.get("required", ()), "measure")
    arguments[name] = ["bash", "-c", command] if is_list else command
    return offered[0]["name"], arguments


def _gemini(call: Call | None, number: str) -> Iterator[dict[str, Any]]:
    del number
    part = (
        {"text": "done"} if call is None else {"functionCall": {"name": call[0], "args": call[1]}}
    )
    content = {"role": "model", "parts": [part]}
    yield {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
           "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9,
                             "totalTokenCount": 18}}  # fmt: skip


def _responses(call: Call | None, number: str) -> Iterator[dict[str, Any]]:
    base = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "scripted"}
    item: dict[str, Any] = {"id": f"item_{number}", "status": "completed"}
    if call is None:
        text = {"type": "output_text", "text": "done", "annotations": []}
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
        delta = {"type": "text_delta", "text": "done"}
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


_REPLIES = {
    "streamGenerateContent": _gemini,
    "/responses": _responses,
    "/messages": _messages,
}


def calls(folder: Path, server: str) -> list[tuple[list[str], dict[str, str]]]:
    """Return the words and the environment of a one-shot of KogniTerm and of each peer."""
    environ = home(folder)
    there = {**environ, "OPENAI_KEY": _KEY, "ANTHROPIC_API_KEY": _KEY, "ANTHROPIC_BASE_URL": server,
             "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}  # fmt: skip
    provider = f'{{name="scripted", base_url="{server}/v1", env_key="OPENAI_KEY"}}'
    codex = ["-c", 'model_provider="scripted"', "-c", f"model_providers.scripted={provider}"]
    programs = folder / "node_modules" / ".bin"
    return [
        ([*program(), "run", "--no-sandbox", "--mode", "auto", "--model",
          "google_genai:gemini-2.5-pro", "go"],
         {**environ, "GOOGLE_API_KEY": _KEY, "GOOGLE_GEMINI_BASE_URL": server}),
        ([str(programs / "codex"), "exec", "--skip-git-repo-check", *codex, "-m", "scripted",
          "--dangerously-bypass-approvals-and-sandbox", "go"], there),
        ([str(programs / "claude"), "-p", "go", "--allowedTools", "Bash"], there),
    ]  # fmt: skip


def one_shot(
    server: ScriptedServer, folder: Path, words: list[str], environ: Mapping[str, str]
) -> tuple[Usage, Requests]:
    """Run a program once; raises SystemExit where it did not do all steps."""
    server.requests = found = Requests()
    began = time.perf_counter()
    used = quiet(words, environ, cwd=folder)
    if len(found.sizes) <= server.steps:
        raise SystemExit(f"{words[0]} made {len(found.sizes)} requests for {server.steps} steps")
    found.first -= began
    return used, found


def rows(results: Sequence[Sequence[tuple[Usage, Requests]]], steps: int) -> Iterator[Row]:
    """Yield the rows; the first results are KogniTerm's."""
    for name, unit, value in (
        ("one-shot, to the first model request", "s", lambda one: one[1].first),
        (f"{steps} steps, one-shot, whole", "s", lambda one: one[0].wall),
        (f"{steps} steps, one-shot, whole", "s CPU", lambda one: one[0].cpu),
        ("a step", "ms", lambda one: (one[0].wall - one[1].first) / steps * 1000),
        ("first request", "kB", lambda one: one[1].sizes[0] / 1000),
        ("all requests", "kB", lambda one: sum(one[1].sizes) / 1000),
    ):
        ours, *theirs = [middle([value(one) for one in found]) for found in results]
        yield Row(name, unit, ours, dict(zip(PEERS, theirs, strict=True)))


def main() -> None:
    """Install, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    become_subreaper()
    with tempfile.TemporaryDirectory(prefix="kogniterm-peers-", dir="/var/tmp") as name:
        folder, server = Path(name), ScriptedServer(options.steps)
        install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", name, *PACKAGES]
        subprocess.run(install, check=True)
        measures = [
            partial(one_shot, server, folder, *call) for call in calls(folder, server.address)
        ]
        results = zip(*([run() for run in measures] for _ in range(options.runs)), strict=True)
        print("\n".join(table(list(rows(list(results), options.steps)))))


if __name__ == "__main__":
    main()
