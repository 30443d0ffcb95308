"""Reading the layers: each value with the place it was written, down to the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kogniterm.errors import SettingsError, why

PREFIX = "KOGNITERM_"
"""The beginning of the variables of all settings."""

LayerKind = Literal["flag", "environment", "file", "system", "default"]


@dataclass(frozen=True, slots=True)
class SettingOrigin:
    """Where a value was written: a flag, a variable, or a key in a file with its line."""

    kind: LayerKind
    name: str = ""
    file: Path | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.file is not None:
            return f"{self.file}:{self.line}" if self.line else str(self.file)
        return f"{self.kind} {self.name}".strip()


DEFAULT = SettingOrigin("default")


@dataclass(frozen=True, slots=True)
class Value:
    """A value as written, before it is checked."""

    raw: object
    origin: SettingOrigin


def read_text(path: Path) -> str:
    """The text of a settings file. Raises `SettingsError` when it cannot be read as UTF-8."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SettingsError("{file} cannot be read: {why}.", file=path, why=why(error)) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(
            "{file}, line {line}: the file is not UTF-8 text.", file=path, line=line
        ) from error


def is_there(path: Path) -> bool:
    """Whether there is such a file. Raises `SettingsError` where that may not be known."""
    try:
        return path.exists()
    except OSError as error:
        raise SettingsError("{file} cannot be read: {why}.", file=path, why=why(error)) from error


def read_toml(path: Path) -> dict[str, Value]:
    """Keys of a TOML file with their lines. Raises `SettingsError` for bad syntax."""
    import tomllib

    text = read_text(path)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why, line = _split_toml_error(str(error), text)
        raise SettingsError("{file}, line {line}: {why}.", file=path, line=line, why=why) from error
    lines = _key_lines(text)
    return {
        key: Value(raw, SettingOrigin("file", key, path, lines.get(key)))
        for key, raw in table.items()
    }


def _split_toml_error(message: str, text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", message)
    if match is None:
        return message, 1
    return match[1], int(match[2]) if match[2] else text.count("\n") + 1


def _key_lines(text: str) -> dict[str, int]:
    """Line of each top-level key or table; multi-line strings may fool it, at no harm."""
    lines: dict[str, int] = {}
    pattern = re.compile(r"""\s*\[{0,2}\s*["']?([\w-]+)["']?\s*(?:[=.\]])""")
    for number, line in enumerate(text.splitlines(), start=1):
        match = pattern.match(line)
        if match:
            lines.setdefault(match[1], number)
    return lines


def read_env_file(path: Path) -> dict[str, Value]:
    """Names of a dotenv file with their lines; values are taken literally, nothing is expanded.

    Raises `SettingsError` for a line that is not `NAME=value`.
    """
    from io import StringIO

    from dotenv.parser import parse_stream

    values: dict[str, Value] = {}
    for binding in parse_stream(StringIO(read_text(path))):
        line = binding.original.line + _blank_lines(binding.original.string)
        if binding.error or (binding.key is not None and binding.value is None):
            raise SettingsError(
                "{file}, line {line}: this is not of the form NAME=value.", file=path, line=line
            )
        if binding.key is not None:
            values[binding.key] = Value(
                binding.value, SettingOrigin("file", binding.key, path, line)
            )
    return values


def _blank_lines(text: str) -> int:
    """Line breaks before the first character that shows: the parser counts them in."""
    return text[: len(text) - len(text.lstrip())].count("\n")


def read_variables(environ: Mapping[str, str]) -> dict[str, Value]:
    """The environment as values."""
    return {name: Value(raw, SettingOrigin("environment", name)) for name, raw in environ.items()}


def by_field(
    values: Mapping[str, Value], fields: Mapping[str, tuple[str, ...]]
) -> dict[str, Value]:
    """Values of `fields` from variable names, the first name that is set (not empty) winning."""
    found: dict[str, Value] = {}
    for field, names in fields.items():
        for name in names:
            if name in values and values[name].raw != "":
                found[field] = values[name]
                break
    return found


def reject_unknown(
    values: Mapping[str, Value],
    known: Callable[[str], bool],
    candidates: tuple[str, ...],
) -> None:
    """Raise `SettingsError` for the first name that is not `known`, with the nearest candidate."""
    for name, value in values.items():
        if known(name):
            continue
        near = _nearest(name, candidates)
        where = {"file": value.origin.file, "line": value.origin.line or 1, "name": name}
        if value.origin.file is None:
            if near:
                raise SettingsError(
                    "The environment variable {name} is not a setting; did you mean {near}?",
                    name=name,
                    near=near,
                )
            raise SettingsError(
                "The environment variable {name} is not a setting; "
                "`kogniterm config show` lists them.",
                name=name,
            )
        if near:
            raise SettingsError(
                "{file}, line {line}: there is no setting {name}; did you mean {near}?",
                near=near,
                **where,
            )
        raise SettingsError(
            "{file}, line {line}: there is no setting {name}; `kogniterm config show` lists them.",
            **where,
        )


def _nearest(name: str, candidates: tuple[str, ...]) -> str | None:
    """The candidate most like `name`. The prefix that all share says nothing about likeness."""
    from difflib import get_close_matches

    like_name = sorted(candidates, key=lambda c: c.startswith(PREFIX) == name.startswith(PREFIX))
    bare = {candidate.removeprefix(PREFIX): candidate for candidate in like_name}
    near = get_close_matches(name.removeprefix(PREFIX), list(bare), n=1, cutoff=0.6)
    return bare[near[0]] if near else None
