"""How a person wants the screen: plain values, so that nothing here reads the environment.

`from_quick` makes them from the few settings that are known before the first prompt.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kogniterm.host.programs import find_user_program
from kogniterm.ui.questions.answer_keys import PAUSE_SECONDS

if TYPE_CHECKING:
    from kogniterm.settings import QuickSettings

ThemeName = Literal["auto", "dark", "light", "plain"]
KeysName = Literal["emacs", "vi"]
NotifyName = Literal["off", "bell", "osc9"]
Narrowing = Literal["cuts", "wraps", "wraps-cleared"]

THEMES: tuple[ThemeName, ...] = ("auto", "dark", "light", "plain")
KEYS: tuple[KeysName, ...] = ("emacs", "vi")
NOTIFY: tuple[NotifyName, ...] = ("off", "bell", "osc9")
BARE_TERMINALS = frozenset({"", "dumb", "unknown"})


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the screen may use. `notify_after` is in seconds; `fold` in lines of output.

    `color` False is NO_COLOR: bold and underline stay, colours go. `screen_reader` and bare
    terminals get plain lines in order: no redraws, no spinner, no keys that need a raw terminal.
    `answer_pause` is the quiet, in seconds, before and after a key that answers a question;
    `narrowing` is what the terminal does to rows that no longer fit a window made narrower.
    """

    language: str = "en"
    theme: ThemeName = "auto"
    color: bool = True
    truecolor: bool = False
    keys: KeysName = "emacs"
    screen_reader: bool = False
    term: str = "xterm-256color"
    colorfgbg: str = ""
    unicode: bool = True
    narrowing: Narrowing = "cuts"
    history: Path | None = None
    editor: Sequence[str] = ("vi",)
    pager: Sequence[str] = ("less", "-R")
    notify: NotifyName = "bell"
    notify_after: float = 20.0
    title: bool = True
    progress: bool = True
    fold: int = 16
    answer_pause: float = PAUSE_SECONDS

    @property
    def bare(self) -> bool:
        """Whether the screen is written as plain lines only."""
        return self.screen_reader or self.term in BARE_TERMINALS


def from_quick(quick: QuickSettings, workspace: str, *, tty: bool = True) -> Preferences:
    """Preferences for the first screen; `tty` says whether the output is a terminal.

    The editor and the pager are found here, before any command runs, and not in `workspace`.
    """
    color = quick.color == "always" or (quick.color == "auto" and tty)
    return Preferences(
        language=quick.language,
        theme=theme_name(quick.theme),
        color=color,
        keys="vi" if quick.keys == "vi" else "emacs",
        screen_reader=quick.screen_reader,
        term=quick.term,
        colorfgbg=quick.colorfgbg,
        unicode=quick.unicode,
        narrowing=quick.narrowing,
        truecolor=quick.truecolor,
        editor=_found(_words(quick.editor), _EDITORS, workspace),
        pager=_found(_words(quick.pager), _PAGERS, workspace),
        notify=notify_name(quick.notify),
        history=quick.paths.history_file,
        title=quick.window_title,
        notify_after=quick.notify_after,
        fold=quick.fold_lines,
    )


_EDITORS = (("vi",), ("nano",))
_PAGERS = (("less", "-R"), ("more",), ("cat",))
"""What is used where the user names none: the first that is installed."""


def _found(
    chosen: tuple[str, ...], usual: Sequence[tuple[str, ...]], workspace: str
) -> tuple[str, ...]:
    """The user's choice, else the first usual one, with the path of its program.

    A program that is not found keeps its bare name, which is not run but named in an error.
    """
    commands = [chosen] if chosen else usual
    for name, *options in commands:
        if path := find_user_program(name, workspace, os.curdir):
            return (path, *options)
    return commands[0]


def notify_name(value: str) -> NotifyName:
    """How to call a person; anything unknown rings the bell."""
    for name in NOTIFY:
        if name == value:
            return name
    return "bell"


def theme_name(value: str) -> ThemeName:
    """The theme called `value`; anything unknown reads as auto."""
    for name in THEMES:
        if name == value:
            return name
    return "auto"


def _words(command: str) -> tuple[str, ...]:
    """A program and its options; nothing when the quotes do not close."""
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return ()
