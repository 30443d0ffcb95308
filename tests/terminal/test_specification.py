"""Every command of docs/specification.md shows what its row says, at a real terminal."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.house.test_promises import SPECIFICATION, Row, rows
from tests.support.real_terminal import RealTerminal
from tests.support.typing_user import flat, leave, open_prompt, say
from tests.terminal.conftest import OpenTerminal

DEMO = SPECIFICATION.with_name("demo")
AT_PROMPT = [row for row in rows() if row.command.startswith("/")]
COMMANDS: dict[str, list[Row]] = {}
for one in rows():
    if one.command and one not in AT_PROMPT:
        COMMANDS.setdefault(one.section, []).append(one)


def set_up(terminal: RealTerminal) -> None:
    """Do what the page's set-up says."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(DEMO, terminal.folder / "docs" / "demo", ignore=ignored)
    block = re.search(r"```sh\n(.*?)```", SPECIFICATION.read_text("utf-8"), re.DOTALL)
    assert block is not None
    status, shown = terminal.run(" && ".join(block[1].splitlines()))
    assert status == 0, shown


@pytest.mark.parametrize("section", COMMANDS)
def test_each_command_shows_what_its_row_says(open_terminal: OpenTerminal, section: str) -> None:
    terminal = open_terminal(columns=160)
    set_up(terminal)
    for row in COMMANDS[section]:
        status, shown = terminal.run(row.command)
        assert (status, row.shown in flat(shown)) == (row.status, True), (row, shown)


def test_each_slash_command_shows_what_its_row_says(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(columns=160)
    set_up(terminal)
    open_prompt(terminal, "kogniterm")
    for row in AT_PROMPT:
        say(terminal, row.command, row.shown)
    assert leave(terminal) == 0
