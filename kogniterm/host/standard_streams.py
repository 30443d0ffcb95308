"""Standard input and output for a protocol alone, read and written by the event loop."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import IO

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def standard_streams(max_line: int) -> AsyncIterator[Streams | None]:
    """Yield a reader and a writer; None where the output is no pipe, such as a file.

    Meanwhile descriptor 0 is empty and 1 is standard error, so that nothing else gets between the
    messages. `max_line` is the longest line in bytes that the reader returns.
    """
    loop = asyncio.get_running_loop()
    wire_in, wire_out, empty = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
    reader = asyncio.StreamReader(max_line)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), _source(wire_in))
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(wire_out, "wb", 0, closefd=False)
        )
    except ValueError:
        for descriptor in (wire_in, wire_out, empty):
            os.close(descriptor)
        yield None
        return
    transport.set_write_buffer_limits(high=0)  # a drain writes all of it
    os.dup2(empty, 0)
    os.dup2(2, 1)
    try:
        yield reader, asyncio.StreamWriter(transport, protocol, None, loop)
    finally:
        if not transport.is_closing():
            transport.abort()
        os.dup2(wire_in, 0)
        os.dup2(wire_out, 1)
        for descriptor in (0, 1):
            os.set_blocking(descriptor, True)
        os.close(empty)


def _source(descriptor: int) -> IO[bytes]:
    """Return the input as a pipe; a thread fills one from a file or device.

    The loop cannot wait for these, and would miss their end.
    """
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(descriptor):
        return os.fdopen(descriptor, "rb", 0, closefd=False)
    end, start = os.pipe()

    def fill() -> None:
        source, pipe = os.fdopen(os.dup(descriptor), "rb", 0), os.fdopen(start, "wb", 0)
        with source, pipe, suppress(BrokenPipeError):
            shutil.copyfileobj(source, pipe)

    threading.Thread(target=fill, daemon=True).start()
    return os.fdopen(end, "rb", 0)
