"""What each task came to: kept while a run goes on, and what of it was published."""

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
    "kogniterm/models/local/*.py",
    "kogniterm/models/local/examples/*",
    "prompts/local_*.md",
    "benchmarks/eval/s*.py",
)


@dataclass(frozen=True, slots=True)
class Result:
    """A task's end under one set-up. `answer` is cut to its beginning."""

    passed: bool
    commands: tuple[str, ...]
    answer: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """A run: when, on which weights, and by set-up and task what was run under every set-up."""

    date: str
    model: str
    file: str
    sha256: str
    results: Mapping[str, Mapping[str, Result]]

    def write(self, file: Path = PUBLISHED) -> None:
        """As JSON that a person can read and a difference shows well."""
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        file.write_text(text + "\n", encoding="utf-8")


def published(file: Path = PUBLISHED) -> Published:
    """The run that was published last."""
    data = json.loads(file.read_text(encoding="utf-8"))
    data["results"] = {
        name: {task: _result(row) for task, row in rows.items()}
        for name, rows in data["results"].items()
    }
    return Published(**data)


def _result(row: Mapping[str, Any]) -> Result:
    return Result(row["passed"], tuple(row["commands"]), row["answer"], row["error"])


def fingerprint(patterns: Sequence[str] = _DECIDING) -> str:
    """Of everything of the local model that decides what becomes of a task."""
    files = sorted(file for pattern in patterns for file in ROOT.glob(pattern) if file.is_file())
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(ROOT)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


class Kept:
    """Results of a run in a file, each under what it rests on, so that a run can be resumed.

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
        what = replace(task, held_out=0)  # which set it belongs to changes no result
        return hashlib.sha256(f"{self._rests_on}\0{what}".encode()).hexdigest()[:16]

    def get(self, task: Task) -> Result | None:
        """The result of `task` if it still holds."""
        row = self._rows.get(task.id)
        return _result(row["result"]) if row and row["key"] == self._key(task) else None

    def put(self, task: Task, result: Result) -> None:
        """Keep `result`, on the disk at once."""
        self._rows[task.id] = {"key": self._key(task), "result": asdict(result)}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self._rows, indent=1), encoding="utf-8")
        fresh.replace(self._file)
