"""`kogniterm hosts`: one command or task on many machines."""

from __future__ import annotations

from kogniterm.cli.options import Subparsers, add_actions
from kogniterm.cli.verbs.hosts.hosts_read import DIFF, FACTS
from kogniterm.cli.verbs.hosts.hosts_run import RUN

ACTIONS = (RUN, FACTS, DIFF)


def add_parser(subparsers: Subparsers) -> None:
    """Add `hosts` and its actions."""
    add_actions(subparsers, "hosts", ACTIONS)
