"""The files by which a project folder acts on KogniTerm: one table of places, read within bounds.

Only regular files in these places are read, never a pipe or a device, and nothing through a link
that leads out of the folder. A skill is used as a whole, so all its files are found and pinned; one
that holds anything that cannot be pinned by its content (a link that leads out of it, a pipe, too
many or too large files) is passed over. A plugin is pinned in the same way.

Instructions are those of a folder, of the folders above it in its repository, and below it. A
folder's file is its AGENTS.md; where it has none, its CLAUDE.md or else its GEMINI.md, so that no
project needs a new file. KOGNITERM.md comes after it. `@path` in such a file imports another one.
Files are named relative to the workspace, as in `../AGENTS.md` and `api/AGENTS.md`.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.errors import SettingsError, UnusableValueError, why
from kogniterm.host.safe_files import read_regular, resolve_path
from kogniterm.host.walk import WalkLimitError, WalkLimits, walk_folder
from kogniterm.memory.project import project_data
from kogniterm.runtime.trust.plugin_folders import (
    MANIFEST,
    PluginFolder,
    parts_of,
    read_manifest,
)
from kogniterm.settings.user_files import json_values
from kogniterm.types import Phrase

Kind = Literal[
    "instructions",
    "nested",
    "import",
    "policy",
    "command",
    "agent",
    "skill",
    "hooks",
    "mcp",
    "plugin",
]
"""`nested` are instructions of a folder below, `import` what instruction files import; `plugin`
are files of a plugin beside its parts."""

MAX_FILE = 64 * 1024
MAX_ENTRIES = 5_000
"""Names that are looked at below one place."""

SKILL_FILE = "SKILL.md"
SHARED_PLACES = (".agents/skills", ".claude/skills")
"""Places in the user's home that other programs install skills into."""
MOST_SKILLS = 100
MOST_SKILL_FILES = 200
MOST_PLUGIN_FILES = 800
_SKILL_DEPTH = 6
LARGEST_SKILL_FILE = 8 * 1024 * 1024
"""Bytes of one file of a skill."""
_MOST_SKILL_NAMES = 1_000
_HISTORY = ".git"
"""The history of a skill that is a clone: git changes it by itself, and no skill is made of it."""

SHARED_FILES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md")
"""The first of these that a folder has is its instruction file."""
OWN_FILE = "KOGNITERM.md"
MOST_LEVELS = 20
"""Folders above the workspace that are looked at for the root of its repository."""
_LIMITS = WalkLimits(entries=50_000, depth=5)
MOST_FOLDERS = 2_000
MOST_NESTED = 50
MOST_IMPORTS = 50
IMPORT_LEVELS = 5

