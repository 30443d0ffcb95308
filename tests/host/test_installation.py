"""The suggested install command is the one for the environment that KogniTerm runs in."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from kogniterm.host import installation
from kogniterm.host.installation import (
    install_command,
    missing_bytecode,
    program_folder,
)
from kogniterm.paths import resolve
from kogniterm.runtime.operations.health_checks import Finding, check_installation
from tests.support.ordinary import ordinary


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


def of_bytecode(tmp_path: Path) -> Finding:
    paths = resolve({"HOME": str(tmp_path)})
    found = check_installation(None, paths, lambda: tmp_path, online=False)
    return next(one for one in found if str(one.what).startswith("bytecode"))


def test_doctor_says_what_compiles_missing_bytecode_and_whether_it_stays_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setattr(sys, "pycache_prefix", str(cache))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    missing = missing_bytecode()
    assert missing is not None
    assert str(program_folder()) in missing.folders
    assert any(folder.endswith("-packages") for folder in missing.folders)
    assert missing.command.startswith(f"{sys.executable} -m compileall -q ")
    assert "the next task compiles it first" in str(of_bytecode(tmp_path).what)

    cache.mkdir(mode=0o500)
    with ordinary():
        unsaved = of_bytecode(tmp_path)
    assert "each start compiles it again" in str(unsaved.what)
    assert str(unsaved.fix) == f"as the owner of the folder: {missing.command}"
    cache.chmod(0o700)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    told = of_bytecode(tmp_path)
    assert (told.state, str(told.fix)) == ("note", missing.command)
    assert "each start compiles it again" in str(told.what)

    for package, module in installation._LOADED_BY_EVERY_RUN:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            if (source := Path(folder, module)).exists():
                py_compile.compile(str(source), doraise=True)
    assert str(of_bytecode(tmp_path).what) == "bytecode: compiled"


def test_bytecode_of_another_time_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "kogniterm_changed"
    package.mkdir()
    source = package / "module.py"
    source.write_text("a = 1\n")
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(installation, "_LOADED_BY_EVERY_RUN", (("kogniterm_changed", "module.py"),))
    py_compile.compile(str(source), doraise=True)
    assert missing_bytecode() is None
    os.utime(source, (1, 1))
    missing = missing_bytecode()
    assert missing is not None
    assert missing.folders == (str(package),)
    assert subprocess.run(missing.command.split()).returncode == 0
    assert missing_bytecode() is None
