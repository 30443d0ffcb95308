"""The display of the REPL: preferences, theme, the screen of events, and calls for the user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from kogniterm.types import Phrase
from kogniterm.ui.front import Front
from kogniterm.ui.locale import _, translate, use_language
from kogniterm.ui.screen.screen_preferences import (
    Background,
    Preferences,
    Theme,
    background_from_colorfgbg,
    choose_theme,
    editor_command,
)
from kogniterm.ui.screen.surface import Surface, stream_size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kogniterm.runtime.session import LiveSession
    from kogniterm.types import ActionRequest, Plan
    from kogniterm.ui.screen.paint import Painter
    from kogniterm.ui.screen.renderer import FinishedCommand, ScreenSink
    from kogniterm.ui.screen.surface import Attention


class Display:
    """The screen with its theme and language, which /theme, /lang and the background change.

    Until `open` has loaded what draws, sentences are plain and the rest waits. `front` is set by
    the code that puts a REPL together; a one-shot run has none. `asked` is called when a question
    waits.
    """

    front: Front

    def __init__(self, preferences: Preferences) -> None:
        self.preferences = preferences
        self._editor = preferences.editor
        self.screen: ScreenSink | None = None
        self.asked: Callable[[], None] | None = None
        self._background = background_from_colorfgbg(preferences.colorfgbg)
        self._attention: Attention | None = None
        self._early: list[RenderableType] = []
        use_language(preferences.language)

    def open(
        self,
        surface: Surface,
        clock: Callable[[], float],
        *,
        answers: bool = True,
        unfolds: bool = True,
    ) -> ScreenSink:
        """Load what draws, and return the sink that shows events on `surface`.

        Without `answers` the answers are printed elsewhere; without `unfolds` nobody can unfold
        thoughts.
        """
        from kogniterm.ui.screen.renderer import ScreenOptions, ScreenSink
        from kogniterm.ui.screen.surface import Attention

        prefs = self.preferences
        self._attention = Attention(prefs, surface.control)
        options = ScreenOptions(
            live=not prefs.bare,
            answers=answers,
            thoughts=prefs.thoughts,
            unfold_key=("/thoughts" if prefs.bare else "Ctrl-O") if unfolds else "",
        )
        self.screen = ScreenSink(
            self.painter,
            surface,
            clock=clock,
            options=options,
            attention=self._attention,
        )
        for renderable in self._early:
            self.screen.write(renderable)
        self._early.clear()
        return self.screen

    def close(self) -> None:
        """Reset the terminal's title and progress."""
        if self._attention is not None:
            self._attention.close()

    @property
    def theme(self) -> Theme:
        prefs = self.preferences
        color = prefs.color and not prefs.bare
        return choose_theme(prefs.theme, color=color, background=self._background)

    @property
    def painter(self) -> Painter:
        if self.screen is not None:
            return self.screen.painter
        return self._new_painter()

    def write(self, renderable: RenderableType) -> None:
        """Write something into the scrollback."""
        if self.screen is not None:
            self.screen.write(renderable)
        else:
            self._early.append(renderable)

    def say(self, text: Phrase, level: str = "info") -> None:
        """Write a sentence into the scrollback."""
        if self.screen is not None:
            self.screen.notice(text, level)
        else:
            self.front.surface.commit(translate(text) + "\n")

    def show_thoughts(self) -> bool:
        """Write the last thoughts whole; return False if there are none."""
        return self.screen is not None and self.screen.show_thoughts()

    def title(self, text: str) -> None:
        """Name the window after the session."""
        if self._attention is not None and text:
            self._attention.title(text)

    def change(self, **changes: Any) -> None:
        """Use other preferences from now on."""
        self.preferences = replace(self.preferences, **changes)
        use_language(self.preferences.language)
        self.front.use_keys(self.preferences.keys)
        if self.screen is not None:
            self.screen.use_thoughts(self.preferences.thoughts)
        self._restyle()

    def use_editor(self, command: Sequence[str] | None) -> None:
        """Open this editor from now on; None is the configured one."""
        self.preferences = replace(self.preferences, editor=command or self._editor)

    def saw_background(self, background: Background | None) -> None:
        """Take the terminal's answer about its background."""
        self._background = background
        self._restyle()

    # --- for questions and commands that run ----------------------------------------------------

    def user_needed(self) -> None:
        """Call the user: a question waits."""
        if self.asked is not None:
            self.asked()
        if self._attention is not None:
            self._attention.waiting(True)
            self._attention.call(_("KogniTerm: waiting for your answer"))

    def keyboard_to_command(self) -> None:
        """Show the command's frame for good: it has the keyboard and writes to the screen itself.

        With one of the model's, the user is told how to get the keyboard back.
        """
        screen = self.screen
        if screen is None or screen.frame is None or screen.frame.has_keyboard:
            return
        if screen.frame.own:
            screen.frame.has_keyboard = True
            return
        screen.hand_over()
        if self._attention is not None:
            self._attention.typing(True)
        self.say(
            Phrase("You are typing into the command. Ctrl-] or Ctrl-G Ctrl-G Ctrl-D detaches it."),
            "warning",
        )

    def keyboard_back(self) -> None:
        """Note that the running command no longer has the keyboard."""
        if self._attention is not None:
            self._attention.typing(False)

    @property
    def finished(self) -> Sequence[FinishedCommand]:
        """The commands that ended on this screen, oldest first."""
        return self.screen.finished if self.screen is not None else ()

    def command_running(self) -> bool:
        return self.screen is not None and self.screen.frame is not None

    def plan_shown(self, plan: Plan) -> None:
        """Note that a question has left this plan on the screen."""
        if self.screen is not None:
            self.screen.plan_shown = plan

    def folder_of(self, request: ActionRequest) -> str | None:
        """Return the folder a request was proposed for, if it was shown."""
        return self.screen.folders.get(request.id) if self.screen is not None else None

    def _new_painter(self) -> Painter:
        from kogniterm.ui.screen.paint import Painter

        prefs = self.preferences
        return Painter(
            self.theme,
            color=prefs.color,
            attributes=not prefs.bare,
            unicode=prefs.unicode and not prefs.bare,
            system="truecolor" if prefs.truecolor else "256",
        )

    def _restyle(self) -> None:
        if self.screen is not None:
            self.screen.painter = self._new_painter()
        self.front.restyle(self.theme)
        self.front.surface.refresh()


def follow_preferences(session: LiveSession, display: Display) -> None:
    """Use the editor that the user prefers in this session, or the configured one."""
    from kogniterm.runtime.services.memory_service import preference_of

    chosen = preference_of(session.memory, "editor")
    display.use_editor(editor_command(chosen, session.folder))


def write_drawn(stream: TextIO, rows: Iterable[RenderableType]) -> None:
    """Write what is drawn, as the terminal takes it, or as plain text elsewhere."""
    from kogniterm.settings import environment, quick
    from kogniterm.ui.screen.screen_preferences import from_quick

    painter = Display(from_quick(quick(environment()), "/")).painter
    painter = painter._replace(attributes=painter.attributes and stream.isatty())
    columns = max(stream_size(stream)[1] - 1, 20)
    for row in rows:
        stream.write(painter.paint(row, columns))
