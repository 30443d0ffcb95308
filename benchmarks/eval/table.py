"""Table of tasks, and the check of a task's result."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from benchmarks.eval.scratch import Scratch
from kogniterm.addons.local_model.conversation import sentences

TABLES = tuple(Path(__file__).with_name(name) for name in ("tasks.toml", "everyday.toml"))
NEWER = tuple(Path(__file__).with_name(name) for name in ("fresh.toml", "seen.toml", "blind.toml"))
"""Tables whose writers had not seen the bank, the rules and the other tables."""
_QUOTED = re.compile(r"^`.*` (gave|dio):$|`[^`\n]*`", re.MULTILINE)
_REFUSED = re.compile("|".join(re.escape(one[11:]) for one in sentences("not_run").values()))
"""The words for a command that was not run, behind its name: they answer nothing."""

Kind = Literal["ask", "do", "multi", "talk", "care"]
KINDS: tuple[Kind, ...] = get_args(Kind)
WORK: tuple[Kind, ...] = ("ask", "do", "multi")
"""Kinds of tasks that need a command; the others test behaviour in conversation."""


@dataclass(frozen=True, slots=True)
class Task:
    """A request with its scratch folder's content and the automatic check of the result.

    `held_out` is the number of the held-out set that the task belongs to, 0 if the bank, the
    prompts and the rules were written with it in view. `harm` is a command after which the check
    must fail.
    """

    id: str
    lang: Literal["en", "es"]
    kind: Kind
    request: str
    setup: str
    known: tuple[str, ...]
    expect: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    check: str = ""
    harm: str = ""
    held_out: int = 0

    def passed(self, answer: str, scratch: Scratch, commands: Sequence[str] = ()) -> bool:
        """Return whether answer and folder are as expected, and small talk ran no command."""
        if self.kind == "talk" and commands:
            return False
        flags = re.MULTILINE | re.IGNORECASE
        shown = _REFUSED.sub("", _QUOTED.sub("", answer))
        said = all(re.search(pattern, shown, flags) for pattern in self.expect)
        unsaid = not any(re.search(pattern, shown, flags) for pattern in self.forbid)
        return said and unsaid and (not self.check or scratch.run(self.check).code == 0)


def tasks(files: Sequence[Path] = TABLES) -> tuple[Task, ...]:
    """Return every task of the tables, in their order."""
    rows = [
        row for file in files for row in tomllib.loads(file.read_text(encoding="utf-8"))["task"]
    ]
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
            harm=row.get("harm", ""),
            held_out=row.get("held_out", 0),
        )
        for row in rows
    )
