"""MCP servers as users configure them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kogniterm.errors import UnusableValueError
from kogniterm.tools.mcp.server_config import (
    CALL_SECONDS,
    ServerConfig,
    parse_server,
    parse_servers,
)
from kogniterm.tools.mcp.server_tools import McpTool
from kogniterm.tools.mcp.server_values import ServerTool
from kogniterm.types import Observation


def servers(**entries: Any) -> str:
    return json.dumps({"mcpServers": entries})


def test_local_and_remote_servers_in_the_shared_shape() -> None:
    text = servers(
        files={"command": "npx", "args": ["-y", "server-files", "."], "env": {"DEBUG": 1}},
        issues={"type": "http", "url": "https://mcp.example/x", "headers": {"A": "B ${TOKEN}"}},
        gemini={"httpUrl": "https://g.example", "timeout": 5, "includeTools": ["a", "b"]},
    )
    found = parse_servers(text, "mcp.json")
    assert found.problems == ()
    files, issues, gemini = found.servers
    assert (files.local, files.shown, files.env) == (
        True, "npx -y server-files .", {"DEBUG": "1"},
    )  # fmt: skip
    assert files.timeout == CALL_SECONDS
    assert (issues.local, issues.url) == (False, "https://mcp.example/x")
    assert gemini.timeout == 5
    assert (gemini.offers("a"), gemini.offers("c")) == (True, False)


@pytest.mark.parametrize(
    ("name", "entry", "why"),
    [
        ("a b", {"command": "x"}, "its name must be"),
        ("a__b", {"command": "x"}, "its name must be"),
        ("a", [], "it must be an object"),
        ("a", {}, "either a command or a url"),
        ("a", {"command": "x", "url": "https://x.example"}, "either a command or a url"),
        ("a", {"url": "file:///etc/passwd"}, "must begin with https"),
        ("a", {"command": "./x"}, "a path that begins with /"),
        ("a", {"command": "x", "args": "y"}, "args must be a list"),
        ("a", {"command": "x", "env": {"A": ["b"]}}, "env must be an object of texts"),
        ("a", {"command": "x", "timeout": True}, "timeout must be a number"),
        ("a", {"command": "x", "comand": "y"}, "did you mean command"),
        ("a", {"command": "x\0y"}, "command must be text"),
        ("a", {"url": "https://x.example", "oauth": {"callbackPort": 99999}}, "must be a port"),
    ],
)
def test_a_wrong_entry_says_what_is_wrong(name: str, entry: object, why: str) -> None:
    with pytest.raises(UnusableValueError, match=why):
        parse_server(name, entry)


def test_a_wrong_entry_leaves_the_others_in_use() -> None:
    found = parse_servers(servers(good={"command": "x"}, bad={}), "mcp.json")
    assert [one.name for one in found.servers] == ["good"]
    assert [str(one) for one in found.problems] == [
        "MCP server bad in mcp.json is not used: it needs either a command or a url."
    ]


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": []}', "[" * 100_000])
def test_a_file_that_is_none_is_told(text: str) -> None:
    found = parse_servers(text, "mcp.json")
    assert found.servers == ()
    assert len(found.problems) == 1


def test_an_empty_file_has_no_servers() -> None:
    assert parse_servers("", "mcp.json").problems == ()


def test_variables_are_filled_in_only_when_asked() -> None:
    entry = {"command": "x", "args": ["${HOME}/d"], "env": {"T": "${TOKEN}", "L": "${L:-info}"}}
    server = parse_server("a", entry)
    assert server.env["T"] == "${TOKEN}"
    assert server.missing({"HOME": "/h"}) == ("TOKEN",)
    with pytest.raises(UnusableValueError, match="TOKEN not set"):
        server.resolve({"HOME": "/h"})
    made = server.resolve({"HOME": "/h", "TOKEN": "t"})
    assert (made.args, made.env) == (("/h/d",), {"T": "t", "L": "info"})


def test_values_are_not_filled_in_twice_and_not_printed() -> None:
    server = parse_server("a", {"command": "x", "env": {"T": "${A}"}})
    assert server.resolve({"A": "${B}", "B": "b"}).env["T"] == "${B}"
    assert "secret" not in repr(parse_server("a", {"command": "x", "env": {"T": "secret"}}))


def test_trust_is_of_the_launch_and_not_of_values() -> None:
    one = parse_server("a", {"command": "x", "env": {"T": "1"}})
    assert one.launch == parse_server("a", {"command": "x", "env": {"T": "2"}}).launch
    for other in (
        {"command": "y", "env": {"T": "1"}},
        {"command": "x", "args": ["z"], "env": {"T": "1"}},
        {"command": "x", "env": {"U": "1"}},
        {"command": "x", "env": {"T": "1"}, "network": True},
    ):
        assert parse_server("a", other).launch != one.launch


def test_a_project_may_not_leave_the_sandbox() -> None:
    with pytest.raises(UnusableValueError, match="only your own"):
        parse_server("a", {"command": "x", "sandbox": False}, of_project=True)


@pytest.mark.parametrize(
    ("config", "hosts"),
    [
        (ServerConfig("a", "mcp.json", url="https://mcp.example:8443/x"), ("mcp.example",)),
        (ServerConfig("a", "mcp.json", command="server"), ()),
    ],
)
def test_a_tool_names_the_host_that_it_speaks_to(
    config: ServerConfig, hosts: tuple[str, ...]
) -> None:
    class Nobody:
        async def call(self, server: str, tool: str, arguments: Mapping[str, Any]) -> Observation:
            raise AssertionError

    assert McpTool(config, ServerTool("t", "Does it", {}), Nobody()).hosts({}) == hosts
