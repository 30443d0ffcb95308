"""Scripts named in a command: hashed at approval, compared at the start.

An approved `./deploy.sh` could be changed between the approval and the run; then what runs
would not be what was approved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from kogniterm.approval import scripts_named
from kogniterm.paths import named
from kogniterm.sessions.fold import SessionState
from kogniterm.types import RiskReport

MAX_SCRIPT = 4 * 1024 * 1024


def script_hashes(report: RiskReport, cwd: str) -> Mapping[str, str]:
    """SHA-256 of every existing regular file that `report`'s command would run as a script."""
    hashes = {}
    for name in scripts_named(report):
        digest = _digest(named(cwd, name))
        if digest is not None:
            hashes[name] = digest
    return hashes


def changed_scripts(state: SessionState, request_id: str, cwd: str) -> str | None:
    """The first script whose content is no longer what was approved, or None."""
    requested = state.requested.get(request_id)
    for name, digest in (requested.script_hashes if requested else {}).items():
        if _digest(named(cwd, name)) != digest:
            return name
    return None


def _digest(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > MAX_SCRIPT:
            return None
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):  # or a name that no file can have
        return None
