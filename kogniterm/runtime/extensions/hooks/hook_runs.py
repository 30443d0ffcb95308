"""One run of a hook: the program in its sandbox, its input and its answer.

Exit code 0: standard output may be a JSON object, or plain text. Exit code 2: the hook blocks, and
its standard error is the reason. Anything else, a time-out, output that is no JSON object although
it begins like one, or a hook that cannot start is a failure; at an event that can refuse something
a failure refuses it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kogniterm.approval import sandbox_failure
from kogniterm.errors import ExecutionError
from kogniterm.execution.process.confined_program import ConfinedProgram, ProgramResult
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.host.programs import find_program
from kogniterm.runtime.extensions.extension_port import Choice
from kogniterm.runtime.extensions.hooks.hook_files import GUARDS, Hook
from kogniterm.runtime.trust.plugin_folders import ROOT
from kogniterm.runtime.trust.project_places import is_unchanged
from kogniterm.text.shorten import cut, one_line
from kogniterm.text.visible import clean, whole
from kogniterm.types import Phrase

MAX_OUTPUT = 1_000_000
MAX_CONTEXT = 10_000
"""Characters of a hook's words that the model gets."""
MAX_REASON = 2_000
BLOCKS = 2
_CHOICES: Mapping[object, Choice] = {
    "allow": "allow", "approve": "allow", "ask": "ask", "deny": "deny", "block": "deny",
}  # fmt: skip
_SPEAK_TO_MODEL = frozenset({"UserPromptSubmit", "SessionStart"})
"""The events at which plain output is something for the model."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer of one hook.

    `reason` is in the hook's own words; `failure` says why it gave no answer, and `stop` why the
    turn is to end. `context` is for the model, `message` for the user.
    """

    hook: Hook
    seconds: float = 0.0
    exit_code: int | None = None
    choice: Choice = ""
    reason: str = ""
    context: str = ""
    message: str = ""
    updated: Mapping[str, Any] = field(default_factory=dict)
    stop: str | None = None
    failure: Phrase | None = None

    @property
    def result(self) -> str:
        """Return the answer in one word."""
        if self.failure is not None:
            return "failed"
        return "stop" if self.stop is not None else self.choice or "done"


class HookPlace(NamedTuple):
    """The surroundings of hooks: a folder, an environment, the sandboxes of both kinds of hooks.

    `box` is None where no sandbox works on this machine; `own_box` also shows the user's scripts.
    `temporary` is a private folder for them alone.
    """

    cwd: str
    env: Mapping[str, str]
    temporary: str
    box: Sandbox | None
    own_box: Sandbox | None

    def sandbox_of(self, hook: Hook) -> Sandbox | None:
        """Return the sandbox of a hook; None for one that runs without."""
        if not hook.sandboxed:
            return None
        return self.own_box if hook.own else self.box


async def run_hook(
    hook: Hook,
    fields: Mapping[str, Any],
    place: HookPlace,
    *,
    redact: Callable[[str], str] = str,
    now: Callable[[], float] = time.monotonic,
) -> HookAnswer:
    """Run a hook and return its answer, which is a failure where there is none.

    Cancelling the task ends the hook and everything that it started.
    """
    begun = now()
    if hook.sandboxed and place.sandbox_of(hook) is None:
        why = _NO_SANDBOX_OWN if hook.own else _NO_SANDBOX
        return HookAnswer(hook, failure=why)
    if hook.plugin is not None and not is_unchanged(hook.plugin):
        return HookAnswer(hook, failure=_CHANGED)
    data = json.dumps(fields, ensure_ascii=False, default=str).encode("utf-8", "replace")
    shell = find_program("bash") or "/bin/sh"
    try:
        program = await ConfinedProgram.start(
            [shell, "-c", hook.command],
            env={**place.env, ROOT: hook.root} if hook.root else place.env,
            cwd=place.cwd,
            sandbox=place.sandbox_of(hook),
            temporary=place.temporary,
        )
    except ExecutionError as error:
        return HookAnswer(hook, now() - begun, failure=error.text)
    ended = await program.communicate(data + b"\n", limit=MAX_OUTPUT, seconds=hook.timeout)
    answer = answer_of(hook, ended, now() - begun, redact)
    complaint = ended.complaints.decode("utf-8", "replace")
    if (
        answer.failure is None
        or not hook.sandboxed
        or not sandbox_failure(complaint, answer.exit_code)
    ):
        return answer
    stopped = _STOPPED_OWN if hook.own else _STOPPED
    return replace(answer, failure=Phrase(stopped.template, {"failure": answer.failure}))


