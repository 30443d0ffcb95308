"""A scan of a project folder: languages, commands, layout, dependencies; bounded.

What git ignores is left out; without git, or outside of a repository, only the folders that never
hold source are. No link is followed, no more than `LARGEST` bytes of one file are read, and after
`MOST_FILES` files or `seconds` the scan stops and says so. The folder must be trusted before it
is scanned; the caller sees to that.
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
from pathlib import Path, PurePosixPath
from typing import Any

from kogniterm.host import safe_files
from kogniterm.host.safe_git import GitTooSlowError, files_known_to_git
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.protocols import Clock

_MOST_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ProjectProfile:
    """Languages (by number of files), commands, layout, dependencies, instruction files.

    `truncated` says that the folder was too big to be seen whole.
    """

    scanned: float = 0.0
    files: int = 0
    truncated: bool = False
    languages: Mapping[str, int] = field(default_factory=dict)
    build_commands: tuple[str, ...] = ()
    test_commands: tuple[str, ...] = ()
    layout: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    instruction_files: tuple[str, ...] = ()

    def summary(self) -> str:
        """A few lines for a prompt or a person: only what was found."""
        languages = sorted(self.languages.items(), key=lambda item: (-item[1], item[0]))
        rows = (
            ("languages", [f"{name} ({count} files)" for name, count in languages[:6]]),
            ("build with", self.build_commands),
            ("test with", self.test_commands),
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
        self._bound = (sql.user, project)

    def load(self) -> ProjectProfile | None:
        """The last profile, or None before the first scan."""
        row = self._sql.one(
            "SELECT profile FROM project_profiles WHERE user_id = ? AND project_id = ?",
            self._bound,
        )
        return _decode(row[0]) if row else None

    def save(self, profile: ProjectProfile) -> None:
        """Store `profile` in place of the last one."""
        self._sql.run(
            "INSERT INTO project_profiles (user_id, project_id, scanned, profile) "
            "VALUES (?, ?, ?, ?) ON CONFLICT (user_id, project_id) DO UPDATE SET "
            "scanned = excluded.scanned, profile = excluded.profile",
            (*self._bound, profile.scanned, json.dumps(asdict(profile))),
        )


def _decode(text: str) -> ProjectProfile:
    # Older versions stored what the next scan started from besides.
    known = {one.name for one in fields(ProjectProfile)}
    held: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in json.loads(text).items()
        if key in known
    }
    return ProjectProfile(**held)


INSTRUCTION_FILES = frozenset(
    (
        "AGENTS.md", "CLAUDE.md", "GEMINI.md", "CONTRIBUTING.md", "README.md", "README.rst",
        ".cursorrules", "copilot-instructions.md",
    )
)  # fmt: skip
_NAME = re.compile(r"@?[A-Za-z0-9][A-Za-z0-9._/-]{0,80}")
_TARGET = re.compile(r"^([A-Za-z][\w.-]*)\s*:(?!=)", re.MULTILINE)
_MOST = 60

Found = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""(build commands, test commands, dependencies)."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest file says."""

    build: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()


def read_manifest(name: str, text: str) -> Manifest | None:
    """What the manifest called `name` says; None for files that are none. Bad ones say nothing."""
    reader = _READERS.get(name)
    if reader is None:
        return None
    try:
        build, test, dependencies = reader(text)
    except (ValueError, TypeError, AttributeError, RecursionError):
        # A broken or hostile manifest is no reason to fail: it just says nothing.
        build, test, dependencies = (), (), ()
    return Manifest(build, test, _names(dependencies))


def is_manifest(name: str) -> bool:
    """Whether a file of this name is read."""
    return name in _READERS


def _pyproject(text: str) -> Found:
    data = tomllib.loads(text)
    project = _table(data, "project")
    names = [_distribution(one) for one in project.get("dependencies", [])]
    tool = _table(data, "tool")
    names += list(_table(_table(tool, "poetry"), "dependencies"))
    groups = _table(project, "optional-dependencies") | _table(data, "dependency-groups")
    everything = [*names, *(_distribution(one) for group in groups.values() for one in group)]
    tested = "pytest" in tool or "pytest" in everything
    return (
        ("python -m build",) if "build-system" in data else (),
        (("python -m pytest",) if tested else ()),
        tuple(name for name in names if name != "python"),
    )


