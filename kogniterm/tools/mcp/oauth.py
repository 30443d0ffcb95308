"""Sign in to MCP servers with OAuth: the SDK's flow, with our files, questions and limits.

`SignIn` is what `http_transport.open_http` takes as `auth`. With a `SignInFront` it may ask the
user; without one it uses and renews what is stored, and else raises `McpSignInNeededError` before
anything is registered.

The SDK forgets between processes when the token expires and where it is renewed, and asks the user
again instead of renewing a token that a server forgot; so both are stored here. It also holds its
lock while a request runs, so that a long call would block its own cancellation; so its flow runs
only beside the requests, to renew or to sign in.

Importing this module loads the SDK: import it where a server is contacted.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal
from urllib.parse import parse_qs, urlsplit

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

from kogniterm.tools.mcp.bounded_transport import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    bounded_network,
)
from kogniterm.tools.mcp.http_transport import open_http
from kogniterm.tools.mcp.mcp_errors import (
    McpError,
    McpSignInFailedError,
    failure_of,
    more_needed,
    show_words,
    sign_in_needed,
)
from kogniterm.tools.mcp.remote_address import host_of, may_open
from kogniterm.tools.mcp.server_config import OAuthConfig, ServerConfig
from kogniterm.tools.mcp.sign_in_front import (
    RETURN_PATH,
    BrowserReturn,
    SignInFront,
    SignInRequest,
)
from kogniterm.tools.mcp.token_files import TokenFile

SIGN_IN_SECONDS = 600.0
"""Time that a sign-in waits for the browser of the user."""
_EARLY = 30.0
"""Seconds before a token expires at which it is renewed."""
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,100}")
"""A scope of RFC 6749, of a length that can be shown."""
_MOST_SCOPES = 20


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
        insecure: bool = False,
        seconds: float = SIGN_IN_SECONDS,
    ) -> None:
        self.agreed = False
        self.server, self.url, self.file = server, url, file
        self.settings = settings or OAuthConfig()
        self.front, self.insecure, self.seconds = front, insecure, seconds
        self._renewing = asyncio.Lock()

    async def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        """Sign `request`; renew the token before or after it, and sign in if that is not enough."""
        response = self._wanted_before(request)
        if response is None:
            token = await self._token(request)
            response = yield _sign_request(request, token)
            if response.status_code == 401 and token:
                # Another process may have renewed the token, or the server forgot it too early.
                newer = await self._token(request, rejected=token)
                if newer not in ("", token):
                    response = yield _sign_request(request, newer)
        if response.status_code != 401 and not _wants_more(response):
            return
        if self.front is None:
            raise self._sign_in_error(response)
        await self._sign_in(request, response, self.front)
        yield request

    def _wanted_before(self, request: Request) -> Response | None:
        """Return the refusal of an earlier request that wanted more permissions, once for a user.

        The stored token stays until the user has agreed to another one with more permissions.
        """
        wanted = " ".join(_Kept.read(self.file).wanted)
        if self.front is None or self.agreed or not wanted:
            return None
        asked = f'Bearer error="insufficient_scope", scope="{wanted}"'
        return Response(403, headers={"WWW-Authenticate": asked}, request=request)

    def _sign_in_error(self, response: Response) -> McpError:
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

    async def _token(self, request: Request, rejected: str = "") -> str:
        """Return a token to sign `request` with, renewed if it has to be; "" if there is none.

        `rejected` is a token that the server did not take although it is still valid.
        """
        flow = _Flow(self)
        if flow.is_old(rejected):
            async with self._renewing, self.file.locked():
                flow = _Flow(self)  # another task or process may have renewed it
                if flow.is_old(rejected):
                    await self._renew(flow, request)
        return flow.token

    async def _renew(self, flow: _Flow, request: Request) -> None:
        flow.context.token_expiry_time = 1.0
        answer = await self._run(flow, request)
        if flow.token:
            return
        if answer.status_code not in (400, 401):
            raise McpSignInFailedError(
                "The sign-in to the MCP server {server} could not be renewed: {host} gave no "
                "usable answer (HTTP status {status}). Try again later, or run: "
                "kogniterm mcp login {server}",
                server=self.server,
                host=host_of(str(answer.request.url)),
                status=answer.status_code,
            )
        # The sign-in has ended; what was registered is still good for the next one.
        flow.store()

    async def _sign_in(self, request: Request, refusal: Response, front: SignInFront) -> None:
        """Sign in because of `refusal`, and sign `request`."""
        if self.settings.scopes:
            asked = refusal.headers.get("www-authenticate", "").removeprefix("Bearer ")
            scopes = " ".join(self.settings.scopes)
            refusal.headers["www-authenticate"] = f'Bearer scope="{scopes}", {asked}'
        fixed = self.settings.callback_port
        port = fixed or _port_of(_Flow(self).context.client_info)
        async with BrowserReturn(port, front, self.server, fixed=fixed > 0) as listener:
            flow = _Flow(self, front, listener)
            try:
                await self._run(flow, request, refusal)
            except OAuthFlowError as error:
                if not flow.returned or isinstance(error, OAuthTokenError):
                    raise
                # The SDK's words contain the values, which are secrets of this sign-in.
                raise McpSignInFailedError(
                    "The answer of the browser does not belong to this sign-in to {server}, so "
                    "it was not used; run again: kogniterm mcp login {server}",
                    server=self.server,
                ) from error

    async def _run(
        self, flow: _Flow, request: Request, refusal: Response | None = None
    ) -> Response:
        """Run the SDK's flow up to `request`, after its `refusal` if there is one.

        Returns the answer to the last request of the flow.
        """
        client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            **bounded_network(httpx2.URL(self.url), insecure=self.insecure),
        )
        async with client, aclosing(flow.async_auth_flow(request)) as steps:
            outgoing = await anext(steps)
            if refusal is not None:
                outgoing = await steps.asend(refusal)
            while outgoing is not request:
                answer = await client.send(outgoing)
                outgoing = await steps.asend(answer)
            return answer


class _Flow(OAuthClientProvider):
    """The SDK's flow, with its storage, its handlers, and what is stored now."""

    def __init__(
        self, owner: SignIn, front: SignInFront | None = None, listener: BrowserReturn | None = None
    ) -> None:
        self._owner, self._front, self._listener = owner, front, listener
        self.returned = False
        address = listener.address if listener is not None else f"http://127.0.0.1{RETURN_PATH}"
        super().__init__(
            owner.url,
            OAuthClientMetadata(
                client_name="KogniTerm",
                redirect_uris=[AnyUrl(address)],
                token_endpoint_auth_method="none",
            ),
            self,
            redirect_handler=self._visit,
            callback_handler=self._sign_in_result,
        )
        kept, context = _Kept.read(owner.file), self.context
        context.current_tokens, context.oauth_metadata = kept.tokens, kept.authorization
        # A sign-in renews nothing: it begins with the answer that asked for it.
        context.token_expiry_time = kept.expires if listener is None else None
        context.protected_resource_metadata = kept.resource
        if kept.resource is not None:
            context.auth_server_url = str(kept.resource.authorization_servers[0])
        client, settings = kept.client, owner.settings
        if settings.client_id:
            context.client_info = OAuthClientInformationFull(
                client_id=settings.client_id,
                client_secret=settings.client_secret or None,
                issuer=client.issuer if client is not None else None,
            )
        elif client is not None and (
            listener is None or address in map(str, client.redirect_uris or ())
        ):
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
                host=host_of(self.context.auth_server_url or self._owner.url),
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
        _Kept(
            name=self._owner.server,
            tokens=context.current_tokens,
            wanted=[] if self.returned else _Kept.read(file).wanted,
            expires=context.token_expiry_time,
            client=client,
            authorization=context.oauth_metadata,
            resource=context.protected_resource_metadata,
        ).write(file)

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
        if not may_open(address, owner.url):
            raise McpSignInFailedError(
                "The MCP server {server} asks to open {address}, which is not a web page over "
                "https; it was not opened.",
                server=owner.server,
                address=show_words(address),
            )
        scopes = parse_qs(urlsplit(address).query).get("scope", ())
        request = SignInRequest(
            owner.server,
            host_of(owner.url),
            host_of(address),
            tuple(" ".join(scopes).split()),
            address,
        )
        if not await front.agree(request):
            raise McpSignInFailedError(
                "{server}: you did not agree, so nothing was opened.", server=owner.server
            )
        owner.agreed = True
        await front.visit(request)

    async def _sign_in_result(self) -> AuthorizationCodeResult:
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
    auth = SignIn(config.name, config.url, file, config.oauth, front, insecure=config.insecure)
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


def _wants_more(response: Response) -> bool:
    """Return whether the server asks for scopes that the token does not have."""
    reason = extract_field_from_www_auth(response, "error")
    return response.status_code == 403 and reason == "insufficient_scope"


def _sign_request(request: Request, token: str) -> Request:
    if token:
        request.headers["Authorization"] = f"Bearer {token}"
    return request


def _port_of(client: OAuthClientInformationFull | None) -> int:
    """Return the port of the address that `client` was registered with; 0 for any."""
    for address in (client.redirect_uris if client is not None else None) or ():
        if address.host == "127.0.0.1" and address.port:
            return address.port
    return 0
