"""Which turns become examples for the local model: one request, one approved command, success."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from kogniterm.models.local.learned import LearnedExamples
from kogniterm.sessions.journal import Journal
from kogniterm.sessions.records import Decided, InputReceived, Outcome, Record, Requested
from kogniterm.types import Decision

COMMAND = "execute_command"
log = logging.getLogger(__name__)


@dataclass(slots=True)
class ExampleDesk:
    """Keeps what a person's approvals teach. The journal it reads is redacted already.

    `seen` is the last record of the turns before.
    """

    examples: LearnedExamples
    seen: int = 0

    def turn_ended(self, journal: Journal) -> None:
        """Look at the turn's records; a failure to write is logged, never in the way."""
        first, self.seen = self.seen + 1, journal.state.seq
        pair = worked(journal.records(first))
        if pair is None:
            return
        try:
            self.examples.add(*pair)
        except OSError:
            log.exception("an example could not be kept")


def worked(records: Iterable[Record]) -> tuple[str, str] | None:
    """(request, command) of a turn that ran exactly one command, which a person approved.

    Of a turn with several commands nobody can say which one fulfilled the request; a
    sub-agent's was for another task. Commands with a secret in them are left out: a placeholder
    teaches nothing.
    """
    request = ""
    decisions: dict[str, Decision] = {}
    ran: list[tuple[str, bool]] = []
    for record in records:
        match record.body:
            case InputReceived(input=given):
                request = given.text if given.data is None and not given.attachments else ""
            case Requested(request=action) if action.tool != COMMAND or action.agent:
                return None
            case Decided(request_id=number, decision=decision):
                decisions[number] = decision
            case Outcome(request_id=number, status=status, result=result):
                by_person = number in decisions and decisions[number].by == "person"
                good = status == "finished" and result is not None and result.exit_code == 0
                command = decisions[number].command if number in decisions else ""
                ran.append((command, by_person and good))
    if not request or len(ran) != 1 or not ran[0][1] or "[secret:" in request + ran[0][0]:
        return None
    return request, ran[0][0]