Read = Callable[[str], bytes | None]
"""Reads a file by its name from the workspace; None for what cannot be read, or must not be."""
_CODE = re.compile(r"^(?P<fence>```|~~~).*?(?:^(?P=fence)|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_IMPORT = re.compile(r"(?<!\S)@([^\s`@]+)")


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of a project folder that would have an effect once it is trusted.

    A large or binary file of a skill or a plugin has no text (`is_text` is false), and counts by
    its digest. `part` is the folder that it is listed as. A part of a `plugin` has the name `below`
    in the place of its kind.
    """

    name: str
    kind: Kind
    digest: str
    text: str
    is_text: bool = True
    part: str = ""
    plugin: PluginFolder | None = None
    below: str = ""

    @property
    def shown(self) -> str:
        """Return the name as it is listed: of a skill, that of its folder."""
        return self.part or self.name

    @property
    def filled(self) -> str:
        """Return the text with the folder of its plugin put in."""
        return self.plugin.filled(self.text) if self.plugin is not None else self.text


class ProjectSkill(NamedTuple):
    """A folder of a skill, named from the workspace, with its files, named from that folder.

    `problem` is why it cannot be used, whatever is trusted.
    """

    name: str
    files: tuple[ProjectFile, ...] = ()
    problem: Phrase | None = None
    plugin: PluginFolder | None = None


class ProjectWalk(NamedTuple):
    """The result of one walk of a folder: the files that would have an effect, and its skills.

    `problems` are those of plugins.
    """

    files: tuple[ProjectFile, ...] = ()
    skills: tuple[ProjectSkill, ...] = ()
    problems: tuple[Phrase, ...] = ()

    @property
    def passed_over(self) -> tuple[Phrase, ...]:
        """Return a sentence for each skill and plugin that cannot be used, whatever is trusted."""
        skills = (
            Phrase("Skill {path} not used: {why}.", {"path": one.name, "why": one.problem})
            for one in self.skills
            if one.problem is not None
        )
        return (*skills, *self.problems)

    @property
    def plugins(self) -> Mapping[str, PluginFolder]:
        """Return the plugins by their names."""
        return {one.plugin.name: one.plugin for one in self.files if one.plugin is not None}

    def without(self, names: Collection[str]) -> ProjectWalk:
        """Return the walk without the plugins whose `names` are in use."""
        gone = {name: one for name, one in self.plugins.items() if name in names}
        told = (
            plugin_problem(one.shown, Phrase("another plugin has its name"))
            for one in gone.values()
        )
        return ProjectWalk(
            tuple(one for one in self.files if one.plugin is None or one.plugin.name not in gone),
            tuple(one for one in self.skills if one.plugin is None or one.plugin.name not in gone),
            (*self.problems, *told),
        )


class ProjectPlace(NamedTuple):
    """A file that has an effect; or with `endings`, the files of a folder whose names end so.

    `depth` is how many levels of folders are looked into, `most` how many files are read. Of the
    kind "skill" or "plugin" it is a folder of these, whose files all count. With a `part` only the
    value of that name in a JSON file counts: other settings in it change nothing.
    """

    name: str
    kind: Kind
    endings: tuple[str, ...] = ()
    depth: int = 1
    most: int = 100
    part: str = ""


PLACES = (
    ProjectPlace(".kogniterm/policy.toml", "policy"),
    ProjectPlace(".mcp.json", "mcp"),
    ProjectPlace(".kogniterm/commands", "command", (".md", ".toml"), depth=4),
    ProjectPlace(".claude/commands", "command", (".md",), depth=4),
    ProjectPlace(".gemini/commands", "command", (".toml",), depth=4),
    ProjectPlace(".agents/skills", "skill"),
    ProjectPlace(".claude/skills", "skill"),
    ProjectPlace(".agents/plugins", "plugin"),
    ProjectPlace(".claude/plugins", "plugin"),
    ProjectPlace(".kogniterm/agents", "agent", (".md",), depth=3),
    ProjectPlace(".claude/agents", "agent", (".md",), depth=3),
    ProjectPlace(".kogniterm/hooks.json", "hooks"),
    ProjectPlace(".claude/settings.json", "hooks", part="hooks"),
    ProjectPlace(".claude/settings.local.json", "hooks", part="hooks"),
)


def walk(folder: Path) -> ProjectWalk:
    """Return what would have an effect in `folder`: a bounded number of small files, read once."""
    found = list(_instructions(folder))
    skills: list[ProjectSkill] = []
    plugins = ProjectWalk()
    for place in PLACES:
        if place.kind == "skill":
            here = [_skill(folder, name) for name in _folders(folder, place)]
            found += _skill_files(here)
            skills += here
            continue
        if place.kind == "plugin":
            for name in _folders(folder, place):
                one = walk_plugin(folder / name, name).without(plugins.plugins)
                plugins = ProjectWalk(
                    plugins.files + one.files,
                    plugins.skills + one.skills,
                    plugins.problems + one.problems,
                )
            continue
        names = [place.name]
        if place.endings:
            names = _below(folder, place.name, place.endings, place.depth)
        for name in islice(names, place.most):
            data = _counting(place, _read(folder, name))
            if data is not None:
                found.append(_file(name, place.kind, data))
    return ProjectWalk((*found, *plugins.files), (*skills, *plugins.skills), plugins.problems)


def walk_plugin(folder: Path, name: str, *, own: bool = False) -> ProjectWalk:
    """Return what the plugin in `folder` would have an effect with; `name` is before its names."""
    try:
        pinned = {one.name: one for one in pinned_files(folder, MANIFEST, MOST_PLUGIN_FILES)}
        called, manifest = read_manifest(pinned[MANIFEST].text)
    except UnusableValueError as error:
        return ProjectWalk(problems=(plugin_problem(name, error.text),))
    digests = {one.name: one.digest for one in pinned.values()}
    plugin = PluginFolder(called, name, str(resolve_path(folder)), own, digests)
    files, problems = list[ProjectFile](), list[Phrase]()
    skills: dict[str, list[ProjectFile]] = {}
    unused = dict(pinned)
    for part in parts_of(manifest, pinned):
        if isinstance(part, Phrase):
            problems.append(Phrase("Plugin {path}: {why}.", {"path": name, "why": part}))
            continue
        if part.text:
            found = _file(part.file, part.kind, part.text.encode())
        else:
            found = unused.pop(part.file, pinned[part.file])
        file = replace(found, plugin=plugin, below=part.below)
        if part.kind == "skill":
            skills.setdefault(part.place, []).append(replace(file, name=part.below))
        elif file.is_text:
            files.append(replace(file, name=f"{name}/{file.name}", kind=part.kind))
        else:
            unused[file.name] = pinned[file.name]
            large = Phrase("{path} is not a text of up to 64 kB", {"path": file.name})
            problems.append(Phrase("Plugin {path}: {why}.", {"path": name, "why": large}))
    described = [
        ProjectSkill(
            posixpath.normpath(f"{name}/{top}"),
            tuple(sorted(inside, key=lambda one: one.name != SKILL_FILE)),
            plugin=plugin,
        )
        for top, inside in skills.items()
    ]
    files += _skill_files(described)
    files += (
        replace(one, name=f"{name}/{one.name}", kind="plugin", part=name, plugin=plugin)
        for one in unused.values()
    )
    return ProjectWalk(tuple(files), tuple(described), tuple(problems))


def is_unchanged(plugin: PluginFolder) -> bool:
    """Return whether a plugin holds the files that it was trusted with, and no others."""
    try:
        found = pinned_files(Path(plugin.root), MANIFEST, MOST_PLUGIN_FILES)
    except UnusableValueError:
        return False
    return {one.name: one.digest for one in found} == plugin.digests


def plugin_problem(path: str, why: Phrase) -> Phrase:
    """Return that a plugin is not used."""
    return Phrase("Plugin {path} not used: {why}.", {"path": path, "why": why})


def _skill_files(skills: Iterable[ProjectSkill]) -> Iterator[ProjectFile]:
    """Yield the files of skills, named from the workspace."""
    for one in skills:
        yield from (
            replace(file, name=f"{one.name}/{file.name}", part=one.name) for file in one.files
        )


def has_skills(folder: Path) -> bool:
    """Return whether `folder` holds a folder of a skill or plugin, usable or not; reads no file."""
    places = (place for place in PLACES if place.kind in ("skill", "plugin"))
    return any(True for place in places for _name in _folders(folder, place))


def _instructions(folder: Path) -> Iterator[ProjectFile]:
    """Yield the instruction files, in the order in which the model gets them, then imported ones.

    What is for KogniTerm alone comes last in each folder.
    """
    above = folders_above(folder)
    root = folder / above[0] if above else folder
    read = partial(_read, folder, inside=root)
    found: dict[str, ProjectFile] = {}
    for name in (*above, ""):
        for path, data in files_of_folder(name, read):
            found[path] = _file(path, "instructions", data)
    nested = (one for name in folders_below(folder) for one in files_of_folder(name, read))
    for path, data in islice(nested, MOST_NESTED):
        found[path] = _file(path, "nested", data)
    texts = partial(readable_text, folder, inside=root)
    imported: dict[str, None] = {}
    for one in found.values():
        imported.update(dict.fromkeys(with_imports(one.name, one.text, texts)))
    yield from found.values()
    for path in islice((one for one in imported if one not in found), MOST_IMPORTS):
        content = read(path)
        if content is not None:
            yield _file(path, "import", content)


def readable_text(folder: Path, name: str, inside: Path | None = None) -> str | None:
    """Return the text of a file of `folder`, or of `inside` which is above; None without one."""
    data = _read(folder, name, inside=inside)
    return None if data is None or b"\0" in data else _text(data)


def _folders(folder: Path, place: ProjectPlace) -> Iterator[str]:
    holds = SKILL_FILE if place.kind == "skill" else MANIFEST
    for name in folders_with(holds, folder / place.name, folder):
        yield f"{place.name}/{name}"


def _skill(folder: Path, name: str) -> ProjectSkill:
    try:
        return ProjectSkill(name, pinned_files(folder / name))
    except UnusableValueError as error:
        return ProjectSkill(name, problem=error.text)


def folders_with(file: str, place: Path, inside: Path | None = None) -> Iterator[str]:
    """Yield the names of the folders in `place` that hold a `file`, in order.

    A link to a folder counts where it leads into `inside`, or anywhere when that is None.
    """
    try:
        top = resolve_path(place)
    except (OSError, ValueError):
        return
    names = (one.path for one in walk_folder(top, None, WalkLimits(_MOST_SKILL_NAMES, depth=0)))
    found = (name for name in names if _holds(file, place / name, inside))
    yield from islice(found, MOST_SKILLS)


def _holds(file: str, folder: Path, inside: Path | None) -> bool:
    try:
        real = resolve_path(folder)
        if inside is not None and not real.is_relative_to(resolve_path(inside)):
            return False
        return os.path.lexists(real / file)
    except (OSError, ValueError):
        return False


def pinned_files(
    folder: Path, first: str = SKILL_FILE, most: int = MOST_SKILL_FILES
) -> tuple[ProjectFile, ...]:
    """Return all files of the skill or plugin in `folder`, the one that describes it `first`.

    Raises `UnusableValueError` for a folder that cannot be pinned by its content.
    """
    try:
        top = resolve_path(folder)
        names = list(islice(_pinnable_names(top, most), most + 1))
    except UnusableValueError:
        raise
    except (OSError, ValueError) as error:
        reason = why(error) if isinstance(error, OSError) else error
        raise UnusableValueError("its folder cannot be read: {why}", why=reason) from error
    if len(names) > most:
        raise UnusableValueError("it has more than {count} files", count=most)
    found = []
    for name in sorted(names, key=lambda name: (name != first, name)):
        data = _read(folder, name, LARGEST_SKILL_FILE)
        if data is None:
            raise UnusableValueError("{path} cannot be read", path=name)
        found.append(_file(name, "skill", data))
    if not found or found[0].name != first or not found[0].is_text:
        raise UnusableValueError("{path} cannot be read", path=first)
    return tuple(found)


def _pinnable_names(top: Path, most: int) -> Iterator[str]:
    """Yield the names of the files below the resolved folder `top`."""

    def refuse(path: str, error: OSError) -> None:
        if not isinstance(error, WalkLimitError):
            raise error
        if error.limit == "depth":
            raise UnusableValueError("its folders are too deep: {path}", path=path)
        raise UnusableValueError("it has more than {count} files", count=most)

    limits = WalkLimits(_MOST_SKILL_NAMES, _SKILL_DEPTH - 1)
    for one in walk_folder(top, refuse, limits, enters=lambda name: name != _HISTORY):
        name, info = one.path, one.found.stat(follow_symlinks=False)
        if stat.S_ISDIR(info.st_mode):
            continue
        if stat.S_ISLNK(info.st_mode):
            info = _behind_link(top, name)
        if not stat.S_ISREG(info.st_mode):
            raise UnusableValueError("{path} is not a regular file", path=name)
        if info.st_size > LARGEST_SKILL_FILE:
            most = LARGEST_SKILL_FILE // 1024**2
            raise UnusableValueError("{path} is larger than {most} MB", path=name, most=most)
        yield name


def _behind_link(top: Path, name: str) -> os.stat_result:
    target = resolve_path(top / name)
    if not target.is_relative_to(top):
        raise UnusableValueError("{path} is a link that leads out of its folder", path=name)
    try:
        return target.lstat()
    except OSError as error:
        raise UnusableValueError("{path} is a link that leads nowhere", path=name) from error


def _file(name: str, kind: Kind, data: bytes) -> ProjectFile:
    is_text = kind != "skill" or (len(data) <= MAX_FILE and b"\0" not in data)
    digest = hashlib.sha256(data).hexdigest()
    return ProjectFile(name, kind, digest, _text(data) if is_text else "", is_text)


def _counting(place: ProjectPlace, data: bytes | None) -> bytes | None:
    """Return what counts of a file's content; None where nothing does."""
    if data is None or not place.part:
        return data
    try:
        value = json_values("", _text(data)).data.get(place.part)
    except SettingsError:
        return None
    return json.dumps({place.part: value}, indent=2).encode() if value else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _below(folder: Path, name: str, endings: tuple[str, ...], depth: int) -> list[str]:
    """Return the files below a folder that end so; none where it is a link or not readable."""
    path = folder / name
    try:
        if path.is_symlink():
            return []
        top = resolve_path(path)
    except OSError:
        return []
    limits = WalkLimits(MAX_ENTRIES, depth - 1)
    found = walk_folder(top, None, limits, enters=lambda inner: not inner.endswith(endings))
    names = [f"{name}/{one.path}" for one in found if one.found.name.endswith(endings)]
    return sorted(names, key=lambda one: one.split("/"))


def _read(
    folder: Path, name: str, most: int = MAX_FILE, inside: Path | None = None
) -> bytes | None:
    """Return the content of a regular file that lies in `folder`, or in `inside` above it."""
    if not os.path.lexists(f"{folder}/{name}"):  # most are not there, and opening takes far longer
        return None
    try:
        path = resolve_path(folder / name)
        if not path.is_relative_to(resolve_path(inside or folder)):
            return None
        data = read_regular(path, most + 1)
    except (OSError, ValueError):
        return None
    # Half of it would have another digest than the whole.
    return data if len(data) <= most else None


# --- instruction files ----------------------------------------------------------------------------


def files_of_folder(folder: str, read: Read) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the instruction files of a folder, named from the workspace."""
    for names in (SHARED_FILES, (OWN_FILE,)):
        for name in names:
            path = posixpath.normpath(posixpath.join(folder, name))
            data = read(path)
            if data is not None:
                yield path, data
                break


def folders_above(workspace: Path) -> tuple[str, ...]:
    """Return the folders above the workspace up to the root of its repository, that one first.

    None where the workspace is a root itself, or no folder above is one that belongs to the user.
    """
    found: list[str] = []
    name, folder = "", resolve_path(workspace)
    for _level in range(MOST_LEVELS):
        if not _is_mine(folder):
            return ()
        if _is_work_tree(folder):
            return tuple(reversed(found))
        if folder.parent == folder:
            return ()
        name, folder = (f"../{name}" if name else ".."), folder.parent
        found.append(name)
    return ()


def _is_mine(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _is_work_tree(folder: Path) -> bool:
    """Return whether a folder is the root of a git work tree of this user; links do not count."""
    try:
        info = (folder / ".git").lstat()
        if info.st_uid != os.geteuid():
            return False
        if stat.S_ISDIR(info.st_mode):
            return stat.S_ISREG((folder / ".git" / "HEAD").lstat().st_mode)
        if not stat.S_ISREG(info.st_mode) or info.st_size > 4_096:
            return False
        return (folder / ".git").read_bytes().startswith(b"gitdir: ")
    except OSError:
        return False


def folders_below(workspace: Path) -> Iterator[str]:
    """Yield the folders below the workspace that may hold instruction files, the near ones first.

    Folders that never hold source are skipped, and a home or what is above one is not searched.
    """
    top = resolve_path(workspace)
    if resolve_path(Path.home()).is_relative_to(top):
        return
    skipped = frozenset(project_data()["skipped"])

    def enters(name: str) -> bool:
        return name not in skipped and not name.startswith(".")

    found = walk_folder(top, None, _LIMITS, enters=enters, near_first=True)
    folders = (one.path for one in found if one.is_folder and enters(one.found.name))
    yield from islice(folders, MOST_FOLDERS)


def imports_of(name: str, text: str) -> tuple[str, ...]:
    """Return the files that an instruction file imports, named as it is; code is left out."""
    found = (word.rstrip(".,;:!?)\"'") for word in _IMPORT.findall(_CODE.sub(" ", text)))
    paths = (word for word in found if word and not word.startswith(("/", "~")))
    names = (posixpath.normpath(posixpath.join(posixpath.dirname(name), one)) for one in paths)
    return tuple(dict.fromkeys(one for one in names if not is_secret(f"/{one}")))


def with_imports(name: str, text: str, texts: Callable[[str], str | None]) -> Iterator[str]:
    """Yield the names of the files that a file imports, directly and through others, once each.

    `texts` gives the text of a file, None for one that is not there.
    """
    seen, waiting = {name}, deque([(one, 1) for one in imports_of(name, text)])
    while waiting:
        one, level = waiting.popleft()
        found = texts(one) if one not in seen else None
        if found is None:
            continue
        seen.add(one)
        yield one
        if level < IMPORT_LEVELS:
            waiting.extend((inner, level + 1) for inner in imports_of(one, found))
