"""Budgets hold for calls, tokens and time, and can be raised during a turn."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kogniterm.runtime.budgets import session_spent
from kogniterm.types import ActionRequest, Decision, events
from tests.flows.conftest import Flow, MakeFlow, yes

GO_ON = "replies: [{run: 'echo 1'}, {run: 'echo 2'}, {run: 'echo 3'}, {text: Done.}]"


@dataclass
class CommandTakesAll:
    """A clock by which a turn's minute is nearly over when its command starts, and over after it.

    The machine's own clock would let a busy machine use the time up before.
    """

    flow: Flow

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        if self.flow.of(events.CommandEnded):
            return 61.0
        return 59.9 if self.flow.of(events.CommandStarted) else 0.0


async def test_a_command_ends_with_the_time_of_its_turn(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{run: sleep 987}, {text: no}]", max_seconds=60)
    flow.open().journal.clock = CommandTakesAll(flow)
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("budget", 4)
    assert [result.ended for result in flow.results] == ["timeout"]
    assert flow.session.state.pending == ()  # type: ignore[union-attr]


async def test_a_model_that_does_not_answer_ends_with_the_time_of_its_turn(
    make_flow: MakeFlow,
) -> None:
    script = "delays: true\nreplies: [{run: 'true'}, {text: Late., delay: 987}]"
    flow = make_flow(script, max_seconds=2)
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("budget", 4)
    assert "Time limit reached: 2" in str(answer.reason)


async def test_a_budget_can_be_raised_while_the_turn_runs(make_flow: MakeFlow) -> None:
    def raise_it(request: ActionRequest) -> Decision:
        assert flow.session is not None
        flow.session.budget.limits = replace(flow.session.budget.limits, steps=9)
        return yes(request)

    flow = make_flow(GO_ON, decisions=[yes, raise_it, yes], max_steps=2)
    assert (await flow.run()).text == "Done."


async def test_how_far_the_budgets_are_used_is_told(make_flow: MakeFlow) -> None:
    flow = make_flow(GO_ON, max_steps=9, max_tokens=100_000)
    answer = await flow.run()
    last = flow.of(events.BudgetUsed)[-1].budgets
    assert last["steps"] == (4, 9)
    assert last["tokens"] == (answer.usage.input + answer.usage.output, 100_000)
    assert set(last) == {"steps", "tokens"}


async def test_a_session_has_a_budget_of_its_own_and_goes_on_with_a_bigger_one(
    make_flow: MakeFlow,
) -> None:
    script = "replies: [{text: a, usage: {input: 90, output: 10}, repeat: forever}]"
    flow = make_flow(script, max_session_tokens=150)
    assert (await flow.run()).exit_code == 0
    assert flow.of(events.BudgetUsed)[-1].budgets["tokens"] == (100, 150)
    assert (await flow.run("again")).exit_code == 0
    answer = await flow.run("and again")
    assert (answer.stop, answer.exit_code) == ("budget", 4)
    assert str(answer.reason) == "Session token limit reached: 150."
    assert flow.session is not None
    session = flow.session.id
    flow.close()
    flow.open(session)
    assert (await flow.run("go on")).exit_code == 4
    flow.session.budget.session = replace(flow.session.budget.session, tokens=400)
    assert (await flow.run("go on")).exit_code == 0


async def test_the_budget_that_ends_sooner_is_shown(make_flow: MakeFlow) -> None:
    script = "replies: [{text: a, usage: {input: 90, output: 10}, repeat: forever}]"
    flow = make_flow(script, max_tokens=120, max_session_tokens=150)
    await flow.run()
    assert flow.of(events.BudgetUsed)[-1].budgets["tokens"] == (100, 120)
    await flow.run("again")
    assert flow.of(events.BudgetUsed)[-1].budgets["tokens"] == (200, 150)


async def test_a_summary_counts_for_the_session(make_flow: MakeFlow) -> None:
    told = "x" * 3_000
    flow = make_flow(
        f"replies: [{{text: {told}, repeat: forever}},"
        " {when: {purpose: compact}, text: Said., usage: {input: 7000, output: 10}}]"
    )
    await flow.run()
    await flow.run("again")
    session = flow.session
    assert session is not None
    await session.context.compact_now(asked=True)
    _, usage = session_spent(session.journal.records())
    assert usage.input > 7_000
    assert usage == session.state.usage


async def test_a_session_adds_up_its_turns(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{run: 'echo 1'}, {text: a}, {run: 'echo 22'}, {text: b}]")
    first, second = await flow.run(), await flow.run("again")
    assert flow.session is not None
    spent, usage = session_spent(flow.session.journal.records())
    assert usage == first.usage + second.usage
    assert spent["steps"] == 4
    assert spent["seconds"] >= 0
    turn = flow.session.budget.spent()
    assert turn["steps"] == 2
