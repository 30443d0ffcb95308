"""Instruction files as the model gets them: the user's own, and those of a trusted project.

Files of the workspace and of the folders above it are in force from the start. Those of folders
below apply to the work there: `NestedInstructions` gives them when the model first works in one.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage

from kogniterm import prompts
from kogniterm.agent.messages import artifact_of, note
from kogniterm.paths import Paths
from kogniterm.runtime.trust.project_places import ProjectFile, readable_text, with_imports
from kogniterm.sessions.records import NESTED
from kogniterm.types import Phrase

MOST_TEXT = 128 * 1024
"""Characters of all instruction files in force; what exceeds them is left out, with a notice."""
_LONGEST_COMMAND = 20_000
_WORDS = re.compile(r"[^\s;&|<>()]+")


def in_force(paths: Paths, files: Sequence[ProjectFile]) -> str:
    """Return the instructions for the model: the user's own, then those of trusted `files`."""
    return "\n\n".join(filter(None, [_of_user(paths), instructions_text(files)]))


def _of_user(paths: Paths) -> str:
    file = paths.extensions.instructions
    read = partial(readable_text, file.parent)
    text = read(file.name)
    if text is None or not text.strip():
        return ""
    blocks = [_block("user_instructions", str(file), text)]
    for name in with_imports(file.name, text, read):
        blocks.append(_block("user_instructions", str(file.parent / name), read(name) or ""))
    return "\n\n".join(blocks)


def instructions_text(files: Sequence[ProjectFile]) -> str:
    """Return trusted instruction files for the model, quoted as data of the project."""
    left = dict.fromkeys(left_out(files))
    blocks = (one for one in _in_order(files) if one.name not in left)
    return "\n\n".join(_block("project_instructions", one.name, one.text) for one in blocks)


def left_out(files: Sequence[ProjectFile]) -> tuple[str, ...]:
    """Return the names of the instruction files in force that are too much, the last ones."""
    size, names = 0, []
    for one in _in_order(files):
        size += len(one.text)
        if size > MOST_TEXT:
            names.append(one.name)
    return tuple(names)


def too_much(files: Sequence[ProjectFile]) -> tuple[Phrase, ...]:
    """Return a notice about instruction files that are left out, if any are."""
    names = ", ".join(left_out(files))
    values = {"names": names, "most": MOST_TEXT // 1024}
    text = Phrase("Instruction files may have {most} KB in all; not used: {names}.", values)
    return (text,) if names else ()


def _in_order(files: Sequence[ProjectFile]) -> list[ProjectFile]:
    """Return the files in force, each followed by those it imports, every one once."""
    found: dict[str, ProjectFile] = {}
    for one in files:
        if one.kind == "instructions":
            for part in _with_imported(one, files):
                found.setdefault(part.name, part)
    return [one for one in found.values() if one.text.strip()]


def _with_imported(file: ProjectFile, files: Sequence[ProjectFile]) -> Iterator[ProjectFile]:
    imported = {one.name: one for one in files if one.kind == "import"}
    yield file
    for name in with_imports(
        file.name, file.text, lambda one: imported[one].text if one in imported else None
    ):
        yield imported[name]


def _block(element: str, name: str, text: str) -> str:
    shown = name.replace('"', "'").replace("<", "‹")
    return f'<{element} file="{shown}">\n{text.strip()}\n</{element}>'


class NestedInstructions(NamedTuple):
    """The trusted instruction files of folders below the workspace, which is given resolved."""

    workspace: str = ""
    files: tuple[ProjectFile, ...] = ()

    def due(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return notes with the files that apply to the work in `messages` and are not there yet.

        The nearest file comes last.
        """
        nested = [one for one in self.files if one.kind == "nested" and one.text.strip()]
        if not nested:
            return []
        nested.sort(key=lambda one: one.name.count("/"))
        given = {message.additional_kwargs.get(NESTED) for message in messages}
        wanted = [one for one in nested if _key(one) not in given]
        paths = set(self._worked_on(messages)) if wanted else set()
        return [self._note(one) for one in wanted if _applies(one, paths)]

    def _note(self, file: ProjectFile) -> BaseMessage:
        parts = [one for one in _with_imported(file, self.files) if one.text.strip()]
        text = "\n\n".join(_block("project_instructions", one.name, one.text) for one in parts)
        message = note(prompts.text("decide_action.nested", folder=_folder(file), text=text))
        message.additional_kwargs[NESTED] = _key(file)
        return message

    def _worked_on(self, messages: Sequence[BaseMessage]) -> Iterator[str]:
        """Yield the paths, relative to the workspace, that the model's calls have named."""
        cwd = self.workspace
        ends = {getattr(one, "tool_call_id", ""): artifact_of(one).get("cwd") for one in messages}
        for message in messages:
            for call in message.tool_calls if isinstance(message, AIMessage) else ():
                before, cwd = cwd, str(ends.get(call["id"]) or cwd)
                for name in (*_named_in(call["args"]), *({cwd} - {self.workspace})):
                    for folder in {before, cwd, self.workspace}:
                        path = posixpath.normpath(posixpath.join(folder, name))
                        if path.startswith(f"{self.workspace}/"):
                            yield path.removeprefix(f"{self.workspace}/")


def _key(file: ProjectFile) -> str:
    return f"{file.name} {file.digest}"


def _folder(file: ProjectFile) -> str:
    return posixpath.dirname(file.name).removesuffix("/.claude")


def _applies(file: ProjectFile, paths: set[str]) -> bool:
    folder = _folder(file)
    return any(path == folder or path.startswith(f"{folder}/") for path in paths)


def _named_in(arguments: Mapping[str, object]) -> Iterator[str]:
    """Yield the words of a call that may be paths: its path, and the words of its command."""
    path, command = arguments.get("path"), arguments.get("command")
    if isinstance(path, str):
        yield path
    if not isinstance(command, str):
        return
    text = command[:_LONGEST_COMMAND]
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    for word in words:
        for part in _WORDS.findall(word):
            yield part.rpartition("=")[2]
