"""Manifests and settings of tools, read for a project's commands, conventions and dependencies.

Only names, numbers and commands of a plain shape are taken; broken and hostile files say nothing.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm.errors import SettingsError
from kogniterm.host import safe_files
from kogniterm.settings.user_files import json_values, toml_values

if TYPE_CHECKING:
    from configparser import ConfigParser

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
