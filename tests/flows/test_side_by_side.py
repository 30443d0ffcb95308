"""Independent actions of one response run at once; everything else keeps its order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kogniterm.sessions.records import Intent, Judged, Outcome
from kogniterm.types import Observation, events
from tests.flows.conftest import Flow, MakeFlow, no, yes
from tests.flows.program import replayed, start_run
from tests.support.forge import Forge, until
from tests.support.pipes import fifos, opened_for
from tests.support.programs import require_sandbox

ALONE = 'python3 -c \'open("made", "w")\''
"""A command that runs alone, because nobody can tell what it does."""


def script(*commands: str, then: str = "Done.") -> str:
    calls = [{"tool": "execute_command", "arguments": {"command": one}} for one in commands]
    return json.dumps({"replies": [{"calls": calls}, {"text": then}]})


async def writer_of(path: Path) -> int:
    """Return a descriptor to write to `path`, once somebody reads there."""
    while True:
        descriptor = opened_for(path)
        if descriptor is not None:
            return descriptor
        await asyncio.sleep(0.01)


async def meet(paths: list[Path]) -> None:
    """Answer the readers of `paths` once all are there: they run at once, or never end."""
    held = [await writer_of(path) for path in paths]
    for number, fd in reversed(list(enumerate(held))):
        os.write(fd, b"met %d\n" % number)
        os.close(fd)


def kinds(flow: Flow, *bodies: type) -> list[tuple[str, str]]:
    found = [one.body for one in flow.session.journal.records() if isinstance(one.body, bodies)]
    names = {call.id: call.command for call in (e.request for e in flow.of(events.ActionProposed))}
    ran = [body for body in found if body.request_id in names]
    return [(type(body).__name__, names[body.request_id]) for body in ran]


async def test_commands_of_one_reply_run_at_once_and_answer_in_order(make_flow: MakeFlow) -> None:
    flow = make_flow(script("cat p", "cat q", "cat r"))
    paths = fifos(flow.folder, "p", "q", "r")
    answer, _ = await asyncio.gather(flow.run(), meet(paths))
    assert (answer.text, answer.exit_code) == ("Done.", 0)
    assert [text.split("\n")[0] for text in flow.shown[-4:-1]] == ["met 0", "met 1", "met 2"]
    assert [event.result.command for event in flow.of(events.CommandEnded)] == [
        "cat p", "cat q", "cat r",
    ]  # fmt: skip
    ran = [("Intent", one) for one in ("cat p", "cat q", "cat r")]
    ended = [("Outcome", one) for one in ("cat p", "cat q", "cat r")]
    assert kinds(flow, Intent, Outcome) == [*ran, *ended]
    assert len(flow.of(events.CommandDone)) == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("echo x > a", "cat a"),
        ("mkdir sub", "touch sub/a"),
        ("cd sub && ls", "pwd"),
        ("echo x > a", "cat link"),
        ("echo x > a", "cat second"),
        ("python3 -c 'print(1)'", "ls"),
    ],
)
async def test_what_may_meet_runs_one_after_the_other(
    make_flow: MakeFlow, first: str, second: str
) -> None:
    flow = make_flow(script(first, second))
    (flow.folder / "a").write_text("a")
    (flow.folder / "link").symlink_to("a")
    (flow.folder / "second").hardlink_to(flow.folder / "a")
    if "mkdir" not in first:
        (flow.folder / "sub").mkdir()
    await flow.run()
    order = [name for name, _ in kinds(flow, Intent, Outcome)]
    assert order == ["Intent", "Outcome", "Intent", "Outcome"]


async def test_a_redefined_name_makes_all_run_alone(make_flow: MakeFlow) -> None:
    calls = ["ls() { touch made; }", "ls", "cat a"]
    flow = make_flow(script(*calls))
    (flow.folder / "a").write_text("a")
    await flow.run()
    order = [name for name, _ in kinds(flow, Intent, Outcome)]
    assert order == ["Intent", "Outcome"] * 3


async def test_files_written_apart_are_written_at_once_and_undone_one_by_one(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(script("cat p > a", "cat q > b"))
    paths = fifos(flow.folder, "p", "q")
    (flow.folder / "a").write_text("before a")
    (flow.folder / "b").write_text("before b")
    await asyncio.gather(flow.run(), meet(paths))
    assert (flow.folder / "a").read_text() == "met 0\n"
    session = flow.session
    store, images = session.undo.store, {image.what: image for image in session.undo.images()}
    for name, other, command in (("a", "b", "cat p > a"), ("b", "", "cat q > b")):
        store.restore(store.way_back([images[command]]))
        assert (flow.folder / name).read_text() == f"before {name}"
        assert not other or (flow.folder / other).read_text() == "met 1\n"


async def test_what_asks_keeps_its_place_and_a_refusal_leaves_what_only_reads(
    make_flow: MakeFlow,
) -> None:
    commands = ("cat p", "cat q", "touch made", "touch other", "ls")
    flow = make_flow(script(*commands), [no("not now")], allow_reads=True)
    paths = fifos(flow.folder, "p", "q")
    answer, _ = await asyncio.gather(flow.run(), meet(paths))
    assert answer.exit_code == 3
    assert [request.command for request, _, _ in flow.user.asked] == ["touch made"]
    assert not list(flow.folder.glob("[mo]*"))
    assert len(flow.results) == 3
    assert "not run" in flow.shown[-3]


async def test_a_permission_used_up_by_the_first_asks_about_the_second(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(script("cat a", "cat b"), [yes, yes])
    for name in "ab":
        (flow.folder / name).write_text(name)
    await flow.run()
    order = [name for name, _ in kinds(flow, Judged, Intent, Outcome)]
    assert order == ["Judged", "Intent", "Outcome"] * 2


async def test_no_more_run_at_once_than_the_setting_allows(make_flow: MakeFlow) -> None:
    flow = make_flow(script(*(f"cat {name}" for name in "abcde")), parallel_commands=2)
    for name in "abcde":
        (flow.folder / name).write_text(name)
    await flow.run()
    order = "".join(name[0] for name, _ in kinds(flow, Intent, Outcome))
    assert order.startswith("IIOO")
    assert len(flow.results) == 5


async def test_a_cancelled_turn_ends_all_of_them(make_flow: MakeFlow) -> None:
    flow = make_flow(script("cat p", "cat q", ALONE))
    paths = fifos(flow.folder, "p", "q")
    running = asyncio.ensure_future(flow.run())
    held = [await writer_of(path) for path in paths]
    running.cancel()
    answer = await running
    for fd in held:
        os.close(fd)
    assert answer.exit_code == 130
    assert [one.ended for one in flow.results] == ["stopped", "stopped"]
    assert not (flow.folder / "made").exists()
    outcomes = [body for body, _ in kinds(flow, Outcome)]
    assert len(outcomes) == 2
    assert "[The user stopped it.]" in flow.shown[-3]
    assert "not run" in flow.shown[-2]
    assert flow.shown[-1].startswith("(The user stopped the turn here.")
    assert await flow.run("again") is not None


async def test_what_sub_agents_wait_for_runs_at_once(make_flow: MakeFlow) -> None:
    flow = make_flow("""
