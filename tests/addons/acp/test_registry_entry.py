"""The entry for the registry of agents, checked as the registry's schema and its check ask."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from kogniterm import __version__
from kogniterm.cli import options
from tests.support.typist import typing_here

ENTRY = Path(__file__).parents[3] / "packaging" / "acp" / "agent.json"


def test_the_entry_starts_this_version_of_the_command() -> None:
    entry: dict[str, Any] = json.loads(ENTRY.read_text("utf-8"))
    assert set(entry) == {
        "id", "name", "version", "description", "authors", "license", "distribution",
    }  # fmt: skip
    assert re.fullmatch(r"[a-z][a-z0-9-]*", entry["id"])
    assert entry["version"] == __version__
    assert entry["distribution"] == {"uvx": {"package": "kogniterm[acp]", "args": ["acp"]}}
    assert options.find(entry["distribution"]["uvx"]["args"][0]) is not None


def test_without_its_package_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "acp", None)
    with typing_here(tmp_path, monkeypatch) as user:
        assert user.type("acp") == 2
        assert "needs the package agent-client-protocol" in user.flat