def _package_json(text: str) -> Found:
    data = json.loads(text)
    scripts = _table(data, "scripts")
    named = [name for name in scripts if _NAME.fullmatch(name)]
    build = tuple(f"npm run {name}" for name in named if name.startswith("build"))
    test = tuple("npm test" if name == "test" else f"npm run {name}" for name in named
                 if name.startswith("test"))  # fmt: skip
    return build, test, (*_table(data, "dependencies"), *_table(data, "devDependencies"))


def _makefile(text: str) -> Found:
    targets = list(dict.fromkeys(_TARGET.findall(text)))
    build = tuple(f"make {one}" for one in targets if one in ("all", "build", "release", "install"))
    test = tuple(f"make {one}" for one in targets if one in ("test", "tests", "check", "lint"))
    return build, test, ()


def _justfile(text: str) -> Found:
    targets = re.findall(r"^([A-Za-z][\w-]*)[^:=\n]*:(?!=)", text, re.MULTILINE)
    build = tuple(f"just {one}" for one in targets if one.startswith("build"))
    return build, tuple(f"just {one}" for one in targets if one.startswith(("test", "check"))), ()


def _cargo(text: str) -> Found:
    data = tomllib.loads(text)
    names = (*_table(data, "dependencies"), *_table(data, "dev-dependencies"))
    return ("cargo build",), ("cargo test",), names


def _go_mod(text: str) -> Found:
    names = re.findall(r"^\s*(?:require\s+)?([\w.-]+\.[\w./-]+)\s+v\d", text, re.MULTILINE)
    return ("go build ./...",), ("go test ./...",), tuple(names)


def _requirements(text: str) -> Found:
    lines = (line.split("#", maxsplit=1)[0].strip() for line in text.splitlines())
    return (), (), tuple(_distribution(one) for one in lines if one and not one.startswith("-"))


def _composer(text: str) -> Found:
    data = json.loads(text)
    scripts = _table(data, "scripts")
    test = tuple(f"composer {one}" for one in scripts if one.startswith("test"))
    return (), test, tuple(_table(data, "require"))


def _gemfile(text: str) -> Found:
    return (), (), tuple(re.findall(r"^\s*gem\s+['\"]([\w-]+)['\"]", text, re.MULTILINE))


def _fixed(build: str, test: str) -> Callable[[str], Found]:
    """A reader for files whose presence says it all."""
    return lambda _text: ((build,) if build else (), (test,) if test else (), ())


_READERS: Mapping[str, Callable[[str], Found]] = {
    "pyproject.toml": _pyproject,
    "setup.py": _fixed("python -m build", ""),
    "requirements.txt": _requirements,
    "tox.ini": _fixed("", "tox"),
    "noxfile.py": _fixed("", "nox"),
    "pytest.ini": _fixed("", "python -m pytest"),
    "package.json": _package_json,
    "Makefile": _makefile,
    "makefile": _makefile,
    "justfile": _justfile,
    "Cargo.toml": _cargo,
    "go.mod": _go_mod,
    "CMakeLists.txt": _fixed("cmake -B build && cmake --build build", "ctest --test-dir build"),
    "meson.build": _fixed("meson setup build && meson compile -C build", "meson test -C build"),
    "pom.xml": _fixed("mvn package", "mvn test"),
    "build.gradle": _fixed("gradle build", "gradle test"),
    "build.gradle.kts": _fixed("gradle build", "gradle test"),
    "composer.json": _composer,
    "Gemfile": _gemfile,
    "mix.exs": _fixed("mix compile", "mix test"),
    "Dockerfile": _fixed("docker build .", ""),
}


def _table(data: Any, key: str) -> dict[str, Any]:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def _distribution(requirement: object) -> str:
    """`httpx[http2]>=0.28; python_version<"4"` → `httpx`."""
    found = _NAME.match(str(requirement))
    return found.group() if found else ""


def _names(found: Iterable[object]) -> tuple[str, ...]:
    plain = (name for name in found if isinstance(name, str) and _NAME.fullmatch(name))
    return tuple(dict.fromkeys(plain))[:_MOST]


