"""Writing one setting into the person's `config.toml`, and leaving everything else as it is."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import tomllib
from pathlib import Path

from kogniterm.errors import SettingsError, StorageError, why
from kogniterm.settings.layers import read_text
from kogniterm.storage.folders import private_folder


def save_setting(file: Path, name: str, value: str | bool | int | float) -> None:
    """Set `name` to `value` in `file`, in place or as a new line; comments and order stay.

    The file is replaced whole, so a crash leaves the old one or the new one. A link is followed:
    people keep such files elsewhere. Raises `SettingsError` when the file is not valid TOML now,
    or sets `name` in a way that cannot be changed line by line; `StorageError` when it cannot
    be written.
    """
    text = read_text(file) if file.exists() else ""
    changed = _with_setting(text, name, _literal(value))
    if _parsed(file, changed).get(name) != value:
        raise SettingsError(
            "{file} sets {name} in its own way; change it there.", file=file, name=name
        )
    try:
        _replace(file.resolve(), changed)
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


def _parsed(file: Path, text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            "{file} is not valid TOML, so nothing was saved: {why}.", file=file, why=error
        ) from error


def _literal(value: str | bool | int | float) -> str:
    """`value` in TOML; its basic strings are JSON strings, but for DEL."""
    import json

    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)


def _replace(file: Path, text: str) -> None:
    private_folder(file.parent)
    descriptor, name = tempfile.mkstemp(prefix=file.name, dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if file.exists():
            Path(name).chmod(file.stat().st_mode & 0o777)
        Path(name).replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
