"""The preferences of a user for the screen, and the colours of themes for every library.

`from_quick` makes preferences from the few settings that are known before the first prompt; nothing
here reads the environment. A theme is a table of roles, for rich and for prompt_toolkit alike, in
the terminal's own sixteen colours, so that the user's palette decides how they look; only the
banner's gradient uses more. The theme "auto" follows COLORFGBG or the terminal's answer to OSC 11,
and until one of them is known uses colours that read on either background.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from kogniterm.host.programs import find_user_program

if TYPE_CHECKING:
    from kogniterm.settings import QuickSettings


_Word = TypeVar("_Word", bound=str)
ThemeName = Literal["auto", "dark", "light", "plain"]
KeysName = Literal["emacs", "vi"]
NotifyName = Literal["off", "bell", "osc9"]
ThoughtsName = Literal["folded", "shown", "off"]
Narrowing = Literal["cuts", "wraps", "wraps-cleared"]

THEMES: tuple[ThemeName, ...] = ("auto", "dark", "light", "plain")
KEYS: tuple[KeysName, ...] = ("emacs", "vi")
NOTIFY: tuple[NotifyName, ...] = ("off", "bell", "osc9")
THOUGHTS: tuple[ThoughtsName, ...] = ("folded", "shown", "off")
BARE_TERMINALS = frozenset({"", "dumb", "unknown"})


class KeyTimes(NamedTuple):
    """The times of the rule in `questions.answer_keys`, in seconds, in the order of its sentences.

    A key that answers is followed by Enter no sooner than `enter`: a paste is faster. A keyboard
    begins within `repeat` to repeat a key that is held down.
    """

    typing: float = 0.5
    early: float = 0.3
    alone: float = 0.35
    enter: float = 0.03
    repeat: float = 0.75


KEY_TIMES = KeyTimes()


@dataclass(frozen=True, slots=True)
class Preferences:
    """Features the screen may use.

    `color` False is NO_COLOR: bold and underline stay, colours go. `screen_reader` and bare
    terminals get plain lines in order: no redraws, no spinner, no keys that need a raw terminal.
    `key_times` decide when a key answers a question; `narrowing` is what the terminal does to rows
    that no longer fit a window made narrower.
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
    title: bool = True
    progress: bool = False
    thoughts: ThoughtsName = "folded"
    key_times: KeyTimes = KEY_TIMES

    @property
    def bare(self) -> bool:
        """Return whether the screen is written as plain lines only."""
        return self.screen_reader or self.term in BARE_TERMINALS


def from_quick(quick: QuickSettings, workspace: str, *, tty: bool = True) -> Preferences:
    """Return preferences for the first screen; `tty` says whether the output is a terminal.

    The editor and the pager are found here, before any command runs, and not in `workspace`.
    """
    color = quick.color == "always" or (quick.color == "auto" and tty)
    return Preferences(
        language=quick.language,
        theme=_known(quick.theme, THEMES) or "auto",
        color=color,
        keys="vi" if quick.keys == "vi" else "emacs",
        screen_reader=quick.screen_reader,
        term=quick.term,
        colorfgbg=quick.colorfgbg,
        unicode=quick.unicode,
        narrowing=quick.narrowing,
        truecolor=quick.truecolor,
        progress=quick.progress,
        editor=_found(_words(quick.editor), _EDITORS, workspace),
        pager=_found(_words(quick.pager), _PAGERS, workspace),
        notify=_known(quick.notify, NOTIFY) or "bell",
        history=quick.paths.history_file,
        title=quick.window_title,
        thoughts=_known(quick.thoughts, THOUGHTS) or "folded",
    )


def editor_command(chosen: object, workspace: str) -> Sequence[str] | None:
    """Return the command of the editor that the user prefers, if any; not one in `workspace`."""
    return _found(_words(chosen), (), workspace) if isinstance(chosen, str) and chosen else None


_EDITORS = (("vi",), ("nano",))
_PAGERS = (("less", "-R"), ("more",), ("cat",))
"""Programs to use where the user names none: the first that is installed."""


def _found(
    chosen: tuple[str, ...], usual: Sequence[tuple[str, ...]], workspace: str
) -> tuple[str, ...]:
    """Return the user's choice, else the first usual one, with the path of its program.

    A program that is not found keeps its bare name, which is not run but named in an error.
    """
    commands = [chosen] if chosen else usual
    for name, *options in commands:
        if path := find_user_program(name, workspace, os.curdir):
            return (path, *options)
    return commands[0]


def _known(value: str, allowed: Sequence[_Word]) -> _Word | None:
    return next((word for word in allowed if word == value), None)


def _words(command: str) -> tuple[str, ...]:
    """Return a program and its options; nothing when the quotes do not close."""
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return ()


Background = Literal["dark", "light"]

