"""The frame around a command and its output."""

from __future__ import annotations

import tracemalloc

import pytest

from kogniterm.text.visible import without_style
from kogniterm.types import CommandResult, Job, PipeStatus, Waiting
from kogniterm.ui.screen.command_frame import (
    HEAD_BYTES,
    TAIL_BYTES,
    CommandFrame,
    OutputTail,
    screen_lines,
)
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.screen.screen_preferences import choose_theme
from tests.ui.face import PLAIN


def frame(command: str = "make", output: bytes = b"") -> CommandFrame:
    made = CommandFrame(command, "/work", 0.0, clock=lambda: 2.5)
    made.output.feed(output)
    return made


def result(output: bytes = b"", **changes: object) -> CommandResult:
    given = {
        "command": "make", "ended": "exited", "exit_code": 0, "text": output.decode(),
        "duration": 1.25, "cwd": "/work", "output_bytes": len(output),
    } | changes  # fmt: skip
    return CommandResult(**given)  # type: ignore[arg-type]  # keyword arguments of a test


def test_a_short_output_is_shown_whole() -> None:
    drawn = frame(output=b"one\ntwo\n").ended(result(), PLAIN, 16, 60, 1)
    assert drawn == "╭ $ make\n│ one\n│ two\n╰ ✓ exit 0 · 1.2 s\n\n"


def test_a_failure_in_the_pipe_is_shown_beside_the_exit_status() -> None:
    failed = (PipeStatus(1, "pytest"), PipeStatus(0, "tail"))
    drawn = frame().ended(result(pipe=failed), PLAIN, 16, 60, 1)
    assert drawn.splitlines()[-2] == "╰ ▸ exit 0 · pytest in the pipe: exit 1 · 1.2 s"
    cut = (PipeStatus(141, "seq", cut=True), PipeStatus(0, "head"))
    drawn = frame().ended(result(pipe=cut), PLAIN, 16, 60, 1)
    assert drawn.splitlines()[-2] == "╰ ✓ exit 0 · seq in the pipe: output cut · 1.2 s"


def test_a_long_output_is_folded_towards_its_end() -> None:
    output = b"".join(b"line %d\n" % number for number in range(100))
    drawn = frame(output=output).ended(result(output), PLAIN, 8, 60, 3).splitlines()
    assert drawn[1:3] == ["│ line 0", "│ line 1"]
    assert drawn[3] == "│ … 92 lines folded · /output 3"
    assert drawn[4:10] == [f"│ line {number}" for number in range(94, 100)]


def test_a_flood_that_was_not_handed_over_whole_is_counted_in_bytes() -> None:
    made = frame(output=b"start\n" + b"x\n" * 60_000)
    drawn = made.ended(result(output_bytes=100_000_000), PLAIN, 8, 60, 1)
    assert "most of 100.0 MB folded" in drawn
    assert "100.0 MB" in drawn.splitlines()[-2]


def test_a_hundred_megabytes_cost_two_ends_of_memory() -> None:
    tail = OutputTail()
    chunk = b"0123456789abcde\n" * 16384
    tracemalloc.start()
    for _ in range(400):
        tail.feed(chunk)
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tail.bytes == 400 * len(chunk)
    assert tail.newlines == 400 * 16384
    assert peak < HEAD_BYTES + 8 * TAIL_BYTES


def test_progress_bars_show_their_last_state() -> None:
    assert screen_lines(b"10%\r50%\r100%\r\ndone\r\n") == ["100%", "done"]


def test_hostile_output_is_harmless() -> None:
    drawn = frame(output=b"\x1b]0;owned\x07\x1b[2Jhi\x1b]52;c;AAAA\x07\n").ended(
        result(), PLAIN, 16, 60, 1
    )
    assert "\x1b" not in drawn
    assert "│ hi" in drawn
    assert "owned" not in drawn


def test_a_line_that_had_to_be_cut_can_be_read_whole_elsewhere() -> None:
    fits, cut = (
        frame(output=output).ended(result(output), PLAIN, 8, 60, 7).splitlines()[-2]
        for output in (b"x" * 4 * 55 + b"\n", b"x" * (4 * 55 + 1) + b"\n")
    )
    assert (fits, cut) == ("╰ ✓ exit 0 · 1.2 s", "╰ ✓ exit 0 · 1.2 s · /output 7")


def test_a_line_longer_than_the_screen_wraps_and_a_fitted_one_does_not() -> None:
    output = b"x" * 30 + b"\n" + b"0123456789" * 6 + b"\n"
    drawn = frame(output=output).ended(result(output), PLAIN, 16, 30, 1).splitlines()
    assert drawn[1] == "│ " + "x" * 26 + "…"
    assert drawn[2:5] == [
        "│ 0123456789012345678901234",
        "│ ↪ 5678901234567890123456789",
        "│ ↪ 0123456789",
    ]


def test_an_endless_line_takes_few_rows() -> None:
    output = b"y" * 50_000 + b"\n"
    drawn = frame(output=output).ended(result(output), PLAIN, 16, 60, 1).splitlines()
    assert [row[:3] for row in drawn[1:5]] == ["│ y", "│ ↪", "│ ↪", "│ ↪"]
    assert drawn[4].endswith("y…")
    assert drawn[5].startswith("╰")


