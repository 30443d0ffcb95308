"""At a limit the user decides whether the turn goes on; where nobody is there, it ends."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

import pytest

from kogniterm.protocols import SystemClock
from kogniterm.runtime.budgets import Budget, Limits, TurnCount
from kogniterm.runtime.fixed_questions import LimitQuestion
from kogniterm.types import LimitChoice, LimitReached, events
from kogniterm.types.turn_values import LEFT_OPEN
from tests.flows.conftest import Flow, MakeFlow

FOUR = "replies: [{run: echo 1}, {run: echo 2}, {run: echo 3}, {text: Done.}]"
CALLS = LimitReached("steps", 2)


@dataclass
class AtTheLimit:
    """A user with prepared choices, who ends the turn when they are used up."""

    choices: list[LimitChoice] = field(default_factory=list)
    asked: list[LimitReached] = field(default_factory=list)

    async def __call__(self, question: LimitQuestion) -> LimitChoice:
        self.asked.append(question.reached)
        return self.choices.pop(0) if self.choices else "end"


def told(flow: Flow) -> list[tuple[str, str]]:
    return [(event.choice, event.by) for event in flow.of(events.LimitDecided)]


async def test_as_much_again_is_granted_for_this_turn_only(make_flow: MakeFlow) -> None:
    script = "replies: [{run: 'echo 1', repeat: 4}, {text: Done.}, {run: 'echo 2', repeat: 9}]"
    flow = make_flow(script, max_steps=2)
    flow.at_limit = user = AtTheLimit(["more", "more"])
    answer = await flow.run()
    assert (answer.text, answer.exit_code) == ("Done.", 0)
    assert user.asked == [CALLS, LimitReached("steps", 4)]
    assert told(flow) == [("more", "person")] * 2
    assert flow.of(events.BudgetUsed)[-1].budgets["steps"] == (5, 6)
    assert (await flow.run("again")).exit_code == 4
    assert user.asked[2:] == [CALLS]


async def test_a_limit_can_be_dropped_for_the_session(make_flow: MakeFlow) -> None:
    flow = make_flow(f"{FOUR[:-1]}, {{text: Again., repeat: forever}}]", max_steps=2)
    flow.at_limit = user = AtTheLimit(["unlimited"])
    assert (await flow.run()).text == "Done."
    assert (await flow.run("again")).exit_code == 0
    assert user.asked == [CALLS]


async def test_the_user_can_end_the_turn_at_a_limit(make_flow: MakeFlow) -> None:
    flow = make_flow(FOUR, max_steps=2)
    flow.at_limit = AtTheLimit(["end"])
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("budget", 4)
    assert str(answer.reason) == "Model call limit reached: 2."
    assert told(flow) == [("end", "person")]


@pytest.mark.parametrize(
    ("limit", "asked"),
    [
        ({"max_steps": 2}, LimitReached("steps", 2)),
        ({"max_tokens": 1}, LimitReached("tokens", 1)),
        ({"max_session_tokens": 1}, LimitReached("tokens", 1, of_session=True)),
    ],
)
async def test_every_limit_asks(
    make_flow: MakeFlow, limit: dict[str, object], asked: LimitReached
) -> None:
    flow = make_flow(FOUR, **limit)
    flow.at_limit = user = AtTheLimit(["unlimited"])
    assert (await flow.run()).text == "Done."
    assert user.asked == [asked]


async def test_as_much_again_counts_from_what_was_used(make_flow: MakeFlow) -> None:
    script = "replies: [{run: 'true', repeat: 3, usage: {input: 900}}, {text: Done.}]"
    flow = make_flow(script, max_session_tokens=1_000)
    flow.at_limit = user = AtTheLimit(["more"])
    assert (await flow.run()).text == "Done."
    assert user.asked == [LimitReached("tokens", 1_000, of_session=True)]


async def test_more_time_lets_the_model_answer_after_all(make_flow: MakeFlow) -> None:
    script = "delays: true\nreplies: [{text: Late., delay: 987}, {text: In time.}]"
    flow = make_flow(script, max_seconds=1)
    flow.at_limit = user = AtTheLimit(["unlimited"])
    assert (await flow.run()).text == "In time."
    assert user.asked == [LimitReached("seconds", 1)]


async def test_sub_agents_at_the_same_limit_ask_once_and_end_together(
    make_flow: MakeFlow,
) -> None:
    delegated = "{tool: delegate, arguments: {task: look around}}"
    script = f"replies: [{{calls: [{delegated}, {delegated}]}}, {{text: no}}]"
    flow = make_flow(script, max_steps=1)
    flow.at_limit = user = AtTheLimit(["end", "more"])
    assert (await flow.run()).exit_code == 4
    assert user.asked == [LimitReached("steps", 1)]


@dataclass
class Waiting:
    """A user who does not answer; `asked` is set at the question."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, question: LimitQuestion) -> LimitChoice:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody answers")


async def left_at_the_question(flow: Flow, why: str) -> str:
    """Leave a turn at its question, as a closed terminal does; return the session."""
    flow.at_limit = user = Waiting()
    running = asyncio.ensure_future(flow.run())
    await user.asked.wait()
    running.cancel(why)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    session = flow.session.id
    flow.close()
    return session


async def test_a_question_left_open_is_asked_again_on_resume(make_flow: MakeFlow) -> None:
    flow = make_flow(FOUR, max_steps=2)
    session = flow.open(await left_at_the_question(flow, LEFT_OPEN))
    assert (session.state.open_turn, session.state.limit) == (True, CALLS)
    assert session.state.asking
    flow.at_limit = user = AtTheLimit(["more"])
    assert (await flow.run(None)).text == "Done."
    assert user.asked == [CALLS]


async def test_a_turn_stopped_at_the_question_is_over(make_flow: MakeFlow) -> None:
    flow = make_flow(FOUR, max_steps=2)
    session = flow.open(await left_at_the_question(flow, ""))
    assert (session.state.open_turn, session.state.limit) == (False, None)


async def test_the_time_at_a_question_does_not_use_up_the_turn() -> None:
    count = TurnCount(Budget(Limits(seconds=60)), SystemClock())
    async with count.time_limit() as deadline:
        with count.waiting():
            assert deadline.when() is None
        assert deadline.when() is not None


def test_a_limit_that_is_set_takes_the_place_of_what_was_granted() -> None:
    budget = Budget(Limits(steps=2))
    budget.grant(CALLS)
    assert budget.limit("steps") == 4
    budget.set_limit("steps", 3)
    assert budget.limit("steps") == 3
