"""Going back to an earlier point of a session: in the conversation, the files, or both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kogniterm.cli.main import main
from kogniterm.errors import StorageError, UsageError
from kogniterm.runtime.operations.rewind_session import Rewind, go_back, rewind_points, way_back
from kogniterm.runtime.replay.recorded_events import past_turns
from kogniterm.runtime.session import LiveSession
from kogniterm.runtime.turn_journal import JournalLookup
from kogniterm.types import UserInput
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.program import replayed
from tests.support.forge import Forge

SCRIPT = """
replies:
  - {run: "printf 'one\\\\ntwo\\\\n' > notes.txt"}
  - {text: Written.}
  - {run: "sed -i s/two/three/ notes.txt && rm old.txt"}
  - {text: Changed.}
  - {run: "mkdir -p build && touch build/out"}
  - {text: Built.}
  - {text: Again.}
"""


async def three_turns(make_flow: MakeFlow) -> tuple[Flow, LiveSession]:
    """Return a session that wrote notes.txt, changed it and removed old.txt, and made build."""
    flow = make_flow(SCRIPT, decisions=[yes, yes, yes])
    (flow.folder / "old.txt").write_text("old\n")
    for task in ("write the notes", "change the notes", "build it"):
        await flow.run(task)
    return flow, flow.session


def way(session: LiveSession, words: str) -> Rewind:
    """Return the way back to before the message that holds `words`."""
    points = [one.point for one in rewind_points(session)]
    return way_back(session, next(p.seq for p in points if words in p.input.text))


def names(folder: Path, paths: Sequence[str]) -> list[str]:
    return [str(Path(path).relative_to(folder)) for path in paths]


async def test_the_points_tell_what_each_turn_changed(make_flow: MakeFlow) -> None:
    flow, session = await three_turns(make_flow)
    listed = rewind_points(session)
    assert [one.point.input.text for one in listed] == [
        "build it",
        "change the notes",
        "write the notes",
    ]
    told = [
        [(names(flow.folder, [c.path])[0], c.change, c.lines) for c in one.changes]
        for one in listed
    ]
    assert told == [
        [("build", "created", None)],
        [("notes.txt", "modified", (1, 1)), ("old.txt", "deleted", (0, 1))],
        [("notes.txt", "created", (2, 0))],
    ]
    assert [one.commands for one in listed] == [1, 1, 1]


async def test_conversation_and_files_go_back_together(make_flow: MakeFlow) -> None:
    flow, session = await three_turns(make_flow)
    system = session.context.system
    first = [message.text for message in session.state.messages][:4]
    rewind = way(session, "change")
    changes = {names(flow.folder, [c.path])[0]: c.change for c in rewind.files.changes}
    assert changes == {"build": "created", "notes.txt": "modified", "old.txt": "deleted"}
    restored = go_back(session, rewind, files=True, conversation=True)
    assert set(names(flow.folder, restored)) == {"notes.txt", "old.txt", "build"}
    assert (flow.folder / "notes.txt").read_text() == "one\ntwo\n"
    assert (flow.folder / "old.txt").read_text() == "old\n"
    assert not (flow.folder / "build").exists()
    # The next request begins with the bytes of the earlier ones: nothing but the input is new.
    await flow.run("something else")
    assert flow.shown[:4] == first
    assert flow.shown[4:] == ["something else", "Again."]
    assert session.context.system == system


async def test_files_go_back_alone_and_the_model_is_told(make_flow: MakeFlow) -> None:
    flow, session = await three_turns(make_flow)
    before = flow.shown
    go_back(session, way(session, "write"), files=True, conversation=False)
    assert not (flow.folder / "notes.txt").exists()
    assert flow.shown[:-1] == before
    assert "restored these files" in flow.shown[-1]
    assert "notes.txt" in flow.shown[-1]
    assert str(flow.folder) not in flow.shown[-1]


async def test_the_conversation_goes_back_alone_and_the_model_is_told_what_stays(
    make_flow: MakeFlow,
) -> None:
    flow, session = await three_turns(make_flow)
    go_back(session, way(session, "change"), files=False, conversation=True)
    assert (flow.folder / "notes.txt").read_text() == "one\nthree\n"
    assert "changes of these files were kept: " in flow.shown[-1]
    assert "notes.txt" in flow.shown[-1]
    assert "change the notes" not in "\n".join(flow.shown)
    # A later way back goes over the turns that were taken back as well.
    go_back(session, way(session, "write"), files=True, conversation=True)
    assert sorted(path.name for path in flow.folder.iterdir()) == ["old.txt"]
    assert flow.shown == []


async def test_restored_files_can_be_had_again(make_flow: MakeFlow) -> None:
    flow, session = await three_turns(make_flow)
    go_back(session, way(session, "write"), files=True, conversation=True)
    again = session.undo.latest()
    assert "/rewind write the notes" in again.images[0].what
    session.undo.store.restore(again)
    assert (flow.folder / "notes.txt").read_text() == "one\nthree\n"
    assert not (flow.folder / "old.txt").exists()
    assert (flow.folder / "build" / "out").exists()


@pytest.mark.parametrize(
    ("command", "more"),
    [("mkdir out", 5_100), ("mkdir -p out/deep", 0), ("cp -r src out", 0), ("mv src out", 0)],
)
async def test_what_others_put_into_a_made_folder_stays(
    make_flow: MakeFlow, command: str, more: int
) -> None:
    flow = make_flow(f"replies: [{{run: {command}}}, {{text: Done.}}]", decisions=[yes])
    (flow.folder / "src").mkdir()
    (flow.folder / "src" / "a.py").write_text("print()\n")
    await flow.run("do it")
    session = flow.session
    (flow.folder / "out" / "mine.txt").write_text("precious\n")
    for number in range(more):
        (flow.folder / "out" / str(number)).touch()
    there = {path.name for path in (flow.folder / "out").iterdir() if path.is_file()} - {"a.py"}
    rewind = way(session, "do it")
    assert {"out/mine.txt"} <= set(names(flow.folder, rewind.files.kept))
    assert session.undo.latest().kept == rewind.files.kept
    go_back(session, rewind, files=True, conversation=True)
    assert {path.name for path in (flow.folder / "out").iterdir()} == there
    assert (flow.folder / "out" / "mine.txt").read_text() == "precious\n"
    assert (flow.folder / "src" / "a.py").read_text() == "print()\n"
    assert "changes of these files were kept: " in flow.shown[-1]


async def test_what_cannot_be_restored_is_named(make_flow: MakeFlow, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    script = f"""
replies:
  - {{run: "touch {outside}"}}
  - {{run: "python3 -c 'open(\\"made\\", \\"w\\")'"}}
  - {{run: "cat /etc/hostname || true"}}
  - {{run: "touch inside.txt"}}
  - {{text: Done.}}
