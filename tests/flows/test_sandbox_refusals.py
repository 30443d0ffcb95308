"""A command that the sandbox stopped: the user is asked at once, and the model is told of both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage

from kogniterm.sessions.records import Intent
from kogniterm.types import ActionRequest, Decision, events
from kogniterm.types.turn_values import LEFT_OPEN
from tests.flows.conftest import Flow, MakeFlow, no, yes
from tests.flows.program import replayed
from tests.support.forge import Forge
from tests.support.programs import require_sandbox


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    require_sandbox("auto")


def flow_of(
    make_flow: MakeFlow, *decisions: Callable[[ActionRequest], Decision], times: int = 1
) -> Flow:
    """Return a flow in auto mode whose command needs to write beside the workspace."""
    outside = "echo begun >> inside; cp inside ../outside"
    replies = [f"{{run: '{outside}'}}"] * times
    return make_flow(
        f"replies: [{', '.join([*replies, '{text: Done., repeat: forever}'])}]",
        decisions=decisions or None,
        approval_mode="auto",
        sandbox="auto",
    )


def intents(flow: Flow) -> list[str]:
    bodies = (record.body for record in flow.session.journal.records())
    return [body.request_id for body in bodies if isinstance(body, Intent)]


def answers(flow: Flow) -> list[str]:
    return [m.text for m in flow.session.state.messages if isinstance(m, ToolMessage)]


def lines(folder: Path) -> int:
    return (folder / "inside").read_text().count("begun")


async def test_the_user_is_asked_at_once_and_the_command_runs_outside(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = flow_of(make_flow, yes)
    assert (await flow.run()).exit_code == 0
    ((request, _report, verdict),) = flow.user.asked
    assert request.refusal.effects
    assert "the sandbox" in str(request.refusal.reason)
    assert verdict.reasons[0] == request.refusal.reason
    first, second = intents(flow)
    assert first != second == request.id
    assert [result.exit_code for result in flow.results] == [1, 0]
    assert [event.decision.by for event in flow.of(events.ActionDecided)] == ["policy", "person"]
    (told,) = answers(flow)
    assert told.index("[exit 1]") < told.index("let it run again outside") < told.index("[exit 0]")
    assert "propose the same command again" not in told
    assert (flow.folder.parent / "outside").exists()
    assert lines(flow.folder) == 2
    flow.close()
    report = replayed(forge, flow)[1]
    assert (report["commands"], report["divergence"]) == (2, None)


async def test_a_script_that_its_run_in_the_sandbox_changed_is_named(make_flow: MakeFlow) -> None:
    flow = make_flow(
        "replies: [{run: bash s.sh}, {text: Done.}]",
        decisions=[no("not this")],
        approval_mode="auto",
        sandbox="auto",
    )
    script = flow.folder / "s.sh"
    script.write_text("echo 'echo other' > s.sh; echo x > ../outside || exit 1\n")
    await flow.run()
    ((request, *_),) = flow.user.asked
    assert request.refusal.changed == "s.sh"
    assert len(intents(flow)) == 1


async def test_what_the_user_rejects_runs_no_second_time(make_flow: MakeFlow) -> None:
    flow = flow_of(make_flow, no("not outside"))
    await flow.run()
    assert len(intents(flow)) == 1
    (told,) = answers(flow)
    assert told.index("[exit 1]") < told.index("[not run: refused by the user: not outside]")
    assert not (flow.folder.parent / "outside").exists()
    assert lines(flow.folder) == 1


async def test_a_permission_granted_there_lets_the_next_run_outside_at_once(
    make_flow: MakeFlow,
) -> None:
    flow = flow_of(make_flow, yes, times=2)
    session = flow.open()
    user = flow.user

    def granting(request: ActionRequest) -> Decision:
        report = user.asked[-1][1]
        offered = session.policy.offers(request, report, session.executor.cwd)
        assert [offer.outside for offer in offered] == [True] * len(offered)
        session.policy.grant(report, offered[0], session.executor.cwd)
        return yes(request)

    user.decisions = [granting]
    await flow.run()
    assert len(user.asked) == 1
    assert [event.decision.by for event in flow.of(events.ActionDecided)] == [
        "policy", "person", "lease s1",
    ]  # fmt: skip
    assert [result.exit_code for result in flow.results] == [1, 0, 0]
    assert lines(flow.folder) == 3


async def test_a_question_that_was_left_is_asked_again_and_nothing_runs_before(
    make_flow: MakeFlow,
) -> None:
    def leaves(request: ActionRequest) -> Decision:
        raise asyncio.CancelledError(LEFT_OPEN)

    flow = flow_of(make_flow, leaves)
    session_id = flow.open().id
    with pytest.raises(asyncio.CancelledError):
        await flow.run()
    assert lines(flow.folder) == 1
    assert answers(flow) == []
    flow.close()
    again = flow_of(make_flow, yes, times=0)
    again.open(session_id)
    await again.run(None)
    ((request, *_),) = again.user.asked
    assert request.refusal is not None
    (told,) = answers(again)
    assert told.index("[exit 1]") < told.index("[exit 0]")
    assert lines(again.folder) == 2


async def test_a_question_that_was_left_is_refused_where_nobody_is(make_flow: MakeFlow) -> None:
    def leaves(request: ActionRequest) -> Decision:
        raise asyncio.CancelledError(LEFT_OPEN)

    flow = flow_of(make_flow, leaves)
    session_id = flow.open().id
    with pytest.raises(asyncio.CancelledError):
        await flow.run()
    flow.close()
    later = flow_of(make_flow, times=0)
    later.flags["sandbox"] = "off"  # even where it would not need one
    later.open(session_id)
    assert (await later.run(None)).exit_code == 3
    assert lines(later.folder) == 1
    assert not (later.folder.parent / "outside").exists()


async def test_a_hard_limit_is_stronger_than_the_question(make_flow: MakeFlow) -> None:
    flow = flow_of(make_flow, lambda request: Decision("edit", "rm -rf /", "person"))
    await flow.run()
    assert len(intents(flow)) == 1
    assert "[not run: refused by policy" in answers(flow)[0]


async def test_with_nobody_to_ask_a_command_may_run_inside_again(make_flow: MakeFlow) -> None:
    command = "[ -e ok ] || cp inside ../outside"
    runs = [command, "touch ok", command]
    flow = make_flow(
        f"replies: [{', '.join(f'{{run: {one!r}}}' for one in runs)}, Done.]",
        approval_mode="auto",
        sandbox="auto",
    )
    (flow.folder / "inside").write_text("x")
    assert (await flow.run()).exit_code == 0
    first, _second, third = answers(flow)
    assert first.count("Nothing runs outside the sandbox here") == 1
    assert third == "[exit 0]"


async def test_what_stopped_a_job_or_was_masked_is_named(make_flow: MakeFlow) -> None:
    flow = make_flow(
        "replies: [{run: 'touch ../never 2>&1 | cat'}, {run: '(sleep 1; touch ../never) 2>&1 &'}, "
        "{calls: [{tool: jobs, arguments: {action: wait, id: j1}}]}, Done.]",
        approval_mode="auto",
        sandbox="auto",
    )
    await flow.run()
    masked, _begun, job = answers(flow)
    assert "[sandbox: Could not write ../never: the sandbox protects it.]" in masked
    assert "[sandbox: Could not write ../never: the sandbox protects it." in job
    assert "j1 ended, exit 1" in job


async def test_a_failure_that_a_command_got_over_is_named_and_not_asked_about(
    make_flow: MakeFlow,
) -> None:
    command = "cp inside ../outside || true"
    flow = make_flow(
        f"replies: [{{run: '{command}'}}, {{run: '{command}'}}, Done.]",
        decisions=[no("no")],
        approval_mode="auto",
        sandbox="auto",
    )
    (flow.folder / "inside").write_text("x")
    assert (await flow.run()).exit_code == 0
    assert flow.user.asked == []
    assert all("the sandbox protects it" in one for one in answers(flow))
