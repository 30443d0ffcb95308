"""Lessons: how commands and plans ended, good and bad, to be recalled for similar tasks.

A command is kept as its shape: the program, its subcommand and its options, without the
operands, so that one lesson serves the next file too and no file name is kept.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from kogniterm.memory.extraction.statements import is_order
from kogniterm.memory.fact_records import Lesson
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.memory.search.word_index import Entry, WordIndex
from kogniterm.protocols import Clock
from kogniterm.text.language import stems_of, tokens
from kogniterm.text.sensitive_topics import personal_kind

MOST_KEPT = 500
"""Lessons per project; the oldest go first, those that went well before those that failed."""

PLAN = "plan: "
"""The beginning of the shape of a plan; the rest are its steps."""

_SUBCOMMANDS = re.compile(
    r"git|docker|podman|kubectl|helm|npm|pnpm|yarn|pip|pipx|uv|cargo|go|make|apt|apt-get|dnf|brew|"
    r"systemctl|poetry|python[\d.]*|node|npx|terraform|ansible|gh|conda"
)
"""Programs whose first operand says what they do."""

_ERROR = re.compile(
    r"\b(?:error|errno|failed|failure|fatal|cannot|can't|could not|unable|not found|no such|"
    r"denied|refused|missing|invalid|undefined|unknown|timed out|timeout|panic)\b"
    r"|\w+(?:Error|Exception)\b",
    re.IGNORECASE,
)
_COLUMNS = "id, task, shape, ok, exit_code, seconds, note, created, times"


class Learnings:
    """The lessons of one user in one project."""

    def __init__(
        self, sql: MemoryDatabase, project: str, clock: Clock, redact: Callable[[str], str]
    ) -> None:
        self._sql = sql
        self._clock = clock
        self._redact = redact
        self._bound = (sql.user, project)

    def record(
        self,
        task: str,
        command: str,
        *,
        ok: bool,
        exit_code: int | None = None,
        seconds: float = 0.0,
        note: str = "",
        session_id: str = "",
    ) -> None:
        """Store how `command`, run for `task`, ended; the same ending again is counted.

        Of `note`, which may be the command's output, only the line with the error is kept.
        """
        self._keep(
            task, command_shape(command), ok, exit_code, seconds, error_line(note), session_id
        )

    def record_plan(
        self, task: str, steps: str, *, ok: bool, note: str = "", session_id: str = ""
    ) -> None:
        """Store how a plan for `task` ended: its steps in one line, and what went wrong."""
        note = "" if is_order(note) else note
        self._keep(task, f"{PLAN}{steps}", ok, None, 0.0, note, session_id)

    def _keep(
        self,
        task: str,
        shape: str,
        ok: bool,
        exit_code: int | None,
        seconds: float,
        note: str,
        session_id: str,
    ) -> None:
        if personal_kind(task) is not None:
            return
        task = _short(self._redact(task), 300)
        shape = _short(self._redact(shape), 400 if shape.startswith(PLAN) else 200)
        note = _short(self._redact(note), 200)
        with self._sql.transaction():
            touched = self._sql.run(
                "UPDATE outcomes SET times = times + 1, created = ?, seconds = ?, note = ? "
                "WHERE user_id = ? AND project_id = ? AND task = ? AND shape = ? AND ok = ?",
                (self._clock.now(), seconds, note, *self._bound, task, shape, int(ok)),
            )
            if not touched:
                row = {"project_id": self._bound[1], "task": task, "shape": shape, "ok": int(ok)}
                row |= {"exit_code": exit_code, "seconds": seconds, "note": note}
                self._sql.put(
                    "outcomes", row | {"created": self._clock.now(), "session_id": session_id}
                )
                self._trim()

    def similar(self, task: str, limit: int = 3) -> list[Lesson]:
        """Return lessons from similar tasks, best first; of equal score, failures first."""
        lessons = {lesson.id: lesson for lesson in self.all()}
        index = WordIndex()
        for lesson in lessons.values():
            index.add(
                lesson.id,
                Entry(tuple(stems_of(lesson.task)), tuple(stems_of(lesson.shape))),
            )
        found = index.search(task)
        best = sorted(found, key=lambda one: (-found[one], lessons[one].ok, -lessons[one].created))
        asked = {token.stem for token in tokens(task)}
        return [
            lessons[one]
            for one in best
            # One common word does not make a task similar.
            if len(asked & set(stems_of(lessons[one].task + " " + lessons[one].shape)))
            >= min(2, len(asked))
        ][:limit]

    def all(self) -> list[Lesson]:
        """Return every lesson of this project, oldest first."""
        rows = self._sql.execute(
            f"SELECT {_COLUMNS} FROM outcomes WHERE user_id = ? AND project_id = ? ORDER BY id",
            self._bound,
        )
        return [Lesson(row[0], row[1], row[2], bool(row[3]), *row[4:]) for row in rows]

    def _trim(self) -> None:
        self._sql.run(
            "DELETE FROM outcomes WHERE user_id = ? AND project_id = ? AND id IN ("
            "SELECT id FROM outcomes WHERE user_id = ? AND project_id = ? "
            "ORDER BY ok ASC, created DESC LIMIT 1000000 OFFSET ?)",
            (*self._bound, *self._bound, MOST_KEPT),
        )


def command_shape(command: str) -> str:
    """Return a command without operands: `git commit -m 'x'` → `git commit -m`.

    Pipelines keep every part.
    """
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        parts = list(lexer)
    except ValueError:
        parts = command.split()
    shape: list[str] = []
    program = ""
    subcommand = False
    for part in parts:
        if part and set(part) <= set("|&;"):
            shape.append(part)
            program = ""
        elif not program and "=" in part.split("/", maxsplit=1)[0]:
            continue
        elif not program:
            program = part.rsplit("/", maxsplit=1)[-1]
            shape.append(program)
            subcommand = _SUBCOMMANDS.fullmatch(program) is not None
        elif part.startswith("-"):
            shape.append(part.split("=", maxsplit=1)[0])
        elif subcommand:
            shape.append(part)
            subcommand = False
    return " ".join(shape)


def error_line(text: str) -> str:
    """Return the last line that reports an error, or "": the rest of an output is not kept."""
    told = (line.strip() for line in reversed(text.splitlines()))
    return next((one for one in told if _ERROR.search(one) and not is_order(one)), "")


def _short(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
