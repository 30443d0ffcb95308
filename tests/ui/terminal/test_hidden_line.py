"""A line that is typed or pasted without being echoed, on a pseudo-terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
from collections.abc import Iterator

import pytest

from kogniterm.ui.terminal.user_terminal import hidden_line, unless_stopped


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Yield (master, slave) of a terminal."""
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


async def _shown(master: int, text: bytes) -> bytes:
    """Read what the terminal shows until `text` is there."""
    shown = b""
    while text not in shown:
        shown += await asyncio.to_thread(os.read, master, 4096)
    return shown


async def typed(ends: tuple[int, int], *pieces: str) -> tuple[str | None, bytes]:
    """Return the line that `pieces` make, sent one after the other, and the output."""
    master, slave = ends
    before = termios.tcgetattr(slave)
    line = asyncio.ensure_future(hidden_line(slave, slave, "Key: "))
    shown = await _shown(master, b"\x1b[?2004h")
    for piece in pieces:
        os.write(master, piece.encode())
        await asyncio.to_thread(lambda: None)
    value = await line
    shown += await _shown(master, b"\x1b[?2004l")
    assert termios.tcgetattr(slave) == before
    return value, shown


@pytest.mark.parametrize(
    ("pieces", "line"),
    [
        (("secret\r",), "secret"),
        (("sec", "ret", "\r"), "secret"),
        ((" secret \n",), "secret"),
        (("secrex\x7fet\x7f\x7f", "t\r"), "secret"),
        (("wrong\x15secret\r",), "secret"),
        (("\x1b[200~\nsec\r\nret\n\x1b[201~\r",), "secret"),
        (("\x1b[200~sec", "ret\x1b[20", "1~", "\r"), "secret"),
        (("\x1b[Asec\x1b[Dret\x1bOA\r",), "secret"),
        (("\x1b]11;rgb:0000/0000/0000\x1b\\secret\r",), "secret"),
        (("secret\rmore",), "secret"),
        (("\r",), ""),
        (("secret\x03",), None),
        (("secret\x04",), None),
        (("secret\x1b",), None),
        (("secret\x1b[99;5u",), None),
        (("secret\x1bO", "A\r"), "secret"),
        (("\x1b",), None),
    ],
)
async def test_what_is_typed_is_taken_and_not_shown(
    ends: tuple[int, int], pieces: tuple[str, ...], line: str | None
) -> None:
    value, shown = await typed(ends, *pieces)
    assert value == line
    assert b"sec" not in shown
    assert b"ret" not in shown


@pytest.mark.parametrize("key", ["\x03", "\x1b", "\x1b[99;5u"])
async def test_work_is_stopped_by_a_key(ends: tuple[int, int], key: str) -> None:
    master, slave = ends
    started = asyncio.Event()

    async def work() -> int:
        started.set()
        await asyncio.Event().wait()
        return 1

    running = asyncio.ensure_future(unless_stopped(work(), slave))
    await started.wait()
    os.write(master, key.encode())
    assert await running is None


async def test_work_that_ends_leaves_the_keyboard_alone(ends: tuple[int, int]) -> None:
    async def work() -> int:
        return 7

    assert await unless_stopped(work(), ends[1]) == 7
    assert not asyncio.get_running_loop().remove_reader(ends[1])


async def test_something_received_is_shown_and_its_length_is_not(ends: tuple[int, int]) -> None:
    master, slave = ends
    line = asyncio.ensure_future(hidden_line(slave, slave, "Key: "))
    await _shown(master, b"\x1b[?2004h")
    os.write(master, b"\x1b[200~a long secret\x1b[201~")
    assert b"secret" not in await _shown(master, b"***")
    os.write(master, b"\x15")
    assert (await _shown(master, b"\x1b[K")).endswith(b"\x1b8\x1b[K")
    os.write(master, b"x\r")
    assert await line == "x"


async def test_a_shown_line_never_leaves_its_row(ends: tuple[int, int]) -> None:
    master, slave = ends
    termios.tcsetwinsize(slave, (24, 40))
    line = asyncio.ensure_future(hidden_line(slave, slave, "An address: ", shown=True))
    assert b"An address: \r" in await _shown(master, b"\x1b[?2004h")
    os.write(master, b"x" * 50 + b"y")
    assert (await _shown(master, b"y")).endswith(b"\x1b[K" + b"x" * 38 + b"y")
    os.write(master, b"\r")
    assert await line == "x" * 50 + "y"


async def test_a_paste_whose_end_was_lost_is_kept(ends: tuple[int, int]) -> None:
    line = asyncio.ensure_future(hidden_line(ends[1], ends[1], "Key: "))
    await _shown(ends[0], b"\x1b[?2004h")
    os.write(ends[0], b"\x1b[200~secret")
    await _shown(ends[0], b"***")
    os.write(ends[0], b"\r")
    assert await line == "secret"
