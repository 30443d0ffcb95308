"""`recall_history`: what compaction shortened can still be read, word for word."""

from __future__ import annotations

from typing import Protocol

from pydantic import Field

from kogniterm.errors import ToolError
from kogniterm.tools.base import Arguments, SchemaTool


class HistoryPort(Protocol):
    """The session's whole past."""

    def search(self, words: str) -> str:
        """The entries that hold `words`, newest first, with their numbers; empty if none does."""

    def entry(self, number: int) -> str:
        """The full text of one entry. Raises `ToolError` when there is none."""


class HistoryArguments(Arguments):
    """Search, or read one entry."""

    words: str = Field(default="", max_length=200, description="search")
    entry: int | None = Field(default=None, ge=1, description="its number")


def recall_history(history: HistoryPort) -> SchemaTool[HistoryArguments]:
    """The tool over one session's journal."""

    async def run(arguments: HistoryArguments) -> str:
        if arguments.entry is not None:
            return history.entry(arguments.entry)
        if not arguments.words.strip():
            raise ToolError("Give words to search for, or the number of an entry.")
        found = history.search(arguments.words.strip())
        return found or f"Nothing earlier in this session holds {arguments.words!r}."

    return SchemaTool(
        "recall_history",
        "Search this session's past, also what was summarised, or read an entry.",
        HistoryArguments,
        run,
    )
