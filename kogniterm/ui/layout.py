"""How the prompt's parts stand on the screen. No floats and no filling: the prompt is as high
as its content, so that it sits directly under the text and never covers the scrollback."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition, is_done
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import HighlightIncrementalSearchProcessor
from prompt_toolkit.widgets import SearchToolbar

from kogniterm.ui.locale import _
from kogniterm.ui.toolbar import toolbar

if TYPE_CHECKING:
    from kogniterm.ui.prompt import PromptFront

MENU_ROWS = 7
INPUT_ROWS = 10
QUEUE_ROWS = 3


@dataclass(frozen=True, slots=True)
class Parts:
    """The windows that can have the keyboard, and the layout that holds them all."""

    input: Window
    entry: Window
    question: Window
    layout: Layout


def prompt_layout(front: PromptFront) -> Parts:
    """The layout around `front`'s buffers."""
    sign = "› " if front.preferences.unicode else "> "
    search = SearchToolbar(
        forward_search_prompt=lambda: _("search forward: "),
        backward_search_prompt=lambda: _("search the history: "),
    )
    input_window = Window(
        BufferControl(
            buffer=front.buffer,
            search_buffer_control=search.control,
            input_processors=[HighlightIncrementalSearchProcessor()],
            preview_search=True,
        ),
        height=lambda: Dimension(min=1, max=max(min(INPUT_ROWS, _rows() // 2), 1)),
        wrap_lines=True,
        dont_extend_height=True,
        get_line_prefix=lambda line, wrap: [("class:prompt", sign if not line + wrap else "  ")],
    )
    entry = Window(
        BufferControl(buffer=front.entry),
        height=Dimension(min=1, max=INPUT_ROWS),
        wrap_lines=True,
        dont_extend_height=True,
        get_line_prefix=lambda line, wrap: [("class:warn", sign if not line + wrap else "  ")],
    )
    question = Window(
        FormattedTextControl(lambda: _question(front), focusable=True, show_cursor=False),
        dont_extend_height=True,
        always_hide_cursor=True,
    )
    menu = CompletionsMenu(max_height=MENU_ROWS, scroll_offset=1)
    root = HSplit(
        [
            _shown(Window(height=1), lambda: _gap(front)),
            _shown(Window(FormattedTextControl(lambda: _live(front)), dont_extend_height=True),
                   lambda: bool(_live_lines(front))),
            _shown(question, lambda: front.question_open),
            _shown(entry, lambda: front.question_entry),
            _shown(Window(FormattedTextControl(lambda: _queued(front)), dont_extend_height=True),
                   lambda: bool(front.conversation.queued())),
            _shown(input_window, lambda: not (front.question_open and not front.panel_is_free)
                   or bool(front.buffer.text)),
            menu,
            search,
            ConditionalContainer(
                Window(FormattedTextControl(lambda: _toolbar(front)), height=1), filter=~is_done
            ),
        ],
        align=VerticalAlign.TOP,
    )  # fmt: skip
    return Parts(input_window, entry, question, Layout(root, focused_element=input_window))


def _shown(window: Window, test: object) -> ConditionalContainer:
    assert callable(test)
    return ConditionalContainer(window, filter=Condition(test) & ~is_done)


def _rows() -> int:
    return get_app().output.get_size().rows


def _columns() -> int:
    return get_app().output.get_size().columns


def _room(front: PromptFront) -> int:
    """Rows for what is in progress: what the line, the queue and the toolbar leave free."""
    written = min(front.buffer.document.line_count, INPUT_ROWS)
    queued = min(len(front.conversation.queued()), QUEUE_ROWS)
    return max(_rows() - written - queued - 2, 0)


def _live_lines(front: PromptFront) -> list[str]:
    return front.live_lines(_columns() - 1, _room(front))


def _gap(front: PromptFront) -> bool:
    """Whether an empty line sets the prompt off: where a sent line will have one above it, so
    that sending it moves nothing."""
    return not (front.after_blank or front.question_open or _live_lines(front))


def _live(front: PromptFront) -> StyleAndTextTuples:
    return to_formatted_text(ANSI("\n".join(_live_lines(front))))


def _question(front: PromptFront) -> StyleAndTextTuples:
    if front.panel is None:
        return []
    room = _room(front) - (1 if front.question_entry else 0)
    lines = front.panel.lines(_columns() - 1, max(room, 4), front.question_line)
    return to_formatted_text(ANSI("\n".join(lines)))


def _queued(front: PromptFront) -> StyleAndTextTuples:
    waiting = list(front.conversation.queued())[-QUEUE_ROWS:]
    fragments: StyleAndTextTuples = []
    for index, text in enumerate(waiting):
        line = " ".join(text.split())[: max(_columns() - 12, 8)]
        end = "\n" if index < len(waiting) - 1 else ""
        fragments += [("class:accent", _("queued: ")), ("class:muted", line + end)]
    return fragments


def _toolbar(front: PromptFront) -> StyleAndTextTuples:
    facts = front.conversation.facts()
    if front.vi_waits:
        facts = replace(facts, keys=_("vi commands"))
    if front.note:
        facts = replace(facts, note=front.note)
    return [*toolbar(facts, _columns() - 1)]
