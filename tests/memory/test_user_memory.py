"""The library interface: add, search, forget, and no access to other users' facts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kogniterm.errors import StorageError, UsageError
from kogniterm.memory import Memory, open_memory
from kogniterm.memory.fact_records import Candidate
from kogniterm.memory.memory_database import SCHEMA
from kogniterm.storage import drivers
from tests.memory.conftest import DATA, HandClock, OpenMemory


def test_what_was_added_is_found(memory: Memory) -> None:
    wanted = memory.add("Ana deploys the billing service on Friday mornings")
    memory.add("Ana keeps a greyhound called Pepper")
    found = memory.search("when is billing deployed?", 5)
    assert found[0].id == wanted
    assert found[0].text == "Ana deploys the billing service on Friday mornings"
    assert found[0].label == f"m{wanted}"


def test_nothing_in_common_gives_nothing(memory: Memory) -> None:
    memory.add("Ana keeps a greyhound called Pepper")
    assert memory.search("kubernetes ingress", 5) == []
    assert memory.search("", 5) == []
    assert memory.search("what is it?", 5) == []


def test_the_same_statement_twice_is_one_fact(memory: Memory, clock: HandClock) -> None:
    first = memory.add("Ana likes short answers")
    clock.advance(days=3)
    assert memory.add("  ana likes short answers. ") == first
    fact = memory.get(first)
    assert fact.text == "Ana likes short answers"
    assert fact.last_confirmed == clock.now()
    assert len(memory.facts()) == 1


def test_a_slot_holds_one_fact_and_undo_brings_the_old_one_back(memory: Memory) -> None:
    old = memory.add("Ana edits with vim", slot="editor")
    new = memory.add("Ana edits with emacs", slot="editor")
    assert [one.id for one in memory.search("editor Ana edits", 5)] == [new]
    assert memory.get(old).status == "superseded"
    assert memory.get(old).superseded_by == new

    memory.updater.undo(memory.get(new))
    assert [one.id for one in memory.search("editor Ana edits", 5)] == [old]
    memory.updater.undo(memory.get(new))
    assert [one.id for one in memory.search("editor Ana edits", 5)] == [new]


def test_editing_keeps_the_old_words_for_undo(memory: Memory) -> None:
    first = memory.add("Ana's tests run with tox")
    edited = memory.updater.edit(memory.get(first), "Ana's tests run with pytest")
    assert [one.id for one in memory.search("tests", 5)] == [edited.id]
    assert memory.updater.undo(edited).text == "Ana's tests run with tox"


def test_created_takes_dates_and_numbers(memory: Memory) -> None:
    moment = datetime(2023, 5, 8, 12, tzinfo=UTC)
    one = memory.add("Ana moved to Porto", created=moment)
    two = memory.add("Ana moved to Faro", created=moment.timestamp())
    three = memory.add("Ana moved to Braga", created=moment.replace(tzinfo=None))
    four = memory.add("Ana moved to Évora", created="2023-05-08T12:00:00Z")
    times = {memory.get(fact).created for fact in (one, two, three, four)}
    assert times == {moment.timestamp()}
    with pytest.raises(UsageError):
        memory.add("Ana moved", created="some day")


def test_a_named_month_prefers_what_was_told_then(memory: Memory) -> None:
    memory.add("Ana went to a concert in Porto", created=datetime(2023, 8, 2, tzinfo=UTC))
    may = memory.add("Ana went to a concert in Lisbon", created=datetime(2023, 5, 8, tzinfo=UTC))
    memory.add("Ana likes concerts and theatre", created=datetime(2024, 1, 2, tzinfo=UTC))
    assert memory.search("Which concert did Ana go to in May 2023?", 3)[0].id == may


def test_forgetting_leaves_no_trace_and_says_what_it_cannot_reach(memory: Memory) -> None:
    kept = memory.add("Ana drinks tea")
    gone = memory.add("Ana is allergic to peanuts", slot="allergy")
    newer = memory.add("Ana is allergic to hazelnuts", slot="allergy")
    receipt = memory.forget(newer)
    assert set(receipt.facts) == {gone, newer}
    assert receipt.proved
    assert receipt.unreachable
    assert memory.search("allergic hazelnuts peanuts", 5) == []
    assert [fact.id for fact in memory.facts()] == [kept]
    with pytest.raises(UsageError):
        memory.get(gone)


def test_ids_are_never_given_twice(memory: Memory) -> None:
    first = memory.add("Ana drinks tea")
    memory.forget(first)
    assert memory.add("Ana drinks coffee") > first


@pytest.mark.parametrize("text", ["", "   ", "x" * 4001])
def test_what_cannot_be_a_fact_is_refused(memory: Memory, text: str) -> None:
    with pytest.raises(UsageError):
        memory.add(text)
    assert memory.facts() == []


def test_an_unknown_category_is_refused(memory: Memory) -> None:
    with pytest.raises(UsageError):
        memory.add("Ana likes tea", category="gossip")  # type: ignore[arg-type] # what a library user may try


def test_secrets_are_masked_without_any_help(memory: Memory) -> None:
    fact = memory.get(memory.add("The API key is sk-proj-abcdefghijklmnopqrstuv for the shop"))
    assert "abcdefghijkl" not in fact.text
    assert "shop" in fact.text


def test_no_read_method_shows_another_users_or_projects_facts(open_here: OpenMemory) -> None:
    ana = open_here("ana", "shop")
    shop = ana.add("The shop deploys with Helm", slot="deploy")
    everywhere = ana.add("Ana answers mail on Mondays", scope="everywhere")
    ana.preferences.set("editor", "vim", scope="project")
    ana.learnings.record("deploy the shop", "helm upgrade", ok=False)
    for other in (open_here("ben", "shop"), open_here("ben", None)):
        assert other.search("shop deploys Helm mail Mondays", 10) == []
        assert other.facts() == []
        assert other.audit() == []
        assert other.preferences.all() == {}
        assert other.learnings.similar("deploy the shop") == []
        for fact in (shop, everywhere):
            with pytest.raises(UsageError):
                other.forget(fact)
    blog = open_here("ana", "blog")
    assert [one.id for one in blog.search("shop deploys Helm mail Mondays", 10)] == [everywhere]
    assert [fact.id for fact in blog.facts()] == [everywhere]
    assert blog.preferences.all() == {}
    assert blog.learnings.similar("deploy the shop") == []
    with pytest.raises(UsageError):
        blog.get(shop)
    assert ana.get(shop).slot == "deploy"


def test_a_second_process_sees_what_the_first_wrote(open_here: OpenMemory) -> None:
    writer, reader = open_here(), open_here()
    assert reader.search("billing", 3) == []
    fact = writer.add("Billing is deployed on Fridays")
    assert [one.id for one in reader.search("billing", 3)] == [fact]
    writer.forget(fact)
    assert reader.search("billing", 3) == []


def test_a_killed_process_loses_nothing_that_was_added(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from kogniterm.memory import open_memory\n"
        "memory = open_memory(sys.argv[1], user='ana', project='shop')\n"
        "for number in range(1000):\n"
        "    print(memory.add(f'Fact number {number} about billing'), flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(25)]
    os.kill(process.pid, signal.SIGKILL)
    told += [int(line) for line in process.stdout if line.endswith("\n")]
    process.stdout.close()
    process.wait()
    with open_memory(tmp_path, user="ana", project="shop") as memory:
        stored = [fact.id for fact in memory.facts()]
    assert stored[: len(told)] == told


def test_the_database_and_the_key_are_for_the_owner_only(tmp_path: Path) -> None:
    with open_memory(tmp_path / "state", user="ana") as memory:
        memory.add("Ana drinks tea", scope="everywhere")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()}
    assert modes
    assert set(modes.values()) == {0o600}


def test_a_killed_forget_is_whole_or_not_at_all(tmp_path: Path) -> None:
    """At any moment of a kill, a fact, its history and its tombstone stay or go together."""
    script = (
        "import sys\n"
        "from kogniterm.memory import open_memory\n"
        "memory = open_memory(sys.argv[1], user='ana', project='shop')\n"
        "for number in range(40):\n"
        "    memory.add(f'The code of door {number} is old', slot=f'door {number}')\n"
        "    memory.add(f'The code of door {number} is new', slot=f'door {number}')\n"
        "print('ready', flush=True)\n"
        "for fact in memory.facts('active'):\n"
        "    memory.forget(fact.id)\n"
        "    print(fact.id, flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(6)]
    os.kill(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.wait()
    forgotten = {int(line) for line in lines[1:]}
    with open_memory(tmp_path, user="ana", project="shop") as memory:
        left = memory.facts()
        active = {fact.id for fact in left if fact.status == "active"}
        replaced = {fact.superseded_by for fact in left if fact.status == "superseded"}
        assert replaced == active
        assert not forgotten & active
        for number in range(40):
            buried = memory.tombstones.holds(f"The code of door {number} is new")
            assert buried != any(f"door {number} is new" in fact.text for fact in left)


def test_row_security_holds_without_any_condition(
    postgres_url: str, clock: HandClock, tmp_path: Path
) -> None:
    import psycopg

    from kogniterm.memory.memory_database import LEDGER, TABLES

    more: dict[str, Any] = {"project": "shop", "clock": clock, "key_file": tmp_path / "key"}
    with open_memory(postgres_url, user="ana", **more) as ana:
        ana.add("Ana likes tea", slot="drink")
        ana.preferences.set("language", "es")
        ana.learnings.record("brew", "kettle", ok=True)
        ana.forget(ana.add("Ana likes gin"))
        with open_memory(postgres_url, user="ben", **more) as ben:
            for table in (*TABLES, LEDGER):
                rows = ben.sql.execute(f"SELECT user_id FROM {table}")
                # The ledger is created when a memory is first opened, which counts as a write.
                assert rows == ([("ben",)] if table in ("memory_clock", LEDGER) else []), table
            assert ben.sql.run("DELETE FROM facts") == 0
            assert ben.sql.run("UPDATE facts SET text = 'x'") == 0
            with pytest.raises(StorageError):
                ben.sql.run(
                    "INSERT INTO tombstones (user_id, project_id, digest, created) "
                    "VALUES ('ana', '', 'x', 0)"
                )
        assert len(ana.facts()) == 1
    with psycopg.connect(postgres_url) as stranger:
        assert stranger.execute("SELECT * FROM facts").fetchall() == []


def test_both_databases_rank_alike(postgres_url: str, tmp_path: Path, clock: HandClock) -> None:
    from tests.memory.search.test_search_quality import questions

    facts, asked = questions()
    with (
        open_memory(tmp_path, user="ana", project="shop", clock=clock) as one,
        open_memory(postgres_url, user="ana", project="shop", clock=clock) as two,
    ):
        for text in facts.values():
            one.add(text)
            two.add(text)
        for _, question in asked:
            ranked = [[hit.text for hit in memory.search(question, 10)] for memory in (one, two)]
            assert ranked[0] == ranked[1]


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        open_memory(tmp_path / "file" / "below", user="ana")


def test_an_empty_user_has_no_memory(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        open_memory(tmp_path, user="")


def test_a_fact_that_waits_is_announced_once_and_may_be_dropped(memory: Memory) -> None:
    change = memory.remember(
        Candidate("the budget is 1000 euros", "constraint", source="inferred", project="shop")
    )
    fact = change.fact
    assert fact is not None
    assert memory.repository.find_unannounced("asked") == [fact]
    memory.repository.change(fact, "asked", now=memory.clock.now())
    assert memory.repository.find_unannounced("asked") == []
    assert memory.repository.find_unannounced("told") == [fact]
    memory.updater.drop(fact)
    assert memory.facts() == []
    again = Candidate("The budget is 1000 euros.", "constraint", source="inferred", project="shop")
    assert memory.remember(again).kind == "rejected"


@pytest.mark.parametrize("changed", [False, True])
def test_a_database_of_the_ninth_schema_is_brought_up_to_date(
    location: Path | str, open_here: OpenMemory, changed: bool
) -> None:
    opened: Any = (
        drivers.open_postgres(location, user="ana")
        if isinstance(location, str)
        else drivers.open_sqlite(location)
    )
    with closing(opened) as connection:
        server = isinstance(location, str)
        mark, steps = ("%s", SCHEMA.postgres) if server else ("?", SCHEMA.sqlite)
        drivers.migrate(connection, SCHEMA.package, steps[:9])
        connection.execute("CREATE INDEX facts_by_digest ON facts (user_id, digest)")
        connection.execute("CREATE INDEX facts_by_successor ON facts (user_id, superseded_by)")
        for table in ("fact_words", "fact_terms", "fact_index"):
            connection.execute(f"CREATE TABLE {table} (user_id TEXT, term TEXT)")
            connection.execute(f"INSERT INTO {table} VALUES ('ana', 'axolotl')")
        for table, rows in json.loads((DATA / "schema_9.json").read_text()).items():
            for row in rows:
                names, marks = ", ".join(row), ", ".join([mark] * len(row))
                query = f"INSERT INTO {table} ({names}) VALUES ({marks})"
                connection.execute(query, tuple(row.values()))
        if changed:
            connection.execute("UPDATE fact_ledger SET digest = 'Zebra' WHERE seq = 3")
    memory = open_here()
    assert [fact.text for fact in memory.facts("active")] == [
        "The zebra printer stands on the third floor", "The editor is called Tapir"
    ]  # fmt: skip
    faults = memory.sql.verify_facts().faults
    assert [str(one) for one in faults] == (
        ["entry 3 of the fact ledger was changed or removed"] if changed else []
    )
    assert [one.id for one in memory.search("which office", 5)] == [1]
    assert [one.task for one in memory.learnings.similar("feed a tapir")] == ["feed the tapir"]
    receipt = memory.forget(1)
    assert (receipt.proved, memory.search("zebra", 5)) == (True, [])
    assert memory.sql.verify_facts().faults == faults


@pytest.mark.parametrize(
    ("change", "back"),
    [
        ("facts RENAME TO later", "later RENAME TO facts"),
        ("facts RENAME COLUMN digest TO later", "facts RENAME COLUMN later TO digest"),
    ],
)
def test_a_process_whose_tables_another_version_changed_asks_to_be_restarted(
    open_here: OpenMemory, change: str, back: str
) -> None:
    old, new = open_here(), open_here()
    old.add("The zebra printer stands on the third floor")
    new.sql.run(f"ALTER TABLE {change}")
    with pytest.raises(StorageError, match=r"Another version of KogniTerm.*restart this one"):
        old.add("The editor is called Tapir")
    new.sql.run(f"ALTER TABLE {back}")
    assert [fact.text for fact in old.facts()] == ["The zebra printer stands on the third floor"]
    assert old.sql.verify_facts().faults == ()
