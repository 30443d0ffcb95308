"""Replies kept on disk: found only for the same call, bounded, private, gone when cleared."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from kogniterm.models.calling import ModelOptions
from kogniterm.models.reply_cache import CachingModel, KeptReply, ReplyCache, caching
from kogniterm.types import UNUSABLE, ModelEvent, ModelInfo, ModelRequest, Reply, ToolSpec, Usage

INFO = ModelInfo("google_genai:gemini-2.5-flash", "google_genai", 20_000, 1_000)
ASKED = ModelRequest((SystemMessage("Sum up."), HumanMessage("a, b")), purpose="compact")
WRITER = """
import sys
from pathlib import Path
from kogniterm.models.reply_cache import KeptReply, ReplyCache

cache = ReplyCache(Path(sys.argv[1]), quota=40_000)
cache.use(sys.argv[2], str)
for number in range(100_000):
    cache.put(f"{number % 50:064}", KeptReply("words " * 100, number, 1), cache.mark())
    if number == 20:
        print("writing", flush=True)
"""


class Counting:
    """A model that numbers its replies, or gives the one it was made with."""

    def __init__(self, info: ModelInfo = INFO, message: AIMessage | None = None) -> None:
        self.info = info
        self.calls = 0
        self._message = message

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        del request
        self.calls += 1
        yield Reply(self._message or AIMessage(f"reply {self.calls}"), Usage(100, 10, 0, 1))


@pytest.fixture
def cache(tmp_path: Path) -> ReplyCache:
    return session_of(tmp_path, "s1")


def session_of(folder: Path, session: str, **more: Any) -> ReplyCache:
    cache = ReplyCache(folder / "replies", **more)
    cache.use(session, lambda text: text.replace("sk-12345", "[secret]"))
    return cache


async def said(model: Any, request: ModelRequest = ASKED) -> tuple[str, Usage]:
    (reply,) = [event async for event in model.stream(request)]
    return reply.message.text, reply.usage


def model_with(cache: ReplyCache, **options: Any) -> tuple[Counting, CachingModel]:
    inner = Counting()
    return inner, CachingModel(inner, cache, ModelOptions(**options))


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("replies/*/*.json"))


async def test_the_same_call_is_made_once_and_costs_nothing_again(cache: ReplyCache) -> None:
    inner, model = model_with(cache)
    assert await said(model) == ("reply 1", Usage(100, 10, 0, 1))
    assert await said(model) == (
        "reply 1",
        Usage(reused=1, reused_input=100, reused_output=10),
    )
    assert inner.calls == 1


@pytest.mark.parametrize(
    ("request_", "options", "info"),
    [
        (ASKED._replace(messages=(*ASKED.messages, HumanMessage("c"))), {}, INFO),
        (ASKED._replace(messages=(HumanMessage("Sum up."), HumanMessage("a, b"))), {}, INFO),
        (ASKED._replace(purpose="judge"), {}, INFO),
        (ASKED._replace(schema={"type": "object"}), {}, INFO),
        (ASKED, {"temperature": 0.5}, INFO),
        (ASKED, {"max_output": 50}, INFO),
        (ASKED, {"base_urls": {"google_genai": "http://127.0.0.1:1"}}, INFO),
        (ASKED, {}, INFO._replace(effort="high")),
        (ASKED, {}, INFO._replace(name="google_genai:gemini-2.5-pro")),
    ],
)
async def test_another_call_is_made(
    cache: ReplyCache, request_: ModelRequest, options: dict[str, Any], info: ModelInfo
) -> None:
    await said(model_with(cache)[1])
    inner = Counting(info)
    assert (await said(CachingModel(inner, cache, ModelOptions(**options)), request_))[1].calls == 1
    assert inner.calls == 1


@pytest.mark.parametrize("purpose", ["create_plan", "decide_action", "web_search"])
async def test_what_decides_or_answers_is_always_asked_anew(
    cache: ReplyCache, tmp_path: Path, purpose: Any
) -> None:
    inner, model = model_with(cache)
    for _ in range(2):
        await said(model, ASKED._replace(purpose=purpose))
    await said(model, ASKED._replace(tools=(ToolSpec("ls", "List.", {}),)))
    assert inner.calls == 3
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "message",
    [
        AIMessage(""),
        AIMessage("cut", response_metadata={UNUSABLE: "it was cut"}),
        AIMessage("x", tool_calls=[{"name": "ls", "args": {}, "id": "1"}]),
        AIMessage("the key is sk-12345"),
    ],
    ids=["empty", "cut", "a call", "a secret"],
)
async def test_some_replies_are_not_kept(
    cache: ReplyCache, tmp_path: Path, message: AIMessage
) -> None:
    inner = Counting(message=message)
    model = CachingModel(inner, cache, ModelOptions())
    await said(model)
    await said(model)
    assert inner.calls == 2
    assert files(tmp_path) == []


async def test_files_are_private_and_hold_nothing_of_the_request(
    cache: ReplyCache, tmp_path: Path
) -> None:
    old = os.umask(0)
    try:
        await said(model_with(cache)[1])
    finally:
        os.umask(old)
    (file,) = files(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert file.parent.name == "s1"
    assert b"Sum up" not in file.read_bytes()


async def test_a_hit_of_another_session_belongs_to_both(tmp_path: Path) -> None:
    await said(model_with(session_of(tmp_path, "s1"))[1])
    inner, model = model_with(session_of(tmp_path, "s2"))
    assert (await said(model))[0] == "reply 1"
    assert inner.calls == 0
    assert [file.parent.name for file in files(tmp_path)] == ["s1", "s2"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-10],
        lambda data: data.replace(b"reply 1", b"reply 9"),
        lambda data: b"\xff" + data[1:],
        lambda data: b"{}",
        lambda data: KeptReply("old", 1, 1).as_bytes().replace(b"[1,", b"[0,"),
    ],
)
async def test_a_damaged_file_is_no_reply(cache: ReplyCache, tmp_path: Path, damage: Any) -> None:
    inner, model = model_with(cache)
    await said(model)
    (file,) = files(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    assert (await said(model))[0] == "reply 2"
    assert (await said(model))[0] == "reply 2"
    assert inner.calls == 2


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = session_of(tmp_path, "s1", quota=4_000, max_age=1e12)
    for number in range(3):
        cache.put(f"k{number}", KeptReply("x" * 1_000, 1, 1), cache.mark())
        os.utime(tmp_path / "replies/s1" / f"k{number}.json", (number, number))
    assert cache.get("k0") is not None
    cache.put("k3", KeptReply("x" * 1_000, 1, 1), cache.mark())
    assert [file.stem for file in files(tmp_path)] == ["k0", "k2", "k3"]
    assert cache.size()[0] == 3
    assert 3_000 < cache.size()[1] <= 4_000


def test_what_is_too_old_is_neither_used_nor_kept(tmp_path: Path) -> None:
    cache = session_of(tmp_path, "s1", max_age=100.0)
    cache.put("old", KeptReply("x", 1, 1), cache.mark())
    (file,) = files(tmp_path)
    moment = file.stat().st_mtime - 101
    os.utime(file, (moment, moment))
    assert cache.get("old") is None
    cache.prune()
    assert files(tmp_path) == []
    assert not file.parent.exists()


def test_what_was_asked_before_everything_was_deleted_is_not_kept(
    cache: ReplyCache, tmp_path: Path
) -> None:
    cache.put("k0", KeptReply("x", 1, 1), cache.mark())
    since = cache.mark()
    assert ReplyCache(tmp_path / "replies").clear() == 1  # as another process does it
    cache.put("k1", KeptReply("y", 1, 1), since)
    assert files(tmp_path) == []
    assert ReplyCache(tmp_path / "nothing").clear() == 0
    cache.put("k1", KeptReply("y", 1, 1), cache.mark())
    assert cache.get("k1") == KeptReply("y", 1, 1)


def test_killed_writers_leave_whole_replies_within_the_limit(tmp_path: Path) -> None:
    folder = tmp_path / "replies"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), f"s{number}"], stdout=subprocess.PIPE
        )
        for number in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
    for file in files(tmp_path):
        kept = KeptReply.read(file.read_bytes())
        assert kept is not None
        assert kept.text == "words " * 100
    cache = session_of(tmp_path, "s3", quota=40_000)
    cache.put("last", KeptReply("x", 1, 1), cache.mark())
    assert cache.size()[1] <= 40_000
    assert cache.get("last") is not None


async def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "replies").write_text("not a folder")
    inner, model = model_with(session_of(tmp_path, "s1"))
    assert (await said(model))[0] == "reply 1"
    assert (await said(model))[0] == "reply 2"
    assert inner.calls == 2


def test_models_that_cost_nothing_are_left_alone(cache: ReplyCache) -> None:
    for provider in ("scripted", "replay", "local"):
        model = Counting(INFO._replace(provider=provider))
        assert caching(model, cache, ModelOptions()) is model
    model = Counting()
    assert caching(model, None, ModelOptions()) is model
    assert isinstance(caching(model, cache, ModelOptions()), CachingModel)


async def test_nothing_is_kept_before_the_session_is_known(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies")
    inner, model = model_with(cache)
    await asyncio.gather(said(model), said(model))
    assert inner.calls == 2
    assert files(tmp_path) == []
