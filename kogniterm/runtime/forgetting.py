"""What takes part when something is forgotten: the journal, and the plain files of the state.

Memory purges its own tables and proves the result; the other rooms are joined to it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.memory.files import FilePurge
from kogniterm.memory.forget import Forgettable, Purged
from kogniterm.types import Text

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.sessions.journal import SessionJournal
    from kogniterm.sessions.store import SessionStore


class JournalPurge:
    """Forgets in every session of `store`: records, titles, drafts, search index, outputs.

    `live` are the journals this process has open, by session id.
    """

    def __init__(
        self, store: SessionStore, live: Mapping[str, SessionJournal] | None = None
    ) -> None:
        self._store = store
        self._live = live

    def purge(self, terms: Sequence[str]) -> Purged:
        """Replace the terms in whatever case they were written; busy sessions are named."""
        from kogniterm.sessions.forget import forget

        if not terms:
            return Purged(Text("the session journal"), 0)
        report = forget(self._store, terms, live=self._live)
        records = sum(len(numbers) for numbers in report.records.values())
        return Purged(Text("the session journal"), records, report.busy)


def forgettables(
    paths: Paths,
    store: SessionStore | None,
    live: Mapping[str, SessionJournal] | None = None,
) -> list[Forgettable]:
    """Everything beside memory's own tables that may hold what is to be forgotten."""
    files: list[tuple[Text, Path]] = [
        (Text("command outputs"), paths.outputs),
        (Text("prompt history"), paths.history_file),
        (Text("examples for the local model"), paths.learned_examples),
        (Text("logs"), paths.log_file.parent),
        (Text("copies kept for undo"), paths.data / "undo"),
    ]
    journal: list[Forgettable] = [JournalPurge(store, live)] if store is not None else []
    return [*journal, *(FilePurge(name, [path]) for name, path in files)]
