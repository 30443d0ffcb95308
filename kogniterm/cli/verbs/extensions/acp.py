"""`kogniterm acp`: be an agent for an editor that speaks the Agent Client Protocol."""

from __future__ import annotations

import argparse
import asyncio
import sys

from kogniterm.cli.options import (
    Argument,
    Example,
    Subparsers,
    add_verb,
    session_wanted,
    settings_of,
)
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import EXIT_DONE, UsageError
from kogniterm.ui.locale import mark, translate

LOGIN = "login"


def add_parser(subparsers: Subparsers) -> None:
    """Add `acp` with its options."""
    add_verb(
        subparsers,
        "acp",
        [Argument("action", "login: set up a model, as editors do for you", LOGIN, nargs="?")],
        description=mark(
            "Be an agent for an editor, such as Zed: the editor starts this command and speaks "
            "the Agent Client Protocol on its standard input and output."
        ),
        examples=(Example("kogniterm acp"), Example("kogniterm acp --model local")),
        session_options=True,
    )


def run(args: argparse.Namespace) -> int:
    """Serve until the editor leaves; returns the exit status."""
    if args.action == LOGIN:
        from kogniterm.cli import login

        return login.run(argparse.Namespace(**{**vars(args), "provider": None, "no_test": False}))
    if args.action is not None:
        raise UsageError("kogniterm acp takes: login.")
    if sys.stdin.isatty():
        raise UsageError(
            "kogniterm acp is started by an editor, which speaks ACP on its standard input; add "
            "it to that editor's agents."
        )
    if session_wanted(args) is not None:
        raise UsageError("kogniterm acp opens the sessions that the editor asks for.")
    settings_of(args)  # a mistake in the settings is told now, not in the editor
    return _serve(args)


def _serve(args: argparse.Namespace) -> int:
    from kogniterm.acp.agent_server import serve
    from kogniterm.acp.session_updates import FrontWords
    from kogniterm.cli.run import stop_on_signals
    from kogniterm.ui.words.tool_words import tool_label, tool_words
    from kogniterm.ui.words.turn_words import end_reason, left_texts

    def tool_title(name: str, arguments: str) -> str:
        return f"{tool_label(name)} {tool_words(name, arguments)}".rstrip()

    words = FrontWords(translate, tool_title, end_reason, left_texts)
    received: list[int] = []

    async def until_stopped() -> None:
        serving = asyncio.ensure_future(serve(lambda: settings_of(args), paths_in_use(), words))
        with stop_on_signals(serving, received):
            await asyncio.wait({serving})
        if not serving.cancelled():
            serving.result()

    asyncio.run(until_stopped())
    return 128 + received[0] if received else EXIT_DONE
