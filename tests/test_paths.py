"""Locations of files: the XDG rules and KogniTerm's own overrides."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kogniterm.errors import SettingsError, UsageError
from kogniterm.paths import SessionId, resolve
from kogniterm.storage.folders import expand_path, private_folder


def test_the_defaults_stand_below_home() -> None:
    paths = resolve({"HOME": "/home/ana"})
    assert paths.config == Path("/home/ana/.config/kogniterm")
    assert paths.data == Path("/home/ana/.local/share/kogniterm")
    assert paths.cache == Path("/home/ana/.cache/kogniterm")


def test_xdg_folders_win_over_the_defaults() -> None:
    paths = resolve({"HOME": "/home/ana", "XDG_DATA_HOME": "/srv/data"})
    assert paths.data == Path("/srv/data/kogniterm")
    assert paths.config == Path("/home/ana/.config/kogniterm")


def test_a_relative_xdg_folder_is_ignored_as_the_specification_says() -> None:
    assert resolve({"HOME": "/h", "XDG_CONFIG_HOME": "conf"}).config == Path("/h/.config/kogniterm")


def test_our_own_variable_wins_and_is_taken_as_it_is() -> None:
    environ = {"HOME": "/h", "XDG_DATA_HOME": "/x", "KOGNITERM_DATA_DIR": "/k"}
    assert resolve(environ).data == Path("/k")
    assert resolve(environ | {"KOGNITERM_DATA_DIR": "~/k"}).data == Path("/h/k")


def test_a_relative_override_is_an_error_because_it_would_follow_the_working_folder() -> None:
    with pytest.raises(
        SettingsError, match="KOGNITERM_CONFIG_DIR must be an absolute path, not conf"
    ):
        resolve({"HOME": "/h", "KOGNITERM_CONFIG_DIR": "conf"})


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "-", "a-", "x" * 65, "a\n"])
def test_an_id_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the ID of a session"):
        SessionId(name)


@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_a_home_the_sentence_says_what_to_set(home: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="HOME is not set"):
        resolve(home)


def test_three_overrides_need_no_home() -> None:
    environ = {f"KOGNITERM_{kind}_DIR": f"/k/{kind}" for kind in ("CONFIG", "DATA", "CACHE")}
    assert resolve(environ).database == Path("/k/DATA/kogniterm.db")


def test_every_file_has_its_folder() -> None:
    paths = resolve({"HOME": "/h"})
    in_config = {
        paths.config_file, paths.env_file, paths.policy_file, paths.permissions_file
    }  # fmt: skip
    in_data = {
        paths.database, *paths.of_sessions, paths.log_file, paths.history_file,
        paths.permission_uses,
    }  # fmt: skip
    assert all(paths.config in file.parents for file in in_config)
    assert all(paths.data in file.parents for file in in_data)
    assert paths.cache in paths.weights.parents


def test_a_name_is_taken_as_a_shell_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    assert expand_path("/work", "a.txt") == Path("/work/a.txt")
    assert expand_path("/work", "/etc/hosts") == Path("/etc/hosts")
    assert expand_path("/work", "~/a.txt") == Path("/home/ana/a.txt")
    assert expand_path("/work", "~nobody-of-this-name/x") == Path("/work/~nobody-of-this-name/x")


def test_a_folder_is_made_private_with_all_above_it_and_none_is_changed(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "file").touch()
    before = os.umask(0)
    try:
        private_folder(tmp_path / "open" / "a" / "b")
        private_folder(tmp_path / "open" / "a" / "b")
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("open", "open/a", "open/a/b")]
    assert modes == [0o755, 0o700, 0o700]
    for name in ("file", "file/a"):
        with pytest.raises(NotADirectoryError):
            private_folder(tmp_path / name)
