"""The profile of a project: scanned from its folder, read from manifests, and stored.

What git ignores is left out; without git, or outside of a repository, only the folders that never
hold source are. No link is followed, no more than `LARGEST` bytes of one file are read, and after
`MOST_FILES` files or `seconds` the scan stops and says so. The caller scans trusted folders only.
Texts of the project are data: only names, numbers and commands of a plain shape are kept, and
nothing of them is run here; broken and hostile files say nothing. `ProjectScanner` scans in the
background, where the user trusts the workspace.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm.errors import KognitermError, SettingsError
from kogniterm.host import safe_files
from kogniterm.host.safe_git import commit_subjects, files_known_to_git
from kogniterm.host.walk import WalkLimitError, WalkLimits, walk_folder
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.protocols import Clock
from kogniterm.settings.user_files import json_values, toml_values

if TYPE_CHECKING:
    from configparser import ConfigParser

_MOST_SHOWN = 12


class ProjectProfile(NamedTuple):
    """Languages (by number of files), frameworks, commands, conventions, layout, dependencies.

    `truncated` is true when the folder was too big to be scanned whole. `folder` is the one that
    was scanned, at `scanned`; `state` identifies its manifests as they were.
    """

    scanned: float = 0.0
    files: int = 0
    truncated: bool = False
    languages: Mapping[str, int] = {}
    frameworks: tuple[str, ...] = ()
    build_commands: tuple[str, ...] = ()
    test_commands: tuple[str, ...] = ()
    lint_commands: tuple[str, ...] = ()
    conventions: Mapping[str, tuple[str, ...]] = {}
    layout: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    instruction_files: tuple[str, ...] = ()
    folder: str = ""
    state: str = ""

    def counted_languages(self) -> list[str]:
        """Return the languages with their number of files, the most used first."""
        counted = sorted(self.languages.items(), key=lambda item: (-item[1], item[0]))
        return [f"{name} ({count} file{'s' * (count != 1)})" for name, count in counted]

    def values(self, name: str) -> tuple[str, ...]:
        """Return the findings of the scan for the row `name` of `TITLES`."""
        fields = {
            "languages": tuple(self.counted_languages()),
            "frameworks": self.frameworks,
            "build": self.build_commands,
            "test": self.test_commands,
            "lint": self.lint_commands,
            "folders": self.layout,
            "dependencies": self.dependencies,
            "instructions": self.instruction_files,
        }
        return fields[name] if name in fields else tuple(self.conventions.get(name, ()))

    def line(self, name: str) -> str:
        """Return the values of a row in one line; empty when there are none."""
        values = self.values(name)
        return f"{', '.join(values[:_MOST_SHOWN])}{' …' if len(values) > _MOST_SHOWN else ''}"

    def summary(self) -> str:
        """Return a few lines with what was found, for a prompt."""
        lines = [f"{TITLES[name]}: {self.line(name)}" for name in TITLES if self.values(name)]
        if self.truncated:
            lines.append(f"(a big folder: only the first {self.files} files were looked at)")
        return "\n".join(lines)


TITLES: Mapping[str, str] = {
    "languages": "languages",
    "frameworks": "frameworks",
    "build": "build with",
    "test": "test with",
    "lint": "lint with",
    "formatter": "formatted with",
    "line_length": "line length",
    "indent": "indentation",
    "commits": "commit messages",
    "folders": "top folders",
    "dependencies": "depends on",
    "instructions": "instruction files",
}
"""The rows of a profile by name, with their titles for a model."""


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
        return None if row is None else profile_of(json.loads(row[0]))

    def save(self, profile: ProjectProfile) -> None:
        """Store what a scan found in place of the last scan."""
        text = json.dumps(profile._asdict())
        row = {"project_id": self._project, "scanned": profile.scanned, "profile": text}
        with self._sql.transaction():
            self._sql.put("project_profiles", row, key=("project_id",))

    def drop(self) -> None:
        """Delete what was found: the folder is not trusted any more."""
        with self._sql.transaction():
            self._sql.run(
                "DELETE FROM project_profiles WHERE user_id = ? AND project_id = ?",
                (self._sql.user, self._project),
            )


def profile_of(data: Mapping[str, Any]) -> ProjectProfile:
    """Return the profile that `data` of JSON holds; unknown fields are left out.

    Raises `TypeError` or `ValueError` for data of another form.
    """
    held: dict[str, Any] = {}
    for name in ProjectProfile._fields:
        if name not in data:
            continue
        value = data[name]
        if isinstance(value, list):
            value = _texts(value)
        elif isinstance(value, dict):
            value = {
                str(key): _texts(part) if isinstance(part, list) else _plain(part)
                for key, part in value.items()
            }
        held[name] = value
    return ProjectProfile(**held)


def _texts(values: list[Any]) -> tuple[str, ...]:
    if not all(isinstance(one, str) for one in values):
        raise TypeError("not a list of texts")
    return tuple(values)


def _plain(value: Any) -> str | int:
    if not isinstance(value, str | int):
        raise TypeError("not a text or a number")
    return value


def project_root(folder: Path) -> Path:
    """Return the folder that names the project: the nearest one above with `.git`, or `folder`."""
    folder = Path(os.path.realpath(folder))
    for one in (folder, *folder.parents):
        # A folder above may be unreadable.
        if os.path.exists(one / ".git"):  # noqa: PTH110 - pathlib's own test raises there
            return one
    return folder


# --- manifests and settings of tools ---

LARGEST = 256 * 1024
_NAME = re.compile(r"@?[A-Za-z0-9][A-Za-z0-9._/-]{0,80}")
_WIDEST = 400
"""Characters: a line length beyond it is a mistake."""
_NOTHING: Mapping[str, str] = {}


class Manifest(NamedTuple):
    """Commands to build, test and lint, dependencies, and conventions by name, of one file."""

    build: Iterable[str] = ()
    test: Iterable[str] = ()
    dependencies: Iterable[str] = ()
    lint: Iterable[str] = ()
    conventions: Mapping[str, str] = _NOTHING


@cache
def project_data() -> dict[str, Any]:
    """Return the tables of `project_files.toml`."""
    return tomllib.loads(Path(__file__).with_name("project_files.toml").read_text("utf-8"))


def is_manifest(name: str) -> bool:
    return name in _READERS or name in project_data()["manifests"]


def read_manifest(folder: Path, file: PurePosixPath) -> Manifest:
    """Return the content of a manifest; an empty one for other, broken and hostile files."""
    fixed = project_data()["manifests"].get(file.name, {})
    reader = _READERS.get(file.name)
    try:
        data = safe_files.read_regular(folder / file, LARGEST) if fixed or reader else b""
    except OSError:
        return Manifest()
    build, test, lint = ([fixed[one]] if one in fixed else [] for one in ("build", "test", "lint"))
    try:
        found = reader(data.decode("utf-8", errors="replace")) if reader else Manifest()
    except (SettingsError, ValueError, TypeError, AttributeError):
        return Manifest()
    names = (one for one in found.dependencies if isinstance(one, str) and _NAME.fullmatch(one))
    own = {} if "formatter" not in fixed else {"formatter": str(fixed["formatter"])}
    return Manifest(
        [*build, *found.build], [*test, *found.test], _each(names), [*lint, *found.lint],
        own | dict(found.conventions),
    )  # fmt: skip


def _each(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def _pyproject(text: str) -> Manifest:
    data = toml_values("", text).data
    project = _table(data, "project")
    names = [_distribution(one) for one in project.get("dependencies", [])]
    tool = _table(data, "tool")
    names += list(_table(_table(tool, "poetry"), "dependencies"))
    groups = _table(project, "optional-dependencies") | _table(data, "dependency-groups")
    everything = [*names, *(_distribution(one) for group in groups.values() for one in group)]
    return Manifest(
        ["python -m build"] if "build-system" in data else (),
        ["python -m pytest"] if "pytest" in tool or "pytest" in everything else (),
        [name for name in names if name != "python"],
        [_PYTHON_LINTERS[name] for name in _PYTHON_LINTERS if name in tool],
        _python_conventions(tool),
    )


def _python_conventions(tool: Mapping[str, Any]) -> dict[str, str]:
    ruff, black = _table(tool, "ruff"), _table(tool, "black")
    formatter = "ruff format" if "format" in ruff else "black" if "black" in tool else ""
    length = ruff.get("line-length", black.get("line-length"))
    return _without_empty(formatter=formatter, line_length=_length(length))


_PYTHON_LINTERS = {"ruff": "ruff check", "black": "black --check .", "mypy": "mypy"}
"""Commands by the table below `tool` that configures them."""


def _package_json(text: str) -> Manifest:
    data = json_values("", text).data
    scripts = [name for name in _table(data, "scripts") if _NAME.fullmatch(name)]
    return Manifest(
        [f"npm run {name}" for name in scripts if name.startswith("build")],
        ["npm test" if name == "test" else f"npm run {name}" for name in scripts
         if name.startswith("test")],
        [*_table(data, "dependencies"), *_table(data, "devDependencies")],
        [f"npm run {name}" for name in scripts if name.startswith(_LINTS)],
        _prettier(json.dumps(data["prettier"])).conventions
        if isinstance(data.get("prettier"), dict) else _NOTHING,
    )  # fmt: skip


_LINTS = ("lint", "format", "fmt", "typecheck", "type-check")
"""Beginnings of the names of scripts and targets that check or format the code."""


def _makefile(text: str) -> Manifest:
    targets = _each(re.findall(r"^([A-Za-z][\w.-]*)\s*:(?!=)", text, re.MULTILINE))
    return Manifest(
        [f"make {one}" for one in targets if one in ("all", "build", "release", "install")],
        [f"make {one}" for one in targets if one in ("test", "tests", "check")],
        lint=[f"make {one}" for one in targets if one.startswith(_LINTS)],
    )


def _justfile(text: str) -> Manifest:
    targets = re.findall(r"^([A-Za-z][\w-]*)[^:=\n]*:(?!=)", text, re.MULTILINE)
    return Manifest(
        [f"just {one}" for one in targets if one.startswith("build")],
        [f"just {one}" for one in targets if one.startswith(("test", "check"))],
        lint=[f"just {one}" for one in targets if one.startswith(_LINTS)],
    )


def _cargo(text: str) -> Manifest:
    data = toml_values("", text).data
    names = [*_table(data, "dependencies"), *_table(data, "dev-dependencies")]
    return Manifest(dependencies=names)


def _requirements(text: str) -> Manifest:
    lines = (line.split("#", maxsplit=1)[0].strip() for line in text.splitlines())
    names = [_distribution(one) for one in lines if one and not one.startswith("-")]
    return Manifest(dependencies=names)


def _composer(text: str) -> Manifest:
    data = json_values("", text).data
    scripts = [one for one in _table(data, "scripts") if _NAME.fullmatch(one)]
    tests = [f"composer {one}" for one in scripts if one.startswith("test")]
    lints = [f"composer {one}" for one in scripts if one.startswith(_LINTS)]
    return Manifest(test=tests, dependencies=_table(data, "require"), lint=lints)


# --- conventions -----------------------------------------------------------------------------


def _editorconfig(text: str) -> Manifest:
    """Read the section for all files; editorconfig.org."""
    ini = _ini(f"[top]\n{text}")
    held = dict(ini["*"]) if "*" in ini else {}
    return Manifest(
        conventions=_without_empty(
            indent=_indent(held.get("indent_style"), held.get("indent_size")),
            line_length=_length(held.get("max_line_length")),
        )
    )


def _prettier(text: str) -> Manifest:
    held = json_values("", text).data
    style = {True: "tab", False: "space"}.get(held.get("useTabs"), "space")
    width = held.get("tabWidth")
    indent = _indent(style, width) if width is not None or style == "tab" else ""
    length = _length(held.get("printWidth"))
    return Manifest(
        conventions=_without_empty(formatter="prettier", indent=indent, line_length=length)
    )


def _rustfmt(text: str) -> Manifest:
    length = _length(toml_values("", text).data.get("max_width"))
    return Manifest(conventions=_without_empty(formatter="rustfmt", line_length=length))


def _ruff(text: str) -> Manifest:
    return Manifest(conventions=_python_conventions({"ruff": toml_values("", text).data}))


def _flake8(text: str) -> Manifest:
    ini = _ini(text)
    length = ini["flake8"].get("max-line-length") if "flake8" in ini else None
    return Manifest(conventions=_without_empty(line_length=_length(length)))


def _clang_format(text: str) -> Manifest:
    length = re.search(r"^ColumnLimit:\s*(\d+)", text, re.MULTILINE)
    indent = re.search(r"^IndentWidth:\s*(\d+)", text, re.MULTILINE)
    return Manifest(
        conventions=_without_empty(
            formatter="clang-format",
            indent=_indent("space", indent[1]) if indent else "",
            line_length=_length(length[1] if length else None),
        )
    )


def _ini(text: str) -> ConfigParser:
    """Return the sections of an INI file. Raises `ValueError`."""
    import configparser

    ini = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    try:
        ini.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error
    return ini


def _without_empty(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _length(value: object) -> str:
    """Return a line length as a number; empty for what is none."""
    text = str(value).strip()
    return text if re.fullmatch(r"[1-9]\d{1,2}", text) and int(text) <= _WIDEST else ""


def _indent(style: object, size: object) -> str:
    if str(style).strip() == "tab":
        return "tabs"
    text = str(size).strip()
    return f"{text} spaces" if style is not None and re.fullmatch(r"[1-8]", text) else ""


def _names_by(pattern: str) -> Callable[[str], Manifest]:
    """Return a reader of manifests in which only dependencies are found, by a pattern."""
    return lambda text: Manifest(dependencies=re.findall(pattern, text, re.MULTILINE))


_gradle = _names_by(r"['\"]([\w.-]+)[:'\"]")
_READERS: Mapping[str, Callable[[str], Manifest]] = {
    "pyproject.toml": _pyproject,
    "requirements.txt": _requirements,
    "package.json": _package_json,
    "Makefile": _makefile,
    "makefile": _makefile,
    "justfile": _justfile,
    "Cargo.toml": _cargo,
    "go.mod": _names_by(r"^\s*(?:require\s+)?([\w.-]+\.[\w./-]+)\s+v\d"),
    "composer.json": _composer,
    "Gemfile": _names_by(r"^\s*gem\s+['\"]([\w-]+)['\"]"),
    "pom.xml": _names_by(r"<artifactId>\s*([\w.-]+)\s*</artifactId>"),
    "build.gradle": _gradle,
    "build.gradle.kts": _gradle,
    ".editorconfig": _editorconfig,
    ".prettierrc": _prettier,
    ".prettierrc.json": _prettier,
    "rustfmt.toml": _rustfmt,
    ".rustfmt.toml": _rustfmt,
    "ruff.toml": _ruff,
    ".ruff.toml": _ruff,
    ".flake8": _flake8,
    "setup.cfg": _flake8,
    ".clang-format": _clang_format,
}


def _table(data: Any, key: str) -> dict[str, Any]:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def _distribution(requirement: object) -> str:
    """Return a requirement's name: `httpx[http2]>=0.28; python_version<"4"` → `httpx`."""
    found = _NAME.match(str(requirement))
    return found.group() if found else ""


