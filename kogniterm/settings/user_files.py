"""Files that users write, in YAML, TOML or JSON; every fault is one sentence with file and line.

What comes out is what JSON knows: a date is the text that stands in the file, every number is
finite and has at most 64 bits, no key stands twice, and nesting and size are bounded.
"""

from __future__ import annotations

import json
import math
import os
import re
import select
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm.errors import FileValues, Place, SettingsError, UnusableValueError, why
from kogniterm.storage.folders import read_file
from kogniterm.types import Phrase

if TYPE_CHECKING:
    import yaml

LARGEST = 1_000_000
"""Bytes of a file, where its reader names no other limit."""
_DEEPEST = 100
"""Levels of nesting; an alias of YAML that contains itself goes deeper."""
_MOST_VALUES = 100_000
"""Values of a YAML file; aliases that repeat each other make more of a few lines."""
_GREATEST = 2**63
_NESTED = Phrase("it is nested too deeply")
_NO_MAPPING = Phrase("must be a mapping of names to values")
_TOO_LARGE = Phrase("a number is too large")
_STANDARD_INPUT = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_SHELL_PIPES = ("/dev/fd/", "/proc/self/fd/")
_PIECE = 65_536

Name = str | Path | Phrase


def read_text(path: Path, most: int = LARGEST) -> str:
    """Return the text of a file. Raises `SettingsError`."""
    text = read_if_there(path, most)
    if text is None:
        missing = why(FileNotFoundError(2, ""))
        raise SettingsError("{file} cannot be read: {why}.", file=path, why=missing)
    return text


