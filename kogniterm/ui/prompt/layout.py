"""How the prompt's parts stand on the screen. No floats and no filling: the prompt is as high
as its content, so that it sits directly under the text and never covers the scrollback."""

from __future__ import annotations

from dataclasses import replace

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
from kogniterm.ui.prompt.prompt import Parts, Prompt
from kogniterm.ui.prompt.toolbar import toolbar

MENU_ROWS = 7
INPUT_ROWS = 10
QUEUE_ROWS = 3


def prompt_layout(prompt: Prompt) -> Parts:
    """The layout around `prompt`'s buffers."""
    sign = "› " if prompt.preferences.unicode else "> "
    search = SearchToolbar(
        forward_search_prompt=lambda: _("search forward: "),
        backward_search_prompt=lambda: _("search the history: "),
    )
    input_window = Window(
        BufferControl(
            buffer=prompt.line.buffer,
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
        BufferControl(buffer=prompt.entry),
        height=Dimension(min=1, max=INPUT_ROWS),
        wrap_lines=True,
        dont_extend_height=True,
        get_line_prefix=lambda line, wrap: [("class:warn", sign if not line + wrap else "  ")],
    )
    question = Window(
        FormattedTextControl(lambda: _question(prompt), focusable=True, show_cursor=False),
        dont_extend_height=True,
        always_hide_cursor=True,
    )
    menu = CompletionsMenu(max_height=MENU_ROWS, scroll_offset=1)
    root = HSplit(
        [
            _shown(Window(height=1), lambda: _gap(prompt)),
            _shown(Window(FormattedTextControl(lambda: _live(prompt)), dont_extend_height=True),
                   lambda: bool(_live_lines(prompt))),
            _shown(question, lambda: prompt.questions.open),
            _shown(entry, lambda: prompt.question_entry),
            _shown(Window(FormattedTextControl(lambda: _queued(prompt)), dont_extend_height=True),
                   lambda: bool(prompt.controls.queued())),
            _shown(input_window, lambda: not prompt.questions.open or prompt.questions.free
                   or bool(prompt.line.buffer.text)),
            menu,
            search,
            ConditionalContainer(
                Window(FormattedTextControl(lambda: _toolbar(prompt)), height=1), filter=~is_done
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


def _room(prompt: Prompt) -> int:
    """Rows for what is in progress: what the line, the queue and the toolbar leave free."""
    written = min(prompt.line.buffer.document.line_count, INPUT_ROWS)
    queued = min(len(prompt.controls.queued()), QUEUE_ROWS)
    return max(_rows() - written - queued - 2, 0)


def _live_lines(prompt: Prompt) -> list[str]:
    """What is in progress; nothing while a question is open."""
    rows, live = _room(prompt), prompt.surface.live
    if live is None or prompt.questions.open or rows < 1:
        return []
    return live(_columns() - 1, rows)


def _gap(prompt: Prompt) -> bool:
    """Whether an empty line sets the prompt off: where a sent line will have one above it, so
    that sending it moves nothing."""
    return not (prompt.surface.after_blank or prompt.questions.open or _live_lines(prompt))


def _live(prompt: Prompt) -> StyleAndTextTuples:
    return to_formatted_text(ANSI("\n".join(_live_lines(prompt))))


def _question(prompt: Prompt) -> StyleAndTextTuples:
    room = _room(prompt) - (1 if prompt.question_entry else 0)
    lines = prompt.questions.lines(_columns() - 1, max(room, 4), prompt.question_line)
    return to_formatted_text(ANSI("\n".join(lines)))


def _queued(prompt: Prompt) -> StyleAndTextTuples:
    waiting = list(prompt.controls.queued())[-QUEUE_ROWS:]
    fragments: StyleAndTextTuples = []
    for index, text in enumerate(waiting):
        line = " ".join(text.split())[: max(_columns() - 12, 8)]
        end = "\n" if index < len(waiting) - 1 else ""
        fragments += [("class:accent", _("queued: ")), ("class:muted", line + end)]
    return fragments


def _toolbar(prompt: Prompt) -> StyleAndTextTuples:
    facts = prompt.controls.repl.facts()
    if prompt.line.vi_waits:
        facts = replace(facts, keys=_("vi commands"))
    if prompt.surface.note:
        facts = replace(facts, note=prompt.surface.note)
    return [*toolbar(facts, _columns() - 1)]
