"""The program on a terminal in a project of its own, and its screens as golden files.

`UPDATE_SCREENS=1 pytest tests/ui/test_screens.py tests/ui/test_colours.py` writes new ones.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ui.pty_peer import OpenPeer, PtyPeer

DATA = Path(__file__).resolve().parents[1] / "data" / "screens"
UPDATE = bool(os.environ.get("UPDATE_SCREENS"))
"""Write new golden files instead of comparing with them."""


@contextmanager
def scripted_prompt(
    peer: OpenPeer, script: str, rows: int, columns: int, **environment: str
) -> Iterator[PtyPeer]:
    """Open the prompt with a scripted model in `project`, in a home whose name has a fixed length.

    Lines are wrapped alike wherever the home is.
    """
    home = Path(tempfile.mkdtemp(prefix="kt-", dir="/tmp"))
    project = home / "project"
    (project / "draft").mkdir(parents=True)
    (project / "notes.txt").write_text("one two three four five\n")
    (project / "draft" / "a.txt").write_text("x\n")
    (project / "demo.yaml").write_text(script)
    options = ("--no-sandbox", "--memory", "off", "--model", "scripted:demo.yaml")
    given = {"HOME": str(home)} | environment
    try:
        with peer(project, *options, rows=rows, columns=columns, environment=given) as terminal:
            terminal.until("scripted:")
            yield terminal
    finally:
        shutil.rmtree(home)


def without_figures(text: str) -> str:
    """Return `text` without times, and without token counts, which depend on prompts and tools."""
    text = re.sub(
        r"\b\d+([.,]\d)?k\b|\b\d+(?= tokens)", lambda found: re.sub(r"\d", "0", found[0]), text
    )
    return re.sub(r"\b(\d+ min )?\d+(\.\d)? s\b", "0.0 s", text)


def same(terminal: PtyPeer, name: str, words: str, looks: Callable[[], str] = lambda: "") -> None:
    """Wait until the screen has `words` and equals the golden file `name`.

    A program draws in more than one step: only the last one is compared.
    """
    file = DATA / f"{name}.txt"

    def shown() -> str:
        text = "\n".join(line.rstrip() for line in (looks() or terminal.text).split("\n"))
        text = re.sub(r"/tmp/kt-[^/]+", "/tmp/kt-home", text.strip("\n") + "\n")
        return without_figures(text)

    terminal.until(words)
    if UPDATE:
        text = ""
        while (now := shown()) != text:
            text = now
            terminal.read()
        file.write_text(text, encoding="utf-8")
    golden = file.read_text(encoding="utf-8")
    terminal.until(lambda: shown() == golden)
