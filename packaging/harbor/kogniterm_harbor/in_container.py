"""Run one task in the container of a benchmark: `python -m kogniterm_harbor.in_container FILE`.

The container is the sandbox: it exists for this task alone, and nobody sits in front of it. So the
harness takes the place of the user (`kogniterm.open_agent`) and approves what policy would ask a
user about; the journal and the trajectory say so of each action. Hard limits and deny rules hold.

Standard output is that of `kogniterm run --output stream-json`, and so is the exit status, with one
more: 70 (EX_SOFTWARE of sysexits.h) if KogniTerm itself failed, which says nothing about the task.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import traceback
from pathlib import Path

FAILED = 70
"""Exit status where KogniTerm failed and not the task."""
ENDS_OF_TASKS = frozenset({2, 3, 4, 5, 130})
"""Exit statuses of errors that docs/cli.md gives a meaning of their own."""


def main(arguments: list[str]) -> int:
    """Do the task in the file that `arguments` name and return the exit status."""
    from kogniterm.host.stand_ins import keep_out

    keep_out()
    from kogniterm.cli.json_output import StreamJsonSink, failure
    from kogniterm.errors import KognitermError
    from kogniterm.text.redact import redact

    sink = StreamJsonSink(sys.stdout, redact)
    try:
        (name,) = arguments
        return asyncio.run(_do(Path(name).read_text("utf-8"), sink))
    except KognitermError as error:
        sink.finish(failure(error))
        sys.stderr.write(f"kogniterm: {error}\n")
        return error.exit_code if error.exit_code in ENDS_OF_TASKS else FAILED
    except Exception as error:  # noqa: BLE001  # the result has to say that KogniTerm failed
        sink.finish(failure(error))
        sys.stderr.write(redact(traceback.format_exc()))
        return FAILED


async def _do(task: str, sink: object) -> int:
    import kogniterm
    from kogniterm.cli.json_output import StreamJsonSink

    assert isinstance(sink, StreamJsonSink)
    agent = kogniterm.open_agent(
        Path.cwd(),
        approve=lambda request, report: True,
        on_event=sink,
        approval_mode="manual",
        allow_reads=True,
        sandbox="off",
        memory="off",
        hooks=False,
    )
    async with agent:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, agent.stop)
        answer = await agent.run(task)
    sink.finish(answer)
    if answer.reason is not None:
        sys.stderr.write(f"kogniterm: {answer.reason}\n")
    return answer.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
