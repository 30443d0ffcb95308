"""Recipes that were killed continue at the first node without a result, and do nothing twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from kogniterm.runtime.fixed_questions import RecoveryChoice, RecoveryQuestion
from kogniterm.sessions.records import NodeRan
from kogniterm.types.turn_values import RECIPE_NODE
from tests.addons.recipes.test_recipe_guarantees import TAKES_TOKEN
from tests.addons.recipes.test_recipes import cook
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.program import replayed, start
from tests.flows.test_secrets import SECRET
from tests.support.forge import Forge

RECIPE = """
name: r
inputs: {word: {default: hi}}
nodes:
  - {id: read, tool: read_file, arguments: {path: given.txt}}
  - {id: first, command: "echo {{inputs.word}} >> first; cat first"}
  - {id: ask, model: "Is {{nodes.first.text}} good?", tools: [look]}
  - {id: look, command: "echo seen >> look; echo looked", purpose: Look}
  - {id: each, map: {over: "a\\nb", do: add}}
  - {id: add, command: "echo {{item}} >> added-{{item}}"}
  - {id: agent, agent: Append to the log, tools: run}
  - {id: last, command: "echo {{nodes.ask.text}} >> end"}
outputs: {all: "{{nodes.read.text}} {{nodes.first.text}} {{nodes.ask.text}} {{nodes.agent.text}}"}
"""
MODEL = """
replies:
  - {when: {last_contains: Is hi good}, repeat: forever, calls: [{tool: look, arguments: {}}]}
  - {when: {tool: look}, text: Good., repeat: forever}
  - {when: {sub_agent: true, last_contains: Append}, run: echo line >> log, repeat: forever}
  - {when: {tool: execute_command}, text: Appended., repeat: forever}
  - {text: Unexpected., repeat: forever}
"""
ONCE = {
    "first": "hi",
    "look": "seen",
    "added-a": "a",
    "added-b": "b",
    "log": "line",
    "end": "Good.",
}
"""Contents of the files once the recipe is through."""
POINTS = (
    *(f"after-outcome:{number}" for number in range(1, 7)),
    *(f"after-node:{number}" for number in range(1, 8)),
    *(
        "after-note:2",
        "after-note:3",
        "after-input",
        "before-verdict:2",
        "before-decision:3",
        "before-intent:1",
    ),
)


def kill(forge: Forge, flow: Flow, point: str, recipe: str = RECIPE, *given: str) -> None:
    """Run the recipe in a program of its own, which is killed at this point."""
    (flow.folder / "r.yaml").write_text(recipe)
    (flow.folder / "given.txt").write_text("given\n")
    words = ("recipe", "run", "r.yaml", *given, "-y", "--no-sandbox")
    killed = start(forge, flow, *words, "--model", str(flow.flags["model"]), faults=f"kill:{point}")
    assert killed.wait() == -signal.SIGKILL, killed.said
    (flow.folder / "r.yaml").unlink()  # it continues from the journal
    (flow.folder / "given.txt").write_text("changed since\n")


def done(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text().strip() for name in ONCE if (folder / name).exists()}


def asked(flow: Flow) -> list[str]:
    """Return the final replies that model nodes got."""
    return [
        message.text
        for record in flow.session.journal.records()
        if isinstance(record.body, NodeRan) and record.body.update.node == RECIPE_NODE
        for message in record.body.update.messages
        if record.body.update.agent == "ask" and message.type == "ai" and message.text
    ]


@pytest.mark.parametrize("point", POINTS)
async def test_it_continues_where_it_was_and_does_nothing_twice(
    make_flow: MakeFlow, forge: Forge, point: str
) -> None:
    flow = make_flow(MODEL, [yes] * 9)
    kill(forge, flow, point)
    flow.open("last")
    answer = await flow.run(None)
    assert not flow.session.state.open_turn
    if point == "after-input":
        assert "is not in the journal" in str(answer.reason)
        return
    assert answer.stop == "done", answer
    assert answer.text in (
        "1: given hi Good. Appended.",
        "1: changed since hi Good. Appended.",  # killed before the file was read
    )
    assert done(flow.folder) == ONCE
    assert asked(flow) == ["Good."]
    flow.close()
    assert replayed(forge, flow)[1]["divergence"] is None


@pytest.mark.parametrize(("wish", "stop"), [("again", "done"), ("skip", "not_done")])
async def test_a_command_of_unknown_outcome_is_the_users_choice(
    make_flow: MakeFlow, forge: Forge, wish: RecoveryChoice, stop: str
) -> None:
    flow = make_flow(MODEL, [yes] * 9)
    kill(forge, flow, "after-intent:2")
    flow.open("last")
    told: list[str] = []

    async def recover(question: RecoveryQuestion) -> RecoveryChoice:
        told.append(question.intent.command)
        return wish

    answer = await flow.session.run(None, approver=flow.user, sink=flow.tell, recover=recover)
    assert told == ["echo seen >> look; echo looked"]
    assert answer.stop == stop
    if wish == "again":
        assert len(flow.user.asked) >= 1  # it is approved once more
        assert done(flow.folder)["end"] == "Good."
    else:
        assert "it is not known how node look ended" in str(answer.reason)
        assert "end" not in done(flow.folder)


async def test_nobody_to_ask_means_unknown(make_flow: MakeFlow, forge: Forge) -> None:
    flow = make_flow(MODEL)
    kill(forge, flow, "after-intent:1")
    flow.open("last")
    answer = await flow.run(None)
    assert (answer.stop, answer.exit_code) == ("unknown", 3)
    assert "look" not in done(flow.folder)


@pytest.mark.parametrize("point", ["after-node:2", "after-turn_ended:1", "after-outcome:1"])
async def test_a_thread_gets_each_answer_once(
    make_flow: MakeFlow, forge: Forge, point: str
) -> None:
    recipe = """
