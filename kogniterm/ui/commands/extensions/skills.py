"""/skills: the skills there are, what keeps each from use, and what the user decides about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Phrase
from kogniterm.ui.commands.registry import first_word, one_of, write_report
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import Option
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from rich.text import Text

    from kogniterm.runtime.extensions.skills.skill_sources import FoundSkill
    from kogniterm.runtime.operations.action import Shown

ACTIONS = ("show", "trust", "off", "on")
MOST_LINES = 200
"""Lines shown of one file of a skill that is not accepted yet."""


async def skills(repl: Repl, argument: str) -> None:
    """Run /skills [show|trust|off|on NAME]."""
    word, name = first_word(argument)
    if not word:
        _list(repl)
        return
    action = one_of(word, ACTIONS)
    if not name:
        raise UsageError("Specify a skill: /skills {action} NAME", action=action)
    from kogniterm.runtime.extensions.skills.skill_sources import find_skill
    from kogniterm.runtime.operations.skill_actions import show_skill

    service = repl.session.extensions.skills
    one = find_skill(service.look(), name)
    if action == "show":
        repl.display.write(_lines(show_skill(service.sources, service.found, name).lines))
    elif action == "trust":
        await _trust(repl, one)
    else:
        service.sources.switch(name, on=action == "on")
        _offer(repl)
        on = Phrase("Skill {name} is on.", {"name": name})
        off = Phrase("Skill {name} is off, in every folder.", {"name": name})
        repl.display.say(on if action == "on" else off)


def choices(repl: Repl) -> Iterable[str]:
    """Return what completes /skills."""
    for one in repl.session.extensions.skills.found:
        yield from (f"{action} {one.name}" for action in ACTIONS)


def _list(repl: Repl) -> None:
    from kogniterm.runtime.operations.skill_actions import list_skills

    service = repl.session.extensions.skills
    found = service.look()
    service.catalogue()
    cut = service.offered.cut
    write_report(repl, list_skills(service.sources, found, service.used, cut))
    unnamed = len(service.offered.unnamed)
    if cut:
        repl.display.say(
            Phrase(
                "Descriptions are shortened for the model, to fit {share} % of its context window.",
                {"share": 2},
            )
        )
    if unnamed:
        repl.display.say(
            Phrase(
                "{count} skills do not fit, so the model is not told of them; switch others off.",
                {"count": unnamed},
            )
        )
    waiting = [one for one in found if one.state in ("new", "changed")]
    if waiting:
        repl.display.say(Phrase("To accept one: /skills trust {name}", {"name": waiting[0].name}))
    if any(one.state == "untrusted" for one in found):
        repl.display.say(Phrase("To use the skills of this folder: /trust"))


async def _trust(repl: Repl, one: FoundSkill) -> None:
    from kogniterm.runtime.operations.skill_actions import (
        accept_skill,
        changes_to_accept,
        describe_skill,
    )
    from kogniterm.ui.screen.diffs import diff

    service = repl.session.extensions.skills
    changes = list(changes_to_accept(service.sources, one))
    repl.display.write(_lines(describe_skill(one)))
    columns = repl.front.surface.size()[1]
    for change in changes:
        if isinstance(change, Phrase):
            repl.display.say(change)
        else:
            repl.display.write(diff(change, limit=MOST_LINES, columns=columns))
    answer = await repl.choose(
        _("Accept this skill as it is now?"),
        [
            _("The model reads its instructions; its commands need approval as usual."),
            _("If a file of it changes, you are asked again."),
        ],
        [Option("yes", _("accept it"), "yes"), Option("no", _("no"), "no")],
    )
    if answer != "yes":
        repl.display.say(Phrase("Nothing changed."))
        return
    write_report(repl, accept_skill(service.accept, one))
    _offer(repl)


def _offer(repl: Repl) -> None:
    """Offer the skills as they are now, to the model and as slash commands."""
    session = repl.session
    session.context.offer_skills(session.extensions.skills.catalogue())
    repl.read_custom_commands()


def _lines(lines: Iterable[Shown]) -> Text:
    from rich.text import Text

    return Text("\n".join(one if isinstance(one, str) else translate(one) for one in lines))
