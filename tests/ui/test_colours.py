"""The same screens in a dark and in a light terminal, colours included.

A golden file holds what tmux has on its screen, each change of style in brackets:
`UPDATE_SCREENS=1 pytest tests/ui/test_colours.py` writes new ones.
"""

from __future__ import annotations

import re

import pyte
import pytest

from tests.ui.tmux import DATA, Window, open_window, same, without_figures

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


def painted(terminal: Window) -> str:
    """Return the screen with its styles, independent of the version of tmux."""
    screen = pyte.Screen(COLUMNS, ROWS)
    screen.set_mode(pyte.modes.LNM)
    pyte.Stream(screen).feed(terminal.painted().rstrip("\n"))
    lines = [_line(screen.buffer[row]) for row in range(ROWS)]
    text = "\n".join(lines).rstrip("\n").replace(terminal.home.name, "kt-home") + "\n"
    text = re.sub(r"· (\[/\]\[[^]]*\])?[0-9a-f]{8}\b", "· 00000000", text)
    return without_figures(text)


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


def as_painted(terminal: Window, name: str, words: str) -> None:
    """Wait until the screen has the text and the styles of the golden file `name`."""
    same(terminal, DATA / f"{name}.styled.txt", words, lambda: painted(terminal))


@pytest.mark.parametrize(("theme", "colorfgbg"), [("dark", "15;0"), ("light", "0;15")])
def test_each_background_has_its_colours(
    terminals: list[Window], theme: str, colorfgbg: str
) -> None:
    terminal = open_window(
        COLUMNS, ROWS, "--no-sandbox", "--memory", "off", "--model", "scripted:colours.yaml",
        files={"colours.yaml": SCRIPT}, COLORFGBG=colorfgbg,
    )  # fmt: skip
    terminals.append(terminal)
    terminal.ready()
    terminal.keys("Tidy up", "Enter")
    as_painted(terminal, f"{theme}-question", "[y] approve")
    terminal.keys("y")
    as_painted(terminal, f"{theme}-answer", "tokens in")


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
