"""`kogniterm queue`: add tasks, watch and steer them, and answer their questions."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from contextlib import AbstractContextManager, closing, suppress
from typing import TYPE_CHECKING, Any

from kogniterm.cli.options import JSON, SESSION_NAME, CallOptions, Subparsers, add_actions
from kogniterm.cli.verb_helpers import (
    location_of,
    open_sessions,
    paths_in_use,
    user_name,
    write_lines,
)
from kogniterm.errors import (
    EXIT_DONE,
    EXIT_NOT_DONE,
    EXIT_REFUSED,
    KognitermError,
    TurnInterruptedError,
    UsageError,
)
from kogniterm.runtime.operations.action import Action, Argument, Report, count, iso, whole
from kogniterm.storage.folders import expand_path
from kogniterm.ui.display import write_drawn
from kogniterm.ui.locale import _, translate

if TYPE_CHECKING:
    from kogniterm.addons.fleet.queue_ports import Queue, WorkerQueue
    from kogniterm.addons.fleet.queue_values import QueuedTask, TaskState
    from kogniterm.runtime.unattended.signed_answers import WaitingSession
    from kogniterm.sessions.store import SessionInfo, SessionStore
    from kogniterm.types.parked_questions import AnswerChoice, ParkedQuestion

LEAST_DIGEST = 8
"""Characters of a digest that an answer without a terminal has to name."""


def add_parser(subparsers: Subparsers) -> None:
    """Add `queue` and its actions."""
    add_actions(subparsers, "queue", ACTIONS)


def _inbox(call: CallOptions) -> Report:
    from kogniterm.runtime.unattended.signed_answers import waiting_questions

    with open_sessions(call) as store:
        found = waiting_questions(store, paths_in_use().queue_key)
    if found and not call.json:
        from kogniterm.addons.fleet.verbs.queue_inbox import inbox_rows

        write_drawn(sys.stdout, inbox_rows(found, "kogniterm queue answer"))
        return Report(printed=True)
    notes = [] if found else [_("Nothing waits for you.")]
    return Report([_waiting_json(one) for one in found], notes=notes)


def _waiting_json(one: WaitingSession) -> dict[str, object]:
    from kogniterm.cli.json_output import plain

    question = one.question
    return {
        "session": one.session.id,
        "title": one.session.title,
        "since": iso(one.since),
        "kind": question.kind,
        "digest": question.digest,
        "host": question.host,
        "folder": question.folder,
        "question": question.title,
        "command": question.request.command if question.request is not None else None,
        "detail": question.request.detail if question.request is not None else "",
        "risk": question.report.label if question.report is not None else None,
        "effects": [str(one) for one in question.preview],
        "plan": plain(question.plan),
        "answers": list(question.answers),
        "output": question.output,
        "ignored": str(question.ignored) if question.ignored is not None else None,
    }


def _answer(
    call: CallOptions, session: str | None, answer: list[str], digest: str | None, file: str | None
) -> Report:
    from kogniterm.runtime.unattended.signed_answers import store_answer

    if file is not None:
        return _answer_many(call, file)
    if session is None:
        raise UsageError("Specify a session, or a file with answers: --file FILE")
    with open_sessions(call) as store:
        info, question = _waiting(store, session)
        given = (
            _given(answer, digest or "", question) if answer else _ask_user(call, info, question)
        )
        if given is None:
            kept = _("Not answered; the question keeps waiting.")
            return Report(notes=[kept], status=EXIT_REFUSED)
        choice, text = given
        store_answer(store, info.id, question.digest, choice, text, paths_in_use().queue_key)
    told = _("Answer saved. Continue: kogniterm run --park --resume {id}").format(id=info.id)
    return Report(
        {"session": info.id, "digest": question.digest, "answer": choice, "text": text},
        [_("Answer saved. The task continues.") if _resume(call, [info.id]) else told],
    )


def _answer_many(call: CallOptions, file: str) -> Report:
    """Store the answers in a file of JSON lines, each with session, digest, answer and text."""
    from kogniterm.runtime.operations.stored_data import read_lines
    from kogniterm.runtime.unattended.signed_answers import store_answer
    from kogniterm.settings.user_files import json_values

    done: list[dict[str, str | None]] = []
    saved: list[str] = []
    with open_sessions(call) as store:
        for line in filter(str.strip, read_lines(file)):
            session = None
            try:
                one = json_values(line[:80], line).data
                session, words = str(one["session"]), [str(one["answer"]), str(one.get("text", ""))]
                info, question = _waiting(store, session)
                choice, text = _given(words, str(one["digest"]), question)
                store_answer(
                    store, info.id, question.digest, choice, text, paths_in_use().queue_key
                )
                saved.append(info.id)
                done.append({"session": info.id, "answer": choice, "problem": None})
            except KeyError:
                wrong = _("not JSON with session, digest and answer")
                done.append({"session": None, "answer": None, "problem": f"{line[:80]}: {wrong}"})
            except KognitermError as error:
                problem = translate(error.text)
                done.append({"session": session, "answer": None, "problem": problem})
    _resume(call, saved)
    lines = [one["problem"] for one in done if one["problem"] is not None]
    lines.append(_("{count} answers saved.").format(count=len(saved)))
    return Report(done, lines, status=EXIT_DONE if len(saved) == len(done) else EXIT_REFUSED)


def _waiting(store: SessionStore, session: str) -> tuple[SessionInfo, ParkedQuestion]:
    """Return the session that is named, and its question. Raises `UsageError`."""
    from kogniterm.runtime.unattended.signed_answers import open_question

    info = store.find(session)
    question = open_question(store, info.id, paths_in_use().queue_key)
    if question is None:
        raise UsageError("Session {session} waits for no answer.", session=info.id)
    return info, question


def _resume(call: CallOptions, answered: list[str]) -> bool:
    """Queue the tasks of these sessions again; return whether there was one."""
    from kogniterm.addons.fleet.task_queue import MissingQueueError

    with suppress(MissingQueueError), _tasks(call) as queue:
        return sum(map(queue.resume, answered)) > 0
    return False


def _key(_call: CallOptions, direction: str, file: str) -> Report:
    from kogniterm.runtime.operations.stored_data import read_lines, require_writable_file
    from kogniterm.sessions.session_transfer import replace_text
    from kogniterm.storage.user_key import export_key, take_over

    key = paths_in_use().queue_key
    if direction == "export":
        if file == "-":  # by its path, an output that another user opened may be closed to us
            write_lines([export_key(key)])
        else:
            path = expand_path("", file)
            require_writable_file(path)
            with replace_text(path) as target:
                target.write(f"{export_key(key)}\n")
        return Report(notes=[_("Key exported. Whoever has it can answer in your place.")])
    take_over(key, "".join(read_lines(file)))
    return Report(notes=[_("Key imported. Answers that another key signed do not count here.")])


def _given(answer: list[str], digest: str, question: ParkedQuestion) -> tuple[str, str]:
    """Return the answer on the command line, which names the question that was read.

    Raises `UsageError`.
    """
    if len(digest) < LEAST_DIGEST:
        raise UsageError(
            "An answer on the command line needs --digest, the digest of the question that you "
            "read with: kogniterm queue inbox --json"
        )
    if not question.digest.startswith(digest):
        raise UsageError(
            "The session waits for the answer to another question by now; look at it again with: "
            "kogniterm queue inbox"
        )
    choice, text = answer[0], " ".join(answer[1:])
    if choice in ("edit", "words") and not text.strip():
        raise UsageError("{choice} needs text behind it.", choice=choice)
    return choice, text


def _ask_user(
    call: CallOptions, info: SessionInfo, question: ParkedQuestion
) -> tuple[AnswerChoice, str] | None:
    """Ask at the terminal. Raises `UsageError` without one."""
    from kogniterm.cli.run import keyboard
    from kogniterm.cli.user_screen import UserScreen
    from kogniterm.settings import environment, quick

    keys = keyboard() if sys.stderr.isatty() and sys.stdin.isatty() else None
    if keys is None:
        raise UsageError(
            "Answering needs a terminal, or --digest DIGEST with the answer; see kogniterm queue "
            "answer --help."
        )
    first = quick(environment(), call.settings)
    screen = UserScreen(first, sys.stderr, None, keys, question.folder)
    try:
        return asyncio.run(screen.ask_parked(info.id, info.title, question))
    except TurnInterruptedError:
        return None
    finally:
        screen.close()


def _tasks(call: CallOptions) -> AbstractContextManager[WorkerQueue]:
    """Return the queue in the sessions' database."""
    from kogniterm.addons.fleet.task_queue import open_queue

    return closing(open_queue(location_of(call), user_name(), paths_in_use().data))


