"""Compare the executor with its baselines; prints ratios, which vary less between machines.

    python benchmarks/executor.py [--megabytes 100] [--commands 100]

Throughput stands beside `script -c` (util-linux), cost per command beside `bash -c true`
through subprocess, memory is the growth of this process's peak over its size before.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from kogniterm.execution import open_executor

LINE = "x" * 99


def seconds(call: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def peak_kilobytes() -> int:
    """Return the peak resident size of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def throughput(folder: str, megabytes: int) -> None:
    """Measure one command that writes `megabytes` of lines, here and under `script`."""
    command = f"yes {LINE} | head -c {megabytes}000000"
    with open_executor(folder) as executor:
        executor.run("seq 100000")
        before = peak_kilobytes()
        own = seconds(lambda: executor.run(command))
        growth = peak_kilobytes() - before
    print(f"{megabytes} MB: {own:.2f} s, memory +{growth / 1024:.1f} MB")
    if shutil.which("script"):
        argv = ["script", "-qc", command, f"{folder}/typescript"]
        other = seconds(lambda: subprocess.run(argv, stdout=subprocess.DEVNULL, check=False))
        print(f"script -c: {other:.2f} s; ours / script = {own / other:.2f}")


def cost(folder: str, commands: int) -> None:
    """Measure the median cost of a command that does nothing."""
    with open_executor(folder) as executor:
        executor.run("true")
        own, bare = [], []
        argv = ["bash", "--norc", "-c", "true"]
        for _ in range(commands):
            own.append(seconds(lambda: executor.run("true")))
            bare.append(seconds(lambda: subprocess.run(argv, check=False)))
    middle, floor = statistics.median(own) * 1000, statistics.median(bare) * 1000
    print(f"command: {middle:.1f} ms (best {min(own) * 1000:.1f}); bash -c true: {floor:.1f} ms")
    print(f"ours / bash = {middle / floor:.1f}")


def main() -> int:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--commands", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cost(folder, options.commands)
        throughput(folder, options.megabytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
