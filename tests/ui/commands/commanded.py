"""A REPL interface for commands over a real session: records messages and gives answers."""

from __future__ import annotations

import inspect
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kogniterm.runtime.extensions.called_input import split_line
from kogniterm.runtime.named_files import mentions
from kogniterm.runtime.session import LiveSession
from kogniterm.types import Phrase, UserInput
from kogniterm.ui.commands.command_table import COMMANDS
from kogniterm.ui.commands.registry import Registry, custom_commands
from kogniterm.ui.display import Display
from kogniterm.ui.locale import translate
from kogniterm.ui.questions.question import Option
from kogniterm.ui.questions.session_list import SessionRow
from kogniterm.ui.repl import Wiring
from kogniterm.ui.screen.surface import LineSurface
from kogniterm.ui.screen_preferences import Preferences


class Told(Display):
    """A display that records its messages, one text each."""

    def __init__(self) -> None:
        super().__init__(Preferences(screen_reader=True, color=False))
        self.said: list[str] = []

    def write(self, renderable: Any) -> None:
        self.said.append(self.painter.paint(renderable, 200).rstrip())

    def say(self, text: Phrase, level: str = "info") -> None:
        self.said.append(translate(text))


@dataclass
class Commanded:
    """Runs slash commands on `session`; `answers` are the values chosen, in order.

    It is its own front: `saves` are the texts saved in the editor, in order.
    """

    session: LiveSession
    answers: list[str] = field(default_factory=list)
    saves: list[str | None] = field(default_factory=list)
    asked: list[tuple[str, list[str]]] = field(default_factory=list)
    inputs: list[UserInput] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    reopened: list[str | None] = field(default_factory=list)
    registry: Registry = field(default_factory=lambda: Registry(COMMANDS))
    display: Told = field(default_factory=Told)
    own: tuple[str, ...] = ()
    wiring: Wiring = field(default_factory=Wiring)
    home: str = ""
    surface: LineSurface = field(default_factory=lambda: LineSurface(io.StringIO(), 120))

    def __post_init__(self) -> None:
        self.display.front = self

    @property
    def front(self) -> Commanded:
        return self

    @property
    def said(self) -> list[str]:
        return self.display.said

    async def type(self, line: str) -> str:
        """Run a command; return its messages, one sentence a line."""
        name, argument = split_line(line)
        before = len(self.said)
        done = self.registry.find(name).run(self, argument)
        if inspect.isawaitable(done):
            await done
        return "\n".join(self.said[before:])

    def ask_model(self, user_input: UserInput) -> None:
        self.inputs.append(user_input)

    def attachments(self, line: str) -> tuple[str, ...]:
        return mentions(line, self.session.folder)

    def read_custom_commands(self) -> tuple[str, ...]:
        commands, _refused = custom_commands(self.session, COMMANDS)
        before, self.own = self.own, tuple(command.name for command in commands)
        return tuple(name for name in self.own if name not in before)

    async def reopen(self, session_id: str | None) -> None:
        self.reopened.append(session_id)

    async def choose(self, title: str, body: Sequence[str], options: Sequence[Option]) -> str:
        self.asked.append((title, list(body)))
        answer = self.answers.pop(0)
        assert answer in {option.value for option in options}
        return answer

    async def pick_session(self, rows: Sequence[SessionRow]) -> str:
        self.asked.append(("sessions", [row.title for row in rows]))
        answer = self.answers.pop(0)
        assert answer in {row.id for row in rows}
        return answer

    async def edit_text(self, text: str) -> str | None:
        self.edited.append(text)
        return self.saves.pop(0)

    async def show_file(self, path: str) -> None:
        self.files.append(path)
