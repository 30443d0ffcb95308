"""Budgets of batches: what the tasks of one may cost together, however many workers do them.

A task starts only when what the others have spent, what those that run may still spend, and its own
limit fit into the budget. So the budget holds without a word between workers: each reserves in one
transaction, which waits for the row of the batch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kogniterm.errors import EXIT_BUDGET, UsageError
from kogniterm.models.catalog import cost_of
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.types import Phrase, Usage
from kogniterm.types.queue_values import BatchBudget, NewTask, QueuedTask, TaskEnd

LIMITS = {"cost": ("--max-cost", "--max-session-cost"), "tokens": ("--max-tokens",
          "--max-session-tokens")}  # fmt: skip
"""The options of a task by which it is limited, in a turn and in its whole session."""
AGAIN = 5.0
"""Seconds until a task is tried again for which other tasks hold the rest of the budget."""

Room = Literal["room", "later"]


@dataclass(frozen=True, slots=True)
class BatchBudgets:
    """The budgets in the database of the tasks."""

    database: Database

    def set(self, batch: str, budget: BatchBudget) -> None:
        """Give a batch a budget, in place of what it had."""
        values = (budget.cost, budget.tokens, batch)
        changed = self.database.run(
            "UPDATE queue_batches SET max_cost = ?, max_tokens = ? WHERE name = ?", values
        )
        if not changed:
            self.database.execute(
                "INSERT INTO queue_batches (max_cost, max_tokens, name) VALUES (?, ?, ?)", values
            )

    def of(self, batch: str) -> BatchBudget:
        """Return the budget of a batch."""
        found = self.database.one(
            "SELECT max_cost, max_tokens FROM queue_batches WHERE name = ?", (batch,)
        )
        return BatchBudget() if found is None else BatchBudget(*found)

    def reserve(self, task: QueuedTask) -> Room | Phrase:
        """Reserve what a claimed task may spend.

        `later` means that the rest is reserved by tasks that run; a sentence says why the task can
        never start.
        """
        if not task.task.batch:
            return "room"
        with self.database.transaction():
            # Of two workers, the second one waits here until the first one has reserved.
            locked = self.database.run(
                "UPDATE queue_batches SET checks = checks + 1 WHERE name = ?", (task.task.batch,)
            )
            return self._reserve(task, self.of(task.task.batch)) if locked else "room"

    def _reserve(self, task: QueuedTask, budget: BatchBudget) -> Room | Phrase:
        row = self.database.one(
            "SELECT coalesce(sum(CASE WHEN state <> 'running' THEN cost END), 0), "
            "coalesce(sum(CASE WHEN state <> 'running' THEN tokens END), 0), "
            "coalesce(sum(CASE WHEN state = 'running' THEN reserved_cost END), 0), "
            "coalesce(sum(CASE WHEN state = 'running' THEN reserved_tokens END), 0) "
            "FROM queue_tasks WHERE batch = ? AND id <> ?",
            (task.task.batch, task.id),
        )
        spent_cost, spent_tokens, held_cost, held_tokens = row or (0, 0, 0, 0)
        cost, tokens = own_limit(task.task, "cost") or 0, own_limit(task.task, "tokens") or 0
        later = False
        for name, most, spent, held, own in (
            ("cost", budget.cost, float(spent_cost), float(held_cost), cost),
            ("tokens", budget.tokens, int(spent_tokens), int(held_tokens), tokens),
        ):
            if most is None:
                continue
            if spent + own > most + 1e-9:
                return _used_up(name, task.task.batch, most, spent, own)
            later = later or spent + held + own > most + 1e-9
        if later:
            return "later"
        self.database.run(
            "UPDATE queue_tasks SET reserved_cost = ?, reserved_tokens = ? WHERE id = ?",
            (cost, int(tokens), task.id),
        )
        return "room"


def _used_up(name: str, batch: str, most: float, spent: float, own: float) -> Phrase:
    if name == "tokens":
        return Phrase(
            "The budget of batch {batch} does not suffice: {spent} of {most} tokens are used, and "
            "this task may take {own}.",
            {"batch": batch, "spent": int(spent), "most": int(most), "own": int(own)},
        )
    return Phrase(
        "The budget of batch {batch} does not suffice: ${spent} of ${most} are spent, and this "
        "task may cost ${own}.",
        {"batch": batch, "spent": f"{spent:.2f}", "most": f"{most:.2f}", "own": f"{own:.2f}"},
    )


def out_of_budget(why: Room | Phrase) -> TaskEnd:
    """Return the end of a claim of a task for which there is no room in the budget."""
    if isinstance(why, Phrase):
        return TaskEnd("failed", "budget", EXIT_BUDGET, why)
    waits = Phrase("It waits for the budget of its batch, which other tasks hold while they run.")
    return TaskEnd("queued", due=time.time() + AGAIN, reason=waits)


def own_limit(task: NewTask, kind: str) -> float | None:
    """Return what a task may spend at most in its session, of `cost` or `tokens`, if anything."""
    words = task.options
    found = [float(words[at + 1]) for at, word in enumerate(words[:-1]) if word in LIMITS[kind]]
    return min(found) if found else None


def within_budget(tasks: Sequence[NewTask], budget: BatchBudget) -> list[NewTask]:
    """Return the tasks of a batch with a budget, each limited in its whole session.

    Raises `UsageError` for one without a limit: what it may spend could not be reserved.
    """
    for kind, most in (("cost", budget.cost), ("tokens", budget.tokens)):
        if most is not None:
            tasks = [_limited(task, kind, most) for task in tasks]
    return list(tasks)


def _limited(task: NewTask, kind: str, most: float) -> NewTask:
    of_turn, of_session = LIMITS[kind]
    own = own_limit(task, kind)
    if own is None:
        raise UsageError(
            "A batch with a budget needs {option} for its tasks: as much is reserved while one "
            "runs.",
            option=of_turn,
        )
    if own > most:
        raise UsageError(
            "{option} is {own:g}, more than the budget of the batch, {most:g}.",
            option=of_turn,
            own=own,
            most=most,
        )
    if of_session in task.options:
        return task
    return replace(task, options=(*task.options, of_session, f"{own:g}"))


def with_spent(end: TaskEnd, store: SessionStore, task_id: str) -> TaskEnd:
    """Return the end of a start with what the whole session has used, also in starts before.

    A process that was killed could not report it; the journal has it. Models without a known price
    count as nothing.
    """
    info = store.info(task_id)
    if info is None:
        return end
    state, _damaged = load_state(store.database, task_id)
    others = sum(state.others_usage.values(), Usage())
    costs = [cost_of(info.model, state.usage - others)]
    costs += [cost_of(name, usage) for name, usage in state.others_usage.items()]
    known = [one for one in costs if one is not None]
    return replace(
        end,
        tokens=state.usage.input + state.usage.output,
        cost=sum(known) if known else end.cost,
    )
