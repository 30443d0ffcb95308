"""Reading and writing the layers of the settings.

Each value is read with the place it was written at, down to the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from kogniterm.errors import SettingsError, StorageError, why
from kogniterm.settings.user_files import read_if_there, read_text, toml_values
from kogniterm.storage.folders import write_private
from kogniterm.types import Phrase

PREFIX = "KOGNITERM_"
"""The beginning of the variables of all settings."""
REMOVED = ("fold_lines", "model_cache_max_age_days", "model_cache_mb", "notify_after")
"""Settings that earlier versions had."""

LayerKind = Literal["flag", "environment", "file", "system", "default"]


class SettingOrigin(NamedTuple):
    """The place where a value was written: a flag, a variable, or a key in a file with its line."""

    kind: LayerKind
    name: str = ""
    file: Path | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.file is not None:
            return f"{self.file}:{self.line}" if self.line else str(self.file)
        return f"{self.kind} {self.name}".strip()

    @property
    def shown(self) -> Phrase | str:
        """The origin inside a sentence for the user."""
        if self.file is not None:
            return str(self)
        return Phrase(_PLACES[self.kind].template, {"name": self.name})


_VARIABLE = Phrase("the variable {name}")
_PLACES: Mapping[LayerKind, Phrase] = {
    "flag": Phrase("the option {name}"),
    "environment": _VARIABLE,
    "system": _VARIABLE,
    "default": Phrase("the default"),
}

DEFAULT = SettingOrigin("default")


class Value(NamedTuple):
    """A value as written, before it is checked."""

    raw: object
    origin: SettingOrigin


def read_toml(path: Path) -> dict[str, Value]:
    """Return the keys of a TOML file with their lines. Raises `SettingsError` for bad syntax."""
    text = read_if_there(path)
    if text is None:
        return {}
    found = toml_values(path, text)
    return {
        key: Value(raw, SettingOrigin("file", key, path, found.line((key,))))
        for key, raw in found.data.items()
    }


def read_env_file(path: Path, *, must_exist: bool = False) -> dict[str, Value]:
    """Return the names of a dotenv file with their lines. Values are literal: nothing is expanded.

    Raises `SettingsError` for a line that is not `NAME=value`.
    """
    from io import StringIO

    from dotenv.parser import parse_stream

    values: dict[str, Value] = {}
    text = read_text(path) if must_exist else read_if_there(path) or ""
    for binding in parse_stream(StringIO(text)):
        line = binding.original.line + binding.original.string[
            : len(binding.original.string) - len(binding.original.string.lstrip())
        ].count("\n")
        if binding.error or (binding.key is not None and binding.value is None):
            raise SettingsError("{file}, line {line}: expected NAME=value.", file=path, line=line)
        if binding.key is not None:
            values[binding.key] = Value(
                binding.value, SettingOrigin("file", binding.key, path, line)
            )
    return values


def read_variables(environ: Mapping[str, str]) -> dict[str, Value]:
    return {name: Value(raw, SettingOrigin("environment", name)) for name, raw in environ.items()}


def by_field(
    values: Mapping[str, Value], fields: Mapping[str, tuple[str, ...]]
) -> dict[str, Value]:
    """Return the value of each of `fields`: its first variable that is set and not empty."""
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
        if (gone := name.removeprefix(PREFIX).lower()) in REMOVED:
            at = value.origin.shown
            raise SettingsError("The setting {name} ({where}) was removed; delete it.",
                                name=gone, where=at)  # fmt: skip
        origin, near = value.origin, _nearest(name, candidates)
        where = {"file": origin.file, "line": origin.line or 1, "name": name, "near": near}
        if origin.file is None and near:
            raise SettingsError(
                "The environment variable {name} is not a setting; did you mean {near}?", **where
            )
        if origin.file is None:
            raise SettingsError(
                "The environment variable {name} is not a setting; "
                "`kogniterm config show` lists the settings.",
                **where,
            )
        if near:
            raise SettingsError(
                "{file}, line {line}: unknown setting {name}; did you mean {near}?", **where
            )
        raise SettingsError(
            "{file}, line {line}: unknown setting {name}; `kogniterm config "
            "show` lists the settings.",
            **where,
        )


def _nearest(name: str, candidates: tuple[str, ...]) -> str | None:
    """Return the candidate most like `name`, compared without the prefix that all share."""
    from kogniterm.text.spelling import closest_word

    like_name = sorted(candidates, key=lambda c: c.startswith(PREFIX) == name.startswith(PREFIX))
    bare = {candidate.removeprefix(PREFIX): candidate for candidate in like_name}
    near = closest_word(name.removeprefix(PREFIX), bare)
    return bare[near] if near else None


def save_setting(file: Path, name: str, value: str | bool | int | float) -> None:
    """Set `name` to `value` in `file`, in place or as a new line; comments and order stay.

    The file is replaced whole, so a crash leaves the old one or the new one. A link is followed,
    because users keep such files elsewhere. Raises `SettingsError` when the file is not valid TOML
    or sets `name` in a way that cannot be changed line by line, and `StorageError` when it cannot
    be written.
    """
    text = read_if_there(file) or ""
    changed = _with_setting(text, name, _literal(value))
    if toml_values(file, changed).data.get(name) != value:
        raise SettingsError(
            "{name} cannot be changed automatically in {file}; edit the file.", file=file, name=name
        )
    real = file.resolve()
    mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
    _replace(file, changed, mode)


def save_variable(file: Path, names: Sequence[str], name: str, value: str) -> None:
    """Set `name` in the dotenv `file`, which only the user can read afterwards.

    It takes the place of the first of `names`, the variables of the same setting; other lines stay.
    Raises as `save_setting` does.
    """
    if not _PLAIN.fullmatch(value):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        value = f"'{escaped}'"
    _replace(file, _with_variable(file, names, f"{name}={value}\n")[0], 0o600)


def remove_variables(file: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Remove the variables `names` from the dotenv `file`; return those that were there.

    Raises as `save_setting` does.
    """
    changed, found = _with_variable(file, names, "")
    if found:
        _replace(file, changed, 0o600)
    return found


