"""Programs from npm and PyPI that tests use as peers, installed once per machine.

    node_modules("@modelcontextprotocol/server-everything@2026.8.31")
    python_programs("mcp-server-git==2026.10.19")

Each returns a folder below the user's cache and skips the running test where the packages cannot be
installed. What failed is not tried again for a while, so that a run without network stays fast.
`python -m tests.support.registry_packages` installs all of them before a run and prints the folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kogniterm.paths import resolve
from tests.support.programs import require

SERVERS = (
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
)
"""Servers that the makers of the protocol publish; its SDK for JavaScript comes with them."""
GIT_SERVER = ("mcp-server-git==2026.10.19",)
PACKAGES = Path(
    os.environ.get("KOGNITERM_TEST_PACKAGES") or resolve(os.environ).cache / "test-packages"
)
AGAIN_SECONDS = 600
"""Seconds until an installation that failed is tried again."""
INSTALL_SECONDS = 240


def node_modules(*specs: str) -> Path:
    """Return the `node_modules` with the npm packages `specs`; skip where they cannot be had."""
    __tracebackhide__ = True
    require("node", "npm")
    return _installed("npm", specs, _with_npm) / "node_modules"


def python_programs(*specs: str) -> Path:
    """Return the `bin` of an environment with the packages `specs`; skip where it cannot be had."""
    __tracebackhide__ = True
    return _installed(f"py{sys.version_info[0]}{sys.version_info[1]}", specs, _with_pip) / "bin"


def _with_npm(folder: Path, specs: tuple[str, ...]) -> list[list[str]]:
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier"]
    return [["npm", "install", "--prefix", str(folder), *options, *specs]]


def _with_pip(folder: Path, specs: tuple[str, ...]) -> list[list[str]]:
    python = str(folder / "bin" / "python")
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *specs],
    ]


def _installed(
    kind: str, specs: tuple[str, ...], commands: Callable[[Path, tuple[str, ...]], list[list[str]]]
) -> Path:
    """Return the folder with `specs`, installed by `commands` unless it was before."""
    __tracebackhide__ = True
    key = hashlib.sha256("\n".join(specs).encode()).hexdigest()[:12]
    folder = PACKAGES / f"{kind}-{key}"
    whole, failed = folder / "complete", PACKAGES / f"{kind}-{key}.failed"
    if whole.exists():
        return folder
    try:
        with _one_at_a_time(PACKAGES / f"{kind}-{key}.lock"):
            if whole.exists():
                return folder
            if failed.exists() and time.time() - failed.stat().st_mtime < AGAIN_SECONDS:
                pytest.skip(failed.read_text())
            # Environments of Python cannot be moved, so it is made where it stays.
            shutil.rmtree(folder, ignore_errors=True)
            if problem := _problem(commands(folder, specs)):
                failed.write_text(f"{' '.join(specs)} could not be installed: {problem}")
                pytest.skip(failed.read_text())
            whole.touch()
            failed.unlink(missing_ok=True)
    except OSError as error:
        pytest.skip(f"{' '.join(specs)} could not be installed in {PACKAGES}: {error}")
    return folder


def _problem(commands: list[list[str]]) -> str:
    """Run `commands`; return the last line of the one that failed, or ""."""
    for command in commands:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no end within {INSTALL_SECONDS} s"
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            return (lines or done.stderr.splitlines() or ["it failed"])[0][:200]
    return ""


@contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """Hold `lock` against the other workers of this run, and against other runs."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    PACKAGES.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(f"{PACKAGES}\n")
    for installer, packages in (
        (node_modules, SERVERS),
        (python_programs, GIT_SERVER),
    ):
        try:
            installer(*packages)
        except pytest.skip.Exception as reason:
            sys.stderr.write(f"{reason}\n")
