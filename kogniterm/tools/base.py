"""The base of every tool: a strict schema, an effect class, and a line for the approval screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kogniterm.errors import ToolError
from kogniterm.prompts import argument_schema, of_tool
from kogniterm.types import EffectClass, Observation, ToolSpec


class Arguments(BaseModel):
    """Base of all tool arguments: unknown ones are refused, not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Arguments)


class SchemaTool(Generic[A]):
    """A tool made of an arguments model and plain functions.

    prompts/tools.md describes it, unless a `description` is given.

    `describe` gives the line and the purpose for the approval screen; `effect_of` may raise the
    effect of a call above the tool's own (a read of a secret file needs approval), up to `may`.
    `settle` puts what can change later, such as where a name leads, into the checked arguments.
    `detail` gives what is shown in full before approval, such as a diff; `hosts` the hosts that are
    contacted.
    """

    def __init__(
        self,
        name: str,
        arguments: type[A],
        run: Callable[[A], Awaitable[str | Observation]],
        *,
        description: str = "",
        effect: EffectClass = "none",
        may: EffectClass | None = None,
        describe: Callable[[A], tuple[str, str]] | None = None,
        effect_of: Callable[[A], EffectClass] | None = None,
        settle: Callable[[A], A] | None = None,
        detail: Callable[[A], str] | None = None,
        hosts: Callable[[A], tuple[str, ...]] | None = None,
    ) -> None:
        self._model = arguments
        self._run = run
        self._describe = describe
        self._effect_of = effect_of
        self._settle = settle
        self._detail = detail
        self._hosts = hosts
        schema = argument_schema(name, _compact_schema(arguments))
        self._spec = ToolSpec(name, description or of_tool(name)[0], schema, effect, may)

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    def check(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return settled arguments with defaults; raise `ToolError` naming each problem."""
        parsed = self._parse(arguments)
        return (self._settle(parsed) if self._settle else parsed).model_dump()

    def effect_of(self, arguments: Mapping[str, Any]) -> EffectClass:
        if self._effect_of is None:
            return self._spec.effect
        return self._effect_of(self._parse(arguments))

    def describe(self, arguments: Mapping[str, Any]) -> tuple[str, str]:
        if self._describe is None:
            shown = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            return f"{self._spec.name}({shown})", ""
        return self._describe(self._parse(arguments))

    def detail(self, arguments: Mapping[str, Any]) -> str:
        return self._detail(self._parse(arguments)) if self._detail else ""

    def hosts(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        return self._hosts(self._parse(arguments)) if self._hosts else ()

    async def run(self, arguments: Mapping[str, Any]) -> Observation:
        found = await self._run(self._parse(arguments))
        return Observation(found) if isinstance(found, str) else found

    def _parse(self, arguments: Mapping[str, Any]) -> A:
        try:
            return self._model.model_validate(arguments)
        except ValidationError as error:
            found = (
                (".".join(map(str, item["loc"])), item["msg"].removeprefix("Value error, "))
                for item in error.errors(include_url=False)
            )
            problems = "; ".join(": ".join(filter(None, one)) for one in found)
            raise ToolError(
                "Invalid arguments for {name}: {problems}.", name=self._spec.name, problems=problems
            ) from None


_BOUNDS = frozenset({"minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"})
"""Left out of what the model sees: a call beyond them is refused with a sentence that says so."""


@cache
def _compact_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return a JSON schema without titles and defaults, which cost tokens and say nothing."""
    compacted = _compact(model.model_json_schema())
    compacted.pop("description", None)
    return dict(compacted)


def _compact(node: Any) -> Any:
    if isinstance(node, list):
        return [_compact(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "additionalProperties" and value is False:
            continue
        if key in _BOUNDS:
            continue
        if key == "default" and not isinstance(value, dict):
            continue
        if key == "properties":
            kept[key] = {name: _compact(item) for name, item in value.items()}
        else:
            kept[key] = _compact(value)
    options = kept.get("anyOf")
    if isinstance(options, list) and len(options) == 2 and {"type": "null"} in options:
        kept.pop("anyOf")
        kept = {**next(o for o in options if o != {"type": "null"}), **kept}
    return kept
