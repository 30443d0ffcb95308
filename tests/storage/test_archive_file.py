"""Archives: written and read alike, changes are noticed, and older files are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kogniterm.errors import UsageError
from kogniterm.storage.archive_file import read_archive, write_archive

SECTIONS: list[tuple[str, dict[str, Any]]] = [
    ("session", {"id": "s1"}),
    ("record", {"seq": 1, "payload": {"a": "ñ\ud800\0\u2028"}}),
]


def in_old_form(values: Sequence[object], **end: object) -> list[str]:
    lines = [json.dumps(value, ensure_ascii=False) for value in values]
    digest = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    return [*lines, json.dumps({**end, "sha256": digest})]


def test_what_was_written_is_read() -> None:
    lines = list(write_archive(SECTIONS))
    assert [(one.line, one.section) for one in read_archive(lines)] == [
        (2, "session"), (3, "record"),
    ]  # fmt: skip
    assert read_archive(f"{line}\r\n" for line in lines)[1].fields["payload"] == {
        "a": "ñ\ud800\0\u2028"
    }
    assert all(line.isascii() for line in lines)
    assert list(write_archive((one.section, one.fields) for one in read_archive(lines))) == lines


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [],
        lambda lines: lines[:1],
        lambda lines: lines[:-1],
        lambda lines: lines[1:],
        lambda lines: [*lines[:2], *lines[3:]],
        lambda lines: [lines[0], lines[2], lines[1], lines[3]],
        lambda lines: [*lines, *lines],
        lambda lines: [lines[0], lines[1].replace("s1", "s2"), *lines[2:]],
        lambda lines: [lines[0].replace("1", "2"), *lines[1:]],
        lambda lines: [lines[0].replace("archive", "other"), *lines[1:]],
        lambda lines: [*lines[:-1], '{"sha256":5}'],
        lambda lines: [lines[0], "[]", *lines[2:]],
        lambda lines: [lines[0], "[" * 100_000, *lines[2:]],
    ],
)
def test_a_file_that_was_cut_or_changed_is_refused(
    change: Callable[[list[str]], list[str]],
) -> None:
    with pytest.raises(UsageError, match=r"not a valid export \(line \d+\)"):
        read_archive(change(list(write_archive(SECTIONS))))


def test_files_of_earlier_versions_are_read() -> None:
    header = {"format": "kogniterm.session", "version": 2, "id": "s1"}
    session = in_old_form([header, {"seq": 1}, {"seq": 2}], records=2)
    found = [(one.section, one.fields.get("id"), one.fields.get("seq")) for one in
             read_archive(session)]  # fmt: skip
    assert found == [("session", "s1", None), ("record", None, 1), ("record", None, 2)]
    parts = [{"part": "session", "line": line} for line in session]
    parts += [{"part": "recording", "line": "{}"}]
    about = {"format": "kogniterm.report", "version": 1, "about": {}}
    report = read_archive(in_old_form([about, *parts], lines=5))
    assert [one[1:] for one in report] == [one[1:] for one in read_archive(session)]
    old = [{"type": "header", "format": "kogniterm-memory", "version": 1}, {"type": "fact", "id": 1,
           "text": "mañana"}]  # fmt: skip
    memory = read_archive(in_old_form(old, type="end"))
    assert [one.section for one in memory] == ["memory", "fact"]
    assert memory[1].fields["text"] == "mañana"
