"""For tests of code that is the same on a server: `location` is a file only."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(name="location")
def in_file(tmp_path: Path) -> Path:
    """Return the location of an empty database, for a module that imports this fixture."""
    return tmp_path / "state" / "kogniterm.db"


ON_FILE = pytest.mark.parametrize("location", ["sqlite"], indirect=True)
"""For single tests."""
