"""Forgetting, form by form and store by store: no raw byte of the words stays anywhere.

The check knows nothing of the product's matcher: every cell has words of its own that nothing
else holds, and after forgetting none of them stands in any file or in any row.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from kogniterm.agent.messages import human_message
from kogniterm.execution.undo import PreimageStore
from kogniterm.memory import Memory, Origin, open_memory
from kogniterm.memory.repeated_requests import RepeatedRequests
from kogniterm.memory.short_term import Mention
from kogniterm.models import reply_cache
from kogniterm.models.reply_cache import ReplyCache
from kogniterm.paths import Paths
from kogniterm.runtime.services.archive import forgettables
from kogniterm.runtime.services.written_files import WrittenFiles
from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.fold import Note
from kogniterm.sessions.journal.journal import SessionJournal
from kogniterm.sessions.records import InputReceived, NodeRan
from kogniterm.sessions.store import SessionStore
from kogniterm.storage import drivers
from kogniterm.types import ActionRequest, NodeUpdate, UserInput
from tests.support.conversation import command_turn, write
from tests.support.databases import (
    OpenDatabase,
    database,
    location,
    open_database,
    postgres_server,
    postgres_url,
    prefer_note,
)

__all__ = ["database", "location", "open_database", "postgres_server", "postgres_url"]

USER, PROJECT = "ana", "/home/ana/shop"


def coloured(text: str) -> str:
    return "\x1b[01;31m\x1b[K" + text.replace(" ", "\x1b[m\x1b[K \x1b[1;32m") + "\x1b[m\x1b[K"


FORMS: Mapping[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "in a sentence": lambda text: f"I told you that {text}, and then some more.",
    "upper case": str.upper,
    "other blanks": lambda text: text.replace(" ", " \t  "),
    "line breaks": lambda text: text.replace(" ", "\n"),
    "JSON": lambda text: json.dumps({"said": text.replace(" ", "\n")}),
    "JSON in JSON": lambda text: json.dumps(json.dumps([text.replace(" ", '", "')])),
    "backslashes": lambda text: text.replace(" ", '\\" \\\\n\\t'),
    "coloured words": coloured,
    "repr of Python": lambda text: repr(text.replace(" ", "\x1b[m\xa0")),
    "coloured as JSON": lambda text: json.dumps(text.replace(" ", "\x1b[m ")),
    "quotes and brackets": lambda text: '"' + text.replace(" ", '" <[“') + "”]>",
    "underscores": lambda text: text.replace(" ", "_"),
    "plus signs": lambda text: text.replace(" ", "+"),
    "dashes": lambda text: text.replace(" ", "-"),
    "a path": lambda text: "/srv/" + text.replace(" ", "/", 1).replace(" ", "_") + ".txt",
    "composed otherwise": lambda text: unicodedata.normalize("NFD", text),
}


@dataclass(frozen=True)
class Kept:
    """Stores filled before something is forgotten."""

    memory: Memory
    sessions: SessionStore
    journal: SessionJournal
    paths: Paths
    work: Path

    def call(self, turn: int, arguments: dict[str, object]) -> None:
        call = {"name": "jobs", "args": arguments, "id": f"c{turn}"}
        request = ActionRequest(
            f"r{turn}", f"c{turn}", "jobs", "look", "to see", arguments=arguments, effect="command"
        )
        message = AIMessage("", tool_calls=[call])
        self.journal.append(NodeRan(NodeUpdate("decide_action", (message,), pending=(request,))))

    def remembered(self, text: str) -> None:
        """Journal the next turn's input with the block of a remembered fact."""
        from kogniterm.memory.recall import recall

        fact = self.memory.add(text)
        block = recall(self.memory, "what do you know?").text
        self.memory.repository.delete([fact], now=1.0, who="test")
        given = UserInput("what do you know?")
        self.journal.append(InputReceived(8, given, human_message(given, "auto", block)))

    def file(self, name: Path, text: str) -> None:
        name.parent.mkdir(parents=True, exist_ok=True)
        with name.open("a", encoding="utf-8") as file:
            file.write(f"before {text} after\n")

    def reworded(self, text: str) -> None:
        self.memory.learnings.record("list", "ls", ok=True)
        self.memory.learnings.edit(self.memory.learnings.all()[-1], text)

    def export(self, text: str) -> None:
        self.file(self.work / "talk.md", text)
        WrittenFiles(self.paths.written_files).add(self.work / "talk.md", "export")

    def keep(self, text: str) -> None:
        copy = self.work / "copy.txt"
        copy.write_text(f"the {text}\n", encoding="utf-8")
        PreimageStore(self.paths.of_sessions.undo / "s").keep("1", "rm copy.txt", [copy])
        copy.unlink()

    def reply(self, text: str) -> None:
        cache = ReplyCache(self.paths.of_sessions.model_replies)
        cache.use("s1", str)
        cache.put("k", reply_cache.KeptReply(text, 1, 1), cache.mark())

    def turn(self, number: int, **said: str) -> None:
        write(self.journal, command_turn(number, **said))


