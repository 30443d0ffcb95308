"""The seam between the executor and a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Wrapper(Protocol):
    """A sandbox round commands.

    A wrapper runs without a controlling terminal, so that Ctrl-C reaches the command and not
    the wrapper; the argv it returns must take the terminal inside, as `setsid -c -w ARGV` does.
    """

    def wrap(self, argv: list[str], *, cwd: str, state_folder: str) -> list[str]:
        """The argv that runs `argv` inside; `state_folder` must be writable at its own path."""

    def variables(self, state_folder: str) -> Mapping[str, str]:
        """What commands need in their environment inside, and nowhere else."""
