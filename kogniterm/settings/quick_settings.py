"""The few settings the first screen needs, read with the standard library alone.

A wrong value reads as the default here; the full load, which runs behind the prompt, reports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, cast

from kogniterm.errors import SettingsError
from kogniterm.paths import Paths, resolve
from kogniterm.settings.layers import PREFIX
from kogniterm.settings.user_files import read_if_there, toml_values

Language = Literal["en", "es"]
Keys = Literal["emacs", "vi"]
Color = Literal["auto", "always", "never"]
Narrowing = Literal["cuts", "wraps", "wraps-cleared"]

_TRUE = {"1", "true", "yes", "on", "y", "t"}


class QuickSettings(NamedTuple):
    """The settings that are read before pydantic is loaded.

    `term` and `colorfgbg` are as the terminal reports them; `editor` and `pager` may be empty.
    `narrowing` is what the terminal does to rows that no longer fit when its window gets narrower:
    it cuts them or, where it is known for that, wraps them; tmux also wraps what was cleared.
    `progress` is whether it shows a progress that it is sent.
    """

    paths: Paths
    language: Language
    theme: str
    color: Color
    keys: Keys
    screen_reader: bool
    model: str
    notify: str
    window_title: bool
    thoughts: str
    warm: str
    editor: str
    pager: str
    term: str
    colorfgbg: str
    truecolor: bool
    unicode: bool
    narrowing: Narrowing
    progress: bool


def quick(environ: Mapping[str, str], flags: Mapping[str, object] | None = None) -> QuickSettings:
    """Return the settings of the first screen. Raises `SettingsError` only without a home."""
    paths = resolve(environ)
    layers = (
        {name: str(value) for name, value in (flags or {}).items() if value is not None},
        _with_prefix(environ),
        _with_prefix(_env_lines(paths.env_file)),
        _toml(paths.config_file),
    )

    def pick(name: str, allowed: tuple[str, ...] | None, default: str) -> str:
        for layer in layers:
            if name in layer:
                value = layer[name]
                return value if allowed is None or value in allowed else default
        return default

    language = pick("language", ("auto", "en", "es"), "auto")
    return QuickSettings(
        paths=paths,
        language=locale_language(environ) if language == "auto" else cast("Language", language),
        theme=pick("theme", None, "auto"),
        color=cast(
            "Color",
            pick(
                "color",
                ("auto", "always", "never"),
                "never" if environ.get("NO_COLOR") else "auto",
            ),
        ),
        keys=cast("Keys", pick("keys", ("emacs", "vi"), "emacs")),
        screen_reader=pick("screen_reader", None, "").lower() in _TRUE,
        window_title=pick("window_title", None, "true").lower() in _TRUE,
        thoughts=pick("thoughts", ("folded", "shown", "off"), "folded"),
        model=pick("model", None, ""),
        warm=pick("warm", ("auto", "off"), "auto"),
        notify=pick("notify", ("off", "bell", "osc9"), "bell"),
        editor=pick("editor", None, environ.get("VISUAL") or environ.get("EDITOR", "")),
        pager=pick("pager", None, environ.get("PAGER", "")),
        term=environ.get("TERM", ""),
        colorfgbg=environ.get("COLORFGBG", ""),
        truecolor=environ.get("COLORTERM", "") in ("truecolor", "24bit"),
        unicode=_has_unicode(environ),
        narrowing=_narrowing(environ),
        progress=_shows_progress(environ),
    )


def locale_language(environ: Mapping[str, str]) -> Language:
    """Return the language of the locale variables: Spanish, or English for every other one."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = environ.get(name, "")
        if value:
            return "es" if value.lower().startswith("es") else "en"
    return "en"


def _has_unicode(environ: Mapping[str, str]) -> bool:
    """Return whether the locale uses UTF-8, which Python assumes without a locale too."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environ.get(name, "")
        if value:
            charset = value.partition(".")[2].lower().replace("-", "")
            return value in ("C", "POSIX") or charset.startswith("utf8") or not charset
    return True


_WRAPPING = ("alacritty", "foot", "xterm-kitty", "xterm-ghostty", "wezterm", "vte", "konsole")
_WRAPPING_PROGRAMS = {"iTerm.app", "Apple_Terminal", "WezTerm", "ghostty"}


def _narrowing(environ: Mapping[str, str]) -> Narrowing:
    """Return what the terminal does with rows that no longer fit.

    xterm, st and screen cut them, and may have inherited the variables of the terminal they were
    started from. Moving up too far would erase other output, so an unknown terminal cuts.
    """
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if term.startswith("tmux") or (term.startswith("screen") and program == "tmux"):
        return "wraps-cleared"
    if term.startswith(_WRAPPING):
        return "wraps"
    if not term.startswith("xterm") or environ.get("XTERM_VERSION"):
        return "cuts"
    named = environ.get("VTE_VERSION") or environ.get("KONSOLE_VERSION")
    return "wraps" if named or program in _WRAPPING_PROGRAMS else "cuts"


_PROGRESS_PROGRAMS = {"WezTerm", "ghostty"}
_VTE_WITH_PROGRESS = 7900
"""VTE 0.79, of GNOME 48."""


def _shows_progress(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is known to show the progress of OSC 9;4.

    Others show it as a notification (kitty, iTerm2) or as text. The multiplexers do not pass it on,
    and what runs in them inherits the variables of the terminal around them.
    """
    if environ.get("TMUX") or environ.get("STY") or environ.get("TERM", "") in ("", "dumb"):
        return False
    if environ.get("TERM_PROGRAM", "") in _PROGRESS_PROGRAMS:
        return True
    vte = environ.get("VTE_VERSION", "")
    if vte.isdecimal():
        return int(vte) >= _VTE_WITH_PROGRESS
    return bool(environ.get("WT_SESSION")) or environ.get("ConEmuANSI") == "ON"


def _with_prefix(values: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in values.items()
        if name.startswith(PREFIX) and value
    }


def _env_lines(file: Path) -> dict[str, str]:
    try:
        text = read_if_there(file) or ""
    except SettingsError:
        return {}
    pairs = (line.removeprefix("export ").partition("=") for line in text.splitlines())
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def _toml(file: Path) -> dict[str, str]:
    try:
        text = read_if_there(file)
        found = toml_values(file, text).data if text is not None else {}
    except SettingsError:
        return {}
    return {name: str(value) for name, value in found.items()}
