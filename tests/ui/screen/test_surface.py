"""Signals outside the text."""

from __future__ import annotations

from kogniterm.ui.screen.surface import Attention
from kogniterm.ui.screen_preferences import (
    Preferences,
)


def test_signals_follow_the_preferences() -> None:
    sent: list[str] = []
    loud = Attention(Preferences(notify="osc9"), sent.append)
    loud.title("hi\x1b\x07 there")
    loud.working(True)
    loud.working(True)
    loud.call("come")
    loud.close()
    assert sent == [
        "\x1b]2;hi\\u{1B}\\u{7} there\a",
        "\x1b]9;4;3;0\a",
        "\x1b]9;come\a",
        "\x1b]9;4;0;0\a",
        "\x1b]2;\a",
    ]
    sent.clear()
    bare = Attention(Preferences(term="dumb", notify="osc9"), sent.append)
    bare.title("x")
    bare.working(True)
    bare.call("x")
    bare.close()
    assert sent == []