def _add(call: CallOptions, **given: Any) -> Report:
    from kogniterm.addons.fleet.verbs.task_files import TaskRequest, new_tasks

    tasks = new_tasks(TaskRequest(call, **given))
    with _tasks(call) as queue:
        queue.add(tasks)
        hindrance = queue.hindrance(queue.find(tasks[0].id))
    batch = tasks[0].batch
    if len(tasks) == 1:
        lines = [_("Task {id} added.").format(id=tasks[0].id)]
    else:
        told = _("{count} tasks added as batch {batch}.")
        lines = [told.format(count=len(tasks), batch=batch)]
    notes = [translate(hindrance)] if hindrance is not None else []
    return Report({"batch": batch, "tasks": [one.id for one in tasks]}, lines, notes=notes)


def _list(
    call: CallOptions, state: str | None, batch: str | None, all_users: bool, limit: int | None
) -> Report:
    limit = limit or (_ALL if call.json else _ON_SCREEN)
    if all_users:
        return _all_users(call, limit)
    states = _states(state)
    with _tasks(call) as queue:
        found = queue.tasks(states=states, batch=batch, limit=limit)
        counts = queue.counts(batch)
        waiting = next((one for one in found if one.state == "queued"), None)
        hindrance = queue.hindrance(waiting) if waiting is not None else None
    if not found:
        return Report([], notes=[_("No tasks.")])
    if not call.json:
        from kogniterm.addons.fleet.task_table import task_table, totals

        write_drawn(sys.stdout, [task_table(found), totals(counts)])
    notes = [translate(hindrance)] if hindrance is not None else []
    return Report([task_json(one) for one in found], notes=notes, printed=not call.json)


