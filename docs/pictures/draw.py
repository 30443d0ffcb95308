"""Record the casts and draw the README's pictures: `python docs/pictures/draw.py`.

The real program runs in a pseudo-terminal of 100 by 30 cells with scripted keys. A cast (asciinema
v2) holds the screens that stood still, so that nothing of it depends on the speed of the machine:
times are set by rule, and what differs between two runs is replaced by `FIXED`. The pictures are
the screens at the casts' markers.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.fake_gemini import FakeGemini  # noqa: E402
from tests.support.real_terminal import RealTerminal  # noqa: E402

COLUMNS, ROWS = 100, 30
KEY_SECONDS, READ_SECONDS = 0.3, 4.0
"""Seconds of a cast before a key's screen and for each other one."""
FIXED = (
    (re.compile(r"/tmp/(ana|tour)-[a-z0-9_]{8}"), r"/tmp/\1-abcd1234"),
    (re.compile(r" · [0-9a-f]{8} · "), " · 0ddb24f7 · "),
    (re.compile(r"\d+\.\d s\b"), "0.1 s"),
    (re.compile(r"\[ready \d+\]\$"), "$"),
)
"""Parts of a screen that differ between two runs, and what a cast has in their place."""
ENVIRONMENT = {
    "TMPDIR": tempfile.gettempdir(),
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "SSL_CERT_FILE": str(ROOT / "tests" / "data" / "authority.pem"),
}
"""Variables that a terminal of the tests takes over from its surroundings."""
KEY = "an-invented-key.Z9-for-the-recording"
THEME = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        (72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34),
        (88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196),
    ],
    [
        (139, 148, 158), (255, 161, 152), (86, 211, 100), (227, 179, 65),
        (121, 192, 255), (210, 168, 255), (86, 212, 221), (240, 246, 252),
    ],
)  # fmt: skip
"""Colours of a dark terminal in which muted text can be read too."""
PICTURES = {"approval": "tour", "answer": "tour"}
"""The pictures by the marker that they show, with the name of the cast."""


@dataclass
class Cast:
    """Screens with their times, and markers that name some of them."""

    title: str
    events: list[tuple[float, str, str]] = field(default_factory=list)

    def show(self, painted: str, seconds: float, marker: str = "") -> None:
        """Add a screen that is shown after so many seconds."""
        for pattern, fixed in FIXED:
            painted = pattern.sub(fixed, painted)
        time = round((self.events[-1][0] if self.events else 0.0) + seconds, 1)
        if marker:
            self.events.append((time, "m", marker))
        screen = painted.rstrip("\n").replace("\n", "\r\n")
        self.events.append((time, "o", f"\x1b[H\x1b[2J{screen}"))

    @property
    def text(self) -> str:
        """The file, in asciinema's format 2."""
        head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": self.title}
        lines = [json.dumps(one, ensure_ascii=False) for one in (head, *self.events)]
        return "\n".join(lines) + "\n"


def screens(cast: str) -> list[str]:
    """Return the screens of a cast's file as plain text."""
    events = [json.loads(line) for line in cast.splitlines()[1:]]
    return [plain(data) for _time, kind, data in events if kind == "o"]


def plain(screen: str) -> str:
    """Return a screen without its styles, and without the blanks at the ends of its lines."""
    text = Text.from_ansi(screen.removeprefix("\x1b[H\x1b[2J").replace("\r\n", "\n")).plain
    return "\n".join(line.rstrip() for line in text.splitlines())


class Recorder:
    """A terminal whose screens are added to a cast when they stand still."""

    def __init__(self, terminal: RealTerminal, cast: Cast) -> None:
        self._terminal = terminal
        self._cast = cast

    def until(self, *words: str, marker: str = "", seconds: float = READ_SECONDS) -> None:
        """Wait until all words stand on the screen and it stands still; add it."""
        terminal = self._terminal
        terminal.until(lambda: all(word in "\n".join(terminal.shown) for word in words))
        before: list[str] = []
        while terminal.shown != before:
            before = list(terminal.shown)
            terminal.pause(1.0)
        self._cast.show(terminal.painted, seconds, marker)

    def press(self, keys: str) -> None:
        """Press keys at once."""
        self._terminal.send(keys)


