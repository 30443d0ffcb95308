"""`kogniterm run`: one task from start to exit status, with a user, a pipe or nobody there.

A user at the terminal never has to wait for standard input; a pipe is read to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, TypeVar, get_args

from kogniterm.cli.options import TASK, CallOptions, Example, RunRequest, Subparsers, add_verb
from kogniterm.errors import EXIT_INTERRUPTED, UsageError, why
from kogniterm.host.terminal_owner import user_job
from kogniterm.runtime.inputs.called_input import fill_prompt, resolve_input
from kogniterm.runtime.named_files import mentions
from kogniterm.runtime.operations.action import Argument
from kogniterm.storage.folders import expand_path
from kogniterm.types import Answer, Plan, PlanMode, UserInput
from kogniterm.types.events import Event
from kogniterm.ui.locale import _, mark, translate
from kogniterm.ui.words.turn_words import EXIT_STATUS

if TYPE_CHECKING:
    from kogniterm.protocols import Approver, Terminal
    from kogniterm.runtime.session import LiveSession
    from kogniterm.runtime.turn_ports import Ask, Recover
    from kogniterm.runtime.user_secrets import AskSecret
    from kogniterm.sessions.history import PastTurn

T = TypeVar("T")

OUTPUT = Argument(
    "--output",
    "Output: text, json (one object at the end) or stream-json (one event a line)",
    "FORMAT",
    choices=("text", "json", "stream-json"),
    default="text",
)
SESSION_ID = Argument(
    "--session", "ID of the session; without one of that ID, it is created", "ID",
    field="session_id",
)  # fmt: skip
PARK = Argument(
    "--park", "At a question, save it and exit; kogniterm queue answer answers it later"
)
NOTE = Argument("--note", "Tell the model with its next call, also where a turn goes on", "TEXT")
SECRET = Argument(
    "--secret", "Give commands the variable NAME of your environment as a secret; NAME=fd:N reads "
    "descriptor N", "NAME", "secrets", many=True,
)  # fmt: skip
ALLOW_SECRET = Argument(
    "--allow-secret", "Let PROGRAM get this secret where no user is there to ask", "NAME:PROGRAM",
    "allowed_secrets", many=True,
)  # fmt: skip
PLAN_ONLY = Argument("--plan-only", "Print a plan for --plan FILE, and do nothing")

EXAMPLES = (
    Example('kogniterm run "why does the build fail?"'),
    Example('git diff | kogniterm run "review this"', "Data from a pipe"),
    Example('kogniterm run --allow-reads "find large files"', "Ask less"),
    Example('kogniterm run -y --max-cost 0.50 "fix the lint errors"', "Do not ask"),
    Example('kogniterm run --output json "count the TODOs"', "For scripts"),
    Example('kogniterm run --plan-only "upgrade the site" > plan.yaml', "Plan first"),
    Example("kogniterm run --plan plan.yaml", "Run that plan"),
    Example('kogniterm run --session report-7 "write the report"', "Can be repeated safely"),
)


class Sink(Protocol):
    """A sink that also begins and ends the task's output."""

    def begin(self, session_id: str, model: str, folder: str) -> None:
        """Take the session that the task runs in; a turn that goes on does not report it."""

    def __call__(self, event: Event) -> None:
        """Take one event."""

    def finish(self, answer: Answer) -> None:
        """End the output of the task."""


class RunFront(NamedTuple):
    """The screen of a run and its questions; `approver` (of a session) is None without a user.

    `recover` asks what becomes of a command that a crash cut off, `ask` what the model wants to
    know, `ask_secret` the value of a secret. `close` leaves the terminal as it was, however the
    task ended.
    """

    sink: Sink
    approver: Callable[[LiveSession], Approver] | None = None
    terminal: Terminal | None = None
    recover: Recover | None = None
    ask: Ask | None = None
    ask_secret: AskSecret | None = None
    close: Callable[[], None] = lambda: None


