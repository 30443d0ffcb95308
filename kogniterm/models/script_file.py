"""The script of a scripted model, written by hand in YAML; docs/scripted.md explains it.

The file is read strictly, with the line of every key. A scalar comes as the text that stands in the
file, so that `run: yes` is the command `yes` and not a boolean; `plain` gives its value as YAML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from kogniterm.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelBlockedError,
    ModelError,
    ModelNotFoundError,
    ModelQuotaError,
    ModelReplyError,
    ModelTimeoutError,
    ModelUnavailableError,
    UsageError,
    why,
)
from kogniterm.text.spelling import meant
from kogniterm.types import ModelPurpose, Phrase

if TYPE_CHECKING:
    import yaml


Place = tuple[str | int, ...]
"""Keys and positions (from 0) that lead from the root to a value."""

SCALARS = ("str", "bool", "int", "float", "timestamp", "null")
KNOWN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in (*SCALARS, "map", "seq"))
DEEPEST = 40
"""Levels of nesting; only an alias that contains itself goes deeper."""


class Scalar(str):
    """A scalar as it stands in the file; `meaning` is its value as YAML, without dates."""

    meaning: Any


def plain(value: Any) -> Any:
    """Return the value as YAML means it, in what JSON knows."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.meaning if isinstance(value, Scalar) else value


def read_text(path: Path, what: Phrase) -> str:
    """Return the text of `path`. Raises `UsageError`, which calls the file `what`."""
    values: dict[str, object] = {"what": what, "path": path}
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise UsageError("The {what} {path} does not exist.", **values) from error
    except IsADirectoryError as error:
        raise UsageError("The {what} {path} is a folder, not a file.", **values) from error
    except OSError as error:
        values["detail"] = why(error)
        raise UsageError("The {what} {path} cannot be read ({detail}).", **values) from error
    except UnicodeDecodeError as error:
        values["byte"] = error.start
        raise UsageError("The {what} {path} is not UTF-8 text (byte {byte}).", **values) from error


@dataclass(slots=True)
class YamlFile:
    """The values of a file, and where they stand."""

    path: Path
    data: Any = None
    lines: dict[Place, int] = field(default_factory=dict)

    def error(self, place: Sequence[str | int], problem: str) -> UsageError:
        """Return a complaint about the value at `place`: file, line and key, then `problem`."""
        line = next(self.lines[near] for near in _upwards(tuple(place)) if near in self.lines)
        key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place)
        return UsageError(
            "{path}:{line}: {key}: {problem}" if key else "{path}:{line}: {problem}",
            path=self.path,
            line=line,
            key=key.lstrip("."),
            problem=problem,
        )


def _upwards(place: Place) -> Iterator[Place]:
    return (place[:length] for length in range(len(place), -1, -1))


def read_yaml(path: Path, what: Phrase) -> YamlFile:
    """Read the file at `path`. Raises `UsageError`."""
    import yaml

    try:
        loader = yaml.SafeLoader(read_text(path, what))
        root = loader.get_single_node()
        if root is None:
            raise UsageError("{path} is empty.", path=path)
        file = YamlFile(path)
        file.data = _load(file, root, root, (), loader)
        return file
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UsageError(
            "{path}:{line}: not valid YAML: {detail}.",
            path=path,
            line=mark.line + 1 if mark else 1,
            detail=error.problem or error.context or "cannot be read",
        ) from error
    except yaml.YAMLError as error:
        detail = " ".join(str(error).split())
        raise UsageError("{path} is not valid YAML: {detail}.", path=path, detail=detail) from error


def _load(
    file: YamlFile, node: yaml.Node, named: yaml.Node, place: Place, loader: yaml.SafeLoader
) -> Any:
    """Return the value of `node`, whose line is that of `named`: its key, where it has one."""
    import yaml

    file.lines[place] = named.start_mark.line + 1
    if len(place) > DEEPEST:
        raise file.error(place, "is nested too deeply.")
    if node.tag not in KNOWN_TAGS:
        raise file.error(place, f"has the tag {node.tag}, which is not used here.")
    if isinstance(node, yaml.SequenceNode):
        return [_load(file, item, item, (*place, at), loader) for at, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            inner = (*place, name)
            if name in found:
                file.lines[inner] = key.start_mark.line + 1
                raise file.error(inner, "stands here twice.")
            found[name] = _load(file, value, key, inner, loader)
        return found
    scalar = Scalar(node.value)
    scalar.meaning = str(scalar)
    if not node.tag.endswith(":timestamp"):
        try:
            scalar.meaning = loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            raise file.error(place, f"cannot be read ({error}).") from error
    return scalar


COMMAND_TOOL = "execute_command"
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
}


def _pattern(text: object) -> object:
    try:
        return re.compile(str(text))
    except re.error as error:
        raise ValueError(f"is not a regular expression ({error}).") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text.")
    return str(value)


