"""A whole turn, step by step: one input to its answer, for all decisions and results."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from kogniterm.cli.json_output import Summary
from kogniterm.runtime.budgets import Limits
from kogniterm.sessions.records import Decided, Intent, Judged, Outcome, Requested, TurnClosed
from kogniterm.types import ActionRequest, Decision, UserInput, events
from kogniterm.types.turn_values import LEFT_OPEN
from tests.flows.conftest import MakeFlow, User, change_to, no, yes

ONE = "replies: [{run: '%s', purpose: Look}, {text: Done.}]"


async def test_the_shell_keeps_its_state_between_commands(make_flow: MakeFlow) -> None:
    script = """
replies:
  - run: mkdir sub; cd sub; export COLOUR=blue; f() { echo "f $1"; }
  - run: basename "$PWD"; echo $COLOUR; f 1
  - text: Done.
"""
    flow = make_flow(script, decisions=[yes, yes])
    await flow.run()
    assert flow.results[-1].text.split("\n") == ["sub", "blue", "f 1"]


async def test_a_rejection_reaches_the_model_with_its_reason(make_flow: MakeFlow) -> None:
    flow = make_flow(ONE % "touch made", decisions=[no("use a temporary folder")])
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert "refused by the user: use a temporary folder" in flow.shown[2]
    assert not (flow.folder / "made").exists()


async def test_what_waits_behind_a_refused_command_is_not_run(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls:
      - {tool: execute_command, arguments: {command: touch one}}
      - {tool: execute_command, arguments: {command: touch two}}
  - text: Done.
"""
    flow = make_flow(script, decisions=[no("")])
    await flow.run()
    told = "[not run: an earlier call of the same reply, execute_command touch one, failed or was"
    assert flow.shown[3].startswith(told)
    assert not list(flow.folder.iterdir())


async def test_behind_a_failure_only_what_cannot_build_on_it_runs(make_flow: MakeFlow) -> None:
    script = """
replies:
  - calls:
      - {tool: edit_file, arguments: {path: a.txt, old: missing, new: x}}
      - {run: cat a.txt}
      - {tool: edit_file, arguments: {path: b.txt, old: b, new: c}}
      - {tool: edit_file, arguments: {path: a.txt, old: a, new: b}}
      - {run: touch made}
      - {tool: read_file, arguments: {path: b.txt}}
  - calls:
      - {tool: edit_file, arguments: {path: link.txt, old: missing, new: x}}
      - {tool: read_file, arguments: {path: "no\\0file"}}
      - {tool: edit_file, arguments: {path: link.txt, old: a, new: b}}
  - calls: [{run: (exit 2)}, {run: touch made}, {run: ls}]
  - text: Done.
"""
    flow = make_flow(script, decisions=[yes] * 8)
    for name in "ab":
        (flow.folder / f"{name}.txt").write_text(f"{name}\n")
    (flow.folder / "link.txt").symlink_to("a.txt")
    await flow.run()
    by_edit = "[not run: an earlier call of the same reply, edit_file {}, failed"
    assert "is not in" in flow.shown[2]
    assert flow.shown[3].startswith("a\n[exit 0]")
    assert flow.shown[4].startswith("Wrote")
    assert flow.shown[5].startswith(by_edit.format("a.txt"))
    assert flow.shown[6].startswith(by_edit.format("a.txt"))
    assert flow.shown[7] == "1: c"
    assert flow.shown[11].startswith(by_edit.format("link.txt"))
    assert flow.shown[13] == "[exit 2]"
    assert flow.shown[14].startswith("[not run: an earlier call of the same reply, execute_command")
    assert flow.shown[15].startswith("a.txt")
    assert not (flow.folder / "made").exists()


async def test_an_edited_command_is_judged_again_and_the_model_is_told(make_flow: MakeFlow) -> None:
    flow = make_flow(ONE % "echo long", decisions=[change_to("echo short"), yes])
    await flow.run()
    assert [r.command for r, _, _ in flow.user.asked] == ["echo long", "echo short"]
    assert flow.shown[2].startswith("[the user changed the command to: echo short]\nshort")


