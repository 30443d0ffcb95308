"""The model's thinking: dimmed while it lasts, folded after it, unfolded on demand."""

from __future__ import annotations

import io

import pytest

from kogniterm.text.visible import without_style
from kogniterm.types import Answer, Usage
from kogniterm.types import events as ev
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.screen.renderer import ScreenOptions, ScreenSink
from kogniterm.ui.screen.screen_preferences import ThoughtsName, choose_theme
from kogniterm.ui.screen.surface import LineSurface

WORDS = "**Reading**\n\nI look at the file, and then I count its lines.\n"


def screen(
    name: ThoughtsName = "folded", *, key: str = "Ctrl-O", color: bool = True
) -> tuple[ScreenSink, io.StringIO]:
    stream, painter = io.StringIO(), Painter(choose_theme("dark", color=color, background=None))
    times = iter(range(1000))
    options = ScreenOptions(thoughts=name, unfold_key=key)
    sink = ScreenSink(
        painter, LineSurface(stream, 60), clock=lambda: float(next(times)), options=options
    )
    sink(ev.TurnStarted("s", 1, "m", "/w"))
    sink(ev.ModelCalled("decide_action", 1))
    return sink, stream


def think(sink: ScreenSink, text: str = WORDS) -> None:
    for start in range(0, len(text), 7):
        sink(ev.ThoughtDelta(text[start : start + 7]))


def written(stream: io.StringIO) -> str:
    return without_style(stream.getvalue())


@pytest.mark.parametrize(("color", "dim"), [(True, "\x1b[90m"), (False, "\x1b[2m")])
def test_thoughts_are_dimmed_while_the_model_thinks(color: bool, dim: str) -> None:
    sink, stream = screen(color=color)
    think(sink)
    *lines, status = sink.live(60, 20)
    assert [without_style(line) for line in lines] == [
        "│ Reading",
        "│",
        "│ I look at the file, and then I count its lines.",
    ]
    assert lines[2].startswith(f"{dim}│")
    assert "Thinking" in status
    assert written(stream) == ""


def test_folded_thoughts_show_only_their_end_and_leave_one_line() -> None:
    sink, stream = screen()
    think(sink, "\n\n".join(f"Thought number {number}." for number in range(20)))
    lines = [without_style(line) for line in sink.live(60, 20)]
    assert len(lines) == 5
    assert lines[-2] == "│ Thought number 19."
    sink(ev.AnswerDelta("Three lines."))
    sink(ev.ModelAnswered("decide_action", Usage(1, 1), Usage(1, 1)))
    assert written(stream).startswith("• Thought for ")
    assert "Ctrl-O shows it\nThree lines.\n" in written(stream)
    assert "Thought number" not in written(stream)


def test_thoughts_before_an_action_are_folded_too() -> None:
    sink, stream = screen()
    think(sink)
    sink(ev.ModelAnswered("decide_action", Usage(1, 1), Usage(1, 1)))
    sink(ev.ToolRan("read_file", "README.md", "# x"))
    shown = written(stream)
    assert shown.index("Thought for") < shown.index("• Read README.md")


def test_unfolding_writes_the_last_thoughts_once_and_the_next_in_full() -> None:
    sink, stream = screen()
    think(sink)
    sink(ev.AnswerDelta("Three lines."))
    whole = "│ Reading\n│\n│ I look at the file, and then I count its lines.\n\n"
    sink.use_thoughts("shown")
    assert whole in written(stream)
    sink.use_thoughts("folded")
    sink.use_thoughts("shown")
    assert written(stream).count(whole) == 1
    assert sink.show_thoughts()
    assert written(stream).count(whole) == 2
    think(sink)
    sink(ev.TurnEnded(Answer("Three lines.")))
    assert written(stream).count(whole) == 3


def test_thoughts_that_are_off_are_not_shown() -> None:
    sink, stream = screen("off")
    think(sink)
    assert len(sink.live(60, 20)) == 1
    sink(ev.AnswerDelta("Yes."))
    sink(ev.TurnEnded(Answer("Yes.")))
    assert "Thought" not in written(stream)
    assert "Reading" not in written(stream)


def test_nothing_is_left_of_folded_thoughts_where_nobody_can_unfold_them() -> None:
    sink, stream = screen(key="")
    think(sink)
    sink(ev.AnswerDelta("Yes."))
    assert written(stream) == ""


def test_thoughts_cannot_control_the_terminal() -> None:
    sink, stream = screen("shown")
    think(sink, "Look \x1b]0;mine\x07here.\n")
    sink(ev.AnswerDelta("Yes."))
    assert "\x1b]" not in stream.getvalue()
    assert "here." in written(stream)
