"""Fixtures of every test: the same environment everywhere, no network, a fake Gemini."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest

from kogniterm import installed
from kogniterm.paths import resolve
from tests.support import marking
from tests.support.fake_gemini import FakeGemini
from tests.support.figures import Figures, Report
from tests.support.forge import Forge, until
from tests.support.programs import missing_line, skip_in_need
from tests.support.warm import quick_server, runtime_folder

KEPT = {"LD_LIBRARY_PATH", "NODE_EXTRA_CA_CERTS"}
KEPT_PREFIXES = ("UPDATE_", "KOGNITERM_TEST_", "PYTEST_", "PIP_", "NPM_CONFIG_", "COV")
PINNED = {
    "LANG": "C.UTF-8",
    "TERM": "xterm-256color",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "KOGNITERM_WARM": "off",  # a server for each home of a test would stay for some time
    # Every client of a provider reads all trusted authorities, more than a hundred, which takes
    # longer than most tests; no test connects to a server that they have signed for.
    "SSL_CERT_FILE": str(Path(__file__).with_name("data") / "authority.pem"),
}
"""Variables that differ between a workstation, a container and CI, and must not affect tests."""
_HOMES = itertools.count()


def _only_this_machine(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse connections that leave the machine (audit hook; subprocesses are not covered)."""
    if event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple) and not _is_here(address[0]):
            raise PermissionError(f"a test tried to connect to {address[0]}")
    elif event == "socket.getaddrinfo" and not _is_here(arguments[0]):
        raise PermissionError(f"a test asked for the address of {arguments[0]!r}")


def _is_here(host: object) -> bool:
    """Return whether `host` is this machine, or a name that never resolves (RFC 6761)."""
    name = host.decode() if isinstance(host, bytes) else str(host or "localhost")
    return name in {"localhost", "::1"} or name.startswith("127.") or name.endswith(".invalid")


