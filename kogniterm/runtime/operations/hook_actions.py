"""Hooks: what `kogniterm hooks` and /hooks both show, and a trial of them with a sample input."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError
from kogniterm.paths import Paths
from kogniterm.runtime.extensions.hooks.hook_files import (
    EVENTS,
    Hook,
    HookEvent,
    HookSet,
    project_hooks,
    user_hooks,
)
from kogniterm.runtime.extensions.hooks.hook_runs import HookAnswer
from kogniterm.runtime.extensions.hooks.hook_service import (
    HookService,
    Occasion,
    PastRun,
)
from kogniterm.runtime.extensions.hooks.hook_setup import (
    HookSurroundings,
    Transcripts,
    known_secrets,
)
from kogniterm.runtime.operations.action import Report, Shown
from kogniterm.runtime.trust.trust_store import trusted_files
from kogniterm.runtime.user_secrets import without_own
from kogniterm.sessions.fold import SessionState
from kogniterm.settings import Settings
from kogniterm.text.redact import Redactor
from kogniterm.text.shorten import one_line
from kogniterm.types import Phrase

_SUBJECTS: Mapping[HookEvent, str] = {
    "PreToolUse": "Bash",
    "PostToolUse": "Bash",
    "SessionStart": "startup",
    "SessionEnd": "other",
    "PreCompact": "manual",
    "Notification": "permission_prompt",
}
"""The subject of a sample where no other is wanted."""


COMMAND_WIDTH = 28


def list_hooks(
    found: HookSet, file: Path, off: Collection[str] = (), ran: Sequence[PastRun] | None = None
) -> Report:
    """List hooks by event; a session adds which are `off`, and what each answered last."""
    last = {(one.event, one.command, one.source): one for one in ran or ()}
    rows: list[Sequence[Shown]] = []
    for hook in sorted(found.hooks, key=lambda one: EVENTS.index(one.event)):
        values = {"file": hook.source}
        source = hook.source if hook.sandboxed else Phrase("{file} (no sandbox)", values)
        row = [hook.event, hook.matcher or "*", one_line(hook.command, COMMAND_WIDTH), source]
        if ran is not None:
            past = last.get((hook.event, hook.command, hook.source))
            told = _result(past.result, past.seconds) if past is not None else ""
            row.append(Phrase("off") if hook.own and hook.event in off else told)
        rows.append(row)
    none = Phrase("No hooks. Yours are in {file}; see docs/hooks.md.", {"file": file})
    notes = [*found.notices, *([] if rows else [none])]
    return Report([_hook_json(hook) for hook in found.hooks], rows=rows, notes=notes)


def _hook_json(hook: Hook) -> dict[str, object]:
    return {
        "event": hook.event,
        "matcher": hook.matcher,
        "command": hook.command,
        "timeout": hook.timeout,
        "source": hook.source,
        "own": hook.own,
        "sandbox": hook.sandboxed,
    }


def _result(result: str, seconds: float) -> Phrase:
    word = {
        "done": Phrase("done"),
        "allow": Phrase("allowed"),
        "ask": Phrase("asked"),
        "deny": Phrase("refused"),
        "failed": Phrase("failed"),
        "stop": Phrase("stopped the turn"),
    }.get(result, result)
    return Phrase("{result}, {seconds:.2f} s", {"result": word, "seconds": seconds})


def hooks_of_folder(settings: Settings, paths: Paths, folder: str) -> HookSet:
    """Return the hooks that a new session in `folder` would have, and notices about others."""
    files, told = trusted_files(paths, Path(folder))
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
) -> Report:
    """Run the hooks of the event `name` for `subject`, and show what each answered.

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
        answers = await service.answers(hooks, occasion, lambda shown: None)
    failed = any(answer.failure is not None for answer in answers)
    return Report(
        [_answer_json(answer) for answer in answers],
        [line for answer in answers for line in _answer_lines(answer)],
        notes=[] if answers else [Phrase("No hook runs at this event for this tool.")],
        status=EXIT_NOT_DONE if failed else EXIT_DONE,
    )


def _answer_json(answer: HookAnswer) -> dict[str, object]:
    return {
        "hook": _hook_json(answer.hook),
        "result": answer.result,
        "seconds": round(answer.seconds, 3),
        "exit_code": answer.exit_code,
        "reason": answer.reason,
        "failure": str(answer.failure) if answer.failure is not None else None,
        "context": answer.context,
        "message": answer.message,
        "updated_input": dict(answer.updated),
    }


def _answer_lines(answer: HookAnswer) -> Iterator[Shown]:
    """Yield what a hook answered, line by line."""
    told = _result(answer.result, answer.seconds)
    yield Phrase("{result}: {hook}", {"result": told, "hook": answer.hook.name})
    if answer.failure is not None:
        yield answer.failure
    for text in (answer.reason, answer.stop or "", answer.message, answer.context):
        yield from (f"  {line}" for line in text.splitlines())
    for name, value in answer.updated.items():
        yield f"  {name} = {one_line(str(value))}"


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
