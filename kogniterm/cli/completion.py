"""`kogniterm completion`: a completion script for bash, zsh or fish, from the parsers' tables.

The scripts (`completion_scripts`) hold every verb, action and option, so that a TAB on these
starts no Python. What only the person's files know, such as the ids of sessions, they ask
`kogniterm completion --list KIND` for: lines of a word, a tab, and what it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from kogniterm.cli import verbs
from kogniterm.errors import KognitermError, UsageError
from kogniterm.ui.locale import _

SHELLS = ("bash", "zsh", "fish")
MOST_SESSIONS = 50

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


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `completion` with the name of the shell."""
    parser = subparsers.add_parser(
        "completion",
        help=_("print a completion script for a shell"),
        description=_(
            "Print a script that completes KogniTerm's commands and options. For bash put its "
            "output into ~/.local/share/bash-completion/completions/kogniterm, for zsh into a "
            "file _kogniterm in a folder of $fpath, for fish into "
            "~/.config/fish/completions/kogniterm.fish."
        ),
    )
    parser.add_argument("shell", nargs="?", choices=SHELLS, help=_("the shell that is to read it"))
    parser.add_argument(
        "--list",
        choices=get_args(Listed),
        help=_("list what the scripts complete from your files, with what each is"),
    )


def run(args: argparse.Namespace) -> int:
    """Print the script, or a list for it; returns the exit status."""
    from kogniterm.cli import completion_scripts

    if args.list is not None:
        _write_list(args, args.list)
        return 0
    if args.shell is None:
        raise UsageError("Say for which shell: {shells}.", shells=", ".join(SHELLS))
    sys.stdout.write(completion_scripts.SCRIPTS[args.shell](list(places())))
    return 0


def _write_list(args: argparse.Namespace, kind: Listed) -> None:
    """Lines for a shell in the middle of a line: what goes wrong there is no news."""
    listers: Mapping[Listed, Callable[[argparse.Namespace], Iterator[tuple[str, str]]]] = {
        "sessions": _sessions,
        "models": _models,
        "recipes": _recipes,
    }
    try:
        for word, what in listers[kind](args):
            line = "".join(c if c.isprintable() else " " for c in what)
            sys.stdout.write(f"{word}\t{line}\n")
    except KognitermError:
        return


def _sessions(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    from kogniterm.cli import stores

    location = stores.location_of(args)
    if not isinstance(location, str) and not location.exists():
        return
    with stores.opened(location) as sessions:
        for info in sessions.sessions(limit=MOST_SESSIONS):
            yield info.id, info.title or info.folder


def _models(_args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    from kogniterm.models.catalog import PROVIDERS

    for provider in PROVIDERS:
        yield f"{provider.name}:{provider.default_model}".rstrip(":"), provider.name


def _recipes(_args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    from kogniterm.cli import stores
    from kogniterm.runtime.recipe_store import RecipeStore

    store = RecipeStore(stores.paths_in_use().config / "recipes")
    for name in store.names():
        yield name, _("recipe")


def places() -> Iterator[Place]:
    """Everywhere a word of the command line can lead, the root first."""
    from kogniterm.cli.main import build_parser

    yield _place("", build_parser())
    for verb in verbs.VERBS:
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
