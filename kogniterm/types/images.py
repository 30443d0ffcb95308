"""Images among the values: what a tool looked at, on its way to a model that takes images."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as its file holds it; `name` is how it was asked for, the size in pixels."""

    data: bytes
    media_type: str
    name: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Observation:
    """What a tool gives back: text, and images beside it."""

    text: str
    images: tuple[Image, ...] = ()
