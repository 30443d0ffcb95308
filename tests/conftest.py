"""What every test gets: a clean environment, no network but 127.0.0.1, a fake Gemini."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support.fake_gemini import FakeGemini

SCRUBBED = (
    "KOGNITERM_",
    "GOOGLE_",
    "GEMINI_",
    "OPENAI_",
    "ANTHROPIC_",
    "OLLAMA_",
    "LANGSMITH_",
    "LANGCHAIN_",
)
SCRUBBED_NAMES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "NO_COLOR", "FORCE_COLOR"}


def _only_this_machine(event: str, arguments: tuple[object, ...]) -> None:
    """Audit hook: no connection leaves the machine (subprocesses are not covered)."""
    if event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple) and not _is_here(address[0]):
            raise PermissionError(f"a test tried to connect to {address[0]}")
    elif event == "socket.getaddrinfo" and not _is_here(arguments[0]):
        raise PermissionError(f"a test asked for the address of {arguments[0]!r}")


def _is_here(host: object) -> bool:
    """Whether `host` is this machine, or a name that nobody can have (RFC 6761)."""
    name = host.decode() if isinstance(host, bytes) else str(host or "localhost")
    return name in {"localhost", "::1"} or name.startswith("127.") or name.endswith(".invalid")


def pytest_configure(config: pytest.Config) -> None:
    """Close the network for the whole test process; make generated cases the same everywhere."""
    sys.addaudithook(_only_this_machine)
    # A busy machine is no failure, hence no deadline.
    hypothesis.settings.register_profile("suite", deadline=None, derandomize=True, database=None)
    hypothesis.settings.load_profile("suite")
    # A run in the background inherits ignored signals, and so would every program tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No key, proxy, tracing or KogniTerm setting of the developer reaches a test.

    The configuration, data and state folders are redirected; the cache is kept, so that pulled
    weights are found.
    """
    for name in list(os.environ):
        if name.startswith(SCRUBBED) or name.upper() in SCRUBBED_NAMES:
            monkeypatch.delenv(name)
    home = Path(tmp_path_factory.getbasetemp()) / "user"
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))


@pytest.fixture
def fake_gemini() -> Iterator[FakeGemini]:
    """A Gemini endpoint on 127.0.0.1; see `tests.support.fake_gemini`."""
    with FakeGemini() as fake:
        yield fake


@pytest.fixture
def closed_port() -> int:
    """A port on 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
