"""Names of the last hour: found, told to another session, used for a search, and really deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.memory import Memory, open_memory
from kogniterm.memory.contexts import SessionContext
from kogniterm.memory.fact_records import Mode
from kogniterm.memory.recall import FEW, recall
from kogniterm.memory.short_term import MOST_NAMES, Mention, named_in, refers_back
from tests.memory.conftest import HandClock, OpenMemory


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("look at deploy/heron.yaml and README.md", ["file deploy/heron.yaml", "file README.md"]),
        ("the staging server is heron", []),
        ("open https://shop.example.org/a?b=1", ["server shop.example.org"]),
        ("ssh ana@10.0.0.7 uptime", ["server 10.0.0.7"]),
        ("ssh -v ana@heron uptime", ["server heron"]),
        ("mira /etc/hosts", ["file /etc/hosts"]),
        ("e.g. version 3.14 of it", []),
        ("hello there", []),
    ],
)
def test_files_and_servers_are_found_by_their_form(text: str, names: list[str]) -> None:
    assert [f"{one.kind} {one.name}" for one in named_in(text)] == names


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("restart that server", True),
        ("show the file from before", True),
        ("reinicia ese servidor", True),
        ("muestra el archivo de antes", True),
        ("what is a server?", False),
        ("list all files", False),
        ("haz una copia", False),
    ],
)
def test_what_refers_back_is_recognised(text: str, back: bool) -> None:
    assert refers_back(text) is back


def test_another_session_is_told_and_its_own_is_not(memory: Memory, clock: HandClock) -> None:
    first = SessionContext(memory, "s1")
    first.begin_turn("check the server heron")
    first.named(named_in("check ssh heron in deploy/heron.yaml", request=True))
    assert "recent" not in first.begin_turn("and now?").text
    second = SessionContext(memory, "s2")
    told = second.begin_turn("restart that server").text
    assert 'recent servers: "heron"' in told
    assert 'recent files: "deploy/heron.yaml"' in told
    assert 'recent requests: "check ssh heron in deploy/heron.yaml"' in told
    assert any(used.label == "recent servers" for used, _fact in second.why())
    assert second.begin_turn("and again").text == ""
    clock.advance(seconds=3600)
    assert "recent" not in SessionContext(memory, "s3").begin_turn("restart that server").text


def test_names_raise_the_facts_that_hold_them(memory: Memory) -> None:
    for number in range(FEW + 5):
        memory.add(f"The server crane{number} runs in the cellar number {number}")
    wanted = memory.add("heron is backed up on Sundays to tape")
    assert f"[m{wanted}]" not in recall(memory, "when is that server saved?").text
    memory.sessions.mention("s1", [Mention("server", "heron")], memory.clock.now())
    assert f"[m{wanted}]" in recall(memory, "when is that server saved?", None, "s1").text
    assert f"[m{wanted}]" not in recall(memory, "what runs in the cellar?", None, "s1").text


def test_other_folders_users_and_modes_get_nothing(open_here: OpenMemory, clock: HandClock) -> None:
    shop = open_here("ana", "shop")
    SessionContext(shop, "s0", mode="session").named([Mention("file", "a.py")])
    assert shop.sessions.recent(clock.now()) == []
    SessionContext(shop, "s1").named([Mention("file", "a.py")])
    for user, project in (("ana", "blog"), ("ben", "shop")):
        assert open_here(user, project).sessions.recent(clock.now()) == []


def test_secrets_are_not_kept_and_names_are_bounded(memory: Memory, clock: HandClock) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    context = SessionContext(memory, "s1")
    context.named([Mention("request", f"use {secret}"), Mention("name", "x" * 500)])
    assert memory.sessions.recent(clock.now()) == []
    for number in range(MOST_NAMES + 5):
        clock.advance(seconds=1)
        context.named([Mention("file", f"f{number}.py")])
    kept = memory.sessions.recent(clock.now())
    assert [one.name for one in kept][:1] == [f"f{MOST_NAMES + 4}.py"]
    assert len(kept) == MOST_NAMES


def test_rows_and_bytes_are_gone_after_the_hour(tmp_path: Path, clock: HandClock) -> None:
    def held(word: bytes) -> bool:
        return any(word in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())

    with open_memory(tmp_path, user="ana", project="shop", clock=clock) as memory:
        SessionContext(memory, "s1").named([Mention("file", "quetzal.yaml")])
        clock.advance(seconds=3599)
        SessionContext(memory, "s2").begin_turn("hello")
        assert held(b"quetzal")
        clock.advance(seconds=1)
        SessionContext(memory, "s2").begin_turn("hello")
        assert memory.sql.execute("SELECT name FROM short_term") == []
        assert not held(b"quetzal")


def test_rows_of_a_server_are_gone_after_the_hour(memory: Memory, clock: HandClock) -> None:
    SessionContext(memory, "s1").named([Mention("file", "quetzal.yaml")])
    clock.advance(seconds=3600)
    assert memory.sessions.expire(clock.now()) == 1
    assert memory.sql.execute("SELECT name FROM short_term") == []
    assert memory.sessions.expire(clock.now()) == 0


@pytest.mark.parametrize(
    ("mode", "said", "refused"),
    [
        ("full", "Remember that my password is hunter2-Q7x", True),
        ("full", "Remember that the port is 8123", False),
        ("full", "Why does the password hunter2-Q7x not work?", False),
        ("session", "Remember that my password is hunter2-Q7x", False),
    ],
)
def test_a_request_to_remember_a_secret_is_refused_where_memory_would_keep_it(
    memory: Memory, mode: Mode, said: str, refused: bool
) -> None:
    context = SessionContext(memory, "s1", mode=mode)
    assert (context.why_not_kept(said) is not None) == refused
