"""`kogniterm skills`: list, show, accept, add and remove skills."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kogniterm.cli.options import JSON, YES, CallOptions, Subparsers, add_actions
from kogniterm.cli.verb_helpers import confirm, paths_in_use, text_of
from kogniterm.runtime.extensions.skills.skill_sources import SkillSources, find_skill
from kogniterm.runtime.operations import skill_actions
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.storage.folders import expand_path
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, mark

_KEPT = Phrase("Nothing changed.")


def add_parser(subparsers: Subparsers) -> None:
    """Add `skills list`, `show`, `trust`, `add` and `remove`."""
    add_actions(subparsers, "skills", ACTIONS, JSON)


def _run_shared(act: Callable[..., Report], call: CallOptions, **arguments: Any) -> Report:
    """Run an action that /skills has too."""
    sources = SkillSources(paths_in_use(), Path(call.folder()), Path.home())
    return act(sources, sources.find(), **arguments)


def _trust(sources: SkillSources, found: skill_actions.Skills, name: str, yes: bool) -> Report:
    one = find_skill(found, name)
    told = [*skill_actions.describe_skill(one), *skill_actions.changes_to_accept(sources, one)]
    lines = [line for text in told for line in text_of(text).splitlines()]
    if not yes:
        confirm(
            _("Accept this skill as it is now?"),
            lines,
            without_terminal=Phrase("Accepting a skill needs a terminal to ask at, or --yes."),
            no=_KEPT,
        )
        lines = []
    report = skill_actions.accept_skill(sources.accept, one)
    return report._replace(lines=[*lines, *report.lines])


def _add(call: CallOptions, folder: str) -> Report:
    paths = paths_in_use()
    name = skill_actions.add_skill(paths, expand_path(Path.cwd(), folder))
    values = {"name": name, "folder": paths.extensions.skills / name}
    told = Phrase("Skill {name} added: {folder}", values)
    return Report({"name": name, "folder": str(values["folder"])}, [told])


def _remove(call: CallOptions, name: str, yes: bool) -> Report:
    folder = skill_actions.own_skill(paths_in_use(), name)
    if not yes:
        confirm(
            _("Delete this folder?"),
            [str(folder)],
            without_terminal=Phrase("Removing a skill needs a terminal to ask at, or --yes."),
            no=_KEPT,
        )
    skill_actions.remove_skill(folder)
    return Report({"name": name}, [Phrase("Skill {name} removed.", {"name": name})])


_NAME = Argument("name", "Name of a skill", "NAME")
_CWD = Argument("--cwd", "Folder of the session", "FOLDER", short="-C")
ACTIONS = (
    Action("list", mark("List the skills and their state"),
           partial(_run_shared, skill_actions.list_skills), (_CWD,),
           ("kogniterm skills list",)),
    Action("show", mark("Show a skill with its instructions"),
           partial(_run_shared, skill_actions.show_skill), (_NAME, _CWD),
           ("kogniterm skills show release-notes",)),
    Action("trust", mark("Accept a skill of ~/.agents or ~/.claude as it is now"),
           partial(_run_shared, _trust), (_NAME, YES, _CWD),
           ("kogniterm skills trust release-notes",)),
    Action("off", mark("Switch a skill off, in every folder"),
           partial(_run_shared, partial(skill_actions.switch_skill, on=False)), (_NAME, _CWD),
           ("kogniterm skills off release-notes",)),
    Action("on", mark("Switch a skill on again"),
           partial(_run_shared, partial(skill_actions.switch_skill, on=True)), (_NAME, _CWD),
           ("kogniterm skills on release-notes",)),
    Action("add", mark("Copy a skill's folder to your own skills"), _add,
           (Argument("folder", "Folder with a SKILL.md", "FOLDER"),),
           ("kogniterm skills add ~/Downloads/release-notes",)),
    Action("remove", mark("Delete one of your own skills"), _remove, (_NAME, YES),
           ("kogniterm skills remove release-notes",)),
)  # fmt: skip
