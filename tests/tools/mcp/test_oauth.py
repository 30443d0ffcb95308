"""Signing in: the user is asked first, tokens are private, wrong answers are refused."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from mcp import Client

from kogniterm.errors import ToolError
from kogniterm.tools.mcp.http_transport import open_http
from kogniterm.tools.mcp.mcp_errors import McpSignInFailedError, McpSignInNeededError, failure_of
from kogniterm.tools.mcp.oauth import SignIn, sign_in
from kogniterm.tools.mcp.server_config import OAuthConfig, ServerConfig
from kogniterm.tools.mcp.sign_in_front import SignInRequest
from kogniterm.tools.mcp.token_files import TokenFile, TokenFiles
from tests.support.mcp_peers import AuthorizationServer, BadServer, start_peer

PRM = "/.well-known/oauth-protected-resource/mcp"


@dataclass
class Browser:
    """A user who agrees, and whose browser follows the address; or who pastes its end."""

    agrees: bool = True
    follows: bool = True
    paste: list[str] = field(default_factory=list)
    pastes: bool = False
    asked: list[SignInRequest] = field(default_factory=list)
    visited: list[str] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    before: Callable[[str], None] = lambda address: None

    async def agree(self, request: SignInRequest) -> bool:
        self.asked.append(request)
        return self.agrees

    async def visit(self, request: SignInRequest) -> None:
        self.visited.append(request.address)
        await asyncio.to_thread(self.before, request.address)
        if self.follows:
            self.pages.append(await asyncio.to_thread(get, request.address))
        if self.pastes:
            self.paste.append(await asyncio.to_thread(end_of, request.address))

    async def pasted(self, *, again: bool) -> str:
        if not self.paste:
            await asyncio.Event().wait()
        return self.paste.pop(0)

    def page(self, *, done: bool) -> str:
        return "done" if done else "not done"


def get(address: str) -> str:
    try:
        with urllib.request.urlopen(address) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def end_of(address: str) -> str:
    """Return where a browser on another machine would end."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    try:
        urllib.request.build_opener(Stay).open(address)
    except urllib.error.HTTPError as error:
        return error.headers["Location"]
    raise AssertionError("no redirect")


@pytest.fixture(scope="module")
def authorization() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as server:
        yield server


@pytest.fixture(scope="module")
def address(authorization: AuthorizationServer) -> Iterator[str]:
    with start_peer(authorization.url) as url:
        yield url


@pytest.fixture
def issuer(authorization: AuthorizationServer) -> AuthorizationServer:
    """Return an authorization server that has issued nothing."""
    authorization.forget()
    return authorization


@pytest.fixture
def peer(issuer: AuthorizationServer, address: str) -> str:
    return address


@pytest.fixture
def files(tmp_path: Path) -> TokenFiles:
    return TokenFiles(tmp_path / "mcp" / "tokens")


async def use(
    url: str,
    file: TokenFile,
    front: Browser | None = None,
    settings: OAuthConfig | None = None,
    **options: float,
) -> object:
    """Add two numbers on the server; returns the sum."""
    auth = SignIn("peer", url, file, settings, front, **options)
    async with Client(open_http(url, server="peer", auth=auth)) as client:
        return (await client.call_tool("add", {"a": 2, "b": 3})).structured_content


async def failure(
    url: str,
    file: TokenFile,
    front: Browser | None = None,
    settings: OAuthConfig | None = None,
    **options: float,
) -> ToolError:
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - of any kind, as the SDK raises it
        await use(url, file, front, settings, **options)
    return failure_of(raised.value, "peer")


