"""Completion on the input line: slash commands, their arguments, and @files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from kogniterm.errors import KognitermError
from kogniterm.text.visible import one_line
from kogniterm.ui.locale import translate
from kogniterm.ui.prompt.attachments import JOB, JOBS
from kogniterm.ui.repl import Repl

FRESH_SECONDS = 5.0


class FileIndex:
    """Answers at once with what is known; `arrived` is called on the thread that listed."""

    def __init__(
        self,
        listing: Callable[[], Iterable[str]],
        *,
        clock: Callable[[], float],
        arrived: Callable[[], None],
    ) -> None:
        self._listing = listing
        self._clock = clock
        self._arrived = arrived
        self._known: list[str] = []
        self._when = float("-inf")
        self._busy = threading.Lock()

    def __call__(self) -> list[str]:
        """The files as last listed; a stale list is renewed behind it."""
        stale = self._clock() - self._when > FRESH_SECONDS
        if stale and self._busy.acquire(blocking=False):
            threading.Thread(target=self._list, daemon=True, name="files").start()
        return self._known

    def _list(self) -> None:
        try:
            self._known = list(self._listing())
            self._when = self._clock()
        finally:
            self._busy.release()
        self._arrived()


MOST = 60


class LineCompleter(Completer):
    """Completes what stands before the cursor; `files` lists the workspace's files."""

    def __init__(self, repl: Repl, files: Callable[[], Iterable[str]] | None = None) -> None:
        self._repl = repl
        self._files = files

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Candidates, best first."""
        before = document.text_before_cursor
        word = before.rpartition(" ")[2].rpartition("\n")[2]
        if word.startswith("@"):
            yield from self._job_completions(word[1:])
            if self._files is not None:
                yield from _file_completions(word[1:], self._files())
        elif before.startswith("/") and "\n" not in before:
            yield from self._command_completions(before)

    def _job_completions(self, typed: str) -> Iterable[Completion]:
        jobs = self._repl.session.executor.jobs() if self._repl.opened else ()
        if jobs and JOBS.startswith(typed):
            yield Completion(f"@{JOBS}", start_position=-len(typed) - 1)
        for job in jobs:
            name = f"{JOB}{job.id}"
            if name.startswith(typed):
                meta = one_line(job.command, 40)
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
        # A title is remembered by any of its words.
        titles = [choice for choice in choices if " " in choice and holds_words(choice, argument)]
        for choice in list(dict.fromkeys([*fitting, *titles]))[:MOST]:
            yield Completion(choice, start_position=-len(argument))


def _file_completions(typed: str, files: Iterable[str]) -> Iterable[Completion]:
    scored = ((score, path) for path in files if (score := fuzzy(typed, path)) is not None)
    for _score, path in sorted(scored)[:MOST]:
        shown = f"@{path}" if " " not in path else f'@"{path}"'
        if path.isprintable():  # a mention ends with its line
            yield Completion(shown, start_position=-len(typed) - 1, display=one_line(path))


def fuzzy(typed: str, path: str) -> tuple[int, int, int, str] | None:
    """How well `typed` fits `path` (smaller is better), or None if its letters do not appear
    in order. A run of letters beats scattered ones, the file's name beats its folders."""
    needle, hay = typed.lower(), path.lower()
    name_at = hay.rfind("/") + 1
    found = hay.find(needle, name_at)
    if found >= 0:
        return (0 if found == name_at else 1, len(path), found, path)
    found = hay.find(needle)
    if found >= 0:
        return (2, len(path), found, path)
    position, spread, start = -1, 0, -1
    for char in needle:
        following = hay.find(char, position + 1)
        if following < 0:
            return None
        start = following if start < 0 else start
        spread += following - position - 1 if position >= 0 else 0
        position = following
    return (3, spread, len(path), path)
