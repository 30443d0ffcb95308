"""Every command of docs/specification.md shows what its row says, at a real terminal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import flat, leave, open_prompt, put, say
from tests.terminal.conftest import OpenTerminal

PAGE = Path(__file__).resolve().parents[2] / "docs" / "specification.md"
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_SHOWN = re.compile(r"`([^`]+)`(?: \((\d+)\))?")


@dataclass(frozen=True)
class Row:
    """One row of the page's tables."""

    specified: str
    command: str
    shown: str
    status: int


def sections(page: str) -> dict[str, list[Row]]:
    """Return the rows of each table by its heading."""
    found: dict[str, list[Row]] = {}
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title = part.partition("\n")[0]
        rows = [_row(line) for line in part.splitlines() if line.startswith("| ")]
        if kept := [row for row in rows if row is not None]:
            found[title] = kept
    return found


def _row(line: str) -> Row | None:
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    shown = _SHOWN.fullmatch(cells[-1])
    if shown is None:
        assert cells[0] == "specified", line
        return None
    return Row(cells[0], _text(cells[3]), _text(shown[1]), int(shown[2] or 0))


def _text(cell: str) -> str:
    return cell.strip("`").replace("\\|", "|")


SECTIONS = sections(PAGE.read_text("utf-8"))


def set_up(terminal: RealTerminal) -> None:
    """Do what the page's set-up says."""
    page = PAGE.read_text("utf-8")
    blocks = _BLOCK.findall(page.partition("\n## Turns")[0])
    commands = next(text for language, text in blocks if language == "sh")
    for line in commands.strip().splitlines():
        status, shown = terminal.run(line)
        assert status == 0, shown
    names = re.findall(r"^`(\w+\.\w+)`", page, re.MULTILINE)
    texts = [text for language, text in blocks if language != "sh"]
    for name, text in zip(names, texts, strict=True):
        put(terminal.folder / "demo", name, text)


def test_every_row_has_a_command_and_what_it_shows() -> None:
    assert sum(map(len, SECTIONS.values())) > 25
    assert all(row.command and row.shown for rows in SECTIONS.values() for row in rows)


@pytest.mark.parametrize("section", SECTIONS)
def test_each_command_shows_what_its_row_says(
    open_terminal: OpenTerminal, user: User, section: str
) -> None:
    terminal = open_terminal(user=user, columns=160)
    set_up(terminal)
    terminal.run('kogniterm run --allow-reads "Count the files"')
    at_prompt = [row for row in SECTIONS[section] if row.command.startswith("/")]
    for row in SECTIONS[section]:
        if row not in at_prompt:
            status, shown = terminal.run(row.command)
            assert (status, row.shown in flat(shown)) == (row.status, True), (row, shown)
    if at_prompt:
        open_prompt(terminal, "kogniterm --continue")
        for row in at_prompt:
            say(terminal, row.command, row.shown)
        assert leave(terminal) == 0
