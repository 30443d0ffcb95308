"""The results of MCP servers as values."""

from __future__ import annotations

import base64
from types import SimpleNamespace

import pytest

from kogniterm.tools.mcp.call_results import call_end
from kogniterm.types.images import IMAGE_BYTES
from tests.support.images import gif, png


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (gif(4, 4)[:-1], "the GIF image is damaged"),
        (png(4, 4)[:-4], "the PNG image is damaged"),
        (png(9000, 4), "the PNG image, 9000x4 pixels"),
        (b"sound", "it is no image of a known kind"),
        pytest.param(
            gif(4, 4)[:-1] + b"\x21\0\0" * (IMAGE_BYTES // 3),
            "the GIF image, 4x4 pixels",
            id="blocks of a large GIF are not walked",
        ),
    ],
)
def test_a_picture_that_is_not_shown_says_why(data: bytes, why: str) -> None:
    block = SimpleNamespace(type="image", data=base64.b64encode(data).decode())
    result = SimpleNamespace(content=[block], structured_content=None, is_error=False)
    observation, _failed = call_end("server", "tool", result)
    assert not observation.images
    assert f"[image: {len(data)} bytes, not shown, because {why}" in observation.text
