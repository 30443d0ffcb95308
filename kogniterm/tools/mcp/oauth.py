"""Sign in to MCP servers with OAuth: the SDK's flow, with our files, questions and limits.

`SignIn` is what `http_transport.open_http` takes as `auth`. With a `SignInFront` it may ask the
user; without one it uses and renews what is stored, and else raises `McpSignInNeededError` before
anything is registered.

The SDK loses three things between processes, which are stored here: when the token expires, where
it is renewed, and which authorization server issued it. It also holds its lock while a request
runs, so that a long call would block its own cancellation; `_auth_flow` holds none then.

Importing this module loads the SDK: import it where a server is contacted.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import parse_qs, urlsplit

import httpx2
from httpx2 import Request, Response
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.exceptions import MCPError
from pydantic import AnyUrl, ValidationError

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


@dataclass(frozen=True, slots=True)
class SignInRequest:
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


class SignIn(OAuthClientProvider):
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
        self._server = server
        self._settings = settings or OAuthConfig()
        self._front = front
        self._seconds = seconds
        self._file = file
        self._wanted: tuple[str, ...] = ()
        """The permissions that the server asked for while nobody could give them."""
        self._return: _Return | None = None
        self._renewing = asyncio.Lock()
        super().__init__(
            url,
            _client_metadata(self._settings, f"http://127.0.0.1{_PATH}"),
            _Stored(self),
            redirect_handler=self._visit,
            callback_handler=self._returned,
        )

    # --- requests --------------------------------------------------------------------------------

    async def _auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        """Sign `request`; renew the token before or after it, and sign in if that is not enough."""
        self._load()
        if self._front is not None and self._wanted and not self.agreed:
            # The stored token stays until the user has agreed to another one with more permissions.
            self.context.current_tokens = None
        if not self._is_fresh():
            async with aclosing(self._renewed("")) as steps:
                async for step in steps:
                    step.response = yield step.request
        used = self._sign(request)
        response = yield request
        if response.status_code == 401 and used:
            # Another process may have renewed the token, or the server forgot it too early.
            async with aclosing(self._renewed(used)) as steps:
                async for step in steps:
                    step.response = yield step.request
            if self._sign(request) not in ("", used):
                response = yield request
        if response.status_code != 401 and not _wants_more(response):
            return
        if self._front is None:
            if response.status_code == 401:
                raise sign_in_needed(self._server)
            self._want_more(response)
        async with self._returning():
            flow = super()._auth_flow(request)
            try:
                outgoing = await anext(flow)
                while True:
                    response = yield outgoing
                    outgoing = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()

    def _want_more(self, response: Response) -> None:
        """Keep the permissions that the server wants for the next sign-in. Raises `McpError`."""
        named = (extract_field_from_www_auth(response, "scope") or "").split()
        scopes = [one for one in named if _SCOPE.fullmatch(one)][:_MOST_SCOPES]
        if not scopes:
            raise more_needed(self._server)
        self._wanted = tuple(dict.fromkeys((*self._wanted, *scopes)))[:_MOST_SCOPES]
        self._store()
        raise more_needed(self._server, " ".join(scopes))

    async def _renewed(self, rejected: str) -> AsyncGenerator[_Step, None]:
        """Renew the token, unless another task or process did; yield the request for it.

        `rejected` is a token that the server did not take although it is still valid.
        """
        if not self.context.can_refresh_token():
            return
        async with self._renewing, self._file.locked():
            self._load()
            tokens = self.context.current_tokens
            renewed = tokens is not None and tokens.access_token != rejected
            if (renewed and self._is_fresh()) or not self.context.can_refresh_token():
                return
            self._choose_authentication()
            step = _Step(await self._refresh_token())
            yield step
            assert step.response is not None
            await self._take_renewed(step.response)

    async def _take_renewed(self, response: Response) -> None:
        status = response.status_code
        if status in (400, 401):
            # The sign-in has ended; what was registered is still good for the next one.
            self.context.clear_tokens()
            self._store()
            return
        if status != 200 or not await self._handle_refresh_response(response):
            raise McpSignInFailedError(
                "The sign-in to the MCP server {server} could not be renewed: {host} gave no "
                "usable answer (HTTP status {status}). Try again later, or run: "
                "kogniterm mcp login {server}",
                server=self._server,
                host=_host(str(response.request.url)),
                status=status,
            )

    def _sign(self, request: Request) -> str:
        """Put the token into `request`; returns it."""
        if not self.context.is_token_valid() or self.context.current_tokens is None:
            return ""
        self._add_auth_header(request)
        return self.context.current_tokens.access_token

    def _is_fresh(self) -> bool:
        until = self.context.token_expiry_time
        return self.context.is_token_valid() and (until is None or until - time.time() > _EARLY)

    # --- signing in ------------------------------------------------------------------------------

    @asynccontextmanager
    async def _returning(self) -> AsyncIterator[None]:
        """Listen for the browser, with an address that the registered client has."""
        settings = self._settings
        port = settings.callback_port or _port_of(self.context.client_info)
        fixed = settings.callback_port > 0
        async with _Return(port, fixed, self._front, self._server) as listener:
            self._return = listener
            self.context.client_metadata = _client_metadata(settings, listener.address)
            registered = self.context.client_info
            if registered is not None and not settings.client_id:
                known = [str(one) for one in registered.redirect_uris or ()]
                if listener.address not in known:
                    self.context.client_info = None
            try:
                yield
            finally:
                self._return = None

    def _registered(self, client: OAuthClientInformationFull) -> None:
        """Store a client that was just registered, unless the user registered one by hand."""
        if self._settings.client_id:
            raise McpSignInFailedError(
                "{server} now signs in at {host}, where the clientId of your configuration was not "
                "registered. If that is right, run: kogniterm mcp logout {server}",
                server=self._server,
                host=_host(self._expected_issuer()),
            )
        self.context.client_info = client
        self._store()

    async def _perform_authorization(self) -> Request:
        if self._settings.scopes:
            self.context.client_metadata.scope = " ".join(self._settings.scopes)
        elif self._wanted:
            usual = (self.context.client_metadata.scope or "").split()
            self.context.client_metadata.scope = " ".join(dict.fromkeys((*usual, *self._wanted)))
        self._choose_authentication()
        return await super()._perform_authorization()

    def _choose_authentication(self) -> None:
        """Choose how a client registered by hand proves itself, as its server supports it."""
        client, metadata = self.context.client_info, self.context.oauth_metadata
        if client is None or client.client_id != self._settings.client_id:
            return
        supported = metadata.token_endpoint_auth_methods_supported if metadata else None
        basic = supported is None or "client_secret_basic" in supported
        method = "client_secret_basic" if basic else "client_secret_post"
        client.token_endpoint_auth_method = method if client.client_secret else "none"

    async def _visit(self, address: str) -> None:
        """Ask the user, and open `address` only then."""
        front = self._front
        assert front is not None
        parts = urlsplit(address)
        query = parse_qs(parts.query)
        if not _may_open(address, self.context.server_url):
            raise McpSignInFailedError(
                "The MCP server {server} asks to open {address}, which is not a web page over "
                "https; it was not opened.",
                server=self._server,
                address=shown(address),
            )
        request = SignInRequest(
            self._server,
            _host(self.context.server_url),
            _host(address),
            tuple(" ".join(query.get("scope", ())).split()),
            address,
        )
        if not await front.agree(request):
            raise McpSignInFailedError(
                "{server}: you did not agree, so nothing was opened.", server=self._server
            )
        self.agreed = True
        await front.visit(request)

    async def _returned(self) -> AuthorizationCodeResult:
        """Return what the browser, or the user in its place, brings from the sign-in."""
        listener, front = self._return, self._front
        assert listener is not None
        assert front is not None
        waits = {
            asyncio.ensure_future(listener.result),
            asyncio.ensure_future(_pasted(front, self._server)),
        }
        try:
            done, _rest = await asyncio.wait(
                waits, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if not done:
            raise McpSignInFailedError(
                "Nobody signed in to {server} within {minutes:.0f} minutes; run again: "
                "kogniterm mcp login {server}",
                server=self._server,
                minutes=self._seconds / 60,
            )
        return done.pop().result()

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        try:
            return await super()._perform_authorization_code_grant()
        except OAuthFlowError as error:
            if "mismatch" not in str(error) and "missing iss" not in str(error):
                raise
            # The SDK's words contain the values, which are secrets of this sign-in.
            raise McpSignInFailedError(
                "The answer of the browser does not belong to this sign-in to {server}, so it was "
                "not used; run again: kogniterm mcp login {server}",
                server=self._server,
            ) from error

    # --- files -----------------------------------------------------------------------------------

    def _load(self) -> None:
        """Take over what is stored now; another process may have changed it."""
        stored, context = self._file.read(), self.context
        context.current_tokens = _parsed(OAuthToken, stored.get("tokens"))
        expires = stored.get("expires")
        context.token_expiry_time = expires if isinstance(expires, int | float) else None
        context.oauth_metadata = _parsed(OAuthMetadata, stored.get("authorization"))
        context.protected_resource_metadata = _parsed(
            ProtectedResourceMetadata, stored.get("resource")
        )
        resource = context.protected_resource_metadata
        context.auth_server_url = str(resource.authorization_servers[0]) if resource else None
        client = _parsed(OAuthClientInformationFull, stored.get("client"))
        if self._settings.client_id:
            issuer = client.issuer if client is not None else None
            client = OAuthClientInformationFull(
                client_id=self._settings.client_id,
                client_secret=self._settings.client_secret or None,
                issuer=issuer,
            )
        context.client_info = client
        wanted = stored.get("wanted")
        self._wanted = tuple(map(str, wanted)) if isinstance(wanted, list) else ()
        self._initialized = True

    def _store(self) -> None:
        context = self.context
        client = context.client_info
        if client is not None and self._settings.client_id == client.client_id:
            # The secret is the configuration's; what it is bound to is stored.
            metadata = context.oauth_metadata
            issuer = str(metadata.issuer) if metadata else None
            client = client.model_copy(update={"client_secret": None, "issuer": issuer})
        self._file.write(
            {
                "name": self._server,
                "tokens": _dumped(context.current_tokens),
                "wanted": list(self._wanted),
                "expires": context.token_expiry_time,
                "client": _dumped(client),
                "authorization": _dumped(context.oauth_metadata),
                "resource": _dumped(context.protected_resource_metadata),
            }
        )


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


@dataclass(slots=True)
class _Step:
    """A request of a flow, and the answer to it."""

    request: Request
    response: Response | None = None


class _Stored:
    """The SDK's door to the stored sign-in: `SignIn` holds everything that is stored."""

    def __init__(self, owner: SignIn) -> None:
        self._owner = owner

    async def get_tokens(self) -> OAuthToken | None:
        return self._owner.context.current_tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._owner.context.client_info

    async def set_tokens(self, tokens: OAuthToken) -> None:
        del tokens
        if self._owner.agreed:
            self._owner._wanted = ()
        self._owner._store()

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._owner._registered(client_info)


