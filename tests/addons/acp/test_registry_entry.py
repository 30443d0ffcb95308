"""The entry for the registry of agents, checked as the registry's schema and its check ask."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kogniterm import __version__
from kogniterm.cli import options

ENTRY = Path(__file__).parents[3] / "packaging" / "acp" / "agent.json"


def test_the_entry_starts_this_version_of_the_command() -> None:
    entry: dict[str, Any] = json.loads(ENTRY.read_text("utf-8"))
    assert set(entry) == {
        "id", "name", "version", "description", "authors", "license", "distribution",
    }  # fmt: skip
    assert re.fullmatch(r"[a-z][a-z0-9-]*", entry["id"])
    assert entry["version"] == __version__
    assert entry["distribution"] == {"uvx": {"package": "kogniterm", "args": ["acp"]}}
    assert options.find(entry["distribution"]["uvx"]["args"][0]) is not None