_PLAIN = re.compile(r"[\w.:/@%+=,\[\]-]+", re.ASCII)


def _with_variable(file: Path, names: Sequence[str], line: str) -> tuple[str, tuple[str, ...]]:
    """Return the text with `line` instead of the variables `names`, and those that it had."""
    before = read_if_there(file)
    if before is None:
        return line, ()
    read_env_file(file)  # which reports a line that is no variable
    from io import StringIO

    from dotenv.parser import parse_stream

    kept: list[str] = []
    found: list[str] = []
    for binding in parse_stream(StringIO(before)):
        original = binding.original.string
        if binding.key not in names or binding.key is None:
            kept.append(original)
            continue
        blank = original[: len(original) - len(original.lstrip())]
        kept.append(blank + ("" if found else line))
        found.append(binding.key)
    text = "".join(kept)
    if not found:
        text += "" if text.endswith("\n") or not text or not line else "\n"
        text += line
    return text, tuple(found)


def _replace(file: Path, text: str, mode: int) -> None:
    try:
        write_private(file, text.encode("utf-8"), mode=mode, durable=True)
    except OSError as error:
        raise StorageError("{file} cannot be written: {why}.", file=file, why=why(error)) from error


def _with_setting(text: str, name: str, literal: str) -> str:
    line = f"{name} = {literal}"
    present = re.compile(rf"^[ \t]*{re.escape(name)}[ \t]*=[^\n#]*?([ \t]*#[^\n]*)?$", re.MULTILINE)
    table = re.search(r"^[ \t]*\[", text, re.MULTILINE)
    top = text[: table.start()] if table else text
    rest = text[len(top) :]
    if present.search(top):
        return present.sub(lambda match: line + (match[1] or ""), top, count=1) + rest
    if top and not top.endswith("\n"):
        top += "\n"
    return f"{top}{line}\n{rest}"


def _literal(value: str | bool | int | float) -> str:
    """Return `value` in TOML, whose basic strings are JSON strings except for DEL."""
    import json

    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)
