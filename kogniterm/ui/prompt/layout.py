"""The layout of the prompt, and the toolbar below it.

There are no floats and no filling: the prompt is as high as its content, so that it stands
directly under the text and never covers the scrollback. The toolbar is always one line; its least
important parts are dropped until the rest fits the width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

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

from kogniterm.text.shorten import below_home, money, one_line
from kogniterm.ui.locale import _, plural, tokens
from kogniterm.ui.prompt.prompt import Parts, Prompt
from kogniterm.ui.repl import Repl
from kogniterm.ui.screen.surface import cells

if TYPE_CHECKING:
    from kogniterm.types import ApprovalMode

MENU_ROWS = 7
INPUT_ROWS = 10
QUEUE_ROWS = 3


def prompt_layout(prompt: Prompt) -> Parts:
    """Return the layout around `prompt`'s buffers."""
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
            _shown(Window(FormattedTextControl(lambda: _queue_lines(prompt)),
                          dont_extend_height=True),
                   lambda: bool(prompt.controls.list_queued())),
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
    """Return the rows for what is in progress: what line, queue and toolbar leave free."""
    written = min(prompt.line.buffer.document.line_count, INPUT_ROWS)
    queued = min(len(prompt.controls.list_queued()), QUEUE_ROWS)
    return max(_rows() - written - queued - 2, 0)


def _live_lines(prompt: Prompt) -> list[str]:
    """Return what is in progress; nothing while a question is open."""
    rows, live = _room(prompt), prompt.surface.live
    if live is None or prompt.surface.hides_live() or rows < 1:
        return []
    return live(_columns() - 1, rows)


def _gap(prompt: Prompt) -> bool:
    """Return whether an empty line sets the prompt off.

    It stands where a sent line will have one above it, so that sending it moves nothing.
    """
    return not (prompt.surface.after_blank or prompt.questions.open or _live_lines(prompt))


def _live(prompt: Prompt) -> StyleAndTextTuples:
    return to_formatted_text(ANSI("\n".join(_live_lines(prompt))))


def _question(prompt: Prompt) -> StyleAndTextTuples:
    room = _room(prompt) - (1 if prompt.question_entry else 0)
    lines = prompt.questions.lines(_columns() - 1, max(room, 4), prompt.question_line)
    return to_formatted_text(ANSI("\n".join(lines)))


def _queue_lines(prompt: Prompt) -> StyleAndTextTuples:
    return queue_lines(prompt.controls.list_queued(), _columns())


def queue_lines(queued: Sequence[str], columns: int) -> StyleAndTextTuples:
    """Return the last inputs that wait for the turn to end, each in a line of `columns` at most."""
    lines = [" ".join(text.split())[: max(columns - 12, 8)] for text in [*queued][-QUEUE_ROWS:]]
    fragments: StyleAndTextTuples = []
    for index, line in enumerate(lines):
        fragments += [("", "\n")] if index else []
        fragments += [("class:accent", _("queued: ")), ("class:muted", line)]
    return fragments


def _toolbar(prompt: Prompt) -> StyleAndTextTuples:
    keys = _("vi normal mode") if prompt.line.vi_waits else ""
    return [*toolbar(_facts(prompt.controls.repl, keys, prompt.surface.note()), _columns() - 1)]


class Facts(NamedTuple):
    """The facts in the toolbar. Empty strings and zeros are left out.

    `context` is how much of the model's window is taken, in percent; `dollars` what the session
    cost, None where the price is not known.
    """

    model: str = ""
    mode: ApprovalMode | None = None
    sandboxed: bool = True
    plan_mode: str = ""
    session: str = ""
    folder: str = ""
    tokens: int = 0
    context: int = 0
    dollars: float | None = None
    jobs: int = 0
    note: str = ""
    keys: str = ""


