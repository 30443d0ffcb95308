"""`kogniterm queue`: questions that wait for an answer, on this machine and on others."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from kogniterm.cli.options import JSON, SESSION_NAME, Action, Argument, Subparsers, add_actions
from kogniterm.cli.verb_helpers import Report, iso, open_sessions, write_report
from kogniterm.errors import EXIT_REFUSED, TurnInterruptedError, UsageError
from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from kogniterm.runtime.unattended.stored_answers import Waiting
    from kogniterm.sessions.store import SessionInfo, SessionStore
    from kogniterm.types.parked_questions import AnswerChoice, ParkedQuestion

LEAST_DIGEST = 8
"""Characters of a digest that an answer without a terminal has to name."""


def add_parser(subparsers: Subparsers) -> None:
    """Add `queue` and its actions."""
    add_actions(subparsers, "queue", ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the action; returns its exit status."""
    with open_sessions(args) as store:
        return write_report(args, args.perform(store, args))


def _inbox(store: SessionStore, args: argparse.Namespace) -> Report:
    from kogniterm.runtime.unattended.stored_answers import waiting_questions

    found = waiting_questions(store)
    if found and not args.json:
        _draw(found)
        return Report(printed=True)
    notes = [] if found else [_("Nothing waits for you.")]
    return Report([_waiting_json(one) for one in found], notes=notes)


def _draw(found: tuple[Waiting, ...]) -> None:
    """Write the questions on standard output, drawn for a terminal if it is one."""
    from kogniterm.settings import environment, quick
    from kogniterm.ui.display import Display
    from kogniterm.ui.questions.parked_question import inbox_rows
    from kogniterm.ui.screen.surface import stream_size
    from kogniterm.ui.screen_preferences import from_quick

    preferences = from_quick(quick(environment()), "/")
    painter, columns = Display(preferences).painter, max(stream_size(sys.stdout)[1] - 1, 20)
    for row in inbox_rows(found, "kogniterm queue answer"):
        sys.stdout.write(painter.paint(row, columns))


def _waiting_json(one: Waiting) -> dict[str, object]:
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
    }


def _answer(store: SessionStore, args: argparse.Namespace) -> Report:
    from kogniterm.runtime.unattended.stored_answers import (
        answer_now,
        open_question,
        store_answer,
    )

    info = store.find(args.session)
    question = open_question(store, info.id)
    if question is None:
        raise UsageError("Session {session} waits for no answer.", session=info.id)
    given = _given(args, question) if args.answer else _asked(args, info, question)
    if given is None:
        return Report(notes=[_("Not answered; the question keeps waiting.")], status=EXIT_REFUSED)
    choice, text = given
    store_answer(store, info.id, answer_now(question.digest, choice, text))
    return Report(
        {"session": info.id, "digest": question.digest, "answer": choice, "text": text},
        [_("Answer saved. Continue: kogniterm run --park --resume {id}").format(id=info.id)],
    )


def _given(args: argparse.Namespace, question: ParkedQuestion) -> tuple[AnswerChoice, str]:
    """Return the answer on the command line, which names the question that was read.

    Raises `UsageError`.
    """
    from kogniterm.types.parked_questions import CHOICES

    digest: str = args.digest or ""
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
    choices = CHOICES[question.kind]
    word, *words = args.answer
    choice, text = next((one for one in choices if one == word), None), " ".join(words)
    if choice is None:
        raise UsageError(
            "This question does not take {choice}; answer it with one of: {choices}.",
            choice=word,
            choices=", ".join(choices),
        )
    if choice in ("edit", "words") and not text.strip():
        raise UsageError("{choice} needs text behind it.", choice=choice)
    return choice, text


def _asked(
    args: argparse.Namespace, info: SessionInfo, question: ParkedQuestion
) -> tuple[AnswerChoice, str] | None:
    """Ask at the terminal. Raises `UsageError` without one."""
    from kogniterm.cli.options import flags_of
    from kogniterm.cli.run import keyboard
    from kogniterm.cli.text_output import UserScreen
    from kogniterm.settings import environment, quick

    keys = keyboard() if sys.stderr.isatty() and sys.stdin.isatty() else None
    if keys is None:
        raise UsageError(
            "Answering needs a terminal, or --digest DIGEST with the answer; see kogniterm queue "
            "answer --help."
        )
    first = quick(environment(), flags_of(args))
    screen = UserScreen(first, sys.stderr, None, keys, question.folder)
    try:
        return asyncio.run(screen.ask_parked(info.id, info.title, question))
    except TurnInterruptedError:
        return None
    finally:
        screen.close()


ACTIONS = (
    Action("inbox", "List the questions that wait for you, on all machines", _inbox, (JSON,),
           ("kogniterm queue inbox",)),
    Action("answer", "Answer the question of a session", _answer, (
        SESSION_NAME,
        Argument("answer", "approve, reject, edit, words, check, again or skip, and its text; "
                 "without it, you are asked", "ANSWER", nargs="*"),
        Argument("--digest", "Digest of the question that you read", "DIGEST"),
        JSON),
        ("kogniterm queue answer report-7",
         "kogniterm queue answer report-7 --digest 3fa94c0d12ab approve")),
)  # fmt: skip
