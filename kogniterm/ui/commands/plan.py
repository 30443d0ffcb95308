"""/plan: see the plan, change it, work on it, and say when plans are made and asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from kogniterm.errors import UsageError
from kogniterm.types import Phrase, Plan, PlanApproval, PlanMode, UserInput
from kogniterm.ui.commands.command_helpers import first_word, one_of
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import Option
from kogniterm.ui.repl import Repl
from kogniterm.ui.words.key_table import DISCARD, FIX

MODES: Sequence[PlanMode] = get_args(PlanMode)
APPROVALS: Sequence[PlanApproval] = get_args(PlanApproval)
WORDS = ("edit", "approve", *MODES)
CHOICES = (*WORDS, *(f"approve {word}" for word in APPROVALS))
EMPTY = "goal: \nsteps:\n  - id: s1\n    what: \n"
"""The text that the editor starts with where there is no plan yet."""

_WHEN = {
    "auto": Phrase("Plans: auto. The model decides whether a task needs one."),
    "always": Phrase("Plans: always. Every task starts with one."),
    "never": Phrase("Plans: never. The model works without a plan."),
}
_ASKED = {
    "auto": Phrase("Plans need your approval, except in auto mode."),
    "always": Phrase("Every plan needs your approval."),
    "never": Phrase("Plans start without your approval; commands still need it as usual."),
}


async def plan(repl: Repl, argument: str) -> None:
    """Run /plan [edit | approve … | auto | always | never]."""
    word, rest = first_word(argument)
    mode = next((mode for mode in MODES if mode == word), None)
    if mode is not None:
        repl.session.use_plan_mode(mode)
        repl.display.say(_WHEN[mode])
    elif word == "edit":
        await _edit(repl)
    elif word == "approve":
        _approve(repl, rest)
    elif not word:
        _show(repl)
    else:
        one_of(word, WORDS)


def _show(repl: Repl) -> None:
    from rich.text import Text

    from kogniterm.ui.screen.plan_panel import full

    session, current = repl.session, repl.session.state.plan
    if current is not None:
        repl.display.write(Text(current.goal, "heading"))
        repl.display.write(full(current, repl.display.painter, working=True))
    repl.display.say(_WHEN[session.modes.planning])
    repl.display.say(_ASKED[session.modes.plans.approval])


def _put(repl: Repl, changed: Plan) -> None:
    from kogniterm.runtime.session_plans import replace_plan
    from kogniterm.ui.screen.plan_panel import whole

    before = repl.session.state.plan
    replace_plan(repl.session.journal, changed, lambda _event: None)
    repl.session.modes.checks = frozenset()  # they were granted for the plan as it was
    repl.display.write(whole(repl.session.state.plan or changed, repl.display.painter, before))


async def _edit(repl: Repl) -> None:
    """Open the editor until the plan can be used or is given up; mistakes are named."""
    from kogniterm.runtime.plan_edits import PlanDraft, plan_from_text
    from kogniterm.runtime.session_plans import plannable_agents, plannable_tools

    session = repl.session
    if session.state.open_turn:
        raise UsageError("A turn is in progress; stop it before you change the plan.")
    tools, agents = plannable_tools(session.context), plannable_agents(session.context)
    if session.state.plan is None:
        text = await repl.front.edit_text(EMPTY)
        if text is None:
            repl.display.say(Phrase("Nothing changed."))
        else:
            _put(repl, plan_from_text(text, None, tools, agents))
        return
    draft = PlanDraft(session.state.plan, tools=tools, agents=agents)
    while True:
        text = await repl.front.edit_text(draft.text(translate))
        if text is None:
            repl.display.say(Phrase("Nothing changed."))
            return
        if draft.take(text):
            _put(repl, draft.plan)
            return
        again = [
            Option("mend", translate(FIX), "e"),
            Option("give_up", translate(DISCARD), ""),
        ]
        mistakes = [translate(mistake) for mistake in draft.mistakes]
        if not await repl.choose(_("The plan has errors:"), mistakes, again):
            return


def _approve(repl: Repl, words: str) -> None:
    """Work on the plan that is open; or, with a word, say which plans are asked about."""
    from kogniterm.agent.plan.plan_steps import open_steps
    from kogniterm.runtime.session_plans import LEFT_PLAN_MODE, give_plan

    session = repl.session
    if words:
        approval = one_of(words, APPROVALS)
        session.modes.plans.approval = approval
        repl.display.say(_ASKED[approval])
        return
    if session.state.open_turn:
        raise UsageError("A turn is in progress; send it a message with /steer TEXT.")
    current = session.state.plan
    if current is None:
        raise UsageError("No plan yet; write one with /plan edit.")
    if not open_steps(current):
        raise UsageError("The plan has no open steps.")
    if session.modes.in_plan_mode:
        session.use_mode("manual")
        repl.display.say(LEFT_PLAN_MODE)
    give_plan(session.context, current)
    repl.ask_model(UserInput(current.goal, foreign=((0, len(current.goal)),)))
