"""A trusted project's instruction files in the conversation: data of the project, told once.

What is trusted before the first turn stands in the system message. What is trusted, changed or
taken back later is appended to the history, so that the prefix of earlier requests stays what it
was, also after a resume. A compaction begins a new prefix: from then on the system message holds
what is in force.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime

from langchain_core.messages import SystemMessage

from kogniterm import prompts
from kogniterm.agent.messages import note
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.sessions.fold import Note
from kogniterm.sessions.records import NodeRan, Noted
from kogniterm.types import NodeUpdate

_NEW = "(The project's instruction files, which the person trusts; these hold from here on:)\n"
_GONE = "(The person no longer trusts the project's instruction files: leave them aside.)"


def tell(journal: TurnJournal, text: str) -> bool:
    """Let `text` be the project's instructions from here on; False when they are it already."""
    state = journal.state
    if text == _text_at(journal, state.instructions):
        return False
    if state.turn:
        message = note(f"{_NEW}{text}" if text else _GONE)
        journal.record(NodeRan(NodeUpdate("instructions", (message,))))
    journal.record(Note.INSTRUCTIONS.record(text))
    return True


def system_message(journal: TurnJournal) -> SystemMessage:
    """The system message of a session: fixed until its history is compacted."""
    state = journal.state
    day = datetime.fromtimestamp(next(iter(journal.records())).time, UTC).date().isoformat()
    system = f"{platform.system()} {platform.machine()}, bash"
    text = prompts.load("system").format(system=system, folder=state.folder, date=day)
    instructions = _text_at(journal, state.fixed_instructions)
    return SystemMessage(f"{text}\n\n{instructions}" if instructions else text)


def _text_at(journal: TurnJournal, seq: int) -> str:
    """The instructions that the record `seq` set; "" where there is none."""
    record = next(iter(journal.records(seq)), None) if seq else None
    if record is None or record.seq != seq or not isinstance(record.body, Noted):
        return ""
    return str(record.body.data.get(Note.INSTRUCTIONS, ""))
