"""A client that sends anything, and the parts of the agent that bear it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from kogniterm.addons.acp.message_stream import MessageStream
from kogniterm.addons.acp.outbox import TextStream
from kogniterm.addons.acp.prompt_blocks import local_path
from kogniterm.addons.acp.update_parts import diffs, fence_text
from kogniterm.text.file_text import NO_NEWLINE, unified_diff
from kogniterm.text.redact import redact
from kogniterm.types import ActionRequest
from tests.addons.acp.conftest import MakeEditor

LOADED = """
import asyncio, sys
from kogniterm.addons.acp.agent_server import EditorAgent

async def hello():
    agent = EditorAgent(lambda: None, None, type("W", (), {"say": staticmethod(str)})())
    await agent.initialize(1)
    print(sorted({"acp", "langgraph", "langchain_core", "rich", "mcp"} & set(sys.modules)))

asyncio.run(hello())
"""


def test_initialize_is_answered_before_the_graph_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True)
    assert done.stdout == "['acp']\n", done.stderr


HELLO = {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
NONSENSE = [
    b"not json",
    b"[1, 2]",
    b'"text"',
    b"[" * 100_000,
    b'{"id": {}, "method": "initialize"}',
    b'{"id": 7, "method": 5}',
    b'{"id": 30, "error": "text"}',
    b'{"id": [1], "result": 1}',
    b"\xff\xfe",
    b"{}",
    b"",
]


def test_what_is_no_message_is_answered_and_the_next_one_is_heard(make_editor: MakeEditor) -> None:
    editor = make_editor("")
    requests: list[dict[str, Any]] = [
        {"id": 2, "method": "session/new", "params": {"cwd": "relative", "mcpServers": []}},
        {"id": 3, "method": "session/new", "params": {"cwd": "/no/such", "mcpServers": []}},
        {"id": 4, "method": "session/new", "params": {"cwd": 5}},
        {"id": 5, "method": "session/prompt", "params": {"sessionId": "x", "prompt": []}},
        {"id": 6, "method": "terminal/create", "params": {}},
        {"id": 8, "method": "session/list", "params": {"cursor": "../.."}},
        {"method": "session/cancel", "params": {"sessionId": "x"}},
        {"method": "no/such", "params": {}},
        {"id": 99, "result": {"outcome": {"outcome": "selected", "optionId": "approve"}}},
        {**HELLO, "id": 9, "params": {"protocolVersion": "2024-11-05", "_meta": {"a": 1}}},
    ]
    lines = [*NONSENSE, *(json.dumps({"jsonrpc": "2.0", **one}).encode() for one in requests)]
    done = subprocess.run(
        editor.command(), env=editor.environ, cwd=editor.work, input=b"\n".join(lines) + b"\n",
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    codes = {one["id"]: one.get("error", {}).get("code") for one in answers}
    # The end of the input may come before the last ones have their answer.
    expected = {2: -32602, 3: -32602, 4: -32602, 5: -32602, 6: -32601, 7: -32600, 8: -32602}
    assert {key: code for key, code in codes.items() if key in expected} == {
        key: code for key, code in expected.items() if key in codes
    }
    assert {None, 7, 30} <= set(codes)


def test_it_says_how_it_is_started(make_editor: MakeEditor) -> None:
    editor = make_editor("")
    done = subprocess.run(
        editor.command("--continue"), env=editor.environ, cwd=editor.work, input="",
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "opens the sessions that the editor asks for" in done.stderr
    with (editor.home / "stderr.txt").open("w+") as file:
        done = subprocess.run(
            editor.command(), env=editor.environ, cwd=editor.work, input="", stdout=file,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert done.returncode == 2
    assert "is started by an editor" in done.stderr


async def test_a_line_without_an_end_ends_the_connection() -> None:
    reader = asyncio.StreamReader(limit=100)
    reader.feed_data(b"x" * 1_000)

    class Nowhere:
        def write(self, data: bytes) -> None:
            raise BrokenPipeError

        async def drain(self) -> None: ...

    stream = MessageStream(reader, Nowhere())  # type: ignore[arg-type]
    assert await stream.receive() is None
    with pytest.raises(ConnectionError):
        await stream.send({"id": 1})
    assert await stream.receive() is None


def test_a_streamed_text_is_redacted_wherever_it_is_cut() -> None:
    token = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
    text = f"Use {token} now, and\n```\npassword = {token}\n```\nThat is all."
    for size in (1, 3, 7, 50, 1_000):
        stream, parts = TextStream(redact), []
        for at in range(0, len(text), size):
            stream.feed(text[at : at + size])
            parts.append(stream.take())
        parts.append(stream.rest())
        assert "".join(parts) == redact(text)
        assert token not in "".join(parts)
    long = TextStream(redact)
    long.feed("word " * 10_000)
    assert long.take() + long.rest() == "word " * 10_000


def test_nothing_of_a_tool_is_markdown() -> None:
    shown = fence_text("``` ![x](http://127.0.0.1/leak) ````").content.text  # type: ignore[union-attr]
    assert shown.startswith("`````\n")
    assert shown.endswith("\n`````")


def test_a_diff_becomes_the_places_it_changes() -> None:
    detail = "\n".join([
        "--- /x/a", "+++ /x/a", "@@ -1,2 +1,2 @@", " one", "-two", "+TWO",
        "@@ -10,1 +10,2 @@", " ten", "+eleven",
    ])  # fmt: skip
    request = ActionRequest("1", "c", "edit_file", "edit /x/a", effect="edit", detail=detail)
    first, second = diffs(request)
    assert (first.path, first.old_text, first.new_text) == ("/x/a", "one\ntwo\n", "one\nTWO\n")  # type: ignore[union-attr]
    assert (second.old_text, second.new_text) == ("ten\n", "ten\neleven\n")  # type: ignore[union-attr]


def test_a_final_newline_is_part_of_the_places_of_a_diff() -> None:
    detail = unified_diff("/x/a", "one\ntwo", "one\ntwo\n")
    (only,) = diffs(ActionRequest("1", "c", "edit_file", "edit", effect="edit", detail=detail))
    assert only.old_text == f"one\ntwo\n{NO_NEWLINE}\n"  # type: ignore[union-attr]
    assert only.new_text == "one\ntwo\n"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b%20c.txt", "/a/b c.txt"),
        ("file://localhost/a", "/a"),
        ("file://evil.example/a", ""),
        ("https://x.invalid/a", ""),
        ("file:///a%00b", ""),
        ("file://[", ""),
        ("", ""),
    ],
)
def test_only_files_of_this_machine_are_attached(uri: str, path: str) -> None:
    assert local_path(uri) == path
