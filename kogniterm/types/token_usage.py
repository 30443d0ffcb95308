"""The tokens that model calls use, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more model calls.

    Of `input`, `cached` tokens were served from the provider's cache, and `written` tokens were
    stored there for later calls. `stored` is the time that a provider was asked to keep content, in
    token-seconds. `reused` counts the calls that KogniTerm answered from its own cache: they are
    not in `calls`, and would have taken `reused_input` and `reused_output` tokens.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    calls: int = 0
    written: int = 0
    stored: int = 0
    reused: int = 0
    reused_input: int = 0
    reused_output: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))