_STOPPED = Phrase("{failure} (the sandbox probably stopped it)")
_STOPPED_OWN = Phrase(
    '{failure} (the sandbox probably stopped it; "sandbox": false in its file lets it run outside)'
)
_LATE = Phrase("it ran longer than {seconds} s")
_LATE_OFFLINE = Phrase("it ran longer than {seconds} s, in the sandbox without network")
_CHANGED = Phrase("its plugin changed since it was trusted")
_NO_SANDBOX = Phrase("no sandbox works on this machine, and a project's hook never runs without")
_NO_SANDBOX_OWN = Phrase('no sandbox works on this machine; "sandbox": false lets it run without')


def answer_of(
    hook: Hook, ended: ProgramResult, seconds: float, redact: Callable[[str], str] = str
) -> HookAnswer:
    """Return what the end of a hook's program means."""
    told = _Words(redact)
    output = ended.output.decode("utf-8", "replace")
    complaint = told.reason(ended.complaints.decode("utf-8", "replace"))
    code = ended.exit_code
    if ended.ended == "timeout":
        late = _LATE_OFFLINE if hook.sandboxed else _LATE
        limit = Phrase(late.template, {"seconds": f"{hook.timeout:g}"})
        return HookAnswer(hook, seconds, None, failure=limit)
    if ended.ended == "too_much":
        return HookAnswer(hook, seconds, None, failure=Phrase("it wrote more than 1 MB"))
    if code == BLOCKS:
        return HookAnswer(hook, seconds, code, "deny", complaint)
    if code != 0:
        values = {"code": code, "words": one_line(complaint)}
        failure = Phrase("it ended with exit code {code}: {words}", values)
        if not complaint.strip():
            failure = Phrase("it ended with exit code {code}", {"code": code})
        return HookAnswer(hook, seconds, code, failure=failure)
    text = output.strip()
    if not text.startswith("{"):
        context = told.context(text) if hook.event in _SPEAK_TO_MODEL else ""
        return HookAnswer(hook, seconds, code, context=context)
    try:
        found = json.loads(text)
        return _read(hook, found, seconds, told)
    except (ValueError, RecursionError):
        return HookAnswer(hook, seconds, code, failure=Phrase("its output is not valid JSON"))


class _Words:
    """Makes a hook's words fit to be kept, sent and shown."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self.redact = redact

    def context(self, text: object) -> str:
        """Return words for the model."""
        return self._fit(text, MAX_CONTEXT)

    def reason(self, text: object) -> str:
        """Return words for the user, too."""
        return self._fit(text, MAX_REASON)

    def _fit(self, text: object, limit: int) -> str:
        if not isinstance(text, str):
            return ""
        return cut(self.redact(clean(whole(text))).strip(), limit)


def _read(hook: Hook, found: Mapping[str, Any], seconds: float, told: _Words) -> HookAnswer:
    """Return the answer in a JSON object. Raises `ValueError` for values that mean nothing."""
    own = found.get("hookSpecificOutput")
    if own is None:
        own = {}
    if not isinstance(own, dict):
        raise ValueError("hookSpecificOutput")
    choice, reason = _choice(hook, found, own)
    updated = own.get("updatedInput") or {}
    if not isinstance(updated, dict):
        raise ValueError("updatedInput")
    goes_on = found.get("continue", True)
    if not isinstance(goes_on, bool):
        raise ValueError("continue")
    stop = None if goes_on else told.reason(found.get("stopReason")) or ""
    silent = found.get("suppressOutput") is True
    return HookAnswer(
        hook,
        seconds,
        0,
        choice,
        told.reason(reason),
        told.context(own.get("additionalContext")),
        "" if silent else told.reason(found.get("systemMessage")),
        updated,
        stop,
    )


def _choice(hook: Hook, found: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[Choice, object]:
    given, reason = own.get("permissionDecision"), own.get("permissionDecisionReason")
    if given is None:
        given, reason = found.get("decision"), found.get("reason")
    if given is None:
        return "", ""
    if given not in _CHOICES:
        raise ValueError("decision")
    choice = _CHOICES[given]
    # Elsewhere than before a tool, approving means nothing.
    return ("" if choice != "deny" and hook.event != "PreToolUse" else choice), reason or ""


def refuses(answer: HookAnswer) -> bool:
    """Return whether a hook refuses what it was asked about, by failing too."""
    failed = answer.failure is not None and answer.hook.event in GUARDS
    return failed or answer.choice == "deny"
