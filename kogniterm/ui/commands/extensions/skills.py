"""/skills: the skills there are, what keeps each from use, and what the user decides about them.

Also the words of `kogniterm skills`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.types import Phrase
from kogniterm.ui.commands.registry import first_word, one_of, table
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.questions.question import Option
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from rich.text import Text

    from kogniterm.runtime.extensions.skills.skill_sources import FoundSkill, SkillSources

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
    one = repl.session.extensions.skills.named(name)
    if action == "show":
        body = clean(one.skill.body).splitlines() if one.skill is not None else []
        repl.display.write(_lines([*described(one), "", *body]))
    elif action == "trust":
        await _trust(repl, one)
    else:
        repl.session.extensions.skills.sources.switch(name, on=action == "on")
        _offer(repl)
        on = Phrase("Skill {name} is on.", {"name": name})
        off = Phrase("Skill {name} is off, in every folder.", {"name": name})
        repl.display.say(on if action == "on" else off)


def choices(repl: Repl) -> Iterable[str]:
    """Return what completes /skills."""
    for one in repl.session.extensions.skills.found:
        yield from (f"{action} {one.name}" for action in ACTIONS)


def _list(repl: Repl) -> None:
    service = repl.session.extensions.skills
    found = service.look()
    if not found:
        repl.display.say(
            Phrase(
                "No skills. A skill is a folder with a SKILL.md, for example in {folder}.",
                {"folder": service.sources.paths.extensions.skills},
            )
        )
        return
    service.catalogue()
    cut = service.offered.cut
    rows = skill_rows(found, service.used, cut)
    repl.display.write(table(rows, ("accent", "", "muted", "muted")))
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


def skill_rows(
    found: Iterable[FoundSkill], used: Collection[str] = (), cut: Collection[str] = ()
) -> list[tuple[str, str, str, str]]:
    """Return name, state, place and description of each skill."""
    return [(one_line(one.name, 64), _state(one, used, cut), place_of(one), _about(one))
            for one in found]  # fmt: skip


def _state(one: FoundSkill, used: Collection[str], cut: Collection[str]) -> str:
    words = {
        "ready": _("offered"),
        "manual": _("for you only"),
        "off": _("off"),
        "new": _("not accepted"),
        "changed": _("changed"),
        "untrusted": _("not trusted"),
        "unusable": _("cannot be used"),
        "hidden": _("name in use"),
    }
    state = words[one.state]
    if one.usable and one.name in used:
        state = _("in use")
    elif one.state == "ready" and one.name in cut:
        state = _("offered, shortened")
    return state


def place_of(one: FoundSkill) -> str:
    """Return where a skill is from, in a word or as the folder."""
    return _("yours") if one.where == "user" else one.place


def _about(one: FoundSkill) -> str:
    if one.problem is not None:
        return translate(one.problem)
    return one.skill.description if one.skill is not None else ""


def described(one: FoundSkill) -> list[str]:
    """Return the lines that tell of a skill, without its instructions."""
    lines = [
        f"{one_line(one.name, 64)} · {_state(one, (), ())} · {place_of(one)}",
        one_line(str(one.folder), 300),
    ]
    if one.problem is not None:
        return [*lines, one_line(translate(one.problem), 300)]
    skill = one.skill
    if skill is not None and skill.ignored:
        lines.append(_("Without effect here: {names}").format(names=", ".join(skill.ignored)))
    if skill is None:
        return lines
    facts = (
        (_("Description"), skill.description),
        (_("Needs"), skill.compatibility),
        (_("Licence"), skill.license),
        (_("Names tools"), ", ".join(skill.tools)),
    )
    lines += [f"{name}: {one_line(text, 1100)}" for name, text in facts if text]
    names = [one_line(file.name, 200) for file in one.files]
    shown = ", ".join(names[:40]) + (", …" if len(names) > 40 else "")
    lines.append(plural("{count} file", "{count} files", len(names)) + ": " + shown)
    return lines


def to_accept(sources: SkillSources, one: FoundSkill) -> Iterator[str]:
    """Yield, as unified diffs, everything of a shared skill that was not accepted yet."""
    from kogniterm.text.file_text import unified_diff

    finding = sources.finding(one)
    changed = sources.accepted.changes(one.folder, one.files)
    for file in one.files:
        if file.name in changed:
            yield changed[file.name]
        elif file.name in finding.new and file.is_text:
            yield unified_diff(file.name, "", file.text)


def unseen(sources: SkillSources, one: FoundSkill) -> list[str]:
    """Return the names of new or changed files that cannot be shown as text."""
    finding = sources.finding(one)
    return [
        file.name
        for file in one.files
        if not file.is_text and file.name in (*finding.new, *finding.changed)
    ]


def refuse_acceptance(one: FoundSkill) -> None:
    """Raise `UsageError` for a skill that is not accepted by itself."""
    name = one.name
    if one.where == "project":
        raise UsageError("The skill {name} belongs to the folder; trust that: /trust", name=name)
    if one.where == "user":
        raise UsageError("Your own skill {name} needs no acceptance.", name=name)
    if one.problem is not None:
        raise UsageError("The skill {name}: {why}.", name=name, why=one.problem)
    if one.state not in ("new", "changed"):
        raise UsageError("The skill {name} is accepted already.", name=name)


async def _trust(repl: Repl, one: FoundSkill) -> None:
    from kogniterm.ui.screen.diffs import diff

    service = repl.session.extensions.skills
    refuse_acceptance(one)
    repl.display.write(_lines(described(one)))
    for text in service.sources.finding(one).texts if one.state == "changed" else ():
        repl.display.say(text)
    columns = repl.front.surface.size()[1]
    for shown in to_accept(service.sources, one):
        repl.display.write(diff(shown, limit=MOST_LINES, columns=columns))
    for name in unseen(service.sources, one):
        repl.display.say(Phrase("Not shown, no text: {path}", {"path": one_line(name, 200)}))
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
    service.accept(one)
    _offer(repl)
    repl.display.say(Phrase("Skill {name} accepted.", {"name": one.name}))


def _offer(repl: Repl) -> None:
    """Offer the skills as they are now, to the model and as slash commands."""
    session = repl.session
    session.context.instruct(skills=session.extensions.skills.catalogue())
    repl.read_custom_commands()


def _lines(lines: Iterable[str]) -> Text:
    from rich.text import Text

    return Text("\n".join(lines))
