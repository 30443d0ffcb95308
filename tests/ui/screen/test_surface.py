"""Signals outside the text."""

from __future__ import annotations

from kogniterm.ui.screen.surface import Attention
from kogniterm.ui.screen_preferences import (
    Preferences,
)


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
