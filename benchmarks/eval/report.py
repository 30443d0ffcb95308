"""Table of a run, for the terminal and for the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.eval.results import ROOT, Published, Result
from benchmarks.eval.table import WORK, Task

PAGE = ROOT / "docs" / "local-model.md"
BEGIN = "<!-- written by `make eval` from benchmarks/eval/results.json -->\n"
END = "<!-- end of what `make eval` wrote -->\n"
_Z = 1.959964  # two-sided 95 %

Choice = Callable[[Task], bool]
Results = Mapping[str, Mapping[str, Result]]

GROUPS: tuple[tuple[str, Choice], ...] = (
    ("work, all", lambda task: task.kind in WORK),
    ("held out", lambda task: task.kind in WORK and task.held_out > 0),
    ("  first set", lambda task: task.kind in WORK and task.held_out == 1),
    ("  second set", lambda task: task.kind in WORK and task.held_out == 2),
    ("  English", lambda task: task.kind in WORK and task.held_out > 0 and task.lang == "en"),
    ("  Spanish", lambda task: task.kind in WORK and task.held_out > 0 and task.lang == "es"),
    ("tuned on", lambda task: task.kind in WORK and not task.held_out),
    ("questions", lambda task: task.kind == "ask"),
    ("things to do", lambda task: task.kind == "do"),
    ("in several parts", lambda task: task.kind == "multi"),
    ("English", lambda task: task.kind in WORK and task.lang == "en"),
    ("Spanish", lambda task: task.kind in WORK and task.lang == "es"),
    ("talk", lambda task: task.kind == "talk"),
    ("care", lambda task: task.kind == "care"),
)


def wilson(passed: int, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share (E. B. Wilson, JASA 22, 1927); (0, 1) for none."""
    if not count:
        return 0.0, 1.0
    share, square = passed / count, _Z * _Z / count
    middle = (share + square / 2) / (1 + square)
    half = _Z / (1 + square) * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def rows(chosen: Sequence[Task], results: Results) -> Iterator[tuple[str, ...]]:
    """Yield title, number of tasks, and per set-up the share passed with its interval."""
    for title, belongs in GROUPS:
        group = [task.id for task in chosen if belongs(task)]
        if group:
            yield title, str(len(group)), *(_cell(group, passed) for passed in results.values())


def _cell(group: Sequence[str], results: Mapping[str, Result]) -> str:
    count = sum(results[name].passed for name in group)
    low, high = wilson(count, len(group))
    return f"{count} = {100 * count / len(group):.0f} % ({100 * low:.0f}-{100 * high:.0f})"


def terminal(chosen: Sequence[Task], results: Results) -> str:
    """Return the table in columns."""
    head = ("passed (95 % interval)", "tasks", *results)
    lines = [head, *rows(chosen, results)]
    return "\n".join(f"{a:<24}{b:>6}" + "".join(f"{c:>22}" for c in cs) for a, b, *cs in lines)


def section(tasks: Sequence[Task], run: Published) -> str:
    """Return the section for the page: the table, and every task the product failed."""
    done = [task for task in tasks if task.id in run.results["kogniterm"]]
    lines = [
        f"- **Date:** {run.date}",
        f"- **Model:** `local:{run.model}`, temperature 0",
        f"- **File:** `{run.file}`, sha256 `{run.sha256[:16]}…`",
        f"- **Tasks:** {len(done)} of the table's {len(tasks)}, one run each",
        "- **In brackets:** the 95 % interval (Wilson)",
        "",
        f"| passed | tasks | {' | '.join(f'`{name}`' for name in run.results)} |",
        f"| --- | --- |{' --- |' * len(run.results)}",
    ]
    for title, *cells in rows(done, run.results):
        name = title.strip()
        shown = f"&emsp;{name}" if title.startswith(" ") else f"**{name}**"
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    lines += ["", "Tasks not solved:", "", "| request | what it ran |", "| --- | --- |"]
    for task in done:
        result = run.results["kogniterm"][task.id]
        if not result.passed:
            ran = "<br>".join(f"`{_escaped(c)}`" for c in result.commands) or "nothing"
            mark = " *(held out)*" if task.held_out else ""
            lines.append(f"| {_escaped(task.request)}{mark} | {ran} |")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def page(tasks: Sequence[Task], run: Published, file: Path = PAGE) -> str:
    """Return the text of the page with the section replaced."""
    before, mark, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"{file} lacks the marks of the section")
    return f"{before}{mark}\n{section(tasks, run)}\n{end}{after}"
