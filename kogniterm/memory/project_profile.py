"""The profile of a project folder: languages, commands, layout, dependencies; a bounded scan.

What git ignores is left out; without git, or outside of a repository, only the folders that never
hold source are. No link is followed, no more than `LARGEST` bytes of one file are read, and after
`MOST_FILES` files or `seconds` the scan stops and says so. The caller scans trusted folders only.
Texts of the project are data: only names and commands of a plain shape are kept, and nothing of
them is run here.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from kogniterm.host import safe_files
from kogniterm.host.safe_git import GitTooSlowError, files_known_to_git
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.protocols import Clock

MOST_FILES = 20_000
MOST_FOLDERS = 4_000
DEEPEST = 12
LARGEST = 256 * 1024
SECONDS = 5.0

_MOST_SHOWN = 12
_MOST_DEPENDENCIES = 60
_NAME = re.compile(r"@?[A-Za-z0-9][A-Za-z0-9._/-]{0,80}")


@dataclass(frozen=True, slots=True)
class ProjectProfile:
    """Languages (by number of files), commands, layout, dependencies, instruction files.

    `truncated` is true when the folder was too big to be scanned whole.
    """

    scanned: float = 0.0
    files: int = 0
    truncated: bool = False
    languages: Mapping[str, int] = field(default_factory=dict)
    build_commands: tuple[str, ...] = ()
    test_commands: tuple[str, ...] = ()
    lint_commands: tuple[str, ...] = ()
    layout: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    instruction_files: tuple[str, ...] = ()

    def counted_languages(self) -> list[str]:
        """Return the languages with their number of files, the most used first."""
        counted = sorted(self.languages.items(), key=lambda item: (-item[1], item[0]))
        return [f"{name} ({count} file{'s' * (count != 1)})" for name, count in counted]

    def summary(self) -> str:
        """Return a few lines with what was found, for a prompt or the user."""
        rows = (
            ("languages", self.counted_languages()[:6]),
            ("build with", self.build_commands),
            ("test with", self.test_commands),
            ("lint with", self.lint_commands),
            ("top folders", self.layout),
            ("depends on", self.dependencies),
            ("instruction files", self.instruction_files),
        )
        lines = [
            f"{name}: {', '.join(values[:_MOST_SHOWN])}{' …' if len(values) > _MOST_SHOWN else ''}"
            for name, values in rows
            if values
        ]
        if self.truncated:
            lines.append(f"(a big folder: only the first {self.files} files were looked at)")
        return "\n".join(lines)


class ProjectRepository:
    """The stored profile of one user's project."""

    def __init__(self, sql: MemoryDatabase, project: str) -> None:
        self._sql = sql
        self._project = project

    def load(self) -> ProjectProfile | None:
        """Return the last profile, or None before the first scan."""
        row = self._sql.one(
            "SELECT profile FROM project_profiles WHERE user_id = ? AND project_id = ?",
            (self._sql.user, self._project),
        )
        if row is None:
            return None
        # Older versions stored what the next scan started from as well.
        known = {one.name for one in fields(ProjectProfile)}
        held: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in json.loads(row[0]).items()
            if key in known
        }
        return ProjectProfile(**held)

    def save(self, profile: ProjectProfile) -> None:
        """Store `profile` in place of the last one."""
        text = json.dumps(asdict(profile))
        row = {"project_id": self._project, "scanned": profile.scanned, "profile": text}
        self._sql.put("project_profiles", row, key=("project_id",))


def project_root(folder: Path) -> Path:
    """Return the folder that names the project: the nearest one above with `.git`, or `folder`."""
    folder = Path(os.path.realpath(folder))
    for one in (folder, *folder.parents):
        # A folder above may be unreadable.
        if os.path.exists(one / ".git"):  # noqa: PTH110 - pathlib's own test raises there
            return one
    return folder


# --- the scan --------------------------------------------------------------------------------