ROLES = (
    "accent", "muted", "good", "warn", "bad", "command", "heading", "code", "link",
    "added", "removed", "added_word", "removed_word", "frame", "prompt", "key", "held",
    "bar", "bar_on", "thought",
)  # fmt: skip

_DARK = (
    "cyan", "bright_black", "green", "yellow", "red", "bold", "bold cyan", "cyan", "underline",
    "green", "red", "bold reverse green", "bold reverse red", "bright_black", "bold cyan",
    "bold", "bold reverse", "bright_black", "cyan", "bright_black",
)  # fmt: skip
_LIGHT = (
    "blue", "bright_black", "green", "magenta", "red", "bold", "bold blue", "blue", "underline",
    "green", "red", "bold reverse green", "bold reverse red", "bright_black", "bold blue",
    "bold", "bold reverse", "bright_black", "blue", "bright_black",
)  # fmt: skip
_EITHER = (
    "cyan", "dim", "green", "yellow", "red", "bold", "bold", "cyan", "underline",
    "green", "red", "bold reverse green", "bold reverse red", "dim", "bold cyan",
    "bold", "bold reverse", "dim", "cyan", "dim",
)  # fmt: skip
_PLAIN = (
    "none", "none", "none", "none", "bold", "bold", "bold", "none", "underline",
    "none", "none", "reverse", "reverse", "none", "bold",
    "bold", "bold reverse", "none", "bold", "dim",
)  # fmt: skip


class Theme(NamedTuple):
    """Styles by role, in rich's words. `code` names the style of code blocks."""

    name: str
    styles: dict[str, str]
    code: str
    gradient: tuple[tuple[int, int, int], tuple[int, int, int]]

    def style(self, role: str) -> str:
        """Return the rich style of `role`. KeyError for a role that does not exist."""
        return self.styles[role]


def _theme(name: str, values: tuple[str, ...], code: str, *gradient: tuple[int, int, int]) -> Theme:
    return Theme(name, dict(zip(ROLES, values, strict=True)), code, (gradient[0], gradient[1]))


_THEMES = {
    theme.name: theme
    for theme in (
        _theme("dark", _DARK, "ansi_dark", (64, 224, 255), (200, 120, 255)),
        _theme("light", _LIGHT, "light", (0, 90, 200), (150, 30, 160)),
        _theme("auto", _EITHER, "either", (0, 160, 200), (160, 80, 200)),
        _theme("plain", _PLAIN, "bw", (0, 0, 0), (0, 0, 0)),
    )
}


def choose_theme(name: str, *, color: bool, background: Background | None) -> Theme:
    """Return the theme called `name`; "auto" follows the background."""
    if not color or name == "plain":
        return _THEMES["plain"]
    if name == "auto" and background is not None:
        return _THEMES[background]
    return _THEMES.get(name, _THEMES["auto"])


def background_from_colorfgbg(value: str) -> Background | None:
    """Return the background that rxvt, konsole and others announce as "foreground;background"."""
    last = value.rpartition(";")[2]
    if not last.isdigit():
        return None
    return "light" if int(last) in (7, *range(9, 16)) else "dark"


_OSC11 = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F/]+)(?:\x07|\x1b\\)")


def split_osc11(data: str) -> tuple[str, Background | None]:
    """Take a terminal's answer to "which background?" out of `data`; (the rest, the answer)."""
    found = _OSC11.search(data)
    if found is None:
        return data, None
    rest = data[: found.start()] + data[found.end() :]
    channels = [int(part, 16) / (16 ** len(part) - 1) for part in found[1].split("/")[:3] if part]
    if len(channels) != 3:
        return rest, None
    # Rec. 709 luma weights: the eye sees green most.
    luma = 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]
    return rest, "light" if luma > 0.5 else "dark"


_ATTRIBUTES = {
    "dim": "",
    "none": "",
    "reverse": "reverse",
    "bold": "bold",
    "underline": "underline",
}


def prompt_style(theme: Theme) -> dict[str, str]:
    """Return the same roles in prompt_toolkit's words, for its `Style.from_dict`."""
    styles = {role.replace("_", "-"): _to_prompt(value) for role, value in theme.styles.items()}
    plain = theme.name == "plain"
    styles.update(
        {
            "completion-menu": "noreverse",
            "completion-menu.completion": "noinherit",
            "completion-menu.completion.current": "noinherit reverse",
            "completion-menu.meta.completion": f"noinherit {'' if plain else styles['muted']}",
            "completion-menu.meta.completion.current": "noinherit reverse",
            "scrollbar.background": "noinherit",
            "scrollbar.button": "noinherit reverse",
            "search": styles["muted"],
            "search.current": "reverse",
        }
    )
    return styles


def _to_prompt(style: str) -> str:
    words = []
    for word in style.split():
        if word in _ATTRIBUTES:
            words.append(_ATTRIBUTES[word])
        else:
            words.append("ansi" + word.replace("_", ""))
    return " ".join(word for word in words if word)
