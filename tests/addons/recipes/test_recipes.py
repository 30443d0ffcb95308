"""Recipes: validated before anything runs; run through the same approval, executor and journal."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kogniterm.addons.recipes.calculator import calculator
from kogniterm.addons.recipes.recipe_schema import open_quotes, read_recipe, recipe_text
from kogniterm.addons.recipes.run_recipe import run_in_session
from kogniterm.approval import Unattended
from kogniterm.errors import ToolError, UsageError
from kogniterm.runtime.extensions.extension_port import Extension, Moment, Right
from kogniterm.runtime.plan_edits import plan_from_text
from kogniterm.runtime.replay.recorded_events import past_turns
from kogniterm.runtime.turn_ports import Attached
from kogniterm.types import Answer, Phrase, UserInput, events
from tests.cli.conftest import Shell, shell
from tests.flows.conftest import Flow, MakeFlow, no, yes

__all__ = ["shell"]
DOCS = Path(__file__).parents[3] / "docs"


async def cook(flow: Flow, text: str, **inputs: Any) -> Answer:
    session = flow.session or flow.open()
    approver = flow.user or Unattended()
    return await run_in_session(
        session, read_recipe(text), inputs, approver=approver, sink=flow.tell
    )


COUNT = """
name: count
description: Count the lines of files
inputs:
  ending: {default: txt}
nodes:
  - {id: files, command: "printf '%s\\n' *.{{inputs.ending}}"}
  - {id: each, map: {over: "{{nodes.files.lines}}", do: lines}}
  - {id: lines, command: "wc -l < {{item}}"}
  - {id: many, condition: {value: "{{nodes.files.lines}}", contains: b}, then: yes_many, else: end}
  - {id: yes_many, command: echo several}
outputs:
  counts: "{{nodes.each.value}}"
  said: "{{nodes.yes_many.text}}"
"""


class Gatekeeper(Extension):
    """Notes when it is called, and refuses a recipe called `refused`."""

    name = "gatekeeper"
    moments: ClassVar[Mapping[Moment, Right]] = {
        "opened": "watch", "before_input": "block", "closed": "watch",
    }  # fmt: skip

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def opened(self, sink: object, *, resumed: bool) -> str:
        self.heard.append("opened")
        return ""

    async def before_input(self, given: UserInput, io: object) -> Attached | Phrase:
        self.heard.append(given.text)
        return Phrase("not here") if "recipe refused" in given.text else Attached()

    async def closed(self, reason: str) -> Sequence[Phrase]:
        self.heard.append("closed")
        return ()


async def test_extensions_hear_of_a_recipe_and_may_refuse_it(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: unused}]")
    session, keeper = flow.open(), Gatekeeper()
    session.extensions.port.extensions = [keeper]
    await session.extensions.port.closed("other")
    assert keeper.heard == []  # a session in which nothing was opened has no end
    refused = await cook(flow, "{name: refused, nodes: [{id: a, command: touch refused}]}")
    assert (refused.stop, flow.results) == ("refused", [])
    answer = await cook(flow, "{name: r, nodes: [{id: a, command: echo ran}]}")
    assert answer.stop == "done"
    await session.extensions.port.closed("other")
    assert keeper.heard == ["opened", "Run the recipe refused", "Run the recipe r", "closed"]


async def test_commands_maps_and_conditions(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: unused}]")
    (flow.folder / "a.txt").write_text("1\n2\n")
    (flow.folder / "b c; touch hacked.txt").write_text("1\n")
    answer = await cook(flow, COUNT)
    assert (answer.stop, answer.exit_code) == ("done", 0)
    assert answer.text == 'counts: ["2", "1"]\nsaid: several'
    assert [r.command for r in flow.results][1:3] == [
        "wc -l < a.txt",
        "wc -l < 'b c; touch hacked.txt'",
    ]
    assert not (flow.folder / "hacked.txt").exists()


async def test_a_listing_is_shown_as_it_was_printed_also_later(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: x}]", [yes])
    listing = "{name: r, nodes: [{id: a, command: 'printf \" 1 a\\\\n 2 b\\\\n\"'}]}"
    answer = await cook(flow, listing)
    assert (answer.text, answer.verbatim) == (" 1 a\n 2 b", True)
    (turn,) = past_turns(flow.session).turns
    ended = [item.answer for item in turn if isinstance(item, events.TurnEnded)]
    assert [(one.text, one.verbatim) for one in ended] == [(answer.text, True)]
    assert not any(isinstance(item, events.AnswerDelta) for item in turn)


async def test_a_refusal_ends_the_recipe(make_flow: MakeFlow) -> None:
    flow = make_flow(decisions=[no("not today")])
    answer = await cook(
        flow, "{name: r, nodes: [{id: a, command: touch x}, {id: b, command: 'true'}]}"
    )
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert not (flow.folder / "x").exists()


async def test_a_failing_command_stops_it_unless_it_may_fail(make_flow: MakeFlow) -> None:
    flow = make_flow()
    failing = "{name: r, nodes: [{id: a, command: exit 3%s}, {id: b, command: echo on}]}"
    answer = await cook(flow, failing % "")
    assert (answer.exit_code, str(answer.reason)) == (
        1,
        "The recipe stopped: node a ended with exit code 3.",
    )
    assert (await cook(flow, failing % ", may_fail: true")).text == "on"


SUM = """
name: sum
inputs: {first: {type: integer}, second: {type: integer}}
nodes:
  - id: ask
    model: Add {{inputs.first}} and {{inputs.second}} with calculate, and say the sum.
    tools: [calculate]
  - id: calculate
    purpose: Add two numbers
    tool: calculate
    arguments: {formula: "{{arguments.a}} + {{arguments.b}}"}
    parameters: {a: {type: integer}, b: {type: integer}}
