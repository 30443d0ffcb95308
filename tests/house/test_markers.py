"""The table of marks names what exists, and no test sets or escapes them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.figures import starts_program
from tests.support.marking import MARKS, table, unknown_rows

ROOT = Path(__file__).parents[2]


def test_every_row_names_something() -> None:
    assert set(table()) == set(MARKS)
    assert list(unknown_rows(ROOT)) == []


def test_no_test_marks_itself() -> None:
    ours = re.compile(rf"mark\.({'|'.join(MARKS)})\b")
    files = (ROOT / "tests").rglob("*.py")
    assert [str(file) for file in files if ours.search(file.read_text("utf-8"))] == []


def test_what_counts_as_the_start_of_a_program() -> None:
    assert starts_program(["/usr/bin/python3", "-m", "kogniterm"])
    assert starts_program(["/venv/bin/kogniterm", "run"])
    assert starts_program(["/usr/lib/postgresql/17/bin/initdb"])
    assert not starts_program(["/bin/bash", "-c", "true"])
    supervisor = "from kogniterm.execution.process.supervisor import main"
    assert not starts_program(["/usr/bin/python3", "-I", "-c", supervisor])