Text = Annotated[str, PlainValidator(_text)]
"""Text as it stands in the file; pydantic's own would refuse half a character."""
Pattern = Annotated[re.Pattern[str], BeforeValidator(_pattern)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _key_error(key: str, problem: str) -> PydanticCustomError:
    return PydanticCustomError("key", "{problem}", {"key": key, "problem": problem})


class Part(BaseModel):
    """A mapping of the file with known keys."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        known = list(cls.model_fields)
        if isinstance(value, cls):
            return value
        if not isinstance(value, dict):
            raise ValueError(f"must be a mapping of {', '.join(known)}.")
        for name in value:
            if name not in known:
                near = meant(name, known)
                hint = f"did you mean {near}?" if near else f"known: {', '.join(known)}."
                raise _key_error(name, f"unknown key; {hint}")
        return value

    def refuse(self, problem: str, *keys: str) -> None:
        """Raise a complaint about the first of `keys` that is given."""
        for key in keys:
            if key in self.model_fields_set:
                raise _key_error(key, problem)


class ReplyCondition(Part):
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


class ScriptedCall(Part):
    """One tool call: a `tool` with its arguments, or a command to `run`."""

    tool: Text = COMMAND_TOOL
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


class StepCheck(Part):
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


class Step(Part):
    """A step of a scripted plan."""

    id: Text
    what: Text
    why: Text = ""
    inputs: list[Text] = []
    tools: list[Text] = []
    expect: Text = ""
    check: StepCheck | None = None
    fallback: Text = ""
    delegate: Text = ""
    substeps: Annotated[list[Step], BeforeValidator(_steps)] = []


class ScriptedPlan(Part):
    """The arguments of a call of `make_plan`."""

    goal: Text
    reason: Text = ""
    steps: Annotated[list[Step], BeforeValidator(_steps)]


class TokenCounts(Part):
    """The tokens a reply claims to have used."""

    input: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)
    cached: int = Field(default=0, ge=0)


def _often(value: Any) -> Any:
    return None if value == "forever" else value


class ScriptedReply(Part):
    """One entry of `replies`; without a number in `repeat` it is never used up."""

    when: ReplyCondition = ReplyCondition.model_construct()
    expect: ReplyCondition = ReplyCondition.model_construct()
    text: Text = ""
    thoughts: Text = ""
    run: Text | None = None
    purpose: Text | None = None
    calls: list[ScriptedCall] = []
    plan: ScriptedPlan | None = None
    error: Text | None = None
    message: Text = ""
    retry: bool = False
    retry_after: Seconds | None = None
    delay: Seconds = 0.0
    repeat: Annotated[Count | None, BeforeValidator(_often)] = 1
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


class ScriptedInfo(Part):
    """The properties the model claims."""

    context_window: Count = 1_000_000
    max_output: Count = 100_000
    calls_tools: bool = True
    local: bool = False
    one_command: bool = False
    search_host: str = ""
    images: bool = False


class Script(Part):
    """A whole script. Delays are kept only when the file says `delays: true`."""

    model: ScriptedInfo = ScriptedInfo()
    replies: list[ScriptedReply] = Field(min_length=1)
    at_end: Literal["fail", "repeat_last", "restart"] = "fail"
    delays: bool = False
    chunk: Count | None = None

    _file: YamlFile = PrivateAttr(default_factory=lambda: YamlFile(Path("inline")))

    @property
    def path(self) -> Path:
        return self._file.path

    def line(self, number: int) -> int:
        """Return the line where the reply of that number (from 0) begins."""
        return self._file.lines[("replies", number)]


def read_script(path: Path) -> Script:
    """Return the script at `path`. Raises `UsageError` naming file, line and key."""
    file = read_yaml(path, Phrase("script"))
    try:
        script = Script.model_validate(file.data)
    except ValidationError as error:
        raise _complaint(file, error.errors(include_url=False)[0]) from error
    script._file = file
    return script


def _complaint(file: YamlFile, detail: ErrorDetails) -> UsageError:
    place, kind, context = detail["loc"], detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return file.error(place[:-1], f"{place[-1]} is missing.")
    if kind == "key":
        return file.error((*place, context["key"]), context["problem"])
    if kind == "value_error":
        return file.error(place, str(context["error"]))
    if kind == "literal_error":
        allowed = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        return file.error(place, f"{detail['input']} is none of {allowed}.")
    if isinstance(context.get("ge"), float):
        kind = "float"
    return file.error(place, _WANTED.get(kind.partition("_")[0], detail["msg"]))


_WANTED = {
    "too": "holds no reply.",
    "list": "must be a list.",
    "bool": "must be true or false.",
    "float": "must be a number of seconds.",
    "finite": "must be a number of seconds.",
    "int": "must be a whole number.",
    "greater": "must be a whole number that is large enough.",
}
