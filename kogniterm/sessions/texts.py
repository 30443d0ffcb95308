"""What of a record a person would search for, and how words are told apart.

Both databases index and search words made here, so they find the same sessions.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from kogniterm.sessions.records import (
    Compacted,
    InputReceived,
    NodeRan,
    Outcome,
    RecordBody,
)

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

CLIP = 20_000
"""Characters of one record that are indexed; beyond that lies raw output nobody searches for."""

EXCERPT = 120
_WORD = re.compile(r"[^\W_]+")


def messages_of(body: RecordBody) -> tuple[BaseMessage, ...]:
    """The messages a record adds to the history; those of sub-agents are not part of it."""
    match body:
        case InputReceived(message=message) | Outcome(message=message, agent=""):
            return (message,)
        case NodeRan(update=update) if not update.agent:
            return update.messages
        case Compacted(messages=messages):
            return messages
        case _:
            return ()


def text_of(body: RecordBody) -> str:
    """The searchable text of a record: what was said, proposed and observed; often nothing."""
    match body:
        case InputReceived(input=given):
            parts = [given.text, given.data or ""]
        case NodeRan(update=update):
            parts = [part for message in update.messages for part in _message_parts(message)]
        case Outcome(message=message):
            parts = _message_parts(message)
        case _:
            return ""
    return "\n".join(part for part in parts if part)[:CLIP]


def _message_parts(message: BaseMessage) -> list[str]:
    calls = getattr(message, "tool_calls", ())
    arguments = [
        value for call in calls for value in call["args"].values() if isinstance(value, str)
    ]
    return [content_of(message), *arguments]


def content_of(message: BaseMessage) -> str:
    """The text of a message, whether its content is a string or a list of blocks."""
    if isinstance(message.content, str):
        return message.content
    blocks = (block if isinstance(block, str) else block.get("text") for block in message.content)
    return "\n".join(block for block in blocks if isinstance(block, str))


def is_image(block: object) -> bool:
    """Whether this is the plain form of an image among a message's content."""
    return isinstance(block, dict) and block.get("type") == "image" and "base64" in block


def storable(text: str) -> str:
    """`text` as both databases take it: no NUL, and stray bytes of a file name escaped."""
    return (
        text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
        .encode("utf-8", "backslashreplace")
        .decode()
    )


def fold_case(text: str) -> str:
    """`text` without case and accents, one character for one where that is possible."""
    return "".join(_folded(character) for character in text)


def holds_words(text: str, words: str) -> bool:
    """Whether `text` holds each of the `words`, or parts of words, whatever their case."""
    folded = fold_case(text)
    return all(word in folded for word in fold_case(words).split())


def _folded(character: str) -> str:
    if character.isascii():
        return character.lower()
    base = "".join(
        one for one in unicodedata.normalize("NFKD", character) if not unicodedata.combining(one)
    ).casefold()
    return base if len(base) == 1 else character


def words_of(text: str) -> list[str]:
    """The words of `text` in order, without case and accents."""
    return _WORD.findall(fold_case(unicodedata.normalize("NFC", text)))


def excerpt(text: str, words: list[str]) -> str:
    """One line of `text` round the first place where one of `words` begins a word."""
    plain = unicodedata.normalize("NFC", text)
    folded = fold_case(plain)
    places = [
        match.start()
        for match in _WORD.finditer(folded)
        if any(match.group().startswith(word) for word in words)
    ]
    start = max(0, (places[0] if places else 0) - EXCERPT // 3)
    line = " ".join(plain[start : start + EXCERPT].split())
    return ("…" if start else "") + line + ("…" if start + EXCERPT < len(plain) else "")
