"""The steps between an input and its turn, in their order; docs/architecture.md prints them.

The order is a promise: extensions see an input before anything of it is stored, and a request to
forget is carried out before memory is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kogniterm import logs, prompts
from kogniterm.errors import EXIT_REFUSED
from kogniterm.installed import part
from kogniterm.models.catalog import PRICES_DATE
from kogniterm.runtime.budgets import unknown_price
from kogniterm.runtime.session import InputStep, LiveSession
from kogniterm.runtime.turn_ports import TurnIO
from kogniterm.types import Answer, Usage, UserInput, events

log = logging.getLogger(__name__)


async def require_planning(session: LiveSession, given: UserInput | None, io: TurnIO) -> None:
    if session.services.only_plans or session.modes.in_plan_mode:
        session.require_planning()


async def watch_events(session: LiveSession, given: UserInput | None, io: TurnIO) -> None:
    logs.SESSION.set(session.id)
    if log.isEnabledFor(logging.DEBUG):
        from kogniterm.runtime.turn_log import logging_sink

        io.sink = logging_sink(io.sink, session.journal.redact)


async def warn_of_unknown_price(session: LiveSession, given: UserInput | None, io: TurnIO) -> None:
    budget = session.services.budget
    limited = (budget.limits.dollars, budget.session.dollars) != (None, None)
    if limited and budget.price(Usage(), "") is None:
        io.sink(events.Notice(unknown_price(session.model.name, PRICES_DATE), "warning"))


async def use_prompts(session: LiveSession, given: UserInput | None, io: TurnIO) -> None:
    prompts.use(session.extensions.prompts)


async def connect_user(session: LiveSession, given: UserInput | None, io: TurnIO) -> None:
    asker = session.extensions.asker
    asker.ask_now, asker.park, session.journal.given.ask = io.ask, io.park, io.ask_secret


async def open_extensions(session: LiveSession, given: UserInput | None, io: TurnIO) -> None:
    for one in session.extensions.port.extensions:
        one.connect(io)
    await session.extensions.port.opened(io.sink, resumed=bool(session.state.turn))


async def ask_extensions(session: LiveSession, given: UserInput, io: TurnIO) -> Answer | None:
    why = await session.extensions.port.before_input(given, io)
    if why is None:
        return None
    refused = Answer("", "refused", EXIT_REFUSED, why)
    return _answer_without_model(session, io, lambda: refused)


async def forget(session: LiveSession, given: UserInput, io: TurnIO) -> Answer | None:
    request = session.forgetting.requested_in(given)
    if request is None:
        return None
    choice = await session.forgetting.decide(request)
    return _answer_without_model(
        session, io, lambda: session.forgetting.answer(request, choice, io.sink)
    )


async def set_preferences(session: LiveSession, given: UserInput, io: TurnIO) -> Answer | None:
    """Set what an input of preferences alone says, for a model that only writes commands."""
    memory = session.memory
    if memory is None or not session.model.one_command or not memory.only_prefers(given):
        return None
    news = memory.set_preferences(given)

    def tell() -> Answer:
        for one in news:
            io.sink(events.Notice(one))
        return Answer("")

    return _answer_without_model(session, io, tell) if news else None


async def close_unused_models(session: LiveSession, given: UserInput | None, io: TurnIO) -> None:
    await session.open_model.close(but=session.modes.model)


async def offer_catalogues(session: LiveSession, given: UserInput, io: TurnIO) -> None:
    session.context.instruct()


async def add_to_input(session: LiveSession, given: UserInput, io: TurnIO) -> None:
    await session.extensions.port.add_to_input(given, io)


async def run_other_turn(
    session: LiveSession, given: UserInput | None, io: TurnIO
) -> Answer | None:
    """Run the turn of a sub-agent or a custom command, or continue that of a recipe."""
    user_input = given or session.state.open_input
    if user_input is None or not user_input.beyond_model:
        return None
    if user_input.source == "recipe":
        if given is not None:
            return None  # its work came with it
        answer: Answer = await part("CONTINUES", user_input.source)(session, io)
        session.context.learn(answer, io)
        return answer
    if user_input.agent:
        from kogniterm.runtime.inputs.agent_turn import run_agent

        return await run_agent(session, given, io)
    from kogniterm.runtime.inputs.command_lines import run_custom_command

    return await run_custom_command(session, given, io)


def _answer_without_model(session: LiveSession, io: TurnIO, answer: Callable[[], Answer]) -> Answer:
    """Answer an input of which nothing is journaled, and for which no model is asked."""
    state = session.state
    io.sink(events.TurnStarted(session.id, state.turn, session.model.name, session.executor.cwd))
    given = answer()
    io.sink(events.TurnEnded(given))
    return given


INPUT_STEPS = (
    InputStep("require a model that can plan", require_planning, stops="all that follows"),
    InputStep("let the log watch", watch_events),
    InputStep("warn of an unknown price", warn_of_unknown_price),
    InputStep("use the session's prompts", use_prompts),
    InputStep("connect the user", connect_user),
    InputStep("open extensions", open_extensions),
    InputStep("ask extensions", ask_extensions, "input",
              answers="a refusal", stops="all that stores it"),
    InputStep("forget", forget, "new turn",
              answers="the proof", stops="recall and the model"),
    InputStep("set preferences alone", set_preferences, "new turn",
              answers="nothing more", stops="a one-command model"),
    InputStep("close unused models", close_unused_models),
    InputStep("offer what extensions have", offer_catalogues, "new turn"),
    InputStep("let extensions add", add_to_input, "input"),
    InputStep("run other turns", run_other_turn,
              answers="as a sub-agent, custom command or recipe", stops="the plain turn"),
)  # fmt: skip
"""The steps in their order; each may use what those before it have done."""
