"""Sign in to MCP servers with OAuth: the SDK's flow, with our files, questions and limits.

`SignIn` is what `http_transport.open_http` takes as `auth`. With a `SignInFront` it may ask the
user; without one it uses and renews what is stored, and else raises `McpSignInNeededError` before
anything is registered.

The SDK loses three things between processes, which are stored here: when the token expires, where
it is renewed, and which authorization server issued it. It also holds its lock while a request
runs, so that a long call would block its own cancellation; so each request gets a flow of its own,
which only renews or signs in.

Importing this module loads the SDK: import it where a server is contacted.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Literal, NamedTuple, Protocol
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
from httpx2 import Request, Response
from mcp import MCPError
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from kogniterm.tools.mcp.http_transport import is_loopback, open_http
from kogniterm.tools.mcp.mcp_errors import (
    McpError,
    McpSignInFailedError,
    failure_of,
    more_needed,
    shown,
    sign_in_needed,
)
from kogniterm.tools.mcp.server_config import OAuthConfig, ServerConfig
from kogniterm.tools.mcp.token_files import TokenFile

SIGN_IN_SECONDS = 600.0
"""Time that a sign-in waits for the browser of the user."""
_EARLY = 30.0
"""Seconds before a token expires at which it is renewed."""
_MAX_REQUEST = 16 * 1024
"""Bytes of the request with which the browser returns."""
_PATH = "/callback"


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


class SignIn(httpx2.Auth):
    """Signs requests to one server; see the module. `agreed`: the user was asked and said yes."""

    def __init__(
        self,
        server: str,
        url: str,
        file: TokenFile,
        settings: OAuthConfig | None = None,
        front: SignInFront | None = None,
        *,
        seconds: float = SIGN_IN_SECONDS,
    ) -> None:
        self.agreed = False
        self.server = server
        self.url = url
        self.file = file
        self.settings = settings or OAuthConfig()
        self.front = front
        self.seconds = seconds
        self._renewing = asyncio.Lock()

    async def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        """Sign `request`; renew the token before or after it, and sign in if that is not enough."""
        response, rejected = self._wanted_before(request), ""
        while response is None or rejected:
            async with aclosing(self._renewed(request, rejected)) as steps:
                async for step in steps:
                    step.response = yield step.request
            token = _Flow(self).token
            if rejected and token in ("", rejected):
                break
            if token:
                request.headers["Authorization"] = f"Bearer {token}"
            response = yield request
            # Another process may have renewed the token, or the server forgot it too early.
            rejected = token if response.status_code == 401 and not rejected else ""
        assert response is not None
        if response.status_code != 401 and not _wants_more(response):
            return
        if self.front is None:
            raise self._unattended(response)
        async with aclosing(self._signed_in(request, response, self.front)) as steps:
            async for step in steps:
                step.response = yield step.request

    def _wanted_before(self, request: Request) -> Response | None:
        """Return the refusal of an earlier request that wanted more permissions, once for a user.

        The stored token stays until the user has agreed to another one with more permissions.
        """
        wanted = " ".join(_Kept.read(self.file).wanted)
        if self.front is None or self.agreed or not wanted:
            return None
        return _refusal(403, f'error="insufficient_scope", scope="{wanted}"', request)

    def _unattended(self, response: Response) -> McpError:
        """Return the error of a request that needs a user; keep the permissions that it wants."""
        if response.status_code == 401:
            return sign_in_needed(self.server)
        named = (extract_field_from_www_auth(response, "scope") or "").split()
        scopes = [one for one in named if _SCOPE.fullmatch(one)][:_MOST_SCOPES]
        if scopes:
            kept = _Kept.read(self.file)
            kept.wanted = list(dict.fromkeys((*kept.wanted, *scopes)))[:_MOST_SCOPES]
            kept.write(self.file)
        return more_needed(self.server, " ".join(scopes))

    async def _renewed(self, request: Request, rejected: str) -> AsyncGenerator[_Step, None]:
        """Renew the token, unless another task or process did; yield the requests for it.

        `rejected` is a token that the server did not take although it is still valid.
        """
        if not _Flow(self).is_old(rejected):
            return
        async with self._renewing, self.file.locked():
            flow = _Flow(self)
            if not flow.is_old(rejected):
                return
            flow.context.token_expiry_time = 1.0
            async with aclosing(flow.provider.async_auth_flow(request)) as flowing:
                outgoing = await anext(flowing)
                while outgoing is not request:
                    step = _Step(outgoing)
                    yield step
                    outgoing = await flowing.asend(step.answer)
            if flow.token:
                return
            if step.answer.status_code not in (400, 401):
                raise McpSignInFailedError(
                    "The sign-in to the MCP server {server} could not be renewed: {host} gave no "
                    "usable answer (HTTP status {status}). Try again later, or run: "
                    "kogniterm mcp login {server}",
                    server=self.server,
                    host=_host(str(step.request.url)),
                    status=step.answer.status_code,
                )
            # The sign-in has ended; what was registered is still good for the next one.
            flow.store()

    async def _signed_in(
        self, request: Request, response: Response, front: SignInFront
    ) -> AsyncGenerator[_Step, None]:
        """Sign in because of `response`; yield the requests for it, and `request` at the end."""
        port = self.settings.callback_port or _port_of(_Flow(self).context.client_info)
        fixed = self.settings.callback_port > 0
        async with _Return(port, front, self.server, fixed=fixed) as listener:
            flow = _Flow(self, front, listener)
            async with aclosing(flow.provider.async_auth_flow(request)) as flowing:
                await anext(flowing)
                try:
                    outgoing = await flowing.asend(_asking(response, self.settings.scopes))
                    while True:
                        step = _Step(outgoing)
                        yield step
                        outgoing = await flowing.asend(step.answer)
                except StopAsyncIteration:
                    return
                except OAuthFlowError as error:
                    if not flow.returned or isinstance(error, OAuthTokenError):
                        raise
                    # The SDK's words contain the values, which are secrets of this sign-in.
                    raise McpSignInFailedError(
                        "The answer of the browser does not belong to this sign-in to {server}, so "
                        "it was not used; run again: kogniterm mcp login {server}",
                        server=self.server,
                    ) from error


class _Flow:
    """One flow of the SDK: its storage and its handlers, with what is stored now."""

    def __init__(
        self, owner: SignIn, front: SignInFront | None = None, listener: _Return | None = None
    ) -> None:
        self.returned = False
        self._owner = owner
        self._front = front
        self._listener = listener
        settings, kept = owner.settings, _Kept.read(owner.file)
        address = listener.address if listener is not None else f"http://127.0.0.1{_PATH}"
        self.provider = OAuthClientProvider(
            owner.url,
            OAuthClientMetadata(
                client_name="KogniTerm",
                redirect_uris=[AnyUrl(address)],
                token_endpoint_auth_method="none",
            ),
            self,
            redirect_handler=self._visit,
            callback_handler=self._returned,
        )
        context = self.context = self.provider.context
        context.current_tokens, context.oauth_metadata = kept.tokens, kept.authorization
        # A sign-in renews nothing: it begins with the answer that asked for it.
        context.token_expiry_time = kept.expires if listener is None else None
        context.protected_resource_metadata = kept.resource
        if kept.resource is not None:
            context.auth_server_url = str(kept.resource.authorization_servers[0])
        client = kept.client
        if settings.client_id:
            client = OAuthClientInformationFull(
                client_id=settings.client_id,
                client_secret=settings.client_secret or None,
                issuer=client.issuer if client is not None else None,
            )
        elif listener is not None and client is not None:
            known = [str(one) for one in client.redirect_uris or ()]
            client = client if address in known else None
        context.client_info = client
        self._choose_authentication()

    @property
    def token(self) -> str:
        """Return the token that signs a request; empty if there is none that is valid."""
        tokens = self.context.current_tokens
        return tokens.access_token if tokens is not None and self.context.is_token_valid() else ""

    def is_old(self, rejected: str) -> bool:
        """Return whether the token has to be renewed and can be."""
        until = self.context.token_expiry_time
        soon = until is not None and until - time.time() <= _EARLY
        return (soon or self.token in ("", rejected)) and self.context.can_refresh_token()

    async def get_tokens(self) -> OAuthToken | None:
        return self.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        del tokens
        self.store()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client that was just registered, unless the user registered one by hand."""
        if self._owner.settings.client_id:
            raise McpSignInFailedError(
                "{server} now signs in at {host}, where the clientId of your configuration was not "
                "registered. If that is right, run: kogniterm mcp logout {server}",
                server=self._owner.server,
                host=_host(self.context.auth_server_url or self._owner.url),
            )
        self.context.client_info = client_info
        self.store()

    def store(self) -> None:
        """Store what the SDK knows now; the secret of a client is the configuration's."""
        context, file = self.context, self._owner.file
        client = context.client_info
        if client is not None and self._owner.settings.client_id == client.client_id:
            metadata = context.oauth_metadata
            issuer = str(metadata.issuer) if metadata else None
            client = client.model_copy(update={"client_secret": None, "issuer": issuer})
        kept = _Kept(
            name=self._owner.server,
            tokens=context.current_tokens,
            wanted=[] if self.returned else _Kept.read(file).wanted,
            expires=context.token_expiry_time,
            client=client,
            authorization=context.oauth_metadata,
            resource=context.protected_resource_metadata,
        )
        kept.write(file)

    def _choose_authentication(self) -> None:
        """Choose how a client registered by hand proves itself, as its server supports it."""
        client, metadata = self.context.client_info, self.context.oauth_metadata
        if client is None or client.client_id != self._owner.settings.client_id:
            return
        supported = metadata.token_endpoint_auth_methods_supported if metadata else None
        basic = supported is None or "client_secret_basic" in supported
        method = "client_secret_basic" if basic else "client_secret_post"
        client.token_endpoint_auth_method = method if client.client_secret else "none"

    async def _visit(self, address: str) -> None:
        """Ask the user, and open `address` only then."""
        owner, front = self._owner, self._front
        assert front is not None
        self._choose_authentication()
        if not _may_open(address, owner.url):
            raise McpSignInFailedError(
                "The MCP server {server} asks to open {address}, which is not a web page over "
                "https; it was not opened.",
                server=owner.server,
                address=shown(address),
            )
        scopes = parse_qs(urlsplit(address).query).get("scope", ())
        request = SignInRequest(
            owner.server, _host(owner.url), _host(address), tuple(" ".join(scopes).split()), address
        )
        if not await front.agree(request):
            raise McpSignInFailedError(
                "{server}: you did not agree, so nothing was opened.", server=owner.server
            )
        owner.agreed = True
        await front.visit(request)

    async def _returned(self) -> AuthorizationCodeResult:
        """Return what the browser, or the user in its place, brings from the sign-in."""
        owner, listener = self._owner, self._listener
        assert listener is not None
        pasting = asyncio.create_task(listener.take_pasted())
        try:
            async with asyncio.timeout(owner.seconds):
                found = await listener.result
        except TimeoutError:
            raise McpSignInFailedError(
                "Nobody signed in to {server} within {minutes:.0f} minutes; run again: "
                "kogniterm mcp login {server}",
                server=owner.server,
                minutes=owner.seconds / 60,
            ) from None
        finally:
            pasting.cancel()
        self.returned = True
        return found


