"""The transfer display: lines for pipes and dumb terminals, a bar for real ones."""

from __future__ import annotations

import io
import subprocess
import sys

import pexpect

from kogniterm.types import Phrase
from kogniterm.ui.screen.progress import transfer

BAR = """
from kogniterm.types import Phrase
from kogniterm.ui.screen.progress import transfer
with transfer("weights") as display:
    for done in range(0, 101, 10):
        display.update(done * 10**6, 100 * 10**6, Phrase("from {host}", {"host": "example.org"}))
"""


def written(term: str) -> str:
    """Return the display's output to a terminal of this kind."""
    child = pexpect.spawn(
        "env",
        [f"TERM={term}", sys.executable, "-c", BAR],
        encoding="utf-8",
        dimensions=(24, 120),
        timeout=120,
    )
    child.expect(pexpect.EOF)
    child.wait()  # `close` would hang up on a program that has not quite ended
    child.close()
    return child.before or ""


def test_lines_tell_each_tenth_once() -> None:
    stream = io.StringIO()
    with transfer("weights", stream) as display:
        for done in range(101):
            display.update(done * 1_000_000, 100_000_000, Phrase("from a file"))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[0] == "weights: 0 of 100 MB (from a file)"
    assert lines[-1] == "weights: 100 of 100 MB (from a file)"


def test_lines_tell_a_new_source_at_once() -> None:
    stream = io.StringIO()
    with transfer("weights", stream) as display:
        display.update(1_000_000, 100_000_000, Phrase("from a"))
        display.update(1_000_000, 100_000_000, Phrase("from b"))
    assert [line.rsplit(" ", 1)[1] for line in stream.getvalue().splitlines()] == ["a)", "b)"]


def test_terminal_gets_a_bar() -> None:
    assert "100.0/100.0 MB" in written("xterm-256color")


def test_dumb_terminal_gets_lines() -> None:
    text = written("dumb")
    assert "weights: 100 of 100 MB (from example.org)" in text
    assert "\x1b" not in text


def test_rich_is_imported_only_for_a_bar() -> None:
    code = "import sys, kogniterm.ui.screen.progress; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n"
