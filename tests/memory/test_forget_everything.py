"""The whole program, used for a while, then told to forget: no byte of the words stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from tests.support.environments import environ_of
from tests.support.forge import Forge

WORDS = "periwinkle gadget"
NO_PROCESS = 5_000_000
"""Beyond the highest number that Linux gives to a process (4,194,304)."""
SCRIPT = {
    "replies": [
        {"when": {"purpose": "extract_facts"}, "repeat": "forever", "text": '{"facts": []}'},
        {"plan": {"goal": f"Price the {WORDS}", "steps": [f"Print the {WORDS.title()}"]}},
        {
            "run": 'for n in $(seq 1500); do echo "$n PERIWINKLE GADGET costs money"; done',
            "purpose": f"Show the {WORDS}",
        },
        {
            "text": "I write it down.",
            "calls": [
                {
                    "tool": "write_file",
                    "arguments": {"path": f"{WORDS}.txt", "content": f"The {WORDS}\n"},
                }
            ],
        },
        {
            "text": "I change it.",
            "calls": [
                {
                    "tool": "edit_file",
                    "arguments": {"path": "notes.txt", "old": WORDS, "new": f"{WORDS} indeed"},
                }
            ],
        },
        {"text": f"The {WORDS} is done.", "repeat": "forever"},
    ]
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    return {**environ_of(tmp_path), "TMPDIR": str(temporary)}


def test_no_byte_of_the_words_stays_anywhere(
    forge: Forge, tmp_path: Path, environ: dict[str, str]
) -> None:
    data, work = tmp_path / "data", tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text(f"the {WORDS} costs 12\n")
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps(SCRIPT))

    def kogniterm(*words: str, status: int = 0) -> str:
        started = forge.start(words, environ=environ, folder=work, scratch=tmp_path)
        assert started.wait() == status, started.said
        return started.out.read_text()

    for price in ("twelve", "thirteen"):
        kogniterm("memory", "add", f"The {WORDS} costs {price}", "--slot", "gadget")
    said = kogniterm(
        "run", "--model", f"scripted:{script}", "-y", "--no-sandbox", f"Price the {WORDS}",
        status=1,  # its plan stays open
    )  # fmt: skip
    assert f"The {WORDS} is done." in said
    store = SessionStore(Database(data / "kogniterm.db", SESSIONS), version="1.0")
    (session,) = store.sessions()
    store.save_draft(session.id, f"and the {WORDS.upper()}")
    store.close()
    # Files of the screens and of the local model, in their formats.
    (data / "history").write_text(f"\n# 2026-01-01 00:00:00\n+tell me of the {WORDS}\n")
    (data / "examples.jsonl").write_text(json.dumps({"task": WORDS.title()}) + "\n")
    (data / "logs").mkdir(exist_ok=True)
    (data / "logs" / "kogniterm.log.1").write_text(f"asked about {WORDS}\n")
    # Files that remain after a crash and after damage to the database.
    (data / "kogniterm.db.damaged-20260101-000000").write_bytes(b"\0SQL" + WORDS.encode() + b"\0")
    left = tmp_path / "tmp" / f"kogniterm-{NO_PROCESS}-abcd_123"
    left.mkdir(parents=True)
    (left / "enter-1").write_text(f"declare TASK='{WORDS}'\n")
    # Exports for the user, and files that the user wrote.
    for name, action in (("talk.md", "export"), ("talk.jsonl", "export"), ("bug.jsonl", "report")):
        kind = ["--format", "markdown"] if name.endswith(".md") else []
        kogniterm("sessions", action, "last", *kind, "--to", name)
    kogniterm("memory", "export", "--to", "facts.jsonl")
    recipe = {"name": "price", "nodes": [{"id": "n1", "command": f"echo {WORDS}"}]}
    (work / "price.yaml").write_text(json.dumps(recipe))
    kogniterm("recipe", "save", "price", "--file", "price.yaml")
    (work / "edited.md").write_bytes((work / "talk.md").read_bytes())
    with (work / "talk.jsonl").open("a") as mine:
        mine.write("my own words\n")
    config = tmp_path / "config"
    (config / "commands").mkdir()
    (config / "commands" / "ask.md").write_text(f"Look up\nthe {WORDS} of today\n")
    (work / "KOGNITERM.md").write_text(f"# Shop\n\nWe sell the {WORDS}.\n")
    holding = [file for file in data.rglob("*") if file.is_file() and _holds(file)]
    assert len(holding) >= 7

    forgotten = kogniterm("memory", "forget", *WORDS.split(), "--yes")
    assert "Facts forgotten: 2" in forgotten
    assert "a model provider" in forgotten
    for place in (data, left):
        assert [file for file in place.rglob("*") if _holds(file) or WORDS in file.name] == []
    exported = [work / name for name in ("talk.md", "bug.jsonl", "facts.jsonl")]
    assert [file for file in exported if _holds(file)] == []
    assert not (config / "recipes" / "price.yaml").exists()
    for line in (f"{config}/commands/ask.md, line 2", f"{work}/KOGNITERM.md, line 3"):
        assert f"Not changed, because you wrote it: {line}" in forgotten
    assert "fragments of the text in the damaged database" in forgotten
    # Files that the user changed or copied since belong to the user.
    assert _holds(work / "talk.jsonl")
    assert _holds(work / "edited.md")
    kogniterm("audit", "verify")
    assert "[forgotten]" in kogniterm("sessions", "show", "last")
    # Project files, which belong to the user, are not learned again.
    assert WORDS in (work / "notes.txt").read_text()
    assert kogniterm("memory", "list", "--all") == ""


def _holds(file: Path) -> bool:
    return file.is_file() and b"periwinkle" in file.read_bytes().lower()
