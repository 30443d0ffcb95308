"""The parts that updates and questions are made of: texts, diffs, kinds of tools, plans."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    PlanEntry,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCallLocation,
    ToolKind,
)

from kogniterm.runtime.questions.approval_facts import Say
from kogniterm.text.file_text import NO_NEWLINE
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean, code_block
from kogniterm.types import ActionRequest, Phrase, Plan, PlanStep

Content: TypeAlias = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent
_MOST_HUNKS = 50
_MOST_SHOWN = 20_000
"""Characters of one text that a tool call shows; the journal has the rest."""

_KINDS: Mapping[str, ToolKind] = {
    "execute_command": "execute",
    "edit_file": "edit",
    "write_file": "edit",
    "read_file": "read",
    "recall_history": "read",
    "recall": "search",
    "search_text": "search",
    "find_files": "search",
    "find_tools": "search",
    "web_search": "fetch",
    "web_fetch": "fetch",
    "github": "fetch",
    "make_plan": "think",
    "delegate": "think",
    "complete_step": "think",
    "end_turn": "think",
    "calculate": "think",
}
_OF_EFFECT: Mapping[str, ToolKind] = {
    "command": "execute", "hosts": "execute", "edit": "edit", "network": "fetch",
}  # fmt: skip


def tool_kind(name: str, effect: str = "") -> ToolKind:
    """Return the category that the protocol has for a tool."""
    return _KINDS.get(name) or _OF_EFFECT.get(effect, "other")


def text_block(text: str) -> TextContentBlock:
    """Return `text` as content; half characters, which cannot be sent, are replaced."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return TextContentBlock(type="text", text=whole)


def fence_text(text: str, language: str = "") -> ContentToolCallContent:
    """Return `text` as a block of code: clients draw Markdown, and nothing in it is any."""
    shown = clean(text)
    if len(shown) > _MOST_SHOWN:
        half = _MOST_SHOWN // 2
        shown = f"{shown[:half]}\n[…]\n{shown[-half:]}"
    return ContentToolCallContent(type="content", content=text_block(code_block(shown, language)))


def whole_fenced(text: str, language: str = "") -> ContentToolCallContent:
    """Return `text` as a block of code, however long it is."""
    return ContentToolCallContent(type="content", content=text_block(code_block(text, language)))


def locations(request: ActionRequest) -> list[ToolCallLocation]:
    """Return the file that an edit changes."""
    hunks = _hunks(request.detail)
    return [ToolCallLocation(path=path, line=line) for path, line, _old, _new in hunks[:1]]


def diffs(request: ActionRequest) -> list[Content]:
    """Return the changes of an edit, one for each place in its file; empty for other actions."""
    found = _hunks(request.detail)
    if len(found) > _MOST_HUNKS or (request.detail and not found):
        return [whole_fenced(request.detail, "diff")]
    return [
        FileEditToolCallContent(type="diff", path=path, old_text=old, new_text=new)
        for path, _line, old, new in found
    ]


def _hunks(diff: str) -> list[tuple[str, int, str | None, str]]:
    """Return path, first line, text before (None for a new file) and after, of each hunk."""
    lines = diff.split("\n")
    if len(lines) < 3 or not lines[0].startswith("--- ") or not lines[1].startswith("+++ "):
        return []
    path, created = lines[1][4:], lines[0] == "--- /dev/null"
    found: list[tuple[str, int, str | None, str]] = []
    old: list[str] = []
    new: list[str] = []
    begin, sign = 0, ""
    for line in [*lines[2:], "@@"]:
        if not line.startswith("@@"):
            sign, text = (sign, line) if line == NO_NEWLINE else (line[:1], line[1:])
            if sign in ("-", " "):
                old.append(text)
            if sign in ("+", " "):
                new.append(text)
            continue
        if old or new:
            before = None if created else "\n".join(old) + "\n"
            found.append((path, begin, before, "\n".join(new) + "\n"))
        at = re.match(r"@@ -\d+(?:,\d+)? \+(\d+)", line)
        begin, old, new = int(at[1]) if at else 0, [], []
    return found


_STATUS: Mapping[str, Literal["pending", "in_progress", "completed"]] = {
    "pending": "pending",
    "active": "in_progress",
}


def plan_entries(plan: Plan, say: Say) -> list[PlanEntry]:
    """Return the steps of a plan; the protocol has no status for one that failed or was skipped."""
    return [
        PlanEntry(
            content=clean(_step(step, say)),
            priority="medium",
            status=_STATUS.get(step.status, "completed"),
        )
        for step in plan.walk()
    ]


def _step(step: PlanStep, say: Say) -> str:
    words = {"step": f"{step.id}. {one_line(step.what, 400)}"}
    if step.status == "failed":
        return say(Phrase("Failed: {step}", words))
    if step.status == "skipped":
        return say(Phrase("Skipped: {step}", words))
    return words["step"]


def join_paragraphs(parts: Sequence[str]) -> str:
    """Return paragraphs of a message."""
    return "\n\n".join(part.strip() for part in parts if part.strip())


def first_line(text: str) -> str:
    """Return the first line of `text`, with an ellipsis where more of it follows."""
    line, _break, rest = text.strip().partition("\n")
    return f"{line[:198]} …" if rest or len(line) > 200 else line
