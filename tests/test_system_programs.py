"""Programs of the host process come from system folders, whatever PATH says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.system_programs import find_program


def test_a_program_on_path_outside_the_system_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sh", "a-program-of-the-workspace"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("a-program-of-the-workspace") is None
    found = find_program("sh")
    assert found is not None
    assert Path(found).is_absolute()
    assert not found.startswith(str(tmp_path))