def _all_users(call: CallOptions, limit: int) -> Report:
    """List the tasks of all users, without their contents."""
    from kogniterm.addons.fleet.queue_values import QueueCounts
    from kogniterm.addons.fleet.task_database import QUEUE, overview
    from kogniterm.storage.database import Database

    place, heads = location_of(call), paths_in_use().data
    with closing(Database(place, QUEUE, user=user_name(), heads=heads)) as database:
        found = overview(database, limit)
    if not call.json:
        from kogniterm.addons.fleet.task_table import overview_table, totals

        states = Counter(one.state for one in found)
        counts = QueueCounts(states, sum(one.cost or 0.0 for one in found))
        write_drawn(sys.stdout, [overview_table(found), totals(counts)])
    times = ("due", "created", "updated")
    plain = [
        one._asdict() | {name: iso(getattr(one, name) or None) for name in times} for one in found
    ]
    notes = [] if found else [_("No tasks.")]
    return Report(plain, notes=notes, printed=not call.json and bool(found))


def _states(words: str | None) -> tuple[TaskState, ...]:
    """Return the states that `--state` names. Raises `UsageError`."""
    from kogniterm.addons.fleet.queue_values import STATES

    wanted = [word.strip() for word in (words or "").split(",") if word.strip()]
    unknown = next((word for word in wanted if word not in STATES), None)
    if unknown is not None:
        raise UsageError(
            "{value} is no state of a task; use {names}.", value=unknown, names=", ".join(STATES)
        )
    return tuple(state for state in STATES if state in wanted)


def _show(call: CallOptions, task_id: str, diff: bool) -> Report:
    from kogniterm.runtime.unattended.signed_answers import open_question

    with _tasks(call) as queue:
        task = queue.find(task_id)
        hindrance = queue.hindrance(task) if task.state == "queued" else None
        patch = queue.patches.of(task.id) if diff or call.json else ""
    if diff and not call.json:
        sys.stdout.write(patch)
        return Report(notes=[] if patch else [_("No changes.")], printed=True)
    if not call.json:
        from kogniterm.addons.fleet.task_table import task_details

        question = None
        if task.state == "parked":
            with open_sessions(call) as store:
                question = open_question(store, task.id, paths_in_use().queue_key)
        write_drawn(sys.stdout, task_details(task, question, hindrance))
    return Report(_with_patch(task, patch), printed=not call.json)


def _with_patch(task: QueuedTask, patch: str) -> dict[str, object]:
    """Return a task as JSON, with its changes where it has a checkout."""
    found = task_json(task)
    return {**found, "patch": patch} if task.task.workspace else found


