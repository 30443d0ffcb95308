"""The files that @ offers: which ones, in which order, and from which list."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from kogniterm.cli.open_prompt import workspace_files
from kogniterm.ui.prompt.file_completion import FileIndex, RankedFiles
from tests.ui.live import PATIENCE_SECONDS

NOW = 1_000_000.0
HOUR, DAY = 3_600.0, 86_400.0


def ranked(*paths: str, near: str = "") -> RankedFiles:
    """Return files that were all changed long ago."""
    return RankedFiles([(path, 0.0) for path in paths], now=NOW, near=near)


def offered(files: RankedFiles, typed: str = "") -> list[str]:
    return files.matching(typed, 60)


def test_source_comes_first_then_the_rest_by_kind() -> None:
    files = [
        ".env", "shot.png", "poetry.lock", "web/app.min.js", "api/user_pb2.py", "vendor/x/y.go",
        "README.md", "docs/conf.py", "tests/test_app.py", "src/app_test.go", "src/app.spec.ts",
        "conftest.py", "Makefile", "pyproject.toml", "src/app.py",
    ]  # fmt: skip
    assert offered(ranked(*files)) == [
        "src/app.py",
        "Makefile", "pyproject.toml",
        "conftest.py", "src/app.spec.ts", "src/app_test.go", "tests/test_app.py",
        "README.md", "docs/conf.py",
        ".env", "shot.png", "poetry.lock", "web/app.min.js", "api/user_pb2.py", "vendor/x/y.go",
    ]  # fmt: skip


def test_caches_and_binaries_are_not_offered() -> None:
    files = [
        "a.pyc", "lib/b.so", "__pycache__/c.py", "x/.mypy_cache/d.json", "node_modules/e/f.js",
        ".venv/lib/g.py", "h.sqlite", "model.gguf", "i.woff2", "j.tar", ".git/config",
    ]  # fmt: skip
    assert offered(ranked(*files, "k.py")) == ["k.py"]
    assert offered(ranked(*files), "a.pyc") == []


def test_what_was_changed_lately_and_is_near_comes_first() -> None:
    times = {
        "old.py": 0.0,
        "deep/in/a/folder/now.py": NOW - HOUR / 2,
        "deep/today.py": NOW - DAY / 2,
        "this_week.py": NOW - 3 * DAY,
        "now_too.md": NOW,
    }
    assert offered(RankedFiles(times.items(), now=NOW)) == [
        "deep/in/a/folder/now.py", "deep/today.py", "this_week.py", "old.py", "now_too.md",
    ]  # fmt: skip
    places = ("top.py", "web/ui/b.py", "web/a.py", "api/c.py")
    assert offered(ranked(*places)) == ["top.py", "api/c.py", "web/a.py", "web/ui/b.py"]
    assert offered(ranked(*places, near="web/ui")) == [
        "web/ui/b.py", "web/a.py", "top.py", "api/c.py",
    ]  # fmt: skip


def test_names_beat_folders_and_folders_beat_scattered_letters() -> None:
    files = ranked(
        "m/a/i/new.py", "main/other.py", "docs/remains.md", "tests/test_main.py", "src/main.md",
        "src/Main.py", "Makefile",
    )  # fmt: skip
    assert offered(files, "main") == [
        "src/Main.py", "src/main.md", "tests/test_main.py", "docs/remains.md", "main/other.py",
        "m/a/i/new.py",
    ]  # fmt: skip
    assert offered(files, "mfl") == ["Makefile"]
    assert offered(files, "src/ma") == ["src/Main.py", "src/main.md"]
    assert offered(files, "zz") == []
    assert files.matching("m", 2) == ["src/Main.py", "Makefile"]


@pytest.mark.parametrize("typed", ["a.b*", "[", "\\", "^$", "(?P<x>"])
def test_what_is_typed_is_no_pattern(typed: str) -> None:
    assert offered(ranked("src/axb.py", f"src/{typed}.py"), typed) == [f"src/{typed}.py"]


def test_the_file_index_answers_at_once_and_lists_behind() -> None:
    now, listed, arrived = [0.0], threading.Event(), threading.Event()
    calls: list[int] = []

    def listing() -> Iterable[tuple[str, float]]:
        listed.wait(PATIENCE_SECONDS)
        calls.append(1)
        now[0] += 2.0
        return [("a.py", 0.0)]

    index = FileIndex(listing, clock=lambda: now[0], arrived=arrived.set)
    assert index().paths == []
    assert index().paths == []
    listed.set()
    assert arrived.wait(PATIENCE_SECONDS)
    assert index().paths == ["a.py"]
    assert len(calls) == 1
    arrived.clear()
    now[0] += 30  # a list that took long stays longer
    assert index().paths == ["a.py"]
    assert len(calls) == 1
    now[0] += 30
    assert index().paths == ["a.py"]
    assert arrived.wait(PATIENCE_SECONDS)
    assert len(calls) == 2


def test_files_of_a_folder_that_is_named_through_a_link_are_listed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "letters.txt").touch()
    (tmp_path / "link").symlink_to("real")
    assert [path for path, _changed in workspace_files(tmp_path / "link")] == ["letters.txt"]
