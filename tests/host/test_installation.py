"""The suggested install command is the one for the environment that KogniTerm runs in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kogniterm.host import installation
from kogniterm.host.installation import install_command, program_folder


def test_the_folder_is_the_running_package() -> None:
    assert (program_folder() / "host" / "installation.py") == Path(installation.__file__)


def test_the_command_is_one_that_this_environment_has() -> None:
    program, *rest = install_command("a-package").split()
    assert shutil.which(program) is not None
    assert rest[-2:] == ["install", "a-package"]
    assert subprocess.run([program, *rest[:-1], "--help"], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("/home/ana/.local/share/pipx/venvs/kogniterm", "pipx inject kogniterm 'psycopg[binary]'"),
        ("/home/ana/venvs/work", "-m pip install 'psycopg[binary]'"),
    ],
)
def test_an_environment_of_pipx_is_changed_by_pipx(
    monkeypatch: pytest.MonkeyPatch, prefix: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    assert install_command("psycopg[binary]").endswith(expected)


def test_the_pip_of_this_environment_needs_no_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pip = tmp_path / "bin" / "pip"
    pip.parent.mkdir()
    pip.write_text("#!/bin/sh\n")
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(pip.parent))
    assert install_command("one", "two") == "pip install one two"


def test_an_environment_without_pip_is_changed_by_uv(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path[:] = [p for p in sys.path if not p.endswith('site-packages')]\n"
        f"sys.path.append({str(program_folder().parent)!r})\n"
        "from kogniterm.host.installation import install_command\n"
        "print(install_command('one'), sys.executable)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    command, _, python = done.stdout.rpartition(" ")
    assert command == f"uv pip install --python {python.strip()} one", done.stderr
