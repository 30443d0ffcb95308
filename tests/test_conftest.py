"""Guarantees of the test suite: the network is closed, and the environment is clean."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.conftest import KEPT, KEPT_PREFIXES, PINNED, _environment
from tests.support.programs import installed, missing_line, require


@pytest.mark.parametrize("host", ["example.org", "192.0.2.1", "10.0.0.1"])
def test_no_connection_leaves_the_machine(host: str) -> None:
    with pytest.raises(PermissionError, match="a test "):
        socket.create_connection((host, 80), timeout=1)


def test_this_machine_can_be_reached(closed_port: int) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", closed_port), timeout=5)


def test_the_environment_is_the_same_everywhere() -> None:
    assert {name: os.environ[name] for name in PINNED} == PINNED
    others = {"PATH", "HOME", "TMPDIR", *PINNED, *KEPT}
    left = [name for name in os.environ if name not in others]
    assert [name for name in left if not name.startswith(KEPT_PREFIXES)] == []
    assert not [name for name in left if name.startswith("KOGNITERM_")]


def test_nothing_of_the_user_is_kept() -> None:
    theirs = {"HOME": "/home/ana", "PATH": "/bin", "GOOGLE_API_KEY": "k", "LC_ALL": "es_ES.UTF-8"}
    made = _environment(theirs, Path("/h"))
    assert (made["HOME"], made["TMPDIR"]) == ("/h/home", "/h/tmp")
    assert made["PATH"].endswith(":/bin")
    assert made["KOGNITERM_TEST_WEIGHTS"] == "/home/ana/.cache/kogniterm/models"
    assert not theirs.keys() & made.keys() - {"HOME", "PATH"}


def test_every_test_has_a_home_of_its_own() -> None:
    assert list(Path.home().iterdir()) == []


def test_a_program_counts_only_where_everybody_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, mode in (("own", 0o755), ("covered", 0o444)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "planted").touch(mode)
    monkeypatch.setenv("PATH", f"{tmp_path}/own:{tmp_path}/covered:{os.environ['PATH']}")
    assert installed("sh")
    assert not installed("planted")  # on PATH, but in no system folder
    assert not installed("no-such-program")


def test_missing_programs_are_named_with_the_tests_they_keep_from_running() -> None:
    with pytest.raises(pytest.skip.Exception) as skipped:
        require("sh", "no-such-program", "nor-this-one")
    reasons = [str(skipped.value), "needs nor-this-one, not installed", "only root may do that"]
    assert missing_line(reasons) == (
        "2 tests were skipped for want of no-such-program (1), nor-this-one (2): "
        "`make test-programs` installs them or says how"
    )
    assert missing_line(["only root may do that"]) == ""


SKIPS_BY_ITSELF = re.compile(
    r"\bskip(?:if)?\((?:[^()]|\([^()]*\))*?(?:which\(|find_program\(|(?<! extra) is not installed)"
)


def test_tests_name_the_programs_they_need_with_the_one_helper() -> None:
    """Otherwise the end of a run could not name the programs that skipped tests need."""
    for planted in (
        "pytest.mark.skipif(shutil.which('x') is None, reason='y')",
        "pytest.skip(f'{name} is not installed')",
    ):
        assert SKIPS_BY_ITSELF.search(planted)
    tests = Path(__file__).parent
    found = [
        f"{file.relative_to(tests)}: use needs() or require() of tests.support.programs"
        for file in tests.rglob("*.py")
        if file != Path(__file__) and SKIPS_BY_ITSELF.search(file.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_the_end_of_a_run_says_what_is_missing(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    (tmp_path / "test_it.py").write_text(
        "from tests.support.programs import needs\n"
        "@needs('no-such-program')\ndef test_one(): raise AssertionError\n"
    )
    options = ["-q", "-n", "1", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    options += [
        f"--basetemp={tmp_path / 'inner'}",
        "--confcutdir",
        str(tmp_path),
        "-c",
        str(root / "pyproject.toml"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    *_, said, last = done.stdout.splitlines()
    assert said.startswith("1 test was skipped for want of no-such-program (1): `make ")
    assert re.match(r"1 skipped in ", last)


@pytest.mark.parametrize("module", ["kogniterm.paths", "tests.test_x", "benchmarks.gate"])
def test_a_warning_of_this_project_is_an_error(module: str) -> None:
    with pytest.raises(DeprecationWarning):
        warnings.warn_explicit("old", DeprecationWarning, "file.py", 1, module)


def test_a_warning_of_a_library_is_listed() -> None:
    with warnings.catch_warnings(record=True) as listed:
        warnings.warn_explicit("old", DeprecationWarning, "file.py", 1, "langsmith.kogniterm")
    assert [str(one.message) for one in listed] == ["old"]