@contextmanager
def opened(environment: Mapping[str, str]) -> Iterator[RealTerminal]:
    """Yield a terminal with a home and a folder of its own; both are removed.

    Their names are as long on every machine, because long lines are wrapped.
    """
    shown = {"TMPDIR": "/tmp", "LANG": "C.UTF-8", "COLORFGBG": "15;0", "COLORTERM": "truecolor"}
    with tempfile.TemporaryDirectory(prefix="ana-", dir="/tmp") as home:
        folder = Path(home, "shop")
        folder.mkdir()
        terminal = RealTerminal(
            Path(home), folder, rows=ROWS, columns=COLUMNS, environment=shown | dict(environment)
        )
        try:
            yield terminal
        finally:
            terminal.close()


def record_tour() -> Cast:
    """Record `kogniterm tour`, with the keys that its hints name."""
    cast = Cast("kogniterm tour")
    with opened({}) as terminal:
        recorder = Recorder(terminal, cast)
        terminal.start("kogniterm tour --lang en")
        recorder.until("Press Enter to send the task.", "last year's logs.", seconds=0.5)
        recorder.press("\r")
        recorder.until("Tour 1/5", "[y] start")
        recorder.press("y")
        recorder.until("Tour 2/5", "[y] approve")
        recorder.press("y")
        recorder.until("Tour 3/5", "[y] approve", marker="approval")
        recorder.press("y")
        recorder.until("Tour 4/5", "[y] approve")
        recorder.press("y")
        recorder.until("Tour 5/5", "Verified", marker="answer")
        recorder.press("/undo")
        recorder.until("› /undo", seconds=KEY_SECONDS)
        recorder.press("\r")
        recorder.until("Restore the files", "[y] restore")
        recorder.press("y")
        recorder.until("Restored: logs/2025", "Press Ctrl-D to leave.")
        recorder.press("\x04")
        recorder.until("The folder was removed.", "[ready")
    return cast


def record_first_start() -> Cast:
    """Record a first start that sets up a key; a server on this machine plays the provider."""
    cast = Cast("The first start of kogniterm")
    provider = FakeGemini()
    try:
        provider.say("ready")
        with opened({"GOOGLE_GEMINI_BASE_URL": provider.url}) as terminal:
            recorder = Recorder(terminal, cast)
            terminal.start("kogniterm --lang en")
            recorder.until("Choose a model to start with", "[1-", seconds=0.5)
            recorder.press("1")
            recorder.until("API key (hidden, Esc: back):")
            recorder.press(f"{KEY}\r")
            recorder.until("The key works.", "How should KogniTerm work?", "[1-")
            recorder.press("\r")
            recorder.until("Model: google_genai:", "-latest · ")
    finally:
        provider.close()
    return cast


CASTS: Mapping[str, Callable[[], Cast]] = {"tour": record_tour, "first-start": record_first_start}
"""The casts by the names of their files."""


def picture(cast: str, marker: str) -> str:
    """Return the screen at a marker of a cast's file as SVG."""
    events = [json.loads(line) for line in cast.splitlines()[1:]]
    at = next(n for n, event in enumerate(events) if event[1:] == ["m", marker])
    screen = events[at + 1][2].removeprefix("\x1b[H\x1b[2J").replace("\r\n", "\n")
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(screen))
        return console.export_svg(
            title="kogniterm tour", theme=THEME, unique_id=f"kogniterm-{marker}"
        )


def main() -> None:
    """Record the casts, and draw the pictures from them."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    for name, record in CASTS.items():
        (HERE / f"{name}.cast").write_text(record().text, encoding="utf-8")
    for marker, name in PICTURES.items():
        cast = (HERE / f"{name}.cast").read_text(encoding="utf-8")
        (HERE / f"{marker}.svg").write_text(picture(cast, marker), encoding="utf-8")


if __name__ == "__main__":
    main()
