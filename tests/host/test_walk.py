"""The walk over a folder: its order, its limits, and what it reports instead of looking into it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kogniterm.host.walk import WalkLimitError, WalkLimits, walk_folder
from tests.support.ordinary import ordinary

PATHS = ("a/deep/er/one.py", "a/two.py", "b/three.py", "four.py")


class Seen:
    """The paths of a walk, and the folders it reported with their reasons."""

    def __init__(self, top: Path, limits: WalkLimits = WalkLimits(), **options: bool) -> None:  # noqa: B008 - a value
        self.reported: dict[str, str] = {}
        enters = options.pop("everywhere", True)
        found = walk_folder(
            top, self._report, limits, enters=lambda name: enters or name != "a", **options
        )
        self.paths = [one.path for one in found]

    def _report(self, folder: str, error: OSError) -> None:
        limit = error.limit if isinstance(error, WalkLimitError) else ""
        self.reported[folder] = limit or type(error).__name__


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    return tmp_path


def test_the_entries_of_a_folder_come_together_and_by_name(top: Path) -> None:
    deep = ["a/deep", "a/two.py", "a/deep/er", "a/deep/er/one.py", "b/three.py"]
    assert Seen(top).paths == ["a", "b", "four.py", *deep]
    near = ["a/deep", "a/two.py", "b/three.py", "a/deep/er", "a/deep/er/one.py"]
    assert Seen(top, near_first=True).paths == ["a", "b", "four.py", *near]
    assert Seen(top, everywhere=False).paths == ["a", "b", "four.py", "b/three.py"]


def test_a_limit_ends_a_walk_and_is_reported(top: Path) -> None:
    few = Seen(top, WalkLimits(entries=3))
    assert few.paths == ["a", "b", "four.py"]
    assert few.reported == {"a": "entries"}
    flat = Seen(top, WalkLimits(depth=1))
    assert "a/two.py" in flat.paths
    assert flat.reported == {"a/deep": "depth"}
    late = Seen(top, WalkLimits(seconds=-1.0))
    assert (late.paths, late.reported) == ([], {"": "time"})


def test_links_are_not_followed(top: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("")
    (top / "link").symlink_to(outside)
    seen = Seen(top)
    assert "link" in seen.paths
    assert not [path for path in seen.paths if "secret" in path]
    assert Seen(top / "link").reported == {"": "LinkMetError"}


def test_names_that_are_no_text_lead_to_their_files(top: Path) -> None:
    (top / os.fsdecode(b"\xff")).mkdir()
    (top / os.fsdecode(b"\xff/\xfe.py")).write_text("x")
    path = next(one for one in Seen(top).paths if one.endswith(".py") and "\udcff" in one)
    assert os.fsencode(path) == b"\xff/\xfe.py"
    assert (top / path).read_text() == "x"


def test_folders_that_cannot_be_listed_are_reported(top: Path) -> None:
    (top / "b").chmod(0)
    with ordinary():
        seen = Seen(top)
    (top / "b").chmod(0o700)
    assert seen.reported == {"b": "PermissionError"}
    assert "a/two.py" in seen.paths
    assert Seen(top / "none").reported == {"": "FileNotFoundError"}
