"""Slash commands that show, correct and forget memories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kogniterm.errors import UsageError
from kogniterm.sessions.chain_audit import verify
from kogniterm.tools.mcp.token_files import TokenFiles
from kogniterm.types import UserInput
from kogniterm.ui.prompt.input_line import PrivateHistory
from tests.flows.conftest import Flow, MakeFlow, make_flow, yes
from tests.ui.commands.commanded import Commanded

__all__ = ["make_flow"]

SECRET_WISH = "violet-heron-4417"


def data_folder(flow: Flow) -> Path:
    return Path(flow.environ["KOGNITERM_DATA_DIR"])


def holders(folder: Path, phrase: str) -> list[str]:
    """Return the files below `folder` that hold the phrase, in any case, plain or as JSON."""
    needles = {phrase.lower().encode(), json.dumps(phrase)[1:-1].lower().encode()}
    return [
        str(file.relative_to(folder))
        for file in sorted(folder.rglob("*"))
        if file.is_file() and any(one in file.read_bytes().lower() for one in needles)
    ]


async def test_a_forgotten_phrase_is_nowhere_in_the_raw_bytes(make_flow: MakeFlow) -> None:
    script = f"""
replies:
  - run: "echo the word is {SECRET_WISH} | tee note.txt"
  - run: "echo changed > note.txt"
  - text: "The word is {SECRET_WISH}."
  - text: "Fine."
"""
    flow = make_flow(script, decisions=[yes, yes])
    await flow.run(f"say {SECRET_WISH} and remember it")
    session = flow.session
    assert session is not None
    repl = Commanded(session, answers=["yes"])
    await repl.type(f"/memory add My word is {SECRET_WISH}")
    folder = data_folder(flow)
    paths = session.archive.paths
    PrivateHistory(paths.history_file).store_string(f"say {SECRET_WISH} and remember it")
    paths.log_file.parent.mkdir(parents=True, exist_ok=True)
    paths.log_file.write_text(f"INFO {SECRET_WISH.upper()}\n")
    before = holders(folder, SECRET_WISH)
    assert {name.partition("/")[0].partition("-")[0] for name in before} >= {"kogniterm.db"}
    assert any(name.startswith("outputs") for name in before)
    assert any(name.startswith("undo") for name in before)

    told = await repl.type(f"/forget {SECRET_WISH}")

    assert holders(folder, SECRET_WISH) == []
    assert "Proof:" in told
    assert "removed from the session journal" in told
    assert "removed from copies saved for /undo" in told
    assert "data sent to a model provider" in told
    assert all(SECRET_WISH not in text for text in flow.shown)
    await flow.run("and now?")
    assert holders(folder, SECRET_WISH) == []
    found = verify(session.archive.store.database, session.id)
    assert found.intact, found


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
    await repl.type("/memory unpin m2")
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
    with pytest.raises(UsageError, match="cannot be added or edited"):
        await repl.type("/memory add I drink coffee")


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
