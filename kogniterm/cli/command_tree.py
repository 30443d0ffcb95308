"""Where the words of the command line lead, as a table made from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from kogniterm.cli import verb_table

Listed = Literal["sessions", "models", "recipes"]
"""What is listed for the scripts."""
Kind = Literal["", "file", "folder", "sessions", "models", "recipes"]
"""What a value or a word that may be anything is the name of."""

_KINDS: Mapping[str, Kind] = {
    "cwd": "folder",
    "project": "folder",
    "folder": "folder",
    "env_file": "file",
    "to": "file",
    "file": "file",
    "source": "file",
    "target": "file",
    "task": "file",
    "session": "sessions",
    "sessions": "sessions",
    "resume": "sessions",
    "model": "models",
    "plan": "file",
}
"""By the name under which the parser keeps it."""


@dataclass(frozen=True, slots=True)
class Flag:
    """An option: its names, one line of help, whether it takes a value, and which it may be: one
    of `values`, or something of a `kind`."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...] = ()
    kind: Kind = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A verb or action: the words that may follow (with help), its options, and what any other
    word is the name of. `path` is made of the words that lead here: `/memory/add`."""

    path: str
    words: Mapping[str, str]
    flags: tuple[Flag, ...]
    kind: Kind = ""


def places() -> Iterator[Place]:
    """Everywhere a word of the command line can lead, the root first."""
    from kogniterm.cli.main import build_parser

    yield _place("", build_parser())
    for verb in verb_table.VERBS:
        yield from _below(f"/{verb.name}", _children(build_parser(verb))[verb.name])


def _below(path: str, parser: argparse.ArgumentParser) -> Iterator[Place]:
    yield _place(path, parser)
    for name, child in _children(parser).items():
        yield from _below(f"{path}/{name}", child)


def _place(path: str, parser: argparse.ArgumentParser) -> Place:
    words: dict[str, str] = {}
    flags = []
    kind: Kind = ""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words |= {one.dest: one.help or "" for one in action._choices_actions}
        elif action.option_strings:
            values = tuple(map(str, action.choices or ())) or _setting_values(action.dest)
            names = tuple(action.option_strings)
            help_ = " ".join((action.help or "").split())
            if action.nargs == 0:
                flags.append(Flag(names, help_, False))
            else:
                flags.append(Flag(names, help_, True, values, _kind(path, action)))
        elif action.choices:
            words |= {str(choice): action.help or "" for choice in action.choices}
        else:
            kind = kind or _kind(path, action)
    return Place(path, words, tuple(flags), kind)


def _setting_values(dest: str) -> tuple[str, ...]:
    """The values of the setting behind an option, where they are few."""
    from kogniterm.cli.options import GENERAL, SESSION
    from kogniterm.settings.schema import Settings

    names = {option.dest: option.field for option in (*GENERAL, *SESSION)}
    field = Settings.model_fields.get(names.get(dest, ""))
    values = get_args(field.annotation) if field is not None else ()
    return values if all(isinstance(value, str) for value in values) else ()


def _kind(path: str, action: argparse.Action) -> Kind:
    """What a free value of `action` is the name of."""
    if path in ("/recipe/show", "/recipe/run") and action.dest == "name":
        return "recipes"
    return _KINDS.get(action.dest, "")


def _children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
