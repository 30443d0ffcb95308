"""The skills there are for a user in a folder: where each is from, and what keeps it from use.

Three kinds of places. The user's own are in KogniTerm's configuration folder, which commands in the
sandbox cannot write. A project's count once its folder is trusted, every file by its content. Those
in `~/.agents/skills` and `~/.claude/skills` are shared with other programs that install skills, so
each is accepted by the user, by content, before it is used.

A SKILL.md is in the public Agent Skills format: its front matter has `name`, `description`, and
optionally `license`, `compatibility`, `metadata` and `allowed-tools`; `user-invocable` and
`disable-model-invocation` are understood as Claude Code has them. See
https://agentskills.io/specification.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kogniterm.errors import UnusableValueError, UsageError
from kogniterm.host.safe_files import resolve_path
from kogniterm.paths import Paths
from kogniterm.runtime.extensions.front_matter import MarkdownDocument, read_document
from kogniterm.runtime.trust.plugin_folders import PluginFolder
from kogniterm.runtime.trust.project_places import (
    SHARED_PLACES,
    SKILL_FILE,
    ProjectFile,
    ProjectSkill,
    ProjectWalk,
    folders_with,
    has_skills,
    pinned_files,
    walk,
)
from kogniterm.runtime.trust.trust_store import TrustFinding, TrustStore, trust_sources
from kogniterm.storage.folders import read_own_json, write_private
from kogniterm.text.shorten import one_line
from kogniterm.text.spelling import closest_word
from kogniterm.types import Phrase

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
LONGEST_COMPATIBILITY = 500
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_TOOL = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
_IGNORED = ("context", "agent", "model", "hooks")
"""Fields of Claude Code that have no effect here."""

Where = Literal["user", "project", "shared", "plugin"]
State = Literal["ready", "manual", "off", "new", "changed", "untrusted", "unusable", "hidden"]
"""`manual`: only the user runs it; `new` and `changed`: not accepted; `untrusted`: the folder is
not trusted; `unusable`: see its problem; `hidden`: another one has its name."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as its SKILL.md describes it.

    `for_user` is whether `/NAME` runs it, `for_model` whether the model is offered it; `tools` are
    those that it names in `allowed-tools`, which grants nothing. `ignored` are its fields without
    effect here.
    """

    name: str
    description: str
    body: str
    tools: tuple[str, ...] = ()
    license: str = ""
    compatibility: str = ""
    for_user: bool = True
    for_model: bool = True
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A folder with a SKILL.md; `skill` is None where it describes no usable one.

    `folder` is its real path, `place` the folder of skills that it was found in, as it is shown.
    """

    name: str
    where: Where
    place: str
    folder: Path
    state: State
    skill: Skill | None = None
    files: tuple[ProjectFile, ...] = ()
    problem: Phrase | None = None
    plugin: PluginFolder | None = None

    @property
    def top(self) -> Path:
        """Return the folder whose files it may use: its own, or that of its plugin."""
        return Path(self.plugin.root) if self.plugin is not None else self.folder

    @property
    def usable(self) -> bool:
        """Return whether it may be used: by the model, or by the user alone."""
        return self.state in ("ready", "manual")

    def digest_of(self, path: Path) -> str | None:
        """Return the digest by which a file of the skill was pinned; None for no file of it."""
        if not path.is_relative_to(self.top):
            return None
        name = str(path.relative_to(self.top))
        if self.plugin is not None:
            return self.plugin.digests.get(name)
        return next((one.digest for one in self.files if one.name == name), None)