def add_parser(subparsers: Subparsers) -> None:
    """Add `run` with its options."""
    add_verb(
        subparsers,
        "run",
        [
            Argument(TASK, "What to do", "TASK", nargs="*"),
            OUTPUT,
            SESSION_ID,
            PARK,
            NOTE,
            SECRET,
            ALLOW_SECRET,
            PLAN_ONLY,
        ],
        description=mark(
            "Do one task and exit. With a task, standard input is data for it; without one, or "
            "with -, standard input is the task."
        ),
        examples=EXAMPLES,
        epilog=EXIT_STATUS.template,
        session_options=True,
    )


def run(call: CallOptions, **given: Any) -> int:
    """Do the task; returns the exit status."""
    request = RunRequest(call, **given)
    return with_front(request, partial(do_task, request))


def with_front(request: RunRequest, do: Callable[[RunFront, Sink], int]) -> int:
    """Do something for whoever watches, with the output that `--output` asks for.

    A task that breaks still ends its JSON output with a result.
    """
    front = _front(request)
    try:
        return _with_output(request.output, front, do)
    finally:
        front.close()


def _with_output(output: str, front: RunFront, do: Callable[[RunFront, Sink], int]) -> int:
    if output == "text":
        return do(front, front.sink)
    from kogniterm.cli.json_output import JsonSink, StreamJsonSink, failure
    from kogniterm.text.redact import redact

    machine = (JsonSink if output == "json" else StreamJsonSink)(sys.stdout, redact)
    try:
        return do(front, Both(front.sink, machine))
    except BaseException as error:
        machine.finish(failure(error))
        raise


def _own_commands() -> Collection[str]:
    from kogniterm.ui.commands.command_table import COMMANDS
    from kogniterm.ui.slash_commands import names_of

    return names_of(COMMANDS)


def do_task(
    request: RunRequest,
    front: RunFront,
    sink: Sink,
    prepare: Callable[[UserInput], UserInput] = lambda user_input: user_input,
    opened: Callable[[LiveSession], None] = lambda session: None,
) -> int:
    """Do the task, or continue it.

    `prepare` may add to a new task what belongs to it, and `opened` to the session.
    """
    named_id, wanted = request.named_session, request.call.resume
    environ, secrets, allowed = _given_secrets(request)
    plan, call = _given_plan(request)
    words = request.task or ([plan.goal] if plan is not None else [])
    folder = call.folder()
    settings = call.load_settings()
    user_input = read_task(
        words,
        standard_input(),
        _tell_waiting,
        needed=wanted is None,
        folder=folder,
        seconds=settings.max_seconds,
    )
    from kogniterm.runtime.build import open_session
    from kogniterm.types.events import Notice

    create = named_id is not None
    session = open_session(
        settings, folder=folder, session_id=named_id or wanted, create=create, environ=environ
    )
    session.modes.plans.only = request.plan_only
    try:
        opened(session)
        for name, value in secrets.items():
            session.journal.given.give(value, name)
        for name, program in allowed:
            session.journal.given.allow(name, program)
        if plan is not None:
            from kogniterm.runtime.session_plans import give_plan

            give_plan(session.context, plan)
        for notice in session.notices:
            sink(Notice(notice, "warning"))
        if user_input is None and not (session.state.open_turn or session.state.unknown):
            raise UsageError("The last turn of this session is finished; give the next task.")
        if user_input is not None and not (not request.task or request.task == ["-"]):
            user_input = asyncio.run(_fill_prompt(session, user_input))
            user_input = resolve_input(session, user_input, _own_commands)
        if user_input is not None:
            user_input = prepare(user_input)
        if create and user_input is not None:
            user_input, ended = _unless_given(session, user_input)
            if ended is not None:
                return asyncio.run(drive(session, _again(session, ended, sink), sink))
        return _drive_turn(request, session, user_input, front, sink)
    finally:
        session.close()


async def _fill_prompt(session: LiveSession, given: UserInput) -> UserInput:
    """Return the input with a server's prompt filled in; the turn's own loop starts it again."""
    try:
        return await fill_prompt(session, given)
    finally:
        await session.extensions.servers.close()


