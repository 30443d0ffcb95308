"""Records that must survive power loss are on disk before what depends on it begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from kogniterm.runtime.fixed_questions import LimitQuestion
from kogniterm.sessions.records import (
    Decided,
    InputReceived,
    Intent,
    NodeRan,
    Noted,
    Outcome,
    TurnClosed,
)
from kogniterm.storage import drivers
from kogniterm.types import LimitChoice, events
from tests.flows.conftest import Flow, MakeFlow, no, yes


class Disk:
    """Records of the open session that would be left after a loss of power, at any moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flow: Flow | None = None
        self.reached = 0
        inner = drivers.transaction

        @contextmanager
        def transaction(connection: Any, *, durable: bool = False) -> Iterator[None]:
            with inner(connection, durable=durable):
                yield
            if durable:
                self.reached = self._written(connection)

        monkeypatch.setattr(drivers, "transaction", transaction)

    @staticmethod
    def _written(connection: Any) -> int:
        ((last,),) = connection.execute("SELECT coalesce(max(seq), 0) FROM records").fetchall()
        return int(last)

    def bodies(self) -> list[Any]:
        """Return the bodies of the records on disk, oldest first."""
        assert self.flow is not None
        records = self.flow.session.journal.records()
        return [record.body for record in records if record.seq <= self.reached]

    def last(self, kind: type[Any]) -> Any:
        """Return the last record on disk of this kind, or None."""
        return next((body for body in reversed(self.bodies()) if type(body) is kind), None)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def watch(flow: Flow, disk: Disk, seen: Callable[[Any], None]) -> None:
    """Call `seen` with each event of the flow, at the moment at which a user would see it."""
    disk.flow = flow
    tell = flow.tell

    def both(event: Any) -> None:
        tell(event)
        seen(event)

    flow.tell = both  # type: ignore[method-assign]  # the sink of this one flow


def commands(flow: Flow, called: Callable[[str], None]) -> None:
    """Call `called` when the executor of the flow is about to run a command."""
    session = flow.session or flow.open()
    executor: Any = session.executor
    run = executor.run

    def watched(command: str, **options: Any) -> Any:
        called(command)
        return run(command, **options)

    executor.run = watched


async def test_the_intent_is_on_disk_before_the_executor_is_called(
    make_flow: MakeFlow, disk: Disk
) -> None:
    flow = make_flow("replies: [{run: echo 1}, {run: echo 2}, {text: Done.}]")
    found: list[tuple[str, str]] = []
    watch(flow, disk, lambda event: None)
    commands(flow, lambda command: found.append((command, disk.last(Intent).command)))
    await flow.run()
    assert found == [("echo 1", "echo 1"), ("echo 2", "echo 2")]


async def test_the_intent_of_a_tool_is_on_disk_before_it_acts(
    make_flow: MakeFlow, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = "{tool: write_file, arguments: {path: made.txt, content: hi}}"
    flow = make_flow(f"replies: [{{calls: [{call}]}}, {{text: Done.}}]")
    watch(flow, disk, lambda event: None)
    session = flow.open()
    runner: Any = session.services.runner
    find, found = runner.tool_of, []

    def tool_of(name: str) -> Any:
        found.append((disk.last(Intent), (flow.folder / "made.txt").exists()))
        return find(name)

    monkeypatch.setattr(runner, "tool_of", tool_of)
    await flow.run()
    assert (flow.folder / "made.txt").read_text() == "hi"
    assert [intent is not None and not made for intent, made in found] == [True] * len(found)
    assert found


async def test_the_input_is_on_disk_before_the_model_is_called(
    make_flow: MakeFlow, disk: Disk
) -> None:
    flow = make_flow("replies: [{text: Done., repeat: forever}]")
    given: list[str] = []

    def seen(event: Any) -> None:
        if isinstance(event, events.ModelCalled):
            given.append(disk.last(InputReceived).input.text)

    watch(flow, disk, seen)
    await flow.run("first")
    await flow.run("second")
    assert given == ["first", "second"]


async def test_an_end_is_on_disk_before_it_is_reported(make_flow: MakeFlow, disk: Disk) -> None:
    call = "{tool: write_file, arguments: {path: made.txt, content: hi}}"
    script = f"replies: [{{run: echo 1}}, {{run: echo 2}}, {{calls: [{call}]}}, {{text: Done.}}]"
    flow = make_flow(script, decisions=[yes, no("not now"), yes])
    ends: list[tuple[str, str, Any]] = []

    def seen(event: Any) -> None:
        outcome = disk.last(Outcome)
        if isinstance(event, events.CommandEnded | events.ActionEnded):
            ends.append((event.request_id, outcome.request_id, outcome.status))
        if isinstance(event, events.TurnEnded):
            ends.append(("turn", "turn" if disk.last(TurnClosed) else "", event.answer.stop))

    watch(flow, disk, seen)
    await flow.run()
    assert [(reported == stored, how) for reported, stored, how in ends] == [
        (True, "finished"),
        (True, "finished"),
        (True, "refused"),
    ]
    statuses = [body.status for body in disk.bodies() if isinstance(body, Outcome)]
    assert statuses == ["finished", "refused", "finished"]
    assert [body.decision.kind for body in disk.bodies() if isinstance(body, Decided)] == [
        "approve",
        "reject",
        "approve",
    ]


@pytest.mark.parametrize("choice", ["more", "unlimited", "end"])
async def test_the_question_at_a_limit_and_its_answer_are_on_disk(
    make_flow: MakeFlow, disk: Disk, choice: LimitChoice
) -> None:
    flow = make_flow("replies: [{run: echo 1}, {run: echo 2}, {text: Done.}]", max_steps=2)
    notes: list[Sequence[Any]] = []

    def limits() -> list[Any]:
        kept = [body.data for body in disk.bodies() if isinstance(body, Noted)]
        return [data.get("choice") for data in kept if "limit" in data]

    async def at_limit(question: LimitQuestion) -> LimitChoice:
        notes.append(limits())
        return choice

    def seen(event: Any) -> None:
        if isinstance(event, events.LimitDecided):
            notes.append(limits())

    flow.at_limit = at_limit
    watch(flow, disk, seen)
    await flow.run()
    assert notes == [[None], [None, choice]]
    session_id = flow.session.id
    flow.close()
    assert flow.open(session_id).state.limit is None


async def test_nothing_the_model_said_is_lost_once_a_command_runs(
    make_flow: MakeFlow, disk: Disk
) -> None:
    flow = make_flow("replies: [{text: I look., run: echo 1}, {text: Done.}]")
    said: list[str] = []
    watch(flow, disk, lambda event: None)

    def running(command: str) -> None:
        nodes = [body.update for body in disk.bodies() if isinstance(body, NodeRan)]
        said.extend(message.text for update in nodes for message in update.messages)

    commands(flow, running)
    await flow.run()
    assert said == ["I look."]
