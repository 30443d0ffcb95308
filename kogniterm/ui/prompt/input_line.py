"""The input line: its history, and the completion of commands, their arguments and @files.

The history is a private file, one JSON string a line, newest last. A line that begins with a space
is not kept, nor is one that holds a secret, nor the same line twice in a row. Losing the file costs
nothing but convenience, so no error here stops anybody.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    DummyCompleter,
    DynamicCompleter,
)
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History
from prompt_toolkit.key_binding.vi_state import InputMode

from kogniterm.errors import KognitermError
from kogniterm.storage.folders import private_folder, write_private
from kogniterm.text.shorten import one_line
from kogniterm.ui.locale import translate
from kogniterm.ui.prompt.attachments import Pastes
from kogniterm.ui.prompt.file_completion import RankedFiles
from kogniterm.ui.repl import JOB, JOBS, Repl
from kogniterm.ui.screen.screen_preferences import Preferences

KEPT = 5000
LONGEST = 8000


class PrivateHistory(History):
    """prompt_toolkit's history over a 0600 file."""

    def __init__(self, file: Path | None) -> None:
        super().__init__()
        self._file = file
        self._last = ""

    def load_history_strings(self) -> Iterable[str]:
        """Yield the newest first. Lines that cannot be read are left out."""
        if self._file is None:
            return []
        try:
            raw = self._file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        if len(raw) > 2 * KEPT:
            self._rewrite(raw[-KEPT:])
        entries = [entry for line in raw[-KEPT:] if (entry := _decode(line))]
        self._last = entries[-1] if entries else ""
        return reversed(entries)

    def append_string(self, string: str) -> None:
        """Remember `string` for this run and, where allowed, in the file."""
        if not self._worth_keeping(string):
            return
        super().append_string(string)
        self._last = string

    def store_string(self, string: str) -> None:
        """Append to the file, creating it private."""
        if self._file is None:
            return
        with suppress(OSError):
            private_folder(self._file.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with os.fdopen(os.open(self._file, flags, 0o600), "a", encoding="utf-8") as stream:
                stream.write(json.dumps(string, ensure_ascii=False) + "\n")

    def _worth_keeping(self, string: str) -> bool:
        if not string.strip() or string[0] == " " or string == self._last or len(string) > LONGEST:
            return False
        if string.startswith("/secret"):  # a value may stand behind the name by mistake
            return False
        from kogniterm.text.redact import redact

        return redact(string) == string

    def _rewrite(self, lines: list[str]) -> None:
        """Shorten the file in place of letting it grow for ever."""
        if self._file is None:
            return
        with suppress(OSError):
            write_private(self._file, ("\n".join(lines) + "\n").encode("utf-8"))


def _decode(line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


class InputLine:
    """The line being written: its buffer, its history, its pastes, and what was set aside."""

    app: Application[int]

    def __init__(self, preferences: Preferences) -> None:
        self.history = PrivateHistory(preferences.history)
        self.pastes = Pastes()
        self.completer: Completer = DummyCompleter()
        self.aside: list[str] = []
        self.buffer = Buffer(
            name="input",
            multiline=True,
            history=self.history,
            complete_while_typing=Condition(self._completes_while_typing),
            completer=DynamicCompleter(lambda: self.completer),
            enable_history_search=False,
        )

    @property
    def text(self) -> str:
        return self.pastes.expand(self.buffer.text)

    def draft(self) -> str:
        """Return what stands on the line, or was set aside from it, and was not sent."""
        return "\n".join(text for text in (*self.aside, self.buffer.text) if text)

    def restore(self, text: str) -> None:
        """Put `text` back on the line, before what stands there."""
        if text:
            draft = self.buffer.text
            whole = f"{text}\n{draft}" if draft else text
            self.buffer.document = Document(whole, len(whole))

    def take(self) -> str:
        """Return the text, which leaves the line for the history."""
        self.use_insert_mode()
        text = self.text
        self.buffer.append_to_history()
        self.buffer.reset()
        if not self.aside:
            self.pastes.clear()
        return text

    def put_away(self) -> None:
        """Empty the line; its text stays in the history."""
        self.buffer.append_to_history()
        self.buffer.reset()

    def set_aside(self) -> None:
        """Empty the line; its text comes back with `bring_back`."""
        self.aside.append(self.buffer.text)
        self.buffer.reset()

    def bring_back(self) -> None:
        aside, self.aside = self.aside, []
        self.restore("\n".join(aside))

    # --- vi ------------------------------------------------------------------------------------

    def use_keys(self, keys: str) -> None:
        self.app.editing_mode = EditingMode.VI if keys == "vi" else EditingMode.EMACS

    @property
    def vi(self) -> bool:
        """Return whether vi's keys are in use."""
        return self.app.editing_mode is EditingMode.VI

    @property
    def vi_waits(self) -> bool:
        """Return whether letters are vi's commands now."""
        return self.vi and self.app.vi_state.input_mode is InputMode.NAVIGATION

    def use_insert_mode(self) -> None:
        """Take letters as text."""
        self.app.vi_state.input_mode = InputMode.INSERT

    def _completes_while_typing(self) -> bool:
        before = self.buffer.document.current_line_before_cursor
        word = before.rpartition(" ")[2]
        return before.startswith("/") or word.startswith("@")


MOST_CHOICES = 60


class LineCompleter(Completer):
    """Completes what stands before the cursor; `files` lists the workspace's files."""

    def __init__(self, repl: Repl, files: Callable[[], RankedFiles] | None = None) -> None:
        self._repl = repl
        self._files = files

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield candidates, best first."""
        before = document.text_before_cursor
        word = before.rpartition(" ")[2].rpartition("\n")[2]
        if word.startswith("@"):
            if word == before:
                yield from self._agent_completions(word[1:])
            yield from self._resource_completions(word[1:])
            yield from self._job_completions(word[1:])
            if self._files is not None:
                yield from _file_completions(word[1:], self._files())
        elif before.startswith("/") and "\n" not in before:
            yield from self._command_completions(before)

    def _agent_completions(self, typed: str) -> Iterable[Completion]:
        """Yield the sub-agents, which the beginning of an input calls."""
        agents = self._repl.session.extensions.port.agents() if self._repl.opened else {}
        for name, agent in agents.items():
            if name.startswith(typed.lower()) and agent.off is None:
                meta = one_line(agent.description, 60)
                yield Completion(f"@{name} ", -len(typed) - 1, f"@{name}", meta)

    def _resource_completions(self, typed: str) -> Iterable[Completion]:
        """Yield the resources of MCP servers, once the name of a server is typed."""
        if not (self._repl.opened and typed):
            return
        for name, about in self._repl.session.extensions.servers.resource_names():
            if name.lower().startswith(typed.lower()):
                yield Completion(f"@{name} ", -len(typed) - 1, f"@{name}", one_line(about, 60))

    def _job_completions(self, typed: str) -> Iterable[Completion]:
        jobs = self._repl.session.executor.jobs() if self._repl.opened else ()
        if jobs and JOBS.startswith(typed):
            yield Completion(f"@{JOBS}", start_position=-len(typed) - 1)
        for job in jobs:
            name = f"{JOB}{job.id}"
            if name.startswith(typed):
                meta = one_line(self._repl.session.journal.redact_command(job.command), 40)
                yield Completion(f"@{name}", start_position=-len(typed) - 1, display_meta=meta)

    def _command_completions(self, before: str) -> Iterable[Completion]:
        name, space, argument = before[1:].partition(" ")
        registry = self._repl.registry
        if not space:
            for command in registry.commands:
                if command.name.startswith(name.lower()):
                    yield Completion(
                        f"/{command.name}",
                        start_position=-len(before),
                        display=f"/{command.name} {command.arguments}".rstrip(),
                        display_meta=translate(command.help),
                    )
            return
        try:
            command = registry.find(name.lower())
            choices = list(command.completions(self._repl))
        except KognitermError:
            return
        from kogniterm.sessions.session_search import holds_words

        fitting = [choice for choice in choices if choice.lower().startswith(argument.lower())]
        fitting = [choice for choice in fitting if choice != argument or choice[-1:] != " "]
        # A title is remembered by any of its words.
        titles = [choice for choice in choices if " " in choice and holds_words(choice, argument)]
        stems = [one for one in fitting if one.endswith(" ") and len(one) > len(argument)]
        for choice in list(dict.fromkeys([*fitting, *titles]))[:MOST_CHOICES]:
            # "set language " stands for all that begins so, until it is typed.
            if not any(choice.startswith(stem) and choice != stem for stem in stems):
                yield Completion(choice, start_position=-len(argument))


def _file_completions(typed: str, files: RankedFiles) -> Iterable[Completion]:
    for path in files.matching(typed, MOST_CHOICES):
        shown = f"@{path}" if " " not in path else f'@"{path}"'
        if path.isprintable():  # a mention ends with its line
            yield Completion(shown, start_position=-len(typed) - 1, display=one_line(path))
