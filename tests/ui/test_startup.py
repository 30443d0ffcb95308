"""The first prompt comes before heavy imports, which is checked by module, not by time."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pexpect
import pytest

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
