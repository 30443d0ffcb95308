"""Signals outside the text."""

from __future__ import annotations

from kogniterm.ui.screen.screen_preferences import (
    Preferences,
)
from kogniterm.ui.screen.surface import Attention


def test_signals_follow_the_preferences() -> None:
    sent: list[str] = []
    loud = Attention(Preferences(notify="osc9", progress=True), sent.append)
    loud.title("hi\x1b\x07 there")
    loud.waiting(True)
    loud.working(True)
    loud.working(True)
    loud.waiting(True)
    loud.call("come")
    loud.waiting(False)
    loud.close()
    loud.close()
    name = "hi\\u{1B}\\u{7} there"
    assert sent == [
        f"\x1b[22;2t\x1b]2;{name}\a",
        "\x1b]9;4;3;0\a",
        f"\x1b]2;Running: {name}\a",
        "\x1b]9;4;4;0\a",
        f"\x1b]2;Waiting for you: {name}\a",
        "\x1b]9;come\a",
        "\x1b]9;4;3;0\a",
        f"\x1b]2;Running: {name}\a",
        "\x1b]9;4;0;0\a",
        "\x1b]2;\a\x1b[23;2t",
    ]
    sent.clear()
    bare = Attention(Preferences(term="dumb", notify="osc9"), sent.append)
    bare.title("x")
    bare.working(True)
    bare.call("x")
    bare.close()
    assert sent == []


def test_tmux_passes_on_what_its_terminal_is_to_get() -> None:
    sent: list[str] = []
    Attention(Preferences(term="tmux-256color", notify="osc9"), sent.append).call("come")
    assert sent == ["\x1bPtmux;\x1b\x1b]9;come\a\x1b\\"]


def test_the_title_shows_how_to_get_the_keyboard_back() -> None:
    sent: list[str] = []
    signals = Attention(Preferences(), sent.append)
    signals.title("hi")
    signals.typing(True)
    signals.typing(False)
    assert sent[1:] == [
        "\x1b]2;Ctrl-G Ctrl-G Ctrl-D detaches the command: hi\a",
        "\x1b]2;hi\a",
    ]
