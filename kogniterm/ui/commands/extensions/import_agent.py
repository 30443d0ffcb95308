"""/import: take over what the user set up for another terminal agent."""

from __future__ import annotations

import asyncio

from kogniterm.errors import KognitermError
from kogniterm.types import Phrase
from kogniterm.ui.commands.registry import table
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.questions.question import Option
from kogniterm.ui.repl import Repl
from kogniterm.ui.screen.import_preview import ImportPreview, counted_words

WORDS = ("claude", "codex", "gemini", "opencode", "deepagents")


async def import_agent(repl: Repl, argument: str) -> None:
    """Run /import [AGENT]."""
    from kogniterm.runtime.extensions.foreign.foreign_agents import find_agent, place_of
    from kogniterm.runtime.operations.import_settings import carry_out, plan_import, user_target
    from kogniterm.settings import environment

    place = place_of(environment(), None)
    if not argument.strip():
        _list(repl)
        return
    agent = find_agent(argument.strip())
    found = await asyncio.to_thread(agent.read, place)
    if found.nothing:
        raise KognitermError("No settings of {name} were found here.", name=agent.name)
    paths = repl.session.archive.paths
    target = user_target(paths.extensions, paths.policy_file)
    plan = await asyncio.to_thread(plan_import, found, target, place.environ)
    columns = repl.front.surface.size()[1]
    ImportPreview(repl.display.write, columns).show(agent, found, plan, place)
    for problem in (*found.problems, *plan.problems):
        repl.display.say(problem)
    if plan.empty:
        repl.display.say(Phrase("There is nothing to add."))
        return
    count = sum(one.written for one in plan.changes)
    answer = await repl.choose(
        plural("Import {count} entry?", "Import {count} entries?", count),
        [_("Nothing of yours is overwritten. New sessions use what is imported.")],
        [Option("yes", _("import"), "yes"), Option("no", _("no"), "no")],
    )
    if answer != "yes":
        repl.display.say(Phrase("Nothing was imported."))
        return
    await asyncio.to_thread(carry_out, plan, target)
    repl.display.write(plural("{count} entry imported.", "{count} entries imported.", count))


def _list(repl: Repl) -> None:
    from kogniterm.runtime.extensions.foreign.foreign_agents import AGENTS, place_of
    from kogniterm.settings import environment

    place = place_of(environment(), None)
    rows = []
    for agent in AGENTS:
        found = agent.read(place)
        if not found.nothing:
            rows.append((f"/import {agent.word}", agent.name, counted_words(found)))
    if rows:
        repl.display.write(table(rows, ("accent", "", "muted")))
    else:
        repl.display.write(translate(Phrase("No other agent is set up here.")))
