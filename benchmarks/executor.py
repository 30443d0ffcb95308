"""Compare the cost of a command with `bash -c true` through subprocess; prints the ratio.

python benchmarks/executor.py [--commands 100]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from kogniterm.execution import open_executor


def seconds(call: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


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
    parser.add_argument("--commands", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cost(folder, options.commands)
    return 0


if __name__ == "__main__":
    sys.exit(main())