def _environment(found: Mapping[str, str], place: Path) -> dict[str, str]:
    """Return the environment of all tests, based on `found`; `place` holds home and tmp.

    Python's programs come first on the path, so that `python3` in a command is this Python. The
    weights and packages stay where they were fetched to; nothing else of the user who runs the
    tests is seen. What tests are given to write to is still where pytest would have put it.
    """
    kept = {n: v for n, v in found.items() if n in KEPT or n.startswith(KEPT_PREFIXES)}
    here = str(Path(sys.executable).parent)
    folders = [folder for folder in found.get("PATH", os.defpath).split(":") if folder != here]
    cache = resolve(found).cache
    fetched = {
        "KOGNITERM_TEST_WEIGHTS": str(cache / "models"),
        "KOGNITERM_TEST_PACKAGES": str(cache / "test-packages"),
        # npm reads which registry it is to use from the home that tests do not have.
        "NPM_CONFIG_USERCONFIG": str(Path(found.get("HOME", "/nonexistent")) / ".npmrc"),
    }
    root = {"PYTEST_DEBUG_TEMPROOT": found.get("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())}
    own = {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp")}
    return {**fetched, **kept, **root, **PINNED, "PATH": ":".join([here, *folders]), **own}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of a part of the suite, and the file for its figures."""
    parts = "; ".join(f"{name}: {meaning}" for name, meaning in marking.PARTS.items())
    parser.addoption("--part", action="append", choices=[*marking.PARTS], help=parts)
    parser.addoption("--figures", type=Path, help="file for each test's CPU seconds and starts")


def pytest_configure(config: pytest.Config) -> None:
    """Make the test process, and so every program it starts, the same everywhere."""
    gc.disable()  # until all is collected
    sys.addaudithook(_only_this_machine)
    for name, meaning in marking.MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.pluginmanager.register(Figures())
    config.pluginmanager.register(Report(config.getoption("figures")))
    # A slow machine is no failure: no deadline, and no limit on slow generation of examples.
    hypothesis.settings.register_profile(
        "suite",
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("suite")
    place = Path(tempfile.mkdtemp(prefix="kogniterm-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))
    environment = _environment(os.environ, place)
    os.environ.clear()
    os.environ.update(environment)
    for name in ("HOME", "TMPDIR"):
        Path(environment[name]).mkdir()
    tempfile.tempdir = environment["TMPDIR"]
    time.tzset()
    os.umask(0o022)
    # A run in the background inherits ignored and blocked signals, and so would every program that
    # tests start.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Start one worker more than there are processors for the fast tests: they often wait."""
    if config.getoption("part") != ["fast"]:
        return None
    from xdist.plugin import pytest_xdist_auto_num_workers as processors

    return processors(config) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep tests that share something expensive in one worker, with `--dist loadgroup`."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.support.sharing import SharingScheduler

    return SharingScheduler(config, log)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test, and skip it if it needs a program which is not installed."""
    marking.mark(item)
    skip_in_need(item)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of other parts out."""
    if wanted := config.getoption("part"):
        parts: dict[bool, list[pytest.Item]] = {True: [], False: []}
        for item in items:
            parts[marking.belongs(item, wanted)].append(item)
        items[:] = parts[True]
        config.hook.pytest_deselected(items=parts[False])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, object, object]:
    """Print after the summary which programs would let the skipped tests run."""
    result = yield
    reports = terminalreporter.stats.get("skipped", [])
    if line := missing_line(str(report.longrepr) for report in reports):
        terminalreporter.line(line, yellow=True)
    return result


def pytest_collection_finish() -> None:
    """Remove KogniTerm's settings from the environment once the test modules have read them.

    What was collected stays until the end: looking through it for garbage takes half a second.
    """
    gc.freeze()
    gc.enable()
    own = (name for name in os.environ if name.startswith("KOGNITERM_"))
    for name in [name for name in own if name not in PINNED]:
        del os.environ[name]


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    """Fail the run if processes or files that tests started are left when all tests have run."""
    yield
    folder = os.environ["TMPDIR"]
    try:
        until(lambda: not left_behind(folder))
    except TimeoutError:
        pytest.fail(f"left behind: {left_behind(folder)}", pytrace=False)


def left_behind(folder: str) -> list[str]:
    """Return KogniTerm's files in `folder`, and the processes that have it as TMPDIR."""
    left = [path.name for path in Path(folder).glob("kogniterm*")]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TMPDIR={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                said = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                left.append(f"{process.name}: {said.decode(errors='replace')}")
    return left


@pytest.fixture(autouse=True)
def _home_of_its_own(monkeypatch: pytest.MonkeyPatch, _homes: Path) -> None:
    """Give each test a home of its own."""
    home = _homes / str(next(_HOMES))
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(scope="session")
def _memory_folders() -> Iterator[Path]:
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="kogniterm-tests-", dir=parent) as folder:
        yield Path(folder)


@pytest.fixture
def memory_folder(_memory_folders: Path) -> Iterator[Path]:
    """Yield a folder in memory, or on disk where the system has none in memory."""
    folder = Path(tempfile.mkdtemp(dir=_memory_folders))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # what a test protected goes with the last one


@pytest.fixture
def fake_gemini() -> Iterator[FakeGemini]:
    """Yield a Gemini endpoint on 127.0.0.1; see `tests.support.fake_gemini`."""
    with FakeGemini() as fake:
        yield fake


@pytest.fixture(scope="session")
def _forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()


@pytest.fixture
def forge(_forge: Forge) -> Iterator[Forge]:
    """Yield a server that starts the real program without repeated imports; see its module."""
    yield _forge
    _forge.settle()


@pytest.fixture(scope="session")
def warm_starts() -> Iterator[dict[str, str]]:
    """Yield the variables with which programs share one warm server.

    So no session may see anything of the one before. Without them, and without the add-on,
    programs start plain.
    """
    if not installed.rows("AROUND_CALL"):
        yield {}
        return
    # The address of a socket is short, and pytest's folders need not be.
    with tempfile.TemporaryDirectory(prefix="kt-", dir="/var/tmp") as place:
        runtime = runtime_folder(Path(place))
        with quick_server(runtime):
            yield {"XDG_RUNTIME_DIR": str(runtime), "KOGNITERM_WARM": "auto"}


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Yield a port on 127.0.0.1 that refuses connections and that no other process can take."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
