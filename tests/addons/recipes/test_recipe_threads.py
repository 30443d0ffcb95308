"""Recipes whose nodes run side by side, and model nodes that keep their own history."""

from __future__ import annotations

import signal
from pathlib import Path

from kogniterm.runtime.operations.stored_data import export_parts
from kogniterm.runtime.services.archive import JournalPurge
from kogniterm.sessions.records import Compacted, InputReceived
from kogniterm.types import ActionRequest, Decision, events
from tests.addons.recipes.test_recipes import cook
from tests.cli.conftest import shell
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.program import replayed, start
from tests.support.databases import location, postgres_server, postgres_url
from tests.support.forge import Forge

__all__ = ["location", "postgres_server", "postgres_url", "shell"]

TWO = """
name: r
nodes:
  - {id: one, model: Say one.}
  - {id: two, model: Say two.}
  - {id: both, model: "Join {{nodes.one.text}} {{nodes.two.text}}"}
"""


def calls(flow: Flow) -> str:
    """Return the order of model calls (C) and replies (A)."""
    kinds = {events.ModelCalled: "C", events.ModelAnswered: "A"}
    return "".join(kinds.get(type(event), "") for event in flow.events)


async def test_a_map_asks_within_its_bound_and_keeps_the_order(make_flow: MakeFlow) -> None:
    script = """
delays: true
replies:
  - {when: {last_contains: Name a}, text: A., delay: 0.4}
  - {when: {last_contains: Name b}, text: B., delay: 0.1}
  - {when: {last_contains: Name c}, text: C., delay: 0.1}
"""
    recipe = """
name: r
inputs: {words: {type: list}}
nodes:
  - {id: each, map: {over: "{{inputs.words}}", do: name, parallel: 2}}
  - {id: name, model: "Name {{item}}"}
outputs: {names: "{{nodes.each.value}}"}
"""
    flow = make_flow(script)
    assert (await cook(flow, recipe, words="a,b,c")).text == '["A.", "B.", "C."]'
    assert calls(flow) == "CCACAA"


COMMANDS = """
name: r
nodes:
  - {id: first, command: echo first}
  - {id: lint, command: echo lint; exit 3, parallel: true, may_fail: true}
  - {id: types, command: echo types, parallel: true}
  - {id: last, command: "echo {{nodes.lint.text}} {{nodes.lint.exit_code}} {{nodes.types.text}}"}
"""


async def test_parallel_commands_are_requested_together_and_asked_before_they_start(
    make_flow: MakeFlow,
) -> None:
    waiting: list[int] = []

    def decide(request: ActionRequest) -> Decision:
        waiting.append(len(flow.session.state.pending))
        return yes(request)

    flow = make_flow(decisions=[decide] * 4)
    answer = await cook(flow, COMMANDS)
    assert answer.text == "lint 3 types"
    assert waiting == [1, 2, 2, 1]
    made = [m.tool_calls for m in flow.session.state.messages if getattr(m, "tool_calls", None)]
    assert [len(calls) for calls in made] == [1, 2, 1]


async def test_parallel_commands_that_need_no_approval_run_at_once(make_flow: MakeFlow) -> None:
    recipe = """
name: r
nodes:
  - {id: each, map: {over: "4\\n2\\n3", do: wait, parallel: 3}}
  - {id: wait, command: "echo {{item}}"}
outputs: {all: "{{nodes.each.value}}"}
"""
    flow = make_flow()
    assert (await cook(flow, recipe)).text == '["4", "2", "3"]'
    kinds = {events.CommandStarted: "S", events.CommandEnded: "E"}
    assert "".join(kinds.get(type(event), "") for event in flow.events) == "SSSEEE"


async def test_a_kill_in_a_group_runs_nothing_twice(make_flow: MakeFlow, forge: Forge) -> None:
    recipe = """
name: r
nodes:
  - {id: each, map: {over: "a\\nb\\nc", do: add, parallel: 3}}
  - {id: add, command: "echo {{item}} >>count-{{item}}"}
"""
    flow = make_flow("replies: [{text: Checked., repeat: forever}]")
    (flow.folder / "r.yaml").write_text(recipe)
    words = ("recipe", "run", "r.yaml", "-y", "--no-sandbox", "--model", str(flow.flags["model"]))
    killed = start(forge, flow, *words, faults="kill:after-intent:2")
    assert killed.wait() == -signal.SIGKILL, killed.said
    flow.open("last")
    begun = len(flow.session.state.unknown)
    answer = await flow.run(None)
    assert answer.stop == "unknown"
    assert not flow.session.state.open_turn
    assert flow.session.state.pending == ()
    assert len(flow.session.state.unsettled) == begun > 0
    counts = [file.read_text() for file in flow.folder.glob("count-*")]
    assert all(len(text.split()) == 1 for text in counts)
    flow.close()
    assert replayed(forge, flow)[1]["divergence"] is None


# --- threads ---------------------------------------------------------------------------------

