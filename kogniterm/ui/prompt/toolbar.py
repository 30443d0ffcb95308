"""The bottom line: model, mode, plan mode, tokens, jobs, session, folder. Always one line.

Parts are dropped from the least important until the rest fits the width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kogniterm.ui.locale import _, plural
from kogniterm.ui.screen.number_format import tokens


@dataclass(frozen=True, slots=True)
class Facts:
    """What the toolbar may tell. Empty strings and zeros are left out.

    `context` is how much of the model's window is taken, in percent; `dollars` what the session
    cost, None where the price is not known.
    """

    model: str = ""
    mode: str = ""
    plan_mode: str = ""
    session: str = ""
    folder: str = ""
    tokens: int = 0
    context: int = 0
    dollars: float | None = None
    jobs: int = 0
    note: str = ""
    keys: str = ""


CONTEXT_WARNS = 60
"""Percent of the window from which on a compaction is near."""

Part = tuple[int, str, str]


def parts(facts: Facts) -> list[Part]:
    """(rank, style class, text) in the order they stand; rank 0 goes last."""
    found: list[Part] = [(0, "accent", facts.model or _("starting…"))]
    if facts.keys:
        found.append((0, "warn", facts.keys))
    if facts.mode:
        style = "warn" if facts.mode == "auto" else ""
        found.append((1, style, mode_text(facts.mode)))
    if facts.plan_mode and facts.plan_mode != "auto":
        found.append((3, "", _("plan: {mode}").format(mode=plan_text(facts.plan_mode))))
    if facts.jobs:
        found.append((2, "warn", plural("{count} job", "{count} jobs", facts.jobs)))
    if facts.tokens:
        used = _("{count} tokens").format(count=tokens(facts.tokens))
        found.append((7, "", used))
    if facts.context:
        style = "warn" if facts.context >= CONTEXT_WARNS else ""
        found.append((5, style, _("context {percent} %").format(percent=facts.context)))
    if facts.dollars:
        found.append((6, "", f"${facts.dollars:.2f}" if facts.dollars >= 0.01 else "<$0.01"))
    if facts.session:
        found.append((8, "", facts.session))
    if facts.folder:
        found.append((4, "", facts.folder))
    return found


def toolbar(facts: Facts, columns: int) -> list[tuple[str, str]]:
    """The line as prompt_toolkit fragments, at most `columns` cells."""
    if facts.note:
        return [("class:warn", _cut(f" {facts.note}", columns))]
    chosen = parts(facts)
    while len(chosen) > 1 and _width(chosen) > columns:
        chosen.remove(max(chosen, key=lambda part: part[0]))
    fragments: list[tuple[str, str]] = [("class:muted", " ")]
    room = columns - 1
    for index, (_rank, style, text) in enumerate(chosen):
        if index:
            fragments.append(("class:muted", " · "))
            room -= 3
        fragments.append((f"class:{style}" if style else "class:muted", _cut(text, room)))
        room -= cells(text)
    return fragments


def short_folder(folder: str, home: str, width: int = 30) -> str:
    """`folder` with ~ for home, its middle left out when it is long."""
    if home and (folder == home or folder.startswith(home.rstrip("/") + "/")):
        folder = "~" + folder[len(home.rstrip("/")) :]
    if len(folder) <= width:
        return folder
    pieces = folder.split("/")
    shortened = f"…/{'/'.join(pieces[-2:])}"
    return shortened if len(shortened) <= width else f"…{folder[-(width - 1) :]}"


def mode_text(mode: str) -> str:
    """An approval mode in words."""
    return {"manual": _("manual"), "auto": _("auto-approve")}.get(mode, mode)


def plan_text(mode: str) -> str:
    """A plan mode in words."""
    return {"auto": _("auto"), "always": _("always"), "never": _("never")}.get(mode, mode)


def cells(text: str) -> int:
    """The cells `text` takes. Loads what knows about wide characters on first use."""
    if text.isascii():
        return len(text)
    from prompt_toolkit.utils import get_cwidth

    return get_cwidth(text)


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
