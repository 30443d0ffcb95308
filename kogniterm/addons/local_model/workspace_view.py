"""The view of the workspace that the model has before it writes a command.

A small model invents names and columns that it cannot see. So a turn begins with the read-only
tools that every model has: one call lists the files, the next one reads the first lines of the
files that the request names. Both are calls like any other: the policy judges them, the user sees
them, and secrets in their results are masked. A file with secrets would need a question first, so
it is not read.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.text.language import plain

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

LISTS, READS = "find_files", "read_file"
MOST_NAMES = 20
MOST_INSIDE = 12
MOST_READ = 3
HEAD_LINES = 3
MOST_CHARACTERS = 100
"""Characters of one line: what is shown costs time, and the model attends to little."""
_SHORTEST_STEM = 3
_SEPARATOR = re.compile(r"[,;\t]")
_NUMBERED = re.compile(r"\d+: (.*)")


class Looks(NamedTuple):
    """The results of a turn's looks: the files listed, and the first lines by file.

    `files` is None before the listing. A file that could not be read has no lines.
    """

    files: tuple[str, ...] | None = None
    heads: Mapping[str, tuple[str, ...]] = {}


def looks_of(messages: Sequence[BaseMessage]) -> Looks:
    """Return what the calls in `messages` have found so far."""
    asked: dict[str, Mapping[str, Any]] = {}
    files: tuple[str, ...] | None = None
    heads: dict[str, tuple[str, ...]] = {}
    for message in messages:
        for call in getattr(message, "tool_calls", ()):
            asked[str(call["id"])] = call
        call = asked.get(str(getattr(message, "tool_call_id", "")), {})
        read = getattr(message, "status", "success") != "error"
        lines = message.text.splitlines() if read else []
        if call.get("name") == LISTS:
            files = tuple(line for line in lines if not line.startswith("["))
        elif call.get("name") == READS:
            numbered = filter(None, map(_NUMBERED.match, lines))
            heads[str(call["args"]["path"])] = tuple(one[1][:MOST_CHARACTERS] for one in numbered)
    return Looks(files, heads)


def calls_due(
    request: str, looks: Looks, offered: Collection[str]
) -> list[tuple[str, dict[str, Any]]]:
    """Return the next looks that `request` needs, as tools and their arguments."""
    if looks.files is None:
        return [(LISTS, {"glob": "*"})] if LISTS in offered else []
    if looks.heads or READS not in offered:
        return []
    return [
        (READS, {"path": file, "lines": HEAD_LINES}) for file in _files_of(request, looks.files)
    ]


def _files_of(request: str, files: Sequence[str]) -> list[str]:
    """Return the text files that `request` names, those with their whole names first."""
    words = plain(request)
    whole = [file for file in files if _stands_in(PurePosixPath(file).name, words)]
    stems = [file for file in files if file not in whole and _stem_stands_in(file, words)]
    texts = (file for file in (*whole, *stems) if _may_be_text(file) and not is_secret(f"/{file}"))
    return list(islice(texts, MOST_READ))


def _stem_stands_in(file: str, words: str) -> bool:
    stem = PurePosixPath(file).stem
    return len(stem) >= _SHORTEST_STEM and _stands_in(stem, words)


def _stands_in(name: str, words: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(plain(name))}(?![\w-])", words) is not None


def _may_be_text(file: str) -> bool:
    kind, packed = mimetypes.guess_type(file)
    return packed is None and (kind is None or kind.startswith("text/") or kind in _TEXTS)


_TEXTS = frozenset({"application/json", "application/javascript", "application/x-sh"})


def columns(looks: Looks) -> dict[str, int]:
    """Return the numbers of the columns in the files that were read, from 1, by their titles."""
    found: dict[str, int] = {}
    for head in looks.heads.values():
        titles = _SEPARATOR.split(head[0]) if head else []
        if len(titles) > 1:
            found |= {plain(title).strip(' "'): n for n, title in enumerate(titles, 1)}
    return found


def description(request: str, looks: Looks) -> str:
    """Return what was seen, as lines for the model; empty without anything."""
    words = plain(request)
    top: dict[str, list[str]] = {}
    for file in looks.files or ():
        first, *rest = PurePosixPath(file).parts
        top.setdefault(f"{first}/" if rest else first, []).extend(rest[:1] if rest else ())
    lines = [f"Files here: {_some(list(top), MOST_NAMES)}"] if top else []
    for name, inside in top.items():
        if inside and _stands_in(name.removesuffix("/"), words):
            lines.append(f"In {name}: {_some(list(dict.fromkeys(inside)), MOST_INSIDE)}")
    for file, head in looks.heads.items():
        if head:
            lines.append("\n".join([f"{file} begins:", *head]))
    return "\n".join(lines)


def _some(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")
