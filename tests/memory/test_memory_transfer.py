"""Export and import: identical bytes, and limited trust in imported facts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kogniterm.errors import UsageError
from kogniterm.memory import Memory, Origin, open_memory
from kogniterm.memory.fact_records import Candidate, Fact
from kogniterm.memory.memory_transfer import export_lines, import_lines
from kogniterm.memory.project import scan
from kogniterm.memory.short_term import Mention, SessionNotes
from kogniterm.storage.archive_file import read_archive, write_archive
from kogniterm.text.language import words_of
from kogniterm.text.redact import redact
from tests.memory.conftest import HandClock, OpenMemory


def counted(report: dict[str, int]) -> dict[str, int]:
    return {kind: count for kind, count in report.items() if count}


def fill(memory: Memory, clock: HandClock) -> None:
    memory.add("Ana likes tea", category="preference", pinned=True, keywords=["té"])
    memory.add("Ana edits with vim", slot="editor", origin=Origin("s1", 3, "I edit with vim"))
    clock.advance(days=1)
    memory.add("Ana edits with emacs", slot="editor")
    memory.add("Ana answers on Mondays “süß”", scope="everywhere")
    memory.remember(
        Candidate("Ana never runs sudo", "constraint", source="inferred", project="shop")
    )
    memory.forget(memory.add("Ana was forgotten"))
    memory.preferences.set("language", "es")
    memory.preferences.set("editor", "vim", scope="project")


def test_export_import_export_is_byte_equal(open_here: OpenMemory, clock: HandClock) -> None:
    ana, ben, cleo = open_here("ana"), open_here("ben"), open_here("cleo")
    fill(ana, clock)
    exported = export_lines(ana)
    clock.advance(days=30)
    report = import_lines(ben, exported)
    assert report["added"] == 5
    assert report["preferences"] == 2
    assert export_lines(ben) == exported
    import_lines(cleo, export_lines(ben))
    assert export_lines(cleo) == exported
    assert {fact.source for fact in ben.facts()} == {"imported"}
    assert not any(fact.pinned for fact in ben.facts())
    old, new = (ben.facts()[1], ben.facts()[2])
    assert (old.status, old.superseded_by) == ("superseded", new.id)
    assert ben.updater.undo(new).text == "Ana edits with vim"


def test_importing_twice_changes_nothing(open_here: OpenMemory, clock: HandClock) -> None:
    ana, ben = open_here("ana"), open_here("ben")
    fill(ana, clock)
    exported = export_lines(ana)
    import_lines(ben, exported)
    assert counted(import_lines(ben, exported)) == {"known": 5}
    assert counted(import_lines(ana, exported)) == {"known": 5}
    assert export_lines(ben) == exported


def test_a_dry_run_writes_nothing(open_here: OpenMemory, clock: HandClock) -> None:
    ana, ben = open_here("ana"), open_here("ben")
    fill(ana, clock)
    assert import_lines(ben, export_lines(ana), dry_run=True)["added"] == 5
    assert ben.facts() == []
    assert ben.preferences.all() == {}


def test_an_import_does_not_replace_what_the_user_said(open_here: OpenMemory) -> None:
    ana, ben = open_here("ana"), open_here("ben")
    ana.add("The editor is vim", slot="editor")
    ana.preferences.set("language", "es")
    mine = ben.add("The editor is emacs", slot="editor")
    ben.preferences.set("language", "en")
    report = import_lines(ben, export_lines(ana))
    assert (report["pending"], report["added"], report["preferences"]) == (1, 0, 0)
    assert ben.get(mine).status == "active"
    assert ben.preferences.all()["language"].value == "en"


def test_what_was_forgotten_does_not_come_back(open_here: OpenMemory) -> None:
    ana = open_here("ana")
    fact = ana.add("Ana likes tea")
    exported = export_lines(ana)
    ana.forget(fact)
    assert counted(import_lines(ana, exported)) == {"forgotten": 1}
    assert ana.facts() == []


def test_secrets_are_masked_on_the_way_out_and_in(open_here: OpenMemory) -> None:
    ana, ben = open_here("ana", redact=lambda text: text), open_here("ben")
    ana.add("The password is tortuga77")
    assert "tortuga77" not in "".join(export_lines(ana, redact=redact))
    import_lines(ben, export_lines(ana))
    assert "tortuga77" not in ben.facts()[0].text


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[:-1],
        lambda lines: lines[1:],
        lambda lines: [*lines[:2], lines[2].replace("tea", "gin"), *lines[3:]],
        lambda lines: ["not json", *lines[1:]],
        lambda lines: ["[1]", *lines[1:]],
        lambda lines: [],
        lambda lines: sealed([json.dumps({**json.loads(lines[0]), "version": 99})]),
        lambda lines: sealed([*lines[:2], json.dumps({**json.loads(lines[2]), "category": "x"})]),
        lambda lines: sealed([*lines[:2], json.dumps({"section": "fact", "id": 1})]),
        lambda lines: sealed(lines[:1]),
    ],
)
def test_a_damaged_file_is_refused_whole(memory: Memory, damage: object) -> None:
    memory.add("Ana likes tea")
    lines = damage(export_lines(memory))  # type: ignore[operator] # each is a function of lines
    memory.forget(1)
    with pytest.raises(UsageError):
        import_lines(memory, lines)
    assert memory.facts() == []


def sealed(lines: list[str]) -> list[str]:
    digest = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    return [*lines, json.dumps({"lines": len(lines), "sha256": digest})]


def some_fact(**given: Any) -> Fact:
    """Return a fact; of the class itself, fields that are left out would be made up too."""
    return Fact(0, **given)


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.builds(
            some_fact,
            text=st.text(min_size=1, max_size=40).filter(lambda text: bool(text.strip())),
            category=st.sampled_from(["fact", "preference", "constraint"]),
            project=st.sampled_from(["", "shop"]),
            confidence=st.floats(0, 1),
            created=st.floats(0, 2e9),
            last_confirmed=st.floats(0, 2e9),
            relevance_count=st.integers(0, 99),
        ),
        max_size=6,
        unique_by=lambda fact: (fact.text.casefold(), fact.project),
    )
)
def test_any_facts_survive_the_round_trip(
    tmp_path_factory: pytest.TempPathFactory, facts: list[Fact]
) -> None:
    folder = tmp_path_factory.mktemp("transfer")
    with (
        open_memory(folder / "a.db", user="ana", project="shop", redact=str) as one,
        open_memory(folder / "b.db", user="ben", project="shop", redact=str) as two,
    ):
        for fact in facts:
            text = fact.text.encode("utf-8", "replace").decode().replace("\x00", "")
            if text.strip() and one.repository.same_text(words_of(text), fact.project) is None:
                one.repository.insert(fact._replace(text=text), now=1.0, who="test")
        exported = export_lines(one)
        import_lines(two, exported)
        assert export_lines(two) == exported


def test_lines_end_as_lines_do(tmp_path: Path, memory: Memory) -> None:
    memory.add("Ana likes tea\u2028and cake")
    file = tmp_path / "export.jsonl"
    file.write_text("".join(f"{line}\n" for line in export_lines(memory)), encoding="utf-8")
    with file.open(encoding="utf-8") as lines:
        assert import_lines(memory, lines)["known"] == 1


def test_an_export_has_lessons_notes_and_the_profile_of_the_project(
    open_here: OpenMemory, clock: HandClock, tmp_path: Path
) -> None:
    ana, ben = open_here("ana"), open_here("ben")
    fill(ana, clock)
    ana.learnings.record("list all", "ls -l", ok=True, session_id="s1")
    ana.learnings.record_repair(
        "run the tests", "make unit", "tox", exit_code=2, output="error: no rule", session_id="s1"
    )
    ana.learnings.edit(ana.learnings.all()[0], "use eza")
    exported = export_lines(ana)
    report = import_lines(ben, exported)
    assert report["lessons"] == 2
    assert [(one.told, one.evidence, one.session_id) for one in ben.learnings.all()] == [
        (one.told, one.evidence, one.session_id) for one in ana.learnings.all()
    ]
    assert export_lines(ben) == exported
    assert import_lines(ben, exported)["lessons"] == 0
    ana.sessions.save(SessionNotes("s1", 7, 5.0))
    ana.sessions.mention("s1", [Mention("server", "heron")], clock.now())
    (tmp_path / "shop.py").write_text("print()\n")
    ana.projects.save(scan(tmp_path, clock))
    assert export_lines(ana) == exported
    earlier = [(one.section, one.fields) for one in read_archive(exported)]
    noted = write_archive([*earlier, ("session_notes", {"session": "s1", "read_to": 7})])
    assert import_lines(open_here("cleo"), noted)["lessons"] == 2


def test_a_forgotten_lesson_does_not_come_back_with_a_file(open_here: OpenMemory) -> None:
    ana = open_here("ana")
    ana.learnings.record("list all", "ls -l", ok=True)
    exported = export_lines(ana)
    ana.forgetter.carry_out(ana.forgetter.read_request("l1"))
    assert import_lines(ana, exported)["lessons"] == 0
    assert ana.learnings.all() == []
    with pytest.raises(UsageError, match="line 3"):
        import_lines(ana, write_archive([("memory", {}), ("lesson", {"id": 1})]))
