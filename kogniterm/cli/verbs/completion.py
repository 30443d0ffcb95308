"""`kogniterm completion`: a completion script for bash, zsh or fish, from the parsers' tables.

The scripts (`completion_scripts`) hold every verb, action and option, so that a TAB on these
starts no Python. What only the user's files know, such as the ids of sessions, they ask
`kogniterm completion --list KIND` for: lines of a word, a tab, and what it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import get_args

from kogniterm.cli.command_tree import Listed, places
from kogniterm.cli.options import Argument
from kogniterm.cli.verb_table import Subparsers, add_verb
from kogniterm.errors import KognitermError, UsageError
from kogniterm.ui.locale import _, mark

SHELLS = ("bash", "zsh", "fish")
MOST_SESSIONS = 50


LIST = Argument(
    "--list",
    "list what the scripts complete from your files, with what each is",
    choices=get_args(Listed),
)


def add_parser(subparsers: Subparsers) -> None:
    """Add `completion` with the name of the shell."""
    add_verb(
        subparsers,
        "completion",
        [Argument("shell", "the shell that is to read it", nargs="?", choices=SHELLS), LIST],
        description=mark(
            "Print a script that completes KogniTerm's commands and options. For bash put its "
            "output into ~/.local/share/bash-completion/completions/kogniterm, for zsh into a "
            "file _kogniterm in a folder of $fpath, for fish into "
            "~/.config/fish/completions/kogniterm.fish."
        ),
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
    from kogniterm.runtime.services.written_files import WrittenFiles
    from kogniterm.runtime.use_cases.recipe_store import RecipeStore

    paths = stores.paths_in_use()
    store = RecipeStore(paths.recipes, WrittenFiles(paths.written_files))
    for name in store.names():
        yield name, _("recipe")