MOST_FILES = 20_000
MOST_FOLDERS = 4_000
DEEPEST = 12
LARGEST = 256 * 1024
SECONDS = 5.0

NEVER = frozenset(
    (
        ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", "dist", "build", "target", ".next",
        ".gradle", ".idea", ".vscode", "vendor", ".terraform", ".cache", "coverage", ".direnv",
    )
)  # fmt: skip
"""Folders that hold no source of the project, ignored or not."""

LANGUAGES: Mapping[str, str] = {
    ".py": "Python", ".pyi": "Python", ".js": "JavaScript", ".jsx": "JavaScript",
    ".mjs": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript", ".go": "Go", ".rs": "Rust",
    ".c": "C", ".h": "C", ".cc": "C++", ".cpp": "C++", ".hpp": "C++", ".java": "Java",
    ".kt": "Kotlin", ".swift": "Swift", ".rb": "Ruby", ".php": "PHP", ".cs": "C#",
    ".scala": "Scala", ".ex": "Elixir", ".exs": "Elixir", ".hs": "Haskell", ".lua": "Lua",
    ".r": "R", ".jl": "Julia", ".sh": "Shell", ".bash": "Shell", ".sql": "SQL", ".html": "HTML",
    ".css": "CSS", ".scss": "CSS", ".vue": "Vue", ".svelte": "Svelte", ".tf": "Terraform",
    ".dart": "Dart", ".zig": "Zig", ".ml": "OCaml", ".pl": "Perl",
}  # fmt: skip


def scan(
    folder: Path,
    clock: Clock,
    *,
    stopped: Callable[[], bool] = lambda: False,
    seconds: float = SECONDS,
) -> ProjectProfile:
    """Return the profile of `folder` as it is now.

    `stopped` is asked at every file; a stopped scan gives what it has, marked as truncated. A
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
    languages = Counter(LANGUAGES.get(file.suffix.lower(), "") for file in files)
    del languages[""]
    files.sort(key=lambda file: (len(file.parts), file))
    read = (_read(folder, file) for file in files if len(file.parts) <= 2)
    manifests = [manifest for manifest in read if manifest is not None]
    return ProjectProfile(
        scanned=clock.now(),
        files=len(files),
        truncated=truncated,
        languages=dict(languages.most_common()),
        build_commands=_each(one for manifest in manifests for one in manifest.build),
        test_commands=_each(one for manifest in manifests for one in manifest.test),
        layout=_each(f"{top}/" for top in sorted({f.parts[0] for f in files if f.parts[1:]})),
        dependencies=_each(one for manifest in manifests for one in manifest.dependencies),
        instruction_files=_each(str(file) for file in files if file.name in INSTRUCTION_FILES),
    )


def _each(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def _read(folder: Path, file: PurePosixPath) -> Manifest | None:
    if not is_manifest(file.name):
        return None
    try:
        data = safe_files.read_regular(folder / file, LARGEST)
    except OSError:
        return None
    return read_manifest(file.name, data.decode("utf-8", errors="replace"))


def _files(folder: Path) -> Iterator[str]:
    """The regular files that may hold source, as paths relative to `folder`."""
    try:
        with safe_files.folder(folder) as descriptor:
            listed = files_known_to_git(descriptor)
            if listed is None:
                yield from _walked(folder)
                return
            for name in listed:
                if NEVER.isdisjoint(name.split("/")[:-1]) and _is_regular(name, descriptor):
                    yield name
    except (OSError, GitTooSlowError):
        return


def _is_regular(name: str, descriptor: int) -> bool:
    try:
        found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode)


def _walked(root: Path) -> Iterator[str]:
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
                and entry.name not in NEVER
                and name.count("/") < DEEPEST
            ):
                waiting.append(name)


def project_root(folder: Path) -> Path:
    """The folder that names the project: the nearest one above with `.git`, else `folder`."""
    folder = Path(os.path.realpath(folder))
    for one in (folder, *folder.parents):
        # Above may lie a folder that may not be entered.
        if os.path.exists(one / ".git"):  # noqa: PTH110 - pathlib's own test raises there
            return one
    return folder
