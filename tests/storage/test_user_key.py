"""Keys of the user are 32 random bytes, however the file was left."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.storage.user_key import export_key, read_key, take_over


@pytest.mark.parametrize("left", [b"", b"x", b"x" * 31, b"x" * 33])
def test_a_file_that_holds_no_whole_key_is_replaced(tmp_path: Path, left: bytes) -> None:
    file = tmp_path / "queue.key"
    file.write_bytes(left)
    key = read_key(file)
    assert len(key) == 32
    assert file.read_bytes() == key == read_key(file)
    assert list(tmp_path.iterdir()) == [file]


def test_a_key_moves_to_another_machine(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    take_over(second, f"{export_key(first)}\n")
    assert read_key(second) == read_key(first)
