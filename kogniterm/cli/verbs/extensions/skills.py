"""`kogniterm skills`: list, show, accept, add and remove skills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.cli.options import JSON, YES, Subparsers, add_actions
from kogniterm.cli.run_options import CallOptions
from kogniterm.cli.verb_helpers import confirm, paths_in_use
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.storage.folders import expand_path
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, mark, translate

if TYPE_CHECKING:
    from kogniterm.runtime.extensions.skills.skill_sources import FoundSkill, SkillSources

_KEPT = Phrase("Nothing changed.")


def add_parser(subparsers: Subparsers) -> None:
    """Add `skills list`, `show`, `trust`, `add` and `remove`."""
    add_actions(subparsers, "skills", ACTIONS, JSON)


def _sources(call: CallOptions) -> SkillSources:
    from kogniterm.runtime.operations.skill_store import skills_of_folder

    return skills_of_folder(paths_in_use(), call.folder())


def _named(call: CallOptions, name: str) -> tuple[SkillSources, FoundSkill]:
    from kogniterm.runtime.operations.skill_store import skill_named

    sources = _sources(call)
    return sources, skill_named(sources, name)


def _list(call: CallOptions) -> Report:
    from kogniterm.ui.commands.extensions.skills import skill_rows

    sources = _sources(call)
    found = sources.find()
    rows = [row[:3] for row in skill_rows(found)]
    none = _("No skills. A skill is a folder with a SKILL.md, for example in {folder}.")
    notes = [] if found else [none.format(folder=sources.paths.extensions.skills)]
    return Report([_json(one) for one in found], rows=rows, notes=notes)


def _json(one: FoundSkill) -> dict[str, object]:
    return {
        "name": one.name,
        "state": one.state,
        "from": one.where,
        "folder": str(one.folder),
        "description": one.skill.description if one.skill is not None else None,
        "problem": str(one.problem) if one.problem is not None else None,
    }


def _show(call: CallOptions, name: str) -> Report:
    from kogniterm.ui.commands.extensions.skills import described

    _, one = _named(call, name)
    body = one.skill.body.splitlines() if one.skill is not None else []
    files = [{"name": file.name, "sha256": file.digest} for file in one.files]
    return Report({**_json(one), "files": files}, [*described(one), "", *body])


def _trust(call: CallOptions, name: str, yes: bool) -> Report:
    from kogniterm.ui.commands.extensions.skills import described, refuse_acceptance

    sources, one = _named(call, name)
    refuse_acceptance(one)
    lines = [*described(one), *_differences(sources, one)]
    if not yes:
        confirm(
            _("Accept this skill as it is now?"),
            lines,
            without_terminal=Phrase("Accepting a skill needs a terminal to ask at, or --yes."),
            no=_KEPT,
        )
        lines = []
    sources.accept(one)
    lines.append(_("Skill {name} accepted.").format(name=one.name))
    return Report({**_json(one), "state": "ready"}, lines)


def _differences(sources: SkillSources, one: FoundSkill) -> Iterator[str]:
    from kogniterm.ui.commands.extensions.skills import to_accept, unseen

    for text in to_accept(sources, one):
        yield from text.splitlines()
    for name in unseen(sources, one):
        yield translate(Phrase("Not shown, no text: {path}", {"path": name}))


def _add(call: CallOptions, folder: str) -> Report:
    from kogniterm.runtime.operations.skill_store import add_skill

    paths = paths_in_use()
    name = add_skill(paths, expand_path(Path.cwd(), folder))
    copy = paths.extensions.skills / name
    text = _("Skill {name} added: {folder}").format(name=name, folder=copy)
    return Report({"name": name, "folder": str(copy)}, [text])


def _remove(call: CallOptions, name: str, yes: bool) -> Report:
    from kogniterm.runtime.operations.skill_store import own_skill, remove_skill

    folder = own_skill(paths_in_use(), name)
    if not yes:
        confirm(
            _("Delete this folder?"),
            [str(folder)],
            without_terminal=Phrase("Removing a skill needs a terminal to ask at, or --yes."),
            no=_KEPT,
        )
    remove_skill(folder)
    return Report({"name": name}, [_("Skill {name} removed.").format(name=name)])


_NAME = Argument("name", "Name of a skill", "NAME")
_CWD = Argument("--cwd", "Folder of the session", "FOLDER", short="-C")
ACTIONS = (
    Action("list", mark("List the skills and their state"), _list, (_CWD,),
           ("kogniterm skills list",)),
    Action("show", mark("Show a skill with its instructions"), _show, (_NAME, _CWD),
           ("kogniterm skills show release-notes",)),
    Action("trust", mark("Accept a skill of ~/.agents or ~/.claude as it is now"), _trust,
           (_NAME, YES, _CWD), ("kogniterm skills trust release-notes",)),
    Action("add", mark("Copy a skill's folder to your own skills"), _add,
           (Argument("folder", "Folder with a SKILL.md", "FOLDER"),),
           ("kogniterm skills add ~/Downloads/release-notes",)),
    Action("remove", mark("Delete one of your own skills"), _remove, (_NAME, YES),
           ("kogniterm skills remove release-notes",)),
)  # fmt: skip
