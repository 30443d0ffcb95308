"""`kogniterm run`: one task from start to exit status, with a person, a pipe or nobody there."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, get_args

from kogniterm.cli import task
from kogniterm.cli.options import (
    SESSION,
    add_options,
    flags_of,
    folder_of,
    session_wanted,
    settings_of,
)
from kogniterm.errors import EXIT_INTERRUPTED, UsageError
from kogniterm.paths import named
from kogniterm.types import Answer, Plan, PlanMode
from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from kogniterm.protocols import Approver, Terminal
    from kogniterm.runtime.asking import Ask
    from kogniterm.runtime.front import Recover
    from kogniterm.runtime.session import LiveSession

OUTPUTS = ("text", "json", "stream-json")


class Sink(Protocol):
    """A sink that also ends the task's output."""

    def __call__(self, event: object) -> None:
        """Take one event."""

    def finish(self, answer: Answer) -> None:
        """The task is over."""


@dataclass(frozen=True, slots=True)
class People:
    """Who watches, and who can be asked: `approver` (of a session) is None when nobody can.

    `recover` asks what becomes of a command that a crash cut off, `ask` what the model wants to
    know.
    """

    sink: Sink
    approver: Callable[[LiveSession], Approver] | None = None
    terminal: Terminal | None = None
    recover: Recover | None = None
    ask: Ask | None = None


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `run` with its options."""
    parser = subparsers.add_parser(
        "run",
        help=_("do one task and exit"),
        description=_(
            "Do one task and exit. Without a task, or with -, the task is read from standard "
            "input; with one, standard input is data for it."
        ),
        epilog=_(
            "Exit status: 0 done, 1 not done, 2 wrong use or settings, 3 an action was refused or "
            "needed a person, 4 a budget ran out, 5 the model failed, 130 interrupted."
        ),
    )
    parser.add_argument("task", nargs="*", metavar=_("TASK"), help=_("what is to be done"))
    parser.add_argument(
        "--output",
        choices=OUTPUTS,
        default="text",
        help=_("text for people, one JSON object at the end, or one JSON event a line"),
    )
    parser.add_argument(
        "--plan-only",
        action="store_true",
        help=_("make the plan, print it in the form --plan FILE takes, and stop"),
    )
    add_options(parser.add_argument_group(_("session options")), SESSION)


def run(args: argparse.Namespace) -> int:
    """Do the task; returns the exit status."""
    return with_people(args, partial(_do, args))


def with_people(args: argparse.Namespace, do: Callable[[People, Sink], int]) -> int:
    """Do something for whoever watches, with the output that `--output` asks for."""
    people = _people(args)
    if args.output == "text":
        return do(people, people.sink)
    machine = _json_sink(args.output)
    with _failure_told(machine):
        return do(people, Both(people.sink, machine))


@contextlib.contextmanager
def _failure_told(machine: Sink) -> Iterator[None]:
    """A task that breaks still ends its JSON output with a result; people are told elsewhere."""
    from kogniterm.cli.output import failure

    try:
        yield
    except BaseException as error:
        machine.finish(failure(error))
        raise


def _do(args: argparse.Namespace, people: People, sink: Sink) -> int:
    plan = _given_plan(args)
    words = args.task or ([plan.goal] if plan is not None else [])
    folder = folder_of(args)
    user_input = task.read_task(
        words,
        task.standard_input(),
        _tell_waiting,
        needed=session_wanted(args) is None,
        folder=folder,
    )
    settings = settings_of(args)
    from kogniterm.runtime.build import open_session, unattended_approver
    from kogniterm.runtime.events import Notice
    from kogniterm.runtime.plans import give

    session = open_session(settings, folder=folder, session_id=session_wanted(args))
    session.plans.only = args.plan_only
    try:
        if plan is not None:
            give(session, plan)
        for notice in session.notices:
            sink(Notice(notice, "warning"))
        if user_input is None and not (session.state.open_turn or session.state.unknown):
            raise UsageError("The last turn of this session is finished; say what to do next.")
        approver = people.approver(session) if people.approver else unattended_approver(settings)
        run = partial(
            session.run,
            user_input,
            approver=approver,
            terminal=people.terminal,
            recover=people.recover,
            ask=people.ask,
        )
        return asyncio.run(drive(session, run(sink=sink), sink))
    finally:
        session.close()


def _given_plan(args: argparse.Namespace) -> Plan | None:
    """The plan in the file that `--plan` names, unless it says when to plan.

    Raises `UsageError`.
    """
    value: str = getattr(args, "plan", "auto")
    if value in get_args(PlanMode):
        return None
    path = named("", value)
    if not path.is_file():
        raise UsageError(
            "--plan takes auto, always, never or the file of a plan; {value} is none of these.",
            value=value,
        )
    if args.plan_only:
        raise UsageError(
            "--plan-only makes a plan, and {value} is one; give only one of them.", value=value
        )
    from kogniterm.runtime.plans import read_plan

    del args.plan
    return read_plan(path)


async def drive(
    session: LiveSession, running: Coroutine[object, object, Answer], sink: Sink
) -> int:
    """Run the turn; INT, TERM and HUP stop it cleanly, and the status says which one did.

    What commands left running ends with the task or stays, and is told with the answer. The answer
    is out before the session finishes what it does off the answer's path.
    """
    from kogniterm.runtime.events import JobsLeft

    turn = asyncio.ensure_future(running)
    received: list[int] = []
    with _stop_on_signals(turn, received):
        try:
            answer = await turn
        except asyncio.CancelledError:
            answer = Answer("", "interrupted", EXIT_INTERRUPTED)
        left = await asyncio.to_thread(session.end_jobs)
    if left:
        sink(JobsLeft(left))
    sink.finish(answer)
    await session.finish()
    return 128 + received[0] if received else answer.exit_code


@contextlib.contextmanager
def _stop_on_signals(turn: asyncio.Future[Answer], received: list[int]) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        received.append(number)
        turn.cancel()

    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


class Both:
    """The same events to two sinks, the first one first."""

    def __init__(self, first: Sink, second: Sink) -> None:
        self._sinks = (first, second)

    def __call__(self, event: object) -> None:
        """Pass one event on."""
        for sink in self._sinks:
            sink(event)

    def finish(self, answer: Answer) -> None:
        """End both."""
        for sink in self._sinks:
            sink.finish(answer)


def _people(args: argparse.Namespace) -> People:
    """The sink for people: drawn on a terminal, plain lines elsewhere.

    The answer goes to standard output in text mode; everything else to standard error.
    """
    out = sys.stdout if args.output == "text" else None
    keys = task.keyboard() if sys.stderr.isatty() else None
    if keys is not None:
        from kogniterm.cli.person import PersonSink
        from kogniterm.settings import environment, quick

        on_screen = out is not None and out.isatty()
        first = quick(environment(), flags_of(args))
        screen = None if on_screen else out
        person = PersonSink(first, sys.stderr, screen, keys, folder_of(args))
        return People(person, person.approver, person.terminal(), person.recover, person.ask)
    from kogniterm.cli.plain import TextSink

    return People(TextSink(out, sys.stderr))


def _json_sink(output: str) -> Sink:
    from kogniterm.cli.output import JsonSink, StreamJsonSink
    from kogniterm.text.redact import redact

    return (JsonSink if output == "json" else StreamJsonSink)(sys.stdout, redact)


def _tell_waiting() -> None:
    sys.stderr.write(
        _("kogniterm: waiting for data on standard input (use </dev/null if there is none)") + "\n"
    )
    sys.stderr.flush()