class SkillSources:
    """Finds skills for the workspace `folder`, and keeps what the user decided about them.

    `plugins` are those in force when it last looked, with skills or without.
    """

    def __init__(self, paths: Paths, folder: Path, home: Path) -> None:
        self.paths = paths
        self.folder = folder
        self.home = home
        self.plugins: tuple[PluginFolder, ...] = ()

    @property
    def accepted(self) -> TrustStore:
        """Return the record of the accepted skills in shared places."""
        return TrustStore(self.paths.extensions.skill_data / "trust.json")

    def find(self, seen: ProjectWalk | None = None) -> tuple[FoundSkill, ...]:
        """Return all skills as they are on the disk now, by name; of one name, the used one first.

        The user's own win over the project's, and these over the shared ones. `seen` is what a walk
        of the workspace just found; without it, a workspace with skills is walked.
        """
        off = self.switched_off()
        found: dict[str, list[FoundSkill]] = {}
        folders: set[Path] = set()
        for one in self._all(seen):
            if one.folder not in folders:
                folders.add(one.folder)
                state = "off" if one.usable and one.name in off else one.state
                found.setdefault(one.name, []).append(replace(one, state=state))
        return tuple(one for name in sorted(found) for one in _in_order(found[name]))

    def _all(self, seen: ProjectWalk | None) -> Iterator[FoundSkill]:
        own = self.paths.extensions.skills
        for name in folders_with(SKILL_FILE, own):
            yield _read(own / name, "user", str(own))
        project = tuple(self._project(seen))
        yield from (one for one in project if one.usable)
        for short in SHARED_PLACES:
            place = self.home / short
            for name in folders_with(SKILL_FILE, place):
                yield self._with_acceptance(_read(place / name, "shared", f"~/{short}"))
        yield from (one for one in project if not one.usable)

    def _project(self, seen: ProjectWalk | None) -> Iterator[FoundSkill]:
        """Yield the skills of plugins and the project, which is walked only if it has any."""
        if seen is None:
            seen = walk(self.folder) if has_skills(self.folder) else ProjectWalk()
        sources = trust_sources(self.paths, self.folder, seen)
        trusted = (one.seen.plugins for one in sources if one.finding.trusted)
        self.plugins = tuple(plugin for here in trusted for plugin in here.values())
        for source in sources:
            for skill in source.seen.skills:
                one = _of_project(source.folder / skill.name, skill)
                untrusted = one.usable and not source.finding.trusted
                yield replace(one, state="untrusted") if untrusted else one

    def _with_acceptance(self, one: FoundSkill) -> FoundSkill:
        """Return a shared skill with what its acceptance says."""
        if not one.usable:
            return one
        finding = self.accepted.finding(one.folder, one.files)
        if finding.trusted and not finding.gone:
            return one
        return replace(one, state="changed" if finding.known else "new")

    def finding(self, one: FoundSkill) -> TrustFinding:
        """Compare a shared skill with what was accepted."""
        return self.accepted.finding(one.folder, one.files)

    def accept(self, one: FoundSkill) -> None:
        """Record that the user accepts exactly this content of a shared skill."""
        self.accepted.trust(one.folder, one.files)

    # --- off and on -----------------------------------------------------------------------------

    def switched_off(self) -> frozenset[str]:
        """Return the names of the skills that the user switched off."""
        names = read_own_json(self._off_file)
        return frozenset(map(str, names)) if isinstance(names, list) else frozenset()

    def switch(self, name: str, *, on: bool) -> None:
        """Switch a skill off or on again, in every folder."""
        names = self.switched_off() - {name} if on else self.switched_off() | {name}
        write_private(self._off_file, json.dumps(sorted(names)).encode())

    @property
    def _off_file(self) -> Path:
        return self.paths.extensions.skill_data / "off.json"


def read_skill(folder: Path) -> tuple[Skill, tuple[ProjectFile, ...]]:
    """Return a skill with all its files. Raises `UnusableValueError` with the reason."""
    files = pinned_files(folder)
    return parse_skill(folder.name, files[0].text), files


