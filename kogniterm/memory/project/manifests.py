"""What the files at the root of a project say: how to build, how to test, what it depends on.

The texts come from the project and are data: only names and commands of a plain shape get out,
and nothing of them is ever run here.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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