async def sign_in(
    config: ServerConfig, file: TokenFile, front: SignInFront
) -> Literal["signed in", "already", "not needed"]:
    """Sign in to the server of `config`, whose variables are filled in. Raises `McpError`."""
    from mcp import Client

    before = bool(file.read().get("tokens"))
    auth = SignIn(config.name, config.url, file, config.oauth, front)
    streams = open_http(
        config.url,
        server=config.name,
        headers=config.headers,
        auth=auth,
        insecure=config.insecure,
    )
    try:
        async with Client(streams) as client:
            # Some servers ask for the sign-in only here.
            await client.list_tools()
    except (MCPError, McpError, ExceptionGroup) as error:
        raise failure_of(error, config.name) from error
    if auth.agreed:
        return "signed in"
    return "already" if before else "not needed"


class _Kept(BaseModel):
    """A stored sign-in; `wanted` are permissions asked for while nobody could give them."""

    name: str = ""
    tokens: OAuthToken | None = None
    wanted: list[str] = []
    expires: float | None = None
    client: OAuthClientInformationFull | None = None
    authorization: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None

    @classmethod
    def read(cls, file: TokenFile) -> _Kept:
        """Return what is stored now; nothing of a file that cannot be used."""
        try:
            return cls.model_validate(file.read())
        except ValidationError:
            return cls()

    def write(self, file: TokenFile) -> None:
        file.write(self.model_dump(mode="json", exclude_none=True))


