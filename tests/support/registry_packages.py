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
from functools import cache, partial
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
HARBOR = ("harbor==0.26.0", "hatchling>=1.27")
"""Harbor, and what builds the wheel of a checkout."""
AGAIN_SECONDS = 600
"""Seconds until an installation that failed is tried again."""
INSTALL_SECONDS = 240


def node_modules(*specs: str) -> Path:
    """Return the `node_modules` with the npm packages `specs`; skip where they cannot be had."""
    __tracebackhide__ = True
    require("node", "npm")
    return _installed("npm", specs, _with_npm) / "node_modules"


def python_programs(*specs: str, least: tuple[int, int] = (3, 0)) -> Path:
    """Return the `bin` of an environment with the packages `specs`; skip where it cannot be had.

    Its Python is this one, or another of this machine where the packages need at `least` that.
    """
    __tracebackhide__ = True
    python, version = _python(least)
    return _installed(f"py{version}", specs, partial(_with_pip, python)) / "bin"


@cache
def _python(least: tuple[int, int]) -> tuple[str, str]:
    """Return a Python that is new enough and can make environments, and its version."""
    __tracebackhide__ = True
    versions = [f"3.{minor}" for minor in range(13, least[1] - 1, -1)]
    # Beside this one there may be others, as pyenv and uv keep them.
    beside = Path(sys.base_prefix).parent
    others = [
        *(shutil.which(f"python{version}") for version in versions),
        *(str(found) for one in versions for found in beside.glob(f"*{one}*/bin/python3")),
    ]
    for python in [sys.executable, *filter(None, others)]:
        told = subprocess.run(
            [python, "-c", "import ensurepip, sys, venv; print(*sys.version_info[:2])"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        major, _space, minor = told.stdout.strip().partition(" ")
        if told.returncode == 0 and (int(major), int(minor)) >= least:
            return python, major + minor
    pytest.skip(f"needs Python {least[0]}.{least[1]}, not installed")


def _with_npm(folder: Path, specs: tuple[str, ...]) -> list[list[str]]:
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier"]
    return [["npm", "install", "--prefix", str(folder), *options, *specs]]


def _with_pip(maker: str, folder: Path, specs: tuple[str, ...]) -> list[list[str]]:
    python = str(folder / "bin" / "python")
    return [
        [maker, "-m", "venv", str(folder)],
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
        (partial(python_programs, least=(3, 12)), HARBOR),
    ):
        try:
            installer(*packages)
        except pytest.skip.Exception as reason:
            sys.stderr.write(f"{reason}\n")
