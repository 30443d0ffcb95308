"""An image is recognised by its first bytes, whatever its name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kogniterm.types.images import IMAGE_BYTES, ImageHeader, read_header
from tests.support.images import gif, jpeg, png, webp


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (png(640, 48), "image/png"),
        (jpeg(640, 48), "image/jpeg"),
        (gif(640, 48), "image/gif"),
        (webp("VP8 ", 640, 48), "image/webp"),
        (webp("VP8L", 640, 48), "image/webp"),
        (webp("VP8X", 640, 48), "image/webp"),
    ],
)
def test_kind_and_size_are_read(data: bytes, media_type: str) -> None:
    assert read_header(data) == ImageHeader(media_type, 640, 48)


@pytest.mark.parametrize(
    "data", [png()[:20], jpeg(2, 2)[:30], gif(2, 2)[:9], webp("VP8X", 2, 2)[:20]]
)
def test_a_cut_header_is_an_image_without_size(data: bytes) -> None:
    header = read_header(data)
    assert header is not None
    assert header.is_damaged(data)


@pytest.mark.parametrize("data", [png(640, 48), jpeg(640, 48), gif(640, 48), webp("VP8X", 640, 48)])
def test_an_image_without_its_end_is_cut(data: bytes) -> None:
    header = read_header(data)
    assert header is not None
    assert header.is_damaged(data[:-1])
    assert not header.is_damaged(data)
    assert not header.is_damaged(data + b"more of a film")
    assert not header.is_damaged(data[:-1].ljust(IMAGE_BYTES + 1, b"\0"))


@pytest.mark.parametrize("data", [b"", b"BMW sells cars", b"GIF8 is no header", b"RIFF1234WAVE"])
def test_text_and_sound_are_no_images(data: bytes) -> None:
    assert read_header(data) is None


@given(st.sampled_from([b"\xff\xd8\xff", b"GIF89a", b"\x89PNG\r\n\x1a\n"]), st.binary(max_size=300))
def test_no_bytes_break_the_reading(start: bytes, rest: bytes) -> None:
    header = read_header(start + rest)
    assert header is not None
    assert header.width > 0 < header.height or header.is_damaged(start + rest)