# --- the scan ---

log = logging.getLogger(__name__)
CLOSING_SECONDS = 2.0
"""Seconds by which a scan that is told to stop may delay the exit."""
MOST_FILES = 20_000
SECONDS = 5.0
_LIMITS = WalkLimits(entries=10 * MOST_FILES, depth=40)
_WATCHED = WalkLimits(entries=20_000, depth=1)
"""The part in which a change of the manifests is noticed."""
_MOST_DEPENDENCIES = 60
_MOST_COMMITS = 100
_FEWEST_COMMITS = 10
_MOSTLY = 0.8
"""Share of the commits that must have a form for it to be the project's."""


class ProjectScanner:
    """Keeps the profile of the workspace up to date, on a thread of its own.

    Nothing of a folder is read before `trusted` says so. `profiles` returns where profiles are
    kept, None while memory may not be written.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        trusted: Callable[[], bool],
        profiles: Callable[[], ProjectRepository | None],
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.trusted = trusted
        self.profiles = profiles
        self._untrusted = False
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def look(self) -> None:
        """Scan in the background if the manifests changed since the last scan; return at once."""
        if self._stopping.is_set() or (self._thread is not None and self._thread.is_alive()):
            return
        if self._untrusted and not self.trusted():
            return
        self._thread = threading.Thread(target=self._look, name="project scan", daemon=True)
        self._thread.start()

    def settled(self) -> None:
        """Wait for a scan that runs."""
        if self._thread is not None:
            self._thread.join()

    def scan_now(self) -> ProjectProfile:
        """Scan because the user asks for it; keep the profile where the folder is trusted."""
        found = scan(self.folder, self.clock, stopped=self._stopping.is_set)
        profiles = self.profiles()
        if profiles is not None and not self._stopping.is_set() and self.trusted():
            profiles.save(found)
        return found

    def close(self) -> None:
        """Stop a scan that runs; what it found is not kept."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)

    def _look(self) -> None:
        try:
            profiles = self.profiles()
            if profiles is None:
                return
            known = profiles.load()
            self._untrusted = not self.trusted()
            if self._untrusted:
                profiles.drop()
            elif known is None or known.state != manifest_state(self.folder):
                self.scan_now()
        except (KognitermError, OSError):
            # What is known stays: the next turn looks again.
            log.exception("the project folder could not be scanned")


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
    state = manifest_state(folder)
    files: list[PurePosixPath] = []
    truncated = False

    def unseen(_folder: str, error: OSError) -> None:
        nonlocal truncated
        truncated = truncated or isinstance(error, WalkLimitError)

    for name in _files(folder, unseen):
        if stopped() or clock.monotonic() > deadline or len(files) >= MOST_FILES:
            truncated = True
            break
        if name.isprintable():
            files.append(PurePosixPath(name))
    files.sort(key=lambda file: (len(file.parts), file))
    manifests = [(file, read_manifest(folder, file)) for file in files if len(file.parts) <= 2]
    found = [manifest for _file, manifest in manifests]
    dependencies = _each(one for manifest in found for one in manifest.dependencies)
    conventions = _conventions(manifests)
    with suppress(TimeoutError):
        if not truncated and (commits := commit_style(commit_subjects(folder, _MOST_COMMITS))):
            conventions["commits"] = (commits,)
    endings = {one: name for name, all_ in project_data()["languages"].items() for one in all_}
    counted = Counter(endings.get(file.suffix.lower(), "") for file in files)
    del counted[""]
    held = {name.lower() for name in dependencies}
    table = project_data()["frameworks"]
    return ProjectProfile(
        scanned=clock.now(),
        files=len(files),
        truncated=truncated,
        languages=dict(counted.most_common()),
        frameworks=tuple(name for name, names in table.items() if not held.isdisjoint(names)),
        build_commands=_each(one for manifest in found for one in manifest.build),
        test_commands=_each(one for manifest in found for one in manifest.test),
        lint_commands=_each(one for manifest in found for one in manifest.lint),
        conventions=conventions,
        layout=_each(f"{top}/" for top in sorted({f.parts[0] for f in files if f.parts[1:]})),
        dependencies=dependencies[:_MOST_DEPENDENCIES],
        instruction_files=_each(
            str(one) for one in files if one.name in project_data()["instructions"]
        ),
        folder=str(folder),
        state=state,
    )


def manifest_state(folder: Path) -> str:
    """Return a digest of the folder's path, top folders and manifests (name, size, time).

    Reads no file: cheap enough for the beginning of each turn.
    """
    folder = Path(os.path.realpath(folder))
    seen = [str(folder)]
    skipped = frozenset(project_data()["skipped"])
    found = walk_folder(
        folder, None, _WATCHED, enters=lambda name: name not in skipped, near_first=True
    )
    for entry in found:
        if is_manifest(entry.found.name):
            with suppress(OSError):
                about = entry.found.stat(follow_symlinks=False)
                seen.append(f"{entry.path} {about.st_size} {about.st_mtime_ns}")
        elif "/" not in entry.path and entry.is_folder and entry.path not in skipped:
            seen.append(entry.path)
    return hashlib.sha256("\n".join(seen).encode("utf-8", "surrogateescape")).hexdigest()


def _conventions(
    manifests: Sequence[tuple[PurePosixPath, Manifest]],
) -> dict[str, tuple[str, ...]]:
    """Return the values of each convention; where files disagree, each with its file.

    What an editor is told (.editorconfig) counts only where no tool has a setting of its own.
    """
    found: dict[str, dict[str, str]] = {}
    by_tools = [one for one in manifests if one[0].name != ".editorconfig"]
    for file, manifest in (*by_tools, *(one for one in manifests if one not in by_tools)):
        for key, value in manifest.conventions.items():
            if file.name != ".editorconfig" or key not in found:
                found.setdefault(key, {}).setdefault(value, str(file))
    return {
        key: tuple(
            value if len(values) == 1 or key == "formatter" else f"{value} ({file})"
            for value, file in values.items()
        )
        for key, values in found.items()
    }


