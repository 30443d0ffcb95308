"""Colours: three themes, each one table of roles, for rich and for prompt_toolkit alike.

Colours are the terminal's own sixteen, so that a person's palette decides how they look; only
the banner's gradient uses more. "auto" is settled from COLORFGBG or from the terminal's answer
to OSC 11, and until one of them speaks uses colours that read on either background.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Background = Literal["dark", "light"]

ROLES = (
    "accent", "muted", "good", "warn", "bad", "command", "heading", "code", "link",
    "added", "removed", "added_word", "removed_word", "frame", "prompt", "key", "held",
    "bar", "bar_on",
)  # fmt: skip

_DARK = (
    "cyan", "bright_black", "green", "yellow", "red", "bold", "bold cyan", "cyan", "underline",
    "green", "red", "bold reverse green", "bold reverse red", "bright_black", "bold cyan",
    "bold", "bold reverse", "bright_black", "cyan",
)  # fmt: skip
_LIGHT = (
    "blue", "bright_black", "green", "magenta", "red", "bold", "bold blue", "blue", "underline",
    "green", "red", "bold reverse green", "bold reverse red", "bright_black", "bold blue",
    "bold", "bold reverse", "bright_black", "blue",
)  # fmt: skip
_EITHER = (
    "cyan", "dim", "green", "yellow", "red", "bold", "bold", "cyan", "underline",
    "green", "red", "bold reverse green", "bold reverse red", "dim", "bold cyan",
    "bold", "bold reverse", "dim", "cyan",
)  # fmt: skip
_PLAIN = (
    "none", "none", "none", "none", "bold", "bold", "bold", "none", "underline",
    "none", "none", "reverse", "reverse", "none", "bold",
    "bold", "bold reverse", "none", "bold",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Theme:
    """Styles by role, in rich's words. `code` names the style of code blocks."""

    name: str
    styles: dict[str, str]
    code: str
    gradient: tuple[tuple[int, int, int], tuple[int, int, int]]

    def style(self, role: str) -> str:
        """The rich style of `role`. KeyError for a role that does not exist."""
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


def choose(name: str, *, color: bool, background: Background | None) -> Theme:
    """The theme to draw with: `name` settles it, except that "auto" follows the background."""
    if not color or name == "plain":
        return _THEMES["plain"]
    if name == "auto" and background is not None:
        return _THEMES[background]
    return _THEMES.get(name, _THEMES["auto"])


def background_from_colorfgbg(value: str) -> Background | None:
    """The background rxvt, konsole and others announce: "foreground;background" by number."""
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
    """The same roles in prompt_toolkit's words, for its `Style.from_dict`."""
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