class _Step:
    """A request of a flow, and the answer to it."""

    def __init__(self, request: Request, response: Response | None = None) -> None:
        self.request, self.response = request, response

    @property
    def answer(self) -> Response:
        assert self.response is not None
        return self.response


class _Return:
    """The address on this machine to which the browser returns, for one sign-in."""

    def __init__(self, port: int, front: SignInFront, server: str, *, fixed: bool) -> None:
        self._port = port
        self._fixed = fixed
        self._front = front
        self._name = server
        self.address = ""
        self.result: asyncio.Future[AuthorizationCodeResult] = (
            asyncio.get_running_loop().create_future()
        )

    async def __aenter__(self) -> _Return:
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
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{_PATH}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        if self.result.done() and not self.result.cancelled():
            self.result.exception()  # seen: an unused one is no bug

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_MAX_REQUEST)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, *_ = f"{head.decode('latin-1')}  ".split(" ")
            status, text = "404 Not Found", ""
            if method == "GET" and urlsplit(target).path == _PATH and not self.result.done():
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
        except (
            OSError, ValueError, TimeoutError, asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
        ):  # fmt: skip
            pass
        finally:
            writer.close()

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
                    why=shown(found.get("error_description") or found["error"]),
                )
            )
            return False
        if "code" not in found:
            return False
        self.result.set_result(
            AuthorizationCodeResult(code=found["code"], state=found["state"], iss=found.get("iss"))
        )
        return True