def _drive_turn(
    request: RunRequest,
    session: LiveSession,
    user_input: UserInput | None,
    front: RunFront,
    sink: Sink,
) -> int:
    if request.note:
        session.steer(request.note)
    if request.park:
        from kogniterm.runtime.unattended.parked_turn import Parking

        parking = Parking(session)
        running = session.run(
            user_input,
            approver=parking,
            sink=sink,
            recover=parking.recover,
            at_prompt=True,  # a user answers, only later
            park=parking.ask,
        )
        return asyncio.run(drive(session, running, sink, lambda: parking.answer))
    from kogniterm.approval import Unattended

    running = session.run(
        user_input,
        approver=front.approver(session) if front.approver else Unattended(),
        sink=sink,
        terminal=front.terminal,
        recover=front.recover,
        ask=front.ask,
        ask_secret=front.ask_secret,
    )
    return asyncio.run(drive(session, running, sink))


def _given_secrets(
    request: RunRequest,
) -> tuple[Mapping[str, str], Mapping[str, str], Sequence[tuple[str, str]]]:
    """Return the environment without the secrets that options give, these, and their grants.

    Raises `UsageError`.
    """
    from kogniterm.settings import environment

    environ, secrets = environment(), {}
    for given in request.secrets or ():
        name, of_descriptor, source = given.partition("=")
        number = source.removeprefix("fd:")
        if of_descriptor and not (number != source and number.isascii() and number.isdecimal()):
            raise UsageError(
                "--secret takes no value, because other users could read it in the list of "
                "processes. Put it into the variable {name} and use --secret {name}, or "
                "--secret {name}=fd:3 to read it from descriptor 3.",
                name=name,
            )
        value = _from_descriptor(name, int(number)) if of_descriptor else environ.get(name)
        if value is None:
            raise UsageError("--secret {name}: this variable is not set.", name=name)
        secrets[name] = value
    allowed = []
    for given in request.allowed_secrets or ():
        name, _colon, program = given.partition(":")
        if not name or not program:
            raise UsageError(
                "--allow-secret takes the name of a secret and a program, as in "
                "--allow-secret TOKEN:curl."
            )
        allowed.append((name, program))
    return {name: one for name, one in environ.items() if name not in secrets}, secrets, allowed


def _from_descriptor(name: str, number: int) -> str:
    """Return what a descriptor gives, without a line break at its end. Raises `UsageError`."""
    try:
        with os.fdopen(number, encoding="utf-8") as stream:
            return stream.read(MAX_DATA).removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "--secret {name}: descriptor {number} cannot be read: {why}.",
            name=name,
            number=number,
            why=why(error),
        ) from error


def _unless_given(
    session: LiveSession, user_input: UserInput
) -> tuple[UserInput | None, PastTurn | None]:
    """Return the task to begin, None to continue it, and its end where it has ended before."""
    from kogniterm.runtime.unattended.named_session import given_before

    before = given_before(session.journal, user_input)
    if before is None:
        return user_input, None
    return None, before if before.end is not None else None


async def _again(session: LiveSession, before: PastTurn, sink: Sink) -> Answer:
    from kogniterm.runtime.unattended.named_session import repeat_answer

    return repeat_answer(session, before, sink)


def _given_plan(request: RunRequest) -> tuple[Plan | None, CallOptions]:
    """Return the plan in the file that `--plan` names, and the call without that option.

    There is none where the option says when to plan. Raises `UsageError`.
    """
    call = request.call
    value = str(call.settings.get("plan", "auto"))
    if value in get_args(PlanMode):
        return None, call
    path = expand_path("", value)
    if not path.is_file():
        raise UsageError(
            "Invalid value {value} for --plan; use auto, always, never or the file of a plan.",
            value=value,
        )
    if request.plan_only:
        raise UsageError(
            "--plan-only cannot be combined with --plan {value}: one makes a plan, the other "
            "runs one.",
            value=value,
        )
    from kogniterm.runtime.plan_edits import read_plan

    others = {name: given for name, given in call.settings.items() if name != "plan"}
    return read_plan(path), call._replace(settings=others)