name: r
nodes:
  - {id: ask, model: Say hello., thread: memo}
  - {id: tell, command: "echo {{nodes.ask.text}} >> end"}
"""
    flow = make_flow("replies: [{text: Hello., repeat: forever}]", [yes] * 3)
    kill(forge, flow, point, recipe)
    flow.open("last")
    if flow.session.state.title.startswith("thread"):  # it was written to last
        flow.close()
        flow.open("Run the recipe r")
    answer = await flow.run(None)
    assert answer.stop == "done"
    assert done(flow.folder) == {"end": "Hello."}
    assert flow.session.archive.store.find("thread memo").turns == 1
    assert (await cook(flow, recipe)).stop == "done"
    assert flow.session.archive.store.find("thread memo").turns == 2  # asked and answered anew


async def test_a_secret_is_given_to_commands_alone(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: I see., repeat: forever}]", [yes, yes])
    recipe = (
        TAKES_TOKEN
        + """
  - {id: keep, tool: write_file, arguments: {path: t.txt, content: "{{inputs.token}}"}}
"""
    )
    answer = await cook(flow, recipe, token=SECRET)
    assert "would give a secret to the tool write_file" in str(answer.reason)
    assert not (flow.folder / "t.txt").exists()


async def test_a_secret_is_asked_for_again_after_a_kill(make_flow: MakeFlow, forge: Forge) -> None:
    recipe = (
        TAKES_TOKEN
        + """
  - {id: one, command: "printf %s {{inputs.token}} > one"}
  - {id: two, command: "printf %s {{inputs.token}} > two"}
"""
    )
    flow = make_flow("replies: [{text: I see., repeat: forever}]", [yes, yes])
    kill(forge, flow, "after-outcome:1", recipe, f"token={SECRET}")
    assert (flow.folder / "one").read_text() == SECRET
    flow.open("last")
    answer = await flow.run(None)
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert "stands for a secret" in str(answer.reason)
    assert not (flow.folder / "two").exists()
