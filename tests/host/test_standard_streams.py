"""Standard input and output of a protocol, whatever they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kogniterm.host.standard_streams import standard_streams


@pytest.mark.parametrize("text", [b"", b"one\n"])
async def test_an_input_that_is_no_pipe_is_read_to_its_end(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(text)
    given = os.open(file if text else os.devnull, os.O_RDONLY)
    end, start = os.pipe()
    kept = os.dup(0), os.dup(1)
    os.dup2(given, 0)
    os.dup2(start, 1)
    try:
        async with standard_streams(100) as streams:
            assert streams is not None
            assert await streams[0].read() == text
    finally:
        os.dup2(kept[0], 0)
        os.dup2(kept[1], 1)
        for descriptor in (given, end, start, *kept):
            os.close(descriptor)
