"""The test suite's own promises: the network is closed, the environment is clean."""

from __future__ import annotations

import os
import socket

import pytest


@pytest.mark.parametrize("host", ["example.org", "192.0.2.1", "10.0.0.1"])
def test_no_connection_leaves_the_machine(host: str) -> None:
    with pytest.raises(PermissionError, match="a test "):
        socket.create_connection((host, 80), timeout=1)


def test_this_machine_can_be_reached(closed_port: int) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", closed_port), timeout=5)


def test_no_key_of_the_developer_is_seen() -> None:
    assert not [name for name in os.environ if name.endswith("_API_KEY")]
    assert not [name for name in os.environ if name.startswith(("KOGNITERM_", "LANGSMITH_"))]
