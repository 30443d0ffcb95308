"""Preferences with types, and lessons from the results of commands."""

from __future__ import annotations

import pytest

from kogniterm.errors import UsageError
from kogniterm.memory import Memory
from kogniterm.memory.learnings import MOST_KEPT, command_shape
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
    [("verbosity", "endless"), ("emoji", "yes"), ("language", 7), ("", 1), ("own", {1, 2})],
)
def test_a_value_of_the_wrong_type_is_refused(memory: Memory, key: str, value: object) -> None:
    with pytest.raises(UsageError):
        memory.preferences.set(key, value)
    assert memory.preferences.all() == {}


def test_a_guess_never_replaces_what_was_said(memory: Memory) -> None:
    memory.preferences.set("language", "es")
    assert memory.preferences.set("language", "en", source="inferred").value == "es"
    memory.preferences.set("Own Key", {"a": [1, None]}, source="inferred")
    assert memory.preferences.set("own key", 5).value == 5
