"""A sequence of messages that grows in constant time and never changes what was handed out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_Load = Callable[[], "Sequence[BaseMessage]"]


class _Head:
    """The first messages of a transcript, fetched when somebody first looks at them."""

    __slots__ = ("_load", "_messages")

    def __init__(self, load: _Load | None) -> None:
        self._load = load
        self._messages: Sequence[BaseMessage] = ()

    @property
    def messages(self) -> Sequence[BaseMessage]:
        if self._load is not None:
            self._messages, self._load = self._load(), None
        return self._messages


class Transcript(Sequence["BaseMessage"]):
    """An immutable sequence; `extended` takes time for what is added, not for what was there.

    All transcripts of a session share one growing list, of which each sees a prefix; only
    extending an older one copies. `load` fetches messages that come before the given ones,
    so that a session can be shown before its history was read.
    """

    __slots__ = ("_head", "_length", "_shared")

    def __init__(self, messages: Iterable[BaseMessage] = (), *, load: _Load | None = None) -> None:
        self._head = _Head(load)
        self._shared = list(messages)
        self._length = len(self._shared)

    def extended(self, messages: Sequence[BaseMessage]) -> Transcript:
        """This transcript with `messages` after it."""
        if not messages:
            return self
        longer = Transcript()
        longer._head = self._head
        current = len(self._shared) == self._length
        longer._shared = self._shared if current else self._shared[: self._length]
        longer._shared.extend(messages)
        longer._length = self._length + len(messages)
        return longer

    def __len__(self) -> int:
        return len(self._head.messages) + self._length

    def __iter__(self) -> Iterator[BaseMessage]:
        return chain(self._head.messages, islice(self._shared, self._length))

    @overload
    def __getitem__(self, index: int) -> BaseMessage: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[BaseMessage, ...]: ...
    def __getitem__(self, index: int | slice) -> BaseMessage | tuple[BaseMessage, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        position = range(len(self))[index]
        head = self._head.messages
        return head[position] if position < len(head) else self._shared[position - len(head)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript):
            return NotImplemented
        return self is other or tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((id(self._shared), self._length))

    def __repr__(self) -> str:
        return f"Transcript({list(self)!r})"
