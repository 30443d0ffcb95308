"""Images as values, on their way from a tool or an input to a model that takes images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

HEADER_BYTES = 256 * 1024
"""Read to tell an image; a JPEG's size stands behind its thumbnail and colour profile."""
IMAGE_BYTES = 3_932_160
"""Most bytes of one image. In base64 they are 5 MB, the least limit among the providers."""
IMAGE_SIDE = 8_000
"""Most pixels of an image's side; the least limit among the providers."""

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers that begin a frame; the three others define tables."""
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a length."""


class ImageHeader(NamedTuple):
    """An image's kind, and its size in pixels (0 by 0 when the header is broken)."""

    media_type: str
    width: int = 0
    height: int = 0

    @property
    def kind(self) -> str:
        """Return the name of the format, such as PNG or JPEG."""
        return self.media_type.partition("/")[2].upper()

    def is_damaged(self, data: bytes) -> bool:
        """Return whether the image `data` has no size or no end; a model takes no such image.

        The end of one with more than `IMAGE_BYTES` is not looked for: it does not fit anyway.
        """
        return not self.width * self.height or (len(data) <= IMAGE_BYTES and _is_cut(data))

    def fits(self, size: int) -> bool:
        """Return whether a file of `size` bytes may be sent to a provider."""
        return size <= IMAGE_BYTES and max(self.width, self.height) <= IMAGE_SIDE

    def describe(self, size: int) -> str:
        """Return kind, pixels and bytes as text for a model."""
        return f"{self.kind} image, {self.width}x{self.height} pixels, {size} bytes"


def read_header(data: bytes) -> ImageHeader | None:
    """Return the header of the image that `data` begins with, or None when it is no image."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _image_header("image/png", _png(data))
    if data.startswith(b"\xff\xd8\xff"):
        return _image_header("image/jpeg", _jpeg(data))
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return _image_header("image/gif", (_little(data, 6, 2), _little(data, 8, 2)))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _image_header("image/webp", _webp(data))
    if data[:2] == b"BM" and b"\0" in data[:16]:
        return ImageHeader("image/bmp")
    return None


def _is_cut(data: bytes) -> bool:
    """Return whether the end is missing of the image that `data` is."""
    if data.startswith(b"\x89PNG"):
        return b"IEND\xaeB`\x82" not in data
    if data.startswith(b"\xff\xd8"):
        # A thumbnail before the frame has an end of its own.
        return data.find(b"\xff\xd9", _frame(data)) < 0
    if data.startswith(b"GIF8"):
        return not _ends_as_gif(data)
    return data.startswith(b"RIFF") and _little(data, 4, 4) + 8 > len(data)


def _image_header(media_type: str, size: tuple[int, int]) -> ImageHeader:
    return ImageHeader(media_type, *size) if all(size) else ImageHeader(media_type)


def _png(data: bytes) -> tuple[int, int]:
    if data[12:16] != b"IHDR" or len(data) < 24:
        return 0, 0
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def _jpeg(data: bytes) -> tuple[int, int]:
    place = _frame(data)
    size = data[place + 5 : place + 7], data[place + 7 : place + 9]
    return int.from_bytes(size[1]), int.from_bytes(size[0])


def _frame(data: bytes) -> int:
    """Return where the first frame header of a JPEG is, segment by segment; the end without one."""
    place = 2
    while place + 9 < len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xFF:
            place += 1
        elif marker in _FRAMES:
            return place
        elif marker in _ALONE:
            place += 2
        else:
            place += 2 + int.from_bytes(data[place + 2 : place + 4])
    return len(data)


def _ends_as_gif(data: bytes) -> bool:
    """Return whether the blocks of a GIF lead to its trailer."""
    place = 13 + _colours(data, 10)
    while place < len(data) and data[place] != 0x3B:
        if data[place] == 0x2C:
            place += 11 + _colours(data, place + 9)
        elif data[place] == 0x21:
            place += 2
        else:
            return False
        while place < len(data) and data[place]:
            place += 1 + data[place]
        place += 1
    return place < len(data)


def _colours(data: bytes, flags: int) -> int:
    """Return the bytes of the colour table that the flags at a place of a GIF announce."""
    packed = _little(data, flags, 1)
    return 3 << (packed & 7) + 1 if packed & 0x80 else 0


def _webp(data: bytes) -> tuple[int, int]:
    form = data[12:16]
    if len(data) < 30:
        return 0, 0
    if form == b"VP8X":
        return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
    if form == b"VP8L" and data[20] == 0x2F:
        bits = _little(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return 0, 0


def _little(data: bytes, start: int, size: int) -> int:
    part = data[start : start + size]
    return int.from_bytes(part, "little") if len(part) == size else 0


@dataclass(frozen=True, slots=True)
class Image:
    """An image as its file holds it, with the `name` it was requested by; size in pixels."""

    data: bytes
    media_type: str
    name: str
    width: int
    height: int
