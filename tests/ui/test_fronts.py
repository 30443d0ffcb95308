"""The plain front, lending the terminal, completion of files: what the prompt does not cover."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import threading
from collections.abc import AsyncIterator
from typing import Any

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from kogniterm.types import Job
from kogniterm.types import events as ev
from kogniterm.ui.app import build_repl
from kogniterm.ui.commands.command_table import COMMANDS
from kogniterm.ui.commands.registry import Registry
from kogniterm.ui.prompt.input_line import FileIndex, LineCompleter, fuzzy
from kogniterm.ui.prompt.plain_front import PlainFront
from kogniterm.ui.prompt.user_terminal import Lending
from kogniterm.ui.repl import Opened
from kogniterm.ui.screen_preferences import Preferences
from tests.ui.face import Play, PlayedSession, ask
from tests.ui.screen import PATIENCE_SECONDS, until


class Plain:
    """A plain REPL behind a real pseudo-terminal."""

    def __init__(self, play: Play) -> None:
        self.master, slave = pty.openpty()
        self.keyboard = os.fdopen(os.dup(slave), encoding="utf-8")
        self.screen = os.fdopen(slave, "w", encoding="utf-8")
        self.session = PlayedSession(play)
        self.seen = b""
        os.set_blocking(self.master, False)

        async def open_session(_id: str | None) -> Opened:
            return Opened(self.session)  # type: ignore[arg-type]  # its face

        self.repl = build_repl(
            open_session,
            Preferences(term="dumb"),
            "/work/project",
            version="1.0",
            front=lambda controls: PlainFront(controls, self.keyboard, self.screen),
        )
        self.task = asyncio.get_running_loop().create_task(self.repl.run())

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    @property
    def text(self) -> str:
        with contextlib.suppress(BlockingIOError, OSError):
            while data := os.read(self.master, 65536):
                self.seen += data
        return self.seen.decode().replace("\r\n", "\n")

    async def until(self, text: str) -> None:
        await until(lambda: text in self.text, lambda: f"{text}\n{self.text}", self.task)

    def close(self) -> None:
        self.keyboard.close()
        self.screen.close()
        os.close(self.master)


async def test_plain_lines_without_a_single_escape_sequence() -> None:
    async def play(session: PlayedSession, given: Any, approver: Any, sink: Any) -> None:
        sink(ev.AnswerDelta("Hello **there**."))
        await ask(session, approver, sink, "make")

    plain = Plain(play)
    await plain.until("> ")
    plain.type("greet me\n")
    await plain.until("Hello there.")
    await plain.until("Your decision")
    plain.type("\ny\n")
    await plain.until("1.2k tokens in")
    plain.type("/cost\n")
    await plain.until("0.0123 US dollars")
    plain.type("\x04")
    assert await asyncio.wait_for(plain.task, PATIENCE_SECONDS) == 0
    assert "\x1b" not in plain.text
    assert [d.kind for d in plain.session.decisions] == ["approve"]
    assert plain.session.closed
    plain.close()


async def test_plain_what_was_typed_ahead_does_not_answer_a_question() -> None:
    go, started = asyncio.Event(), asyncio.Event()

    async def play(session: PlayedSession, given: Any, approver: Any, sink: Any) -> None:
        started.set()
        await go.wait()
        await ask(session, approver, sink, "make")

    plain = Plain(play)
    await plain.until("> ")
    plain.type("go\n")
    await plain.until("go")
    await started.wait()
    plain.type("y")
    # Its echo tells that it has arrived: the kernel passes keys on in its own time.
    await until(lambda: plain.text.endswith("y"), lambda: plain.text, plain.task)
    go.set()
    await plain.until("Your decision")
    plain.type("\n")
    await plain.until("Please answer with one of the letters")
    assert plain.session.decisions == []
    plain.type("n\n\n")
    await plain.until("1.2k tokens in")
    plain.type("/quit\n")
    assert await asyncio.wait_for(plain.task, PATIENCE_SECONDS) == 0
    plain.close()


async def test_the_terminal_is_lent_to_a_thread_and_comes_back() -> None:
    states: list[str] = []

    @contextlib.asynccontextmanager
    async def still() -> AsyncIterator[None]:
        states.append("rests")
        yield
        states.append("draws")

    lending = Lending(still, lambda keys: states.append(keys.decode()))

    def borrow() -> None:
        lending.suspend()
        lending.suspend()
        states.append("borrowed")
        lending.resume()
        lending.resume()
        states.append("given back")
        lending.typed(b"keys that came too late")

    await asyncio.to_thread(borrow)
    await asyncio.sleep(0)
    assert states == ["rests", "borrowed", "draws", "given back", "keys that came too late"]


def test_files_are_found_by_their_letters_best_first() -> None:
    paths = ["src/app/main.py", "tests/test_main.py", "docs/remains.md", "Makefile", "a/m/x.py"]
    ranked = sorted((score, path) for path in paths if (score := fuzzy("main", path)))
    assert [path for _score, path in ranked] == [
        "src/app/main.py",
        "docs/remains.md",
        "tests/test_main.py",
    ]
    assert fuzzy("mfl", "Makefile") is not None
    assert fuzzy("zz", "Makefile") is None


async def nothing(*_given: object) -> None:
    """Play no turn."""


def test_files_with_spaces_are_quoted_and_commands_wait_for_a_slash() -> None:
    class Enough:
        """The part of a REPL that completion uses."""

        registry = Registry(COMMANDS)
        opened = True
        session = PlayedSession(nothing)

    job = Job("7", "make all", "running", (1,), 0.0, output_path="/tmp/out")
    Enough.session.executor.running = (job,)

    files = ["my file.txt", "other.txt"]
    completer = LineCompleter(Enough(), lambda: files)  # type: ignore[arg-type]  # enough of it

    def complete(text: str) -> list[str]:
        found = completer.get_completions(Document(text), CompleteEvent())
        return [completion.text for completion in found]

    assert complete("look at @my") == ['@"my file.txt"']
    assert complete("/the") == ["/theme"]
    assert complete("/theme d") == ["dark"]
    assert complete("/nonsense x") == []
    assert complete("the") == []
    assert complete("what says @jo") == ["@jobs", "@job:7"]
    assert complete("what says @job:") == ["@job:7"]


def test_the_file_index_answers_at_once_and_lists_behind() -> None:
    now, listed, arrived = [0.0], threading.Event(), threading.Event()
    calls: list[int] = []

    def listing() -> list[str]:
        listed.wait(PATIENCE_SECONDS)
        calls.append(1)
        return ["a.py"]

    index = FileIndex(listing, clock=lambda: now[0], arrived=arrived.set)
    assert index() == []
    assert index() == []
    listed.set()
    assert arrived.wait(PATIENCE_SECONDS)
    assert index() == ["a.py"]
    assert len(calls) == 1
    arrived.clear()
    now[0] += 60
    assert index() == ["a.py"]
    assert arrived.wait(PATIENCE_SECONDS)
    assert len(calls) == 2
