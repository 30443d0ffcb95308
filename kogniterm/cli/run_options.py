"""A call of the command line as values; argparse and its namespaces end where these begin."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.errors import UsageError
from kogniterm.storage.folders import expand_path

if TYPE_CHECKING:
    from kogniterm.settings import Settings


class CallOptions(NamedTuple):
    """The options that every call may have.

    `settings` are those that options set, by name. `resume` is the session to go on with: an ID,
    "last", or None for a new one. With `json`, the result is for programs. With `at_prompt`, the
    screen is the prompt's, and log lines stay in the file.
    """

    settings: Mapping[str, object]
    cwd: str | None = None
    env_file: str | None = None
    resume: str | None = None
    debug: bool = False
    json: bool = False
    at_prompt: bool = False

    def load_settings(self) -> Settings:
        """Return the checked settings of this call, with the log set up by them.

        Raises `SettingsError`.
        """
        from kogniterm import settings

        environ = settings.environment()
        env_file = Path(self.env_file) if self.env_file else None
        loaded = settings.load(self.settings, environ=environ, env_file=env_file)
        self.set_up_logs(settings.quick(environ).paths.log_file, loaded.log_level)
        return loaded

    def set_up_logs(self, file: Path, level: str) -> None:
        """Start the log; an unwritable folder only means that there is none."""
        from kogniterm import logs
        from kogniterm.text.redact import redact

        on_screen = self.debug and not self.at_prompt
        logs.set_up(file, level=level, redact=redact, debug=self.debug, on_screen=on_screen)

    def folder(self) -> str:
        """Return the folder to work in, absolute. Raises `UsageError` when it cannot be used."""
        folder = expand_path("", self.cwd) if self.cwd else current_folder()
        if not folder.is_absolute():
            folder = current_folder() / folder
        if not folder.exists():
            raise UsageError("The folder {folder} does not exist.", folder=folder)
        if not folder.is_dir():
            raise UsageError("{folder} is not a folder.", folder=folder)
        if not os.access(folder, os.X_OK | os.R_OK):
            raise UsageError("You have no permission to enter the folder {folder}.", folder=folder)
        return str(folder)


def current_folder() -> Path:
    """Return the folder we are in. Raises `UsageError` when somebody removed it."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            "The working folder no longer exists; change to another, or name one with --cwd."
        ) from error


class RunRequest(NamedTuple):
    """A task for one run, as `kogniterm run` and its relatives read it from their options."""

    call: CallOptions
    task: Sequence[str] = ()
    output: str = "text"
    session_id: str | None = None
    park: bool = False
    note: str | None = None
    secrets: Sequence[str] | None = None
    allowed_secrets: Sequence[str] | None = None
    plan_only: bool = False

    @property
    def named_session(self) -> str | None:
        """The ID that `--session` gives. Raises `UsageError`."""
        if self.session_id is None:
            return None
        from kogniterm.paths import SessionId

        if self.call.resume is not None:
            option = "--continue" if self.call.resume == "last" else "--resume"
            raise UsageError(
                "{option} cannot be combined with {other}.", option="--session", other=option
            )
        return SessionId(self.session_id)
