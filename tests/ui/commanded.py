"""A REPL's face for its commands over a real session: what is said is kept, answers are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kogniterm.runtime.session import LiveSession
from kogniterm.types import Phrase, UserInput
from kogniterm.ui.commands.command_table import basic_registry
from kogniterm.ui.commands.custom import session_commands
from kogniterm.ui.commands.registry import Registry, split_line
from kogniterm.ui.display import Display
from kogniterm.ui.locale import translate
from kogniterm.ui.questions.choice import Option
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.screen_preferences import Preferences


@dataclass
class Commanded:
    """Runs slash commands on `session`; `answers` are the values chosen, in order."""

    session: LiveSession
    answers: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    asked: list[tuple[str, list[str]]] = field(default_factory=list)
    inputs: list[UserInput] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    reopened: list[str | None] = field(default_factory=list)
    registry: Registry = field(default_factory=basic_registry)
    preferences: Preferences = field(
        default_factory=lambda: Preferences(screen_reader=True, color=False)
    )
    finished: Sequence[Any] = ()
    own: tuple[str, ...] = ()
    model_names: Callable[[], Sequence[str]] | None = None

    @property
    def painter(self) -> Painter:
        return Display(self.preferences).painter

    async def type(self, line: str) -> str:
        """Run a command; what it said, one sentence a line."""
        name, argument = split_line(line)
        before = len(self.said)
        done = self.registry.find(name).run(self, argument)  # type: ignore[arg-type]  # its face
        if inspect.isawaitable(done):
            await done
        return "\n".join(self.said[before:])

    def write(self, renderable: Any) -> None:
        self.said.append(self.painter.paint(renderable, 200).rstrip())

    def say(self, text: Phrase, level: str = "info") -> None:
        self.said.append(translate(text))

    def ask_model(self, user_input: UserInput) -> None:
        self.inputs.append(user_input)

    def read_own_commands(self) -> tuple[str, ...]:
        commands, _refused = session_commands(self.session)
        before, self.own = self.own, tuple(command.name for command in commands)
        return tuple(name for name in self.own if name not in before)

    async def reopen(self, session_id: str | None) -> None:
        self.reopened.append(session_id)

    async def choose(self, title: str, body: Sequence[str], options: Sequence[Option]) -> str:
        self.asked.append((title, list(body)))
        answer = self.answers.pop(0)
        assert answer in {option.value for option in options}
        return answer

    async def show_file(self, path: str) -> None:
        self.files.append(path)
