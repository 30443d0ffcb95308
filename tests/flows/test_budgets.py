"""Budgets hold for calls, tokens and time, and can be raised during a turn."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kogniterm.sessions.history import SessionHistory
from kogniterm.types import Usage, events
from tests.flows.conftest import Flow, MakeFlow


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
    assert flow.session.state.pending == ()


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
    session = flow.session.id
    flow.close()
    flow.open(session)
    assert (await flow.run("go on")).exit_code == 4
    flow.session.services.budget.session = replace(flow.session.services.budget.session, tokens=400)
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
    await session.context.compact_now(asked=True)
    usage = sum(SessionHistory(session.journal.records()).models.values(), Usage())
    assert usage.input > 7_000
    assert usage == session.state.usage
