"""Compare warm with plain starts: seconds of a one-shot call, and the memory of open prompts.

The floor is an empty interpreter, which a warm start needs too. Quote the ratios; the seconds are
of this machine and moment. Memory is the proportional share (PSS) of all processes together.

    python benchmarks/warm.py [--runs 5] [--sessions 10]
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KOGNITERM = str(Path(sys.executable).with_name("kogniterm"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sessions", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        script = Path(name, "hello.yaml")
        script.write_text("replies: [{text: Hello., repeat: forever}]\n")
        runtime = Path(name, "run")
        runtime.mkdir(mode=0o700)
        warm = {"PATH": os.environ["PATH"], "HOME": name, "TERM": "xterm-256color",
                "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": str(runtime)}  # fmt: skip
        plain = warm | {"KOGNITERM_WARM": "off"}
        model = ["--no-sandbox", "--model", f"scripted:{script}"]
        seconds([KOGNITERM, "run", *model, "hi"], warm)
        while not list(runtime.glob("kogniterm/*.sock")):
            time.sleep(0.1)
        try:
            one_shot(args.runs, [KOGNITERM, "run", *model, "hi"], warm, plain)
            for kind, environ in (("plain", plain), ("warm", warm)):
                total, forked = memory_of(args.sessions, [KOGNITERM, *model], environ, name)
                print(f"{args.sessions} prompts, {kind:6} {total / 1e6:7.0f} MB, {forked} forked")
        finally:
            subprocess.run([KOGNITERM, "warm", "stop"], env=warm, check=False)


def one_shot(runs: int, call: list[str], warm: dict[str, str], plain: dict[str, str]) -> None:
    """Print the seconds of a call in the three ways, measured in turn."""
    floor, fast, slow = [], [], []
    for _ in range(runs):
        floor.append(seconds([sys.executable, "-c", "pass"], warm))
        fast.append(seconds(call, warm))
        slow.append(seconds(call, plain))
    a, b, c = map(statistics.median, (floor, fast, slow))
    print(f"one-shot: floor {a:.2f} s, warm {b:.2f} s, plain {c:.2f} s; plain/warm {c / b:.1f}")


def seconds(argv: list[str], environ: dict[str, str]) -> float:
    """Return the seconds that a call takes."""
    began = time.monotonic()
    subprocess.run(argv, env=environ, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return time.monotonic() - began


def memory_of(count: int, argv: list[str], environ: dict[str, str], mark: str) -> tuple[int, int]:
    """Open prompts and give each a turn; return the bytes of all processes, and the warm prompts.

    All processes are those with `mark` in their words.
    """
    opened = []
    for _ in range(count):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe(argv[0], [*argv, "say hello"], environ)
        opened.append((pid, terminal))
        seen = b""
        while b"Hello." not in seen:
            seen += os.read(terminal, 65536)
    time.sleep(1)
    total = sum(share(process) for process in Path("/proc").glob("[0-9]*") if names(process, mark))
    shown = subprocess.run(
        [KOGNITERM, "warm", "status", "--json"], env=environ, check=True, capture_output=True
    )
    forked = sum(server["sessions"] for server in json.loads(shown.stdout)["servers"])
    for pid, terminal in opened:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return total, forked


def names(process: Path, mark: str) -> bool:
    """Return whether a process was started with the folder in its words."""
    try:
        return mark in (process / "cmdline").read_text(errors="replace")
    except OSError:
        return False


def share(process: Path) -> int:
    """Return the proportional share of a process, in bytes."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
