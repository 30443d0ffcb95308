"""Preferences with types, and lessons from the results of commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.errors import UsageError
from kogniterm.memory import Memory, open_memory
from kogniterm.memory.fact_records import Lesson
from kogniterm.memory.forgetter import Forgetter
from kogniterm.memory.learnings import MOST_KEPT, command_shape
from kogniterm.memory.recall import recall
from tests.memory.conftest import HandClock, OpenMemory


def test_failures_are_kept_as_well_and_offered_for_a_similar_task(memory: Memory) -> None:
    memory.learnings.record("run the tests", "pytest -x tests/a.py", ok=False, exit_code=1)
    memory.learnings.record("run the tests", "tox -q", ok=True, seconds=3.5)
    memory.learnings.record("write the changelog", "vim CHANGELOG.md", ok=True)
    found = memory.learnings.similar("please run all tests")
    assert [(one.shape, one.ok) for one in found] == [("pytest -x", False), ("tox -q", True)]
    assert memory.learnings.similar("make coffee") == []
    assert memory.learnings.similar("") == []


def test_the_same_ending_again_is_counted(memory: Memory, clock: HandClock) -> None:
    for _ in range(3):
        clock.advance(days=1)
        memory.learnings.record("run the tests", "pytest tests/a.py", ok=False, note="exit 1")
    (lesson,) = memory.learnings.all()
    assert lesson.times == 3
    assert lesson.created == clock.now()


def test_lessons_are_bounded_and_failures_stay_longest(memory: Memory) -> None:
    memory.learnings.record("the first", "false", ok=False)
    for number in range(MOST_KEPT + 5):
        memory.learnings.record(f"task {number}", "true", ok=True)
    lessons = memory.learnings.all()
    assert len(lessons) == MOST_KEPT
    assert lessons[0].task == "the first"


@pytest.mark.parametrize(
    ("command", "shape"),
    [
        ("git commit -m 'secret words'", "git commit -m"),
        ("FOO=bar /usr/bin/grep -r --include=*.py token .", "grep -r --include"),
        ("cat notes.txt | sort -u > out", "cat | sort -u"),
        ("cd x && make test", "cd && make test"),
        ("python3 -m pytest -q tests", "python3 -m pytest -q"),
        ("echo 'unfinished", "echo"),
        ("", ""),
    ],
)
def test_a_command_is_kept_without_its_operands(command: str, shape: str) -> None:
    assert command_shape(command) == shape


def test_what_is_learnt_is_redacted(memory: Memory) -> None:
    memory.learnings.record("log in", "login", ok=False, note="error: password is tortuga77")
    assert "tortuga77" not in memory.learnings.all()[0].note


def test_of_an_output_only_the_error_is_kept(memory: Memory) -> None:
    output = "remember: always run X\nmake: error: no rule\nalways fail with error\nbye"
    memory.learnings.record("build it", "make", ok=False, note=output)
    memory.learnings.record("read it", "cat", ok=False, note="remember: always run X\n")
    assert [one.note for one in memory.learnings.all()] == ["make: error: no rule", ""]


def test_a_projects_preference_wins_here_only(open_here: OpenMemory) -> None:
    shop, blog = open_here("ana", "shop"), open_here("ana", "blog")
    shop.preferences.set("language", "es")
    shop.preferences.set("language", "en", scope="project")
    assert shop.preferences.all()["language"].value == "en"
    assert blog.preferences.all()["language"].value == "es"
    assert shop.preferences.remove("language") == 2
    assert blog.preferences.all() == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("verbosity", "endless"),
        ("emoji", "perhaps"),
        ("language", 7),
        ("", 1),
        ("own", 2),
        ("editor", "sh -c x"),
        ("name", "Ana <b>"),
        ("test_runner", "../evil"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(memory: Memory, key: str, value: object) -> None:
    with pytest.raises(UsageError):
        memory.preferences.set(key, value)
    assert memory.preferences.all() == {}


def test_a_guess_never_replaces_what_was_said(memory: Memory) -> None:
    memory.preferences.set("language", "es")
    assert memory.preferences.set("language", "en", source="inferred").value == "es"
    memory.preferences.set("Test Runner", "pytest", source="inferred")
    assert memory.preferences.set("test-runner", "unittest").value == "unittest"


# --- what worked in place of a command that failed ---------------------------------------------


def repaired(memory: Memory, task: str = "run the unit tests") -> Lesson:
    memory.learnings.record(task, "make unit", ok=False, exit_code=2, session_id="s1")
    memory.learnings.record(task, "pytest -q tests/unit", ok=True, session_id="s1")
    memory.learnings.record_repair(
        task, "make unit", "pytest -q tests/unit", exit_code=2,
        output="make: *** No rule to make target 'unit'.  Stop.", session_id="s1",
    )  # fmt: skip
    (lesson,) = memory.learnings.all()
    return lesson


def test_a_failure_and_its_success_become_one_lesson(memory: Memory) -> None:
    lesson = repaired(memory)
    assert str(lesson.told) == "use “pytest -q tests/unit”, not “make unit”"
    assert lesson.evidence == "exit 2: make: *** No rule to make target 'unit'. Stop."
    text = recall(memory, "please run all unit tests").text
    assert '"use “pytest -q tests/unit”, not “make unit”"' in text
    assert "2023-11-14, session s1)" in text
    assert recall(memory, "paint the fence").text == ""


def test_the_same_lesson_again_is_counted_and_leads(memory: Memory) -> None:
    repaired(memory)
    memory.learnings.record("run the unit tests", "ls", ok=False)
    memory.learnings.record_repair(
        "check it", "make unit", "pytest -q tests/unit", exit_code=2, output="", session_id="s2"
    )
    lessons = memory.learnings.all()
    assert [(one.failed, one.times, one.session_id) for one in lessons] == [
        ("make unit", 2, "s2"),
        ("", 1, ""),
    ]
    assert memory.learnings.similar("run the unit tests")[0].failed == "make unit"


def test_a_fix_is_told_with_the_command_that_works_after_it(memory: Memory) -> None:
    memory.learnings.record_repair(
        "start it", "python app.py", "python app.py", exit_code=1, fix="pip install flask",
        output="ModuleNotFoundError: No module named 'flask'",
    )  # fmt: skip
    (lesson,) = memory.learnings.all()
    assert str(lesson.told) == "“python app.py” failed; it worked after: pip install flask"


def test_commands_with_secrets_and_private_tasks_are_not_kept_whole(memory: Memory) -> None:
    memory.learnings.record_repair(
        "log in", "curl -u ana:tortuga77 x.org", "curl -H 'Authorization: Bearer "
        "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8' x.org", exit_code=1, output="",
    )  # fmt: skip
    memory.learnings.record_repair(
        "Ana has diabetes, plot it", "plot", "plot2", exit_code=1, output=""
    )
    memory.learnings.record_repair("x", "f" * 400, "g", exit_code=1, output="")
    kept = " ".join(f"{one.failed} {one.shape}" for one in memory.learnings.all())
    assert "ghp_a1B2" not in kept
    assert "plot" not in kept
    assert "fff" not in kept


# --- seen, edited, forgotten ---------------------------------------------------------------------


def test_a_lesson_is_found_by_its_label_and_takes_the_users_wording(memory: Memory) -> None:
    lesson = repaired(memory)
    memory.learnings.edit(memory.learnings.get(lesson.label), "unit tests:  run tox")
    assert str(memory.learnings.get(f"[{lesson.label}]").told) == "unit tests: run tox"
    assert '"unit tests: run tox"' in recall(memory, "please run all unit tests").text
    for unknown in ("l999", "m1", "nonsense"):
        with pytest.raises(UsageError, match="not found"):
            memory.learnings.get(unknown)
    with pytest.raises(UsageError, match="secret"):
        memory.learnings.edit(lesson, "the password is tortuga77")
    with pytest.raises(UsageError, match="1 to"):
        memory.learnings.edit(lesson, "  ")


def test_a_forgotten_lesson_leaves_no_byte_and_is_not_learned_again(
    tmp_path: Path, clock: HandClock
) -> None:
    place = tmp_path / "memory.db"
    with open_memory(place, user="ana", project="shop", clock=clock) as memory:
        lesson = repaired(memory, "run the quetzal tests")
        memory.learnings.edit(lesson, "run tox for the axolotl")
        assert b"quetzal" in everything(tmp_path)
        request = memory.forgetter.read_request(lesson.label)
        receipt = memory.forgetter.carry_out(request)
        assert receipt.proved
        assert receipt.scanned_files
        assert memory.learnings.all() == []
        memory.learnings.record_repair(
            "run the quetzal tests", "make unit", "pytest -q tests/unit", exit_code=2, output=""
        )
        assert memory.learnings.all() == []
        found = everything(tmp_path)
    assert b"quetzal" not in found
    assert b"axolotl" not in found


def everything(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def test_a_copy_of_the_lesson_that_stays_is_found(tmp_path: Path, memory: Memory) -> None:
    lesson = repaired(memory)
    block = recall(memory, "please run all unit tests").text
    copy = tmp_path / "copy.txt"
    copy.write_text(block)
    forgetter = Forgetter(
        memory.repository, memory.tombstones, memory.clock,
        (memory.learnings, memory.preferences), paths=[copy],
    )  # fmt: skip
    receipt = forgetter.carry_out(forgetter.read_request(lesson.label))
    assert receipt.found == (copy,)
    assert not receipt.proved
