"""The test suite's own promises: the network is closed, the environment is clean."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.conftest import KEPT, KEPT_PREFIXES, PINNED, _environment


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


def test_nothing_of_the_person_is_kept() -> None:
    theirs = {"HOME": "/home/ana", "PATH": "/bin", "GOOGLE_API_KEY": "k", "LC_ALL": "es_ES.UTF-8"}
    made = _environment(theirs, Path("/h"))
    assert (made["HOME"], made["TMPDIR"]) == ("/h/home", "/h/tmp")
    assert made["PATH"].endswith(":/bin")
    assert made["KOGNITERM_TEST_WEIGHTS"] == "/home/ana/.cache/kogniterm/models"
    assert not theirs.keys() & made.keys() - {"HOME", "PATH"}


def test_every_test_has_a_home_of_its_own() -> None:
    assert list(Path.home().iterdir()) == []