class _Return:
    """The address on this machine to which the browser returns, for one sign-in."""

    def __init__(self, port: int, fixed: bool, front: SignInFront | None, server: str) -> None:
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
            self._server = await asyncio.start_server(
                self._serve, "127.0.0.1", self._port, limit=_MAX_REQUEST
            )
        except OSError as error:
            if self._fixed:
                raise McpSignInFailedError(
                    "Port {port}, the callbackPort of the MCP server {server}, is in use; end the "
                    "program that uses it.",
                    port=self._port,
                    server=self._name,
                ) from error
            # The port of the last sign-in is in use; the client is registered again for another.
            self._server = await asyncio.start_server(
                self._serve, "127.0.0.1", 0, limit=_MAX_REQUEST
            )
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{_PATH}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        if self.result.done() and not self.result.cancelled():
            self.result.exception()  # seen: an unused one is no bug

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            status, text = self._take(head.decode("latin-1").split("\r\n")[0])
            body = text.encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                f"Content-Length: {len(body)}\r\nReferrer-Policy: no-referrer\r\n"
                "Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _take(self, line: str) -> tuple[str, str]:
        """Return the status and text for the browser; the first answer of a sign-in counts."""
        method, _, rest = line.partition(" ")
        target = rest.partition(" ")[0]
        if method != "GET" or urlsplit(target).path != _PATH or self.result.done():
            return "404 Not Found", ""
        try:
            found = _answer(target, self._name)
        except McpError as error:
            self.result.set_exception(error)
            return "400 Bad Request", self._page(done=False)
        if found is None:
            return "400 Bad Request", self._page(done=False)
        self.result.set_result(found)
        return "200 OK", self._page(done=True)

    def _page(self, *, done: bool) -> str:
        return self._front.page(done=done) if self._front is not None else ""


