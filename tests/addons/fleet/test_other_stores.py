"""The queue beside sessions in a store of another package."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.addons.fleet.task_queue import open_queue
from kogniterm.errors import StorageError
from tests.storage.test_stores import package

__all__ = ["package"]


@pytest.mark.usefixtures("package")
def test_the_queue_needs_postgresql_itself(tmp_path: Path, postgres_url: str) -> None:
    address = postgres_url.replace("postgresql://", "carrots://")
    with pytest.raises(StorageError, match="queue needs a postgresql:// address"):
        open_queue(address, "ana", tmp_path)
