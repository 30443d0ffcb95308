"""Slash commands that show, correct and forget memories."""

from __future__ import annotations

import pytest

from kogniterm.errors import UsageError
from kogniterm.tools.mcp.token_files import TokenFiles
from kogniterm.types import UserInput
from tests.flows.conftest import MakeFlow, make_flow
from tests.ui.commands.commanded import Commanded

__all__ = ["make_flow"]


async def test_forgetting_asks_and_no_leaves_everything(make_flow: MakeFlow) -> None:
    flow = make_flow()
    session = flow.open()
    repl = Commanded(session, answers=["no"])
    await repl.type("/memory add I drink green tea")
    assert await repl.type("/forget green tea") == "Nothing was forgotten."
    assert repl.asked[0][1] == ["m1: I drink green tea"]
    assert "I drink green tea" in await repl.type("/memory")


async def test_facts_are_added_corrected_pinned_and_explained(make_flow: MakeFlow) -> None:
    flow = make_flow()
    repl = Commanded(flow.open())
    assert "m1: I use fish" in await repl.type("/memory add I use fish")
    assert "m2: I use zsh" in await repl.type("/memory edit m1 I use zsh")
    shown = await repl.type("/memory show m2")
    assert "you asked to remember it" in shown
    assert "because" not in shown
    assert "100%" in shown
    assert "I use fish" in shown
    await repl.type("/memory pin m2")
    assert "pinned" in await repl.type("/memory list")
    await repl.type("/memory pin m2 --off")
    assert "I use fish" in await repl.type("/memory undo m1")
    found = await repl.type("/memory search which shell is fish")
    assert "m1" in found
    assert "score" not in found
    with pytest.raises(UsageError, match="/memory takes:"):
        await repl.type("/memory burn")
    with pytest.raises(UsageError, match="Fact m9 not found; list the facts with /memory list"):
        await repl.type("/memory show m9")


async def test_why_shows_what_went_into_the_answer(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: Tea.}]")
    repl = Commanded(flow.open())
    assert "used no memories" in await repl.type("/why")
    await repl.type("/memory add I drink green tea")
    await flow.run("what do I drink?")
    told = await repl.type("/why")
    assert "m1" in told
    assert "I drink green tea" in told


async def test_incognito_neither_recalls_nor_learns(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: I do not know.}]")
    repl = Commanded(flow.open())
    await repl.type("/memory add I drink green tea")
    assert "still saved" in await repl.type("/incognito")
    await flow.run(UserInput("what do I drink?"))
    assert all("green tea" not in text for text in flow.shown)
    for change in (
        "add I drink coffee",
        "edit m1 I drink coffee",
        "pin m1",
        "confirm m1",
        "undo m1",
    ):
        with pytest.raises(UsageError, match="cannot be added or edited"):
            await repl.type(f"/memory {change}")


async def test_with_memory_off_the_commands_say_so(make_flow: MakeFlow) -> None:
    repl = Commanded(make_flow(memory="off").open())
    for line in ("/memory", "/why", "/incognito", "/forget tea and coffee"):
        with pytest.raises(UsageError, match="Memory is off"):
            await repl.type(line)


async def test_forgetting_deletes_the_sign_ins_that_hold_the_words(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: Hello., repeat: forever}]")
    session = flow.open()
    files = TokenFiles(session.archive.paths.extensions.mcp_tokens)
    urls = ["https://periwinkle.example/mcp", "https://other.example/mcp"]
    for url in urls:
        files.of(url).write({"server": url, "tokens": {"access_token": "t"}})
    await flow.run("I work for periwinkle")
    told = await Commanded(session, answers=["yes"]).type("/forget periwinkle")
    assert "sign-ins to MCP servers" in told
    assert [files.of(url).read() != {} for url in urls] == [False, True]
