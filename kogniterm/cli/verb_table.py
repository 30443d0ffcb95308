"""The verbs of the command line, and the parts a verb is made of: actions and their arguments.

The table feeds dispatch, help, completion and docs. A verb's module offers
`add_parser(subparsers)` and `run(args) -> int` and is imported only when its verb is asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kogniterm.cli.options import SESSION, Argument, add_options
from kogniterm.ui.locale import _

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


@dataclass(frozen=True, slots=True)
class Verb:
    """A word after `kogniterm`, the module behind it, and one line of help."""

    name: str
    module: str
    help: str


VERBS: tuple[Verb, ...] = (
    Verb("run", "kogniterm.cli.run", "do one task and exit"),
    Verb("resume", "kogniterm.cli.verbs.resume", "go on with a session"),
    Verb("sessions", "kogniterm.cli.verbs.sessions", "find, read, copy and delete sessions"),
    Verb("replay", "kogniterm.cli.verbs.replay", "run a session again from its record"),
    Verb("memory", "kogniterm.cli.verbs.memory", "see, correct and forget what is remembered"),
    Verb("recipe", "kogniterm.cli.verbs.recipe", "keep, show and run recipes"),
    Verb("models", "kogniterm.cli.verbs.models", "fetch or remove the embedded local model"),
    Verb("policy", "kogniterm.cli.verbs.policy", "explain and try out the approval rules"),
    Verb("trust", "kogniterm.cli.verbs.trust", "let a project folder's files have an effect"),
    Verb("audit", "kogniterm.cli.verbs.audit", "prove and read what was decided and run"),
    Verb("storage", "kogniterm.cli.verbs.storage", "check, update and copy the database"),
    Verb("config", "kogniterm.cli.verbs.config", "show the settings and where each came from"),
    Verb("doctor", "kogniterm.cli.verbs.doctor", "check what is configured, reachable and missing"),
    Verb("completion", "kogniterm.cli.verbs.completion", "print a completion script for a shell"),
)


def find(name: str) -> Verb | None:
    """The verb called `name`."""
    return next((verb for verb in VERBS if verb.name == name), None)


@dataclass(frozen=True, slots=True)
class Action:
    """A word after a verb: its help, what does it, its arguments."""

    name: str
    help: str
    run: Callable[..., Any]
    arguments: tuple[Argument, ...] = ()
    session_options: bool = False


JSON = Argument("--json", "as JSON")
YES = Argument("--yes", "do not ask")
TO_FILE = Argument("--to", "instead of standard output", "FILE")


def limit(default: int) -> Argument:
    """Return the option that bounds how much is listed."""
    return Argument("--limit", "at most N", "N", type=count, default=default)


def count(text: str) -> int:
    """Read a number from 1 on; argparse tells what is wrong with another text."""
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(
            _("a number from 1 on is needed, not {text}").format(text=text)
        )
    return int(text)


def add_verb(
    subparsers: Subparsers,
    name: str,
    arguments: Sequence[Argument] = (),
    *,
    description: str | None = None,
    epilog: str | None = None,
    session_options: bool = False,
) -> argparse.ArgumentParser:
    """Add a verb of the table with its own arguments."""
    known = find(name)
    assert known is not None
    parser = subparsers.add_parser(
        name,
        help=_(known.help),
        description=_(description) if description else None,
        epilog=_(epilog) if epilog else None,
    )
    _add(parser, arguments, session_options)
    return parser


def add_actions(
    subparsers: Subparsers, name: str, actions: Sequence[Action], *common: Argument
) -> None:
    """Add a verb made of actions, each with the `common` arguments behind its own.

    The parsed namespace has the action's name as `action` and its function as `perform`.
    """
    parser = add_verb(subparsers, name)
    added = parser.add_subparsers(dest="action", metavar=_("ACTION"), required=True)
    for action in actions:
        inner = added.add_parser(action.name, help=_(action.help))
        _add(inner, (*action.arguments, *common), action.session_options)
        inner.set_defaults(perform=action.run)


def _add(
    parser: argparse.ArgumentParser, arguments: Sequence[Argument], session_options: bool
) -> None:
    for argument in arguments:
        argument.add_to(parser)
    if session_options:
        add_options(parser.add_argument_group(_("session options")), SESSION)
