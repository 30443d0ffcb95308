"""Outcomes that the model states: exit status and reason follow the statement and the facts."""

from __future__ import annotations

import asyncio
import json

import pytest

from kogniterm.types import ActionRequest, Decision, PlanReview
from kogniterm.types.turn_values import LEFT_OPEN
from tests.flows.conftest import MakeFlow, no, yes

RUN = {"run": "touch made"}
PLAN = {"plan": {"goal": "Make it", "steps": [{"id": "s1", "what": "Make the file"}]}}

CHECK = {"kind": "command", "value": "test -f made"}
CHECKED = {"plan": {"goal": "g", "steps": [{"id": "s1", "what": "a", "check": CHECK}]}}


def close(status: str = "done") -> dict[str, object]:
    arguments = {"step": "s1", "status": status, "note": "no compiler"}
    return {"calls": [{"tool": "complete_step", "arguments": arguments}]}


def end(outcome: str, why: str = "no compiler") -> dict[str, object]:
    arguments = {"outcome": outcome, **({"why": why} if outcome != "done" else {})}
    return {"text": "Here I end.", "calls": [{"tool": "end_turn", "arguments": arguments}]}


@pytest.mark.parametrize(
    ("replies", "refused", "stop", "code"),
    [
        ([RUN, end("done")], False, "done", 0),
        ([RUN, end("not_done")], False, "not_done", 1),
        ([RUN, end("blocked")], False, "not_done", 1),
        ([RUN, end("blocked")], True, "refused", 3),
        ([RUN, end("done")], True, "done", 0),
        ([RUN, {"text": "All good."}], True, "refused", 3),
        ([{"text": "All good."}], False, "done", 0),
        ([PLAN, end("done"), end("not_done")], False, "not_done", 1),
        ([PLAN, end("blocked")], False, "not_done", 1),
        ([CHECKED, close(), close("skipped"), end("done")], False, "not_done", 1),
        ([{"calls": end("done")["calls"]}, {"text": "All good."}], False, "done", 0),
    ],
)
async def test_the_statement_and_the_facts_decide(
    make_flow: MakeFlow, replies: list[object], refused: bool, stop: str, code: int
) -> None:
    flow = make_flow(json.dumps({"replies": replies}), [no("not now") if refused else yes])
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == (stop, code)
    if code == 1:
        assert str(answer.reason).endswith((": no compiler", "failed: s1"))
    assert answer.text in ("Here I end.", "All good.")


async def test_an_end_that_is_not_the_end_goes_on(make_flow: MakeFlow) -> None:
    calls = [
        {"tool": "end_turn", "arguments": {"outcome": "done"}},
        {"tool": "read_file", "arguments": {"path": "a"}},
    ]
    failed = [{"tool": "read_file", "arguments": {"path": "a"}}, calls[0]]
    replies = [{"calls": calls}, {"calls": failed}, {"text": "It is gone."}]
    flow = make_flow(json.dumps({"replies": replies}))
    answer = await flow.run()
    assert flow.shown[2] == "end_turn has to be the last call of a reply."
    assert flow.shown[6].startswith(
        "[not run: an earlier call of the same reply, read_file a, failed"
    )
    assert answer.text == "It is gone."


WHICH = {"calls": [{"tool": "ask_user", "arguments": {"question": "Which one?"}}]}


@pytest.mark.parametrize(
    ("replies", "asks", "stop", "code"),
    [
        ([PLAN, RUN], True, "not_done", 1),  # the plan stays open
        ([WHICH, RUN], False, "refused", 3),
        ([PLAN, RUN], False, "done", 0),  # the user wanted another plan, and refused no action
    ],
)
async def test_a_resumed_turn_ends_as_one_that_was_not_left(
    make_flow: MakeFlow, replies: list[object], asks: bool, stop: str, code: int
) -> None:
    def leaves(request: ActionRequest) -> Decision:
        raise asyncio.CancelledError(LEFT_OPEN)

    flow = make_flow(json.dumps({"replies": replies}), [leaves])
    session_id = flow.open().id
    if not asks:
        flow.user.reviews = [lambda plan: PlanReview("reject", plan, "person", "no")]
    with pytest.raises(asyncio.CancelledError):
        await flow.run()
    flow.close()
    again = make_flow(json.dumps({"replies": [{"text": "All good.", "repeat": "forever"}]}), [yes])
    again.open(session_id)
    answer = await again.run(None)
    assert (answer.stop, answer.exit_code) == (stop, code)
