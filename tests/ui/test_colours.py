"""The same screens in a dark and in a light terminal, colours included.

A golden file holds what is on the screen, each change of style in brackets.
"""

from __future__ import annotations

import re

import pyte
import pytest

from tests.ui.golden_screens import DATA, same, scripted_prompt
from tests.ui.pty_peer import OpenPeer, PtyPeer

ROWS, COLUMNS = 44, 80
SCRIPT = """\
replies:
  - run: rm -r draft
    purpose: Remove the draft folder
  - |
    # What was done

    The folder **draft** is gone; `notes.txt` stays. See [the guide](https://example.org).

    - one thing
    - another *thing*

    > Nothing else was touched.

    ```python
    def greet(name: str) -> str:
        return f"Hello, {name}!"  # a comment
    ```

    | file | words |
    |---|---|
    | notes.txt | 5 |
"""


def painted(terminal: PtyPeer) -> str:
    """Return the screen with its styles."""
    screen = pyte.Screen(COLUMNS, ROWS)
    screen.set_mode(pyte.modes.LNM)
    pyte.Stream(screen).feed(terminal.painted.rstrip("\n"))
    return "\n".join(_line(screen.buffer[row]) for row in range(ROWS))


def _line(cells: dict[int, pyte.screens.Char]) -> str:
    written = "".join(cells[column].data for column in range(COLUMNS)).rstrip()
    parts, last = [], ""
    for column in range(len(written)):
        style = _style(cells[column])
        if style != last:
            parts.append(f"[{style}]" if style else "[/]")
            last = style
        parts.append(cells[column].data)
    return "".join(parts)


def _style(cell: pyte.screens.Char) -> str:
    names = [
        cell.fg if cell.fg != "default" else "",
        "on " + cell.bg if cell.bg != "default" else "",
    ]
    flags = ("bold", "italics", "underscore", "reverse")
    return " ".join(filter(None, [*names, *(flag for flag in flags if getattr(cell, flag))]))


@pytest.mark.parametrize(("theme", "colorfgbg"), [("dark", "15;0"), ("light", "0;15")])
def test_each_background_has_its_colours(peer: OpenPeer, theme: str, colorfgbg: str) -> None:
    with scripted_prompt(peer, SCRIPT, ROWS, COLUMNS, COLORFGBG=colorfgbg) as terminal:
        terminal.send("Tidy up\r")
        same(terminal, f"{theme}-question.styled", "[y] approve", lambda: painted(terminal))
        terminal.look()
        terminal.send("y")
        same(terminal, f"{theme}-answer.styled", "tokens in", lambda: painted(terminal))


def test_the_two_differ_and_the_light_one_has_nothing_bright() -> None:
    def styles(name: str) -> set[str]:
        text = (DATA / f"{name}.styled.txt").read_text(encoding="utf-8")
        return {word for style in re.findall(r"\[([a-z0-9 ]+)\]", text) for word in style.split()}

    dark = styles("dark-question") | styles("dark-answer")
    light = styles("light-question") | styles("light-answer")
    assert "cyan" in dark
    assert "blue" in light
    # Yellow and cyan are unreadable on white.
    assert not {"brown", "cyan", "white", "brightbrown", "brightcyan", "brightwhite"} & light
