"""The banner at every width."""

from __future__ import annotations

import pytest

from kogniterm.text.visible import without_style
from kogniterm.ui.front import banner
from kogniterm.ui.screen.screen_preferences import (
    choose_theme,
)


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 160])
def test_the_banner_fits(columns: int) -> None:
    theme = choose_theme("dark", color=True, background=None)
    lines = without_style(banner("1.2.3", columns, theme)).splitlines()
    assert max(len(line) for line in lines) <= max(columns, 34)
    assert any("1.2.3" in line for line in lines)


def test_the_banner_without_colour_or_attributes() -> None:
    plain = choose_theme("plain", color=False, background=None)
    assert "\x1b[38" not in banner("1", 80, plain, color=False)
    assert "\x1b" not in banner("1", 80, plain, attributes=False)
    assert banner("1", 80, plain, unicode=False, attributes=False).isascii()