STORES: Mapping[str, Callable[[Kept, str], object]] = {
    "task": lambda kept, text: kept.turn(1, task=text),
    "answer": lambda kept, text: kept.turn(2, answer=text),
    "command": lambda kept, text: kept.turn(3, command=f"echo {text}"),
    "output": lambda kept, text: kept.turn(4, output=text),
    "argument": lambda kept, text: kept.call(5, {"what": text}),
    "argument id": lambda kept, text: kept.call(6, {"id": text}),
    "argument task_id": lambda kept, text: kept.call(7, {"task_id": text, "deep": [{"id": text}]}),
    "memory block": lambda kept, text: kept.remembered(text),
    "title": lambda kept, text: kept.journal.append(Note.TITLE.record(text)),
    "draft": lambda kept, text: kept.sessions.save_draft(kept.journal.state.session_id, text),
    "kept output": lambda kept, text: kept.file(
        kept.paths.of_sessions.outputs / "s" / "1.out", text
    ),
    "prompt history": lambda kept, text: kept.file(kept.paths.history_file, text),
    "log": lambda kept, text: kept.file(kept.paths.log_file, text),
    "example": lambda kept, text: kept.file(kept.paths.learned_examples, text),
    "export": lambda kept, text: kept.export(text),
    "reply of a model": lambda kept, text: kept.reply(text),
    "copy for undo": lambda kept, text: kept.keep(text),
    "lesson": lambda kept, text: kept.memory.learnings.record(text, "ls", ok=True),
    "lesson's note": lambda kept, text: kept.memory.learnings.record(
        "list", "ls", ok=False, note=f"error: {text}".replace("\n", " ")
    ),
    "lesson on what worked": lambda kept, text: kept.memory.learnings.record_repair(
        "list all", f"ls {text}", "ls", exit_code=2, output=""
    ),
    "wording of a lesson": lambda kept, text: kept.reworded(text),
    "name of the last hour": lambda kept, text: kept.memory.sessions.mention(
        "s1", [Mention("name", text)], kept.memory.clock.now()
    ),
    "counted request": lambda kept, text: RepeatedRequests(kept.memory.sql, PROJECT).count(
        f"show {text}", "s1", 1.0
    ),
    "preference": lambda kept, text: prefer_note(kept.memory, text),
    "quote": lambda kept, text: kept.memory.add(
        "The sky is blue", origin=Origin("s1", 1, f"hm {text}")
    ),
}


def words_for(*cell: str) -> list[str]:
    """Return four words unique to this cell; the last one begins with an accent."""
    digits = hashlib.sha256(" ".join(cell).encode()).digest()
    pairs = ["bcdfgklmnprstvz"[one % 15] + "aeiou"[one // 15 % 5] for one in digits]
    first, second, third, fourth = ("".join(pairs[at : at + 4]) for at in (0, 4, 8, 12))
    return [first, second, third, fourth]


def plain(raw: bytes) -> bytes:
    """Return the bytes without colour sequences, in lower case."""
    return re.sub(rb"(?:\x1b|\\+u001b)[\[(][0-9;]*[A-Za-z]", b"", raw).lower()


def everything(location: Path | str, *folders: Path) -> bytes:
    """Return the bytes of all files, and of all rows of all tables."""
    parts = [
        file.read_bytes() + str(file).encode()
        for folder in folders
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    ]
    return plain(b"\0".join([*parts, *rows(location)]))


def rows(location: Path | str) -> Iterator[bytes]:
    if isinstance(location, Path):
        connection = sqlite3.connect(location)
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            for row in connection.execute(f"SELECT * FROM {name}"):
                yield " ".join(map(str, row)).encode("utf-8", "replace")
        connection.close()
        return
    server = drivers.open_postgres(location, user=USER)
    names = server.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
    ).fetchall()
    for (name,) in names:
        for (row,) in server.execute(f"SELECT t::text FROM {name} AS t").fetchall():
            yield str(row).encode()
    server.close()


@pytest.mark.parametrize("form", FORMS)
def test_no_store_keeps_a_form_of_what_was_forgotten(
    open_database: OpenDatabase, location: Path | str, tmp_path: Path, form: str
) -> None:
    folders = {name: tmp_path / name for name in ("config", "data", "cache", "work", "state")}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    paths = Paths(folders["config"], folders["data"], folders["cache"])
    sessions = SessionStore(open_database(), version="1.0", folders=[paths.of_sessions.outputs])
    said = {store: " ".join(words_for(form, store)) + " ñandú" for store in STORES}
    with open_memory(
        location,
        user=USER,
        project=PROJECT,
        key_file=tmp_path / "key",
        stores=forgettables(paths, sessions, ""),
        paths=[paths.data],
    ) as memory:
        journal = sessions.create(folder=PROJECT, model="scripted:a")
        kept = Kept(memory, sessions, journal, paths, folders["work"])
        for store, keep in STORES.items():
            keep(kept, FORMS[form](said[store]))
        journal.close()
        sessions.search("nothing")  # brings the index up to date
        before = everything(location, *folders.values())
        missing = [
            store
            for store in STORES
            if not all(word.encode() in before for word in words_for(form, store))
        ]
        assert missing == []

        facts = [memory.get(memory.add(f"{text[0].upper()}{text[1:]}.")) for text in said.values()]
        receipt = memory.forgetter.forget(facts)

        after = everything(location, *folders.values())
        left = [
            (store, word)
            for store in STORES
            for word in words_for(form, store)
            if word.encode() in after
        ]
        assert left == []
        assert (receipt.found, receipt.found_columns) == ((), ())
        assert receipt.proved
        found = verify(sessions.database, journal.state.session_id)
        assert found.intact
        assert sessions.search(words_for(form, "answer")[0]) == []
