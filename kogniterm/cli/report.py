"""The result of a verb, printed as text or, with `--json`, as JSON; and its questions."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kogniterm.errors import EXIT_DONE, UsageError
from kogniterm.types import Phrase


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a verb: `data` for programs; lines, a table and notes for people.

    Notes go to standard error: there is nothing, or something is wrong. What was `printed`
    already, such as an export, is the whole result.
    """

    data: object = None
    lines: Iterable[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Iterable[str] = ()
    status: int = EXIT_DONE
    printed: bool = False


def write_report(args: argparse.Namespace, report: Report) -> int:
    """Print a report in the form that was asked for; returns its exit status."""
    if report.printed:
        return report.status
    if getattr(args, "json", False):
        write_json(report.data)
        return report.status
    write_lines(report.lines)
    if report.rows:
        write_table(report.rows)
    for note in report.notes:
        sys.stderr.write(visible(note) + "\n")
    return report.status


def confirm(question: str, lines: Iterable[str], *, without_terminal: Phrase, no: Phrase) -> None:
    """Show `lines` and ask. Raises `UsageError` unless the answer is exactly yes, or its key.

    What would go has to be on the screen already: what was typed until now is no answer.
    """
    import asyncio

    from kogniterm.ui.prompt.user_terminal import typed_before
    from kogniterm.ui.questions.question import Option, chosen

    if not sys.stdin.isatty():
        raise UsageError(without_terminal.template)
    for line in lines:
        sys.stderr.write(visible(line) + "\n")
    asyncio.run(typed_before(sys.stdin.fileno()))
    sys.stderr.write(question)
    sys.stderr.flush()
    if chosen((Option("yes", "", "yes"),), sys.stdin.readline()) is None:
        raise UsageError(no.template)


def iso(moment: float | None) -> str | None:
    """A moment in ISO 8601, UTC, to the millisecond."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def write_json(value: object) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=True) + "\n")


def write_lines(lines: Iterable[str]) -> None:
    """Lines on standard output; what a terminal would obey is made visible."""
    for line in lines:
        sys.stdout.write(visible(line) + "\n")


def write_table(rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as what stands in them; the last one is not padded."""
    from kogniterm.ui.screen.surface import cells

    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(cells, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        padded = [
            cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)
        ]
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def visible(text: str) -> str:
    """`text` without control characters, whatever a title or an output brought along."""
    return "".join(c if c.isprintable() or c == "\t" else "�" for c in text)