"""
ADD = """
replies:
  - expect: {offers: calculate, last_contains: Add 123456789 and 987654321}
    calls: [{tool: calculate, arguments: {a: 123456789, b: "987654321"}}]
  - {when: {last_contains: "1111111110"}, text: The sum is 1111111110.}
"""


async def test_a_model_node_gets_the_right_sum_from_its_calculator(make_flow: MakeFlow) -> None:
    flow = make_flow(ADD)
    answer = await cook(flow, SUM, first="123456789", second=987654321)
    assert answer.text == "The sum is 1111111110."
    assert answer.usage.calls == 2
    (ran,) = flow.of(events.ToolRan)
    assert (ran.name, ran.observation) == ("calculate", "1111111110")


async def test_models_and_maps_are_tools_of_a_model(make_flow: MakeFlow) -> None:
    recipe = """
name: r
nodes:
  - {id: ask, model: Compare the fruits., tools: [each]}
  - {id: each, map: {over: "{{arguments.of}}", do: taste}, parameters: {of: {type: list}}}
  - {id: taste, model: "Taste {{item}}.", tools: [calculate]}
  - {id: calculate, tool: calculate, arguments: {formula: "1 + 1"}}
"""
    script = """
replies:
  - calls: [{tool: each, arguments: {of: [figs, plums]}}]
  - {expect: {last_contains: Taste figs}, calls: [{tool: calculate, arguments: {}}]}
  - {text: Sweet.}
  - {expect: {last_contains: Taste plums}, text: Sour.}
  - {text: The same fruits again., calls: [{tool: each, arguments: {of: [figs]}}]}
  - {expect: {last_contains: Taste figs}, text: Still sweet.}
  - {expect: {last_contains: Still sweet}, text: Figs.}
"""
    flow = make_flow(script)
    answer = await cook(flow, recipe)
    assert (answer.text, answer.usage.calls) == ("Figs.", 7)
    assert [one.name for one in flow.of(events.ToolRan)] == ["calculate"]


async def test_a_command_node_as_a_tool_is_asked_for(make_flow: MakeFlow) -> None:
    recipe = """
name: r
nodes:
  - {id: ask, model: Greet., tools: [greet]}
  - {id: greet, command: "echo hello {{arguments.who}}", parameters: {who: {}}}
"""
    script = """
replies:
  - calls: [{tool: greet, arguments: {whom: x}}]
  - calls: [{tool: greet, arguments: {who: "$(id); x"}}]
  - {when: {last_contains: "hello $(id); x"}, text: Greeted.}
