"""The hooks of a session, put together: their files, their sandbox, environment and transcript."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from kogniterm.errors import KognitermError
from kogniterm.execution.shell.shell_state import UNCACHED
from kogniterm.host.processes import start_of
from kogniterm.runtime.extensions.hooks.hook_files import HookSet, project_hooks, user_hooks
from kogniterm.runtime.extensions.hooks.hook_points import mode_name
from kogniterm.runtime.extensions.hooks.hook_service import HookService
from kogniterm.runtime.extensions.tool_names import shared_name
from kogniterm.runtime.services.policy_service import open_sandbox
from kogniterm.runtime.trust.plugin_folders import PROJECT
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.sessions.fold import SessionState
from kogniterm.storage.folders import private_folder, write_private

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from kogniterm.execution.sandbox.confinement import Sandbox
    from kogniterm.paths import Paths
    from kogniterm.runtime.extensions.hooks.hook_runs import HookPlace
    from kogniterm.runtime.turn_journal import TurnJournal
    from kogniterm.runtime.turn_ports import SessionModes
    from kogniterm.settings import Settings

_LEFT = re.compile(r"(\d+)-\d+\.jsonl")
"""The name of a transcript: the process that wrote it, and a number."""


def open_hooks(
    settings: Settings,
    paths: Paths,
    journal: TurnJournal,
    modes: SessionModes,
    project: Iterable[ProjectFile],
    surroundings: HookSurroundings,
    *,
    enabled: bool,
) -> HookService:
    """Return the hooks of a session: the user's, and those of a trusted project.

    Raises `UsageError` or `SettingsError` for a file with a mistake, where hooks are not off.
    """

    def common() -> Mapping[str, Any]:
        return {
            "session_id": journal.state.session_id,
            "permission_mode": mode_name(modes.approval),
        }

    own, of_project = HookSet(), HookSet()
    if settings.hooks:
        own, of_project = user_hooks(paths.extensions.hooks), project_hooks(project)
    return HookService(
        own,
        of_project,
        surroundings.place,
        common,
        Transcripts(paths.cache / "hooks", lambda: journal.state).kept,
        journal.record,
        journal.redact,
        enabled=enabled and settings.hooks,
    )


def known_secrets(settings: Settings) -> tuple[str, ...]:
    """Return every secret among the settings: no journal, log, model or hook may get one."""
    return tuple(
        value.get_secret_value()
        for name in type(settings).model_fields
        if isinstance(value := getattr(settings, name), SecretStr)
    )


@dataclass(slots=True)
class HookSurroundings:
    """The folder, environment and sandbox of hooks; no secret of the settings is in `environ`.

    `folders` gives the current folder, and the private one that is their /tmp.
    """

    settings: Settings
    paths: Paths
    workspace: str
    environ: Mapping[str, str]
    folders: Callable[[], tuple[str, str]]
    bounds: Sandbox | None = None
    _boxes: list[Sandbox | None] = field(default_factory=list)

    def place(self) -> HookPlace:
        """Return where hooks run now."""
        from kogniterm.runtime.extensions.hooks.hook_runs import HookPlace

        cwd, temporary = self.folders()
        Path(temporary).mkdir(mode=0o700, exist_ok=True)
        if not self._boxes:
            # One for a project's hooks and one for the user's, also where commands run in none.
            self._boxes += _boxes(self.settings, self.paths, self.workspace, self.bounds)
        box, own = self._boxes
        if box is not None and not box.can_start_in(cwd, temporary):
            cwd = self.workspace
        folder = self.workspace
        places = {PROJECT: folder, "KOGNITERM_PROJECT_DIR": folder}
        environ = {**self.environ, **UNCACHED, **places}
        return HookPlace(cwd, environ, temporary, box, own)


def _boxes(
    settings: Settings, paths: Paths, workspace: str, bounds: Sandbox | None
) -> tuple[Sandbox | None, Sandbox | None]:
    box = bounds
    if box is None or box.kind == "none":
        found = settings.model_copy(update={"sandbox": "auto"})
        box, _why = open_sandbox(found, paths, workspace)
    if box.kind == "none":
        return None, None
    # The user's scripts stand beside hooks.json, in a folder that is hidden from commands.
    scripts = paths.extensions.hooks.with_suffix("")
    return box, replace(box, shown=(*box.shown, str(scripts)))


class Transcripts:
    """Writes the conversation for hooks, as Claude Code keeps it: one JSON object a line.

    A file lasts as long as the hooks of one event run, so that nothing stays that was forgotten.
    """

    def __init__(self, folder: Path, state: Callable[[], SessionState]) -> None:
        self.folder = folder
        self.state = state
        self._numbers: Iterator[int] = count(1)

    @contextmanager
    def kept(self) -> Iterator[str]:
        """Write the transcript; yield its path, or "" where it cannot be written."""
        file = self.folder / f"{os.getpid()}-{next(self._numbers)}.jsonl"
        try:
            private_folder(self.folder)
            for left in self.folder.iterdir():  # by a process that was killed
                of_process = _LEFT.fullmatch(left.name)
                if of_process is not None and start_of(int(of_process[1])) is None:
                    left.unlink(missing_ok=True)
            lines = map(self._line, self.state().messages)
            write_private(file, "".join(f"{line}\n" for line in lines).encode())
        except (OSError, KognitermError):
            yield ""
            return
        try:
            yield str(file)
        finally:
            with suppress(OSError):
                file.unlink()

    def _line(self, message: BaseMessage) -> str:
        state = self.state()
        kind = "assistant" if message.type == "ai" else "user"
        line = {
            "type": kind,
            "sessionId": state.session_id,
            "cwd": state.cwd or state.folder,
            "message": {"role": kind, "content": _content(message)},
        }
        return json.dumps(line, ensure_ascii=False)


def _content(message: BaseMessage) -> list[dict[str, Any]]:
    """Return a message's text, calls and result in the shape of Claude's API."""
    if message.type == "tool":
        call = getattr(message, "tool_call_id", "")
        return [{"type": "tool_result", "tool_use_id": call, "content": message.text}]
    parts: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
    for call in getattr(message, "tool_calls", ()):
        name = shared_name(call["name"])
        parts.append({"type": "tool_use", "id": call["id"], "name": name, "input": call["args"]})
    return parts
