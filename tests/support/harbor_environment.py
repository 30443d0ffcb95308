"""An environment of Harbor without Docker: a task's container as a bubblewrap of this machine.

It runs inside Harbor's own Python: `harbor run -e harbor_environment:Bubblewrap`. The container has
the system's programs, read-only, folders of its own, no network, and the Python and the packages
that the variables name, as an image would have them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult

OWN = ("app", "installed-agent", "logs", "opt", "root", "runtime", "solution", "tests", "tmp")
"""Folders of the container that can be written to."""


class Bubblewrap(BaseEnvironment):
    """A container that starts a bubblewrap for each command, with the same folders."""

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    def _validate_definition(self) -> None:
        """Accept every definition: there is no image to build."""

    async def start(self, force_build: bool) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="harbor-container-"))
        for name in (*OWN, "logs/agent", "logs/verifier", "logs/artifacts"):
            (self._root / name).mkdir(exist_ok=True)

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def _host(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        self._host(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._host(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._host(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._host(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._host(source_dir), target_dir, dirs_exist_ok=True)

    def _wrap(self, cwd: str) -> list[str]:
        words = ["bwrap", "--unshare-user", "--uid", "0", "--gid", "0", "--unshare-net"]
        words += ["--die-with-parent", "--proc", "/proc", "--dev", "/dev"]
        for name in ("/usr", "/etc"):
            words += ["--ro-bind", name, name]
        for name in ("bin", "sbin", "lib", "lib64"):
            link = Path("/", name)
            if link.is_symlink():
                words += ["--symlink", str(link.readlink()), str(link)]
            elif link.exists():
                words += ["--ro-bind", str(link), str(link)]
        for name in OWN:
            words += ["--bind", str(self._root / name), f"/{name}"]
        for name in os.environ["CONTAINER_READS"].split(":"):
            words += ["--ro-bind", name, name]
        return [*words, "--chdir", cwd]

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        own = {
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "PATH": os.environ["CONTAINER_PATH"],
            "PIP_NO_DEPS": "1",
            "PYTHONPATH": os.environ["CONTAINER_PACKAGES"],
        }
        process = await asyncio.create_subprocess_exec(
            *self._wrap(cwd or "/app"), "/bin/bash", "-c", command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**own, **(self._merge_env(env) or {})},
        )  # fmt: skip
        try:
            out, said = await asyncio.wait_for(process.communicate(), timeout_sec)
        except BaseException:
            process.kill()
            await process.wait()
            raise
        return ExecResult(
            stdout=out.decode(errors="replace"),
            stderr=said.decode(errors="replace"),
            return_code=process.returncode or 0,
        )
