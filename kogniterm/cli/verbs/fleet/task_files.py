"""Tasks for the queue, from the command line or from a file with one in JSON a line."""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from kogniterm.cli.options import SESSION, flags_of, folder_of, session_wanted
from kogniterm.cli.run import MAX_DATA, MAX_TASK, read_task, standard_input
from kogniterm.errors import UsageError
from kogniterm.runtime.unattended.named_session import session_id
from kogniterm.runtime.use_cases.stored_data import read_lines
from kogniterm.sessions.store import new_id
from kogniterm.storage.folders import named
from kogniterm.types.queue_values import BatchBudget, NewTask

Number = TypeVar("Number", int, float)
_KEYS = {"task", "id", "folder", "data", "queue", "priority", "at"}
_AFTER = re.compile(r"\+(\d+)\s*(s|m|min|h|d)")
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def new_tasks(args: argparse.Namespace) -> list[NewTask]:
    """Return the tasks to add. Raises `UsageError`."""
    if session_wanted(args) is not None:
        raise UsageError("A task has a session of its own; use --id to choose its ID.")
    if args.file is None:
        return [_one(args)]
    if args.task or args.task_id:
        other = "--id" if args.task_id else "TASK"
        raise UsageError("{option} cannot be combined with {other}.", option="--file", other=other)
    batch = _name(args.batch, "--batch") if args.batch else new_id()
    lines = [(number, line) for number, line in enumerate(read_lines(args.file), 1) if line.strip()]
    if not lines:
        raise UsageError("{file} has no task.", file=args.file)
    tasks = [_of_line(args, batch, number, line) for number, line in lines]
    seen: set[str] = set()
    for (number, _line), task in zip(lines, tasks, strict=True):
        if task.id in seen:
            raise _wrong(args.file, number, f"the ID {task.id} is there already")
        seen.add(task.id)
    return tasks


def _one(args: argparse.Namespace) -> NewTask:
    given = read_task(args.task, standard_input(), lambda: None)
    assert given is not None
    return NewTask(
        session_id(args.task_id) if args.task_id else new_id(),
        given.text,
        folder_of(args),
        given.data,
        run_options(args),
        _name(args.queue, "--queue"),
        _name(args.batch, "--batch") if args.batch else "",
        args.priority,
        moment(args.at) if args.at else 0.0,
        args.tries,
    )


def _of_line(args: argparse.Namespace, batch: str, number: int, line: str) -> NewTask:
    try:
        found: Any = json.loads(line)
    except ValueError as error:
        raise _wrong(args.file, number, "it is no JSON") from error
    if isinstance(found, str):
        found = {"task": found}
    if not isinstance(found, dict):
        raise _wrong(args.file, number, "it is neither an object nor a string")
    unknown = sorted(set(found) - _KEYS)
    if unknown:
        raise _wrong(args.file, number, f"unknown key {unknown[0]}; use {', '.join(sorted(_KEYS))}")
    texts = {key: found[key] for key in _KEYS - {"priority"} if found.get(key) is not None}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise _wrong(args.file, number, f"{key} is no text")
    text = texts.get("task", "").strip()
    if not text or len(text) > MAX_TASK:
        raise _wrong(args.file, number, f"task needs 1 to {MAX_TASK} characters")
    if len(texts.get("data", "")) > MAX_DATA:
        raise _wrong(args.file, number, f"data has more than {MAX_DATA} characters")
    priority = found.get("priority", args.priority)
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise _wrong(args.file, number, "priority is no whole number")
    try:
        at = texts.get("at") or args.at
        return NewTask(
            session_id(texts["id"]) if "id" in texts else new_id(),
            text,
            _folder(args, texts.get("folder")),
            texts.get("data"),
            run_options(args),
            _name(texts.get("queue") or args.queue, "queue"),
            batch,
            priority,
            moment(at) if at else 0.0,
            args.tries,
        )
    except UsageError as error:
        raise _wrong(args.file, number, str(error).rstrip(".")) from error


def budget_of(args: argparse.Namespace) -> BatchBudget | None:
    """Return the budget that the options give to the batch. Raises `UsageError`."""
    cost, tokens = args.batch_max_cost, args.batch_max_tokens
    if cost is None and tokens is None:
        return None
    if args.file is None and not args.batch:
        raise UsageError("A budget of a batch needs --batch, its name.")
    return BatchBudget(
        _positive("--batch-max-cost", cost, float), _positive("--batch-max-tokens", tokens, int)
    )


def _positive(option: str, text: str | None, read: Callable[[str], Number]) -> Number | None:
    """Return the number that an option gives, if any. Raises `UsageError`."""
    if text is None:
        return None
    try:
        if 0 < (number := read(text)) < math.inf:
            return number
    except ValueError:
        pass
    raise UsageError(
        "{option} needs a number greater than 0, not {value}.", option=option, value=text
    )


def _folder(args: argparse.Namespace, name: str | None) -> str:
    here = folder_of(args)
    if name is None:
        return here
    folder = named(here, name)
    if not folder.is_dir():
        raise UsageError("{folder} is not a folder.", folder=folder)
    return str(folder)


def _wrong(file: str, number: int, why: str) -> UsageError:
    return UsageError(
        "{file}:{number}: {why}. Nothing was added.", file=Path(file), number=number, why=why
    )


def _name(value: str, option: str) -> str:
    if not _NAME.fullmatch(value):
        raise UsageError(
            "{option} is {value}; use letters, digits, dots, - and _.", option=option, value=value
        )
    return value


def run_options(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the session options that were given, as words for `kogniterm run`."""
    words: list[str] = []
    for field, value in flags_of(args).items():
        options = [one for one in SESSION if one.field == field]
        switch = [one for one in options if not one.takes_value and (one.const or True) == value]
        valued = [one for one in options if one.takes_value]
        words += [switch[0].name] if switch else [valued[0].name, str(value)] if valued else []
    return tuple(words)


def moment(text: str, now: float | None = None) -> float:
    """Return a time in seconds since the epoch: 18:30, an ISO time, or +2h.

    A time of day is the next one. Raises `UsageError`.
    """
    now = time.time() if now is None else now
    after = _AFTER.fullmatch(text.strip())
    if after is not None:
        return now + int(after[1]) * _UNITS[after[2]]
    here = datetime.fromtimestamp(now).astimezone()
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}", text):
            hour, minute = map(int, text.split(":"))
            today = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return (today if today > here else today + timedelta(days=1)).timestamp()
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.astimezone()).timestamp()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            "{value} is no time; write 18:30, 2026-12-24T06:00 or +2h.", value=text
        ) from error


def queue_names(text: str) -> Sequence[str]:
    """Return the names in a list with commas. Raises `UsageError`."""
    found = [_name(name.strip(), "--queues") for name in text.split(",") if name.strip()]
    if not found:
        raise UsageError("Name at least one queue.")
    return list(dict.fromkeys(found))
