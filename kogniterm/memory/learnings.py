"""Lessons: how commands and plans ended, good and bad, to be recalled for similar tasks.

A command is kept as its shape: the program, its subcommand and its options, without the
operands, so that one lesson serves the next file too and no file name is kept. A command that
failed and the one that then worked are one lesson, and both are kept whole: there the operands
are often what was wrong.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice

from kogniterm.errors import UsageError
from kogniterm.memory import word_index
from kogniterm.memory.fact_records import LONGEST_TEXT, PLAN, Lesson, why_not_kept
from kogniterm.memory.repository import FactRepository, Tombstones, make_words
from kogniterm.memory.sensitive_topics import personal_kind
from kogniterm.memory.statements import is_order
from kogniterm.memory.word_index import StoredWords, WordIndex
from kogniterm.protocols import Clock
from kogniterm.text.language import stems_of, words_of
from kogniterm.text.shorten import gist
from kogniterm.types import Phrase

MOST_KEPT = 500
"""Lessons per project; the oldest go first, those that went well before those that failed."""

_SUBCOMMANDS = re.compile(
    r"git|docker|podman|kubectl|helm|npm|pnpm|yarn|pip|pipx|uv|cargo|go|make|apt|apt-get|dnf|brew|"
    r"systemctl|poetry|python[\d.]*|node|npx|terraform|ansible|gh|conda"
)
"""Programs whose first operand says what they do."""

_ERROR = re.compile(
    r"\b(?:error|errno|failed|failure|fatal|cannot|can't|could not|unable|not found|no such|"
    r"denied|refused|missing|invalid|undefined|unknown|timed out|timeout|panic|no rule)\b"
    r"|\w+(?:Error|Exception)\b|is not a \w+ command",
    re.IGNORECASE,
)
LONGEST_COMMAND = 300
"""Characters of a command that is kept whole; a longer one is a script, and teaches no name."""

_COLUMNS = (
    "id, task, shape, ok, exit_code, seconds, note, created, times, session_id, failed, fix, "
    "wording"
)
_LABEL = re.compile(r"\[?l(\d{1,18})\]?", re.IGNORECASE)


class Learnings:
    """The lessons of one user in one project."""

    def __init__(
        self,
        repository: FactRepository,
        clock: Clock,
        redact: Callable[[str], str],
        tombstones: Tombstones,
    ) -> None:
        self._repository = repository
        self._sql = repository.sql
        self._clock = clock
        self._redact = redact
        self._tombstones = tombstones
        self._bound = (repository.user, repository.project)

    def together(self) -> AbstractContextManager[None]:
        """Return a context in which lessons are stored all at once, or none of them."""
        return self._sql.transaction()

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
        task = gist(self._redact(task), 300)
        shape = gist(self._redact(shape), 400 if shape.startswith(PLAN) else 200)
        note = gist(self._redact(note), 200)
        with self._sql.transaction():
            touched = self._sql.run(
                "UPDATE outcomes SET times = times + 1, created = ?, seconds = ?, note = ? "
                "WHERE user_id = ? AND project_id = ? AND task = ? AND shape = ? AND ok = ? "
                "AND failed = ''",
                (self._clock.now(), seconds, note, *self._bound, task, shape, int(ok)),
            )
            if not touched:
                self._insert(
                    Lesson(
                        0, task, shape, ok, exit_code, seconds, note, self._clock.now(),
                        session_id=session_id,
                    )
                )  # fmt: skip

    def record_repair(
        self,
        task: str,
        failed: str,
        worked: str,
        *,
        exit_code: int | None,
        output: str,
        fix: str = "",
        session_id: str = "",
    ) -> None:
        """Store as one lesson that `failed` failed for `task`, and what worked in its place.

        That is `worked`; or the same command, once `fix` was done. The lessons on the two commands
        by themselves, from the same task of the session, go into it. The same again is counted.
        Of `output` only the line with the error is kept.
        """
        failed, worked, fix = (_clean_text(self._redact, one) for one in (failed, worked, fix))
        if personal_kind(f"{task}\n{failed}\n{worked}\n{fix}") is not None:
            return
        if max(len(failed), len(worked), len(fix)) > LONGEST_COMMAND:
            return
        task = gist(self._redact(task), 300)
        note = gist(self._redact(error_line(output)), 200)
        lesson = Lesson(
            0, task, worked, True, exit_code, 0.0, note, self._clock.now(),
            session_id=session_id, failed=failed, fix=fix,
        )  # fmt: skip
        with self._sql.transaction():
            shapes = {(command_shape(failed), 0), (command_shape(worked), 1)}
            for shape, ok in shapes:
                self._sql.run(
                    "DELETE FROM outcomes WHERE user_id = ? AND project_id = ? AND session_id = ? "
                    "AND task = ? AND shape = ? AND ok = ? AND failed = ''",
                    (*self._bound, session_id, task, gist(self._redact(shape), 200), ok),
                )
            touched = self._sql.run(
                "UPDATE outcomes SET times = times + 1, created = ?, note = ?, exit_code = ?, "
                "session_id = ? WHERE user_id = ? AND project_id = ? AND failed = ? "
                "AND shape = ? AND fix = ?",
                (lesson.created, note, exit_code, session_id, *self._bound, failed, worked, fix),
            )
            if not touched:
                self._insert(lesson)

    def take_over(self, lesson: Lesson) -> bool:
        """Store an imported lesson and return True, unless it is known or was forgotten."""
        clean = partial(_clean_text, self._redact)
        lesson = lesson._replace(
            task=clean(lesson.task),
            shape=clean(lesson.shape),
            note=clean(lesson.note),
            failed=clean(lesson.failed),
            fix=clean(lesson.fix),
            wording=clean(lesson.wording),
        )
        if personal_kind("\n".join(getattr(lesson, name) for name in EXPORTED)) is not None:
            return False
        known = ((one.task, one.told, one.ok) for one in self.all())
        if (lesson.task, lesson.told, lesson.ok) in known:
            return False
        return self._insert(lesson)

    def _insert(self, lesson: Lesson) -> bool:
        if self._tombstones.holds(forgotten_as(lesson)):
            return False
        row: dict[str, object] = {"project_id": self._bound[1], "ok": int(lesson.ok)}
        row |= {name: getattr(lesson, name) for name in _COPIED}
        with self._sql.transaction():
            self._sql.tick()  # who makes the index of words waits
            stored = lesson._replace(id=self._sql.put("outcomes", row))
            word_index.index(self._sql, self._entry(stored))
            self._sql.run(
                "DELETE FROM outcomes WHERE user_id = ? AND project_id = ? AND id IN ("
                "SELECT id FROM outcomes WHERE user_id = ? AND project_id = ? "
                "ORDER BY CASE WHEN failed || wording = '' THEN 1 ELSE 0 END, ok ASC, created DESC "
                "LIMIT 1000000 OFFSET ?)",
                (*self._bound, *self._bound, MOST_KEPT),
            )
            word_index.remove_gone_lessons(self._sql)
        return True

    def _entry(self, lesson: Lesson) -> word_index.WordEntry:
        about = _about(lesson)
        return word_index.lesson_entry(lesson.id, self._bound[1], lesson.task, about)

    def get(self, identifier: str) -> Lesson:
        """Return the lesson `identifier` ("l3"). Raises `UsageError` if there is none."""
        label = _LABEL.fullmatch(identifier.strip())
        number = int(label[1]) if label is not None else 0
        found = next((one for one in self.all() if one.id == number), None)
        if found is None:
            raise UsageError(
                "Lesson {id} not found; list the lessons with /memory lessons, or in a shell "
                "with: kogniterm memory lessons",
                id=identifier,
            )
        return found

    def edit(self, lesson: Lesson, text: str) -> Lesson:
        """Give the lesson the user's own wording, and return it.

        Raises `UsageError` for a text that must not be remembered.
        """
        unfit = why_not_kept(text)
        if unfit is not None:
            raise UsageError("This cannot be remembered: {reason}.", reason=unfit)
        wording = _clean_text(self._redact, text)
        if not wording or len(wording) > LONGEST_TEXT:
            reason = Phrase("a fact has 1 to {most} characters", {"most": LONGEST_TEXT})
            raise UsageError("This cannot be remembered: {reason}.", reason=reason)
        edited = lesson._replace(wording=wording)
        with self._sql.transaction():
            self._sql.tick()
            word_index.remove(self._sql, self._entry(self.get(lesson.label)))
            self._sql.run(
                "UPDATE outcomes SET wording = ? WHERE user_id = ? AND project_id = ? AND id = ?",
                (wording, *self._bound, lesson.id),
            )
            word_index.index(self._sql, self._entry(edited))
        return edited

    def similar(self, task: str) -> list[Lesson]:
        """Return up to three lessons from similar tasks, best first.

        Those that say what worked instead come first; of equal score, failures come first.
        """
        lessons = {lesson.id: lesson for lesson in self.all()}
        if not lessons:
            return []
        make_words(self._repository)
        name = word_index.lessons_of(self._bound[1])
        words = words_of(task)
        found = WordIndex(StoredWords(self._sql, (name, name))).search(words)
        best = sorted(
            lessons.keys() & found, key=lambda one: (_rank(lessons[one], found[one]), one)
        )
        asked = set(words.stems)
        similar = (
            lessons[one]
            for one in best
            # One common word does not make a task similar.
            if len(asked & set(stems_of(f"{lessons[one].task} {_about(lessons[one])}")))
            >= min(2, len(asked))
        )
        return list(islice(similar, 3))

    def all(self) -> list[Lesson]:
        """Return every lesson of this project, oldest first."""
        rows = self._sql.execute(
            f"SELECT {_COLUMNS} FROM outcomes WHERE user_id = ? AND project_id = ? ORDER BY id",
            self._bound,
        )
        return [Lesson(row[0], row[1], row[2], bool(row[3]), *row[4:]) for row in rows]

    def forget(self, lessons: Iterable[Lesson], now: float) -> int:
        """Delete `lessons`, which are not learned again; returns the number of rows."""
        removed = 0
        with self._sql.transaction():
            for one in lessons:
                self._tombstones.add([forgotten_as(one)], now)
                removed += self._sql.run(
                    "DELETE FROM outcomes WHERE user_id = ? AND project_id = ? AND id = ?",
                    (*self._bound, one.id),
                )
        return removed


_COPIED = (
    "task", "shape", "exit_code", "seconds", "note", "created", "times", "session_id", "failed",
    "fix", "wording",
)  # fmt: skip
"""The fields of a lesson that are columns of the same name and type."""


def forgotten_as(lesson: Lesson) -> str:
    """Return the text under which a lesson is kept from being learned again."""
    if lesson.failed:
        return f"lesson {lesson.failed} {lesson.shape} {lesson.fix}"
    return f"lesson {lesson.task} {lesson.shape} {lesson.ok}"


def terms_of(lesson: Lesson) -> list[str]:
    """Return the texts to remove from every store when a lesson is forgotten.

    These are the copies of the lesson: in the memory block that a model was shown, and in exports.
    What happened in the session (its request, its commands) is not the lesson, and stays.
    """
    told = str(lesson.told)
    exported = [f"{name} {getattr(lesson, name)}" for name in EXPORTED]
    terms = [f"earlier {lesson.task} {told}", " ".join(exported)]
    return [*terms, lesson.wording] if lesson.wording else terms


EXPORTED = ("task", "shape", "failed", "fix", "wording", "note")
"""The texts of a lesson, in the order in which an export has them."""


def _about(lesson: Lesson) -> str:
    return f"{lesson.shape} {lesson.failed} {lesson.wording}"


def _rank(lesson: Lesson, score: float) -> tuple[bool, float, bool, float]:
    return (not (lesson.failed or lesson.wording), -score, lesson.ok, -lesson.created)


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


def _clean_text(redact: Callable[[str], str], text: str) -> str:
    return " ".join(redact(text).split())
