"""Programs of the host process come from system folders, whatever PATH contains."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.host.programs import find_program, find_user_program, host_environment


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


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_the_users_editor_is_found_on_their_path_but_not_in_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    for folder in (work / ".venv" / "bin", work, tmp_path / "own"):
        program(folder, "my-editor")
    (tmp_path / "linked").symlink_to(work / ".venv" / "bin")
    planted = [f"{work}/.venv/bin", ".", "", ".venv/bin", f"{tmp_path}/linked", str(work)]
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", ":".join(planted))
    assert find_user_program("my-editor", str(work)) is None
    monkeypatch.setenv("PATH", ":".join([*planted, f"{tmp_path}/own"]))
    assert find_user_program("my-editor", str(work)) == f"{tmp_path}/own/my-editor"
    assert find_user_program("/chosen/editor", str(work)) == "/chosen/editor"
    for relative in ("./my-editor", ".venv/bin/my-editor"):
        assert find_user_program(relative, str(work)) is None


def test_programs_of_ours_get_nothing_that_steers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LD_PRELOAD", "GIT_DIR", "GIT_SSH_COMMAND", "PYTHONPATH", "BASH_ENV", "RIPGREP"):
        monkeypatch.setenv(name, "./evil")
    monkeypatch.setenv("PATH", "/planted")
    found = host_environment()
    assert not {name for name in found if name.startswith(("LD_", "GIT_", "PYTHON", "BASH", "RIP"))}
    assert "planted" not in found["PATH"]