def parse_skill(folder: str, text: str) -> Skill:
    """Return the skill in the SKILL.md of a folder of this name. Raises `UnusableValueError`."""
    document = read_document(text)
    name = document.text("name") or folder
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise UnusableValueError(
            "its name {name} is not up to {most} of a-z, 0-9 and single hyphens",
            name=one_line(name, LONGEST_NAME),
            most=LONGEST_NAME,
        )
    if name != folder:
        raise UnusableValueError(
            "its name {name} is not that of its folder, {folder}",
            name=name,
            folder=one_line(folder, LONGEST_NAME),
        )
    first = next((line for line in document.body.splitlines() if line.strip("# \t")), "")
    description = one_line(document.text("description") or first.strip("# \t"), LONGEST_DESCRIPTION)
    if not description:
        raise UnusableValueError("it has no description")
    # `allowed-tools` is a list, or words between blanks or commas.
    tools = _TOOL.findall(" ".join(document.words("allowed-tools")))
    return Skill(
        name,
        description,
        document.body.strip(),
        tuple(dict.fromkeys(one_line(tool, 200) for tool in tools)),
        one_line(document.text("license"), 200),
        one_line(document.text("compatibility"), LONGEST_COMPATIBILITY),
        for_user=_is_on(document, "user-invocable", default=True),
        for_model=not _is_on(document, "disable-model-invocation", default=False),
        ignored=tuple(name for name in _IGNORED if name in document.fields),
    )


def _is_on(document: MarkdownDocument, name: str, *, default: bool) -> bool:
    value = document.text(name).lower()
    return default if not value else value in ("true", "yes", "on", "1")


def _read(folder: Path, where: Where, place: str) -> FoundSkill:
    try:
        files = pinned_files(folder)
    except UnusableValueError as error:
        return _unusable(folder, where, place, error.text)
    return _found_skill(folder, where, place, files)


def _unusable(folder: Path, where: Where, place: str, problem: Phrase) -> FoundSkill:
    real = resolve_path(folder)
    return FoundSkill(folder.name, where, place, real, "unusable", problem=problem)


def _found_skill(
    folder: Path, where: Where, place: str, files: tuple[ProjectFile, ...]
) -> FoundSkill:
    real = resolve_path(folder)
    try:
        skill = parse_skill(folder.name, files[0].text)
    except UnusableValueError as error:
        return _unusable(folder, where, place, error.text)
    state: State = "ready" if skill.for_model else "manual"
    return FoundSkill(folder.name, where, place, real, state, skill, files)


def _of_project(folder: Path, skill: ProjectSkill) -> FoundSkill:
    """Return a skill of a project or a plugin, with the plugin's name before its own."""
    place, plugin = skill.name.rpartition("/")[0], skill.plugin
    if skill.problem is not None:
        return _unusable(folder, "project", place, skill.problem)
    if plugin is None:
        return _found_skill(folder, "project", place, skill.files)
    one = _found_skill(folder, "plugin", place, skill.files)
    name = f"{plugin.name}:{one.name}"
    if one.skill is None:
        return replace(one, name=name, plugin=plugin)
    body = plugin.filled(one.skill.body)
    return replace(one, name=name, plugin=plugin, skill=replace(one.skill, name=name, body=body))


def _in_order(same: list[FoundSkill]) -> Iterator[FoundSkill]:
    """Yield the skills of one name; only the first usable one is used."""
    first = next((one for one in same if one.usable or one.state == "off"), None)
    if first is not None:
        yield first
    for one in same:
        if one is not first:
            yield replace(one, state="hidden") if one.usable or one.state == "off" else one


def by_name(skills: tuple[FoundSkill, ...]) -> Mapping[str, FoundSkill]:
    """Return the first skill of each name."""
    found: dict[str, FoundSkill] = {}
    for one in skills:
        found.setdefault(one.name, one)
    return found


def find_skill(skills: tuple[FoundSkill, ...], name: str) -> FoundSkill:
    """Return the first skill called `name`. Raises `UsageError` with the name that was meant."""
    found = by_name(skills)
    if name in found:
        return found[name]
    near = closest_word(name, found)
    if near:
        raise UsageError("There is no skill {name}; did you mean {near}?", name=name, near=near)
    raise UsageError("There is no skill {name}; `kogniterm skills list` lists them.", name=name)
