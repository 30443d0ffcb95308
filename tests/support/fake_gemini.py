"""A Gemini endpoint on 127.0.0.1 that answers from a queue and records its requests.

Standard library only, so that tests and benchmarks of every package can use it. Point the real
client at `url`; queue one answer per expected request:

    fake.say("Hello ", "world")                       # text, one stream chunk per argument
    fake.call(("execute_command", {"command": "ls"})) # function calls, one chunk each
    fake.fail(429, retry_after=7)                     # an error as the API words it
    fake.cut(after=2, text="four chunks of text")     # connection closed in mid-stream
    fake.hang(after=1)                                # silence until the client goes away

`answer_with(function)` computes the answer from the request body instead. With nothing queued
the server answers 400 saying so. `pages` are the answers to GET by path, for lists of models; what
is not there is not found. `requests` holds every request; `gone` is set when a client
left before its answer was complete.

Content for its cache is stored on request: `caches` holds it by name, `cache_calls` what was asked
about it, and `refuse_caches` is the status with which every such call fails.
"""

from __future__ import annotations

import base64
import json
import math
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MISSING = {"error": {"code": 403, "message": "CachedContent not found (or permission denied)"}}
USAGE = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw)

    @property
    def contents(self) -> list[dict[str, Any]]:
        return self.body["contents"]


@dataclass(frozen=True)
class Answer:
    """One answer: `chunks` streamed as server-sent events, then how it ends."""

    chunks: tuple[bytes, ...] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    ending: str = "done"  # done · cut · hang · trickle
    every: float = 0.0


def event(payload: object) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\r\n\r\n"


def candidate(
    parts: Iterable[dict[str, Any]] = (),
    finish: str | None = None,
    usage: dict[str, Any] | None = None,
    model: str = "gemini-2.5-flash",
) -> dict[str, Any]:
    """Return one stream chunk in the API's own form."""
    found: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        found["finishReason"] = finish
    chunk: dict[str, Any] = {"candidates": [found], "modelVersion": model}
    if usage:
        chunk["usageMetadata"] = usage
    return chunk


class FakeGemini:
    """The server; use as a context manager or through the `fake_gemini` fixture."""

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self.pages: dict[str, Answer] = {}
        self.gets: list[Seen] = []
        self.caches: dict[str, dict[str, Any]] = {}
        self.cache_calls: list[tuple[str, str]] = []
        self.cache_tokens = 2_500
        self.refuse_caches = 0
        self.gone = threading.Event()
        self._closing = threading.Event()
        self._answers: list[Answer] = []
        self._function: Callable[[dict[str, Any]], Answer] | None = None
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    # --- answers ---

    def queue(self, answer: Answer) -> None:
        with self._lock:
            self._answers.append(answer)

    def answer_with(self, function: Callable[[dict[str, Any]], Answer]) -> None:
        """Compute every answer that is not queued from the request's body."""
        self._function = function

    def say(self, *texts: str, usage: dict[str, Any] | None = None, **more: Any) -> None:
        self.queue(text_answer(*texts, usage=usage, **more))

    def call(self, *calls: tuple[str, dict[str, Any]], **more: Any) -> None:
        self.queue(call_answer(*calls, **more))

    def parts(self, *parts: dict[str, Any], finish: str = "STOP", **more: Any) -> None:
        """Queue raw parts, one chunk each; the last one carries finish reason and usage."""
        self.queue(parts_answer(parts, finish=finish, **more))

    def chunks(self, *payloads: dict[str, Any], ending: str = "done") -> None:
        """Queue whole chunks in the API's form."""
        self.queue(Answer(tuple(event(payload) for payload in payloads), ending=ending))

    def raw(self, *data: bytes, ending: str = "done") -> None:
        """Queue bytes as they are."""
        self.queue(Answer(data, ending=ending))

    def fail(
        self,
        status: int,
        message: str = "it failed",
        *,
        name: str = "",
        reason: str | None = None,
        retry_after: float | str | None = None,
        retry_delay: str | None = None,
    ) -> None:
        """Queue an error in the API's form; `retry_delay` adds a RetryInfo detail such as "7s"."""
        details: list[dict[str, Any]] = []
        if reason:
            details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason})
        if retry_delay:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            details.append({"@type": kind, "retryDelay": retry_delay})
        error = {"code": status, "message": message, "status": name, "details": details}
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        body = json.dumps({"error": error}).encode()
        self.queue(Answer((body,), status=status, headers=headers))

    def raw_failure(self, status: int, body: object) -> None:
        """Queue an error with any body: a JSON error object, or text of a proxy."""
        data = body if isinstance(body, str) else json.dumps({"error": body})
        self.queue(Answer((data.encode(),), status=status))

    def raw_body(self, status: int, body: str, headers: dict[str, str] | None = None) -> None:
        """Queue any response that is not a stream."""
        self.queue(Answer((body.encode(),), status=status, headers=headers or {}))

    def trickle(self, chunk: bytes, every: float) -> None:
        """Send the same chunk repeatedly, `every` so many seconds, until the client disconnects."""
        self.queue(Answer((chunk,), ending="trickle", every=every))

    def page(self, path: str, body: object, status: int = 200) -> None:
        """Answer GET of `path`, whatever its query, with JSON."""
        self.pages[path] = Answer((json.dumps(body).encode(),), status=status)

    def cut(self, after: int, *texts: str) -> None:
        """Stream `after` chunks of `texts`, then drop the connection."""
        self.queue(Answer(text_answer(*texts).chunks[:after], ending="cut"))

    def hang(self, after: int, *texts: str) -> None:
        """Stream `after` chunks of `texts`, then stay silent until the client disconnects."""
        self.queue(Answer(text_answer(*texts).chunks[:after], ending="hang"))

    # --- requests ---

    @property
    def last(self) -> Seen:
        return self.requests[-1]

    def take(self, seen: Seen) -> Answer:
        """Return the answer to `seen` (called by the handler's threads)."""
        with self._lock:
            self.requests.append(seen)
            name = seen.body.get("cachedContent") if seen.raw.startswith(b"{") else None
            if name is not None and name not in self.caches:
                return Answer((json.dumps(MISSING).encode(),), status=403)
            if self._answers:
                return self._answers.pop(0)
        if self._function is not None:
            return self._function(seen.body)
        error = {"code": 400, "message": "the fake Gemini has no answer queued"}
        return Answer((json.dumps({"error": error}).encode(),), status=400)

    def of_cache(self, method: str, path: str, raw: bytes) -> tuple[int, dict[str, Any]]:
        """Return status and reply of a call about stored content."""
        name = path.partition("?")[0].removeprefix("/v1beta/")
        with self._lock:
            self.cache_calls.append((method, name))
            if self.refuse_caches:
                return self.refuse_caches, {"error": {"message": "no caching here"}}
            if method == "POST":
                name = f"cachedContents/{len(self.cache_calls)}"
                self.caches[name] = json.loads(raw)
            elif name not in self.caches:
                return 403, MISSING
            elif method == "DELETE":
                del self.caches[name]
                return 200, {}
            return 200, {"name": name, "usageMetadata": {"totalTokenCount": self.cache_tokens}}

    def wait_until_left(self, connection: socket.socket, longest: float = math.inf) -> bool:
        """Block until the peer closes `connection`, the server stops, or `longest` seconds."""
        deadline = time.monotonic() + longest
        while not self._closing.is_set():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            readable, _, _ = select.select([connection], [], [], min(left, 0.02))
            if readable and not connection.recv(1, socket.MSG_PEEK):
                self.gone.set()
                break
        return True

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> FakeGemini:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Test processes end with keep-alive connections open; their threads must not delay the end.
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect in the middle, which tests do on purpose."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def text_answer(
    *texts: str,
    usage: dict[str, Any] | None = None,
    finish: str = "STOP",
    model: str = "gemini-2.5-flash",
) -> Answer:
    parts = [{"text": text} for text in texts]
    return parts_answer(parts, finish=finish, usage=usage, model=model)