_STYLES = (
    ("Conventional Commits", re.compile(
        r"(?:build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(?:\([^)]+\))?!?: \S")),
    ("gitmoji", re.compile(r":[a-z_0-9]+: \S|[☀-➿\U0001f300-\U0001faff]")),
    ("[part] subject", re.compile(r"\[[^\]]+\] \S")),
    ("part: subject", re.compile(r"[\w./ -]{1,30}: \S")),
    ("capitalised subjects", re.compile(r"[A-ZÁÉÍÓÚÑ]")),
    ("lower-case subjects", re.compile(r"[a-záéíóúñ]")),
)  # fmt: skip
_LENGTHS = (50, 72)
"""Usual limits of a subject, in characters."""


def commit_style(subjects: Sequence[str]) -> str:
    """Return the form that most commit subjects have, and their usual limit; empty for none."""
    if len(subjects) < _FEWEST_COMMITS:
        return ""
    for name, form in _STYLES:
        if sum(form.match(one) is not None for one in subjects) < _MOSTLY * len(subjects):
            continue
        longest = sorted(map(len, subjects))[int(0.95 * (len(subjects) - 1))]
        limit = next((one for one in _LENGTHS if longest <= one), None)
        return f"{name}, up to {limit} characters" if limit is not None else name
    return ""


def _files(folder: Path, unseen: Callable[[str, OSError], None]) -> Iterator[str]:
    """Yield the regular files that may hold source, as paths relative to `folder`."""
    skipped = frozenset(project_data()["skipped"])
    try:
        with safe_files.folder(folder) as descriptor:
            listed = files_known_to_git(descriptor)
            if listed is None:
                found = walk_folder(
                    folder,
                    unseen,
                    _LIMITS,
                    enters=lambda name: name not in skipped,
                    near_first=True,
                )
                yield from (one.path for one in found if one.is_file)
                return
            for name in listed:
                if skipped.isdisjoint(name.split("/")[:-1]) and _is_regular(name, descriptor):
                    yield name
    except OSError:
        return


def _is_regular(name: str, descriptor: int) -> bool:
    try:
        found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode)
