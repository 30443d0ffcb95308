"""Small real images, made by hand: a whole PNG, and the beginnings of the other kinds."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 4, height: int = 3) -> bytes:
    """Return a red PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def jpeg(width: int, height: int, profile: int = 40_000) -> bytes:
    """Return a JPEG; its frame follows a large profile with ends of its own, and tables."""
    app = b"\xff\xe1" + struct.pack(">H", profile + 2) + b"\xff\xd9" * (profile // 2)
    table = b"\xff\xc4" + struct.pack(">H", 19) + b"\0" * 17
    frame = b"\xff\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width) + b"\0" * 20
    return b"\xff\xd8" + app + table + frame + b"\xff\xd9"


def gif(width: int, height: int) -> bytes:
    """Return a GIF with two colours, a comment and one image."""
    begin = struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0" * 6 + b"!\xfe\x02hi\0"
    frame = struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02D\x01\0"
    return b"GIF89a" + begin + b"," + frame + b";"


def webp(form: str, width: int, height: int) -> bytes:
    """Return the beginning of a WebP: lossy (`VP8 `), lossless (`VP8L`) or extended (`VP8X`)."""
    if form == "VP8X":
        body = b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif form == "VP8L":
        body = b"\x2f" + (width - 1 | height - 1 << 14).to_bytes(4, "little") + b"\0" * 8
    else:
        body = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"\0" * 8
    chunk = form.encode() + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk
