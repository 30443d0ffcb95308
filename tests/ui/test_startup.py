"""The first prompt comes before heavy imports, which is checked by module, not by time."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pexpect
import pytest

from kogniterm.cli.open_prompt import Opener
from kogniterm.cli.options import CallOptions
from kogniterm.runtime import build
from kogniterm.settings import environment, quick

PROBE = """
import json, sys
from kogniterm.ui.repl import Repl

def ready(self):
    with open({report!r}, "w") as stream:
        json.dump(sorted(sys.modules), stream)
    self.front.exit(7)

Repl.ready = ready
from kogniterm.__main__ import main
sys.argv = ["kogniterm"]
sys.exit(main())
"""
HEAVY = (
    "rich", "pydantic", "pydantic_settings", "langchain_core", "langgraph", "google", "openai",
    "anthropic", "httpx", "yaml", "sqlite3", "tree_sitter", "pygments", "markdown_it", "numpy",
    "kogniterm.runtime.session", "kogniterm.agent.graph", "kogniterm.models.model_registry",
    "kogniterm.approval.policy.leases", "kogniterm.text.redact",
)  # fmt: skip


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_the_first_prompt_needs_nothing_heavy(tmp_path: Path, term: str) -> None:
    report = tmp_path / "modules.json"
    script = tmp_path / "probe.py"
    script.write_text(PROBE.format(report=str(report)))
    environment = {**os.environ, "TERM": term, "HOME": str(tmp_path)}
    child = pexpect.spawn(
        sys.executable, [str(script)], env=environment, cwd=str(tmp_path), timeout=120,
        dimensions=(24, 80),
    )  # fmt: skip
    child.expect(pexpect.EOF)
    child.wait()  # `close` would hang up on a program that has not quite ended
    child.close()
    assert child.exitstatus == 7, child.before
    loaded = set(json.loads(report.read_text()))
    assert sorted(loaded.intersection(HEAVY)) == []
    assert ("prompt_toolkit" in loaded) == (term != "dumb")


WATCHED = """
import json, sys, threading
from kogniterm.ui.repl import Repl

found = set()

def note(event, arguments):
    if event == "import" and threading.current_thread() is threading.main_thread():
        found.add(arguments[0])

draw_first = Repl.ready

def ready(self):
    sys.addaudithook(note)
    draw_first(self)

Repl.ready = ready
from kogniterm.__main__ import main
sys.argv = ["kogniterm", "--no-sandbox", "--model", "scripted:" + {model!r}]
status = main()
with open({report!r}, "w") as stream:
    json.dump(sorted(found), stream)
sys.exit(status)
"""


def test_keys_are_taken_while_libraries_load(tmp_path: Path) -> None:
    """Libraries are imported on another thread than the one that shows what is typed."""
    report, model = tmp_path / "modules.json", tmp_path / "model.json"
    model.write_text(json.dumps({"replies": [{"text": "Hello."}]}))
    script = tmp_path / "watched.py"
    script.write_text(WATCHED.format(report=str(report), model=str(model)))
    environment = {**os.environ, "TERM": "xterm-256color", "HOME": str(tmp_path)}
    child = pexpect.spawn(
        sys.executable, [str(script)], env=environment, cwd=str(tmp_path), timeout=120,
        dimensions=(24, 80),
    )  # fmt: skip
    child.expect("›".encode())
    child.send("hi\r")
    child.expect_exact("Hello.")
    child.send("\x04")
    child.expect(pexpect.EOF)
    child.wait()
    child.close()
    assert child.exitstatus == 0, child.before
    on_the_loop = set(json.loads(report.read_text()))
    assert sorted(on_the_loop.intersection(HEAVY)) == []


async def test_a_session_that_opens_while_the_user_leaves_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def open_session(*_given: object, **_named: object) -> object:
        begun.set()
        go_on.wait()
        return SimpleNamespace(close=closed.set)

    monkeypatch.setattr(build, "open_session", open_session)
    monkeypatch.setenv("HOME", str(tmp_path))
    opener = Opener(CallOptions({"model": "local"}), str(tmp_path), quick(environment()))
    opening = asyncio.ensure_future(opener.open(None))
    await asyncio.to_thread(begun.wait)
    opening.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert closed.is_set()
