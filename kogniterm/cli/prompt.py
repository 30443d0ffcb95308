"""`kogniterm` without a verb: hand over to the prompt, if there is a terminal to show it on."""

from __future__ import annotations

import argparse
import sys

from kogniterm.errors import UsageError


def run(args: argparse.Namespace) -> int:
    """Open the prompt; returns the exit status."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError('The prompt needs a terminal; to do one task without: kogniterm run "…".')
    from kogniterm.ui import repl

    return repl.run(args)
