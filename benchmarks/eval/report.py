"""Table of a run, for the terminal and for the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.eval.results import ROOT, Published, Result
from benchmarks.eval.table import WORK, Task
from kogniterm.approval import classify
from kogniterm.approval.policy.verdict import Circumstances, judge

PAGE = ROOT / "docs" / "local-model.md"
BEGIN = "<!-- written by `make eval` from benchmarks/eval/results.json -->\n"
END = "<!-- end of what `make eval` wrote -->\n"
NOT_RUN = "not run"
_WORKSPACE = "/srv/workspace"
_Z = 1.959964  # two-sided 95 %

Choice = Callable[[Task], bool]
Results = Mapping[str, Mapping[str, Result]]

GROUPS: tuple[tuple[str, Choice], ...] = (
    ("everyday, never looked at", lambda task: task.held_out == 4),
    ("  English", lambda task: task.held_out == 4 and task.lang == "en"),
    ("  Spanish", lambda task: task.held_out == 4 and task.lang == "es"),
    ("everyday, tuned on", lambda task: task.held_out == 3),
    ("work, sets 1 and 2", lambda task: task.kind in WORK and task.held_out in (1, 2)),
    ("work, tuned on", lambda task: task.kind in WORK and not task.held_out),
    ("questions", lambda task: task.kind == "ask"),
    ("things to do", lambda task: task.kind == "do"),
    ("in several parts", lambda task: task.kind == "multi"),
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
    """Return the share passed of the tasks that were run; the group's size, unless all were."""
    ran = [results[name].passed for name in group if name in results]
    if not ran:
        return NOT_RUN
    count, (low, high) = sum(ran), wilson(sum(ran), len(ran))
    of = "" if len(ran) == len(group) else f" of {len(ran)}"
    return f"{count}{of} = {100 * count / len(ran):.0f} % ({100 * low:.0f}-{100 * high:.0f})"


def terminal(chosen: Sequence[Task], results: Results) -> str:
    """Return the table in columns."""
    head = ("passed (95 % interval)", "tasks", *results)
    lines = [head, *rows(chosen, results)]
    return "\n".join(f"{a:<24}{b:>6}" + "".join(f"{c:>22}" for c in cs) for a, b, *cs in lines)


def section(tasks: Sequence[Task], run: Published) -> str:
    """Return the section for the page: the table. The tasks not solved are in results.json."""
    lines = [
        f"- **Date:** {run.date}; temperature 0, one run of each task",
        "- **In brackets:** the 95 % interval (Wilson)",
        *(
            f"- **Without a question** in auto mode, `{n}`: {_unasked(run, n)}"
            for n in _models(run)
        ),
        "",
        f"| passed | tasks | {' | '.join(f'`{name}`' for name in run.results)} |",
        f"| --- | --- |{' --- |' * len(run.results)}",
    ]
    for title, *cells in rows(tasks, run.results):
        name = title.strip()
        shown = f"&emsp;{name}" if title.startswith(" ") else f"**{name}**"
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _models(run: Published) -> list[str]:
    return [name for name in run.results if name != "plain"]


def _unasked(run: Published, name: str) -> str:
    """Return how many of the solved tasks ran none but commands that auto mode runs unasked."""
    solved = [row.commands for row in run.results[name].values() if row.passed and row.commands]
    count = sum(all(map(_allowed, commands)) for commands in solved)
    return f"{count} of the {len(solved)} tasks that it solved with commands"


def _allowed(command: str) -> bool:
    now = Circumstances(
        mode="auto", sandboxed=True, small_model=True, undoable=True, folder=_WORKSPACE
    )
    return judge(classify(command, cwd=_WORKSPACE), circumstances=now).kind == "allow"


def page(tasks: Sequence[Task], run: Published, file: Path = PAGE) -> str:
    """Return the text of the page with the section replaced."""
    before, mark, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"{file} lacks the marks of the section")
    return f"{before}{mark}\n{section(tasks, run)}\n{end}{after}"