def _facts(repl: Repl, keys: str, note: str) -> Facts:
    if not repl.opened:
        folder = short_folder(repl.folder, repl.home)
        picking = _("no session open") if repl.front.question_open else ""
        return Facts(model=picking, folder=folder, keys=keys, note=note)
    session = repl.session
    usage = session.state.usage
    return Facts(
        model=session.model.label,
        mode=session.modes.approval,
        sandboxed=session.policy.sandboxed,
        plan_mode=session.modes.planning,
        session=session.id[:8],
        folder=short_folder(one_line(session.executor.cwd), repl.home),
        tokens=usage.input + usage.output,
        context=min(100 * session.context.used_tokens // session.model.context_window, 100),
        dollars=session.services.budget.total(usage, session.state.others_usage),
        jobs=sum(job.state == "running" for job in session.executor.jobs()),
        keys=keys,
        note=note,
    )


CONTEXT_WARNS = 60
"""Percent of the window from which on a compaction is near."""

Part = tuple[int, str, str]
_MODE_STYLES: Mapping[ApprovalMode, str] = {
    "manual": "", "accept-edits": "good", "auto": "warn", "plan": "heading",
}  # fmt: skip
SHORTEST_MODEL = 8
"""The cells that are left of a model's name where the mode would not fit otherwise."""


def _parts(facts: Facts) -> list[Part]:
    """Return (rank, style class, text) in the order they stand; rank 0 goes last."""
    found: list[Part] = [(0, "accent", facts.model or _("starting…"))]
    if facts.keys:
        found.append((0, "warn", facts.keys))
    if facts.mode:
        from kogniterm.ui.words.approval_words import mode_text

        found.append(
            (0, _MODE_STYLES[facts.mode], mode_text(facts.mode, sandboxed=facts.sandboxed))
        )
    plans = {"always": _("always"), "never": _("never")}.get(facts.plan_mode)
    if plans:
        found.append((3, "", _("plan: {mode}").format(mode=plans)))
    if facts.jobs:
        found.append((2, "warn", plural("{count} job", "{count} jobs", facts.jobs)))
    if facts.tokens:
        used = _("{count} tokens").format(count=tokens(facts.tokens))
        found.append((7, "", used))
    if facts.context:
        style = "warn" if facts.context >= CONTEXT_WARNS else ""
        found.append((5, style, _("context {percent} %").format(percent=facts.context)))
    if facts.dollars:
        found.append((6, "", money(facts.dollars)))
    if facts.session:
        found.append((8, "", facts.session))
    if facts.folder:
        found.append((4, "", facts.folder))
    return found


def toolbar(facts: Facts, columns: int) -> list[tuple[str, str]]:
    """Return the line as prompt_toolkit fragments, at most `columns` cells."""
    if facts.note:
        return [("class:warn", _cut(f" {facts.note}", columns))]
    chosen = _fitting(_parts(facts), columns)
    fragments: list[tuple[str, str]] = [("class:muted", " ")]
    room = columns - 1
    for index, (_rank, style, text) in enumerate(chosen):
        if index:
            fragments.append(("class:muted", " · "))
            room -= 3
        fragments.append((f"class:{style}" if style else "class:muted", _cut(text, room)))
        room -= cells(text)
    return fragments


def _fitting(parts: list[Part], columns: int) -> list[Part]:
    """Return the parts that fit: what matters least goes first, then the model's name is cut."""
    chosen = list(parts)
    while _width(chosen) > columns and any(rank for rank, _style, _text in chosen):
        chosen.remove(max(chosen, key=lambda part: part[0]))
    excess = _width(chosen) - columns
    if excess > 0 and len(chosen) > 1:
        rank, style, model = chosen[0]
        chosen[0] = (rank, style, _cut(model, max(cells(model) - excess, SHORTEST_MODEL)))
    return chosen if _width(chosen) <= columns else parts[:1]


def short_folder(folder: str, home: str, width: int = 30) -> str:
    """Return `folder` with ~ for home, its middle left out when it is long."""
    folder = below_home(folder, home)
    if len(folder) <= width:
        return folder
    shortened = "/".join(("…", *folder.split("/")[-2:]))
    return shortened if len(shortened) <= width else f"…{folder[-(width - 1) :]}"


def _width(chosen: Sequence[Part]) -> int:
    return 1 + sum(cells(text) for _r, _s, text in chosen) + 3 * (len(chosen) - 1)


def _cut(text: str, columns: int) -> str:
    if cells(text) <= columns:
        return text
    kept = ""
    for char in text:
        if cells(kept) + cells(char) >= columns:
            break
        kept += char
    return kept + "…" if columns > 0 else ""