async def _pasted(front: SignInFront, server: str) -> AuthorizationCodeResult:
    """Return the answer in an address that the user pasted."""
    again = False
    while True:
        found = _answer((await front.pasted(again=again)).strip(), server)
        if found is not None:
            return found
        again = True


def _answer(address: str, server: str) -> AuthorizationCodeResult | None:
    """Return the answer in the address to which a sign-in led; None if there is none.

    Raises `McpSignInFailedError` for an answer that says so.
    """
    try:
        query = parse_qs(urlsplit(address).query, max_num_fields=50)
    except ValueError:
        return None
    first = {name: values[0] for name, values in query.items()}
    if "error" in first and "state" in first:
        raise McpSignInFailedError(
            "Signing in to the MCP server {server} failed: {why}.",
            server=server,
            why=shown(first.get("error_description") or first["error"]),
        )
    if "code" not in first or "state" not in first:
        return None
    return AuthorizationCodeResult(code=first["code"], state=first["state"], iss=first.get("iss"))


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


def _client_metadata(settings: OAuthConfig, address: str) -> OAuthClientMetadata:
    return OAuthClientMetadata(
        client_name="KogniTerm",
        redirect_uris=[AnyUrl(address)],
        scope=" ".join(settings.scopes) or None,
        token_endpoint_auth_method="none",
    )


def _port_of(client: OAuthClientInformationFull | None) -> int:
    """Return the port of the address that `client` was registered with; 0 for any."""
    for address in (client.redirect_uris if client is not None else None) or ():
        if address.host == "127.0.0.1" and address.port:
            return address.port
    return 0


def _parsed(kind: Any, value: object) -> Any:
    """Return the stored `value` as a model; None for what is missing or unusable."""
    if value is None:
        return None
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None


def _dumped(value: Any) -> object:
    return None if value is None else value.model_dump(mode="json", exclude_none=True)


def _host(address: str) -> str:
    """Return the host of `address`, with its port if it names one."""
    url = httpx2.URL(address)
    return f"{url.host}:{url.port}" if url.port else url.host
