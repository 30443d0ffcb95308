"""Sessions of versions that had another name for a tool: resumed, replayed and shown."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from kogniterm.runtime.session import LiveSession
from kogniterm.sessions.journal.codec import GENESIS, chain_record, stored_records
from tests.flows.conftest import MakeFlow
from tests.flows.program import replayed, start, start_run
from tests.support.forge import Forge

QUESTION = '{tool: ask_user, arguments: {question: "Which one?", answers: [a, b]}}'


def write_as_before(session: LiveSession) -> None:
    """Rewrite the journal as a version wrote it that called `ask_user` `ask_person`."""
    database, last = session.archive.store.database, GENESIS
    for row in list(stored_records(database, session.id)):
        payload = row.payload.replace("ask_user", "ask_person")
        old = chain_record(
            row.kind, payload, row.seq - 1, row.time, last, request_id=row.request_id
        )
        database.execute(
            "UPDATE records SET payload = ?, salt = ?, previous = ?, hash = ? "
            "WHERE session_id = ? AND seq = ?",
            (old.payload, old.salt, old.previous, old.hash, session.id, row.seq),
        )
        last = old.hash
    database.execute(
        "UPDATE sessions SET snapshot = replace(snapshot, 'ask_user', 'ask_person') WHERE id = ?",
        (session.id,),
    )


def stored(session: LiveSession) -> list[str]:
    return [row.payload for row in stored_records(session.archive.store.database, session.id)]


async def test_a_question_under_its_old_name_is_asked_answered_replayed_and_shown(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow(f"replies: [{{calls: [{QUESTION}]}}, {{text: Done.}}]")
    killed = start_run(forge, flow, "-y", "go", faults="kill:after-decision")
    assert killed.wait() == -signal.SIGKILL, killed.said
    before = make_flow()
    write_as_before(before.open("last"))
    written = stored(before.session)
    assert sum("ask_person" in payload for payload in written) == 3
    before.close()

    again = make_flow("replies: [{text: You want b.}, {text: More.}]", decisions=[])
    session = again.open("last")
    assert [request.tool for request in session.state.waiting] == ["ask_user"]

    async def ask(question: str, answers: Sequence[str]) -> str | None:
        assert question == "Which one?"
        return answers[1]

    answer = await session.run(None, approver=again.user, sink=again.tell, ask=ask)
    assert (answer.exit_code, answer.text) == (0, "You want b.")
    assert again.shown[2] == "The user chose: b"
    assert stored(session)[: len(written)] == written  # reading changes nothing on disk
    again.close()

    status, report = replayed(forge, again)
    assert (status, report["divergence"], report["turns"]) == (0, None, 1)
    shown = start(forge, again, "sessions", "show", "last")
    assert shown.wait() == 0, shown.said
    assert "The user chose: b" in shown.said
    assert "ask_person" not in shown.said
