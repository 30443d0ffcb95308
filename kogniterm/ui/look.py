"""How the REPL looks now: preferences, theme, and the screen that draws with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kogniterm.ui.locale import use_language
from kogniterm.ui.preferences import Preferences
from kogniterm.ui.theme import Background, Theme, background_from_colorfgbg, choose

if TYPE_CHECKING:
    from kogniterm.ui.attention import Attention
    from kogniterm.ui.paint import Painter
    from kogniterm.ui.render import ScreenSink
    from kogniterm.ui.surface import Surface


class Look:
    """One place for what /theme, /lang and the terminal's background change."""

    def __init__(self, preferences: Preferences) -> None:
        self.preferences = preferences
        self.background: Background | None = background_from_colorfgbg(preferences.colorfgbg)
        self.screen: ScreenSink | None = None
        self.attention: Attention | None = None
        use_language(preferences.language)

    @property
    def theme(self) -> Theme:
        """The theme in use."""
        prefs = self.preferences
        color = prefs.color and not prefs.bare
        return choose(prefs.theme, color=color, background=self.background)

    def painter(self) -> Painter:
        """What draws now."""
        from kogniterm.ui.paint import Painter

        prefs = self.preferences
        return Painter(
            self.theme,
            color=prefs.color,
            attributes=not prefs.bare,
            unicode=prefs.unicode and not prefs.bare,
            system="truecolor" if prefs.truecolor else "256",
        )

    def open_screen(self, surface: Surface, clock: Callable[[], float]) -> ScreenSink:
        """The sink that shows events on `surface`. Loads what draws."""
        from kogniterm.ui.attention import Attention
        from kogniterm.ui.render import ScreenOptions, ScreenSink

        prefs = self.preferences
        self.attention = Attention(prefs, surface.control)
        options = ScreenOptions(
            fold=prefs.fold, live=not prefs.bare, notify_after=prefs.notify_after
        )
        self.screen = ScreenSink(
            self.painter(), surface, clock=clock, options=options, attention=self.attention
        )
        return self.screen

    def change(self, **changes: Any) -> None:
        """Use other preferences from now on."""
        self.preferences = replace(self.preferences, **changes)
        use_language(self.preferences.language)
        self.redraw()

    def redraw(self) -> None:
        """The theme may have changed."""
        if self.screen is not None:
            self.screen.painter = self.painter()
