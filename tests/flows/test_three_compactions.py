"""A task over several compactions ends as it does in a window that holds it whole."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from kogniterm.errors import ModelUnavailableError
from kogniterm.sessions.records import Compacted
from kogniterm.types import ModelEvent, ModelInfo, ModelRequest, Reply, Usage
from tests.flows.conftest import MakeFlow

TASK = "Sum the numbers of all parts into total.txt. Never touch part3.txt."
PARTS = 8


@dataclass
class Reader:
    """A model that knows of the task only what the request tells it.

    Its summary holds the numbers that it finds. With `fails` there is no summary.
    """

    info: ModelInfo
    fails: bool = False
    requests: list[str] = field(default_factory=list)
    summaries: int = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        told = "\n".join(_words(request))
        if request.purpose == "compact":
            self.summaries += 1
            if self.fails:
                raise ModelUnavailableError("No summary today.")
            yield Reply(AIMessage("\n".join(dict.fromkeys(_numbers(told)))), Usage(1, 1, 0, 1))
            return
        self.requests.append(told)
        reply = AIMessage("Done.")
        if call := self._next(told):
            name, given = call
            number = len(self.requests)
            reply = AIMessage("", tool_calls=[{"name": name, "args": given, "id": f"c{number}"}])
        yield Reply(reply, Usage(1, 1, 0, 1))

    def _next(self, told: str) -> tuple[str, dict[str, Any]] | None:
        assert TASK in told
        if "export SCALE=3" not in told:
            return _command("mkdir -p out && cd out && export SCALE=3; sleep 1000 &")
        known = dict(re.findall(r"part(\d) has (\d+)", told))
        for part in range(PARTS):
            if str(part) not in known:
                return _command(f"seq 2000 3200; echo part{part} has $(({part} * SCALE))")
        if "total.txt (" not in told:
            total = "\n".join(f"{part} {known[str(part)]}" for part in range(PARTS))
            return "write_file", {"path": "total.txt", "content": total}
        if "j1 ended" not in told:
            assert re.search(r"job j1 still runs", told)
            return "jobs", {"action": "stop", "id": "j1"}
        return None


def _command(line: str) -> tuple[str, dict[str, Any]]:
    return "execute_command", {"command": line}


def _words(request: ModelRequest) -> Sequence[str]:
    texts = [message.text for message in request.messages]
    calls = (m.tool_calls for m in request.messages if isinstance(m, AIMessage))
    return [*texts, *(str(one["args"]) for group in calls for one in group)]


def _numbers(told: str) -> list[str]:
    return re.findall(r"part\d has \d+", told)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_small_window_ends_like_a_large_one(make_flow: MakeFlow, *, fails: bool) -> None:
    ends, compactions = list[Any](), list[int]()
    for window in (16_000, 1_000_000):
        flow = make_flow(max_steps=60, memory="off")
        total = flow.folder / "out" / "total.txt"
        total.unlink(missing_ok=True)
        session = flow.open()
        info = session.modes.model.info._replace(context_window=window, max_output=window // 4)
        session.modes.model = reader = Reader(info, fails)
        answer = await flow.run(TASK)
        left = [job.state for job in session.executor.jobs()]
        ends.append((answer.text, total.read_text(), left))
        compacted = [r for r in session.journal.records() if isinstance(r.body, Compacted)]
        compactions.append(len(compacted))
        assert reader.summaries == len(compacted)
        for request in reader.requests:
            assert request.count(TASK) == 1
        await session.finish()
        flow.close()
    assert ends[0] == ends[1]
    assert "7 21" in ends[0][1]
    assert compactions[0] >= 3
    assert compactions[1] == 0


LEFT = """
replies:
  - run: 'mkdir -p sub; cd sub; export MODE=fast; sleep 1000 &'
  - {when: {purpose: compact}, text: A job was started., repeat: forever}
  - text: Started.
"""
LATER = """
replies:
  - {when: {purpose: compact}, text: A job was started., repeat: forever}
  - text: Seen.
  - text: Again.
"""


@pytest.mark.parametrize("shortened", [False, True])
async def test_a_resumed_session_tells_once_that_its_shell_is_new(
    make_flow: MakeFlow, *, shortened: bool
) -> None:
    flow = make_flow(LEFT, memory="off")
    await flow.run("Start it.")
    if shortened:
        await flow.session.context.compact_now(asked=True)
    number = flow.session.id
    await flow.session.finish()
    flow.close()
    flow = make_flow(LATER, memory="off")
    session = flow.open(number)
    assert (await flow.run("Go on.")).text == "Seen."
    (told,) = [one for one in flow.shown if "background jobs are gone" in one]
    assert f"new one in {flow.folder}/sub" in told
    await flow.run("And on.")
    await session.context.compact_now(asked=True)
    shown = "\n".join(flow.shown)
    assert "still runs" not in shown
    assert "- export MODE=fast" not in shown


async def test_the_sandbox_is_told_of_again_when_its_note_was_summarised(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(LEFT, memory="off")
    await flow.run("Start it.")
    sandbox = flow.session.policy.sandbox
    sandbox.told = True
    await flow.session.context.compact_now(asked=True)
    assert not sandbox.told