def _may_open(address: str, server_url: str) -> bool:
    """Return whether a browser may open `address`: a web page, over https unless it is local."""
    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL:
        return False
    if not address.isascii() or not address.isprintable() or " " in address or url.userinfo:
        return False
    local = is_loopback(url.host) and is_loopback(httpx2.URL(server_url).host)
    return bool(url.host) and (url.scheme == "https" or (url.scheme == "http" and local))


_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,100}")
"""A scope of RFC 6749, of a length that can be shown."""
_MOST_SCOPES = 20


def _wants_more(response: Response) -> bool:
    """Return whether the server asks for scopes that the token does not have."""
    reason = extract_field_from_www_auth(response, "error")
    return response.status_code == 403 and reason == "insufficient_scope"


def _asking(response: Response, scopes: Sequence[str]) -> Response:
    """Return `response`, asking for `scopes` if there are any in place of its own."""
    if not scopes:
        return response
    asked = response.headers.get("www-authenticate", "").removeprefix("Bearer ")
    asked = f'scope="{" ".join(scopes)}", {asked}'
    return _refusal(response.status_code, asked, response.request)


def _refusal(status: int, asked: str, request: Request) -> Response:
    return Response(status, headers={"WWW-Authenticate": f"Bearer {asked}"}, request=request)


def _port_of(client: OAuthClientInformationFull | None) -> int:
    """Return the port of the address that `client` was registered with; 0 for any."""
    for address in (client.redirect_uris if client is not None else None) or ():
        if address.host == "127.0.0.1" and address.port:
            return address.port
    return 0


def _host(address: str) -> str:
    """Return the host of `address`, with its port if it names one."""
    url = httpx2.URL(address)
    return f"{url.host}:{url.port}" if url.port else url.host
