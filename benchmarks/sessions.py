"""Measure the cost of a turn in a session of 10, 1,000 and 10,000 turns, on SQLite and PostgreSQL.

    python -m benchmarks.sessions [--turns 10 1000 10000] [--sqlite] [--json]
    python -m benchmarks.sessions --make 2000 FILE    only make that many sessions of two turns

For each length a session is built, then opened in a new process (from the command to the state
the prompt needs, interpreter and imports included), and a few turns of nine records are added
the way the runtime adds them: three of the records wait for the disk. Bytes are what the
process handed to the kernel, or what PostgreSQL wrote to its log. CPU time is that of this
process, without PostgreSQL's. The PostgreSQL server is started with its ordinary durability. The
floor is a plain file: the same payloads appended, with an fsync where the journal waits for one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from langchain_core.messages import HumanMessage

from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.codec import insert, new_row
from kogniterm.sessions.journal.journal import DURABLE, refresh_row
from kogniterm.sessions.records import Compacted, RecordBody, SessionOpened
from kogniterm.sessions.session_database import open_store
from kogniterm.sessions.session_search import add_missing
from kogniterm.sessions.store import SessionStore
from tests.support.conversation import command_turn, write
from tests.support.postgres import fresh_schema, start

SESSION = "bench"
COMPACT_EVERY = 200
MEASURED = 60
OUTPUT = "".join(f"src/module_{n}.py  {n * 37} bytes\n" for n in range(25))

OPEN = """
import sys
from kogniterm.sessions.session_database import open_store
store, _ = open_store(sys.argv[1], user="bench", version="1.0")
state = store.open("bench").state
assert state.turn == int(sys.argv[2]), state.turn
"""


def bodies(turn: int) -> list[RecordBody]:
    """Return one turn of a coding session: about 5 KB of records."""
    return command_turn(turn, f"Look at module {turn} and tell me what it does", output=OUTPUT)


def build(store: SessionStore, turns: int) -> None:
    """Build a session of `turns` turns, compacted as a model's window would require."""
    store.add_row(SESSION, folder="/home/bench", model="m")
    seq, last = 0, ""
    with store.database.transaction():
        for turn in range(turns + 1):
            new: list[RecordBody] = (
                bodies(turn) if turn else [SessionOpened(SESSION, "/home/bench", "1.0", "m")]
            )
            if turn and turn % COMPACT_EVERY == 0:
                new.append(Compacted((HumanMessage("summary " * 500),), None, (), turn))
            for body in new:
                row = new_row(body, seq, 1_800_000_000.0 + seq, last)
                insert(store.database, SESSION, row)
                seq, last = row.seq, row.hash
        refresh_row(store.database, SESSION)
    add_missing(store.database, SESSION)


def written_by_us() -> int:
    """Return the bytes this process has passed to write(2) so far."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    raise RuntimeError("no wchar in /proc/self/io")


def measure(location: str, turns: int) -> dict[str, float]:
    """Measure one more turn in milliseconds and bytes, and opening the session in seconds."""
    store, _ = open_store(location, user="bench", version="1.0")
    build(store, turns)
    store.close()
    opening, opening_cpu = map(
        min, zip(*(_open_once(location, turns) for _ in range(3)), strict=True)
    )
    store, _ = open_store(location, user="bench", version="1.0")
    journal = store.open(SESSION)
    written = _server_log(store) if location.startswith("postgresql") else written_by_us
    times, spent, before = [], [], written()
    for turn in range(turns + 1, turns + 1 + MEASURED):
        new = bodies(turn)
        began, used = time.perf_counter(), time.process_time()
        write(journal, new)
        times.append(time.perf_counter() - began)
        spent.append(time.process_time() - used)
    size = (written() - before) / MEASURED
    began = time.perf_counter()
    len(journal.state.messages)
    history = time.perf_counter() - began
    journal.close()
    store.close()
    return {
        "turn_ms": statistics.median(times) * 1000,
        "turn_cpu_ms": statistics.median(spent) * 1000,
        "turn_bytes": size,
        "open_s": opening,
        "open_cpu_s": opening_cpu,
        "history_s": history,
    }


def _open_once(location: str, turns: int) -> tuple[float, float]:
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", OPEN, location, str(turns)])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, process.returncode
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def _server_log(store: SessionStore) -> Callable[[], int]:
    def position() -> int:
        rows = store.database.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return int(rows[0][0])

    return position


def floor(folder: Path) -> dict[str, float]:
    """Measure the baseline: the same payloads appended to a plain file."""
    times, spent, size = [], [], 0
    with (folder / "plain").open("ab", buffering=0) as file:
        for turn in range(1, MEASURED + 1):
            new = bodies(turn)
            began, used = time.perf_counter(), time.process_time()
            for body in new:
                size += file.write(codec.encode(body).encode() + b"\n")
                if isinstance(body, DURABLE):
                    os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
            spent.append(time.process_time() - used)
    return {
        "turn_ms": statistics.median(times) * 1000,
        "turn_cpu_ms": statistics.median(spent) * 1000,
        "turn_bytes": size / MEASURED,
    }


def make(location: str, count: int) -> None:
    """Make sessions of two turns each, as the runtime leaves them."""
    store, _ = open_store(location, user="bench", version="1.0")
    with store.database.transaction():
        for number in range(count):
            name, seq, last = f"s{number:05}", 0, ""
            store.add_row(name, folder="/home/bench", model="m")
            for body in (SessionOpened(name, "/home/bench", "1.0", "m"), *bodies(1), *bodies(2)):
                row = new_row(body, seq, 1_800_000_000.0 + 100 * number + seq, last)
                insert(store.database, name, row)
                seq, last = row.seq, row.hash
            refresh_row(store.database, name)
    store.close()


def run(lengths: list[int], *, sqlite_only: bool = False) -> dict[str, dict[str, float]]:
    """Return all measurements by name."""
    results: dict[str, dict[str, float]] = {}
    folder = Path(tempfile.mkdtemp(prefix="kogniterm-bench-"))
    try:
        results["floor: plain file"] = floor(folder)
        for turns in lengths:
            results[f"sqlite, {turns} turns"] = measure(str(folder / f"{turns}.db"), turns)
        socket = "" if sqlite_only else start(os.getpid(), durable=True)
        for turns in () if sqlite_only else lengths:
            with fresh_schema(socket) as url:
                results[f"postgresql, {turns} turns"] = measure(url, turns)
    finally:
        shutil.rmtree(folder)
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=[10, 1000, 10000])
    parser.add_argument("--sqlite", action="store_true", help="leave PostgreSQL out")
    parser.add_argument("--make", nargs=2, metavar=("COUNT", "FILE"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.make:
        make(args.make[1], int(args.make[0]))
        return
    results = run(args.turns, sqlite_only=args.sqlite)
    if args.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{'':28} {'turn':>9} {'written':>10} {'open':>8} {'history':>8}")
    for name, row in results.items():
        cells = f"{name:28} {row['turn_ms']:6.1f} ms {row['turn_bytes'] / 1024:7.1f} KB"
        if "open_s" in row:
            cells += f" {row['open_s']:6.2f} s {row['history_s']:6.2f} s"
        print(cells)


if __name__ == "__main__":
    main()
