"""A real terminal: a pseudo-terminal whose session leader is an interactive shell.

That is what a terminal window, ssh or tmux gives. KogniTerm is typed into the shell as a user types
it, so it inherits everything that a test without a terminal would hide: a controlling terminal that
belongs to another process, job control, and a shell that reads the keys that are left over.
With `user="ordinary"` the shell runs as a user without privileges in a home of its own, also when
the tests run as root.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NoReturn

from tests.support.forge import STARTED
from tests.support.ordinary import become_ordinary, hand_over
from tests.support.picture import Picture

PATIENCE_SECONDS = float(os.environ.get("KOGNITERM_TEST_PATIENCE", "240"))
"""A guard against hanging, not a measure: every wait ends with what it waits for."""
LOOKING_SECONDS = {False: 1.0, True: 0.6}
"""Seconds that a user looks at a question before pressing a key; in a warm program fewer do."""
FRAME_SECONDS = 1.0
"""Seconds a terminal waits for the end of a frame that was begun."""
User = Literal["current", "ordinary"]
_PROMPT = "[ready {status}]$ "
_READY = re.compile(r"^\[ready (\d+)\]\$$")


class RealTerminal:
    """An interactive bash on its own PTY, standing in `folder` with the home `home`.

    Both folders are given to the ordinary user when `user` asks for one, who can read `reachable`.
    With the variables `warm` programs start warm, and take a key sooner.
    """

    def __init__(
        self,
        home: Path,
        folder: Path,
        *,
        user: User = "current",
        rows: int = 40,
        columns: int = 100,
        environment: Mapping[str, str] | None = None,
        reachable: Sequence[Path] = (),
        warm: Mapping[str, str] | None = None,
    ) -> None:
        self.looking = LOOKING_SECONDS[bool(warm)]
        self.raw = b""
        self._heard = time.monotonic()
        self.home, self.folder = home, folder
        self._picture = Picture(rows, columns)
        if user == "ordinary":
            hand_over(home, folder)
        given = _environment(home) | dict(warm or {}) | dict(environment or {})
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            _become_shell(folder, given, user, reachable)
        self.resize(rows, columns)
        self.until(self._at_prompt)

    # --- the keyboard -------------------------------------------------------------------------

    def send(self, keys: str) -> None:
        """Press keys at once, as a paste or a fast typist does."""
        os.write(self.master, keys.encode())

    def type(self, text: str, *, every: float) -> None:
        """Press one key after the other, `every` seconds apart, and draw the output meanwhile."""
        for key in text:
            self.send(key)
            self.pause(every)

    def pause(self, seconds: float) -> None:
        """Wait at the keyboard and draw the output meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not self._read(left):
                return

    def look(self, times: int = 1) -> None:
        """Look at the screen for as long as a question needs before it takes a key.

        A program that still draws is looked at for longer, up to what a plain one needs.
        """
        end = time.monotonic() + times * LOOKING_SECONDS[False]
        self.pause(times * self.looking)
        while self._heard > time.monotonic() - self.looking and time.monotonic() < end:
            self.pause(self.looking / 4)

    def start(self, command: str) -> None:
        """Type a command line into the shell and press Enter."""
        for _ in range(command.count("kogniterm ")):
            sys.audit(STARTED, command)
        self.send(command + "\r")

    def run(self, command: str) -> tuple[int, str]:
        """Type a command line and wait for the next prompt; return exit status and output."""
        before = len(self._prompts())
        marker = len(self.text.splitlines())
        self.start(command)
        self.until(lambda: len(self._prompts()) > before and self._at_prompt())
        lines = self.text.splitlines()
        return self._prompts()[-1], "\n".join(lines[marker:-1])

    def status(self) -> int:
        """Wait for the shell's prompt; return the exit status of the command before it."""
        self.until(self._at_prompt)
        return self._prompts()[-1]

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._picture.resize(rows, columns)

    # --- the screen ---------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The scrollback and the screen."""
        return self._picture.text

    @property
    def shown(self) -> list[str]:
        """The lines of the screen."""
        return self._picture.lines

    @property
    def painted(self) -> str:
        """The screen with its styles, as sent to terminals."""
        return self._picture.painted()

    def until(self, test: Callable[[], bool] | str) -> None:
        """Read until `test` holds, or until its text stands on the screen or above it."""
        check = (lambda: test in self.text) if isinstance(test, str) else test
        end = time.monotonic() + PATIENCE_SECONDS
        while not check():
            if time.monotonic() > end or not self._read(0.2):
                raise AssertionError(f"never: {test}\n{self.text}")

    def close(self) -> None:
        """Hang up, and end the shell and everything left of its session."""
        with suppress(OSError):
            os.close(self.master)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def _prompts(self) -> list[int]:
        found = map(_READY.match, (line.strip() for line in _prompt_lines(self.text)))
        return [int(match[1]) for match in found if match]

    def _at_prompt(self) -> bool:
        lines = self.shown
        return bool(lines) and _READY.match(lines[-1].strip()) is not None

    def _read(self, seconds: float) -> bool:
        """Read the available bytes, waiting at most `seconds`; return False at the end."""
        if not select.select([self.master], [], [], seconds)[0]:
            if time.monotonic() > self._heard + FRAME_SECONDS:
                self._picture.give_up_frame()
            return True
        self._heard = time.monotonic()
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.raw += data
        self._picture.feed(data)
        self._answer(data)
        return bool(data)

    def _answer(self, data: bytes) -> None:
        """Report the cursor position when the program asks for it, as a terminal does."""
        for _ in range(data.count(b"\x1b[6n")):
            self.send(f"\x1b[{max(1, len(self.shown))};1R")


def words(*arguments: str) -> str:
    """Return the arguments as one command line for `start` or `run`."""
    return shlex.join(arguments)


def _prompt_lines(text: str) -> list[str]:
    """Return the prompts in `text`, without the commands typed after them."""
    return re.findall(r"^\[ready \d+\]\$", text, re.MULTILINE)


def _environment(home: Path) -> dict[str, str]:
    given = {name: os.environ[name] for name in ("TMPDIR", "LANG", "TZ", "SSL_CERT_FILE")}
    folders = [str(Path(sys.executable).parent), *os.environ["PATH"].split(":")]
    return given | {
        "HOME": str(home),
        "KOGNITERM_WARM": "off",
        "PATH": ":".join(dict.fromkeys(folders)),
        "TERM": "xterm-256color",
        "PS1": _PROMPT.format(status="$?"),
        "PS2": "> ",
        "HISTFILE": "/dev/null",
    }


def _become_shell(
    folder: Path, environment: Mapping[str, str], user: User, reachable: Sequence[Path]
) -> NoReturn:
    """Become the user, then bash, in the forked child that leads a session on the PTY."""
    try:
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if user == "ordinary":
            become_ordinary(*reachable)
        os.chdir(folder)
        os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], dict(environment))
    except OSError as error:
        os.write(2, f"the shell could not be started: {error}\n".encode())
    finally:
        os._exit(70)
