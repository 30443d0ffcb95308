"""Tasks for the queue: from the command line, from a file with one a line, or of a recipe."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from kogniterm.addons.fleet.queue_values import NewTask
from kogniterm.cli.options import SESSION, CallOptions
from kogniterm.cli.run import MAX_DATA, MAX_TASK, read_task, standard_input
from kogniterm.errors import SettingsError, UsageError
from kogniterm.installed import part
from kogniterm.paths import SessionId
from kogniterm.runtime.operations.stored_data import read_lines
from kogniterm.settings.user_files import json_values
from kogniterm.storage.folders import expand_path
from kogniterm.types import Phrase

DEFAULT_QUEUE = "default"
_KEYS = {"task", "id", "folder", "workspace", "data", "queue", "priority", "at"}
_AFTER = re.compile(r"\+(\d+)\s*(s|m|min|h|d)")
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}|host:[^\s,=]{1,255}")


class TaskRequest(NamedTuple):
    """A call of `queue add`: what to do, and where, when and how often."""

    call: CallOptions
    task: Sequence[str]
    file: str | None
    recipe: str | None
    items: str | None
    workspace: str | None
    here: bool
    task_id: str | None
    queue: str
    batch: str | None
    at: str | None
    priority: int
    tries: int


def new_tasks(request: TaskRequest) -> list[NewTask]:
    """Return the tasks to add. Raises `UsageError`."""
    if request.call.resume is not None:
        raise UsageError("A task has a session of its own; use --id to choose its ID.")
    if request.here and request.queue != DEFAULT_QUEUE:
        raise UsageError("{option} cannot be combined with {other}.", option="--here",
                         other="--queue")  # fmt: skip
    if request.items is not None and request.recipe is None:
        raise UsageError("--items needs --recipe: each item is the inputs of a recipe.")
    if request.recipe is not None:
        return _of_recipe(request, request.recipe)
    if request.file is None:
        given = read_task(request.task, standard_input(), lambda: None)
        assert given is not None
        batch = _name(request.batch, "--batch") if request.batch else ""
        return [_task(request, given.text, given.data, id=request.task_id, batch=batch)]
    if request.task or request.task_id:
        other = "--id" if request.task_id else "TASK"
        raise UsageError("{option} cannot be combined with {other}.", option="--file", other=other)
    batch = _batch(request)
    lines = _lines(request.file)
    tasks = [_of_line(request, request.file, batch, number, line) for number, line in lines]
    seen: set[str] = set()
    for (number, _line), task in zip(lines, tasks, strict=True):
        if task.id in seen:
            raise _wrong(
                request.file, number, Phrase("the ID {id} is there already", {"id": task.id})
            )
        seen.add(task.id)
    return tasks


def _lines(file: str) -> list[tuple[int, str]]:
    """Return the lines of a file that are not empty, with their numbers. Raises `UsageError`."""
    lines = [(number, line) for number, line in enumerate(read_lines(file), 1) if line.strip()]
    if not lines:
        raise UsageError("{file} has no task.", file=file)
    return lines


def _batch(request: TaskRequest) -> str:
    return _name(request.batch, "--batch") if request.batch else SessionId.new()


def _task(request: TaskRequest, text: str, data: str | None, **given: Any) -> NewTask:
    """Return a task as the options say, and `given`: what its line says. Raises `UsageError`."""
    task_id = SessionId(given["id"]) if given.get("id") else SessionId.new()
    at = given.get("at") or request.at
    folder, workspace = _place(request, task_id, given.get("folder"), given.get("workspace"))
    return NewTask(
        task_id,
        text,
        folder,
        data,
        run_options(request.call),
        _queue(request, given.get("queue")),
        given.get("batch", ""),
        given.get("priority", request.priority),
        moment(at) if at else 0.0,
        request.tries,
        workspace,
        given.get("recipe", ""),
    )


def _queue(request: TaskRequest, name: str | None) -> str:
    if name is None and request.here:
        from kogniterm.addons.fleet.worker_loop import host_queue
        from kogniterm.host.identity import this_process

        return host_queue(this_process().host)
    return _name(name or request.queue, "--queue")


def _of_recipe(request: TaskRequest, name: str) -> list[NewTask]:
    """Return a task for each item, or one with the inputs on the command line."""
    if request.file is not None:
        raise UsageError("{option} cannot be combined with {other}.", option="--file",
                         other="--recipe")  # fmt: skip
    recipe = part("TASKS", "recipe")(name, request.task)

    def task(item: Mapping[str, Any], **given: Any) -> NewTask:
        values = recipe.inputs(item)
        shown = " ".join(f"{name}={value}" for name, value in values.items())
        title = f"{recipe.name} {shown}".strip()[:MAX_TASK]
        return _task(request, title, json.dumps(values), recipe=recipe.text, **given)

    if request.items is None:
        batch = _name(request.batch, "--batch") if request.batch else ""
        return [task({}, id=request.task_id, batch=batch)]
    if request.task_id:
        raise UsageError("{option} cannot be combined with {other}.", option="--items",
                         other="--id")  # fmt: skip
    batch, tasks = _batch(request), []
    for number, line in _lines(request.items):
        item = _json_of(request.items, number, line)
        if not isinstance(item, dict):
            raise _wrong(request.items, number, Phrase("it is no object of inputs"))
        try:
            tasks.append(task(item, batch=batch))
        except UsageError as error:
            raise _wrong(request.items, number, error.text) from error
    return tasks


def _json_of(file: str, number: int, line: str) -> Any:
    try:
        return json_values(file, line, mapping=False).data
    except SettingsError as error:
        raise _wrong(file, number, Phrase("it is no JSON")) from error


def _of_line(request: TaskRequest, file: str, batch: str, number: int, line: str) -> NewTask:
    found = _json_of(file, number, line)
    try:
        given = _check_line({"task": found} if isinstance(found, str) else found)
        text, data = given.pop("task").strip(), given.pop("data", None)
        return _task(request, text, data, batch=batch, **given)
    except UsageError as error:
        raise _wrong(file, number, error.text) from error


def _check_line(line: Any) -> dict[str, Any]:
    """Return what a line says, checked as far as it can be alone. Raises `UsageError`."""
    if not isinstance(line, dict):
        raise UsageError("it is neither an object nor a string")
    unknown = sorted(set(line) - _KEYS)
    if unknown:
        keys = ", ".join(sorted(_KEYS))
        raise UsageError("unknown key {key}; use {keys}", key=unknown[0], keys=keys)
    found: dict[str, Any] = {key: value for key, value in line.items() if value is not None}
    for key in sorted(set(found) - {"priority"}):
        if not isinstance(found[key], str):
            raise UsageError("{key} is no text", key=key)
    if not found.get("task", "").strip() or len(found["task"]) > MAX_TASK:
        raise UsageError("task needs 1 to {most} characters", most=MAX_TASK)
    if len(found.get("data", "")) > MAX_DATA:
        raise UsageError("data has more than {most} characters", most=MAX_DATA)
    priority = found.get("priority", 0)
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise UsageError("priority is no whole number")
    return found


def _place(
    request: TaskRequest, task_id: str, folder: str | None, workspace: str | None
) -> tuple[str, str]:
    """Return the folder of a task, and the repository of which it gets a checkout, if any.

    Raises `UsageError`.
    """
    from kogniterm.addons.fleet.checkouts import PLACE, repository_of

    here = request.call.folder()
    if folder is not None:
        return _existing(here, folder), ""
    workspace = workspace or request.workspace
    if workspace is None:
        return here, ""
    if request.call.cwd:
        raise UsageError("{option} cannot be combined with {other}.", option="--workspace",
                         other="--cwd")  # fmt: skip
    if workspace.startswith((".", "~")):
        workspace = str(expand_path(here, workspace))
    repository = repository_of(workspace)
    if repository is not None:
        return f"{PLACE}{task_id}", f"{repository.address}@{repository.ref}"
    if workspace.startswith("/"):
        return workspace, ""  # shared with the workers, and perhaps not with this machine
    return _existing(here, workspace), ""


def _existing(here: str, name: str) -> str:
    folder = expand_path(here, name)
    if not folder.is_dir():
        raise UsageError("{folder} is not a folder.", folder=folder)
    return str(folder)


def _wrong(file: str, number: int, why: Phrase) -> UsageError:
    why = Phrase(why.template.removesuffix("."), why.values)
    return UsageError(
        "{file}:{number}: {why}. Nothing was added.", file=Path(file), number=number, why=why
    )


def _name(value: str, option: str) -> str:
    if not _NAME.fullmatch(value):
        raise UsageError(
            "{option} is {value}; use letters, digits, dots, - and _.", option=option, value=value
        )
    return value


def run_options(call: CallOptions) -> tuple[str, ...]:
    """Return the session options that were given, as words for `kogniterm run`."""
    words: list[str] = []
    for field, value in call.settings.items():
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
