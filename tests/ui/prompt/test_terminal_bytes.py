"""Bytes written to the terminal: for screen readers, dumb terminals, and terminals without colour.

Also for a window that is resized or suspended in the middle of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.fake_gemini import FakeGemini
from tests.ui.pty_peer import OpenPeer, PtyPeer

OPTIONS = ("--no-sandbox", "--memory", "off")
SCRIPT = """\
replies:
  - when: {last_contains: tidy}
    run: "echo one; echo two"
    purpose: Look
  - text: |
      # Done

      All is **well**, says `echo`.
"""
GEMINI = {"GOOGLE_API_KEY": "a-key", "KOGNITERM_MODEL": "google_genai:gemini-2.5-flash"}
PARAGRAPHS = [f"Paragraph {n} is long enough to be wrapped at forty columns.\n\n" for n in range(6)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "demo.yaml").write_text(SCRIPT)
    return tmp_path


def tidied(
    peer: OpenPeer, folder: Path, *, approve: str, environment: Mapping[str, str], columns: int = 80
) -> PtyPeer:
    """Run a session with one command and an answer to its end."""
    with peer(
        folder, *OPTIONS, "--model", "scripted:demo.yaml", environment=environment, columns=columns
    ) as terminal:
        plain = approve != "y"
        # The toolbar stands with the prompt; in line mode the prompt is the last thing written.
        terminal.until((lambda: terminal.shown[-1:] == [">"]) if plain else "scripted:")
        terminal.send("tidy\r")
        terminal.until("Your decision" if plain else "[y] approve")
        terminal.send(approve)
        terminal.until("tokens in")
        terminal.until("All is")
        terminal.send("\x04")
        assert terminal.ended() == 0
        return terminal


@pytest.mark.parametrize(
    "environment", [{"KOGNITERM_SCREEN_READER": "true"}, {"TERM": "dumb"}, {"TERM": "unknown"}]
)
def test_plain_lines_hold_no_control_sequence_at_all(
    peer: OpenPeer, folder: Path, environment: dict[str, str]
) -> None:
    terminal = tidied(peer, folder, approve="y\r", environment=environment)
    # Nothing is redrawn and nothing spins: a reader reads every line once, in order. The bell
    # that announces a question is the only control character.
    assert b"\x1b" not in terminal.raw
    lines = terminal.raw.replace(b"\a", b"").replace(b"\r\n", b"\n")
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", lines)
    text = lines.decode()
    places = [text.index(words) for words in ("> tidy", "Run this", "$ echo", "exit 0", "All is")]
    assert places == sorted(places)
    assert text.count("All is well") == 1
    assert not re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", text)


def test_the_scrollback_is_left_alone(peer: OpenPeer, folder: Path) -> None:
    terminal = tidied(peer, folder, approve="y", environment={}, columns=60)
    # Neither the alternate screen nor a cleared one: the previous contents stay.
    for sequence in (b"\x1b[?1049h", b"\x1b[?47h", b"\x1b[2J", b"\x1b[3J", b"\x1bc"):
        assert sequence not in terminal.raw
    assert all(len(line) <= 60 for line in terminal.shown)
    # Every frame that is begun is ended.
    assert terminal.raw.count(b"\x1b[?2026h") == terminal.raw.count(b"\x1b[?2026l") > 0
    # The cursor and the terminal's modes are restored.
    assert terminal.raw.rfind(b"\x1b[?25h") > terminal.raw.rfind(b"\x1b[?25l")
    assert terminal.raw.rfind(b"\x1b[?2004l") > terminal.raw.rfind(b"\x1b[?2004h")


def test_a_window_resized_while_an_answer_streams(
    peer: OpenPeer, folder: Path, fake_gemini: FakeGemini
) -> None:
    fake_gemini.hang(4, *PARAGRAPHS)
    environment = {**GEMINI, "GOOGLE_GEMINI_BASE_URL": fake_gemini.url}
    with peer(folder, *OPTIONS, environment=environment) as terminal:
        terminal.until("google_genai:gemini-2.5-flash ·")
        terminal.send("go\r")
        terminal.until("Paragraph 3")
        terminal.resize(30, 40)
        # Redrawn for forty columns: the toolbar is cut to them.
        terminal.until(lambda: terminal.shown[-1] == " google_genai:gemini-2.5-flash · ask")
        terminal.send("\x03")
        terminal.until("The turn was stopped.")
        # The output stays, once; the typed text is restored.
        terminal.until(lambda: terminal.shown[-2:-1] == ["› go"])
        words = " ".join(terminal.text.split())
        for number in range(4):
            assert words.count(f"Paragraph {number} is long enough") == 1
        terminal.send("\x03\x04")
        assert terminal.ended() == 0
        assert fake_gemini.gone.wait()
