"""Values of any class with fields of the product, with one text in each field that can hold a text.

Tests that must hold for every event, record or sink make their cases of these, so that the next
event or record is tested without a new line of test.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from kogniterm.types import Phrase

T = TypeVar("T")
_MESSAGES = {"BaseMessage": BaseMessage, "AIMessage": AIMessage, "ToolMessage": ToolMessage}
_DEPTH = 4
"""Dataclasses inside each other that are filled; a step of a plan holds steps."""


def filled(kind: type[T], text: str, variant: int = 0, /, **fixed: Any) -> T:
    """Return a `kind` with `text` in every field, and in every field of what it holds.

    Another `variant` takes other choices, truth values and numbers. `fixed` are fields by name, at
    any depth.
    """
    return _Filler(text, variant, fixed).value(kind, 0)


@dataclasses.dataclass
class _Filler:
    text: str
    variant: int
    fixed: Mapping[str, Any]

    def value(self, hint: Any, depth: int) -> Any:
        """Return a value of the type `hint`."""
        if hint in (str, object, Any):
            return self.text
        if hint is bytes:
            return self.text.encode("utf-8", "surrogatepass")
        if hint in (bool, int, float):
            return hint(self.variant % 3)
        if hint is Phrase:
            return Phrase("{text}", {"text": self.text})
        if hint is ToolMessage or (hint is BaseMessage and self.variant % 2):
            return ToolMessage(self.text, tool_call_id=self.text)
        if hint in (BaseMessage, AIMessage):
            call = {"name": "read_file", "args": {"path": self.text}, "id": "c1"}
            return AIMessage(self.text, tool_calls=[{**call, "type": "tool_call"}])
        if hasattr(hint, "__match_args__"):
            return self._value_with_fields(hint, depth)
        return self._of_generic(hint, depth)

    def _value_with_fields(self, kind: Any, depth: int) -> Any:
        hints = get_type_hints(kind, localns=_MESSAGES)
        given = {}
        for name in kind.__match_args__:
            if name in self.fixed:
                given[name] = self.fixed[name]
            else:
                given[name] = self.value(hints[name], depth + 1)
        return kind(**given)

    def _of_generic(self, hint: Any, depth: int) -> Any:
        origin, inside = get_origin(hint), get_args(hint)
        if origin is Literal:
            return inside[self.variant % len(inside)]
        if origin in (Union, types.UnionType):
            kinds = [one for one in inside if one is not type(None)]
            none = len(kinds) < len(inside) and (depth > _DEPTH or self.variant % 4 == 3)
            return None if none else self.value(kinds[self.variant % len(kinds)], depth)
        if origin in (tuple, list) or (isinstance(origin, type) and origin.__name__ == "Sequence"):
            if origin is tuple and inside[-1] is not Ellipsis:
                return tuple(self.value(one, depth + 1) for one in inside)
            return () if depth > _DEPTH else (self.value(inside[0], depth + 1),)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {} if depth > _DEPTH else {f"/{self.text}": self.value(inside[1], depth + 1)}
        if isinstance(origin, type) and issubclass(origin, (set, frozenset)):
            return frozenset({self.value(inside[0], depth + 1)})
        raise TypeError(f"{hint} cannot be filled")
