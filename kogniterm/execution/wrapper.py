"""The seam between the executor and a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Wrapper(Protocol):
    """A sandbox round commands.

    A wrapper runs without a controlling terminal, so that Ctrl-C reaches the command and not
    the wrapper; the argv it returns must take the terminal inside, as `setsid -c -w ARGV` does.
    """

    def wrap(
        self,
        argv: list[str],
        *,
        cwd: str,
        shell_files: str,
        temporary: str,
        jobs_run: bool = False,
    ) -> list[str]:
        """Return the argv that runs `argv` inside, with the descriptors that it is given.

        `shell_files` is the executor's own folder: nothing inside may write it, and nothing has to
        read it, for the shell has what it needs on descriptors. No mount point may be made for it
        in a folder that commands write: it would be made wherever a link there leads. `temporary`
        is a folder for temporary files that lasts as long as the executor; commands inside may
        write to it, and the host process reads nothing in it. `jobs_run` is whether earlier
        commands still run and could change things meanwhile.
        """

    def may_write(self, path: str) -> bool:
        """Return whether commands inside may write to the folder `path`."""

    def variables(self, temporary: str) -> Mapping[str, str]:
        """Return what commands need in their environment inside, and nowhere else."""
