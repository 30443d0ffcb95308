"""Searching sees what git would see, is bounded, and never leaves the workspace."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kogniterm.errors import ToolError
from kogniterm.tools.search import (
    MAX_RESULTS,
    TextArguments,
    find_files,
    own_search,
    search_text,
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "a.py").write_text("import os\nprint('Hola')\n")
    (work / "src" / "b.txt").write_text("hola mundo\n")
    (work / "build.log").write_text("hola ignored\n")
    (work / "data.bin").write_bytes(b"hola\0\1")
    (work / ".gitignore").write_text("*.log\n")
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    return work


async def text(work: Path, **arguments: object) -> str:
    return (await search_text(lambda: str(work), str(work)).run(arguments)).text


async def test_lines_are_found_and_ignored_files_left_out(work: Path) -> None:
    assert await text(work, pattern="hola") == "src/b.txt:1:hola mundo"
    both = await text(work, pattern="hola", ignore_case=True)
    assert both.splitlines() == ["src/a.py:2:print('Hola')", "src/b.txt:1:hola mundo"]
    assert await text(work, pattern="hola", glob="*.py") == "[no match]"
    assert await text(work, pattern="^import", path="src/a.py") == "a.py:1:import os"


@pytest.mark.parametrize("arguments", [{}, {"ignore_case": True}, {"glob": "*.txt"}])
async def test_the_own_search_gives_the_same_lines(
    work: Path, arguments: dict[str, object]
) -> None:
    wanted = TextArguments(pattern="hola|import", **arguments)  # type: ignore[arg-type]
    assert list(own_search(work, wanted)) == (await text(work, **wanted.model_dump())).splitlines()


async def test_a_pattern_that_never_ends_is_given_up(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "long.txt").write_text("a" * 80 + "!\n")
    monkeypatch.setenv("PATH", "")  # no ripgrep, which would not mind
    with pytest.raises(ToolError, match="takes too long"):
        await text(work, pattern="(a|aa)+$")


async def test_a_flood_of_matches_is_cut(work: Path) -> None:
    (work / "many.txt").write_text("x\n" * (MAX_RESULTS + 50))
    lines = (await text(work, pattern="^x$")).splitlines()
    assert len(lines) == MAX_RESULTS + 1
    assert lines[-1] == f"[more than {MAX_RESULTS}; narrow it down]"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": "x", "path": "/etc"}, "outside the workspace"),
        ({"pattern": "x", "path": "nope"}, "There is no"),
        ({"pattern": ""}, "at least 1 character"),
    ],
)
async def test_what_cannot_be_searched_says_why(
    work: Path, arguments: dict[str, object], part: str
) -> None:
    with pytest.raises(ToolError, match=part):
        await text(work, **arguments)


async def test_a_link_does_not_lead_out(work: Path) -> None:
    (work / "out").symlink_to("/etc")
    with pytest.raises(ToolError, match="outside the workspace"):
        await text(work, pattern="root", path="out")


async def test_files_are_found_by_name_and_path(work: Path) -> None:
    tool = find_files(lambda: str(work), str(work))
    assert (await tool.run({"glob": "*.py"})).text == "src/a.py"
    assert (await tool.run({"glob": "src/*"})).text == "src/a.py\nsrc/b.txt"
    assert (await tool.run({"glob": "*.log"})).text == "[no such file]"


async def test_outside_of_git_too_and_pipes_do_not_block(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "x.js").write_text("hola")
    (tmp_path / "y.js").write_text("hola")
    os.mkfifo(tmp_path / "pipe.js")
    tool = find_files(lambda: str(tmp_path), str(tmp_path))
    assert (await tool.run({"glob": "*.js"})).text == "y.js"
