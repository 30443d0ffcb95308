"""Files that are no regular ones are refused without a wait, whatever they are read for."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kogniterm.errors import KognitermError
from kogniterm.prompts import own_files
from kogniterm.runtime.extensions.hooks.hook_files import user_hooks
from kogniterm.runtime.services.policy_service import rules_of
from kogniterm.settings import quick
from kogniterm.settings.layers import read_text
from kogniterm.storage.folders import read_file


@pytest.fixture(params=["pipe", "device", "folder"])
def no_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "config" / "file.md"
    path.parent.mkdir()
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    return path


def test_no_regular_file_is_an_error_at_once(no_file: Path) -> None:
    with pytest.raises(OSError, match=r"egular file|s a directory") as caught:
        read_file(no_file)
    assert caught.value.errno in (errno.EINVAL, errno.EISDIR)


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "b").symlink_to("a")
    assert (read_file(tmp_path / "b"), read_file(tmp_path / "b", 2)) == (b"text", b"te")


READERS: dict[str, Callable[[Path], object]] = {
    "settings": read_text,
    "hooks": user_hooks,
    "rules": rules_of,
    "prompts": lambda path: own_files(path.parent),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_files_of_the_user_say_what_is_wrong(no_file: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(KognitermError, match=str(no_file)):
        read(no_file)


def test_the_first_look_at_the_settings_does_without(tmp_path: Path) -> None:
    for name in ("config.toml", ".env"):
        os.mkfifo(tmp_path / name)
    quick({"KOGNITERM_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path)}, {})
