"""Copying a user's memory to another database and back preserves everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from kogniterm.errors import UsageError
from kogniterm.memory import open_memory
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.memory.memory_transfer import copy_memory, same_memory
from tests.memory.conftest import HandClock


def fill(location: Path | str, user: str, key: Path, *texts: str) -> None:
    memory = open_memory(location, user=user, project="shop", clock=HandClock(), key_file=key)
    with memory:
        for text in texts:
            memory.add(text)
        memory.add("Deploys happen on Monday.", slot="deploy day")
        memory.add("Deploys happen on Friday.", slot="deploy day")
        memory.forget(memory.add("The door code is 4711."))


@pytest.fixture
def source(tmp_path: Path) -> Iterator[MemoryDatabase]:
    path = tmp_path / "from.db"
    fill(path, "ana", tmp_path / "key", "Tests run with make test.", "El puerto es el 8080.")
    with closing(MemoryDatabase(path, "ana")) as sql:
        yield sql


@pytest.fixture
def target(location: Path | str) -> Iterator[MemoryDatabase]:
    with closing(MemoryDatabase(location, "ana")) as sql:
        yield sql


def test_a_copy_is_the_same_and_can_be_repeated(
    source: MemoryDatabase, target: MemoryDatabase
) -> None:
    assert not same_memory(source, target)
    first = copy_memory(source, target)
    assert first > 4
    assert same_memory(source, target)
    assert copy_memory(source, target) == first


def test_numbers_are_kept_and_go_on(
    source: MemoryDatabase, target: MemoryDatabase, location: Path | str, tmp_path: Path
) -> None:
    copy_memory(source, target)
    query = "SELECT id, text, superseded_by FROM facts ORDER BY id"
    assert target.execute(query) == source.execute(query)
    with open_memory(
        location, user="ana", project="shop", clock=HandClock(), key_file=tmp_path / "key"
    ) as memory:
        new = memory.add("Something new.")
        assert memory.search("port puerto", 5)[0].text == "El puerto es el 8080."
    assert new > max(number for number, *_ in source.execute(query))


def test_numbers_that_others_have_are_given_anew(
    source: MemoryDatabase, postgres_url: str, tmp_path: Path
) -> None:
    fill(postgres_url, "bob", tmp_path / "bobs-key", "Bob likes tabs.")
    with ExitStack() as stack:
        target = stack.enter_context(closing(MemoryDatabase(postgres_url, "ana")))
        bob = stack.enter_context(closing(MemoryDatabase(postgres_url, "bob")))
        before = bob.execute("SELECT * FROM facts ORDER BY id")
        copy_memory(source, target)
        assert same_memory(source, target)
        assert bob.execute("SELECT * FROM facts ORDER BY id") == before
        superseded = (
            "SELECT old.text, new.text FROM facts AS old JOIN facts AS new "
            "ON new.id = old.superseded_by"
        )
        assert target.execute(superseded) == source.execute(superseded)
        assert target.execute(superseded) != []


def test_other_memories_are_not_overwritten(
    source: MemoryDatabase, target: MemoryDatabase, location: Path | str, tmp_path: Path
) -> None:
    fill(location, "ana", tmp_path / "key", "Something else entirely.")
    before = target.execute("SELECT * FROM facts ORDER BY id")
    with pytest.raises(UsageError, match="other memories"):
        copy_memory(source, target)
    assert target.execute("SELECT * FROM facts ORDER BY id") == before


def test_there_and_back(source: MemoryDatabase, target: MemoryDatabase, tmp_path: Path) -> None:
    copy_memory(source, target)
    with closing(MemoryDatabase(tmp_path / "back.db", "ana")) as back:
        copy_memory(target, back)
        assert same_memory(source, back)
        query = "SELECT * FROM facts ORDER BY id"
        assert back.execute(query) == source.execute(query)
