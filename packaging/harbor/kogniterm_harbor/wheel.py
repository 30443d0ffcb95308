"""The wheel of the KogniTerm beside Harbor, so that what is measured is what is here.

KogniTerm is not on PyPI. In a checkout the wheel is built; an installed KogniTerm is packed again
from its files.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
BUILD_SECONDS = 180
_ONE_AT_A_TIME = threading.Lock()


def local_wheel() -> Path:
    """Return the wheel, made once in a process. Raises `RuntimeError` if it cannot be made."""
    with _ONE_AT_A_TIME:
        return _local_wheel()


@cache
def _local_wheel() -> Path:
    target = Path(tempfile.mkdtemp(prefix="kogniterm-wheel-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    if (CHECKOUT / "pyproject.toml").is_file() and (CHECKOUT / "kogniterm").is_dir():
        return _built(CHECKOUT, target)
    return _packed(importlib.metadata.distribution("kogniterm"), target)


def _built(source: Path, target: Path) -> Path:
    """Build the wheel of a checkout with pip, or with uv where there is no pip."""
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(target)]
    uv = shutil.which("uv")
    commands = [[*pip, str(source)]]
    if uv is not None:
        commands.append([uv, "build", "--quiet", "--wheel", "--out-dir", str(target), str(source)])
    said = ""
    for command in commands:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
        wheels = list(target.glob("kogniterm-*.whl"))
        if done.returncode == 0 and wheels:
            return wheels[0]
        said = done.stderr.strip()
    raise RuntimeError(
        f"The wheel of {source} could not be built: {said[-1000:]}\nBuild it yourself and name it "
        "with --ak package=FILE."
    )


def _packed(distribution: importlib.metadata.Distribution, target: Path) -> Path:
    """Pack the files of an installed distribution into a wheel again."""
    name = f"kogniterm-{distribution.version}"
    wheel = target / f"{name}-py3-none-any.whl"
    record = f"{name}.dist-info/RECORD"
    rows: list[str] = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in distribution.files or ():
            # Scripts and pages of the manual lie outside; pip makes the scripts again.
            if ".." in file.parts or "__pycache__" in file.parts or file.name in _OF_INSTALLERS:
                continue
            data = Path(str(file.locate())).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            rows.append(f'"{file}",sha256={digest.decode()},{len(data)}')
            archive.writestr(str(file), data)
        archive.writestr(record, "\n".join([*rows, f"{record},,", ""]))
    if not any("kogniterm/__init__.py" in row for row in rows):
        raise RuntimeError(
            "The files of the installed KogniTerm are not known; name its wheel with "
            "--ak package=FILE."
        )
    return wheel


_OF_INSTALLERS = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
