"""The script of a scripted model, written by hand in YAML; docs/scripted.md explains it.

`settings.user_files` reads it, with the line of every key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from kogniterm.errors import (
    ContextOverflowError,
    FileValues,
    ModelAuthError,
    ModelBlockedError,
    ModelError,
    ModelNotFoundError,
    ModelQuotaError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from kogniterm.settings.user_files import plain
from kogniterm.settings.yaml_parts import (
    Count,
    Often,
    Pattern,
    Seconds,
    Text,
    YamlPart,
    read_values,
)
from kogniterm.types import EXECUTE_COMMAND, ModelPurpose

PLAN_TOOL = "make_plan"
ERRORS: Mapping[str, type[ModelError]] = {
    "auth": ModelAuthError,
    "not_found": ModelNotFoundError,
    "quota": ModelQuotaError,
    "unavailable": ModelUnavailableError,
    "timeout": ModelTimeoutError,
    "blocked": ModelBlockedError,
    "reply": ModelReplyError,
    "overflow": ContextOverflowError,
    "refused": ModelError,
}


class ReplyCondition(YamlPart):
    """Conditions on the request; every part that is given must hold."""

    purpose: ModelPurpose | None = None
    turn: Count | None = None
    call: Count | None = None
    tool: Text | None = None
    offers: Text | None = None
    last_contains: Text | None = None
    last_matches: Pattern | None = None
    any_contains: Text | None = None
    system_contains: Text | None = None
    images: int | None = Field(default=None, ge=0)
    sub_agent: bool | None = None

    @model_validator(mode="after")
    def _some(self) -> ReplyCondition:
        if not self.model_fields_set:
            raise ValueError("holds no condition.")
        return self


class ScriptedCall(YamlPart):
    """One tool call: a `tool` with its arguments, or a command to `run`."""

    tool: Text = EXECUTE_COMMAND
    arguments: Annotated[Any, BeforeValidator(plain)] = Field(default_factory=dict)
    raw_arguments: Text | None = None
    id: Text | None = None
    run: Text | None = None
    purpose: Text | None = None

    @property
    def args(self) -> Mapping[str, Any] | str:
        """The arguments; text when they are no JSON object, to be kept as invalid."""
        if self.run is not None:
            return {"command": self.run} | ({"purpose": self.purpose} if self.purpose else {})
        if self.raw_arguments is not None:
            return self.raw_arguments
        given: Any = self.arguments
        return given if isinstance(given, dict) else json.dumps(given)

    @model_validator(mode="after")
    def _one_way(self) -> ScriptedCall:
        given = self.model_fields_set
        if "run" in given:
            self.refuse("does not go with run.", "tool", "arguments", "raw_arguments")
            return self
        if "tool" not in given:
            raise ValueError("names no tool; give tool or run.")
        self.refuse("only goes with run; put it into arguments.", "purpose")
        if "raw_arguments" in given:
            self.refuse("does not go with raw_arguments.", "arguments")
        return self


class StepCheck(YamlPart):
    """The check of a plan step."""

    kind: Text = ""
    value: Text = ""


def _steps(value: Any) -> Any:
    """Return steps with ids; one written as plain text gets the next id and no more."""
    if not isinstance(value, list):
        return value
    given = ({"what": step} if isinstance(step, str) else step for step in value)
    return [
        {"id": f"s{number}", **step} if isinstance(step, dict) else step
        for number, step in enumerate(given, 1)
    ]


def _substeps(value: Any) -> Any:
    """Return substeps with those in plain text as such; ids are left to the plan."""
    if not isinstance(value, list):
        return value
    return [ScriptStep.in_words(item) if isinstance(item, str) else item for item in value]


class ScriptStep(YamlPart):
    """A step of a scripted plan."""

    id: Text = ""
    what: Text
    why: Text = ""
    inputs: list[Text] = Field(default=[])
    tools: list[Text] = Field(default=[])
    expect: Text = ""
    check: StepCheck | None = None
    fallback: Text = ""
    delegate: Text = ""
    after: list[Text] = Field(default=[])
    writes: list[Text] = Field(default=[])
    substeps: Annotated[list[ScriptStep], BeforeValidator(_substeps)] = Field(default=[])
    _words: bool = PrivateAttr(default=False)

    @classmethod
    def in_words(cls, what: str) -> ScriptStep:
        """Return a substep that is plain text, and is given to the plan as such."""
        step = cls(what=what)
        step._words = True
        return step

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> Any:
        return self.what if self._words else handler(self)


class ScriptedPlan(YamlPart):
    """The arguments of a call of `make_plan`."""

    goal: Text
    reason: Text = ""
    steps: Annotated[list[ScriptStep], BeforeValidator(_steps)]


class TokenCounts(YamlPart):
    """The tokens a reply claims to have used."""

    input: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)
    cached: int = Field(default=0, ge=0)


class ScriptedReply(YamlPart):
    """One entry of `replies`; without a number in `repeat` it is never used up."""

    when: ReplyCondition = ReplyCondition.model_construct()
    expect: ReplyCondition = ReplyCondition.model_construct()
    text: Text = ""
    thoughts: Text = ""
    run: Text | None = None
    purpose: Text | None = None
    calls: list[ScriptedCall] = Field(default=[])
    plan: ScriptedPlan | None = None
    error: Text | None = None
    message: Text = ""
    retry: bool = False
    retry_after: Seconds | None = None
    delay: Seconds = 0.0
    repeat: Often = 1
    chunk: Count | None = None
    usage: TokenCounts | None = None

    @property
    def tool_calls(self) -> list[ScriptedCall]:
        if self.run is not None:
            return [ScriptedCall(run=self.run, purpose=self.purpose)]
        if self.plan is not None:
            arguments = self.plan.model_dump(exclude_unset=True)
            return [ScriptedCall(tool=PLAN_TOOL, arguments=arguments)]
        return self.calls

    @property
    def failure(self) -> ModelError | None:
        """The error to raise; with `retry` it passes through the visible retries."""
        if self.error is None:
            return None
        message = self.message or f"the script fails with {self.error}"
        failure = ERRORS[self.error]("{message}", message=message)
        failure.retryable, failure.retry_after = self.retry, self.retry_after
        return failure

    @model_validator(mode="before")
    @classmethod
    def _plain_text(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value

    @field_validator("error")
    @classmethod
    def _kind(cls, value: str) -> str:
        if value not in ERRORS:
            raise ValueError(f"{value} is none of {', '.join(ERRORS)}.")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> ScriptedReply:
        given = self.model_fields_set
        if self.error is None:
            self.refuse("only goes with error.", "message", "retry", "retry_after")
        ways = [name for name in ("run", "calls", "plan") if name in given]
        if len(ways) > 1:
            self.refuse(f"does not go with {ways[0]}; use calls.", ways[1])
        if "run" not in given:
            self.refuse("only goes with run.", "purpose")
        if not self.calls:
            self.refuse("holds no call.", "calls")
        if ways:
            self.refuse("a reply that fails makes no calls.", "error")
        elif self.error is None and not self.text:
            raise ValueError("says nothing: give text, run, calls, plan or error.")
        return self


class ScriptedInfo(YamlPart):
    """The properties the model claims."""

    context_window: Count = 1_000_000
    max_output: Count = 100_000
    calls_tools: bool = True
    local: bool = False
    one_command: bool = False
    search_host: str = ""
    images: bool = False


class Script(YamlPart):
    """A whole script. Delays are kept only when the file says `delays: true`."""

    model: ScriptedInfo = ScriptedInfo()
    replies: list[ScriptedReply] = Field(min_length=1)
    at_end: Literal["fail", "repeat_last", "restart"] = "fail"
    delays: bool = False
    chunk: Count | None = None

    _file: FileValues = PrivateAttr(default=FileValues(Path("inline"), None))

    @property
    def path(self) -> Path:
        return Path(str(self._file.name))

    def line(self, number: int) -> int:
        """Return the line where the reply of that number (from 0) begins."""
        return self._file.line(("replies", number))


def read_script(path: Path) -> Script:
    """Return the script at `path`. Raises `UsageError` naming file, line and key."""
    script, file = read_values(Script, path)
    script._file = file
    return script