def scan(
    folder: Path,
    clock: Clock,
    *,
    stopped: Callable[[], bool] = lambda: False,
    seconds: float = SECONDS,
) -> ProjectProfile:
    """Return the profile of `folder` as it is now.

    `stopped` is asked at every file; a stopped scan returns what it has, marked as truncated. A
    folder that cannot be read gives an empty profile.
    """
    folder = Path(os.path.realpath(folder))
    deadline = clock.monotonic() + seconds
    files: list[PurePosixPath] = []
    truncated = False
    for name in _files(folder):
        if stopped() or clock.monotonic() > deadline or len(files) >= MOST_FILES:
            truncated = True
            break
        if name.isprintable():
            files.append(PurePosixPath(name))
    endings = {one: name for name, all_ in _data()["languages"].items() for one in all_}
    languages = Counter(endings.get(file.suffix.lower(), "") for file in files)
    del languages[""]
    files.sort(key=lambda file: (len(file.parts), file))
    manifests = [_read(folder, file) for file in files if len(file.parts) <= 2]
    return ProjectProfile(
        scanned=clock.now(),
        files=len(files),
        truncated=truncated,
        languages=dict(languages.most_common()),
        build_commands=_each(one for manifest in manifests for one in manifest.build),
        test_commands=_each(one for manifest in manifests for one in manifest.test),
        lint_commands=_each(one for manifest in manifests for one in manifest.lint),
        layout=_each(f"{top}/" for top in sorted({f.parts[0] for f in files if f.parts[1:]})),
        dependencies=_each(one for manifest in manifests for one in manifest.dependencies),
        instruction_files=_each(str(one) for one in files if one.name in _data()["instructions"]),
    )


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("project_files.toml").read_text("utf-8"))


def _each(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def _files(folder: Path) -> Iterator[str]:
    """Yield the regular files that may hold source, as paths relative to `folder`."""
    skipped = frozenset(_data()["skipped"])
    try:
        with safe_files.folder(folder) as descriptor:
            listed = files_known_to_git(descriptor)
            if listed is None:
                yield from _walked(folder, skipped)
                return
            for name in listed:
                if skipped.isdisjoint(name.split("/")[:-1]) and _is_regular(name, descriptor):
                    yield name
    except (OSError, GitTooSlowError):
        return


def _is_regular(name: str, descriptor: int) -> bool:
    try:
        found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode)


def _walked(root: Path, skipped: frozenset[str]) -> Iterator[str]:
    waiting = deque([""])
    for _ in range(MOST_FOLDERS):
        if not waiting:
            return
        inner = waiting.popleft()
        try:
            with os.scandir(root / inner) as listing:
                entries = sorted(listing, key=lambda one: one.name)
        except OSError:
            continue
        for entry in entries:
            name = f"{inner}/{entry.name}" if inner else entry.name
            if entry.is_file(follow_symlinks=False):
                yield name
            elif (
                entry.is_dir(follow_symlinks=False)
                and entry.name not in skipped
                and name.count("/") < DEEPEST
            ):
                waiting.append(name)


# --- manifests -------------------------------------------------------------------------------


class _Manifest(NamedTuple):
    """The commands to build, test and lint, and the dependencies, that a manifest file names."""

    build: Iterable[str] = ()
    test: Iterable[str] = ()
    dependencies: Iterable[str] = ()
    lint: Iterable[str] = ()


def _read(folder: Path, file: PurePosixPath) -> _Manifest:
    """Return what a manifest says; nothing for other files, and for broken or hostile ones."""
    fixed = _data()["manifests"].get(file.name, {})
    reader = _READERS.get(file.name)
    try:
        data = safe_files.read_regular(folder / file, LARGEST) if fixed or reader else b""
    except OSError:
        return _Manifest()
    build, test, lint = ([fixed[one]] if one in fixed else [] for one in ("build", "test", "lint"))
    if reader is None:
        return _Manifest(build, test, lint=lint)
    try:
        found = reader(data.decode("utf-8", errors="replace"))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return _Manifest()
    names = (one for one in found.dependencies if isinstance(one, str) and _NAME.fullmatch(one))
    return _Manifest(
        [*build, *found.build], [*test, *found.test], _each(names)[:_MOST_DEPENDENCIES],
        [*lint, *found.lint],
    )  # fmt: skip