def _cancel(call: CallOptions, tasks: list[str], batch: str | None, state: str | None) -> Report:
    from kogniterm.addons.fleet.task_run import stop_child
    from kogniterm.host.identity import this_process
    from kogniterm.sessions.journal.ownership import held_here

    with _tasks(call) as queue:
        found = _select_tasks(queue, tasks, batch, state)
        for task in found:
            queue.cancel(task.id)
        states = {one.id: queue.find(one.id) for one in found}
        watched = {one.name for one in queue.workers()}
        alone = [
            one.id
            for one in states.values()
            if one.worker not in watched and queue.find_cancelled([one.id])
        ]
    if alone:  # a process may go on without its worker
        with open_sessions(call) as store:
            held = held_here(store.database, this_process())
        for task_id in held.keys() & set(alone):
            stop_child(held[task_id])
    lines = []
    for task_id, task in states.items():
        told = {
            "running": _("{id}: its worker stops it."),
            "cancelled": _("{id}: cancelled."),
        }.get(task.state, _("{id}: it had ended before."))
        lines.append(told.format(id=task_id))
    return Report([task_json(one) for one in states.values()], lines)


def _retry(
    call: CallOptions, tasks: list[str], batch: str | None, state: str | None, text: str | None
) -> Report:
    from kogniterm.addons.fleet.task_run import next_words
    from kogniterm.sessions.journal.journal import load_state

    with _tasks(call) as queue, open_sessions(call) as store:
        found = _select_tasks(queue, tasks, batch, state)
        lines = []
        for task in found:
            known = store.info(task.id) is not None
            begun = known and load_state(store.database, task.id)[0]
            goes_on = not begun or not begun.turn or begun.open_turn
            words = None if goes_on else ((text or "") or next_words(task))
            again = queue.retry(task.id, words)
            told = _("{id}: queued again.") if again else _("{id}: it has not ended.")
            lines.append(told.format(id=task.id))
    return Report([one.id for one in found], lines)


def _select_tasks(
    queue: Queue, tasks: list[str], batch: str | None, state: str | None
) -> list[QueuedTask]:
    """Return the tasks that were named, or those of a batch. Raises `UsageError`."""
    if bool(tasks) == bool(batch):
        raise UsageError("Specify the tasks by their IDs, or a batch with --batch.")
    if batch:
        found = queue.tasks(batch=batch, states=_states(state))
        if not found:
            raise UsageError("Batch {batch} has no such tasks.", batch=batch)
        return found
    return [queue.find(reference) for reference in tasks]


def _results(call: CallOptions, batch: str | None, state: str | None) -> Report:
    with _tasks(call) as queue:
        found = list(reversed(queue.tasks(batch=batch, states=_states(state))))
        counts = queue.counts(batch)
        for one in found:
            told = _with_patch(one, queue.patches.of(one.id) if one.task.workspace else "")
            sys.stdout.write(json.dumps(told, ensure_ascii=True) + "\n")
    if not found:
        return Report(notes=[_("No tasks.")])
    if sys.stderr.isatty():
        from kogniterm.addons.fleet.task_table import summary_table

        write_drawn(sys.stderr, [summary_table(found, counts)])
    return Report(printed=True)


def _watch(call: CallOptions, batch: str | None, forever: bool) -> Report:
    from kogniterm.addons.fleet.verbs.queue_watch import watch

    with _tasks(call) as queue:
        watch(queue, batch, until_empty=not forever)
        counts = queue.counts(batch)
    failed = sum(counts.states.get(state, 0) for state in ("failed", "cancelled"))
    waiting = sum(counts.states.get(state, 0) for state in ("parked", "unknown"))
    status = EXIT_REFUSED if waiting else EXIT_NOT_DONE if failed else EXIT_DONE
    return Report(printed=True, status=status)


def task_json(one: QueuedTask) -> dict[str, object]:
    """Return a task as JSON; times in ISO 8601, UTC."""
    task = one.task
    return {
        "id": one.id,
        "batch": task.batch or None,
        "queue": task.queue,
        "state": one.state,
        "task": task.text,
        "folder": None if task.workspace else task.folder,
        "workspace": task.workspace or None,
        "commit": one.commit_id or None,
        "priority": task.priority,
        "due": iso(task.due or None),
        "created": iso(one.created),
        "updated": iso(one.updated),
        "worker": one.worker or None,
        "turn": one.turn,
        "lost": one.lost,
        "stop": one.stop or None,
        "exit_code": one.exit_code,
        "reason": str(one.reason) or None,
        "answer": one.answer,
        "tokens": one.tokens,
        "cost": one.cost,
        "seconds": round(one.seconds, 3),
        "version": one.version,
    }


