"""`kogniterm mcp serve`: an action of the verb `mcp`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from kogniterm.cli.options import CallOptions
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import EXIT_DONE, UsageError
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.ui.locale import translate


def _serve(call: CallOptions, folder: list[str] | None) -> Report:
    from kogniterm.addons.mcp_serve.served_tasks import serve
    from kogniterm.cli.run import stop_on_signals
    from kogniterm.host.safe_files import resolve_path
    from kogniterm.runtime.build import open_session

    if sys.stdin.isatty():
        raise UsageError(
            "kogniterm mcp serve is started by another agent, which speaks MCP on its standard "
            "input; add it to that agent's MCP servers."
        )
    if call.resume is not None:
        raise UsageError("kogniterm mcp serve opens a new session for each task.")
    given = [call._replace(cwd=name) for name in folder] if folder else [call]
    roots = [resolve_path(Path(one.folder())) for one in given]
    settings = call.load_settings()
    received: list[int] = []

    async def until_stopped() -> None:
        served = serve(settings, paths_in_use(), roots, translate, open_session)
        serving = asyncio.ensure_future(served)
        with stop_on_signals(serving, received):
            await asyncio.wait({serving})
        if not serving.cancelled():
            serving.result()

    asyncio.run(until_stopped())
    return Report(printed=True, status=128 + received[0] if received else EXIT_DONE)


SERVE = Action(
    "serve",
    "Be an MCP server for another agent, on standard input and output",
    _serve,
    (
        Argument(
            "--folder",
            "Folders that tasks may work in, instead of the current one",
            "FOLDER",
            nargs="+",
        ),
    ),
    ("kogniterm mcp serve --folder ~/project",),
    session_options=True,
)
