"""Skills: what `kogniterm skills` and /skills both do, and how both show it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from kogniterm.errors import UnusableValueError, UsageError, why
from kogniterm.host.safe_files import open_file, resolve_path, write_regular
from kogniterm.paths import Paths
from kogniterm.runtime.extensions.skills.skill_sources import (
    FoundSkill,
    SkillSources,
    find_skill,
    read_skill,
)
from kogniterm.runtime.operations.action import Report, Shown
from kogniterm.runtime.trust.project_places import LARGEST_SKILL_FILE
from kogniterm.storage.folders import private_folder
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.types import Phrase

Skills = tuple[FoundSkill, ...]
MOST_FILES = 40
"""Files of a skill that are named."""


def list_skills(
    sources: SkillSources, found: Skills, used: Collection[str] = (), cut: Collection[str] = ()
) -> Report:
    """List the skills; a session names those that it `used` and whose descriptions it `cut`."""
    none = Phrase(
        "No skills. A skill is a folder with a SKILL.md, for example in {folder}.",
        {"folder": sources.paths.extensions.skills},
    )
    return Report(
        [_skill_json(one) for one in found],
        rows=[
            (one_line(one.name, 64), _state(one, used, cut), _place(one), _about(one))
            for one in found
        ],
        notes=[] if found else [none],
    )


def show_skill(_sources: SkillSources, found: Skills, name: str) -> Report:
    """Show a skill with its instructions. Raises `UsageError`."""
    one = find_skill(found, name)
    body = clean(one.skill.body).splitlines() if one.skill is not None else []
    files = [{"name": file.name, "sha256": file.digest} for file in one.files]
    return Report({**_skill_json(one), "files": files}, [*describe_skill(one), "", *body])


def accept_skill(accept: Callable[[FoundSkill], None], one: FoundSkill) -> Report:
    """Accept a skill as it was shown."""
    accept(one)
    told = Phrase("Skill {name} accepted.", {"name": one.name})
    return Report({**_skill_json(one), "state": "ready"}, [told])


def switch_skill(sources: SkillSources, found: Skills, name: str, *, on: bool) -> Report:
    """Switch a skill off or on again, in every folder. Raises `UsageError`."""
    one = find_skill(found, name)
    sources.switch(one.name, on=on)
    told = Phrase("Skill {name} is on.") if on else Phrase("Skill {name} is off, in every folder.")
    return Report({"name": name, "on": on}, [Phrase(told.template, {"name": name})])


# --- what the user sees ----------------------------------------------------------------------


def _skill_json(one: FoundSkill) -> dict[str, object]:
    return {
        "name": one.name,
        "state": one.state,
        "from": one.where,
        "folder": str(one.folder),
        "description": one.skill.description if one.skill is not None else None,
        "problem": str(one.problem) if one.problem is not None else None,
    }


def _state(one: FoundSkill, used: Collection[str] = (), cut: Collection[str] = ()) -> Phrase:
    if one.usable and one.name in used:
        return Phrase("in use")
    if one.state == "ready" and one.name in cut:
        return Phrase("offered, shortened")
    return {
        "ready": Phrase("offered"),
        "manual": Phrase("for you only"),
        "off": Phrase("off"),
        "new": Phrase("not accepted"),
        "changed": Phrase("changed"),
        "untrusted": Phrase("not trusted"),
        "unusable": Phrase("cannot be used"),
        "hidden": Phrase("name in use"),
    }[one.state]


def _place(one: FoundSkill) -> Shown:
    return Phrase("yours") if one.where == "user" else one.place


def _about(one: FoundSkill) -> Shown:
    if one.problem is not None:
        return one.problem
    return one_line(one.skill.description, 100) if one.skill is not None else ""


def describe_skill(one: FoundSkill) -> Iterator[Shown]:
    """Yield the lines that tell of a skill, without its instructions."""
    title = {"name": one_line(one.name, 64), "state": _state(one), "place": _place(one)}
    yield Phrase("{name} · {state} · {place}", title)
    yield one_line(str(one.folder), 300)
    if one.problem is not None:
        yield one.problem
        return
    skill = one.skill
    if skill is None:
        return
    facts = (
        (Phrase("Description"), skill.description),
        (Phrase("Needs"), skill.compatibility),
        (Phrase("Licence"), skill.license),
        (Phrase("Names tools"), ", ".join(skill.tools)),
        (Phrase("Without effect here"), ", ".join(skill.ignored)),
    )
    for name, text in facts:
        if text:
            yield Phrase("{name}: {text}", {"name": name, "text": one_line(text, 1100)})
    names = [one_line(file.name, 200) for file in one.files]
    shown = ", ".join(names[:MOST_FILES]) + (", …" if len(names) > MOST_FILES else "")
    yield Phrase("Files ({count}): {names}", {"count": len(names), "names": shown})


def changes_to_accept(sources: SkillSources, one: FoundSkill) -> Iterator[Shown]:
    """Yield all of a shared skill that was not accepted yet, texts as unified diffs.

    Raises `UsageError` for a skill that is not accepted by itself.
    """
    from kogniterm.text.file_text import unified_diff

    _refuse_acceptance(one)
    finding = sources.finding(one)
    if one.state == "changed":
        yield from finding.texts
    changed = sources.accepted.changes(one.folder, one.files)
    for file in one.files:
        if file.name in changed:
            yield changed[file.name]
        elif file.name in finding.new and file.is_text:
            yield unified_diff(file.name, "", file.text)
    for file in one.files:
        if not file.is_text and file.name in (*finding.new, *finding.changed):
            yield Phrase("Not shown, no text: {path}", {"path": one_line(file.name, 200)})


def _refuse_acceptance(one: FoundSkill) -> None:
    name = one.name
    if one.plugin is not None and one.plugin.own:
        values = {"name": name, "plugin": one.plugin.name, "path": one.plugin.root}
        raise UsageError(
            "The skill {name} belongs to a plugin; trust that: /trust {plugin} or kogniterm trust "
            "-C {path}",
            **values,
        )
    if one.where in ("project", "plugin"):
        raise UsageError(
            "The skill {name} belongs to the folder; trust that: /trust or kogniterm trust",
            name=name,
        )
    if one.where == "user":
        raise UsageError("Your own skill {name} needs no acceptance.", name=name)
    if one.problem is not None:
        raise UsageError("The skill {name}: {why}.", name=name, why=one.problem)
    if one.state not in ("new", "changed"):
        raise UsageError("The skill {name} is accepted already.", name=name)


# --- the user's own skills -------------------------------------------------------------------


def add_skill(paths: Paths, source: Path) -> str:
    """Copy the skill in the folder `source` to the user's own; return its name.

    Raises `UsageError` for a folder that is no usable skill, and where one has its name.
    """
    try:
        skill, files = read_skill(source)
    except UnusableValueError as error:
        raise UsageError(
            "{folder} is not a usable skill: {why}.", folder=source, why=error.text
        ) from error
    target = paths.extensions.skills / skill.name
    if os.path.lexists(target):
        raise UsageError(
            "You have a skill {name} already; remove it first: kogniterm skills remove {name}",
            name=skill.name,
        )
    private_folder(paths.extensions.skills)
    try:
        for file in files:
            _copy(source / file.name, target / file.name)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise UsageError("{path} cannot be copied: {why}.", path=source, why=why(error)) from error
    return skill.name


def _copy(source: Path, target: Path) -> None:
    """Copy one file, with the right to run it."""
    with os.fdopen(open_file(resolve_path(source)), "rb") as file:
        runs = os.fstat(file.fileno()).st_mode & stat.S_IXUSR
        data = file.read(LARGEST_SKILL_FILE)
    path = resolve_path(target.parent) / target.name
    write_regular(path, data)
    path.chmod(0o700 if runs else 0o600)


def own_skill(paths: Paths, name: str) -> Path:
    """Return the folder of one of the user's own skills. Raises `UsageError` without one."""
    folder = paths.extensions.skills / name
    if "/" in name or name in ("", ".", "..") or not os.path.lexists(folder):
        raise UsageError("You have no skill {name} in {folder}.", name=name, folder=folder.parent)
    return folder


def remove_skill(folder: Path) -> None:
    """Delete the folder of a skill; of a link, only the link. Raises `UsageError`."""
    try:
        if folder.is_symlink():
            folder.unlink()  # what it leads to is not the user's skill alone
        else:
            shutil.rmtree(folder)
    except OSError as error:
        raise UsageError("{path} cannot be removed: {why}.", path=folder, why=why(error)) from error