async def test_the_user_signs_in_once(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    browser = Browser()
    assert await use(peer, files.of(peer), browser) == {"result": 5}
    (asked,) = browser.asked
    assert asked.server == "peer"
    assert asked.host == urlsplit(issuer.url).netloc
    assert asked.server_host == urlsplit(peer).netloc
    assert asked.scopes == ("use",)
    assert browser.visited == [asked.address]
    assert browser.pages == ["done"]
    # Another process reads the file and asks nobody.
    assert await use(peer, files.of(peer)) == {"result": 5}
    assert issuer.seen["/register"] == 1


async def test_the_file_is_private_and_holds_no_other_server(peer: str, files: TokenFiles) -> None:
    file = files.of(peer)
    await use(peer, file, Browser())
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert TokenFile(file.path, peer + "2").read() == {}
    assert [one.suffix for one in file.path.parent.iterdir()].count(".json") == 1


def test_a_sign_in_is_on_disk_when_it_was_written(
    files: TokenFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    files.of("https://a.example/mcp").write({"tokens": {}})
    assert synced


async def test_nothing_is_opened_before_the_user_agrees(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    browser = Browser(agrees=False)
    error = await failure(peer, files.of(peer), browser)
    assert isinstance(error, McpSignInFailedError)
    assert not browser.visited
    assert not issuer.seen["/authorize"]


async def test_unattended_nothing_is_registered(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    error = await failure(peer, files.of(peer))
    assert isinstance(error, McpSignInNeededError)
    assert not issuer.seen["/register"]


async def test_an_expired_token_is_renewed_without_a_question(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    issuer.valid_seconds = 1  # always too close to its end
    await use(peer, files.of(peer), Browser())
    renewals = len(issuer.forms)
    assert await use(peer, files.of(peer)) == {"result": 5}
    assert len(issuer.forms) > renewals
    assert issuer.forms[-1]["grant_type"] == "refresh_token"
    assert issuer.forms[-1]["resource"] == peer


async def test_a_token_that_the_server_forgot_is_renewed(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    await use(peer, files.of(peer), Browser())
    issuer.access.clear()
    assert await use(peer, files.of(peer)) == {"result": 5}


async def test_a_sign_in_that_ended_needs_the_user(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    await use(peer, files.of(peer), Browser())
    issuer.access.clear()
    issuer.refresh.clear()
    assert isinstance(await failure(peer, files.of(peer)), McpSignInNeededError)
    assert await use(peer, files.of(peer), Browser()) == {"result": 5}
    assert issuer.seen["/register"] == 1  # the port was free, so the client is the same


@pytest.mark.parametrize("status", [200, 503])
async def test_a_renewal_that_fails_for_a_while_loses_nothing(
    issuer: AuthorizationServer, peer: str, files: TokenFiles, status: int
) -> None:
    issuer.valid_seconds = 1
    await use(peer, files.of(peer), Browser())
    issuer.token_page, issuer.token_status = b"<html>maintenance</html>", status
    error = await failure(peer, files.of(peer))
    assert isinstance(error, McpSignInFailedError)
    assert "could not be renewed" in str(error)
    issuer.token_page = b""
    assert await use(peer, files.of(peer)) == {"result": 5}


USE = """
import asyncio, sys
from pathlib import Path
from mcp import Client
from kogniterm.tools.mcp.http_transport import open_http
from kogniterm.tools.mcp.oauth import SignIn
from kogniterm.tools.mcp.token_files import TokenFiles

async def use(url, folder):
    auth = SignIn("peer", url, TokenFiles(Path(folder)).of(url))
    async with Client(open_http(url, server="peer", auth=auth)) as client:
        await client.call_tool("add", {"a": 2, "b": 3})

asyncio.run(use(*sys.argv[1:]))
"""


async def test_processes_that_renew_at_once_keep_the_sign_in(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    await use(peer, files.of(peer), Browser())
    file = files.of(peer)
    file.write({**file.read(), "expires": 1.0})
    started = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", USE, peer, str(files.folder))
        for _number in range(3)
    ]
    assert [await one.wait() for one in started] == [0, 0, 0]
    renewals = [one for one in issuer.forms if one["grant_type"] == "refresh_token"]
    assert len(renewals) == 1
    assert await use(peer, files.of(peer)) == {"result": 5}


async def test_calls_at_once_in_one_process_renew_once(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    await use(peer, files.of(peer), Browser())
    auth = SignIn("peer", peer, files.of(peer))
    async with Client(open_http(peer, server="peer", auth=auth)) as client:
        file = files.of(peer)
        file.write({**file.read(), "expires": 1.0})
        calls = (client.call_tool("add", {"a": 1, "b": number}) for number in range(4))
        sums = await asyncio.gather(*calls)
    assert [one.structured_content for one in sums] == [{"result": 1 + n} for n in range(4)]
    assert len([one for one in issuer.forms if one["grant_type"] == "refresh_token"]) == 1


async def test_the_end_of_the_sign_in_can_be_pasted(peer: str, files: TokenFiles) -> None:
    browser = Browser(follows=False, pastes=True, paste=["what?", "https://example.com/"])
    assert await use(peer, files.of(peer), browser) == {"result": 5}


async def test_a_sign_in_that_nobody_finishes_ends(peer: str, files: TokenFiles) -> None:
    error = await failure(peer, files.of(peer), Browser(follows=False), seconds=0.05)
    assert "kogniterm mcp login peer" in str(error)


async def test_cancelling_closes_the_port(peer: str, files: TokenFiles) -> None:
    opened = asyncio.Event()
    loop = asyncio.get_running_loop()
    browser = Browser(follows=False)
    browser.before = lambda address: loop.call_soon_threadsafe(opened.set)
    task = asyncio.ensure_future(use(peer, files.of(peer), browser))
    await opened.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    port = urlsplit(parse_qs(urlsplit(browser.visited[0]).query)["redirect_uri"][0]).port
    with pytest.raises(ConnectionRefusedError):
        await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port))


@pytest.mark.parametrize("wrong", ["state", "iss"])
async def test_an_answer_of_another_sign_in_is_refused(
    issuer: AuthorizationServer, peer: str, files: TokenFiles, wrong: str
) -> None:
    setattr(issuer, wrong, "https://evil.example")
    error = await failure(peer, files.of(peer), Browser())
    assert "does not belong to this sign-in" in str(error)
    assert "evil" not in str(error)
    assert not issuer.forms
    assert "tokens" not in files.of(peer).read() or not files.of(peer).read()["tokens"]


async def test_metadata_of_another_issuer_is_refused(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    issuer.issuer = "https://evil.example"
    browser = Browser()
    error = await failure(peer, files.of(peer), browser)
    assert isinstance(error, McpSignInFailedError)
    assert "issuer mismatch" in str(error)
    assert not browser.asked


async def test_a_user_who_is_refused_is_told_why(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    issuer.denied = True
    browser = Browser()
    error = await failure(peer, files.of(peer), browser)
    assert "access_denied" in str(error)
    assert browser.pages == ["not done"]


async def test_a_token_page_instead_of_a_token_is_told(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    issuer.token_page = b"<html>" + b"x" * 5000
    error = await failure(peer, files.of(peer), Browser())
    assert isinstance(error, McpSignInFailedError)
    assert len(str(error)) < 500


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://evil.example/authorize",
        "https://user@evil.example/authorize",
    ],
)
async def test_an_address_that_no_browser_may_open_is_not_asked_about(
    issuer: AuthorizationServer, peer: str, files: TokenFiles, endpoint: str
) -> None:
    issuer.endpoint = endpoint
    browser = Browser()
    error = await failure(peer, files.of(peer), browser)
    assert "was not opened" in str(error)
    assert not browser.asked
    assert not browser.visited


@pytest.mark.parametrize("endpoint", ["file:///etc/passwd", "javascript:alert(1)", "ssh://x/y"])
async def test_other_schemes_never_get_as_far(
    issuer: AuthorizationServer, peer: str, files: TokenFiles, endpoint: str
) -> None:
    issuer.endpoint = endpoint
    browser = Browser()
    assert isinstance(await failure(peer, files.of(peer), browser), McpSignInFailedError)
    assert not browser.visited


async def test_only_the_first_return_counts_and_other_paths_are_unknown(
    peer: str, files: TokenFiles
) -> None:
    browser = Browser()
    seen: list[str] = []

    def knock(address: str) -> None:
        back = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        seen.append(get(back.replace("/callback", "/favicon.ico")))
        seen.append(get(back))

    browser.before = knock
    assert await use(peer, files.of(peer), browser) == {"result": 5}
    assert seen == ["", "not done"]


async def test_a_client_registered_by_hand_is_used(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    settings = OAuthConfig("mine", "my-secret", ("use", "more"))
    browser = Browser()
    assert await use(peer, files.of(peer), browser, settings) == {"result": 5}
    assert not issuer.seen["/register"]
    assert browser.asked[0].scopes == ("use", "more")
    assert issuer.forms[0]["authorization"].startswith("Basic ")
    assert "my-secret" not in files.of(peer).text()


async def test_a_client_registered_by_hand_stays_with_its_server(
    issuer: AuthorizationServer, peer: str, files: TokenFiles
) -> None:
    settings = OAuthConfig("mine", "my-secret")
    file = files.of(peer)
    await use(peer, file, Browser(), settings)
    stored = file.read()
    stored["client"]["issuer"] = "https://other.example"
    file.write({**stored, "tokens": None})
    browser = Browser()
    error = await failure(peer, file, browser, settings)
    assert "clientId" in str(error)
    assert not browser.asked


async def test_a_callback_port_in_use_is_named(peer: str, files: TokenFiles) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = await failure(peer, files.of(peer), Browser(), OAuthConfig(callback_port=port))
    assert str(port) in str(error)


async def test_a_server_cannot_lead_the_sign_in_to_plain_http(files: TokenFiles) -> None:
    with BadServer() as bad:
        bad.every = lambda handler: handler.answer(401, b"", "text/plain")
        bad.documents["/.well-known/oauth-protected-resource/mcp"] = {
            "resource": f"{bad.url}/mcp",
            "authorization_servers": ["http://evil.invalid"],
        }
        url = f"{bad.url}/mcp"
        error = await failure(url, files.of(url), Browser())
    assert isinstance(error, McpSignInFailedError)
    assert "not https" in str(error)


async def test_a_damaged_file_counts_as_no_sign_in(peer: str, files: TokenFiles) -> None:
    file = files.of(peer)
    await use(peer, file, Browser())
    file.path.write_text("[" * 100_000)
    assert isinstance(await failure(peer, file), McpSignInNeededError)
    assert await use(peer, file, Browser()) == {"result": 5}


def test_forgetting_deletes_the_sign_ins_that_hold_the_word(files: TokenFiles) -> None:
    for name in ("acme", "other"):
        files.of(f"https://{name}.example/mcp").write({"name": name, "tokens": {}})
    assert files.delete_all(["ACME"]) == 1
    left = [json.loads(one.read_text())["name"] for one in files.folder.glob("*.json")]
    assert left == ["other"]
    assert files.delete_all([]) == 0


async def test_more_permissions_are_asked_for_at_the_next_sign_in(
    issuer: AuthorizationServer, files: TokenFiles
) -> None:
    def refuse(request: Any, asked: dict[str, Any]) -> tuple[int, str] | None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not issuer.is_good(token):
            return 401, f'Bearer resource_metadata="{bad.url}{PRM}", scope="use"'
        if asked.get("method") == "tools/call" and "write" not in issuer.scopes[token]:
            return 403, 'Bearer error="insufficient_scope", scope="use write"'
        return None

    with BadServer(refuse=refuse) as bad:
        bad.documents[PRM] = {
            "resource": f"{bad.url}/mcp",
            "authorization_servers": [f"{issuer.url}/"],
        }
        url = f"{bad.url}/mcp"
        file, config = files.of(url), ServerConfig("peer", "mcp.json", url=url)
        first = Browser()
        assert await sign_in(config, file, first) == "signed in"
        assert first.asked[0].scopes == ("use",)

        async def call() -> None:
            async with Client(open_http(url, server="peer", auth=SignIn("peer", url, file))) as one:
                await one.call_tool("well", {})

        for _ in range(2):  # the sign-in that there is stays
            with pytest.raises(BaseException) as raised:  # noqa: PT011 - of any kind, as the SDK raises it
                await call()
            error = failure_of(raised.value, "peer", called=True)
            assert isinstance(error, McpSignInNeededError)
            assert "needs more permissions for this (use write)" in str(error)
            assert "kogniterm mcp login peer" in str(error)
        assert bad.calls["well"] == 2
        refused = Browser(agrees=False)
        with pytest.raises(McpSignInFailedError):
            await sign_in(config, file, refused)
        assert file.read()["tokens"]
        second = Browser()
        assert await sign_in(config, file, second) == "signed in"
        assert second.asked[0].scopes == ("use", "write")
        await call()
        assert await sign_in(config, file, Browser()) == "already"
