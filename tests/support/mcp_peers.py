"""MCP servers and an authorization server on 127.0.0.1, good ones and bad ones.

`start_peer` runs `mcp_peer`, a server made with the SDK, as a process. `AuthorizationServer` issues
tokens; `BadServer` breaks every rule that a test names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

HEADER_MISMATCH = -32020
ROOT = Path(__file__).parents[2]


@contextmanager
def start_peer(*arguments: str) -> Iterator[str]:
    """Run the SDK's server as a process; yields its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.mcp_peer", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()  # a server waits for its clients before it ends
        process.wait()
        process.stdout.close()


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""

    def answer(
        self, status: int, body: object, kind: str = "application/json", **headers: str
    ) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Write nothing: clients leave in the middle of an answer."""


class _Listening:
    """A server in a thread, used as a context manager."""

    handler: type[BaseHTTPRequestHandler]

    def __enter__(self) -> Self:
        self.server = _Server(("127.0.0.1", 0), self.handler)
        self.server.owner = self  # type: ignore[attr-defined]  # read by the handler
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


# --- authorization server ------------------------------------------------------------------------


class _Authorizes(_Quiet):
    def do_GET(self) -> None:
        owner: AuthorizationServer = self.server.owner  # type: ignore[attr-defined]
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        owner.seen[path] += 1
        if path == "/.well-known/oauth-authorization-server":
            return self.answer(200, owner.metadata())
        if path == "/authorize":
            return self.answer(302, b"", Location=owner.authorize(query))
        if path == "/introspect":
            return self.answer(200, {"active": owner.is_good(query["token"][0])})
        return self.answer(404, {})

    def do_POST(self) -> None:
        owner: AuthorizationServer = self.server.owner  # type: ignore[attr-defined]
        path, body = urlsplit(self.path).path, self.body()
        owner.seen[path] += 1
        if path == "/register":
            asked = json.loads(body)
            owner.clients.append(asked)
            return self.answer(201, {**asked, "client_id": f"client-{len(owner.clients)}"})
        if path == "/token":
            if owner.token_page:
                return self.answer(owner.token_status, owner.token_page, "text/html")
            form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            owner.forms.append({**form, "authorization": self.headers.get("Authorization", "")})
            return self.answer(*owner.token(form))
        return self.answer(404, {})


@dataclass
class AuthorizationServer(_Listening):
    """Issues tokens to whoever asks; `valid_seconds` is how long they hold."""

    valid_seconds: int = 3600
    issuer: str = ""
    iss: str = ""
    state: str = ""
    endpoint: str = ""
    token_page: bytes = b""
    token_status: int = 200
    denied: bool = False
    seen: Counter[str] = field(default_factory=Counter)
    clients: list[dict[str, Any]] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    access: set[str] = field(default_factory=set)
    refresh: set[str] = field(default_factory=set)
    scopes: dict[str, list[str]] = field(default_factory=dict)
    handler = _Authorizes

    def forget(self) -> None:
        """Take back everything that was issued, counted or set."""
        for name, value in vars(AuthorizationServer()).items():
            setattr(self, name, value)

    def metadata(self) -> dict[str, object]:
        return {
            "issuer": self.issuer or f"{self.url}/",
            "authorization_endpoint": self.endpoint or f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    def authorize(self, query: dict[str, list[str]]) -> str:
        asked = {name: values[0] for name, values in query.items()}
        code = secrets.token_urlsafe()
        self.codes[code] = asked
        back = {
            "state": self.state or asked["state"],
            "iss": self.iss or self.issuer or f"{self.url}/",
        }
        back |= {"error": "access_denied"} if self.denied else {"code": code}
        return f"{asked['redirect_uri']}?{urlencode(back)}"

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, object]]:
        if form["grant_type"] == "refresh_token":
            # Each refresh token works once; used twice, it ends the sign-in, as in real servers.
            if form["refresh_token"] not in self.refresh:
                self.refresh.clear()
                self.access.clear()
                return 400, {"error": "invalid_grant"}
            self.refresh.discard(form["refresh_token"])
            return 200, self.issue()
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or asked["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant"}
        if asked["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        return 200, self.issue(asked.get("scope", ""))

    def issue(self, scope: str = "") -> dict[str, object]:
        access, refresh = secrets.token_urlsafe(), secrets.token_urlsafe()
        self.scopes[access] = scope.split()
        self.access.add(access)
        self.refresh.add(refresh)
        return {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": self.valid_seconds,
            "refresh_token": refresh,
        }

    def is_good(self, token: str) -> bool:
        return token in self.access


# --- bad MCP server ------------------------------------------------------------------------------


class _Bad(_Quiet):
    def do_GET(self) -> None:
        owner: BadServer = self.server.owner  # type: ignore[attr-defined]
        path = urlsplit(self.path).path
        owner.gets.append(self.headers.get("Last-Event-ID", ""))
        if path in owner.documents:
            return self.answer(200, owner.documents[path])
        return self.answer(405, {})

    def do_DELETE(self) -> None:
        self.answer(204, b"")

    def do_POST(self) -> None:
        owner: BadServer = self.server.owner  # type: ignore[attr-defined]
        asked = json.loads(self.body())
        method = asked.get("method", "")
        name = asked.get("params", {}).get("name", "")
        owner.calls[name or method] += 1
        owner.headers.append(dict(self.headers))
        if owner.refuse is not None and (answer := owner.refuse(self, asked)) is not None:
            return self.answer(answer[0], {}, WWW_Authenticate=answer[1])
        if owner.every is not None:
            return owner.every(self)
        if "id" not in asked:
            return self.answer(202, b"")
        if method == "initialize":
            return self.result(asked, _INITIALIZED, Mcp_Session_Id="s1")
        if method == "server/discover" and owner.modern:
            return self.result(asked, _DISCOVERED)
        if method == "server/discover":
            return self.answer(404, _error(asked, -32601, "no such method"))
        if method == "tools/list":
            names = [one.removeprefix("call_") for one in dir(self) if one.startswith("call_")]
            tools = [{"name": one, "inputSchema": {}} for one in names]
            return self.result(asked, {"tools": [*tools, {"name": "invalid"}]})
        act: Callable[[dict[str, Any]], None] | None = getattr(self, f"call_{name}", None)
        if act is None:
            return self.answer(404, _error(asked, -32601, "no such method"))
        return act(asked)

    def result(self, asked: dict[str, Any], value: object, **headers: str) -> None:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": value}
        self.answer(200, answer, **headers)

    def stream(self, *pieces: bytes) -> None:
        """Begin a stream of events, and close the connection after `pieces`."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for piece in pieces:
                self.wfile.write(piece)
        except OSError:
            pass  # the client has had enough

    def call_well(self, asked: dict[str, Any]) -> None:
        self.result(asked, {"content": [{"type": "text", "text": "fine"}]})

    def call_cut(self, asked: dict[str, Any]) -> None:
        self.stream(b": begun\n\n")

    def call_resume(self, asked: dict[str, Any]) -> None:
        self.stream(b"id: 7\nretry: 1\ndata: \n\n")

    def call_silent(self, asked: dict[str, Any]) -> None:
        self.close_connection = True

    def call_huge(self, asked: dict[str, Any]) -> None:
        self.stream(b"data: ", *[b"x" * 2**20] * 17, b"\n\n")

    def call_huge_json(self, asked: dict[str, Any]) -> None:
        self.result(asked, {"content": [{"type": "text", "text": "x" * 17 * 2**20}]})

    def call_packed(self, asked: dict[str, Any]) -> None:
        self.answer(200, b"\x1f\x8b", Content_Encoding="gzip")

    def call_page(self, asked: dict[str, Any]) -> None:
        self.answer(200, b"<html>", "text/html")

    def call_fails(self, asked: dict[str, Any]) -> None:
        self.answer(502, b"bad gateway", "text/plain")

    def call_accepted(self, asked: dict[str, Any]) -> None:
        self.answer(202, b"")

    def call_forbidden(self, asked: dict[str, Any]) -> None:
        self.answer(403, b"", "text/plain")

    def call_forgotten(self, asked: dict[str, Any]) -> None:
        self.answer(404, _error(asked, -32600, "Session not found"))

    def call_stale(self, asked: dict[str, Any]) -> None:
        self.answer(400, _error(asked, HEADER_MISMATCH, "headers differ"))

    def call_stale_event(self, asked: dict[str, Any]) -> None:
        error = json.dumps(_error(asked, HEADER_MISMATCH, "headers differ"))
        self.stream(f"data: {error}\n\n".encode())

    def call_own(self, asked: dict[str, Any]) -> None:
        self.answer(200, _error(asked, -32000, "the printer is out of paper"))

    def call_moved(self, asked: dict[str, Any]) -> None:
        owner: BadServer = self.server.owner  # type: ignore[attr-defined]
        self.answer(307, b"", Location=f"{owner.elsewhere}/mcp?key=secret")

    def call_drip(self, asked: dict[str, Any]) -> None:
        owner: BadServer = self.server.owner  # type: ignore[attr-defined]
        self.stream(b": one\n\n")
        owner.over.wait()


_INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bad", "version": "1"},
}


_DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "resultType": "complete",
    "serverInfo": _INITIALIZED["serverInfo"],
}


def _error(asked: dict[str, Any], code: int, message: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": message}}


@dataclass
class BadServer(_Listening):
    """A server that answers a call as the tool's name says; `every` answers everything else.

    `refuse` may return a status and a challenge in place of an answer. A `modern` one speaks the
    revision of the protocol in which the SDK may send a call again.
    """

    modern: bool = False
    every: Callable[[_Quiet], None] | None = None
    refuse: Callable[[_Quiet, dict[str, Any]], tuple[int, str] | None] | None = None
    elsewhere: str = ""
    documents: dict[str, object] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    headers: list[dict[str, str]] = field(default_factory=list)
    gets: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    handler = _Bad

    def __exit__(self, *_: object) -> None:
        self.over.set()
        super().__exit__()
