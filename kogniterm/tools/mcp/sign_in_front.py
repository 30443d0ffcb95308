"""The user's side of a sign-in: the question, the browser, and the address to which it returns."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from kogniterm.tools.mcp.mcp_errors import McpSignInFailedError, show_words

RETURN_PATH = "/callback"
_MAX_REQUEST = 16 * 1024
"""Bytes of the request with which the browser returns."""


class SignInRequest(NamedTuple):
    """A sign-in that the user is asked about; `address` is opened in the browser.

    `host` is the one that will ask for a password, and `scopes` what it is asked to permit.
    """

    server: str
    server_host: str
    host: str
    scopes: tuple[str, ...]
    address: str


class SignInFront(Protocol):
    """The user of a sign-in."""

    async def agree(self, request: SignInRequest) -> bool:
        """Ask whether to sign in. Nothing was opened yet."""

    async def visit(self, request: SignInRequest) -> None:
        """Show the address, and open it in the user's browser if there is one."""

    async def pasted(self, *, again: bool) -> str:
        """Return what the user pasted: the address where the browser ended.

        `again` says that the last one was not such an address. Waits for ever where nothing can be
        pasted.
        """

    def page(self, *, done: bool) -> str:
        """Return the sentence that the browser shows in the end."""


class BrowserReturn:
    """The address on this machine to which the browser returns, for one sign-in."""

    def __init__(self, port: int, front: SignInFront, server: str, *, fixed: bool) -> None:
        self._port, self._fixed = port, fixed
        self._front, self._name = front, server
        self.address = ""
        self.result: asyncio.Future[AuthorizationCodeResult] = (
            asyncio.get_running_loop().create_future()
        )

    async def __aenter__(self) -> BrowserReturn:
        try:
            self._server = await self._listen(self._port)
        except OSError as error:
            if self._fixed:
                raise McpSignInFailedError(
                    "Port {port}, the callbackPort of the MCP server {server}, is in use; end the "
                    "program that uses it.",
                    port=self._port,
                    server=self._name,
                ) from error
            # The port of the last sign-in is in use; the client is registered again for another.
            self._server = await self._listen(0)
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{RETURN_PATH}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        if self.result.done() and not self.result.cancelled():
            self.result.exception()  # seen: an unused one is no bug

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_MAX_REQUEST)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, EOFError, asyncio.LimitOverrunError), closing(writer):
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, *_ = f"{head.decode('latin-1')}  ".split(" ")
            status, text = "404 Not Found", ""
            if method == "GET" and urlsplit(target).path == RETURN_PATH and not self.result.done():
                done = self._take(target)
                status = "200 OK" if done else "400 Bad Request"
                text = self._front.page(done=done)
            body = text.encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                f"Content-Length: {len(body)}\r\nReferrer-Policy: no-referrer\r\n"
                "Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()

    async def take_pasted(self) -> None:
        """Take the answer in an address that the user pasted."""
        again = False
        while not self._take((await self._front.pasted(again=again)).strip()):
            again = True

    def _take(self, address: str) -> bool:
        """Take the answer in the address to which a sign-in led; the first one counts."""
        try:
            found = dict(parse_qsl(urlsplit(address).query, max_num_fields=50))
        except ValueError:
            return False
        if "state" not in found or self.result.done():
            return False
        if "error" in found:
            self.result.set_exception(
                McpSignInFailedError(
                    "Signing in to the MCP server {server} failed: {why}.",
                    server=self._name,
                    why=show_words(found.get("error_description") or found["error"]),
                )
            )
            return False
        if "code" not in found:
            return False
        self.result.set_result(
            AuthorizationCodeResult(code=found["code"], state=found["state"], iss=found.get("iss"))
        )
        return True
