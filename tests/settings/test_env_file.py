"""Setting and removing a variable in the `.env` of the configuration folder."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kogniterm.errors import SettingsError, StorageError
from kogniterm.settings.layers import read_env_file, remove_variables, save_variable

NAMES = ("KOGNITERM_GOOGLE_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_private_in_a_private_folder(tmp_path: Path) -> None:
    file = tmp_path / "config" / "kogniterm" / ".env"
    save_variable(file, NAMES, "GOOGLE_API_KEY", "AIzaX")
    assert file.read_text() == "GOOGLE_API_KEY=AIzaX\n"
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    assert [path.name for path in file.parent.iterdir()] == [".env"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A=1", "A=1\nGOOGLE_API_KEY=new\n"),
        ("# one\n\nA=1\n# end", "# one\n\nA=1\n# end\nGOOGLE_API_KEY=new\n"),
        ("A=1\n\nexport GEMINI_API_KEY='old'\nB=2\n", "A=1\n\nGOOGLE_API_KEY=new\nB=2\n"),
        ("GOOGLE_API_KEY=old\nA=1\nGEMINI_API_KEY=x\n", "GOOGLE_API_KEY=new\nA=1\n"),
        ("GOOGLE_API_KEYS=1\n", "GOOGLE_API_KEYS=1\nGOOGLE_API_KEY=new\n"),
    ],
)
def test_other_lines_stay(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / ".env"
    file.write_text(before)
    file.chmod(0o644)
    save_variable(file, NAMES, "GOOGLE_API_KEY", "new")
    assert file.read_text() == after
    assert mode(file) == 0o600


@pytest.mark.parametrize("value", ["a b", "it's", 'say "x"', "back\\slash", "a#b", "$HOME", "'"])
def test_any_value_is_read_back_as_it_is(tmp_path: Path, value: str) -> None:
    file = tmp_path / ".env"
    save_variable(file, NAMES, "GOOGLE_API_KEY", value)
    save_variable(file, ("B",), "B", "1")
    assert read_env_file(file)["GOOGLE_API_KEY"].raw == value
    assert read_env_file(file)["B"].raw == "1"


def test_exactly_these_variables_are_removed(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    assert remove_variables(file, NAMES) == ()
    assert not file.exists()
    file.write_text("A=1\nGEMINI_API_KEY=x\n# about B\nB=2\n")
    assert remove_variables(file, NAMES) == ("GEMINI_API_KEY",)
    assert file.read_text() == "A=1\n# about B\nB=2\n"
    assert remove_variables(file, NAMES) == ()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / ".env"
    real.write_text("A=1\n")
    link.symlink_to(real)
    save_variable(link, NAMES, "GOOGLE_API_KEY", "x")
    assert link.is_symlink()
    assert real.read_text() == "A=1\nGOOGLE_API_KEY=x\n"


def test_a_file_that_cannot_be_read_as_one_stays(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("this is no variable\n")
    with pytest.raises(SettingsError, match="line 1"):
        save_variable(file, NAMES, "GOOGLE_API_KEY", "x")
    assert file.read_text() == "this is no variable\n"
    with pytest.raises(StorageError, match="cannot be written"):
        save_variable(file / "below", NAMES, "GOOGLE_API_KEY", "x")
