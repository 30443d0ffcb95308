"""The texts that a model reads as instructions: Markdown files, from the package or the user.

docs/prompts.md describes the files. A file is one text, or several below headings `## name`; a
comment in front of a text says when it is used and names its variables. The package carries the
files as `kogniterm/_prompts`; a checkout has them in `prompts/` beside the package. A file of the
same name in `prompts/` of the user's configuration folder takes the place of what it holds. The
working directory plays no part, so a hostile folder cannot replace a text.

`use` puts the user's texts in force for the whole process, which has one session at a time. A
session keeps in its journal what it began with.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kogniterm.errors import SettingsError
from kogniterm.settings.user_files import read_text
from kogniterm.text.spelling import closest_word
from kogniterm.text.visible import whole
from kogniterm.types import ToolSpec

_COMMENT = re.compile(r"\s*<!--(.*?)-->", re.DOTALL)
_HEADING = re.compile(r"^## ([a-z][a-z0-9_]*)[ \t]*\n", re.MULTILINE)
_VARIABLE = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_DECLARED = re.compile(r"^Variables: (.*)$", re.MULTILINE)
_KEEP = re.compile(r"^Keep: (.*)$", re.MULTILINE)
_COPIED = re.compile(r"^Copied from the shipped text ([0-9a-f]{12})\b", re.MULTILINE)
_ARGUMENT = re.compile(r"^- ([a-z_.]+): (.+)$", re.MULTILINE)

MOST_BYTES = 200_000


class PromptText(NamedTuple):
    """One text, with the variables that are filled in and the words that safety rests on."""

    text: str
    variables: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    @property
    def used(self) -> tuple[str, ...]:
        """The variables in the text, each once."""
        return tuple(dict.fromkeys(_VARIABLE.findall(self.text)))


class PromptFile(NamedTuple):
    """A file with its texts by name; a file that is one text has it under ""."""

    name: str
    path: Path
    source: str
    texts: Mapping[str, PromptText]

    @property
    def digest(self) -> str:
        """A short digest of its content, which a copy of it carries."""
        return hashlib.sha256(self.source.strip().encode()).hexdigest()[:12]

    @property
    def copied_from(self) -> str:
        """The digest of the shipped file that this one was copied from; "" when unknown."""
        found = _COPIED.search(self.source)
        return found[1] if found else ""

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for one in self.texts.values() for name in one.variables))


_own: Mapping[str, PromptFile] = {}
"""The user's files in force, by name."""

_described: dict[str, tuple[ToolSpec, ToolSpec]] = {}
"""Tools with the descriptions in force, by name: the graph asks for them several times a step."""


def text(name: str, **values: object) -> str:
    """Return the text in force called `name` (FILE, or FILE.TEXT) with its variables filled in.

    Raises `KeyError` for an unknown name, and for a variable without a value.
    """
    return whole(_VARIABLE.sub(lambda match: str(values[match[1]]), prompt(name).text))


def occurs(name: str, said: str) -> bool:
    """Return whether `said` holds the text in force called `name`, whatever its variables were."""
    parts = _VARIABLE.split(prompt(name).text)[::2]
    return re.search(".*?".join(map(re.escape, parts)), said, re.DOTALL) is not None


def prompt(name: str) -> PromptText:
    """Return the text in force called `name`, with its variables open. Raises `KeyError`."""
    file, _, part = name.partition(".")
    own = _own.get(file)
    if own is not None and part in own.texts:
        return own.texts[part]
    return shipped_files()[file].texts[part]


def describe_tool(spec: ToolSpec) -> ToolSpec:
    """Return a tool with the descriptions in force, of itself and of its arguments.

    Raises `SettingsError` for an argument that the tool does not have.
    """
    known = _described.get(spec.name)
    if known is not None and known[0] is spec:
        return known[1]
    description, arguments = of_tool(spec.name)
    parameters: Any = _copy_value(spec.parameters)
    for path, said in arguments.items():
        found: Any = parameters
        for part in path.split("."):
            found = found.get("items", found).get("properties", {}).get(part)
            if found is None:
                raise _no_argument(spec.name, path)
        found["description"] = said
    told = spec._replace(description=description, parameters=parameters)
    _described[spec.name] = (spec, told)
    return told


def of_tool(name: str) -> tuple[str, Mapping[str, str]]:
    """Return the description in force of a tool, and those of its arguments by name.

    A tool that prompts/tools.md does not name has none.
    """
    if name not in shipped_files()["tools"].texts:
        return "", {}
    whole = prompt(f"tools.{name}").text
    first = _ARGUMENT.search(whole)
    arguments = {found[1]: found[2].strip() for found in _ARGUMENT.finditer(whole)}
    return whole[: first.start() if first else None].strip(), arguments


