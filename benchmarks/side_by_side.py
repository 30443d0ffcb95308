"""Compare commands of one response one after the other with the same side by side.

    python -m benchmarks.side_by_side [--commands 4] [--rounds 3]

Both ways alternate in one process, each a whole turn of a scripted model, with journal and
terminals. Printed are ratios of the time from the first start to the last end: for commands that
wait, that read (each a file of its own), and that do nothing at all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from kogniterm import settings
from kogniterm.approval import Unattended
from kogniterm.runtime.build import open_session
from kogniterm.types import UserInput, events

FILE_BYTES = 100_000_000
RULE = '[[rule]]\ndecision = "allow"\nprogram = "sleep"\nside_by_side = true\n'
"""Waiting may be what a command is for, so only a rule lets it run beside others."""


def turn(folder: Path, commands: list[str], at_once: int) -> float:
    """Run one turn that asks for all `commands`; return the seconds that they took together."""
    calls = [{"tool": "execute_command", "arguments": {"command": one}} for one in commands]
    script = folder / "script.json"
    script.write_text(json.dumps({"replies": [{"calls": calls}, {"text": "done"}]}))
    marks: list[float] = []

    def sink(event: object) -> None:
        if isinstance(event, events.CommandStarted | events.CommandEnded):
            marks.append(time.perf_counter())

    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    for name in ("CONFIG", "DATA", "CACHE"):
        environ[f"KOGNITERM_{name}_DIR"] = str(folder / name.lower())
    flags = {"model": f"scripted:{script}", "approval_mode": "auto", "sandbox": "off",
             "parallel_commands": at_once, "memory": "off"}  # fmt: skip
    session = open_session(
        settings.load(flags, environ=environ), folder=str(folder / "work"), environ=environ
    )
    try:
        given = UserInput("go")
        answer = asyncio.run(session.run(given, approver=Unattended(), sink=sink))
        assert answer.exit_code == 0, answer
    finally:
        session.close()
    return marks[-1] - marks[0]


def compare(name: str, folder: Path, commands: list[str], rounds: int) -> None:
    """Print the ratio of the two ways."""
    apart, together = [], []
    for _ in range(rounds):
        apart.append(turn(folder, commands, 1))
        together.append(turn(folder, commands, len(commands)))
    one, other = statistics.median(apart), statistics.median(together)
    print(
        f"{name}: {len(commands)} commands one after the other {one * 1000:.0f} ms, "
        f"side by side {other * 1000:.0f} ms; ratio {one / other:.2f}"
    )


def main() -> int:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    numbers = range(options.commands)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "work").mkdir()
        (folder / "config").mkdir()
        (folder / "config" / "policy.toml").write_text(RULE)
        for number in numbers:
            with (folder / "work" / f"{number}.data").open("wb") as file:
                file.truncate(FILE_BYTES)
        kinds = {"waiting": "sleep 0.5", "reading": "sha256sum {}.data", "nothing": "echo {}"}
        for name, command in kinds.items():
            compare(name, folder, [command.format(number) for number in numbers], options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
