"""The environment of a user who has a home of a test's own."""

from __future__ import annotations

import os
from pathlib import Path


def environ_of(home: Path) -> dict[str, str]:
    """Return the variables of a user whose files are in `config`, `data` and `cache` of `home`."""
    return {
        "HOME": str(home),
        "KOGNITERM_WARM": "off",
        "PATH": os.environ["PATH"],
        "TMPDIR": os.environ["TMPDIR"],
        "LANG": "C.UTF-8",
        "KOGNITERM_CONFIG_DIR": str(home / "config"),
        "KOGNITERM_DATA_DIR": str(home / "data"),
        "KOGNITERM_CACHE_DIR": str(home / "cache"),
    }
