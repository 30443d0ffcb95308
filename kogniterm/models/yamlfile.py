"""A YAML file read strictly: every complaint names the file, the line and the key.

`Node` wraps a composed YAML node and hands out checked values. Scalars asked for as text are
taken as they stand in the file, so that `run: yes` is the command `yes` and not a boolean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kogniterm.errors import UsageError

if TYPE_CHECKING:
    import yaml

Value = TypeVar("Value")
TEXT_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "bool", "int", "float", "timestamp", "null")
)
KNOWN_TAGS = TEXT_TAGS | {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
DEEPEST = 40
"""Levels of nesting; only an alias that contains itself goes deeper."""


def read_text(path: Path, what: str) -> str:
    """The text of `path`; `what` names the kind of file in complaints. Raises `UsageError`."""
    values: dict[str, object] = {"what": what, "path": path}
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise UsageError("The {what} {path} does not exist.", **values) from error
    except IsADirectoryError as error:
        raise UsageError("The {what} {path} is a folder, not a file.", **values) from error
    except OSError as error:
        values["detail"] = error.strerror or error
        raise UsageError("The {what} {path} cannot be read ({detail}).", **values) from error
    except UnicodeDecodeError as error:
        values["byte"] = error.start
        raise UsageError("The {what} {path} is not UTF-8 (byte {byte}).", **values) from error


def read_yaml(path: Path, what: str) -> Node:
    """The root of the YAML file at `path`. Raises `UsageError`."""
    import yaml

    text = read_text(path, what)
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            raise UsageError("{path} is empty.", path=path)
        return Node(str(path), "", root, loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UsageError(
            "{path}:{line}: this is not YAML: {detail}.",
            path=path,
            line=mark.line + 1 if mark else 1,
            detail=error.problem or error.context or "cannot be read",
        ) from error
    except yaml.YAMLError as error:
        detail = " ".join(str(error).split())
        raise UsageError("{path} is not YAML: {detail}.", path=path, detail=detail) from error


@dataclass(frozen=True, slots=True)
class Node:
    """One value in the file, knowing where it stands; `key` is its dotted name."""

    path: str
    key: str
    node: yaml.Node
    loader: yaml.SafeLoader
    depth: int = 0

    def error(self, template: str, **values: object) -> UsageError:
        """A complaint about this value: `template` continues after file, line and key."""
        line = self.node.start_mark.line + 1
        if not self.key:
            return UsageError("{path}:{line}: " + template, path=self.path, line=line, **values)
        return UsageError(
            "{path}:{line}: {key}: " + template, path=self.path, line=line, key=self.key, **values
        )

    def mapping(self, allowed: Sequence[str]) -> dict[str, Node]:
        """The entries of a mapping whose keys are all `allowed` and stand once each."""
        import yaml

        if not isinstance(self.node, yaml.MappingNode):
            raise self.error("must be a mapping of {allowed}.", allowed=", ".join(allowed))
        found: dict[str, Node] = {}
        for key_node, value_node in self.node.value:
            name = str(key_node.value)
            child = self._child(name, key_node)
            if name not in allowed:
                close = get_close_matches(name, allowed, n=1)
                if close:
                    raise child.error("unknown key; did you mean {close}?", close=close[0])
                raise child.error("unknown key; known: {known}.", known=", ".join(allowed))
            if name in found:
                raise child.error("stands here twice.")
            found[name] = self._child(name, value_node)
        return found

    def items(self) -> list[Node]:
        """The items of a list."""
        import yaml

        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error("must be a list.")
        return [self._child(f"[{number}]", item) for number, item in enumerate(self.node.value, 1)]

    @property
    def scalar(self) -> bool:
        """Whether this is one plain value, not a list or a mapping."""
        import yaml

        return isinstance(self.node, yaml.ScalarNode)

    def text(self) -> str:
        """The value as it is written."""
        if not self.scalar or self.node.tag not in TEXT_TAGS:
            raise self.error("must be text.")
        return str(self.node.value)

    def choice(self, allowed: Sequence[str]) -> str:
        """One of `allowed`."""
        value = self.text()
        if value not in allowed:
            raise self.error(
                "{value} is none of {allowed}.", value=value, allowed=", ".join(allowed)
            )
        return value

    def whole(self, least: int = 0) -> int:
        """A whole number of at least `least`."""
        value = self.plain()
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error("must be a whole number of at least {least}.", least=least)
        return value

    def seconds(self) -> float:
        """A number of seconds, not negative."""
        value = self.plain()
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise self.error("must be a number of seconds.")
        return float(value)

    def flag(self) -> bool:
        """True or false."""
        value = self.plain()
        if not isinstance(value, bool):
            raise self.error("must be true or false.")
        return value

    def plain(self) -> Any:
        """The value as YAML means it, in what JSON knows: no dates, no sets, no binary."""
        import yaml

        if self.node.tag == "tag:yaml.org,2002:timestamp":
            return str(self.node.value)
        if self.node.tag not in KNOWN_TAGS:
            raise self.error("has the tag {tag}, which is not used here.", tag=self.node.tag)
        if isinstance(self.node, yaml.SequenceNode):
            return [item.plain() for item in self.items()]
        if isinstance(self.node, yaml.MappingNode):
            keys = [str(key.value) for key, _ in self.node.value]
            return {name: child.plain() for name, child in self.mapping(keys).items()}
        try:
            return self.loader.construct_object(self.node)
        except (yaml.YAMLError, ValueError) as error:
            raise self.error("cannot be read ({detail}).", detail=error) from error

    def map(self, convert: Callable[[str], Value], what: str) -> Value:
        """`convert` of the text; its ValueError or re.error becomes a complaint."""
        import re

        try:
            return convert(self.text())
        except (ValueError, re.error) as error:
            raise self.error("is not {what} ({detail}).", what=what, detail=error) from error

    def _child(self, name: str, node: yaml.Node) -> Node:
        """The value called `name`, or `[n]`, inside this one."""
        if self.depth >= DEEPEST:
            raise self.error("is nested too deeply.")
        key = self.key + name if name.startswith("[") else f"{self.key}.{name}".lstrip(".")
        return Node(self.path, key, node, self.loader, self.depth + 1)
