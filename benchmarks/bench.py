"""Measure KogniTerm beside its floors, in one run, and write the results down.

    python -m benchmarks.bench [--runs 3] [--only agents start …] [--peers] [--write]

Ratios are what to quote: all of a row is measured in turn, in the same minutes. `--peers` installs
codex and Claude Code from npm for the table of agents; `--before PROGRAM` adds the columns of the
KogniTerm that this program starts, of an earlier checkout with an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks import agents, rows
from benchmarks.measuring import become_subreaper
from benchmarks.rows import Place, Row

RESULTS = Path(__file__).parent / "results"
PARTS: Mapping[str, Callable[[Place, int], list[Row]]] = {
    "agents": agents.compare,
    "providers": agents.providers,
    "start": rows.start,
    "steps": rows.steps,
    "output": lambda at, runs: rows.output(at, 100, runs),
    "gigabyte": lambda at, runs: rows.output(at, 1000, 1),
    "traffic": lambda at, runs: rows.traffic(at),
    "turns": lambda at, runs: rows.turns(at),
    "listing": rows.listing,
    "facts": lambda at, runs: rows.facts(at),
}


def machine() -> dict[str, object]:
    """Return the class of this machine; nothing that identifies it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "processors": os.cpu_count(),
        "memory_gb": round(memory),
        "architecture": platform.machine(),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def measure(parts: Mapping[str, Callable[[Place, int], list[Row]]], runs: int) -> list[Row]:
    """Measure the parts, telling on standard error which one is measured."""
    found: list[Row] = []
    for part, rows_of in parts.items():
        began = time.monotonic()
        print(f"{part} …", end="", file=sys.stderr, flush=True)
        with rows.place() as at:
            found += rows_of(at, runs)
        print(f" {time.monotonic() - began:.0f} s", file=sys.stderr)
    return found


def table(found: Sequence[Row]) -> list[str]:
    """Return the lines of a Markdown table; one line for each floor of a row."""
    lines = ["| what | KogniTerm | goal | floor | ratio |", "|---|---:|---:|---|---:|"]
    for row in found:
        ours = f"{figure(row.ours)} {row.unit}"
        for index, (name, base) in enumerate(row.floors.items() or [("", 0.0)]):
            shown = f"{name} {figure(base)}" if name else ""
            ratio = f"{row.ours / base:.2f}" if base > 0 else ""
            first = (row.name, ours, row.goal) if index == 0 else ("", "", "")
            lines.append("| " + " | ".join((*first, shown, ratio)) + " |")
    return lines


def tables(found: Sequence[Row]) -> list[str]:
    """Return the table of agents of each environment, then that of all other rows."""
    lines: list[str] = []
    for login in dict.fromkeys(row.environment for row in found if row.environment):
        here = [row for row in found if row.environment == login]
        names = list(dict.fromkeys(name for row in here for name in row.floors))
        lines += [f"| {login} | " + " | ".join(["unit", "KogniTerm plain", *names]) + " |",
                  "|---|---" + "|---:" * (len(names) + 1) + "|"]  # fmt: skip
        for row in here:
            values = [row.floors.get(name) for name in names]
            shown = ["–" if value is None else figure(value) for value in values]
            lines.append("| " + " | ".join([row.name, row.unit, figure(row.ours), *shown]) + " |")
        lines.append("")
    return lines + table([row for row in found if not row.environment])


def figure(value: float) -> str:
    """Return a number with two or three digits that mean something."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


PAGE = """# Measured: {day}

Written by `make bench`; [{day}.json]({day}.json) has the same figures. Each figure is a median of
runs that alternate with those of its floors, on one machine in the same minutes. **Quote the
ratios**: seconds are of this machine and moment.

Machine: {processors} processors ({architecture}), {memory_gb} GB, {system}, Python {python}; load
at the start {load}.

{table}

## What is measured

- `s` is wall time, `CPU` the user and system time of the program and of everything below it. A
  terminal's own work in the kernel is in neither.
- The model is scripted and answers at once, so all of the time is the agent's own. Approvals,
  journal and rendering are on; the sandbox is off, as in the floors, where it is not named.
- **Environments**: a desktop login has a private runtime folder; a container and an SSH login have
  none, and `PYTHONUNBUFFERED` is set in the container. All agents ask one server on 127.0.0.1,
  KogniTerm as Gemini. A task is typed when the screen shows that keys are taken, and sent when it
  is shown. Before each start, KogniTerm's sessions and memory are removed; a **used home** has
  {sessions} sessions and {facts} facts. Commands were seen to run, and a sandbox to keep them from
  writing to the home. **codex** keeps a server running behind its prompt, which is part of its idle
  memory, as the warm server is; `--no-daemon` starts it without.
- **bare interpreter**: `python -c pass`. **bare prompt_toolkit**: a prompt and nothing else.
  **LangGraph loop**: the least graph that asks a model and runs commands in a terminal, with its
  imports (`benchmarks/floors.py`). **bash**: the same commands in a shell loop.
- **Warm** CPU time is that of the client and of its session, looked at while it runs. Each warm
  figure is of a start that was seen to have a session of the warm server.
- **Output**: a command that writes lines of 100 bytes. `script -c` (util-linux) also writes
  everything to a file; the plain pipe throws it away. The time of the step is that of the command,
  its CPU time that of the whole run without that of a run whose command writes nothing.
- **Memory** is the peak of resident memory of the main process, or the proportional share (PSS) of
  all processes.
- **Turns**: nine records each, of which three wait for the disk; the plain file gets the same bytes
  with as many calls of fsync.
- **Facts**: the whole recall of a turn, without vectors. FTS5 is SQLite's full-text search over the
  same texts.
"""


def write(found: Sequence[Row], where: Mapping[str, object], folder: Path = RESULTS) -> Path:
    """Write the results as JSON and as a page; return the page."""
    day = datetime.now(UTC).date().isoformat()
    folder.mkdir(exist_ok=True)
    data = {"date": day, "machine": where, "rows": [asdict(row) for row in found]}
    (folder / f"{day}.json").write_text(json.dumps(data, indent=2) + "\n")
    page = folder / f"{day}.md"
    page.write_text(
        PAGE.format(
            day=day,
            table="\n".join(tables(found)),
            **where,
            sessions=agents.SESSIONS,
            facts=agents.FACTS,
        )
    )
    return page


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--write", action="store_true", help="write them to benchmarks/results")
    parser.add_argument("--peers", action="store_true", help="measure other agents too, from npm")
    parser.add_argument("--before", default="", help="program of an earlier state, to measure too")
    options = parser.parse_args()
    become_subreaper()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    where = machine()
    compare = partial(agents.compare, with_peers=options.peers, before=options.before.split())
    parts = {**PARTS, "agents": compare}
    found = measure({part: parts[part] for part in options.only}, options.runs)
    print("\n".join(tables(found)))
    if options.write:
        print(f"\nWritten: {write(found, where).relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
