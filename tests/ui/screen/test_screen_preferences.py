"""Preferences, themes, and the terminal's answer about its background."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.settings import quick
from kogniterm.ui.screen.screen_preferences import (
    ROLES,
    background_from_colorfgbg,
    choose_theme,
    from_quick,
    prompt_style,
    split_osc11,
)


@pytest.mark.parametrize(
    ("value", "background"),
    [("15;0", "dark"), ("0;15", "light"), ("0;default;7", "light"), ("", None), ("x", None)],
)
def test_colorfgbg(value: str, background: str | None) -> None:
    assert background_from_colorfgbg(value) == background


def test_the_terminals_answer_is_taken_out_of_the_keys() -> None:
    assert split_osc11("ab\x1b]11;rgb:ffff/ffff/eeee\x1b\\cd") == ("abcd", "light")
    assert split_osc11("\x1b]11;rgb:1e1e/1e1e/2e2e\x07") == ("", "dark")
    assert split_osc11("typed") == ("typed", None)


def test_themes_have_every_role_and_no_color_has_no_colours() -> None:
    for name in ("auto", "dark", "light", "plain"):
        theme = choose_theme(name, color=True, background=None)
        assert set(theme.styles) == set(ROLES)
        assert prompt_style(theme)
    assert choose_theme("dark", color=False, background="dark").name == "plain"
    assert choose_theme("auto", color=True, background="light").name == "light"
    colours = {"cyan", "green", "red", "yellow", "blue", "magenta", "bright_black"}
    plain = choose_theme("plain", color=True, background=None)
    assert not colours & {word for style in plain.styles.values() for word in style.split()}


@pytest.mark.parametrize(
    ("installed", "chosen", "expected"),
    [
        ((), "", ["cat"]),
        (("more",), "", ["more"]),
        (("less", "more"), "", ["less", "-R"]),
        (("less", "mine"), "mine --quiet", ["mine", "--quiet"]),
        (("less",), "missing", None),
    ],
)
def test_the_pager_is_the_chosen_one_or_the_first_that_is_installed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: tuple[str, ...],
    chosen: str,
    expected: list[str] | None,
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in (*installed, "cat"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    pager = from_quick(
        quick({"HOME": str(tmp_path), "PAGER": chosen}), str(tmp_path / "project")
    ).pager
    assert list(pager) == (
        [str(programs / expected[0]), *expected[1:]] if expected else ["missing"]
    )
