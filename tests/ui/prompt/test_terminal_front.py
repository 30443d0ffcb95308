"""Ctrl-C as a signal of the terminal, while the prompt does not read the keyboard."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.ui.pty_peer import OpenPeer, PtyPeer

OPTIONS = ("--no-sandbox", "--memory", "off", "--model", "scripted:demo.yaml")
PAGER = """\
trap 'echo the pager heard it' INT
echo the pager is open
until [ -e closed ]; do sleep 0.05; done
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "demo.yaml").write_text("replies: [{text: Hello., repeat: forever}]")
    (tmp_path / "pager").write_text(PAGER)
    return tmp_path


def prompt_stands(terminal: PtyPeer) -> bool:
    return terminal.shown[-2:-1] == ["›"] and "scripted:" in terminal.shown[-1]


def test_one_that_comes_while_a_command_gets_the_keyboard_stops_the_command(
    peer: OpenPeer, folder: Path
) -> None:
    with peer(folder, *OPTIONS) as terminal:
        terminal.until(lambda: prompt_stands(terminal))
        terminal.send("!echo on; sleep 987\r")
        terminal.until(lambda: terminal.shown[-1:] == ["on"])
        # The line discipline sends it to the foreground process group of the terminal.
        os.kill(terminal.pid, signal.SIGINT)
        terminal.until("╰ ✗ stopped")
        terminal.until(lambda: prompt_stands(terminal))
        terminal.send("\x04")
        assert terminal.ended() == 0


def test_one_in_the_pager_is_the_pagers(peer: OpenPeer, folder: Path) -> None:
    with peer(folder, *OPTIONS, environment={"PAGER": "sh pager"}) as terminal:
        terminal.until(lambda: prompt_stands(terminal))
        terminal.send("!seq 50\r")
        terminal.until("╰ ✓ exit 0")
        terminal.until(lambda: prompt_stands(terminal))
        terminal.send("/output 1\r")
        terminal.until("the pager is open")
        terminal.send("\x03")
        terminal.until("the pager heard it")
        (folder / "closed").touch()
        terminal.until(lambda: prompt_stands(terminal))
        terminal.send("hello\r")
        terminal.until(" tokens in, ")
        terminal.send("\x04")
        assert terminal.ended() == 0
