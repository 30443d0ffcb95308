"""The chain proves the journal or names the first record that is broken."""

from __future__ import annotations

import pytest

from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.store import SessionStore
from tests.sessions.on_file import ON_FILE
from tests.support.conversation import command_turn, write


@pytest.fixture
def session(store: SessionStore) -> str:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1) + command_turn(2))
    journal.close()
    return journal.state.session_id


def test_an_untouched_journal_holds(store: SessionStore, session: str) -> None:
    report = verify(store.database, session)
    assert report.intact
    assert report.records == 19
    assert len(report.head) == 64


@pytest.mark.parametrize(
    ("tampering", "broken", "reason"),
    [
        (
            "UPDATE records SET payload = replace(payload, 'wc', 'vc') WHERE seq = 7",
            7,
            "not match its hash",
        ),
        ("UPDATE records SET time = time + 1 WHERE seq = 4", 4, "not match its hash"),
        ("UPDATE records SET kind = 'decision' WHERE seq = 5", 5, "not match its hash"),
        ("UPDATE records SET salt = 'a' WHERE seq = 1", 1, "not match its hash"),
        ("UPDATE records SET hash = previous WHERE seq = 6", 6, "not match its hash"),
        ("DELETE FROM records WHERE seq = 6", 6, "records 6 to 6 are missing"),
        ("DELETE FROM records WHERE seq < 3", 1, "records 1 to 2 are missing"),
        ("DELETE FROM records WHERE seq > 12", 13, "the end of the journal is missing"),
        ("UPDATE records SET previous = hash WHERE seq = 9", 9, "not linked to the previous"),
    ],
)
@ON_FILE
def test_tampering_is_found_where_it_happened(
    store: SessionStore, session: str, tampering: str, broken: int, reason: str
) -> None:
    store.database.execute(tampering)
    report = verify(store.database, session)
    assert report.broken == broken
    assert reason in str(report.reason)


def test_replacing_content_under_its_old_hash_needs_a_record_that_says_so(
    store: SessionStore, session: str
) -> None:
    """Content is forgotten in this way, and somebody could use it to change the content."""
    from kogniterm.sessions.journal.codec import payload_digest

    ((salt, payload),) = store.database.execute("SELECT salt, payload FROM records WHERE seq = 7")
    store.database.execute(
        "UPDATE records SET amended = ?, payload = ? WHERE seq = 7",
        (payload_digest(salt, payload), payload.replace("wc", "vc")),
    )
    report = verify(store.database, session)
    assert report.broken == 7
    assert "no record shows that it was forgotten" in str(report.reason)
