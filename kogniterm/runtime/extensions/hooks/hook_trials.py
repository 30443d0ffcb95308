"""The hooks that a session in a folder would have, and a trial of them with a sample input."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kogniterm.errors import UsageError
from kogniterm.paths import Paths
from kogniterm.runtime.extensions.hooks.hook_files import (
    EVENTS,
    HookEvent,
    HookSet,
    project_hooks,
    user_hooks,
)
from kogniterm.runtime.extensions.hooks.hook_runs import HookAnswer
from kogniterm.runtime.extensions.hooks.hook_service import HookService, Occasion
from kogniterm.runtime.extensions.hooks.hook_setup import (
    HookSurroundings,
    Transcripts,
    known_secrets,
)
from kogniterm.runtime.trust.trust_store import TrustStore, trusted_files
from kogniterm.runtime.user_secrets import without_own
from kogniterm.sessions.fold import SessionState
from kogniterm.settings import Settings
from kogniterm.text.redact import Redactor

_SUBJECTS: Mapping[HookEvent, str] = {
    "PreToolUse": "Bash",
    "PostToolUse": "Bash",
    "SessionStart": "startup",
    "SessionEnd": "other",
    "PreCompact": "manual",
    "Notification": "permission_prompt",
}
"""The subject of a sample where no other is wanted."""


def hooks_of_folder(settings: Settings, paths: Paths, folder: str) -> HookSet:
    """Return the hooks that a new session in `folder` would have, and notices about others."""
    files, told = trusted_files(TrustStore(paths.trust_file), Path(folder))
    found = HookSet((), told)
    if not settings.hooks:
        return found
    return user_hooks(paths.extensions.hooks) + project_hooks(files) + found


async def try_hooks(
    settings: Settings,
    paths: Paths,
    environ: Mapping[str, str],
    folder: str,
    name: str,
    subject: str,
    given: Mapping[str, Any],
) -> tuple[HookAnswer, ...]:
    """Run the hooks of the event `name` for `subject`, and return what each answered.

    `given` replaces fields of the sample tool's input. Raises `UsageError` for an unknown event.
    """
    event = next((one for one in EVENTS if one == name), None)
    if event is None:
        raise UsageError(
            "There is no event {name}; use one of: {known}.", name=name, known=", ".join(EVENTS)
        )
    subject = subject or _SUBJECTS.get(event, "")
    found = hooks_of_folder(settings, paths, folder)
    secrets = known_secrets(settings)
    with tempfile.TemporaryDirectory(prefix="kogniterm-hooks-") as temporary:
        surroundings = HookSurroundings(
            settings, paths, folder, without_own(environ, secrets), lambda: (folder, temporary)
        )
        state = SessionState(session_id="test", folder=folder)
        service = HookService(
            found,
            HookSet(),
            surroundings.place,
            lambda: {"session_id": "test", "permission_mode": "default"},
            Transcripts(paths.cache / "hooks", lambda: state).kept,
            lambda note: None,
            Redactor(secrets).redact,
        )
        occasion = Occasion(event, subject, _sample(event, subject, folder, given))
        hooks = service.all.matching(event, subject)
        return await service.answers(hooks, occasion, lambda shown: None)


def _sample(
    event: HookEvent, subject: str, folder: str, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a sample input."""
    if event in ("PreToolUse", "PostToolUse"):
        file = {"file_path": f"{folder}/example.txt"}
        inputs: Mapping[str, dict[str, Any]] = {
            "Bash": {"command": "echo hello", "description": "Say hello"},
            "Read": file,
            "Write": {**file, "content": "hello\n"},
            "Edit": {**file, "old_string": "hello", "new_string": "goodbye"},
            "Grep": {"pattern": "hello", "path": folder},
            "Glob": {"pattern": "*.py", "path": folder},
            "WebFetch": {"url": "https://example.com", "prompt": "read it"},
        }
        fields = {
            "tool_name": subject,
            "tool_input": {**inputs.get(subject, {}), **given},
            "tool_use_id": "call_1",
        }
        if event == "PostToolUse":
            fields["tool_response"] = {"stdout": "hello\n", "stderr": "", "interrupted": False}
        return fields
    samples: Mapping[HookEvent, dict[str, Any]] = {
        "UserPromptSubmit": {"prompt": "hello"},
        "SessionStart": {"source": subject},
        "SessionEnd": {"reason": subject},
        "Stop": {"stop_hook_active": False, "last_assistant_message": "Done."},
        "SubagentStop": {"stop_hook_active": False, "last_assistant_message": "Done."},
        "PreCompact": {"trigger": subject, "custom_instructions": ""},
        "Notification": {
            "message": "KogniTerm needs your permission to use Bash",
            "notification_type": subject,
        },
    }
    return {**samples[event], **given}