async def test_the_journal_tells_the_whole_story_in_order(make_flow: MakeFlow) -> None:
    flow = make_flow(ONE % "true", decisions=[yes])
    await flow.run()
    kinds = [type(record.body) for record in flow.session.journal.records()]
    story = [Requested, Judged, Decided, Intent, Outcome]
    start = kinds.index(Requested)
    assert kinds[start : start + 5] == story
    assert kinds[-1] is TurnClosed
    hashes = [(r.previous, r.hash) for r in flow.session.journal.records()]
    assert all(a[1] == b[0] for a, b in pairwise(hashes))


async def test_a_check_that_fails_keeps_the_step_open(make_flow: MakeFlow) -> None:
    script = """
replies:
  - plan: {goal: g, steps: [{id: s1, what: Create, check: {kind: file, value: made}}]}
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - text: All done!
  - text: It is not there.
"""
    flow = make_flow(script)
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("not_done", 1)
    assert any("Check failed (exit 1): s1 is not done" in text for text in flow.shown)


async def test_a_failing_model_ends_the_turn_and_the_next_one_works(make_flow: MakeFlow) -> None:
    flow = make_flow(
        "replies: [{run: 'true'}, {error: auth, message: The key is wrong.}, {text: Again.}]"
    )
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("model_failed", 5)
    assert "The key is wrong." in str(answer.reason)
    assert (await flow.run("again")).text == "Again."