replies:
  - when: {turn: 1, last_contains: Compare}
    calls:
      - {tool: delegate, arguments: {task: Look at one, tools: read}}
      - {tool: delegate, arguments: {task: Look at two, tools: read}}
  - when: {last_contains: Look at one}
    calls: [{tool: read_file, arguments: {path: one/.env}}]
  - when: {last_contains: Look at two}
    calls: [{tool: read_file, arguments: {path: two/.env}}]
  - {when: {last_contains: blue}, text: It is blue.}
  - {when: {last_contains: green}, text: It is green.}
  - {when: {last_contains: It is green.}, text: They differ.}
""")
    rules = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "policy.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text('[[rule]]\ndecision = "allow"\ntool = "read_file"\n')
    for name, word in (("one", "blue"), ("two", "green")):
        (flow.folder / name).mkdir()
        (flow.folder / name / ".env").write_text(word)
    answer = await flow.run("Compare")
    assert answer.text == "They differ."
    assert flow.shown[2:4] == ["It is blue.", "It is green."]
    order = [name for name, _ in kinds(flow, Intent, Outcome)]
    assert order == ["Intent", "Intent", "Outcome", "Outcome"]


@pytest.mark.parametrize("ended", [False, True])
async def test_killed_in_the_middle_each_is_unknown_or_finished_and_none_runs_again(
    make_flow: MakeFlow, forge: Forge, ended: bool
) -> None:
    flow = make_flow(script("cat p", "cat q; false", ALONE))
    paths = fifos(flow.folder, "p", "q")
    started = start_run(forge, flow, "--auto-approve", "--output", "stream-json", "go")
    held = [await writer_of(path) for path in paths]
    os.write(held[0], b"first\n")
    if ended:
        os.write(held[1], b"second\n")
        os.close(held.pop())
        until(lambda: "command_done" in started.out.read_text())
    started.send(signal.SIGKILL)
    started.wait()
    for fd in held:
        os.close(fd)
    for path in paths:  # the script proposes the same again, and what has ended may be read
        path.unlink()
        path.touch()
    flow.open("last")
    answer = await flow.run(None)
    assert (answer.stop, answer.exit_code) == ("unknown", 3)
    records = [one.body for one in flow.session.journal.records()]
    intents = [one.command for one in records if isinstance(one, Intent)]
    assert intents[:2] == ["cat p", "cat q; false"]
    assert (intents.count("cat p"), intents.count("cat q; false")) == (1, 1 + ended)
    ends = [one.status for one in records if isinstance(one, Outcome)][:2]
    assert ends == ["unknown", "finished" if ended else "unknown"]
    told = [message.text for message in flow.session.state.messages if message.type == "tool"]
    assert "outcome unknown" in told[0]
    if ended:
        assert [one.exit_code for one in flow.results][:1] == [1]
        assert told[1].startswith("second")
        assert "exit 1" in told[1]
    flow.close()
    assert replayed(forge, flow)[0] == 0


async def test_only_behind_the_last_one_the_user_is_asked_to_let_it_run_outside(
    make_flow: MakeFlow, forge: Forge
) -> None:
    require_sandbox("auto")
    flow = make_flow(
        script("python3 write.py one", "python3 write.py two"),
        [yes],
        approval_mode="auto",
        sandbox="auto",
    )
    rules = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "policy.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text('[[rule]]\ndecision = "allow"\nprogram = "python3"\nside_by_side = true\n')
    text = "import sys, pathlib\npathlib.Path('..', sys.argv[1]).write_text('x')\n"
    (flow.folder / "write.py").write_text(text)
    await flow.run()
    assert [request.command for request, *_ in flow.user.asked] == ["python3 write.py two"]
    assert not (flow.folder.parent / "one").exists()
    assert (flow.folder.parent / "two").exists()
    first, second = (text for text in flow.shown if "[exit " in text)
    assert "propose the command alone (again)" in first
    assert "let it run again outside" in second
    flow.close()
    assert replayed(forge, flow)[1]["divergence"] is None


class Fetch:
    """A tool whose runs wait for each other, or without end."""

    def __init__(self, *, ends: bool) -> None:
        self.began = 0
        self.ends = ends
        self.all_there = asyncio.Event()

    async def run(self, arguments: Mapping[str, Any]) -> Observation:
        self.began += 1
        if self.began == 2:
            self.all_there.set()
        await self.all_there.wait()
        if not self.ends:
            await asyncio.get_running_loop().create_future()
        return Observation(f"page {arguments['url']}")


def fetching(make_flow: MakeFlow, tool: Fetch) -> Flow:
    calls = [
        {"tool": "web_fetch", "arguments": {"url": f"https://example.org/{name}"}} for name in "ab"
    ]
    calls.append({"tool": "execute_command", "arguments": {"command": "cat p"}})
    flow = make_flow(json.dumps({"replies": [{"calls": calls}, {"text": "Done."}]}))
    rules = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "policy.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text('[[rule]]\ndecision = "allow"\ntool = "web_fetch"\n')
    runner = flow.open().services.runner
    find = runner.tool_of

    def found(name: str) -> Any:  # of the tool, run is enough
        return tool if name == "web_fetch" else find(name)

    runner.tool_of = found
    return flow


async def test_tools_that_read_the_network_run_at_once_and_beside_commands(
    make_flow: MakeFlow,
) -> None:
    flow = fetching(make_flow, Fetch(ends=True))
    paths = fifos(flow.folder, "p")
    answer, _ = await asyncio.gather(flow.run(), meet(paths))
    assert answer.exit_code == 0
    told = [text.split("\n")[0] for text in flow.shown[-4:-1]]
    assert told == ["page https://example.org/a", "page https://example.org/b", "met 0"]


async def test_a_cancelled_turn_knows_nothing_of_the_end_of_a_tool(make_flow: MakeFlow) -> None:
    tool = Fetch(ends=False)
    flow = fetching(make_flow, tool)
    (path,) = fifos(flow.folder, "p")
    running = asyncio.ensure_future(flow.run())
    fd = await writer_of(path)
    await tool.all_there.wait()
    running.cancel()
    answer = await running
    os.close(fd)
    assert answer.exit_code == 130
    records = [one.body for one in flow.session.journal.records()]
    ends = [one.status for one in records if isinstance(one, Outcome)]
    assert ends == ["unknown", "unknown", "cancelled"]


async def test_edits_of_different_files_are_made_at_once_in_accept_edits_mode(
    make_flow: MakeFlow,
) -> None:
    calls = [
        {"tool": "write_file", "arguments": {"path": name, "content": name}}
        for name in ("new/a", "b", "new/c")
    ]
    flow = make_flow(
        json.dumps({"replies": [{"calls": calls}, {"text": "Done."}]}),
        [],
        approval_mode="accept-edits",
    )
    assert (await flow.run()).exit_code == 0
    order = "".join(name[0] for name, _ in kinds(flow, Intent, Outcome))
    assert order == "IIOOIO"  # the folder is made once
    assert (flow.folder / "new" / "c").read_text() == "new/c"