def test_what_moved_the_cursor_is_shown_as_the_screen_would_show_it() -> None:
    raw = b"first\n\x1b[1A\x1b[2Kreplaced\n"
    drawn = frame(output=raw).ended(result(raw, text="replaced\n"), PLAIN, 16, 60, 1)
    assert "│ replaced\n" in drawn
    assert "first" not in drawn


def test_the_command_is_wrapped_in_its_gutter_with_everything_visible() -> None:
    made = frame("echo " + "x" * 70 + "\u200b\nsecond")
    lines = made.header(PLAIN, 40)
    assert lines[0].startswith("╭ $ echo xxx")
    assert lines[1].startswith("│ ↪ xxx")
    assert "\\u{200B}" in "".join(lines)
    assert lines[-1] == "│   second"
    assert all(len(line) <= 40 for line in lines)


def test_a_very_long_command_is_cut_with_a_count() -> None:
    lines = frame("\n".join(f"echo {n}" for n in range(50))).header(PLAIN, 60, 5)
    assert len(lines) == 5
    assert lines[-1] == "│ 46 more lines"


def test_the_live_frame_fits_the_room_and_tells_why_it_is_quiet() -> None:
    made = frame(output=b"".join(b"%d\n" % number for number in range(50)))
    made.waiting = Waiting("password", 4.0, "sudo", "echo is off")
    lines = made.live(PLAIN, 70, 6)
    assert len(lines) <= 6
    assert lines[-1] == "╰ 2.5 s · 46 lines above · sudo is waiting for a password (echo is of…"
    assert "│ 49" in lines


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exit_code": 2}, "✗ exit 2"),
        ({"ended": "signaled", "exit_code": 139, "signal": "SIGSEGV"}, "✗ ended by SIGSEGV"),
        ({"ended": "timeout", "exit_code": None}, "✗ timed out"),
        ({"ended": "stopped", "exit_code": None}, "✗ stopped"),
        ({"ended": "detached", "exit_code": None}, "▸ left running"),
        ({"ended": "not_started", "exit_code": None}, "✗ not started"),
    ],
)
def test_every_end_has_its_words(changes: dict[str, object], words: str) -> None:
    drawn = frame().ended(result(**changes), PLAIN, 16, 60, 1)
    assert f"╰ {words}" in drawn


def test_jobs_that_live_on_are_named() -> None:
    job = Job("j1", "server", "running", (1,), 0.0)
    assert "still running: j1" in frame().ended(result(jobs=(job,)), PLAIN, 16, 60, 1)


def test_colours_of_the_output_survive_and_end_with_the_line() -> None:
    painter = Painter(choose_theme("dark", color=True, background=None))
    drawn = frame(output=b"\x1b[31mred\nplain\n").ended(result(), painter, 16, 60, 1)
    assert "\x1b[31mred\x1b[0m" in drawn
    assert "│ plain" in without_style(drawn)


def test_a_command_that_gets_the_keyboard_keeps_what_it_wrote_and_only_ends_later() -> None:
    made = frame("git add -p", b"--- a/f\n+++ b/f\n+b\nStage this hunk? ")
    assert made.hand_over(PLAIN, 60, 20) == "╭ $ git add -p\n│ --- a/f\n│ +++ b/f\n│ +b\n"
    assert made.ended(result(), PLAIN, 16, 60, 1) == "╰ ✓ exit 0 · 1.2 s\n\n"


@pytest.mark.parametrize("mode", ["47", "1047", "1049"])
def test_pages_of_a_full_screen_program_leave_no_letters_in_the_frame(mode: str) -> None:
    on, off = f"\x1b[?{mode}h".encode(), f"\x1b[?{mode}l".encode()
    page = on + b"\x1b[28;1H9B\x1b[2;1Hx\x1b[1;1Hone line\r\n~\r\n"
    made = frame("vim", b"2 files to edit\r\n" + page)
    assert made.hand_over(PLAIN, 60, 20) == "╭ $ vim\n│ 2 files to edit\n"
    shown = frame("git log", b"a\n" + page + off + b"b\n" + page).live(PLAIN, 60, 9)
    assert shown[1:-1] == ["│ a", "│ b"]


def test_a_question_is_whole_above_the_keyboard() -> None:
    made = frame("ssh host", b"The fingerprint is SHA256:" + b"k" * 43 + b"\nGo on? ")
    assert (
        "".join(
            row.removeprefix("│ ").removeprefix("↪ ")
            for row in made.hand_over(PLAIN, 40, 20).splitlines()[1:]
        )
        == "The fingerprint is SHA256:" + "k" * 43
    )


def test_only_what_fits_the_screen_is_kept_above_the_keyboard() -> None:
    made = frame("seq", b"".join(b"%d\n" % number for number in range(50)))
    assert made.hand_over(PLAIN, 60, 2) == "╭ $ seq\n│ 48\n│ 49\n"
