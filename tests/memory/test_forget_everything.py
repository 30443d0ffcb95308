"""The whole program, used for a while, then told to forget: no byte of the words stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kogniterm.sessions.backend import SqliteBackend
from kogniterm.sessions.store import SessionStore

KOGNITERM = Path(sys.executable).with_name("kogniterm")
WORDS = "periwinkle gadget"
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
    kinds = {f"KOGNITERM_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "CACHE")}
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8", **kinds}


def test_no_byte_of_the_words_stays_anywhere(tmp_path: Path, environ: dict[str, str]) -> None:
    data, work = tmp_path / "DATA", tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text(f"the {WORDS} costs 12\n")
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps(SCRIPT))

    def kogniterm(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(KOGNITERM), *words], env=environ, cwd=work, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    for price in ("twelve", "thirteen"):
        kogniterm("memory", "add", f"The {WORDS} costs {price}", "--slot", "gadget")
    ran = kogniterm(
        "run", "--model", f"scripted:{script}", "-y", "--no-sandbox", f"Price the {WORDS}"
    )
    assert f"The {WORDS} is done." in ran.stdout, ran.stderr
    store = SessionStore(SqliteBackend(data / "kogniterm.db"), version="1.0")
    (session,) = store.sessions()
    store.save_draft(session.id, f"and the {WORDS.upper()}")
    store.close()
    # What screens and the local model leave behind, as they write it.
    (data / "history").write_text(f"\n# 2026-01-01 00:00:00\n+tell me of the {WORDS}\n")
    (data / "examples.jsonl").write_text(json.dumps({"task": WORDS.title()}) + "\n")
    (data / "logs").mkdir(exist_ok=True)
    (data / "logs" / "kogniterm.log.1").write_text(f"asked about {WORDS}\n")
    holding = [file for file in data.rglob("*") if file.is_file() and _holds(file)]
    assert len(holding) >= 6

    forgotten = kogniterm("memory", "forget", *WORDS.split(), "--yes")
    assert forgotten.returncode == 0, forgotten.stdout + forgotten.stderr
    assert "2 facts forgotten" in forgotten.stdout
    assert "a model provider" in forgotten.stdout
    assert [file for file in data.rglob("*") if _holds(file) or WORDS in file.name] == []
    assert kogniterm("audit", "verify").returncode == 0
    shown = kogniterm("sessions", "show", "last")
    assert "[forgotten]" in shown.stdout
    # It is not learnt again by being in the project's own files, which are the person's.
    assert WORDS in (work / "notes.txt").read_text()
    assert kogniterm("memory", "list", "--all").stdout == ""


def _holds(file: Path) -> bool:
    return file.is_file() and b"periwinkle" in file.read_bytes().lower()
