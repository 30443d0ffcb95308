"""The texts for the model that a session uses: those it began with, kept in its journal.

The user's own files stand in a note of a new session's journal, as they were. A resumed session
continues with them, whatever the folder holds by then, so that its requests begin with the bytes
of earlier ones; an export, a bug report and a replay have them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kogniterm import prompts
from kogniterm.errors import SettingsError
from kogniterm.prompts import PromptFile
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.sessions.history import before_turns, notes
from kogniterm.sessions.records import Noted, Record
from kogniterm.types import Phrase

KIND = "prompts"
"""The kind of the note, and the key of its datum: the user's files by name."""


def prompts_of_session(
    journal: TurnJournal, own: Mapping[str, PromptFile], folder: Path
) -> tuple[Mapping[str, PromptFile], tuple[Phrase, ...]]:
    """Return the files that the session of `journal` uses, and notices about them.

    A new session begins with `own`, the user's files in `folder`, and notes them.
    """
    sources = {name: journal.redact(file.source) for name, file in own.items()}
    kept = kept_prompts(journal.records())
    if kept is None and not journal.state.turn:
        if own:
            journal.record(Noted(KIND, {KIND: sources}))
        return own, ()
    files, unfit = files_of(kept or {}, folder)
    notices = []
    if (kept or {}) != sources:
        notices.append(
            Phrase(
                "This session continues with the prompts it began with. What is in {folder} now "
                "applies to new sessions.",
                {"folder": folder},
            )
        )
    if unfit:
        notices.append(
            Phrase(
                "This session began with its own prompts {names}, which do not fit this version "
                "of KogniTerm; the shipped ones are used.",
                {"names": ", ".join(unfit)},
            )
        )
    return files, tuple(notices)


def kept_prompts(records: Iterable[Record]) -> Mapping[str, str] | None:
    """Return the user's files that a session began with; None without a note of them."""
    note = next(notes(before_turns(records), KIND), None)
    return dict(note.value) if note is not None and isinstance(note.value, Mapping) else None


def files_of(
    sources: Mapping[str, str], folder: Path
) -> tuple[Mapping[str, PromptFile], tuple[str, ...]]:
    """Return the files with these contents, and the names of those that do not fit any more."""
    files: dict[str, PromptFile] = {}
    unfit: list[str] = []
    for name, source in sources.items():
        try:
            files[name] = prompts.own_file(name, folder / f"{name}.md", source)
        except SettingsError:
            unfit.append(name)
    return files, tuple(unfit)
