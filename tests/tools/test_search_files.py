"""Searching sees what git would see, is bounded, and never leaves the workspace."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.errors import ToolError
from kogniterm.execution.command_output import OutputStore
from kogniterm.tools.search_files import (
    MAX_RESULTS,
    TextArguments,
    find_files,
    own_search,
    search_text,
)
from tests.support.ordinary import ordinary
from tests.support.programs import require


@pytest.fixture
def work(tmp_path: Path) -> Path:
    require("git")
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
    outputs = OutputStore(work.parent / "outputs")
    return (await search_text(lambda: str(work), str(work), is_secret, outputs).run(arguments)).text


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
    found = (await text(work, **wanted.model_dump())).splitlines()
    assert list(own_search(work, wanted, is_secret)) == found


async def test_a_pattern_that_never_ends_is_given_up(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "long.txt").write_text("a" * 80 + "!\n")
    monkeypatch.setattr("kogniterm.host.programs.SYSTEM_FOLDERS", ())  # ripgrep would not mind
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
        ({"pattern": "("}, "not a valid regular expression"),
        ({"pattern": "x", "path": "/etc"}, "outside the workspace"),
        ({"pattern": "x", "path": "nope"}, "does not exist"),
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


@pytest.mark.parametrize("name", [".ignore", ".rgignore", ".gitignore", "src/.gitignore"])
async def test_a_pipe_for_what_is_ignored_is_not_waited_for(
    work: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kogniterm.tools.search_files.SECONDS", 86400)
    (work / name).unlink(missing_ok=True)
    os.mkfifo(work / name)
    assert "src/b.txt:1:hola mundo" in await text(work, pattern="hola")
    tool = find_files(lambda: str(work), str(work))
    assert "src/b.txt" in (await tool.run({"glob": "*.txt"})).text


@pytest.fixture
def closed(work: Path) -> Iterator[Path]:
    """Yield a folder with one that may be listed and not entered, and one that may be neither."""
    for name, mode in (("listed", 0o600), ("shut", 0o000)):
        (work / name).mkdir()
        (work / name / "c.txt").write_text("hola\n")
        (work / name).chmod(mode)
    with ordinary():
        yield work
    for name in ("listed", "shut"):
        (work / name).chmod(0o700)


@pytest.mark.parametrize("in_git", [True, False])
async def test_a_folder_that_may_not_be_entered_does_not_hide_the_rest(
    closed: Path, in_git: bool
) -> None:
    if not in_git:
        shutil.rmtree(closed / ".git")
    tool = find_files(lambda: str(closed), str(closed))
    assert (await tool.run({"glob": "*.txt"})).text == "src/b.txt"
    wanted = TextArguments(pattern="^hola m")
    assert list(own_search(closed, wanted, is_secret)) == ["src/b.txt:1:hola mundo"]


@pytest.mark.parametrize("name", ["listed", "shut", "listed/c.txt", "shut/no", "src/b.txt"])
async def test_what_may_not_be_read_is_not_told_as_no_match(closed: Path, name: str) -> None:
    (closed / "src" / "b.txt").chmod(0o000)
    with pytest.raises(ToolError, match=f"{name} cannot be read: permission denied"):
        await text(closed, pattern="hola", path=name)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("round", "too many symbolic links"),
        ("a" * 300, "the name is too long"),
        ("~nobody-of-this-name/x", ".*/~nobody-of-this-name/x does not exist"),
        ("a\0b", r"'a\\x00b' is not a valid file name"),
        ("\ud800", r"'\\ud800' is not a valid file name"),
        ("pipe", "not a regular file"),
    ],
)
async def test_names_that_cannot_be_searched_say_why(work: Path, name: str, part: str) -> None:
    (work / "round").symlink_to("round")
    os.mkfifo(work / "pipe")
    with pytest.raises(ToolError, match=part):
        await text(work, pattern="hola", path=name)


@pytest.mark.parametrize("rg", [True, False])
async def test_files_that_may_hold_secrets_are_left_to_who_asks(
    work: Path, rg: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / ".env").write_text("hola = geheim\n")
    (work / "link.txt").symlink_to(".env")
    if not rg:
        git = shutil.which("git")
        assert git is not None
        (work / "bin").mkdir()
        (work / "bin" / "git").symlink_to(git)
        monkeypatch.setenv("PATH", str(work / "bin"))
    assert await text(work, pattern="hola") == "src/b.txt:1:hola mundo"
    with pytest.raises(ToolError, match="use read_file, which asks"):
        await text(work, pattern="hola", path=".env")
    with pytest.raises(ToolError, match="use read_file, which asks"):
        await text(work, pattern="hola", path="link.txt")


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    """Yield the number of files that the process may have open, a few more than it has."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir()) + 1
    most = taken + 30
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    yield most
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_tree_deeper_than_descriptors_go_is_listed_to_its_end(
    tmp_path: Path, few_descriptors: int
) -> None:
    deepest = tmp_path.joinpath(*["d"] * (few_descriptors + 1))
    deepest.mkdir(parents=True)
    (deepest / "end.txt").touch()
    tool = find_files(lambda: str(tmp_path), str(tmp_path))
    found = (await tool.run({"glob": "end.txt"})).text
    assert found == str((deepest / "end.txt").relative_to(tmp_path))
