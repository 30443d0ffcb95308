"""The content of files that a conversation holds: what it read and wrote, as its messages have it.

Nothing is noted beside the messages. What a compaction, a rewind, redaction or a cut took out of
them is not held any more, a sub-agent holds what its own messages hold, and a resume changes
nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage

from kogniterm.errors import ToolError
from kogniterm.text.file_text import MORE_FROM, digest, possible_files

_NUMBERED = re.compile(r"(?m)^(\d+): ([^\n]*)$")
_NOTHING_LOST = (None, "", digest(b""))
"""Digests of what may be replaced unseen: one not known, no file, an empty file."""


def refuse_unread(
    messages: Sequence[BaseMessage], folder: str, path: str, content: str | None
) -> None:
    """Raise `ToolError` unless `messages` hold all of the file with the digest `content`.

    Their calls name files from `folder`. Whichever name they used: it is the content that counts.
    What the last reply reads, its other calls were written without.
    """
    before = messages[: max(n for n, one in enumerate(messages) if isinstance(one, AIMessage))]
    held = (digest(one) for text in _held(before, folder) for one in possible_files(text))
    if content not in _NOTHING_LOST and content not in held:
        raise ToolError(
            "Not written: this conversation does not hold all of {path} as it is now. Read all of "
            "it with read_file first; where lines are cut, secrets hidden or bytes not UTF-8, "
            "change it with edit_file, or remove it with a command before writing it anew.",
            path=path,
        )


def _held(messages: Sequence[BaseMessage], folder: str) -> Iterable[str]:
    """Return the text of each file as far as its numbered lines were read, or written since."""
    files: dict[str, dict[int, str]] = {}
    calls: dict[str | None, ToolCall] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            calls |= {call["id"]: call for call in message.tool_calls}
        call = calls.get(message.tool_call_id) if isinstance(message, ToolMessage) else None
        if call is None or getattr(message, "status", "") != "success":
            continue
        given = call["args"]
        path = os.path.normpath(Path(folder, str(given.get("path"))))
        lines = files.get(path, {})
        if call["name"] == "read_file":
            found = {int(number): line for number, line in _NUMBERED.findall(message.text)}
            last = None if MORE_FROM in message.text else max(found, default=0)
            both = sorted((lines | found).items())
            files[path] = {n: line for n, line in both if last is None or n <= last}
        elif call["name"] in ("write_file", "edit_file"):
            times = -1 if given.get("every") else 1
            edited = "\n".join(lines.values()).replace(
                str(given.get("old")), str(given.get("new")), times
            )
            text = str(given.get("content", edited)).removesuffix("\n")
            files[path] = dict(enumerate(text.split("\n"), 1))
    return ("\n".join(lines.values()) for lines in files.values())
