"""Measure the start in a real terminal: to the prompt, to the first answer, and memory.

The floor is a bare prompt_toolkit prompt in the same interpreter. Quote the ratios; the seconds
are of this machine and moment.

    python benchmarks/start.py [--runs 5]
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

FLOOR = "from prompt_toolkit import PromptSession; PromptSession('floor> ').prompt()"
PATIENCE = 60.0


@dataclass
class Start:
    """Seconds from the start to each mark, and the peak memory in MB."""

    prompt: float
    answer: float | None
    peak: float


def watch(argv: list[str], environment: dict[str, str], marks: list[tuple[str, str]]) -> Start:
    """Run `argv` in a terminal; for each (text to wait for, keys to send then) note the time."""
    began = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(argv[0], argv, environment)
    seen, times = b"", []
    try:
        for text, keys in marks:
            while text.encode() not in seen:
                ready, _, _ = select.select([terminal], [], [], PATIENCE)
                if not ready:
                    raise SystemExit(f"{argv[0]} did not show {text!r}:\n{seen.decode()}")
                piece = os.read(terminal, 65536)
                seen += piece
                if b"\x1b[6n" in piece:
                    os.write(terminal, b"\x1b[1;1R")
            times.append(time.monotonic() - began)
            os.write(terminal, keys.encode())
        peak = peak_memory(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return Start(times[0], times[1] if len(times) > 1 else None, peak)


def peak_memory(pid: int) -> float:
    """Return the peak memory of the process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        script = Path(name, "hello.yaml")
        script.write_text("replies: [{text: Hello from the model, repeat: forever}]\n")
        environment = {"PATH": os.environ["PATH"], "HOME": name, "TERM": "xterm-256color"}
        for kind in ("CONFIG", "DATA", "CACHE"):
            environment[f"KOGNITERM_{kind}_DIR"] = str(Path(name, kind.lower()))
        program = str(Path(sys.executable).with_name("kogniterm"))
        ours = [program, "--model", f"scripted:{script}", "--no-sandbox"]
        floor, kogniterm = [], []
        for _ in range(runs):
            floor.append(watch([sys.executable, "-c", FLOOR], environment, [("floor>", "")]))
            marks = [("›", "hi\r"), ("Hello from the model", "")]
            kogniterm.append(watch(ours, environment, marks))
    show("to the prompt", [s.prompt for s in kogniterm], [s.prompt for s in floor], "s")
    show("peak memory after an answer", [s.peak for s in kogniterm], [s.peak for s in floor], "MB")
    answers = [s.answer for s in kogniterm if s.answer is not None]
    imports = [time_of("import langgraph.graph, prompt_toolkit, pydantic_settings")
               for _ in range(runs)]  # fmt: skip
    show("to the first answer, beside its imports", answers, imports, "s")
    light = [time_of("pass") for _ in range(runs)]
    version = [time_command([program, "--version"]) for _ in range(runs)]
    show("--version, beside an empty interpreter", version, light, "s")


def show(what: str, ours: list[float], floor: list[float], unit: str) -> None:
    """Print one line: the median, the baseline's median, and the ratio."""
    a, b = statistics.median(ours), statistics.median(floor)
    print(f"{what:45} {a:7.2f} {unit:3} floor {b:7.2f} {unit:3} ratio {a / b:5.2f}")


def time_of(code: str) -> float:
    """Return the seconds a fresh interpreter takes to run `code`."""
    return time_command([sys.executable, "-c", code])


def time_command(argv: list[str]) -> float:
    """Return the seconds that running `argv` takes."""
    began = time.monotonic()
    subprocess.run(argv, check=True, capture_output=True)
    return time.monotonic() - began


if __name__ == "__main__":
    main()
