"""The journal as the model may look it up: what was said and observed, by record number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage

from kogniterm.errors import ToolError
from kogniterm.sessions.records import InputReceived, NodeRan, Outcome, Record

MOST = 12
AROUND = 160
"""Characters shown on each side of a hit."""

OWN = "recall_history"
"""Its own results are left out, or every search would find the searches before it."""


@dataclass(frozen=True, slots=True)
class JournalLookup:
    """See `tools.history.HistoryPort`. `records` reads the journal from a sequence number on."""

    records: Callable[[int], Iterable[Record]]

    def search(self, words: str) -> str:
        """The newest entries that hold `words`, whatever their case."""
        wanted = words.casefold()
        hits = [
            f"#{number} {_around(text, text.casefold().find(wanted), len(words))}"
            for number, text in self._entries()
            if wanted in text.casefold()
        ]
        left_out = f"\n[{len(hits) - MOST} older hits left out]" if len(hits) > MOST else ""
        return "\n".join(reversed(hits[-MOST:])) + left_out

    def entry(self, number: int) -> str:
        """The full text of record `number`."""
        for found, text in self._entries(number):
            if found == number:
                return text
            break
        raise ToolError("There is no entry {number}; search for words first.", number=number)

    def _entries(self, first: int = 1) -> Iterator[tuple[int, str]]:
        for record in self.records(first):
            text = "\n".join(filter(None, map(_text, _messages(record))))
            if text:
                yield record.seq, text


def _messages(record: Record) -> tuple[BaseMessage, ...]:
    match record.body:
        case InputReceived(message=message) | Outcome(message=message):
            return (message,)
        case NodeRan(update=update):
            return update.messages
        case _:
            return ()


def _text(message: BaseMessage) -> str:
    if message.name == OWN:
        return ""
    if isinstance(message, AIMessage):
        calls = [f"{c['name']}({c['args']})" for c in message.tool_calls if c["name"] != OWN]
        return "\n".join(filter(None, [message.text, *calls]))
    return f"{message.name or message.type}: {message.text}"


def _around(text: str, position: int, length: int) -> str:
    start, end = max(0, position - AROUND), position + length + AROUND
    return " ".join(text[start:end].split())
