"""Results of tasks: kept during a run so that it can be resumed, and published afterwards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.eval.table import Task

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = Path(__file__).with_name("results.json")
KEPT_ANSWER = 600
_DECIDING = (
    "kogniterm/addons/local_model/*.py",
    "kogniterm/addons/local_model/*.toml",
    "kogniterm/addons/local_model/examples/*",
    "prompts/local_*.md",
    "benchmarks/eval/s*.py",
)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a task under one set-up. `answer` is truncated."""

    passed: bool
    commands: tuple[str, ...]
    answer: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """Published results: date, and the results of tasks by column of the table."""

    date: str
    results: Mapping[str, Mapping[str, Result]]

    def write(self, file: Path = PUBLISHED) -> None:
        """Write the results as indented JSON, which is readable and gives small diffs."""
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        file.write_text(text + "\n", encoding="utf-8")


def published(file: Path = PUBLISHED) -> Published:
    """Return the run that was published last."""
    data = json.loads(file.read_text(encoding="utf-8"))
    data["results"] = {
        name: {task: _result(row) for task, row in rows.items()}
        for name, rows in data["results"].items()
    }
    return Published(**data)


def _result(row: Mapping[str, Any]) -> Result:
    return Result(row["passed"], tuple(row["commands"]), row["answer"], row["error"])


def fingerprint(patterns: Sequence[str] = _DECIDING) -> str:
    """Return a hash of every file of the local model that can change a result."""
    files = sorted(file for pattern in patterns for file in ROOT.glob(pattern) if file.is_file())
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(ROOT)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


class Kept:
    """Results of a run in a file, each with the hash of the files it depends on, to resume the run.

    What the rest of the program has to do with a result is not part of it: after a change there,
    start with `fresh`.
    """

    def __init__(self, file: Path, rests_on: str, *, fresh: bool = False) -> None:
        self._file = file
        self._rests_on = rests_on
        self._rows: dict[str, Any] = {}
        if file.is_file() and not fresh:
            self._rows = json.loads(file.read_text(encoding="utf-8"))

    def _key(self, task: Task) -> str:
        what = replace(task, held_out=0)  # results do not depend on which set the task belongs to
        return hashlib.sha256(f"{self._rests_on}\0{what}".encode()).hexdigest()[:16]

    def get(self, task: Task) -> Result | None:
        """Return the result of `task` if it is still valid."""
        row = self._rows.get(task.id)
        return _result(row["result"]) if row and row["key"] == self._key(task) else None

    def put(self, task: Task, result: Result) -> None:
        """Store `result` on disk immediately."""
        self._rows[task.id] = {"key": self._key(task), "result": asdict(result)}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self._rows, indent=1), encoding="utf-8")
        fresh.replace(self._file)
