"""Modes belong to the process that runs a turn: resuming a session restores no permission."""

from __future__ import annotations

import pytest

from kogniterm.approval import classify
from kogniterm.approval.policy.verdict import only_plans
from kogniterm.sessions.session_transfer import export_lines, fork, import_lines
from kogniterm.types import ActionRequest, Decision, Verdict, events
from tests.flows.conftest import Flow, MakeFlow

ACT = "replies: [{run: touch acted, purpose: Act}, {text: Done.}]"
NOW_MANUAL = "It now asks before commands again"


async def left_in_auto(make_flow: MakeFlow) -> str:
    """Return the id of a session that a process with `--auto-approve` has worked in."""
    flow = make_flow("replies: [{text: Hello.}]", approval_mode="auto", plan="never")
    await flow.run()
    assert flow.session.modes.approval == "auto"
    found = flow.session.id
    flow.close()
    return found


def plain(make_flow: MakeFlow, script: str = ACT, **flags: object) -> Flow:
    """Return an unattended flow without any flag about modes."""
    flow = make_flow(script, decisions=[], **flags)
    flow.user = None
    return flow


def notices(flow: Flow) -> str:
    return " ".join(map(str, flow.session.notices))


@pytest.mark.parametrize("way", ["last", "id", "fork", "import", "copy"])
async def test_a_resumed_session_begins_in_manual(make_flow: MakeFlow, way: str) -> None:
    session_id = await left_in_auto(make_flow)
    flow = plain(make_flow)
    store = flow.open(session_id).archive.store
    if way == "fork":
        session_id = fork(store, session_id).id
    elif way in ("import", "copy"):
        session_id = import_lines(store, list(export_lines(store, session_id)), as_new=True).id
    flow.close()
    # A second session is prepared, because the first resume recorded its own mode.
    if way in ("last", "id"):
        session_id = await left_in_auto(make_flow)
    session = flow.open("last" if way == "last" else session_id)
    assert (session.modes.approval, session.modes.planning) == ("manual", "auto")
    answer = await flow.run("act")
    assert answer.exit_code == 3
    assert not (flow.folder / "acted").exists()


async def test_the_resumed_session_says_so_once(make_flow: MakeFlow) -> None:
    session_id = await left_in_auto(make_flow)
    flow = plain(make_flow)
    flow.open(session_id)
    assert notices(flow).count(NOW_MANUAL) == 1
    assert "/mode auto" in notices(flow)
    assert "--mode auto" in notices(flow)
    flow.close()
    flow.open(session_id)
    assert NOW_MANUAL not in notices(flow)


async def test_the_settings_of_the_process_decide(make_flow: MakeFlow) -> None:
    session_id = await left_in_auto(make_flow)
    flow = plain(make_flow)
    flow.environ["KOGNITERM_APPROVAL_MODE"] = "auto"
    flow.environ["KOGNITERM_PLAN"] = "always"
    session = flow.open(session_id)
    assert (session.modes.approval, session.modes.planning) == ("auto", "always")


async def test_no_sandbox_and_allow_reads_end_with_their_process(make_flow: MakeFlow) -> None:
    flow = make_flow(ACT, sandbox="off", allow_reads=True)
    await flow.run()
    session_id = flow.session.id
    flow.close()
    later = plain(make_flow)
    later.flags["sandbox"] = "auto"
    policy = later.open(session_id).policy
    assert not policy.circumstances.unsandboxed_ok
    assert not policy.circumstances.safe_unasked
    answer = await later.run("look")
    assert answer.exit_code == 3


async def test_leases_end_with_their_process(make_flow: MakeFlow) -> None:
    flow = plain(make_flow)
    session = flow.open()
    report = classify("touch acted", cwd=str(flow.folder), workspace=str(flow.folder))
    request = ActionRequest("a1", "c1", "execute_command", "touch acted")
    for offer in session.policy.offers(request, report, str(flow.folder)):
        session.policy.grant(report, offer, session.executor.cwd)
    assert len(session.policy.leases) == 5  # two of them for any folder of the workspace
    session_id = session.id
    flow.close()
    assert flow.open(session_id).policy.leases == ()
    answer = await flow.run("act")
    assert answer.exit_code == 3
    assert not flow.of(events.CommandStarted)


async def test_an_approval_does_not_get_past_the_mode_that_was_chosen_at_the_question(
    make_flow: MakeFlow,
) -> None:
    def switched(request: ActionRequest) -> Decision:
        flow.session.use_mode("plan")
        verdict = flow.session.services.gate.judge_again(request, Verdict("ask")).verdict
        assert (verdict.kind, only_plans(verdict)) == ("deny", True)
        return Decision("approve", request.command, "person")

    flow = make_flow(ACT, decisions=[switched])
    answer = await flow.run("act")
    assert not (flow.folder / "acted").exists()
    assert answer.text == "Done."
    assert "Plan mode only reads" in "".join(flow.shown)