def call_answer(
    *calls: tuple[str, dict[str, Any]],
    text: str | None = None,
    signature: bytes | None = None,
    usage: dict[str, Any] | None = None,
    model: str = "gemini-2.5-flash",
) -> Answer:
    """Return function calls, one chunk each; `signature` goes with the first, as Gemini 3 does."""
    parts: list[dict[str, Any]] = [{"text": text}] if text else []
    for number, (name, arguments) in enumerate(calls):
        part: dict[str, Any] = {"functionCall": {"name": name, "args": arguments}}
        if signature and number == 0:
            part["thoughtSignature"] = base64.b64encode(signature).decode()
        parts.append(part)
    return parts_answer(parts, usage=usage, model=model)


def parts_answer(
    parts: Iterable[dict[str, Any]],
    *,
    finish: str = "STOP",
    usage: dict[str, Any] | None = None,
    model: str = "gemini-2.5-flash",
) -> Answer:
    listed = list(parts)
    chunks = [event(candidate([part], model=model)) for part in listed[:-1]]
    last = candidate(listed[-1:], finish, usage or USAGE, model)
    return Answer((*chunks, event(last)))


class _JsonHandler(BaseHTTPRequestHandler):
    """Answers calls about stored content of `fake`, and whole JSON replies."""

    fake: FakeGemini

    def do_PATCH(self) -> None:
        self.about_cache(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def do_DELETE(self) -> None:
        self.about_cache(b"")

    def about_cache(self, raw: bytes) -> None:
        self.reply(*self.fake.of_cache(self.command, self.path, raw))

    def reply(self, status: int, reply: dict[str, Any]) -> None:
        body = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _handler(server: FakeGemini) -> type[BaseHTTPRequestHandler]:
    fake = server

    class Handler(_JsonHandler):
        fake = server
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path.startswith("/v1beta/cachedContents"):
                self.about_cache(raw)
                return
            seen = Seen(self.path, dict(self.headers), raw)
            answer = fake.take(seen)
            try:
                self._send(answer)
            except (BrokenPipeError, ConnectionResetError):
                fake.gone.set()
                self.close_connection = True

        def do_GET(self) -> None:
            fake.gets.append(Seen(self.path, dict(self.headers), b""))
            try:
                self._send(fake.pages.get(self.path.partition("?")[0], Answer(status=404)))
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status != 200:
                body = b"".join(answer.chunks)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                return
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in answer.chunks:
                self._write(chunk)
            while answer.ending == "trickle" and not fake.wait_until_left(
                self.connection, answer.every
            ):
                self._write(answer.chunks[-1])
            if answer.ending == "hang":
                fake.wait_until_left(self.connection)
            if answer.ending == "done":
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.close_connection = True

        def _write(self, chunk: bytes) -> None:
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
