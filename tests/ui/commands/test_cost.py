"""/cost: tokens, money and what caches saved, by turn, model and session."""

from __future__ import annotations

import re

import pytest
from rich.console import Console
from rich.theme import Theme

from kogniterm.errors import UsageError
from kogniterm.models.catalog import cost_of, price_of
from kogniterm.sessions.fold import Note, usage_note
from kogniterm.sessions.history import SessionHistory
from kogniterm.types import Usage
from kogniterm.ui.commands.cost import CostTable, Row
from tests.flows.conftest import MakeFlow, make_flow
from tests.support.language import in_spanish
from tests.ui.commands.commanded import Commanded

__all__ = ["make_flow"]

FLASH, SONNET = "google_genai:gemini-2.5-flash", "anthropic:claude-sonnet-4-6"
REPLIES = """
replies:
- {text: One., usage: {input: 1000, output: 100, cached: 400}}
- {text: Two., usage: {input: 2000, output: 50, cached: 1900}}
"""


async def test_cost_shows_the_last_turn_the_session_and_each_model(make_flow: MakeFlow) -> None:
    flow = make_flow(REPLIES)
    await flow.run("first task")
    await flow.run("second task")
    session = flow.session
    assert session is not None
    session.journal.record(Note.MODEL.record(SONNET))
    learned = Usage(10_000, 1_000, 6_000, 1, written=2_000, reused=2, reused_input=500)
    session.journal.record(usage_note(learned, FLASH, 2))
    told = await Commanded(session).type("/cost")
    rows = {re.split(r"  +", line.strip())[0]: line.split() for line in told.split("\n")}
    dollars = f"${cost_of(FLASH, learned):.4f}"
    price = price_of(FLASH)
    assert price is not None
    assert rows["last turn"][2:] == ["2", "12.0k", "7.9k", "1.1k", dollars, rows["session"][-1]]
    assert rows["session"][1:5] == ["3", "13.0k", "8.3k", "1.1k"]
    assert rows["gemini-2.5-flash"][1:5] == ["1", "10.0k", "6.0k", "1.0k"]
    assert "Model calls: 3. Input from the provider's cache: 64 %." in told
    assert "own cache, free: 2 (500 tokens)" in told
    assert session.state.usage == Usage(13_000, 1_150, 8_300, 3, 2_000, 0, 2, 500)


async def test_cost_lists_the_turns(make_flow: MakeFlow) -> None:
    flow = make_flow(REPLIES)
    await flow.run("first task")
    await flow.run("second task")
    assert flow.session is not None
    repl = Commanded(flow.session)
    lines = (await repl.type("/cost turns")).split("\n")
    assert lines[1].split()[:5] == ["1", "first", "task", "1", "1.0k"]
    assert lines[2].split()[:5] == ["2", "second", "task", "1", "2.0k"]
    assert lines[3].split()[:2] == ["session", "2"]
    with pytest.raises(UsageError, match="Did you mean turns"):
        await repl.type("/cost turn")


async def test_the_price_follows_the_model_that_was_used(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: One., usage: {input: 1000000, output: 0}}]")
    await flow.run("first task")
    session = flow.session
    assert session is not None
    session.journal.record(Note.MODEL.record("openai:gpt-99"))
    records = list(session.journal.records())
    (name,) = SessionHistory(records).models
    assert name.startswith("scripted:")
    told = await Commanded(session).type("/cost")
    assert "$0.00" in told
    assert "unknown" not in told
    session.journal.record(usage_note(Usage(10, 1, 0, 1), "openai:gpt-99", 1))
    told = await Commanded(session).type("/cost")
    assert "The price of openai:gpt-99 is unknown (price table of 20" in told


ROWS = (
    Row("last turn", {FLASH: Usage(48_200, 2_100, 39_000, 5)}, "accent"),
    Row("claude-sonnet-4-6-20260101", {SONNET: Usage(406_400, 14_200, 0, 40, 406_400)}, "", "  "),
)


def drawn(width: int) -> list[str]:
    theme = Theme({"muted": "dim", "accent": "bold"})
    console = Console(width=width, theme=theme, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(CostTable("", ROWS))
    return captured.get().rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [60, 79, 80, 100, 200])
def test_numbers_are_whole_at_every_width(width: int) -> None:
    for lines in (drawn(width), _spanish(width)):
        assert len(lines) == 3
        assert all(len(line) <= width for line in lines)
        numbers = ["48.2k", "39.0k", "2.1k", "$0.0109", "$0.0088"]
        assert lines[1].split()[-5:] == numbers
        assert lines[2].split()[-5:] == ["406.4k", "0", "14.2k", "$1.74", "-$0.3048"]
        assert len({len(line) for line in lines}) == 1
        assert ("calls" in lines[0] or "llamadas" in lines[0]) == (width >= 80)


def test_names_stand_above_where_there_is_no_room() -> None:
    lines = drawn(44)
    assert lines[2].strip() == "last turn"
    assert lines[3].split() == ["48.2k", "39.0k", "2.1k", "$0.0109", "$0.0088"]


def _spanish(width: int) -> list[str]:
    with in_spanish():
        return drawn(width)
