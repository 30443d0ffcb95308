"""Streamable HTTP servers: what reaches the caller, and that no call is sent twice."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult, TextContent

from kogniterm.errors import ToolError
from kogniterm.tools.mcp.call_results import call_end
from kogniterm.tools.mcp.http_transport import open_http
from kogniterm.tools.mcp.mcp_errors import (
    McpCallLostError,
    McpError,
    McpRefusedError,
    McpSessionEndedError,
    McpSignInNeededError,
    McpStaleToolsError,
    McpUnreachableError,
    failure_of,
)
from kogniterm.tools.mcp.server_values import LEFT_OUT, leave_out_invalid
from tests.support.mcp_peers import BadServer, start_peer


@pytest.fixture(scope="module")
def peer() -> Iterator[str]:
    with start_peer() as url:
        yield url


@pytest.fixture
def bad() -> Iterator[BadServer]:
    with BadServer() as server:
        yield server


async def failed_call(server: BadServer, name: str, **options: object) -> McpError:
    """Return the error of a call of the tool `name`."""
    found: McpError | None = None
    async with Client(open_http(f"{server.url}/mcp", server="bad", **options)) as client:  # type: ignore[arg-type]
        try:
            await client.call_tool(name, {})
        except Exception as error:
            found = failure_of(error, "bad", called=True)
    assert found is not None
    return found


async def failed_connection(url: str, **options: object) -> McpError:
    """Return the error of connecting."""
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - of any kind, as the SDK raises it
        async with Client(open_http(url, server="bad", **options)):  # type: ignore[arg-type]
            pass
    return failure_of(raised.value, "bad")


async def test_a_call_returns_its_result_and_progress(peer: str) -> None:
    steps: list[str | None] = []

    async def progress(done: float, of: float | None, message: str | None) -> None:
        steps.append(message)

    async with Client(open_http(peer, server="peer")) as client:
        sum_ = await client.call_tool("add", {"a": 2, "b": 3})
        await client.call_tool("count", {"most": 3}, progress_callback=progress)
    assert sum_.structured_content == {"result": 5}
    assert steps == ["step 0", "step 1", "step 2"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_both_revisions_of_the_protocol_work(peer: str, mode: str) -> None:
    async with Client(open_http(peer, server="peer"), mode=mode) as client:  # type: ignore[arg-type]
        assert (await client.call_tool("add", {"a": 1, "b": 1})).structured_content == {"result": 2}


@pytest.mark.parametrize(
    "name",
    [
        "cut", "resume", "silent", "huge", "huge_json", "packed", "page", "fails", "accepted",
    ],
)  # fmt: skip
async def test_a_call_whose_result_is_lost_is_unknown_and_sent_once(
    bad: BadServer, name: str
) -> None:
    error = await failed_call(bad, name)
    assert isinstance(error, McpCallLostError), error
    assert "may or may not have been carried out" in str(error)
    assert bad.calls[name] == 1


async def test_a_tool_that_is_none_costs_no_other(bad: BadServer) -> None:
    async with Client(open_http(f"{bad.url}/mcp", server="bad")) as client:
        listed = await client.list_tools()
    assert {"own", "cut"} <= {one.name for one in listed.tools}
    assert listed.meta == {LEFT_OUT: ["invalid"]}


def test_a_server_writes_no_notes_of_ours() -> None:
    forged: dict[str, Any] = {"tools": [], "_meta": {LEFT_OUT: 5, "theirs": 1}}
    leave_out_invalid(forged)
    assert forged["_meta"] == {"theirs": 1}


@pytest.mark.parametrize(
    ("text", "structured", "once"),
    [
        ("hello", {"result": "hello"}, True), ("5", {"result": 5}, True), ("[1]", [1], True),
        ("4 items", {"items": [1]}, False), ("", {"result": []}, False),
    ],
)  # fmt: skip
def test_a_result_that_wraps_its_text_is_given_once(text: str, structured: Any, once: bool) -> None:
    content = [TextContent(text=text)] if text else []
    found, _failed = call_end(
        "bad", "t", CallToolResult(content=content, structured_content=structured)
    )
    assert (found.text.count("\n") == 2) is once, found.text


async def test_a_remote_server_is_reached_by_the_proxy_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NO_PROXY with a network of IPv6, which httpx cannot read, does not end the connection."""
    asked: list[str] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n")).decode().split()[1])
        writer.write(b"HTTP/1.1 403 no\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("NO_PROXY", "fd00::/8,[::1]")
    async with proxy:
        with pytest.raises(BaseExceptionGroup):
            async with Client(open_http("https://mcp.example.test/mcp", server="far")):
                pass
    assert set(asked) == {"mcp.example.test:443"}


@pytest.mark.parametrize(
    ("variable", "value"), [("SSL_CERT_FILE", "/no/such"), ("HTTPS_PROXY", "ftp://127.0.0.1:1")]
)
async def test_a_network_that_cannot_be_used_is_named(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(McpError, match=variable):
        async with open_http("https://mcp.example.test/mcp", server="far"):
            pass


async def test_a_broken_stream_is_continued_without_a_second_call(bad: BadServer) -> None:
    await failed_call(bad, "resume")
    assert "7" in bad.gets
    assert bad.calls["resume"] == 1


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("forbidden", McpRefusedError),
        ("forgotten", McpSessionEndedError),
        ("stale", McpStaleToolsError),
        ("moved", McpRefusedError),
    ],
)
async def test_a_refused_call_did_not_happen_and_is_sent_once(
    bad: BadServer, name: str, kind: type[McpError]
) -> None:
    bad.elsewhere = "http://127.0.0.2:1"
    error = await failed_call(bad, name)
    assert type(error) is kind
    assert bad.calls[name] == 1


