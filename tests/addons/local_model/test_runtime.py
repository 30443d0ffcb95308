"""The worker process: library faults become one error message, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kogniterm.addons.local_model.runtime import FinishedReply, LocalPrompt, Runtime
from kogniterm.errors import ModelReplyError, ModelUnavailableError

PRELOAD = """
import sys
from pathlib import Path
from kogniterm.addons.local_model.runtime import Runtime
runtime = Runtime(Path(sys.argv[1]), context=256)
runtime.preload()
print("started", flush=True)
sys.stdin.read()
"""
# The part of the library that the worker uses; `fault` is the body of its completion.
BROKEN_LIBRARY = """
import os
class Threads: n_threads = 0; poll = 0
class Model: path = ""
class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = Model(), Threads(), Threads()
class Server:
    def __init__(self, parameters): pass
    def handle_completions(self, request, callback):
        {fault}
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a file that the worker imports in place of the native library."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "xllamacpp.py"


async def complete(file: Path) -> list[str | FinishedReply]:
    """Return all events of one small completion."""
    runtime = Runtime(file, context=256)
    try:
        return [event async for event in runtime.complete(LocalPrompt("a", 4))]
    finally:
        runtime.close()


async def test_missing_system_library_names_the_packages(library: Path, tmp_path: Path) -> None:
    library.write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    with pytest.raises(ModelUnavailableError, match=r"libgomp\.so\.1.*apt install libgomp1"):
        await complete(tmp_path / "any.gguf")


async def test_missing_runtime_names_its_package(library: Path, tmp_path: Path) -> None:
    library.write_text("raise ModuleNotFoundError('xllamacpp')")
    with pytest.raises(ModelUnavailableError, match=r"Run `.*pip install xllamacpp`"):
        await complete(tmp_path / "any.gguf")


async def test_worker_that_dies_twice_is_told(library: Path, tmp_path: Path) -> None:
    fault = "os.write(2, b'out of memory\\n'); os._exit(9)"
    library.write_text(BROKEN_LIBRARY.format(fault=fault))
    with pytest.raises(ModelUnavailableError, match=r"ended unexpectedly \(out of memory\)"):
        await complete(tmp_path / "any.gguf")


async def test_worker_that_dies_once_is_replaced(library: Path, tmp_path: Path) -> None:
    done = (
        "callback({'choices': [{'text': 'x', 'finish_reason': 'stop'}],"
        " 'usage': {'prompt_tokens': 3, 'completion_tokens': 1}})"
    )
    flag = tmp_path / "died"
    fault = f"os._exit(9) if not os.path.exists({str(flag)!r}) and not "
    fault += f"os.close(os.open({str(flag)!r}, os.O_CREAT)) else {done}"
    library.write_text(BROKEN_LIBRARY.format(fault=fault))
    assert await complete(tmp_path / "any.gguf") == ["x", FinishedReply(False, 3, 1, 0)]


async def test_loading_is_waited_for_and_over_whatever_comes_of_it(
    library: Path, tmp_path: Path
) -> None:
    for text, loaded in ((BROKEN_LIBRARY.format(fault="pass"), True), ("raise ImportError", False)):
        library.write_text(text)
        runtime = Runtime(tmp_path / "any.gguf", context=256)
        try:
            assert not runtime.loaded
            await asyncio.gather(runtime.load(), runtime.load())
            await runtime.load()
            assert runtime.loaded is loaded
        finally:
            runtime.close()


async def test_refused_request_is_a_reply_error(library: Path, tmp_path: Path) -> None:
    fault = "callback({'error': {'type': 'invalid_request_error', 'message': 'bad grammar'}})"
    library.write_text(BROKEN_LIBRARY.format(fault=fault))
    with pytest.raises(ModelReplyError, match="bad grammar"):
        await complete(tmp_path / "any.gguf")


async def test_closed_between_two_words_its_reader_ends_quietly(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = "callback({'choices': [{'text': 'x', 'finish_reason': 'stop'}], 'usage': {}})"
    library.write_text(BROKEN_LIBRARY.format(fault=done))
    runtime = Runtime(tmp_path / "any.gguf", context=256)
    loop, broken, readers = asyncio.get_running_loop(), [], []
    hand_over = loop.call_soon_threadsafe

    def close_and_hand_over(*args: Any) -> asyncio.Handle:
        """Close the runtime when the reader hands over a line, before it asks for the next one."""
        readers.append(threading.current_thread())
        runtime.close()
        return hand_over(*args)

    monkeypatch.setattr(threading, "excepthook", broken.append)
    monkeypatch.setattr(loop, "call_soon_threadsafe", close_and_hand_over)
    with contextlib.suppress(ModelUnavailableError):
        _ = [event async for event in runtime.complete(LocalPrompt("a", 4))]
    monkeypatch.undo()
    runtime.close()
    for reader in readers:
        await asyncio.to_thread(reader.join)
    assert readers
    assert not broken


def test_killed_session_leaves_no_worker(library: Path, tmp_path: Path) -> None:
    library.write_text(BROKEN_LIBRARY.format(fault="pass"))
    session = subprocess.Popen(
        [sys.executable, "-c", PRELOAD, str(tmp_path / "any.gguf")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with session:
        assert session.stdout is not None
        assert session.stdout.readline() == b"started\n"
        children = Path(f"/proc/{session.pid}/task/{session.pid}/children").read_text()
        worker = os.pidfd_open(int(children.split()[0]))
        session.send_signal(signal.SIGKILL)
    try:
        gone = select.poll()
        gone.register(worker, select.POLLIN)
        assert gone.poll(60_000)
    finally:
        os.close(worker)