"""
    flow = make_flow(script, decisions=[yes])
    assert (await cook(flow, recipe)).text == "Greeted."
    assert flow.results[0].command == "echo hello '$(id); x'"


async def test_a_sub_agent_node_reads_and_reports(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls: [{tool: read_file, arguments: {path: a.txt}}]
  - {when: {last_contains: blue}, text: It is blue.}
"""
    flow = make_flow(script)
    (flow.folder / "a.txt").write_text("blue\n")
    answer = await cook(flow, "{name: r, nodes: [{id: look, agent: Say the colour.}]}")
    assert answer.text == "It is blue."


ACTING = """
name: r
nodes:
  - {id: make, agent: Make a note., tools: run}
  - {id: see, command: cat note}
"""
MAKING = """
replies:
  - {when: {last_contains: Make a note.}, run: echo kept >note}
  - {when: {last_contains: "[exit 0]"}, text: Made.}
  - {when: {last_contains: refused}, run: echo otherwise >note}
  - {when: {last_contains: "[exit 0]"}, text: Made otherwise.}
"""


async def test_a_sub_agent_node_acts_through_the_same_approval(make_flow: MakeFlow) -> None:
    flow = make_flow(MAKING, decisions=[yes, yes])
    assert (await cook(flow, ACTING)).text == "kept"
    assert [e.request.agent_task for e in flow.of(events.ActionProposed)] == ["Make a note.", ""]
    assert flow.session.state.agents == {}
    assert flow.shown[1:3] == ["", "Made."]


async def test_budgets_hold(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: a, repeat: forever}]", max_steps=1)
    recipe = "{name: r, nodes: [{id: a, model: one}, {id: b, model: two}]}"
    answer = await cook(flow, recipe)
    assert (answer.stop, answer.exit_code) == ("budget", 4)
    assert flow.session.state.usage.calls == 1


