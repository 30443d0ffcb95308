"""A file that is not whole in the model's hands is never written back whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kogniterm.runtime.operations.rewind_session import go_back, rewind_points, way_back
from tests.flows.conftest import MakeFlow, yes
from tests.flows.test_judged_is_run import SECRET

TEN = "".join(f"line {n}\n" for n in range(1, 11))


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"tool": tool, "arguments": {"path": "f", **arguments}}]}


def script(*replies: dict[str, Any]) -> str:
    return json.dumps({"replies": [*replies, {"text": "Done.", "repeat": "forever"}]})


def write(content: str) -> dict[str, Any]:
    return call("write_file", content=content)


READ, NEW = call("read_file"), write("new\n")
DELEGATE = {"calls": [{"tool": "delegate", "arguments": {"task": "look", "tools": "read"}}]}

NOT_WHOLE = {
    "a file that was never read": (TEN, [NEW]),
    "the first lines": (TEN, [call("read_file", lines=9), NEW]),
    "the last lines": (TEN, [call("read_file", start=-9), NEW]),
    "a gap": (TEN, [call("read_file", lines=4), call("read_file", start=6), NEW]),
    "in the same reply": (TEN, [{"calls": [*READ["calls"], *NEW["calls"]]}]),
    "a cut line": ("a" * 2_519 + "\n", [READ, write("a" * 2_000 + "\n")]),
    "bytes of another encoding": (b"Jos\xe9\nlast\n", [READ, write("Jos\ufffd\nLAST\n")]),
    "mixed line ends": (b"a\r\nb\nc\n", [READ, write("a\nb\nC\n")]),
    "a redacted secret": (f"password={SECRET}\nx\n", [READ, write("x\n")]),
    "a changed file": (TEN, [READ, {"run": "echo more >> f"}, NEW]),
    "a file that was cut short": (TEN, [READ, {"run": "head -n 5 f > g; mv g f"}, NEW]),
    "only a sub-agent": (TEN, [DELEGATE, READ, {"text": "I saw it."}, NEW]),
    "the file of another name": (TEN, [{"run": "seq 3 > g"}, call("read_file", path="g"), NEW]),
    "its own words, changed since": (None, [write("a\n"), {"run": "echo b >> f"}, NEW]),
    "an edit of a part": (TEN, [call("read_file", lines=5),
                                call("edit_file", old="line 2\n", new="line two\n"), NEW]),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_WHOLE)
async def test_what_the_history_does_not_hold_whole_is_not_replaced(
    make_flow: MakeFlow, case: str
) -> None:
    before, replies = NOT_WHOLE[case]
    flow = make_flow(script(*replies))
    if before is not None:
        data = before if isinstance(before, bytes) else before.encode()
        (flow.folder / "f").write_bytes(data)
    await flow.run()
    wanted = {"a changed file": TEN + "more\n", "a file that was cut short": TEN[:35],
              "its own words, changed since": "a\nb\n",
              "an edit of a part": TEN.replace("line 2\n", "line two\n")}  # fmt: skip
    kept = (flow.folder / "f").read_bytes()
    assert kept == (wanted[case].encode() if case in wanted else data)
    refused = [one for one in flow.shown if "Not written: this conversation does not hold" in one]
    assert len(refused) == 1
    assert all(way in refused[0] for way in ("read_file", "edit_file", "a command"))


WHOLE = {
    "one reading": (TEN, [READ, NEW]),
    "two readings": (TEN, [call("read_file", start=6), call("read_file", lines=5), NEW]),
    "the same file by another name": (TEN, [call("read_file", path="./f"), NEW]),
    "no final newline": ("a\nb", [READ, NEW]),
    "an empty file": ("", [NEW]),
    "its own words": (None, [write("a\nb"), NEW]),
    "its own edit": (TEN, [READ, call("edit_file", old="line 2", new="two"), NEW]),
    "a file that was removed": (TEN, [{"run": "rm f"}, NEW]),
    "read again after a change": (TEN, [READ, {"run": "echo more >> f"}, READ, NEW]),
    "read again after a cut": (TEN, [READ, {"run": "head -n 5 f > g; mv g f"}, READ, NEW]),
}


@pytest.mark.parametrize("case", WHOLE)
async def test_what_the_history_holds_whole_may_be_replaced(make_flow: MakeFlow, case: str) -> None:
    before, replies = WHOLE[case]
    flow = make_flow(script(*replies))
    if before is not None:
        (flow.folder / "f").write_text(before)
    await flow.run()
    assert (flow.folder / "f").read_text() == "new\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"alpha\r\nbeta\r\n", b"alpha\r\nBETA\r\n"),
        (b"\xef\xbb\xbfalpha\nbeta\n", b"\xef\xbb\xbfalpha\nBETA\n"),
        (
            "\ufeffalpha\r\nbeta\r\n".encode("utf-16-le"),
            "\ufeffalpha\r\nBETA\r\n".encode("utf-16-le"),
        ),
    ],
)
async def test_an_allowed_write_keeps_line_ends_and_byte_order_mark(
    make_flow: MakeFlow, before: bytes, after: bytes
) -> None:
    flow = make_flow(script(READ, write("alpha\nBETA\n")))
    (flow.folder / "f").write_bytes(before)
    await flow.run()
    assert (flow.folder / "f").read_bytes() == after


async def test_a_resumed_session_still_holds_what_it_read(make_flow: MakeFlow) -> None:
    flow = make_flow(script(READ))
    (flow.folder / "f").write_text(TEN)
    await flow.run()
    session_id = flow.session.id
    flow.close()
    later = make_flow(script(NEW))
    later.open(session_id)
    await later.run()
    assert (later.folder / "f").read_text() == "new\n"


async def test_a_rewound_session_no_longer_holds_what_it_read(make_flow: MakeFlow) -> None:
    flow = make_flow(script(READ, {"text": "Read."}, NEW))
    (flow.folder / "f").write_text(TEN)
    await flow.run()
    rewind = way_back(flow.session, rewind_points(flow.session)[0].point.seq)
    go_back(flow.session, rewind, files=False, conversation=True)
    await flow.run()
    assert (flow.folder / "f").read_text() == TEN


async def test_a_compacted_session_no_longer_holds_what_it_read(make_flow: MakeFlow) -> None:
    texts = [{"text": "Noted."}] * 4
    flow = make_flow(script(READ, *texts, NEW))
    (flow.folder / "f").write_text(TEN)
    for _turn in range(4):
        await flow.run()
    await flow.session.context.compact_now(asked=True)
    assert not any(message.type == "tool" for message in flow.session.state.messages)
    await flow.run()
    assert (flow.folder / "f").read_text() == TEN


async def test_an_approved_write_is_refused_when_the_file_changed_meanwhile(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(script(READ, NEW, READ, NEW), decisions=[])

    def late(request: Any) -> Any:
        (flow.folder / "f").write_text("theirs\n")
        return yes(request)

    (flow.folder / "f").write_text(TEN)
    flow.user.decisions = [late, yes]
    await flow.run()
    assert any("changed since this was proposed" in one for one in flow.shown)
    assert (flow.folder / "f").read_text() == "new\n"  # read again, and written


async def test_edits_of_one_reply_do_not_stand_in_each_others_way(make_flow: MakeFlow) -> None:
    edits = [call("edit_file", old=f"line {n}\n", new=f"{n}\n")["calls"][0] for n in (1, 2, 9)]
    flow = make_flow(script({"calls": edits}))
    (flow.folder / "f").write_text(TEN)
    await flow.run()
    assert (flow.folder / "f").read_text().startswith("1\n2\nline 3\n")
    assert (flow.folder / "f").read_text().endswith("\n9\nline 10\n")


class Crash(BaseException):
    """Ends the process in the middle of a question, as far as the session can tell."""


@pytest.mark.parametrize("tool", ["edit_file", "write_file"])
async def test_a_proposal_that_outlives_its_process_is_still_for_the_content_of_then(
    make_flow: MakeFlow, tool: str
) -> None:
    arguments = {"content": "new\n"} if tool == "write_file" else {"old": "line 2", "new": "two"}
    flow = make_flow(script(READ, call(tool, **arguments)), decisions=[])
    (flow.folder / "f").write_text(TEN)

    def crash(request: Any) -> Any:
        raise Crash

    flow.user.decisions = [crash]
    with pytest.raises(Crash):
        await flow.run()
    session_id = flow.session.id
    flow.close()
    (flow.folder / "f").write_text(TEN + "theirs\n")
    later = make_flow("replies: [{text: Done.}]", decisions=[yes])
    later.open(session_id)
    await later.run(None)
    assert [request.tool for request, *_rest in later.user.asked] == [tool]
    assert any("changed since this was proposed" in one for one in later.shown)
    assert (flow.folder / "f").read_text() == TEN + "theirs\n"
