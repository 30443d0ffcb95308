"""Parallel nodes of a recipe: decided on together, each with its own intent, then run at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kogniterm.errors import TurnInterruptedError
from kogniterm.sessions.records import Decided, Intent, Judged, Outcome
from kogniterm.types import ActionRequest, Decision
from tests.addons.recipes.test_recipes import cook
from tests.flows.conftest import Flow, MakeFlow, User, change_to, no, yes
from tests.flows.test_side_by_side import kinds, meet
from tests.support.pipes import fifos
from tests.support.programs import require_sandbox


@dataclass
class JointUser(User):
    """A user who decides on several commands in one question; with no answers, on each."""

    together: list[list[str]] = field(default_factory=list)
    answers: list[Callable[[ActionRequest], Decision]] | None = None
    stops: bool = False

    async def decide_together(self, asked: Sequence[Any]) -> Sequence[Decision] | None:
        self.together.append([request.command for request, _report, _verdict in asked])
        if self.stops:
            raise TurnInterruptedError("The user stopped the turn.")
        if self.answers is None:
            return None
        return [decide(one[0]) for decide, one in zip(self.answers, asked, strict=True)]


def parallel(*commands: str) -> str:
    """Return a recipe that runs the commands at once, and prints the end behind them."""
    nodes = [
        {"id": f"n{number}", "command": command, "parallel": True}
        for number, command in enumerate(commands)
    ]
    return json.dumps({"name": "r", "nodes": [*nodes, {"id": "last", "command": "echo end"}]})


READ = "python3 -c 'print(open(\"{}\").read().strip())'"
"""A command whose effects nobody can tell from its text."""


def ran(flow: Flow) -> list[str]:
    """Return the commands with an intent."""
    bodies = [one.body for one in flow.session.journal.records()]
    return [one.command for one in bodies if isinstance(one, Intent)]


async def test_one_question_shows_all_that_run_at_once(make_flow: MakeFlow) -> None:
    flow = make_flow(decisions=[])
    commands = READ.format("p"), "cd sub && cat ../q", "X=1 sh -c 'cat r'"
    flow.user = JointUser([yes], answers=[yes] * 3)
    paths = fifos(flow.folder, "p", "q", "r")
    (flow.folder / "sub").mkdir()
    answer, _ = await asyncio.gather(cook(flow, parallel(*commands)), meet(paths))
    assert (answer.text, answer.exit_code) == ("end", 0)
    assert flow.user.together == [list(commands)]
    assert [request.command for request, *_ in flow.user.asked] == ["echo end"]
    order = [name for name, _ in kinds(flow, Judged, Decided, Intent, Outcome)]
    steps = ["Judged", "Decided", "Intent", "Outcome"]
    assert order == [name for name in steps for _ in commands] + steps
    assert flow.session.executor.cwd == str(flow.folder)


async def test_refusing_one_of_them_starts_none(make_flow: MakeFlow) -> None:
    flow = make_flow(decisions=[])
    flow.user = JointUser(answers=[yes, no("not the second"), yes])
    answer = await cook(flow, parallel("touch a", "python3 -c 1", "touch b"))
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert "not the second" in str(answer.reason)
    assert not ran(flow)
    assert not list(flow.folder.iterdir())
    assert not flow.session.state.pending


async def test_what_policy_denies_is_not_asked_about_and_starts_none(make_flow: MakeFlow) -> None:
    flow = make_flow(decisions=[])
    rules = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "policy.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text('[[rule]]\ndecision = "deny"\nprogram = "python3"\n')
    flow.user = JointUser(answers=[yes] * 3)
    answer = await cook(flow, parallel("touch a", "python3 -c 1", "touch b"))
    assert answer.exit_code == 3
    assert not flow.user.together + flow.user.asked + ran(flow)
    assert not list(flow.folder.iterdir())


async def test_what_is_dangerous_or_meets_is_asked_by_itself(make_flow: MakeFlow) -> None:
    flow = make_flow(decisions=[])
    flow.user = JointUser([yes] * 5, answers=[yes] * 2)
    commands = "rm -rf /srv/none", "echo a > x", "cat x", "python3 -c 1"
    await cook(flow, parallel(*commands))
    assert flow.user.together == [["cat x", "python3 -c 1"]]
    assert ran(flow) == [*commands, "echo end"]


async def test_one_by_one_an_edited_command_runs_alone(make_flow: MakeFlow) -> None:
    flow = make_flow(decisions=[])
    flow.user = JointUser([change_to("echo edited > made"), yes, yes, yes, yes])
    paths = fifos(flow.folder, "p", "q")
    recipe = parallel("python3 -c 1", READ.format("p"), READ.format("q"))
    answer, _ = await asyncio.gather(cook(flow, recipe), meet(paths))
    assert answer.exit_code == 0
    assert [len(one) for one in flow.user.together] == [3]
    order = [name for name, _ in kinds(flow, Intent, Outcome)]
    assert order[:4] == ["Intent", "Intent", "Outcome", "Outcome"]
    assert ran(flow)[2] == "echo edited > made"
    assert (flow.folder / "made").exists()


async def test_stopping_at_the_question_starts_none(make_flow: MakeFlow) -> None:
    flow = make_flow(decisions=[])
    flow.user = JointUser(stops=True)
    answer = await cook(flow, parallel("touch a", "python3 -c 1"))
    assert answer.stop == "interrupted"
    assert not ran(flow)
    assert not flow.session.state.open_turn


async def test_a_script_that_changed_at_the_question_starts_none_of_it(make_flow: MakeFlow) -> None:
    flow = make_flow(decisions=[])
    script = flow.folder / "s.sh"
    script.write_text("touch first\n")

    def change(request: ActionRequest) -> Decision:
        script.write_text("touch second\n")
        return yes(request)

    flow.user = JointUser(answers=[change, yes])
    answer = await cook(flow, parallel("sh s.sh", "python3 -c 1"))
    assert answer.exit_code == 3
    assert [file.name for file in flow.folder.iterdir()] == ["s.sh"]


async def test_each_that_the_sandbox_stops_is_asked_about_again(make_flow: MakeFlow) -> None:
    require_sandbox("auto")
    flow = make_flow(approval_mode="auto", sandbox="auto")
    flow.user = JointUser([yes] * 2)
    commands = [f'python3 -c \'open("../{name}", "w")\'' for name in ("one", "two")]
    answer = await cook(flow, parallel(*commands))
    assert answer.exit_code == 0
    assert [request.command for request, *_ in flow.user.asked] == commands
    assert (flow.folder.parent / "one").exists()
    assert (flow.folder.parent / "two").exists()
