"""/jobs: what commands left running, and what can be done with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kogniterm.errors import UsageError
from kogniterm.types import Text
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.commands.shown import first_word
from kogniterm.ui.context import ReplContext

ACTIONS = ("stop", "keep", "output")


async def jobs(context: ReplContext, argument: str) -> None:
    """/jobs [stop|keep|output ID]."""
    word, name = first_word(argument)
    if not word:
        _list(context)
        return
    if word not in ACTIONS or not name:
        raise UsageError("/jobs can: stop ID, keep ID, output ID.")
    executor = context.session.executor
    if word == "stop":
        job = await asyncio.to_thread(executor.stop_job, name)
        context.say(Text("Stopped: {id}  {command}", {"id": job.id, "command": job.command}))
    elif word == "keep":
        executor.keep_job(name)
        context.say(Text("{id} goes on when KogniTerm ends.", {"id": name}))
    else:
        await _output(context, name)


def _list(context: ReplContext) -> None:
    running = context.session.executor.jobs()
    if not running:
        context.say(Text("No command is running in the background."))
    for job in running:
        state = Text("running") if job.state == "running" else Text("ended")
        values = {"id": job.id, "state": state, "command": job.command}
        context.say(Text("{id}  {state}  {command}", values))


async def _output(context: ReplContext, name: str) -> None:
    path = next((job.output_path for job in context.session.executor.jobs() if job.id == name), "")
    if path:
        await context.show_file(path)
        return
    raise UsageError("There is no job {job}.", job=name)


def _choices(context: ReplContext) -> Iterable[str]:
    found = context.session.executor.jobs()
    return [f"{word} {job.id}" for word in ACTIONS for job in found]


JOBS = (
    Command(
        "jobs",
        Text("list what commands left running; stop it, keep it, read it"),
        jobs,
        "[stop|keep|output ID]",
        choices=_choices,
    ),
)
