"""Exhausted resources: a command is refused with a message, and the next one runs again."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, resource
from kogniterm.errors import ExecutionError
from kogniterm.execution import open_executor

def opened():
    return sorted(os.listdir("/proc/self/fd"))

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
before = opened()
executor = open_executor(os.environ["TMPDIR"])
assert executor.run("echo one").text == "one"
refused = 0
for room in range(12):
    held = []
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        pass
    for descriptor in held[:room]:
        os.close(descriptor)
    try:
        assert executor.run("echo two").text == "two"
    except ExecutionError as error:
        assert "too many open files" in str(error), error
        refused += 1
    for descriptor in held[room:]:
        os.close(descriptor)
    assert executor.run("echo three").text == "three", room
executor.close()
assert opened() == before, opened()
print(refused)
"""


def test_too_few_descriptors_refuse_a_command_and_lose_nothing() -> None:
    """With any number of descriptors left, down to none, so that each opening fails once."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)
    assert 0 < int(done.stdout) < 12
