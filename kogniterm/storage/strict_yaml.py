"""YAML files that users write by hand, such as scripts, read strictly with the line of every key.

A scalar comes as the text that stands in the file, so that `run: yes` is the command `yes` and not
a boolean; `plain` gives its value as YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

from kogniterm.errors import UsageError, why
from kogniterm.text.spelling import closest_word
from kogniterm.types import Phrase

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


class YamlFile:
    """The values of a file, and where they stand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data: Any = None
        self.lines: dict[Place, int] = {}

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
                hint = f"did you mean {near}?" if near else f"known: {', '.join(known)}."
                raise key_error(name, f"unknown key; {hint}")
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


def complaint(file: YamlFile, error: ValidationError) -> UsageError:
    """Return the first complaint about the values of `file`, with its line and key."""
    detail = error.errors(include_url=False)[0]
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
    "too": "holds no entry.",
    "list": "must be a list.",
    "bool": "must be true or false.",
    "float": "must be a number of seconds.",
    "finite": "must be a number of seconds.",
    "int": "must be a whole number.",
    "greater": "must be a whole number that is large enough.",
}
