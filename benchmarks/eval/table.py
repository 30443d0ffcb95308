"""The table of tasks, and the judge of what became of one."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.eval.scratch import Scratch

TABLE = Path(__file__).with_name("tasks.toml")
_QUOTED = re.compile(r"^`.*` (gave|dio):$|`[^`\n]*`", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Task:
    """A request with its scratch folder's content and the automatic check of the result.

    `held_out` marks those that were never used to change bank, prompt or retrieval.
    """

    id: str
    lang: Literal["en", "es"]
    kind: Literal["ask", "do", "multi"]
    request: str
    setup: str
    known: tuple[str, ...]
    expect: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    check: str = ""
    held_out: bool = False

    def passed(self, answer: str, scratch: Scratch) -> bool:
        """Whether the answer is right and the folder is as it should be."""
        flags = re.MULTILINE | re.IGNORECASE
        shown = _QUOTED.sub("", answer)
        said = all(re.search(pattern, shown, flags) for pattern in self.expect)
        unsaid = not any(re.search(pattern, shown, flags) for pattern in self.forbid)
        return said and unsaid and (not self.check or scratch.run(self.check).code == 0)


def tasks(file: Path = TABLE) -> tuple[Task, ...]:
    """Every task of the table, in its order."""
    rows = tomllib.loads(file.read_text(encoding="utf-8"))["task"]
    return tuple(
        Task(
            id=row["id"],
            lang=row["lang"],
            kind=row["kind"],
            request=row["request"].strip(),
            setup=row["setup"],
            known=tuple(row["known"]),
            expect=tuple(row.get("expect", ())),
            forbid=tuple(row.get("forbid", ())),
            check=row.get("check", ""),
            held_out=row.get("held_out", False),
        )
        for row in rows
    )