def _pyproject(text: str) -> _Manifest:
    data = tomllib.loads(text)
    project = _table(data, "project")
    names = [_distribution(one) for one in project.get("dependencies", [])]
    tool = _table(data, "tool")
    names += list(_table(_table(tool, "poetry"), "dependencies"))
    groups = _table(project, "optional-dependencies") | _table(data, "dependency-groups")
    everything = [*names, *(_distribution(one) for group in groups.values() for one in group)]
    return _Manifest(
        ["python -m build"] if "build-system" in data else (),
        ["python -m pytest"] if "pytest" in tool or "pytest" in everything else (),
        [name for name in names if name != "python"],
        [_PYTHON_LINTERS[name] for name in _PYTHON_LINTERS if name in tool],
    )


_PYTHON_LINTERS = {"ruff": "ruff check", "black": "black --check .", "mypy": "mypy"}
"""Commands by the table below `tool` that configures them."""


def _package_json(text: str) -> _Manifest:
    data = json.loads(text)
    scripts = [name for name in _table(data, "scripts") if _NAME.fullmatch(name)]
    return _Manifest(
        [f"npm run {name}" for name in scripts if name.startswith("build")],
        ["npm test" if name == "test" else f"npm run {name}" for name in scripts
         if name.startswith("test")],
        [*_table(data, "dependencies"), *_table(data, "devDependencies")],
        [f"npm run {name}" for name in scripts if name.startswith(_LINTS)],
    )  # fmt: skip


_LINTS = ("lint", "format", "fmt", "typecheck", "type-check")
"""Beginnings of the names of scripts and targets that check or format the code."""


def _makefile(text: str) -> _Manifest:
    targets = _each(re.findall(r"^([A-Za-z][\w.-]*)\s*:(?!=)", text, re.MULTILINE))
    return _Manifest(
        [f"make {one}" for one in targets if one in ("all", "build", "release", "install")],
        [f"make {one}" for one in targets if one in ("test", "tests", "check")],
        lint=[f"make {one}" for one in targets if one.startswith(_LINTS)],
    )


def _justfile(text: str) -> _Manifest:
    targets = re.findall(r"^([A-Za-z][\w-]*)[^:=\n]*:(?!=)", text, re.MULTILINE)
    return _Manifest(
        [f"just {one}" for one in targets if one.startswith("build")],
        [f"just {one}" for one in targets if one.startswith(("test", "check"))],
        lint=[f"just {one}" for one in targets if one.startswith(_LINTS)],
    )


def _cargo(text: str) -> _Manifest:
    data = tomllib.loads(text)
    names = [*_table(data, "dependencies"), *_table(data, "dev-dependencies")]
    return _Manifest(dependencies=names)


def _go_mod(text: str) -> _Manifest:
    required = re.compile(r"^\s*(?:require\s+)?([\w.-]+\.[\w./-]+)\s+v\d", re.MULTILINE)
    return _Manifest(dependencies=required.findall(text))


def _requirements(text: str) -> _Manifest:
    lines = (line.split("#", maxsplit=1)[0].strip() for line in text.splitlines())
    names = [_distribution(one) for one in lines if one and not one.startswith("-")]
    return _Manifest(dependencies=names)


def _composer(text: str) -> _Manifest:
    data = json.loads(text)
    scripts = [one for one in _table(data, "scripts") if _NAME.fullmatch(one)]
    tests = [f"composer {one}" for one in scripts if one.startswith("test")]
    lints = [f"composer {one}" for one in scripts if one.startswith(_LINTS)]
    return _Manifest(test=tests, dependencies=_table(data, "require"), lint=lints)


def _gemfile(text: str) -> _Manifest:
    gems = re.findall(r"^\s*gem\s+['\"]([\w-]+)['\"]", text, re.MULTILINE)
    return _Manifest(dependencies=gems)


_READERS: Mapping[str, Callable[[str], _Manifest]] = {
    "pyproject.toml": _pyproject,
    "requirements.txt": _requirements,
    "package.json": _package_json,
    "Makefile": _makefile,
    "makefile": _makefile,
    "justfile": _justfile,
    "Cargo.toml": _cargo,
    "go.mod": _go_mod,
    "composer.json": _composer,
    "Gemfile": _gemfile,
}


def _table(data: Any, key: str) -> dict[str, Any]:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def _distribution(requirement: object) -> str:
    """Return a requirement's name: `httpx[http2]>=0.28; python_version<"4"` → `httpx`."""
    found = _NAME.match(str(requirement))
    return found.group() if found else ""