def argument_schema(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments with the descriptions in force.

    The keys stand in pydantic's order. Raises `SettingsError` as `described` does.
    """
    whole: dict[str, Any] = _copy_value(schema)
    for argument, said in of_tool(name)[1].items():
        known = whole.get("properties", {})
        if argument not in known:
            raise _no_argument(name, argument)
        known[argument] = dict(sorted({**known[argument], "description": said}.items()))
    return whole


def _no_argument(tool: str, argument: str) -> SettingsError:
    own = _own.get("tools")
    return SettingsError(
        "{path}: the tool {tool} has no argument {argument}.",
        path=own.path if own is not None else "tools.md",
        tool=tool,
        argument=argument,
    )


def _copy_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy_value(item) for key, item in value.items()}
    return [_copy_value(item) for item in value] if isinstance(value, list) else value


@cache
def shipped_files() -> Mapping[str, PromptFile]:
    """Return the files of the package by name."""
    package = Path(__file__).resolve().parent
    folders = (package / "_prompts", package.parent / "prompts")
    folder = next(one for one in folders if one.is_dir())
    files = (
        _parse_file(path.stem, path, path.read_text(encoding="utf-8"))
        for path in _list_files(folder)
    )
    return {file.name: file for file in files}


def _list_files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("*.md")) if path.stem != "README")


def in_force() -> Iterator[tuple[PromptFile, PromptFile | None]]:
    """Yield each shipped file, and the user's file in force beside it."""
    for name, file in shipped_files().items():
        yield file, _own.get(name)


def use(files: Mapping[str, PromptFile]) -> None:
    """Put the user's `files` in force, and no other of theirs."""
    global _own  # noqa: PLW0603  # in force for the process, as a language is
    _own = dict(files)
    _described.clear()


def own_files(folder: Path) -> dict[str, PromptFile]:
    """Return the user's files in `folder` by name; none where there is no such folder.

    Raises `SettingsError` for what cannot be read, and for the first name, text or variable in
    them that KogniTerm does not know or that is missing.
    """
    found: dict[str, PromptFile] = {}
    for path in _list_files(folder):
        found[path.stem] = own_file(path.stem, path, read_text(path, MOST_BYTES))
    return found


def own_file(name: str, path: Path, source: str) -> PromptFile:
    """Return the user's file `name` with this content. Raises `SettingsError` as `own_files`."""
    like = shipped_files().get(name)
    if like is None:
        near = closest_word(name, list(shipped_files()))
        if near:
            raise SettingsError(
                "{path}: there is no prompt {name}. Did you mean {near}?",
                path=path, name=name, near=near,
            )  # fmt: skip
        raise SettingsError(
            "{path}: there is no prompt {name}; kogniterm config prompts lists them.",
            path=path,
            name=name,
        )
    file = _parse_file(name, path, source, like)
    for part, one in file.texts.items():
        _check(file, part, one)
    return file


def _check(file: PromptFile, part: str, one: PromptText) -> None:
    place = {"path": file.path, "place": f"{file.name}.{part}".rstrip(".")}
    if not one.text:
        raise SettingsError("{path}: the text {place} is empty.", **place)
    for name in one.used:
        if name not in one.variables:
            known = ", ".join(f"{{{known}}}" for known in one.variables)
            if not known:
                raise SettingsError(
                    "{path}: {place} has no variables, but uses {name}.",
                    **place, name=f"{{{name}}}",
                )  # fmt: skip
            raise SettingsError(
                "{path}: {place} has no variable {name}; its variables: {known}.",
                **place, name=f"{{{name}}}", known=known,
            )  # fmt: skip
    for name in one.variables:
        if name not in one.used:
            raise SettingsError(
                "{path}: {place} does not use its variable {name}.", **place, name=f"{{{name}}}"
            )


def _parse_file(name: str, path: Path, source: str, like: PromptFile | None = None) -> PromptFile:
    """Return the file; `like` is the shipped one, whose variables count for a user's file."""
    source = source.replace("\r\n", "\n")
    _, rest = _comments(source)
    whole = "" in like.texts if like is not None else _HEADING.match(rest.lstrip()) is None
    parts = [("", source)] if whole else list(_below_headings(path, rest))
    texts: dict[str, PromptText] = {}
    for part, body in parts:
        if part in texts or (like is not None and part not in like.texts):
            known = ", ".join(like.texts if like is not None else texts)
            raise SettingsError(
                "{path}: {part} is no text of {name}, or stands there twice; its texts: {known}.",
                path=path, part=part, name=name, known=known,
            )  # fmt: skip
        one = _prompt(body)
        if like is not None:
            shipped_one = like.texts[part]
            one = PromptText(one.text, shipped_one.variables, shipped_one.keep)
        texts[part] = one
    return PromptFile(name, path, source, texts)


def _below_headings(path: Path, source: str) -> Iterator[tuple[str, str]]:
    pieces = _HEADING.split(source)
    if pieces[0].strip():
        raise SettingsError(
            "{path}: text stands before the first heading; begin with a line such as ## {name}.",
            path=path,
            name="plan_mode",
        )
    return zip(pieces[1::2], pieces[2::2], strict=True)


def _prompt(body: str) -> PromptText:
    said, rest = _comments(body)
    declared = _DECLARED.search(said)
    return PromptText(
        rest.strip(),
        tuple(_VARIABLE.findall(declared[1])) if declared else (),
        tuple(words.strip() for words in _KEEP.findall(said)),
    )


def _comments(body: str) -> tuple[str, str]:
    """Return the comments that `body` begins with, and the rest."""
    said = ""
    while (comment := _COMMENT.match(body)) is not None:
        said, body = f"{said}\n{comment[1]}", body[comment.end() :]
    return said, body


def without_safety(file: PromptFile) -> list[str]:
    """Return the words that safety rests on and that the user's file leaves out."""
    return [
        words
        for one in file.texts.values()
        for words in one.keep
        if " ".join(words.split()).lower() not in " ".join(one.text.split()).lower()
    ]


def to_edit(name: str) -> str:
    """Return the shipped file `name` as the user's copy begins. Raises `KeyError`."""
    file = shipped_files()[name]
    return f"<!--\nCopied from the shipped text {file.digest}.\n-->\n{file.source}"
