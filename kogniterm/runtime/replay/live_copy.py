"""The copy of a session's folder in which a live replay really runs commands and edits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kogniterm.errors import ToolError, UsageError
from kogniterm.execution import open_executor
from kogniterm.protocols import Tool
from kogniterm.settings import environment
from kogniterm.text.visible import with_texts
from kogniterm.tools.file_tools import edit_file, write_file
from kogniterm.types import CommandResult, Job, Phrase

NOT_IN_COPY = Phrase("A replay does not edit {path}, which is outside of the copied folder.")


class LiveCopy:
    """An executor in a copy of `folder`, below `scratch`.

    The recorded folder `home` stands for the copy in commands, arguments, folders and output.
    """

    def __init__(self, home: str, folder: str, scratch: Path) -> None:
        source, work = Path(folder), scratch / "work"
        if not source.is_dir():
            raise UsageError(
                "Folder {folder} not found. Specify the folder to copy with --folder.",
                folder=source,
            )
        shutil.copytree(source, work, symlinks=True, ignore_dangling_symlinks=True)
        self._home, self._work = home, os.path.realpath(work)
        self._real = open_executor(self._work, env=dict(environment()), outputs=scratch / "outputs")
        tools = (write_file(lambda: self._work), edit_file(lambda: self._work, self._work))
        self.tools: dict[str, Tool] = {tool.spec.name: tool for tool in tools}

    @property
    def cwd(self) -> str:
        return self.back(self._real.cwd)

    @property
    def next_output(self) -> str | None:
        return self._real.next_output

    def run(self, command: str, **how: Any) -> CommandResult:
        result = self._real.run(self._there(command), **how)
        notes = tuple(map(self.back, result.notes))
        text = self.back(result.text)
        return replace(result, command=command, text=text, cwd=self.cwd, notes=notes)

    def arguments(self, tool: str, recorded: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of an edit, for the file in the copy as it is now.

        Raises `ToolError` if it cannot be edited, or is not in the copy.
        """
        moved = {name: with_texts(value, self._there) for name, value in recorded.items()}
        moved.pop("digest_before", None)
        checked = self.tools[tool].check(moved)
        if not Path(checked["path"]).is_relative_to(self._work):
            raise ToolError(NOT_IN_COPY.template, path=checked["path"])
        return checked

    def _there(self, text: str) -> str:
        return text.replace(self._home, self._work)

    def back(self, text: str) -> str:
        """Return a text with the recorded folder in place of the copy."""
        return text.replace(self._work, self._home)

    def stop(self) -> None:
        self._real.stop()

    def detach(self) -> bool:
        return self._real.detach()

    def jobs(self) -> tuple[Job, ...]:
        return self._real.jobs()

    def close(self) -> None:
        self._real.close()
