"""The real program beside a flow: in its folders, with its model, unattended."""

from __future__ import annotations

import json
from typing import Any

from tests.flows.conftest import Flow
from tests.support.forge import Forge, Started


def start(forge: Forge, flow: Flow, *words: str, faults: str = "") -> Started:
    """Start `kogniterm WORDS`; `faults` as KOGNITERM_FAULTS has them."""
    environ = {**flow.environ, **({"KOGNITERM_FAULTS": faults} if faults else {})}
    return forge.start(words, environ=environ, folder=flow.folder, scratch=flow.folder.parent)


def start_run(forge: Forge, flow: Flow, *words: str, faults: str = "") -> Started:
    """Start `kogniterm run WORDS` with the flow's model."""
    model = str(flow.flags["model"])
    return start(forge, flow, "run", "--no-sandbox", "--model", model, *words, faults=faults)


def replayed(forge: Forge, flow: Flow, *words: str) -> tuple[int, dict[str, Any]]:
    """Return exit status and report of `kogniterm replay WORDS`, by default of the last session."""
    started = start(forge, flow, "replay", *(words or ("last",)), "--json")
    status = started.wait()
    assert started.out.read_text().startswith("{"), started.said
    return status, json.loads(started.out.read_text())
