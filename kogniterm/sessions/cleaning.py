"""Words out of a stored payload, with the record still a record.

What a person typed, a model wrote or a command printed is cleaned; the names of fields, the
choices a field has, ids and the sentences of the program itself are not: forgetting "text" or
"human" must not cost a session its messages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from kogniterm.matching import Matcher
from kogniterm.sessions import codec
from kogniterm.sessions.texts import is_image

REPLACEMENT = "[forgotten]"
_FORGOTTEN_IMAGE = {"type": "text", "text": REPLACEMENT}
_CONTENT_BLOCKS = frozenset({"text", "base64", "mime_type", "template", "values", "type", "data"})
_PROGRAM_WORDS = frozenset({"type", "kind", "stop", "node", "template"})
"""Fields whose value the program chose; with them every id."""

_GIVEN = frozenset({"args", "arguments"})
"""Fields with what a model gave to a tool: there, no name says that the program chose a value."""


class Cleaner:
    """Replaces terms, however they are written; what finds them proves that they are gone."""

    def __init__(self, terms: Sequence[str]) -> None:
        self._matcher = Matcher(terms)

    def text(self, text: str) -> str:
        """`text` without the terms."""
        return self._matcher.replaced(text, REPLACEMENT)

    def holds(self, text: str) -> bool:
        """Whether `text` holds one of the terms."""
        return self._matcher.holds(text)

    def payload(self, payload: str) -> str:
        """A stored payload without the terms; the same string when it holds none."""
        try:
            value = json.loads(payload)
        except ValueError:
            return self.text(payload)
        cleaned = self._value(value)
        if self.holds(codec.dumps(cleaned)):
            cleaned = self._apart(cleaned)
        return payload if cleaned == value else codec.dumps(cleaned)

    def _value(self, value: Any, *, given: bool = False) -> Any:
        """Any value of a payload without the terms; `given` in the arguments of a tool."""
        if isinstance(value, str):
            return self.text(value)
        if is_image(value):
            # A picture cannot be searched for words: by chance they stand in its letters.
            held = any(term in value["base64"] for term in self._matcher.texts)
            return _FORGOTTEN_IMAGE if held else value
        if isinstance(value, list):
            cleaned = [self._value(item, given=given) for item in value]
            if cleaned != value and any(map(is_image, value)):
                # What was said with an image tells what the image shows.
                return [_FORGOTTEN_IMAGE if is_image(block) else block for block in cleaned]
            return cleaned
        if isinstance(value, dict) and value.keys() == {codec.BYTES}:
            return self._bytes(value)
        if isinstance(value, dict):
            return self._fields(value, given)
        return value

    def _fields(self, value: dict[str, Any], given: bool) -> dict[str, Any]:
        called = "args" in value or "tool_call_id" in value
        return {
            self._key(key): item
            if not given and _is_programs(key, item, called)
            else self._value(item, given=given or (key in _GIVEN and isinstance(item, dict)))
            for key, item in value.items()
        }

    def _apart(self, value: Any) -> Any:
        """`value` without the texts that make up a term only with what stands beside them.

        The names of fields and what the program chose make up none: they stay.
        """
        if isinstance(value, list):
            value = [self._apart(item) for item in value]
            texts = [item for item in value if isinstance(item, str)]
            together = self.holds(codec.dumps(texts))
            return [REPLACEMENT if together and item in texts else item for item in value]
        if isinstance(value, dict) and not is_image(value) and value.keys() != {codec.BYTES}:
            return {
                key: REPLACEMENT if self._joins(key, item) else self._apart(item)
                for key, item in value.items()
            }
        return value

    def _joins(self, key: str, item: Any) -> bool:
        """Whether a text makes up a term together with its key, which is no field's name."""
        own = key not in _names() and not key.startswith("__")
        return own and isinstance(item, str) and self.holds(codec.dumps({key: item}))

    def _bytes(self, tagged: dict[str, Any]) -> dict[str, Any]:
        content = codec.from_plain(tagged).decode("utf-8", "surrogateescape")
        return codec.to_plain(self.text(content).encode("utf-8", "surrogateescape"))  # type: ignore[no-any-return]  # bytes give a tag

    def _key(self, key: str) -> str:
        return key if key in _names() or key.startswith("__") else self.text(key)


def _is_programs(key: str, value: Any, called: bool) -> bool:
    """Whether the value under `key` was chosen by the program; `called`: in a tool call."""
    if key == "usage_metadata":
        return True
    if not isinstance(value, str):
        return False
    if key in _PROGRAM_WORDS or key == "id" or key.endswith("_id") or (called and key == "name"):
        return True
    return key in _names() and value in _choices()


@cache
def _names() -> frozenset[str]:
    """The names of all fields that records and messages have."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    found = set(_CONTENT_BLOCKS)
    for owner in _dataclasses():
        found.update(field.name for field in fields(owner))
    for message in (AIMessage, HumanMessage, SystemMessage, ToolMessage):
        found.update(message.model_fields)
    return frozenset(found | {"args"})


@cache
def _choices() -> frozenset[str]:
    """The values of all fields that have fixed ones."""
    return frozenset(
        choice
        for owner in _dataclasses()
        for hint in _hints(owner)
        for part in _parts(hint)
        if get_origin(part) is Literal
        for choice in get_args(part)
        if isinstance(choice, str)
    )


@cache
def _dataclasses() -> tuple[Any, ...]:
    """Every dataclass that a record may hold."""
    found: dict[Any, None] = {}
    ahead: list[Any] = list(codec.KINDS.values())
    while ahead:
        owner = ahead.pop()
        if owner in found:
            continue
        found[owner] = None
        parts = (part for hint in _hints(owner) for part in _parts(hint))
        ahead += [part for part in parts if isinstance(part, type) and is_dataclass(part)]
    return tuple(found)


def _hints(owner: Any) -> list[Any]:
    return list(get_type_hints(owner, localns=codec.HINTS).values())


def _parts(hint: Any) -> list[Any]:
    """A type and the types it is made of."""
    inner = [] if get_origin(hint) is Literal else get_args(hint)
    return [hint, *(part for one in inner for part in _parts(one))]
