"""Values of YAML files, checked by pydantic; each complaint names the line and the key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from kogniterm.errors import FileValues, SettingsError
from kogniterm.settings.user_files import read_text, yaml_values
from kogniterm.text.spelling import closest_word


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


def key_error(key: str, problem: str) -> PydanticCustomError:
    """Return a complaint about one key of a part, for a validator to raise."""
    return PydanticCustomError("key", "{problem}", {"key": key, "problem": problem})


class YamlPart(BaseModel):
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
                near = closest_word(name, known)
                hint = f" (did you mean {near}?)" if near else f"; known: {', '.join(known)}"
                raise key_error(name, f"unknown key{hint}")
        return value

    def refuse(self, problem: str, *keys: str) -> None:
        """Raise a complaint about the first of `keys` that is given."""
        for key in keys:
            if key in self.model_fields_set:
                raise key_error(key, problem)


def _often(value: Any) -> Any:
    return None if value == "forever" else value


Often = Annotated[Count | None, BeforeValidator(_often)]
"""A number of times, or `forever` (None)."""


PartT = TypeVar("PartT", bound=YamlPart)


def read_values(kind: type[PartT], path: Path) -> tuple[PartT, FileValues]:
    """Return the values of a file, and their lines. Raises `UsageError` with file, line and key."""
    file = yaml_values(path, read_text(path), literal=True)
    try:
        return kind.model_validate(file.data), file
    except ValidationError as error:
        raise _complaint(file, error) from error


def _complaint(file: FileValues, error: ValidationError) -> SettingsError:
    """Return the first complaint about the values of `file`, with its line and key."""
    detail = error.errors(include_url=False)[0]
    place, kind, context = detail["loc"], detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return file.error(place[:-1], f"{place[-1]} is missing")
    if kind == "key":
        return file.error((*place, context["key"]), context["problem"].rstrip("."))
    if kind == "value_error":
        return file.error(place, str(context["error"]).rstrip("."))
    if kind == "literal_error":
        allowed = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        return file.error(place, f"{detail['input']} is none of {allowed}")
    if isinstance(context.get("ge"), float):
        kind = "float"
    return file.error(place, _WANTED.get(kind.partition("_")[0], detail["msg"]))


_WANTED = {
    "too": "holds no entry",
    "list": "must be a list",
    "bool": "must be true or false",
    "float": "must be a number of seconds",
    "finite": "must be a number of seconds",
    "int": "must be a whole number",
    "greater": "must be a whole number that is large enough",
    "less": "must be a smaller number",
}
