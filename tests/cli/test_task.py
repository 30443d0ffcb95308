"""Building the task from arguments and standard input, or an error message."""

from __future__ import annotations

import io
import os
import threading
from typing import BinaryIO

import pytest

from kogniterm.cli.run import MAX_DATA, MAX_TASK, read_task
from kogniterm.errors import UsageError
from kogniterm.types import UserInput


def read(words: list[str], stdin: bytes | None = None) -> UserInput:
    given = None if stdin is None else io.BytesIO(stdin)
    return read_task(words, given, lambda: None, folder="")


def wrong(words: list[str], stdin: bytes | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        read(words, stdin)
    return str(caught.value)


def test_words_make_the_task() -> None:
    assert read(["list the files"]) == UserInput("list the files", source="run")
    assert read(["list", "the", "files"]).text == "list the files"


@pytest.mark.parametrize("words", [[], ["-"]])
def test_without_words_standard_input_is_the_task(words: list[str]) -> None:
    task = read(words, b"  cuenta los ficheros\n")
    assert task == UserInput("cuenta los ficheros", source="run", foreign=((0, 19),))


def test_with_words_standard_input_is_data() -> None:
    assert read(["review"], b"diff --git\n").data == "diff --git\n"
    assert read(["review"], b"").data is None


def test_a_byte_order_mark_is_no_text() -> None:
    assert read([], "\ufefftask".encode()).text == "task"


@pytest.mark.parametrize(("words", "stdin"), [([""], None), (["  \n"], None), ([], b"\n \n")])
def test_an_empty_task(words: list[str], stdin: bytes | None) -> None:
    assert wrong(words, stdin) == "The task is empty; describe what to do."


@pytest.mark.parametrize("words", [[], ["-"]])
def test_no_task_at_all(words: list[str]) -> None:
    assert "No task was given" in wrong(words)


def test_a_task_of_a_megabyte_is_told_where_to_go() -> None:
    message = wrong([], b"x" * (MAX_DATA - 1))
    assert message.startswith(f"The task has {MAX_DATA - 1} characters; the limit is {MAX_TASK}.")
    assert len(read(["x" * MAX_TASK]).text) == MAX_TASK


def test_too_much_data() -> None:
    assert len(read(["sum"], b"x" * MAX_DATA).data or "") == MAX_DATA
    assert "more than 1000000 bytes" in wrong(["sum"], b"x" * (MAX_DATA + 1))


def test_bytes_that_are_no_text_are_located() -> None:
    assert "byte 0xff at offset 3" in wrong(["sum"], b"abc\xffdef")
    assert "zero byte at offset 2" in wrong(["sum"], b"ab\0")
    assert "not UTF-8 text (after 2 characters)" in wrong(["ab\udcff"])


def pipe() -> tuple[BinaryIO, int]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), writing


def test_a_silent_pipe_is_mentioned_and_still_read_to_its_end() -> None:
    """The writer sends data only after the reader has reported that it waits."""
    stdin, writing = pipe()

    def speak() -> None:
        os.write(writing, b"late data")
        os.close(writing)

    with stdin:
        assert read_task(["sum"], stdin, speak).data == "late data"


def test_a_pipe_with_data_is_not_mentioned() -> None:
    stdin, writing = pipe()
    os.write(writing, b"data")
    os.close(writing)
    with stdin:
        assert read_task(["sum"], stdin, lambda: pytest.fail("told to wait")).data == "data"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", r"Nothing came on standard input in 0\.01 s"),
        (b"data", r"Standard input did not end within 0\.01 s"),
    ],
)
def test_an_open_pipe_is_waited_for_no_longer_than_the_task_may_take(
    sent: bytes, said: str
) -> None:
    told: list[int] = []
    stdin, writing = pipe()
    os.write(writing, sent)
    with (
        stdin,
        os.fdopen(writing, "wb"),
        pytest.raises(UsageError, match=said),
    ):
        read_task(["go"], stdin, lambda: told.append(1), seconds=0.01)
    assert told == ([] if sent else [1])


def test_a_slow_writer_has_no_longer_than_the_task_may_take() -> None:
    stdin, writing = pipe()
    done = threading.Event()

    def write_on() -> None:
        with os.fdopen(writing, "wb", buffering=0) as writer:
            while not done.wait(0.005):
                writer.write(b"line\n")

    writer = threading.Thread(target=write_on)
    writer.start()
    with stdin:
        with pytest.raises(UsageError, match=r"did not end within 0\.1 s"):
            read_task(["go"], stdin, lambda: None, seconds=0.1)
        done.set()
        writer.join()
