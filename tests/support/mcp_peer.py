"""A server made with the SDK: `python -m tests.support.mcp_peer [ISSUER]` prints its URL.

With an issuer it asks for a sign-in, and has the tokens checked there.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import urllib.request
from typing import Any
from urllib.parse import urlencode

import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from pydantic import AnyHttpUrl


class Verifier:
    """Asks the authorization server about each token."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer

    async def verify_token(self, token: str) -> AccessToken | None:
        good = await asyncio.to_thread(self.is_good, token)
        return AccessToken(token=token, client_id="c", scopes=["use"]) if good else None

    def is_good(self, token: str) -> bool:
        address = f"{self.issuer}/introspect?{urlencode({'token': token})}"
        with urllib.request.urlopen(address) as answer:
            return json.load(answer)["active"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def count(most: int, context: Context) -> str:
    """Report progress."""
    for number in range(most):
        await context.report_progress(number, most, f"step {number}")
    return "counted"


def main(issuer: str) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    signed: dict[str, Any] = {}
    if issuer:
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(issuer),
            resource_server_url=AnyHttpUrl(url),
            required_scopes=["use"],
            validate_token_resource=False,
        )
        signed = {"token_verifier": Verifier(issuer), "auth": settings}
    server = MCPServer("peer", log_level="ERROR", **signed)
    server.tool()(add)
    server.tool()(count)
    sys.stdout.write(url + "\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