async def drive(
    session: LiveSession,
    running: Coroutine[object, object, Answer],
    sink: Sink,
    left_open: Callable[[], Answer | None] = lambda: None,
) -> int:
    """Run the turn; INT, TERM and HUP stop it cleanly, and the status says which one did.

    `left_open` is asked for the answer of a turn that was left open at a question.

    What commands left running ends with the task or stays, and is told with the answer. The answer
    is out before the session finishes what it does off the answer's path.
    """
    from kogniterm.types.events import JobsLeft, TurnEnded

    sink.begin(session.id, session.model.name, session.folder)
    turn = asyncio.ensure_future(running)
    received: list[int] = []
    with stop_on_signals(turn, received):
        try:
            answer = await turn
        except asyncio.CancelledError:
            open_end = left_open()
            if open_end is not None:
                sink(TurnEnded(open_end))
            answer = open_end or Answer("", "interrupted", EXIT_INTERRUPTED)
        except Exception:
            await session.finish()
            raise
        left = await asyncio.to_thread(session.end_jobs)
    if left:
        sink(JobsLeft(left))
    sink.finish(answer)
    told = await session.finish()
    waiting = session.memory.waiting_lines() if session.memory is not None else []
    for line in (*waiting, *told):
        sys.stderr.write(translate(line) + "\n")
    return 128 + received[0] if received else answer.exit_code


@contextlib.contextmanager
def stop_on_signals(turn: asyncio.Future[T], received: list[int]) -> Iterator[None]:
    """Cancel `turn` at INT, TERM and HUP, and add the signal's number to `received`."""
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

    def begin(self, session_id: str, model: str, folder: str) -> None:
        for sink in self._sinks:
            sink.begin(session_id, model, folder)

    def __call__(self, event: Event) -> None:
        for sink in self._sinks:
            sink(event)

    def finish(self, answer: Answer) -> None:
        for sink in self._sinks:
            sink.finish(answer)


def _front(request: RunRequest) -> RunFront:
    """Return the front for users: drawn on a terminal, plain lines elsewhere.

    The answer goes to standard output in text mode; everything else to standard error.
    """
    out = sys.stdout if request.output == "text" else None
    keys = keyboard() if sys.stderr.isatty() else None
    if keys is not None:
        from kogniterm.cli.user_screen import UserScreen
        from kogniterm.settings import environment, quick

        on_screen = out is not None and out.isatty()
        first = quick(environment(), request.call.settings)
        screen = None if on_screen else out
        user = UserScreen(first, sys.stderr, screen, keys, request.call.folder())
        return RunFront(user, user.approver, user.terminal(), user.recover, user.ask,
                        user.ask_secret, user.close)  # fmt: skip
    from kogniterm.cli.text_output import TextSink

    return RunFront(TextSink(out, sys.stderr))


def _tell_waiting() -> None:
    sys.stderr.write(
        _("kogniterm: waiting for data on standard input (use </dev/null if there is none)") + "\n"
    )
    sys.stderr.flush()


MAX_TASK = 100_000
"""Longest task in characters: what a user says, not what they attach."""
MAX_DATA = 1_000_000
"""Most bytes read from standard input; more belongs in a file that the task names."""
PATIENCE = 2.0
"""Seconds an open but silent standard input is waited for before the user is told."""


