"""`kogniterm completion`: print a completion script, or names of what only the user's files know.

The scripts are files beside this package, written by `make docs` from the parsers' tables. They ask
for the lists.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from kogniterm.cli.options import CallOptions, Example, Subparsers, add_verb
from kogniterm.errors import KognitermError, UsageError
from kogniterm.installed import part, rows
from kogniterm.runtime.operations.action import Argument
from kogniterm.ui.locale import mark

SCRIPTS = {"bash": "kogniterm.bash", "zsh": "_kogniterm", "fish": "kogniterm.fish"}
"""Shells, each with the name of its script."""
_FOLDER = Path(__file__).resolve().parents[1] / "completion"
MOST_SESSIONS = 50


LIST = Argument(
    "--list",
    "List names for the scripts",
    "KIND",
    "listed",
    choices=("sessions", "models", *(name for name, _module in rows("NAMES"))),
)


def add_parser(subparsers: Subparsers) -> None:
    """Add `completion` with the name of the shell."""
    add_verb(
        subparsers,
        "completion",
        [
            Argument(
                "shell", "Shell: bash, zsh or fish", "SHELL", nargs="?", choices=tuple(SCRIPTS)
            ),
            LIST,
        ],
        description=mark(
            "Print a script that completes the commands and options of KogniTerm. Save it as "
            "~/.local/share/bash-completion/completions/kogniterm (bash), as _kogniterm in a "
            "folder of $fpath (zsh), or as ~/.config/fish/completions/kogniterm.fish (fish)."
        ),
        examples=(
            Example("kogniterm completion fish > ~/.config/fish/completions/kogniterm.fish"),
        ),
    )


def run(call: CallOptions, shell: str | None, listed: str | None) -> int:
    """Print the script, or a list for it; returns the exit status."""
    if listed is not None:
        _write_list(call, listed)
        return 0
    if shell is None:
        raise UsageError("Name the shell: {shells}.", shells=", ".join(SCRIPTS))
    sys.stdout.write((_FOLDER / SCRIPTS[shell]).read_text(encoding="utf-8"))
    return 0


def _write_list(call: CallOptions, kind: str) -> None:
    """Write lines for a shell in the middle of a line; failures are left out there."""
    own = {"sessions": _sessions, "models": _models}
    lister = own[kind] if kind in own else part("NAMES", kind)
    try:
        for word, what in lister(call):
            line = "".join(c if c.isprintable() else " " for c in what)
            sys.stdout.write(f"{word}\t{line}\n")
    except KognitermError:
        return


def _sessions(call: CallOptions) -> Iterator[tuple[str, str]]:
    from kogniterm.cli.verb_helpers import location_of, open_sessions_at

    location = location_of(call)
    if not isinstance(location, str) and not location.exists():
        return
    with open_sessions_at(location) as sessions:
        for info in sessions.sessions(used=True, limit=MOST_SESSIONS):
            yield info.id, info.title or info.folder


def _models(call: CallOptions) -> Iterator[tuple[str, str]]:
    from kogniterm.models.catalog import PROVIDERS

    for provider in PROVIDERS:
        yield f"{provider.name}:{provider.default_model}".rstrip(":"), provider.name