TALK = """
name: talk
inputs: {word: {}}
nodes:
  - {id: tell, model: "Remember {{inputs.word}}.", thread: memo}
  - {id: other, model: Say hello.}
  - {id: recall, model: Which words are there, thread: memo}
"""
TALKING = """
replies:
  - {when: {last_contains: Remember apple}, text: I have apple.}
  - {when: {last_contains: Say hello}, expect: {last_contains: Say hello}, text: Hello.,
     repeat: forever}
  - {when: {last_contains: Which, any_contains: Remember pear}, expect: {any_contains: I have both},
     text: Apple and pear.}
  - {when: {last_contains: Which, any_contains: I have apple}, text: Apple.}
  - {when: {last_contains: Remember pear, any_contains: Apple.}, text: I have both.}
"""


async def test_nodes_share_a_thread_and_the_next_run_continues_it(
    make_flow: MakeFlow, location: Path | str
) -> None:
    stored = {"database_url": location} if isinstance(location, str) else {}
    first = make_flow(TALKING, **stored)
    assert (await cook(first, TALK, word="apple")).text == "Apple."
    first.close()
    second = make_flow(TALKING, **stored)
    assert (await cook(second, TALK, word="pear")).text == "Apple and pear."
    session = second.session
    store = session.archive.store
    thread = store.find("thread memo")
    assert (thread.turns, thread.folder) == (4, str(second.folder))
    text = "".join(export_parts(store, thread.id, "markdown", str))
    assert "> Remember apple." in text
    assert "Apple and pear." in text
    own = "".join(export_parts(store, session.id, "markdown", str))
    assert "*Question to the model in the node recall:*\n\n> Which words are there" in own
    assert store.find("last").id == session.id


async def test_another_folder_has_another_thread(make_flow: MakeFlow) -> None:
    first = make_flow(TALKING)
    await cook(first, TALK, word="apple")
    first.close()
    second = make_flow("replies: [{text: Fine., repeat: forever}]")
    second.folder = second.folder.parent / "elsewhere"
    second.folder.mkdir()
    await cook(second, TALK, word="pear")
    store = second.session.archive.store
    found = [info for info in store.sessions() if info.title == "thread memo"]
    assert [info.turns for info in found] == [2, 2]


async def test_a_long_thread_is_compacted(make_flow: MakeFlow) -> None:
    script = """
model: {context_window: 4000, max_output: 500}
replies:
  - {when: {purpose: compact}, text: It said much., repeat: forever}
  - {when: {any_contains: It said much}, text: Short., repeat: forever}
  - {text: "%s", repeat: forever}
""" % ("many words " * 250)
    recipe = """
name: r
nodes:
  - {id: each, map: {over: "1\\n2\\n3\\n4\\n5", do: ask, parallel: 3}}
  - {id: ask, model: "Question {{item}}", thread: long}
"""
    flow = make_flow(script)
    answer = await cook(flow, recipe)
    assert answer.stop == "done", answer.reason
    store = flow.session.archive.store
    journal = store.hold(store.find("thread long").id)
    try:
        bodies = [record.body for record in journal.records()]
    finally:
        journal.close()
    assert any(isinstance(body, Compacted) and body.summary == "It said much." for body in bodies)
    asked = [body.input.text for body in bodies if isinstance(body, InputReceived)]
    assert asked == [f"Question {n}" for n in range(1, 6)]


async def test_forgetting_reaches_a_thread(make_flow: MakeFlow) -> None:
    flow = make_flow(TALKING)
    await cook(flow, TALK, word="apple")
    session = flow.session
    purged = JournalPurge(session.archive.store, {session.id: session.archive.journal})
    assert purged.purge(["apple"]).removed > 0
    text = "".join(export_parts(session.archive.store, "thread memo", "markdown", str))
    assert "apple" not in text.lower()


async def test_a_second_run_cannot_use_a_thread_at_the_same_time(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow("replies: [{text: Noted., repeat: forever}]")
    await cook(flow, TALK, word="x")
    store = flow.session.archive.store
    held = store.hold(store.find("thread memo").id)
    try:
        (flow.folder / "r.yaml").write_text(TALK)
        words = ("recipe", "run", "r.yaml", "word=y", "--model", str(flow.flags["model"]))
        second = start(forge, flow, *words)
        assert second.wait() != 0
        assert "open in another" in second.said, second.said
    finally:
        held.close()


async def test_a_killed_run_leaves_a_whole_thread(make_flow: MakeFlow, forge: Forge) -> None:
    flow = make_flow("replies: [{text: Noted., repeat: forever}]")
    (flow.folder / "r.yaml").write_text(TALK.replace("Say hello.}", "Say hello.}\n  - "
                                                     "{id: act, command: echo hi}"))  # fmt: skip
    words = ("recipe", "run", "r.yaml", "word=x", "-y", "--no-sandbox", "--model")
    model = str(flow.flags["model"])
    killed = start(forge, flow, *words, model, faults="kill:after-intent")
    assert killed.wait() == -signal.SIGKILL, killed.said
    again = start(forge, flow, *words, model)
    assert again.wait() == 0, again.said
    flow.open()
    store = flow.session.archive.store
    assert store.find("thread memo").turns in (2, 3, 4)
    assert store.condition(store.find("thread memo").id) == "done"
