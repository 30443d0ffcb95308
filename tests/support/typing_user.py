"""Actions of a user at a real terminal: writes files, starts KogniTerm, answers its questions."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import randrange
from typing import Any

from kogniterm.ui.screen.paint import SPINNER
from tests.support.real_terminal import RealTerminal

_KEYS = re.compile(r"\[(y|s|yes)\]")
_LINE = re.compile(r"\[(y|s|yes) = .*\]:$", re.DOTALL)
_NUMBERS = itertools.count(1)


def nap() -> str:
    """Return a command that sleeps for days, unlike any other on this machine."""
    return f"sleep {randrange(10**6, 10**7)}"


def running(command: str) -> list[int]:
    """Return the processes of this machine whose words, joined by blanks, contain `command`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            if command in b" ".join(words).decode(errors="replace"):
                found.append(int(process.name))
    return found


def put(folder: Path, name: str, text: str | bytes) -> Path:
    """Write a file with the owner of `folder`."""
    path = folder / name
    owner = folder.stat()
    for parent in reversed(path.relative_to(folder).parents):
        if not (folder / parent).exists():
            (folder / parent).mkdir()
            os.chown(folder / parent, owner.st_uid, owner.st_gid)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.chown(path, owner.st_uid, owner.st_gid)
    return path


def scripted(terminal: RealTerminal, replies: str) -> str:
    """Write a script of the model's replies; return the name of that model."""
    name = f"model-{next(_NUMBERS)}.yaml"
    return f"scripted:{put(terminal.home, name, replies)}"


def open_prompt(terminal: RealTerminal, command: str) -> None:
    """Type a command that opens KogniTerm's prompt, and wait until it takes keys."""
    terminal.start(command)
    terminal.until(lambda: has_prompt(terminal))
    terminal.until(lambda: any(" · " in line for line in terminal.shown[-2:]))


def flat(text: str) -> str:
    """Return `text` without its line breaks: where a line is wrapped depends on its names."""
    return " ".join(text.split())


def say(terminal: RealTerminal, line: str, then: str = "", *, while_working: bool = False) -> str:
    """Type a line at KogniTerm's prompt; wait for `then` to stand below it, and return that.

    The line is typed after the end of the turn before it, unless `while_working` is set.
    """
    if not while_working:
        terminal.until(lambda: not is_working(terminal))
    before = len(terminal.text.splitlines()) - 2
    terminal.send(line)
    terminal.until(lambda: line[:20] in below(terminal, before))
    terminal.send("\r")
    if then:
        terminal.until(lambda: then in flat(below(terminal, before).replace(line, "")))
    return below(terminal, before)


def has_prompt(terminal: RealTerminal) -> bool:
    """Return whether KogniTerm's input line is on the screen."""
    return any(line.startswith("›") for line in terminal.shown)


def is_working(terminal: RealTerminal) -> bool:
    """Return whether a turn is running: its status line stands above the prompt."""
    return any(line[:1] in SPINNER for line in terminal.shown[-5:] if line)


def leave(terminal: RealTerminal) -> int:
    """Leave KogniTerm's prompt with Ctrl-D when no turn is running; return the exit status."""
    terminal.until(lambda: not is_working(terminal))
    terminal.send("\x04")
    return terminal.status()


def press(terminal: RealTerminal, key: str, then: Callable[[], bool]) -> None:
    """Press a key until `then` holds, as a user does.

    Programs may lose a key that comes while they redraw for another size (as `less` does when
    the signal interrupts its reading).
    """
    while not then():
        terminal.send(key)
        terminal.look()


def say_task(terminal: RealTerminal, line: str, then: str) -> None:
    """Type a task at KogniTerm's prompt; wait for `then`, and for the end of the turn."""
    with turn_end(terminal):
        say(terminal, line, then)


@contextmanager
def turn_end(terminal: RealTerminal) -> Iterator[None]:
    """Wait, after the block, for the end of the turn."""
    with anew(terminal, "tokens in, "):
        yield


def choose(terminal: RealTerminal, question: str, key: str = "y") -> None:
    """Answer one of KogniTerm's own questions by a key, once it was looked at."""
    terminal.until(lambda: question in flat(terminal.text) and "[y]" in terminal.text)
    terminal.look()
    terminal.send(key)
    terminal.look()


@contextmanager
def anew(terminal: RealTerminal, text: str) -> Iterator[None]:
    """Wait, after the block, for `text` to appear once more."""
    before = terminal.text.count(text)
    yield
    terminal.until(lambda: terminal.text.count(text) > before)


def below(terminal: RealTerminal, line: int) -> str:
    """Return the text from that line of the scrollback on."""
    return "\n".join(terminal.text.splitlines()[max(0, line) :])


def asked(terminal: RealTerminal, about: str) -> str:
    """Wait for a question about `about` and look at it; return the screen."""
    terminal.until(lambda: about in screen(terminal) and is_asking(terminal))
    terminal.look()
    return screen(terminal)


def is_asking(terminal: RealTerminal) -> bool:
    """Return whether an approval question is open: its keys, or a line that waits for one."""
    last = "\n".join(terminal.shown[-4:])
    return bool(_KEYS.search(last) or _LINE.search(last))


def answer(terminal: RealTerminal, about: str, key: str) -> str:
    """Answer a question about `about` with a key, plus Enter in line mode; return its screen.

    Waits until the answer is accepted: the next question may be about the same words, and must
    not be answered before it is asked.
    """
    shown = asked(terminal, about)
    terminal.send(key + "\r" if terminal.shown[-1].endswith(":") else key)
    terminal.until(lambda: screen(terminal) != shown)
    return shown


def screen(terminal: RealTerminal) -> str:
    """Return the screen as one text."""
    return "\n".join(terminal.shown)


def result_of(file: Path) -> Any:
    """Return the final object that `--output json` or `stream-json` wrote to a file."""
    return json.loads(file.read_text().splitlines()[-1])


def holding(folder: Path, words: bytes) -> list[Path]:
    """Return the files below `folder` that contain these bytes."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if words in path.read_bytes()]