def read_if_there(path: Path, most: int = LARGEST) -> str | None:
    """Return the text of a file; None where there is none. Raises `SettingsError`."""
    try:
        if str(path) in _STANDARD_INPUT:
            data = _read_input(most + 1)
        elif str(path).startswith(_SHELL_PIPES):
            # What the user's shell hands over, as in --rules <(…), is read to its end.
            with path.open("rb") as file:
                data = file.read(most + 1)
        else:
            data = read_file(path, most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError("{file} cannot be read: {why}.", file=path, why=why(error)) from error
    if len(data) > most:
        raise SettingsError("{file} is larger than {limit} kB.", file=path, limit=most // 1000)
    return decode(path, data)


def _read_input(most: int) -> bytes:
    """Return the rest of standard input, or its first `most` bytes. Raises `OSError`.

    It is not opened by its path: a socket and another user's pipe refuse that, and a file that
    somebody read from would begin anew.
    """
    data = bytearray()
    while len(data) < most:
        select.select([0], [], [])  # whoever gave it to us may read without waiting
        piece = os.read(0, min(_PIECE, most - len(data)))
        if not piece:
            break
        data += piece
    return bytes(data)


def decode(name: Name, data: bytes) -> str:
    """Return the text of a file. Raises `SettingsError` for what is not UTF-8 text."""
    wrong = data.find(b"\0")
    if wrong < 0:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            wrong = error.start
    line = data.count(b"\n", 0, wrong) + 1
    raise SettingsError("{file}, line {line}: the file is not UTF-8 text.", file=name, line=line)


# --- TOML ---------------------------------------------------------------------------------------


def toml_values(name: Name, text: str) -> FileValues:
    """Return the values of a text in TOML. Raises `SettingsError`."""
    import tomllib

    text = text.removeprefix("\ufeff")
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        line = int(found[2] or text.count("\n") + 1) if found else None
        raise _invalid(name, "TOML", error, line, found[1] if found else "") from error
    return _check_values(FileValues(name, data, _toml_lines(text)))


_LONG_TEXT = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|' r"'''.*?'''" r'|"(?:[^"\\\n]|\\.)*"|' r"'[^'\n]*'|#[^\n]*", re.DOTALL
)
_TOML_NAME = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_TOML_KEY = re.compile(
    rf"[ \t]*(\[{{0,2}})[ \t]*({_TOML_NAME}(?:[ \t]*\.[ \t]*{_TOML_NAME})*)[ \t]*[=\]]"
)


def _toml_lines(text: str) -> dict[Place, int]:
    """Return the line of each table, and of each key that begins a line."""
    bare = _LONG_TEXT.sub(lambda one: re.sub(r"[^\n]", "", one[0]) or one[0], text)
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(bare.split("\n"), 1):
        if not (found := _TOML_KEY.match(line)):
            continue
        names = tuple(one.strip("\"'") for one in re.findall(_TOML_NAME, found[2]))
        place = table + names
        if found[1]:
            place = table = _table(names, counts, is_item=found[1] == "[[")
        for length in range(1, len(place) + 1):
            lines.setdefault(place[:length], number)
    return lines


def _table(names: Place, counts: dict[Place, int], *, is_item: bool) -> Place:
    """Return the place of a table of that name: in the last item of each list on the way."""
    place: Place = ()
    for at, name in enumerate(names, 1):
        place = (*place, name)
        if is_item and at == len(names):
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = (*place, counts[place])
    return place


# --- JSON ---------------------------------------------------------------------------------------


def json_values(
    name: Name, text: str, *, comments: bool = False, mapping: bool = True
) -> FileValues:
    """Return the values of a text in JSON. Raises `SettingsError`.

    With `comments` it may have these, and trailing commas, as people write settings: both are
    blanked before the standard reader sees the text, so that line numbers stay right. Without
    `mapping` it may be any value.
    """
    text = text.removeprefix("\ufeff")
    try:
        data = _json(text)
    except (ValueError, RecursionError) as error:
        blanked = _TOKEN.sub(lambda one: _blank_token(one, text), text) if comments else text
        if blanked == text or not isinstance(error, json.JSONDecodeError):
            raise _invalid_json(name, error) from error
        try:
            data = _json(blanked)
        except (ValueError, RecursionError) as second:
            raise _invalid_json(name, second) from second
    return _check_values(FileValues(name, data), mapping=mapping)


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)


def _refuse(name: str) -> Any:
    raise UnusableValueError("{name} is no number of JSON", name=name)


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise UnusableValueError("the key {key} stands there twice", key=twice)
    return found


def _invalid_json(name: Name, error: Exception) -> SettingsError:
    line = error.lineno if isinstance(error, json.JSONDecodeError) else None
    return _invalid(name, "JSON", error, line, getattr(error, "msg", ""))


def entries_in(path: Path, text: str | None, key: str) -> dict[str, Any]:
    """Return the object that a file holds, empty for no file or an empty one.

    Raises `SettingsError` for a file to which nothing can be added below `key`.
    """
    found: dict[str, Any] = json_values(path, text).data if text and text.strip() else {}
    if not isinstance(found.get(key, {}), dict):
        needed = Phrase("it needs an object {key}, with a name for each entry", {"key": key})
        raise SettingsError("{file} was not changed: {why}.", file=path, why=needed)
    return found


def entries_data(whole: Mapping[str, Any]) -> bytes:
    text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "replace")


_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*(?:"|(?=\n)|\Z)'  # a text, in which nothing is a comment
    r"|//[^\n]*|/\*.*?(?:\*/|\Z)"
    r"|,",
    re.DOTALL,
)
_SKIPPED = re.compile(r"(?:\s|//[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)


def _blank_token(found: re.Match[str], text: str) -> str:
    token = found[0]
    if token.startswith('"'):
        return token
    if token == ",":
        after = _SKIPPED.match(text, found.end())
        end = after.end() if after is not None else found.end()
        return " " if text[end : end + 1] in ("}", "]") else token
    return re.sub(r"[^\n]", " ", token)


# --- YAML ---------------------------------------------------------------------------------------


class Scalar(str):
    """A scalar as it stands in a YAML file; `meaning` is its value."""

    meaning: Any


def plain(value: Any) -> Any:
    """Return a value with `Scalar`s as YAML means it."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.meaning if isinstance(value, Scalar) else value


def yaml_values(name: Name, text: str, *, literal: bool = False) -> FileValues:
    """Return the values of a text in YAML, of which JSON is a part. Raises `SettingsError`.

    With `literal` each scalar is a `Scalar`, so that `run: yes` is the command `yes` and not a
    boolean.
    """
    import yaml

    try:
        loader = yaml.SafeLoader(text.removeprefix("\ufeff"))
        root = loader.get_single_node()
        if root is None:
            raise SettingsError("{file} is empty.", file=name)
        lines: dict[Place, int] = {}
        file = FileValues(name, None, lines)
        data = _YamlReader(file, lines, loader, literal=literal).value(root, root, ())
        if not isinstance(data, dict):
            raise file.error((), _NO_MAPPING)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        detail = error.problem or error.context or ""
        raise _invalid(name, "YAML", error, mark.line + 1 if mark else None, detail) from error
    except (yaml.YAMLError, RecursionError) as error:
        detail = " ".join(str(error).split())
        raise _invalid(name, "YAML", error, None, detail) from error
    return FileValues(name, data if literal else plain(data), lines)


def yaml_text(data: Any, width: float = 96) -> str:
    """Return values as YAML, in their order."""
    import yaml

    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=width))


_KNOWN_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}"
    for kind in ("str", "timestamp", "value", "merge", "bool", "int", "float", "null", "map", "seq")
)
_WITH_MEANING = ("bool", "int", "float", "null")


class _YamlReader:
    """Reads the nodes of one file."""

    def __init__(
        self, file: FileValues, lines: dict[Place, int], loader: yaml.SafeLoader, *, literal: bool
    ) -> None:
        self._file, self._lines, self._loader = file, lines, loader
        self._literal = literal

    def value(self, node: yaml.Node, named: yaml.Node, place: Place) -> Any:
        """Return the value of `node`, whose line is that of `named`: its key, where it has one."""
        import yaml

        self._lines[place] = named.start_mark.line + 1
        if len(place) > _DEEPEST:
            raise self._file.error(place[:1], _NESTED)
        if len(self._lines) > _MOST_VALUES:
            raise self._file.error((), Phrase("it has too many values"))
        if node.tag not in _KNOWN_TAGS:
            unused = Phrase("the tag {tag} is not used here", {"tag": node.tag})
            raise self._file.error(place, unused)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, item, (*place, at)) for at, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return dict(self._items(node, place))
        scalar = Scalar(node.value)
        scalar.meaning = str(scalar)
        if node.tag.endswith(_WITH_MEANING):
            try:
                scalar.meaning = _number(self._loader.construct_object(node))
            except ValueError as error:
                if not self._literal:
                    raise self._file.error(place, _reason(error)) from error
        return scalar

    def _items(self, node: yaml.MappingNode, place: Place) -> Iterator[tuple[str, Any]]:
        for key, value in node.value:
            if not isinstance(key.value, str):
                line = {"file": self._file.name, "line": key.start_mark.line + 1}
                raise SettingsError("{file}, line {line}: a key must be text.", **line)
            inner = (*place, key.value)
            if inner in self._lines:
                self._lines[inner] = key.start_mark.line + 1
                raise self._file.error(inner, Phrase("stands here twice"))
            yield key.value, self.value(value, key, inner)


# --- faults -------------------------------------------------------------------------------------


def _invalid(
    name: Name, kind: str, error: Exception, line: int | None, detail: str
) -> SettingsError:
    """Return the error about a text that is not of its `kind`; `detail` is the reader's reason."""
    reason: object = detail if line is not None else _reason(error)
    values = {"file": name, "kind": kind, "why": reason, "line": line}
    if line is None:
        return SettingsError("{file} is not valid {kind}: {why}.", **values)
    return SettingsError("{file}, line {line}: not valid {kind}: {why}.", **values)


def _reason(error: Exception) -> Phrase:
    if isinstance(error, UnusableValueError):
        return error.text
    if isinstance(error, RecursionError):
        return _NESTED
    # Python's own words about many digits name one of its functions.
    many = isinstance(error, ValueError) and "digits" in str(error)
    return _TOO_LARGE if many else Phrase("{why}", {"why": " ".join(str(error).split())})


def _number(value: Any) -> Any:
    """Return a number that JSON knows; another value as it is. Raises `UnusableValueError`."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UnusableValueError("must be a finite number")
    if isinstance(value, int) and abs(value) > _GREATEST:
        raise UnusableValueError(_TOO_LARGE.template)
    return value


def _check_values(file: FileValues, *, mapping: bool = True) -> FileValues:
    """Return the file with values that JSON knows. Raises `SettingsError` for others."""
    if mapping and not isinstance(file.data, dict):
        raise file.error((), _NO_MAPPING)
    return FileValues(file.name, _known(file, file.data, ()), file.lines)


def _known(file: FileValues, value: Any, place: Place) -> Any:
    if len(place) > _DEEPEST:
        raise file.error(place[:1], _NESTED)
    if isinstance(value, Mapping):
        return {key: _known(file, item, (*place, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_known(file, item, (*place, at)) for at, item in enumerate(value)]
    try:
        return _number(value) if isinstance(value, str | int | float | None) else str(value)
    except UnusableValueError as error:
        raise file.error(place, error.text) from error
