"""`kogniterm acp`: be an agent for an editor that speaks the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec

from kogniterm.cli.options import CallOptions, Example, Subparsers, add_verb
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import EXIT_DONE, UsageError
from kogniterm.host.installation import install_command
from kogniterm.runtime.operations.action import Argument
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


def run(call: CallOptions, action: str | None) -> int:
    """Serve until the editor leaves; returns the exit status."""
    if action == LOGIN:
        from kogniterm.cli import login

        return login.run(call, provider=None, no_test=False)
    if action is not None:
        raise UsageError("kogniterm acp takes: login.")
    if find_spec("acp") is None:
        raise UsageError(
            "{title} needs the package {package}, which is not installed. Run `{command}`.",
            title="kogniterm acp",
            package="agent-client-protocol",
            command=install_command("agent-client-protocol"),
        )
    if sys.stdin.isatty():
        raise UsageError(
            "kogniterm acp is started by an editor, which speaks ACP on its standard input; add "
            "it to that editor's agents."
        )
    if call.resume is not None:
        raise UsageError("kogniterm acp opens the sessions that the editor asks for.")
    call.load_settings()  # a mistake in the settings is told now, not in the editor
    return _serve(call)


def _serve(call: CallOptions) -> int:
    from kogniterm.addons.acp.agent_server import serve
    from kogniterm.addons.acp.session_updates import FrontWords
    from kogniterm.cli.run import stop_on_signals
    from kogniterm.ui.words.turn_words import end_reason, left_texts, tool_label, tool_words

    def tool_title(name: str, arguments: str) -> str:
        return f"{tool_label(name)} {tool_words(name, arguments)}".rstrip()

    words = FrontWords(translate, tool_title, end_reason, left_texts)
    received: list[int] = []

    async def until_stopped() -> None:
        serving = asyncio.ensure_future(serve(call.load_settings, paths_in_use(), words))
        with stop_on_signals(serving, received):
            await asyncio.wait({serving})
        if not serving.cancelled():
            serving.result()

    asyncio.run(until_stopped())
    return 128 + received[0] if received else EXIT_DONE
