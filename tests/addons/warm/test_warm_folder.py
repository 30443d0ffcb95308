"""The folder and names of the warm server where there is no runtime folder, and attacks on them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kogniterm import paths
from kogniterm.addons.warm import warm_place
from kogniterm.addons.warm.warm_place import below
from kogniterm.addons.warm.warm_start import make_folder, running_servers, take_socket
from kogniterm.addons.warm.warm_verb import ACTIONS
from kogniterm.cli.options import CallOptions
from tests.support.forge import until

SERVER = """
import os, signal, sys

def fork(*_):
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    serve()

def serve():
    os.pwrite(int(sys.argv[1]), b"%-9d" % os.getpid(), 0)
    signal.pause()

signal.signal(signal.SIGTERM, fork)
serve()
"""
"""A server that becomes another process when it is to end, as one may that has just loaded."""


@pytest.mark.parametrize(
    "environ",
    [
        {"HOME": "/home/ana"},
        {"HOME": "/home/ana", "XDG_CACHE_HOME": "/var/cache/ana"},
        {"HOME": "/home/ana", "XDG_CACHE_HOME": "cache", "XDG_RUNTIME_DIR": "/none"},
        {"HOME": "/home/ana", "KOGNITERM_CACHE_DIR": "~/kept"},
        {"HOME": "/home/ana", "KOGNITERM_CACHE_DIR": "/kept/"},
    ],
)
def test_it_is_in_the_cache_that_all_else_uses(environ: dict[str, str]) -> None:
    cache = paths.resolve(environ).cache
    assert warm_place.socket_folder(environ) == f"{cache}/warm-{os.geteuid()}"


def test_sudo_and_variables_of_the_loader_ask_for_a_plain_start() -> None:
    environ = {"HOME": "/", "SUDO_USER": "ana", "LD_PRELOAD": "", "PYTHONUNBUFFERED": "1"}
    assert warm_place.plain_variables(environ) == ["SUDO_USER", "LD_PRELOAD"]


def test_without_a_folder_there_is_no_server(tmp_path: Path) -> None:
    assert warm_place.socket_folder({}) is None
    assert warm_place.socket_folder({"HOME": "here", "KOGNITERM_CACHE_DIR": "~"}) is None
    assert make_folder({}) is None
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_folder({"KOGNITERM_CACHE_DIR": str(tmp_path / "file/below")})


def test_a_runtime_folder_that_others_can_enter_is_not_used(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path), "HOME": "/home/ana"}
    tmp_path.chmod(0o700)
    assert warm_place.socket_folder(environ) == f"{tmp_path}/kogniterm"
    tmp_path.chmod(0o750)
    assert str(warm_place.socket_folder(environ)).startswith("/home/ana/.cache/")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def folder(cache: Path) -> Path:
    """Return the path of the folder, which is not there yet."""
    return cache / f"warm-{os.geteuid()}"


def made(cache: Path) -> int | None:
    return make_folder({"KOGNITERM_CACHE_DIR": str(cache)})


def test_it_is_closed_to_others_and_a_link_is_not_followed(cache: Path, folder: Path) -> None:
    old = os.umask(0)
    try:
        opened = made(cache)
    finally:
        os.umask(old)
    assert opened is not None
    os.close(opened)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o701)
    assert made(cache) is None
    folder.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(folder, 12345, 12345)
        assert made(cache) is None
        os.chown(folder, 0, 0)
    folder.rename(cache / "own")
    folder.symlink_to(cache / "own")
    assert made(cache) is None


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[int]:
    """Yield the folder in a cache with a path that is too long for the address of a socket."""
    found = made(tmp_path.joinpath(*["a long name of a folder"] * 8))
    assert found is not None
    yield found
    os.close(found)


def names(opened: int) -> list[str]:
    return sorted(os.listdir(opened))


def test_one_server_has_the_folder_and_a_later_one_takes_over_its_socket(opened: int) -> None:
    with ExitStack() as closing:
        take_socket(opened, closing)
        with pytest.raises(BlockingIOError):
            take_socket(opened, closing)
        first = names(opened)
        assert [name.rpartition(".")[2] for name in first] == ["sock", "lock"]
    with ExitStack() as closing:
        take_socket(opened, closing)
        assert names(opened) == first


def test_the_next_server_removes_what_ended_ones_left_and_nothing_else(opened: int) -> None:
    before, elsewhere, own = (f"warm-{n:08x}-00000000" for n in (1, 2, 3))
    for stem in (before, elsewhere):
        for name in (f"{stem}.lock", f"{stem}-00000000.sock"):
            os.close(os.open(below(opened, name), os.O_CREAT))
    Path(below(opened, f"{own}.lock")).symlink_to("/etc/passwd")
    held = os.open(below(opened, f"{elsewhere}.lock"), os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    with ExitStack() as closing:
        take_socket(opened, closing)
        left = [name for name in names(opened) if not name.startswith(warm_place.server_name())]
    os.close(held)
    assert left == [f"{elsewhere}-00000000.sock", f"{elsewhere}.lock"]


def test_a_lock_that_is_a_link_is_not_written_through(opened: int, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    Path(below(opened, f"{warm_place.server_name()}.lock")).symlink_to(kept)
    with ExitStack() as closing, pytest.raises(OSError, match="symbolic links"):
        take_socket(opened, closing)
    assert kept.read_text() == "kept"


def test_a_server_that_has_just_become_another_process_is_ended_too(
    cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("KOGNITERM_CACHE_DIR", str(cache))
    opened = made(cache)
    assert opened is not None
    with ExitStack() as closing:
        closing.callback(os.close, opened)
        lock, _socket = take_socket(opened, closing)
        words = [sys.executable, "-I", "-S", "-c", SERVER, str(lock)]
        server = subprocess.Popen(words, pass_fds=[lock])
    until(lambda: next(folder.glob("*.lock")).read_text() != "")
    ACTIONS[0].run(CallOptions({}))
    assert running_servers() == []
    assert server.wait() == 0