async def test_stopping_the_turn_stops_the_command_and_keeps_its_output(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("replies: [{run: 'echo begun; sleep 600; touch made'}, {text: Next.}]", [yes])
    task = asyncio.ensure_future(flow.run())
    await flow.until(lambda e: isinstance(e, events.CommandOutput) and b"begun" in e.data)
    task.cancel()
    answer = await task
    assert (answer.stop, answer.exit_code) == ("interrupted", 130)
    assert flow.results[0].ended == "stopped"
    assert flow.shown[2].startswith("begun\n[stopped")
    assert "[The user stopped it.]" in flow.shown[2]
    assert flow.shown[3].startswith("(The user stopped the turn here.")
    assert not (flow.folder / "made").exists()
    assert (await flow.run("go on")).text == "Next."


async def test_the_model_is_told_that_the_user_stopped_it_while_it_thought(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("delays: true\nreplies: [{text: Late., delay: 600}, {text: Next.}]", [])
    task = asyncio.ensure_future(flow.run())
    await flow.until(lambda e: isinstance(e, events.ModelCalled))
    task.cancel()
    assert (await task).stop == "interrupted"
    assert flow.shown[-1].startswith("(The user stopped the turn here.")
    assert (await flow.run("go on")).text == "Next."


async def test_stopping_while_a_user_is_asked_leaves_a_valid_history(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("replies: [{run: touch made}, {text: Next.}]", [yes])
    waiting = asyncio.Event()

    class Slow:
        async def decide(self, *_: object) -> object:
            waiting.set()
            await asyncio.Event().wait()
            raise AssertionError

    user, flow.user = flow.user, Slow()
    task = asyncio.ensure_future(flow.run())
    await waiting.wait()
    task.cancel()
    assert (await task).exit_code == 130
    assert "the user stopped the turn" in flow.shown[2]
    flow.user = user
    assert (await flow.run("other")).text == "Next."


async def test_a_script_that_changed_after_approval_does_not_run(make_flow: MakeFlow) -> None:
    flow = make_flow(ONE % "bash deploy.sh")
    script = flow.folder / "deploy.sh"
    script.write_text("echo good\n")

    class Slow:
        async def decide(self, request: object, report: object, verdict: object) -> object:
            script.write_text("echo evil\n")
            return yes(request)  # type: ignore[arg-type]

    flow.user = Slow()
    flow.flags["approval_mode"] = "manual"
    answer = await flow.run()
    assert "deploy.sh changed after the command was checked" in flow.shown[2]
    assert not flow.results
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert [event.decision.by for event in flow.of(events.ActionDecided)] == [
        "person",
        "start check",
    ]


@pytest.mark.parametrize("mode", ["auto", "lease"])
async def test_what_policy_allowed_does_not_run_either_when_its_script_changed(
    make_flow: MakeFlow, mode: str
) -> None:
    flow = make_flow(f"replies: [{', '.join(['{run: bash deploy.sh}'] * 3)}, {{text: Done.}}]")
    script = flow.folder / "deploy.sh"
    script.write_text("echo good\n")
    flow.flags["approval_mode"] = "auto" if mode == "auto" else "manual"
    session = flow.open()
    if mode == "lease":
        request = ActionRequest("a", "c", "execute_command", "bash deploy.sh")
        report = session.policy.assess(request, session.executor.cwd)
        session.policy.grant(
            report,
            session.policy.offers(request, report, session.executor.cwd)[0],
            session.executor.cwd,
        )
    policy = session.policy
    policy.circumstances = policy.circumstances._replace(unsandboxed_ok=True)
    seen = []

    def change_once(event: object) -> None:
        flow.tell(event)
        if isinstance(event, events.ActionProposed):
            seen.append(event.verdict.kind)
            if len(seen) == 1:
                script.write_text("echo evil\n")

    summary = Summary()
    flow.user = User()
    answer = await session.run(UserInput("go"), approver=flow.user, sink=change_once)
    for event in flow.events:
        summary(event)
    assert seen == ["allow"] * 3
    assert answer.exit_code == 3
    # It was classified again when it was proposed again, and then ran.
    assert [result.text.strip() for result in flow.results] == ["evil", "evil"]
    first = summary.final(answer)["commands"][0]
    assert (first["status"], first["decided_by"]) == ("refused", "start check")
    assert "deploy.sh changed" in first["reason"]


async def test_a_question_left_open_is_judged_anew_and_then_held_to(make_flow: MakeFlow) -> None:
    flow = make_flow(ONE % "bash deploy.sh", [yes])
    script = flow.folder / "deploy.sh"
    script.write_text("echo good\n")
    flow.flags["approval_mode"] = "manual"

    class Leaves:
        async def decide(self, request: object, report: object, verdict: object) -> object:
            raise asyncio.CancelledError(LEFT_OPEN)

    user, flow.user = flow.user, Leaves()
    with pytest.raises(asyncio.CancelledError):
        await flow.run()
    script.write_text("echo other\n")
    flow.user = user
    answer = await flow.run(None)
    assert (answer.exit_code, flow.results[0].text.strip()) == (0, "other")


async def test_a_users_own_command_is_seen_by_the_model(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: I saw it.}]")
    session = flow.open()
    result = await session.run_shell("echo mine", sink=flow.tell)
    assert result.text.strip() == "mine"
    await flow.run("what did I do?")
    assert flow.shown[0] == "I ran this command myself: echo mine\nmine\n[exit 0]"


async def test_the_wait_for_the_user_is_not_the_turns_time(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{run: 'true'}, {text: Done.}]", [yes])
    session = flow.open()
    decide, clock = flow.user.decide, session.journal.clock
    late = 0.0

    class Later:
        def monotonic(self) -> float:
            return clock.monotonic() + late

        def now(self) -> float:
            return clock.now()

    async def slowly(*given: Any) -> Decision:
        nonlocal late
        late += 1_000
        return await decide(*given)

    session.journal.clock = Later()
    session.services.budget.limits = Limits(seconds=900)
    flow.user.decide = slowly  # type: ignore[method-assign]  # a user who takes their time
    answer = await flow.run()
    assert (answer.exit_code, answer.text) == (0, "Done.")
    assert answer.waited > 999
    assert answer.seconds < 900
    assert Summary().final(answer)["waited_seconds"] == round(answer.waited, 3)


@pytest.mark.parametrize(
    ("decisions", "by", "hint"),
    [([no("not now")], "person", False), (None, "unattended", True)],
)
async def test_who_refused_is_known(
    make_flow: MakeFlow, decisions: Any, by: str, hint: bool
) -> None:
    flow = make_flow("replies: [{run: rm x}, {text: Then not.}]", decisions, approval_mode="manual")
    answer = await flow.run()
    assert (answer.exit_code, answer.refused_by) == (3, by)
    assert ("--allow-reads" in str(answer.reason)) == hint


async def test_replies_of_a_step_that_fails_are_counted_in_the_journal(make_flow: MakeFlow) -> None:
    script = """
replies:
  - {text: " ", usage: {input: 70, output: 3}}
  - {error: auth}
"""
    flow = make_flow(script)
    answer = await flow.run()
    assert (answer.stop, answer.usage.input) == ("model_failed", 70)
    assert flow.session.state.usage == answer.usage