@pytest.mark.parametrize(
    ("nodes", "part"),
    [
        ("[]", "nodes: is empty"),
        ("[{id: a}]", "exactly one of command"),
        ("[{id: a, command: x, tool: y}]", "exactly one of command"),
        ("[{id: a, command: x}, {id: a, command: y}]", "used twice"),
        ("[{id: end, command: x}]", "no node can have the ID end"),
        ("[{id: a, command: 'x {{inputs.no}}'}]", "the input no, which does not exist"),
        ("[{id: a, command: 'x {{nodes.no.text}}'}]", "the node no, which does not exist"),
        ("[{id: a, command: \"echo 'x {{inputs.i}}'\"}]", "leave out the quotes"),
        ('[{id: a, command: "cat <<END\\n{{inputs.i}}\\nEND"}]', "here-document"),
        ("[{id: a, command: x}, {id: b, command: y, next: a}]", "only goes forward"),
        ("[{id: a, command: x, next: nowhere}]", "not in the main line"),
        ("[{id: a, map: {over: x, do: b}}]", "uses b, which does not exist"),
        ("[{id: a, model: x, tools: [a]}]", "no node is in the main line"),
        ("[{id: a, condition: {value: x}, then: end}]", "needs one of equals"),
        ("[{id: a, condition: {value: x, matches: '('}, then: end}]", "cannot be used"),
        ("[{id: a, command: x, colour: red}]", "colour"),
        ("[{id: a, agent: x, tools: [b]}, {id: b, command: y}]", "read, search, edit or run"),
    ],
)
def test_a_wrong_recipe_is_refused_with_the_reason(nodes: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        read_recipe(f"{{name: r, inputs: {{i: {{}}}}, nodes: {nodes}}}")


@pytest.mark.parametrize(
    ("command", "opened"),
    [
        ("echo 'hello {{inputs.i}}' > x", "echo 'hello '{{inputs.i}} > x"),
        ("echo '{{inputs.i}} is'", "echo {{inputs.i}}' is'"),
        ('echo "\\"{{inputs.i}}\\""', 'echo "\\""{{inputs.i}}"\\""'),
        ("echo 'a{{inputs.i}}b{{inputs.i}}'", "echo 'a'{{inputs.i}}'b'{{inputs.i}}"),
        ('echo "$(echo {{inputs.i}})"', 'echo "$(echo {{inputs.i}})"'),
        ("cat <<E\nit's {{inputs.i}}\nE", "cat <<E\nit's {{inputs.i}}\nE"),
    ],
)
def test_quotes_are_opened_round_a_value_only_where_that_is_safe(command: str, opened: str) -> None:
    assert open_quotes(command) == opened


async def test_wrong_inputs_are_named_before_anything_runs(make_flow: MakeFlow) -> None:
    flow = make_flow()
    with pytest.raises(UsageError, match="sum needs the input second"):
        await cook(flow, SUM, first="1")
    with pytest.raises(UsageError, match="first must be of type integer"):
        await cook(flow, SUM, first="one", second="2")
    with pytest.raises(UsageError, match="Unknown input third for the recipe sum"):
        await cook(flow, SUM, third="3")
    assert not flow.events


def test_a_recipe_may_name_a_tool_as_an_earlier_version_did() -> None:
    recipe = read_recipe("{name: r, nodes: [{id: a, tool: ask_person, arguments: {}}]}")
    assert recipe.nodes[0].tool == "ask_user"


def test_a_recipe_reads_back_as_it_was_written() -> None:
    for text in (COUNT, SUM):
        assert read_recipe(recipe_text(read_recipe(text))) == read_recipe(text)


def test_the_recipes_and_plans_of_the_pages_are_good() -> None:
    for page, read in (("recipes", read_recipe), ("plans", plan_from_text)):
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        examples = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        assert examples
        for example in examples:
            read(example)


@pytest.mark.parametrize(
    ("formula", "value"),
    [("1 + 2 * 3", "7"), ("(1 + 2) * -3", "-9"), ("7 // 2 + 2 ** 10", "1027"), ("1 / 4", "0.25")],
)
async def test_the_calculator_calculates(formula: str, value: str) -> None:
    assert (await calculator().run({"formula": formula})).text == value


@pytest.mark.parametrize(
    "formula", ["", "x", "().__class__", "9**9**9", "1/0", "(-8)**0.5", "'a'*9", "True"]
)
async def test_the_calculator_does_nothing_else(formula: str) -> None:
    with pytest.raises(ToolError):
        await calculator().run({"formula": formula})


# --- from the command line -------------------------------------------------------------------

PLANNED = """
replies:
  - plan:
      goal: Greet in a file
      steps: [{id: s1, what: Write it, check: {kind: command, value: grep -q Ann greeting.txt}}]
  - run: echo 'wrong' >&2; false
  - run: printf '%s\\n' hello Ann > greeting.txt
    purpose: Write the greeting
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - text: Written.
"""


def test_a_plan_that_worked_is_kept_and_run_with_another_input(shell: Shell) -> None:
    free = ("-y", "--no-sandbox")
    script = shell.script(PLANNED)
    first = shell.run("run", "greet Ann", "--model", script, *free)
    assert first.returncode == 0, first.stderr
    saved = shell.run("recipe", "save", "greet", "who=Ann")
    assert saved.returncode == 0, saved.stderr
    again = shell.run("recipe", "save", "greet", "who=Ann")
    assert (again.returncode, "greet already" in again.stderr) == (2, True)
    listed = shell.run("recipe", "list")
    assert listed.stdout.split() == ["greet", "who", "Greet", "in", "a", "file"]
    [told] = json.loads(shell.run("recipe", "list", "--json").stdout)
    assert told == {"name": "greet", "inputs": ["who"], "description": "Greet in a file"}
    shown = shell.run("recipe", "show", "greet")
    assert "hello {{inputs.who}} > greeting.txt" in shown.stdout
    parts = json.loads(shell.run("recipe", "show", "greet", "--json").stdout)
    assert parts["inputs"]["who"]["default"] == "Ann"
    assert "false" not in shown.stdout
    done = shell.run("recipe", "run", "greet", "who=Bob Rossi", "--model", script, *free)
    assert done.returncode == 0, done.stderr
    assert (shell.project / "greeting.txt").read_text() == "hello\nBob Rossi\n"
    final = json.loads(
        shell.run("recipe", "run", "greet", "--model", script, *free, "--output", "json").stdout
    )
    assert (final["stop"], len(final["commands"])) == ("done", 2)


def test_wrong_use_of_recipes_is_said(shell: Shell) -> None:
    for words, part in (
        (("show", "nothing"), "Recipe nothing not found"),
        (("show", "../evil"), "is not a valid recipe name"),
        (("save", "x"), "No sessions yet"),
        (("run", "nothing", "a"), "not of the form"),
    ):
        result = shell.run("recipe", *words)
        assert (result.returncode, part in result.stderr) == (2, True), result.stderr
    assert '"nodes"' in shell.run("recipe", "show", "--schema").stdout
