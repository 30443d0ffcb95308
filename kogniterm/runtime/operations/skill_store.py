"""Adding and removing the user's own skills, for the verb `skills`."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from kogniterm.errors import UnusableValueError, UsageError, why
from kogniterm.host.safe_files import open_file, resolved, write_regular
from kogniterm.paths import Paths
from kogniterm.runtime.extensions.skills.skill_sources import (
    FoundSkill,
    SkillSources,
    by_name,
    read_skill,
)
from kogniterm.runtime.trust.project_places import LARGEST_SKILL_FILE
from kogniterm.storage.folders import private_folder
from kogniterm.text.spelling import closest_word


def skills_of_folder(paths: Paths, folder: str) -> SkillSources:
    """Return the skills that a session in `folder` would have."""
    return SkillSources(paths, Path(folder), Path.home())


def skill_named(sources: SkillSources, name: str) -> FoundSkill:
    """Return a skill. Raises `UsageError` with the name that was meant."""
    found = by_name(sources.find())
    if name in found:
        return found[name]
    near = closest_word(name, found)
    if near:
        raise UsageError("There is no skill {name}; did you mean {near}?", name=name, near=near)
    raise UsageError("There is no skill {name}; `kogniterm skills list` lists them.", name=name)


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
    with os.fdopen(open_file(resolved(source)), "rb") as file:
        runs = os.fstat(file.fileno()).st_mode & stat.S_IXUSR
        data = file.read(LARGEST_SKILL_FILE)
    path = resolved(target.parent) / target.name
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
