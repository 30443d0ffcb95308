"""Standard input and output for a protocol alone, read and written by the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def standard_streams(max_line: int) -> AsyncIterator[Streams | None]:
    """Yield a reader and a writer; None where one of them is no pipe, such as a file.

    Meanwhile descriptor 0 is empty and 1 is standard error, so that nothing else gets between the
    messages. `max_line` is the longest line in bytes that the reader returns.
    """
    loop = asyncio.get_running_loop()
    wire_in, wire_out, empty = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
    reader = asyncio.StreamReader(max_line)
    try:
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(wire_in, "rb", 0, closefd=False)
        )
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