@pytest.mark.parametrize("name", ["stale", "stale_event"])
async def test_a_call_whose_headers_are_rejected_is_not_sent_again(
    bad: BadServer, name: str
) -> None:
    bad.modern = True
    assert type(await failed_call(bad, name)) is McpStaleToolsError
    assert bad.calls[name] == 1
    assert bad.calls["tools/list"] == 0


async def test_a_redirect_elsewhere_is_named_without_its_query(bad: BadServer) -> None:
    with BadServer() as other:
        bad.elsewhere = other.url
        error = await failed_call(bad, "moved")
        assert not other.calls
    assert other.url in str(error)
    assert "secret" not in str(error)


async def test_an_error_of_the_server_is_its_own(bad: BadServer) -> None:
    error = await failed_call(bad, "own")
    assert type(error) is McpError
    assert "out of paper" in str(error)


async def test_one_lost_call_does_not_end_the_connection(bad: BadServer) -> None:
    async with Client(open_http(f"{bad.url}/mcp", server="bad")) as client:
        for name in ("silent", "cut", "fails"):
            with pytest.raises(MCPError) as raised:
                await client.call_tool(name, {})
            assert isinstance(failure_of(raised.value, "bad", called=True), McpCallLostError)
        result = await client.call_tool("well", {})
    assert result.content[0].text == "fine"


async def test_a_call_that_stays_silent_ends_at_the_time_without_a_byte(bad: BadServer) -> None:
    error = await failed_call(bad, "drip", idle_seconds=0.2)
    assert isinstance(error, McpCallLostError)
    assert bad.calls["drip"] == 1


async def test_a_server_that_drips_its_answer_is_given_up(bad: BadServer) -> None:
    def drip(handler: object) -> None:
        handler.stream(b": one\n\n")  # type: ignore[attr-defined]
        bad.over.wait()

    bad.every = drip
    error = await failed_connection(f"{bad.url}/mcp", answer_seconds=0.2)
    assert "broke" in str(error) or "answer" in str(error)


async def test_a_list_that_fails_after_a_call_leaves_the_call_unknown(bad: BadServer) -> None:
    error = McpRefusedError("no list")
    error.method = "tools/list"
    assert isinstance(failure_of(error, "bad", called=True), McpCallLostError)
    assert failure_of(error, "bad") is error


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (200, b"<html>", "text/html", "did not answer as an MCP server does"),
        (404, b"", "text/plain", "refused initialize (HTTP status 404); check its URL"),
        (403, b"", "text/plain", "refused initialize (HTTP status 403)"),
        (503, b"", "text/plain", "as an MCP server does (HTTP status 503); check the URL"),
        (401, b"", "text/plain", "(HTTP status 401); check its URL and headers"),
        (200, b"{", "application/json", "answered with an error"),
    ],
)
async def test_what_is_no_server_is_told_in_one_sentence(
    bad: BadServer, status: int, body: bytes, kind: str, said: str
) -> None:
    bad.every = lambda handler: handler.answer(status, body, kind)
    error = await failed_connection(f"{bad.url}/mcp")
    assert said in str(error)
    assert str(error).count("\n") == 0


async def test_a_sign_in_without_anyone_there_names_the_command(bad: BadServer) -> None:
    bad.every = lambda handler: handler.answer(
        401, b"", "text/plain", WWW_Authenticate='Bearer resource_metadata="https://x/y"'
    )
    error = await failed_connection(f"{bad.url}/mcp")
    assert isinstance(error, McpSignInNeededError)
    assert "kogniterm mcp login bad" in str(error)


async def test_a_refused_connection_is_tried_once() -> None:
    error = await failed_connection("http://127.0.0.1:9/mcp")
    assert isinstance(error, McpUnreachableError)
    assert "connection refused" in str(error)


async def test_an_unknown_host_is_named() -> None:
    error = await failed_connection("https://server.invalid/mcp")
    assert "the host was not found" in str(error)


async def test_tls_needs_a_trusted_certificate(bad: BadServer) -> None:
    error = await failed_connection(f"{bad.url.replace('http:', 'https:')}/mcp")
    assert isinstance(error, McpUnreachableError)
    assert "secure connection" in str(error)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///etc/passwd", "not http or https"),
        ("http://example.com/mcp", "plain http"),
        ("http://127.0.0.1.example.com/mcp", "plain http"),
        ("https://user:word@example.com/mcp", "user name or password"),
        ("https://", "not http or https"),
        ("http://exa mple/\n", "not http or https"),
    ],
)
async def test_urls_that_must_not_be_used(url: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        async with open_http(url, server="bad"):
            pass


@pytest.mark.parametrize("value", ["secret\r\nX-Other: 1", "secret\u20ac", "secret\0"])
async def test_a_header_that_cannot_be_sent_is_named_without_its_value(value: str) -> None:
    with pytest.raises(ToolError, match="X-Key") as raised:
        async with open_http("https://example.com", server="bad", headers={"X-Key": value}):
            pass
    assert "secret" not in str(raised.value)


async def test_headers_are_sent_and_never_logged(
    bad: BadServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await failed_call(bad, "forbidden", headers={"X-Api-Key": "very-private"})
    assert all(one["X-Api-Key"] == "very-private" for one in bad.headers)
    assert "very-private" not in caplog.text


async def test_proxies_of_the_environment_are_not_used(
    peer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with Client(open_http(peer, server="peer")) as client:
        assert (await client.list_tools()).tools


def test_errors_and_files_are_at_hand_without_the_sdk() -> None:
    code = (
        "import sys, kogniterm.tools.mcp.mcp_errors, kogniterm.tools.mcp.token_files;"
        "sys.exit(any(name.partition('.')[0] in ('mcp', 'mcp_types', 'httpx2') "
        "for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
