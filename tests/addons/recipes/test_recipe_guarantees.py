"""Recipes under the guarantees of every turn: plans, secrets, crashes, replays."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest

from kogniterm.addons.recipes.recipe_progress import begun_note
from kogniterm.addons.recipes.recipe_schema import read_recipe
from kogniterm.addons.recipes.recipe_store import recipe_of_plan
from kogniterm.addons.recipes.run_recipe import run_in_session
from kogniterm.approval import Unattended
from kogniterm.errors import UsageError
from kogniterm.sessions.records import Noted
from kogniterm.types import events
from tests.addons.recipes.test_recipe_offer import RUNS
from tests.addons.recipes.test_recipe_threads import TALK, TALKING, TWO
from tests.addons.recipes.test_recipes import cook
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.test_durable_first import Disk, disk, watch
from tests.flows.test_durable_first import commands as watched_commands
from tests.flows.test_learning import ASKED, offered
from tests.flows.test_plan_mode import DONE, planning
from tests.flows.test_plan_only import PLAN, plan_only
from tests.flows.test_same_bytes import Heard, commands, heard
from tests.flows.test_secrets import SECRET, holding
from tests.flows.test_unknown import COUNTED, TOLD, kill, times_run
from tests.models.test_replay_model import exported
from tests.support.forge import Forge

__all__ = ["disk", "heard"]
TAKES_TOKEN = """
name: r
inputs: {token: {type: string}}
nodes:
"""


async def test_it_is_refused_where_only_a_plan_is_wanted(make_flow: MakeFlow) -> None:
    flow = plan_only(make_flow, PLAN)
    recipe = read_recipe("{name: r, nodes: [{id: a, command: touch acted}]}")
    with pytest.raises(UsageError, match="--plan-only"):
        await run_in_session(flow.session, recipe, {}, approver=Unattended(), sink=flow.tell)
    assert not (flow.folder / "acted").exists()


async def test_it_is_refused_in_plan_mode(make_flow: MakeFlow) -> None:
    flow = planning(make_flow, DONE)
    recipe = read_recipe("{name: r, nodes: [{id: a, command: touch acted}]}")
    with pytest.raises(UsageError, match="plan mode"):
        await run_in_session(flow.open(), recipe, {}, approver=Unattended(), sink=flow.tell)
    assert not (flow.folder / "acted").exists()


async def test_it_settles_what_is_unknown_first(make_flow: MakeFlow, forge: Forge) -> None:
    kill(forge, make_flow(COUNTED), "kill:before-outcome", "count")
    flow = make_flow(TOLD)
    recipe = read_recipe("{name: r, nodes: [{id: a, command: 'echo ran >>count'}]}")
    answer = await run_in_session(
        flow.open("last"), recipe, {}, approver=Unattended(), sink=flow.tell
    )
    assert (answer.exit_code, times_run(flow)) == (3, 1)
    assert not flow.of(events.CommandStarted)


async def test_the_arguments_of_its_tool_are_redacted_in_events_and_journal(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("replies: [{text: unused}]")
    recipe = f"""
name: r
nodes:
  - {{id: a, tool: calculate, arguments: {{expression: "1 + 1 # {SECRET}"}}}}
"""
    await cook(flow, recipe)
    (ran,) = flow.of(events.ToolRan)
    assert ran.name == "calculate"
    assert SECRET not in repr(flow.events)
    assert "[secret:" in ran.arguments
    assert SECRET not in repr(list(flow.session.journal.records()))


async def test_it_runs_the_bytes_that_were_judged(heard: Heard) -> None:
    _made, free = commands(heard, 13, 40)
    nodes = [{"id": f"n{number}", "command": one} for number, one in enumerate(free)]
    text = json.dumps({"name": "r", "description": "d", "nodes": nodes, "outputs": {}})
    recipe, sink = read_recipe(text), heard.events.append
    await run_in_session(heard.session, recipe, {}, approver=heard, sink=sink)
    heard.assert_equal(free)


async def test_it_is_on_disk_before_its_first_node(make_flow: MakeFlow, disk: Disk) -> None:
    flow = make_flow("replies: [{text: unused}]")
    kinds: list[bool] = []
    watch(flow, disk, lambda event: None)
    flow.open()

    def noted(command: str) -> None:
        bodies = [body for body in disk.bodies() if isinstance(body, Noted)]
        kinds.append(any(body.kind == begin.kind for body in bodies))

    recipe = "{name: r, nodes: [{id: a, command: echo hi}]}"
    begin = begun_note(read_recipe(recipe), {}, str)
    watched_commands(flow, noted)
    await cook(flow, recipe)
    assert kinds == [True]


async def test_it_runs_again_with_its_replies(make_flow: MakeFlow) -> None:
    both = TWO + '  - {id: look, agent: "Look at it"}\n'
    script = """
replies:
  - {when: {last_contains: Say one}, text: One.}
  - {when: {last_contains: Say two}, text: Two.}
  - {when: {last_contains: Join}, text: Joined.}
  - {when: {last_contains: Look}, text: Seen.}
"""
    flow = make_flow(script)
    await cook(flow, both + 'outputs: {all: "{{nodes.both.text}} {{nodes.look.text}}"}\n')
    file = await exported(flow)
    again = make_flow(model=f"replay:{file}")
    answer = await cook(again, both + 'outputs: {all: "{{nodes.both.text}} {{nodes.look.text}}"}\n')
    assert answer.text == "Joined. Seen."
    again.close()
    flow = make_flow(TALKING)
    assert (await cook(flow, TALK, word="apple")).text == "Apple."


async def input_of_a_recipe(make_flow: MakeFlow) -> Flow:
    recipe = f"""{TAKES_TOKEN}
  - {{id: count, command: "printf %s {{{{inputs.token}}}} | wc -c"}}
  - {{id: ask, model: "Is {{{{inputs.token}}}} good?"}}
  - {{id: agent, agent: "Look at {{{{inputs.token}}}}"}}
"""
    flow = make_flow("replies: [{text: I see., repeat: forever}]", [yes, yes])
    answer = await cook(flow, recipe, token=SECRET)
    assert answer.stop == "done"
    assert flow.results[0].text.strip() == str(len(SECRET))
    return flow


async def what_the_model_of_a_recipe_wrote(make_flow: MakeFlow) -> Flow:
    recipe = """
name: r
nodes:
  - {id: ask, model: "What is in the picture?"}
  - {id: agent, agent: "Look at it"}
"""
    flow = make_flow(f"replies: [{{text: 'It is {SECRET}.', repeat: forever}}]", [yes])
    answer = await cook(flow, recipe)
    assert SECRET not in answer.text
    return flow


@pytest.mark.parametrize("way", [input_of_a_recipe, what_the_model_of_a_recipe_wrote])
async def test_no_file_holds_a_secret_and_the_model_does_not_get_it(
    make_flow: MakeFlow, way: Callable[[MakeFlow], Awaitable[Flow]]
) -> None:
    flow = await way(make_flow)
    assert not any(SECRET in text for text in flow.shown)
    flow.close()
    assert holding(flow.data, SECRET.encode()) == []


async def test_commands_of_a_repeated_request_become_one(make_flow: MakeFlow) -> None:
    flow = make_flow(RUNS)
    await offered(flow)
    recipe = recipe_of_plan("count", flow.session.journal.records(), {"what": "3"})
    assert (recipe.description, [one.command for one in recipe.nodes]) == (
        ASKED, ["echo {{inputs.what}}"])  # fmt: skip