def read_task(
    words: Sequence[str],
    stdin: BinaryIO | None,
    tell_waiting: Callable[[], None],
    *,
    needed: bool = True,
    folder: str | None = None,
    seconds: float | None = None,
) -> UserInput | None:
    """Return the task in `words`, with standard input as its data.

    Without words, or with a lone "-", standard input is the task. `stdin` is None when it is a
    terminal; `seconds` is how long it may take. Files that the words name with @ are
    attached, seen from `folder`; None attaches none. A task that is not `needed` and not there is
    None: a resumed session may have one. Raises `UsageError` for a task that is missing, empty, too
    long or not text, and for data that is too long, not text or does not come.
    """
    from_stdin = not words or list(words) == ["-"]
    piped = "" if stdin is None else _decode(_read(stdin, tell_waiting, seconds))
    if from_stdin and not needed and not piped.strip():
        return None
    if from_stdin and stdin is None:
        raise UsageError('No task was given. Name one, as in kogniterm run "…", or pipe it in.')
    text = piped if from_stdin else _argument(" ".join(words))
    if not text.strip():
        raise UsageError("The task is empty; describe what to do.")
    if len(text) > MAX_TASK:
        raise UsageError(
            "The task has {length} characters; the limit is {most}. Put long text in a file and "
            "name the file, or pipe it in with a short task.",
            length=len(text),
            most=MAX_TASK,
        )
    data = None if from_stdin or not piped else piped
    # Only what stands on the command line names files: piped text may be anybody's.
    named = () if from_stdin or folder is None else mentions(text, folder)
    text = text.strip()
    piped_in = ((0, len(text)),) if from_stdin else ()
    return UserInput(text, data=data, source="run", attachments=named, foreign=piped_in)


def standard_input() -> BinaryIO | None:
    """Return standard input as bytes, or None when it is a terminal."""
    return None if sys.stdin.isatty() else sys.stdin.buffer


def keyboard() -> int | None:
    """Return the descriptor a user types on: standard input, or the terminal beside data.

    Data comes from a pipe or a file. None when nobody is there: a run from cron or CI has no
    terminal, and `</dev/null` says that nobody wants to be asked.
    """
    if sys.stdin.isatty():
        return sys.stdin.fileno()
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        return None
    try:
        return user_job().open_terminal()
    except OSError:
        return None


def _read(stdin: BinaryIO, tell_waiting: Callable[[], None], seconds: float | None) -> bytes:
    if _is_pipe(stdin):
        data = _read_pipe(stdin.fileno(), tell_waiting, seconds)
    else:
        data = stdin.read(MAX_DATA + 1)
    if len(data) > MAX_DATA:
        raise UsageError(
            "Standard input has more than {most} bytes; save it to a file and name the file in "
            "the task.",
            most=MAX_DATA,
        )
    return data


def _is_pipe(stdin: BinaryIO) -> bool:
    try:
        mode = os.fstat(stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _read_pipe(descriptor: int, tell_waiting: Callable[[], None], seconds: float | None) -> bytes:
    """Return what a pipe or socket gives up to its end, or a little more than may be read.

    All of it must come within `seconds`, however slowly it is written.
    """
    end = math.inf if seconds is None else time.monotonic() + seconds
    if not _comes(descriptor, min(PATIENCE, end - time.monotonic())):
        tell_waiting()
    data = b""
    while len(data) <= MAX_DATA:
        if not _comes(descriptor, end - time.monotonic()):
            if data:
                raise UsageError(
                    "Standard input did not end within {seconds:g} s; allow more with --timeout, "
                    "or save it to a file and name the file in the task.",
                    seconds=seconds,
                )
            raise UsageError(
                "Nothing came on standard input in {seconds:g} s; use </dev/null if there is none.",
                seconds=seconds,
            )
        if not (more := os.read(descriptor, MAX_DATA)):
            break
        data += more
    return data


def _comes(descriptor: int, seconds: float) -> bool:
    """Return whether a descriptor has data, or its end, before so many seconds have passed."""
    wait = None if seconds == math.inf else seconds
    return seconds > 0 and bool(select.select([descriptor], [], [], wait)[0])


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            "Standard input is not UTF-8 text (byte 0x{byte} at offset {offset}); convert it with "
            "iconv, or save it to a file and name the file in the task.",
            byte=f"{data[error.start]:02x}",
            offset=error.start,
        ) from error
    if "\0" in text:
        raise UsageError(
            "Standard input is binary (a zero byte at offset {offset}); save it to a file and "
            "name the file in the task.",
            offset=data.index(0),
        )
    return text


def _argument(text: str) -> str:
    """Return `text`, unless its bytes were not UTF-8 and became lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            "The task is not UTF-8 text (after {before} characters).", before=error.start
        ) from error
    return text