"""
    flow = make_flow(script, decisions=[yes] * 4)
    await flow.run("do all of it")
    session = flow.session
    await session.run_shell("touch own.txt", sink=flow.tell)
    lost = way(session, "do all").lost
    assert [one.command.split()[0] for one in lost] == ["touch", "python3", "touch"]
    assert [[effect.target for effect in one.effects] for one in lost] == [
        [str(outside)],
        ["python3"],
        ["own.txt"],
    ]


async def test_a_file_that_was_not_saved_is_named(make_flow: MakeFlow) -> None:
    flow = make_flow('replies: [{run: "rm -r large"}, {text: Done.}]', decisions=[yes])
    (flow.folder / "large").mkdir()
    for number in range(5_001):
        (flow.folder / "large" / str(number)).touch()
    await flow.run("remove it")
    (lost,) = way(flow.session, "remove").lost
    assert lost.files == ("large",)


async def test_no_file_goes_back_where_one_cannot(make_flow: MakeFlow) -> None:
    flow, session = await three_turns(make_flow)
    before = flow.shown
    rewind = way(session, "write")
    # What was saved is gone: the conversation must not go back without its files.
    contents = session.archive.paths.of_sessions.undo / session.id / "contents"
    for file in contents.iterdir():
        file.unlink()
    with pytest.raises(StorageError, match="could not be restored"):
        go_back(session, rewind, files=True, conversation=True)
    assert flow.shown == before


async def test_a_deleted_session_takes_its_copies_along(
    make_flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, session = await three_turns(make_flow)
    copies = session.archive.paths.of_sessions.undo / session.id
    assert list((copies / "contents").iterdir()) != []
    flow.close()
    for name, value in flow.environ.items():
        monkeypatch.setenv(name, value)
    assert main(["sessions", "delete", session.id, "--yes"]) == 0
    assert not copies.exists()


async def test_a_resumed_session_is_where_it_went_back_to(make_flow: MakeFlow) -> None:
    flow, session = await three_turns(make_flow)
    go_back(session, way(session, "build"), files=False, conversation=True)
    shown, number = flow.shown, session.id
    flow.close()
    session = flow.open(number)
    assert flow.shown == shown
    past = past_turns(session)
    begun = [turn[0].text for turn in past.turns if isinstance(turn[0], UserInput)]
    assert begun == ["write the notes", "change the notes"]
    assert past.earlier == 0
    # Neither the points nor the model's own search know the turn any more.
    assert [one.point.input.text for one in rewind_points(session)] == begun[::-1]
    assert "build it" not in JournalLookup(session.journal).search("build")
    with pytest.raises(UsageError, match="no longer part"):
        way_back(session, session.state.rewound[0][0])


async def test_a_rewound_session_is_replayed(make_flow: MakeFlow, forge: Forge) -> None:
    flow, session = await three_turns(make_flow)
    go_back(session, way(session, "change"), files=True, conversation=True)
    await flow.run("something else")
    flow.close()
    status, report = replayed(forge, flow)
    assert (status, report["turns"]) == (0, 4)
