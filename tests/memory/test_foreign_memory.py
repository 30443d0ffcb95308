"""An imported memory is foreign: a value of another type or size is refused, and breaks nothing."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kogniterm.errors import KognitermError
from kogniterm.memory.memory_transfer import export_lines, import_lines
from kogniterm.storage.line_files import close_lines
from tests.memory.conftest import HandClock, OpenMemory
from tests.memory.test_memory_transfer import fill

VALUES: tuple[Any, ...] = ("x", 5, -1, True, None, [], {}, 1e300, 2**70, 10**400, "\ud800", "a\0")
OWN_TEXT = {"fact": "text", "preference": "updated", "lesson": "command"}


@pytest.fixture(name="location")
def in_file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "kogniterm.db"


@pytest.mark.parametrize("kind", ["fact", "preference", "lesson"])
def test_no_value_of_a_record_breaks_the_memory(
    open_here: OpenMemory, clock: HandClock, kind: str
) -> None:
    ana, ben = open_here("ana"), open_here("ben")
    fill(ana, clock)
    ana.learnings.record("list all", "ls -l", ok=True, session_id="s1")
    header, *records = (json.loads(line) for line in export_lines(ana)[:-1])
    record = next(one for one in records if one["type"] == kind)
    fields = [name for name in record if name != "type"]
    for number, (field, value) in enumerate((f, v) for f in fields for v in VALUES):
        own = number if kind == "preference" else f"tea {number}"
        changed = {**record, OWN_TEXT[kind]: own, field: value}
        lines = map(json.dumps, (header, changed))
        with suppress(KognitermError):
            import_lines(
                ben, close_lines(lines, lambda _count, digest: {"type": "end", "sha256": digest})
            )
        # What was taken is of use: it is listed, found and exported.
        ben.search("tea", 3)
        assert ben.learnings.all() is not None
    assert export_lines(ben)