_ON_SCREEN, _ALL = 50, 1_000_000
"""Tasks listed where no limit is given."""
TASKS = Argument("tasks", "IDs of tasks", "ID", nargs="*")
BATCH = Argument("--batch", "Only tasks of this batch", "BATCH")
STATE = Argument("--state", "Only tasks in these states, as in parked,failed", "STATES")

ACTIONS = (
    Action("add", "Add a task, or those of a file", _add, (
        Argument("task", "What to do", "TASK", nargs="*"),
        Argument("--file", "File with a task a line, in JSON; - is standard input", "FILE"),
        Argument("--recipe", "Recipe to run, with INPUT=VALUE in place of TASK", "NAME"),
        Argument("--items", "File with the inputs of a run a line, in JSON", "FILE"),
        Argument("--workspace", "Folder, or git address as in URL@REF, to work in", "PLACE"),
        Argument("--here", "Only workers on this machine"),
        Argument("--id", "ID of the task and of its session", "ID", field="task_id"),
        Argument("--queue", "Queue to add it to; host:NAME is that of a machine", "NAME",
                 default="default"),
        Argument("--batch", "Name that the tasks have in common", "NAME"),
        Argument("--at", "Start not before this time, as in 18:30, 2026-12-24T06:00 or +2h",
                 "TIME"),
        Argument("--priority", "Higher ones first", "N", type=whole, default=0),
        Argument("--tries", "Times a task whose process was lost is started", "N", type=count,
                 default=3),
        JSON),
        ('kogniterm queue add "fix the typos in docs/"',
         "kogniterm queue add --file tasks.jsonl --batch docs -y --max-cost 0.50",
         "kogniterm queue add --recipe review --items branches.jsonl",
         "kogniterm queue add --workspace https://git.example.org/shop@main \"fix #12\""),
        session_options=True),
    Action("list", "List the tasks", _list, (
        STATE, BATCH,
        Argument("--all-users", "Tasks of all users, without their contents, for an operator of "
                 "the database"),
        Argument("--limit", "Maximum number of results; 50 on the screen, all with --json", "N",
                 type=count), JSON),
           ("kogniterm queue list --state parked,unknown",)),
    Action("show", "Show a task", _show, (
        Argument("task_id", "ID of the task", "ID"),
        Argument("--diff", "Print the changes in its checkout, as a patch of git"), JSON),
        ("kogniterm queue show report-7", "kogniterm queue show report-7 --diff | git apply")),
    Action("watch", "Watch the tasks until none is queued or runs", _watch, (
        BATCH, Argument("--forever", "Watch until Ctrl-C")),
        ("kogniterm queue watch --batch docs",)),
    Action("inbox", "List the questions that wait for you, on all machines", _inbox, (JSON,),
           ("kogniterm queue inbox",)),
    Action("cancel", "Cancel tasks", _cancel, (TASKS, BATCH, STATE, JSON),
           ("kogniterm queue cancel report-7", "kogniterm queue cancel --batch docs")),
    Action("retry", "Queue tasks again that have ended, in the same session", _retry, (
        TASKS, BATCH, STATE,
        Argument("--text", "What to tell the model", "TEXT", nargs=None), JSON),
        ("kogniterm queue retry report-7 --text \"use the new schema\"",
         "kogniterm queue retry --batch docs --state failed")),
    Action("results", "Print the tasks with their answers, one in JSON a line", _results, (
        BATCH, STATE), ("kogniterm queue results --batch docs > results.jsonl",)),
    Action("answer", "Answer the question of a session", _answer, (
        SESSION_NAME._replace(nargs="?"),
        Argument("answer", "approve, reject, edit, words, check, again or skip, and its text; "
                 "checks or edits start a plan and let these go unasked; without it, you are asked",
                 "ANSWER", nargs="*"),
        Argument("--digest", "Digest of the question that you read", "DIGEST"),
        Argument("--file", "Answers as JSON lines with session, digest, answer and text", "FILE"),
        JSON),
        ("kogniterm queue answer report-7",
         "kogniterm queue answer report-7 --digest 3fa94c0d12ab approve")),
    Action("key", "Export or import the key that signs your answers", _key, (
        Argument("direction", "export or import", "DIRECTION", choices=("export", "import")),
        Argument("file", "File of the key; - is standard input or output", "FILE", nargs="?",
                 default="-")),
        ("kogniterm queue key export answers.key", "kogniterm queue key import answers.key")),
)  # fmt: skip
