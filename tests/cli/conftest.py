"""The real program, started in its own folders."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.environments import environ_of
from tests.support.forge import Forge, Started

KOGNITERM = Path(sys.executable).with_name("kogniterm")
PATIENCE = 240
"""Seconds; a guard against hanging, not a measure."""


@dataclass(frozen=True)
class Shell:
    """A user with a home, standing in an empty project."""

    home: Path
    project: Path
    forge: Forge

    @property
    def environ(self) -> dict[str, str]:
        return environ_of(self.home)

    @property
    def config(self) -> Path:
        return self.home / "config"

    @property
    def data(self) -> Path:
        return self.home / "data"

    def run(
        self,
        *words: str | bytes,
        stdin: bytes | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        file_size: int | None = None,
        fresh: bool = False,
        command: tuple[str | Path, ...] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run `kogniterm WORDS` to its end; without `stdin` it reads from /dev/null.

        No file that it writes can grow beyond `file_size` bytes. With `fresh` it starts as it
        does for a user, Python and imports included; with `command` something else is started.
        """
        if not fresh and not command:
            started = self.start(*words, stdin=stdin, environ=environ, cwd=cwd, file_size=file_size)
            status = started.wait()
            said = (file.read_bytes().decode("utf-8") for file in (started.out, started.err))
            return subprocess.CompletedProcess(words, status, *said)
        result = subprocess.run(
            [*(command or (KOGNITERM,)), *words],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            env={**self.environ, **(environ or {})},
            cwd=cwd or self.project,
            timeout=PATIENCE,
        )
        return subprocess.CompletedProcess(
            result.args,
            result.returncode,
            result.stdout.decode("utf-8"),
            result.stderr.decode("utf-8"),
        )

    def start(
        self,
        *words: str | bytes,
        stdin: bytes | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        out: Path | None = None,
        file_size: int | None = None,
    ) -> Started:
        """Start `kogniterm WORDS`; see `tests.support.forge`."""
        given = Path(os.devnull)
        if stdin is not None:
            given = self.home / "stdin"
            given.write_bytes(stdin)
        return self.forge.start(
            words,
            environ={**self.environ, **(environ or {})},
            folder=cwd or self.project,
            scratch=self.home,
            stdin=given,
            out=out,
            file_size=file_size,
        )

    def script(self, text: str) -> str:
        """Return the name of a scripted model that answers as `text` says."""
        file = self.home / "script.yaml"
        file.write_text(text, encoding="utf-8")
        return f"scripted:{file}"


@pytest.fixture
def shell(tmp_path: Path, forge: Forge) -> Shell:
    home, project = tmp_path / "home", tmp_path / "project"
    (home / "config").mkdir(parents=True)
    project.mkdir()
    return Shell(home, project, forge)
