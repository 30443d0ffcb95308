"""Searching sees what git would see, is bounded, and never leaves the workspace."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.errors import ToolError
from kogniterm.execution.command_output import OutputStore
from kogniterm.tools.search_files import (
    MAX_RESULTS,
    find_files,
    search_text,
)
from tests.support.git_repositories import git
from tests.support.ordinary import ordinary
from tests.support.programs import needs, require


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
    git(work, "init", "-q")
    return work


async def text(work: Path, **arguments: object) -> str:
    outputs = OutputStore(work.parent / "outputs")
    return (await search_text(lambda: str(work), str(work), is_secret, outputs).run(arguments)).text


async def test_lines_are_found_and_ignored_files_left_out(work: Path) -> None:
    assert await text(work, pattern="hola") == "src/b.txt:1:hola mundo"
    both = await text(work, pattern="hola", ignore_case=True)
    assert both.splitlines() == ["src/a.py:2:print('Hola')", "src/b.txt:1:hola mundo"]
    assert await text(work, pattern="^import", path="src/a.py") == "src/a.py:1:import os"


@pytest.fixture(params=[True, False])
def rg(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Search with ripgrep, and without it."""
    if request.param:
        require("rg")
    else:
        monkeypatch.setattr("kogniterm.tools.search_files.find_program", lambda name: None)
    return bool(request.param)


@pytest.mark.usefixtures("rg")
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({}, ["src/a.py:1:import os", "src/b.txt:1:hola mundo"]),
        ({"ignore_case": True}, ["src/a.py:1:import os", "src/a.py:2:print('Hola')",
                                 "src/b.txt:1:hola mundo"]),
        ({"glob": "*.{txt,md}"}, ["src/b.txt:1:hola mundo"]),
        ({"glob": "src/*.py"}, ["src/a.py:1:import os"]),
        ({"glob": "!*.py"}, ["src/b.txt:1:hola mundo"]),
        ({"path": "src", "glob": "*.py", "invert": True}, ["src/a.py:2:print('Hola')"]),
        ({"pattern": r"os(?!x)"}, ["src/a.py:1:import os"]),  # which ripgrep does not take
        ({"pattern": "print", "context": 1}, ["src/a.py-1-import os", "src/a.py:2:print('Hola')"]),
        ({"path": "src", "pattern": "o", "count": True},
         ["src/a.py: 2", "src/b.txt: 1", "[3 lines in 2 files]"]),
    ],
)  # fmt: skip
async def test_a_search_finds_the_same_with_and_without_ripgrep(
    work: Path, arguments: dict[str, object], lines: list[str]
) -> None:
    assert (await text(work, **{"pattern": "hola|import", **arguments})).splitlines() == lines


@pytest.mark.usefixtures("rg")
async def test_no_match_tells_what_was_not_looked_at(work: Path) -> None:
    left_out = "files that git ignores, are binary or may contain secrets are left out"
    assert await text(work, pattern="nada") == f"[no match in {work}; {left_out}]"
    assert await text(work, pattern="nada", path="src/b.txt") == "[no match in src/b.txt]"
    (work / "src" / "big.txt").write_text(("x" * 99 + "\n") * 50_000 + "hola\n")
    found = await text(work, pattern="hola", glob="big.*", path="src")
    assert found == "src/big.txt:50001:hola"


@pytest.mark.usefixtures("rg")
async def test_line_ends_of_windows_belong_to_no_line(work: Path) -> None:
    (work / "dos.txt").write_bytes(b"fin\r\n\r\nno fin here\r\n")
    assert await text(work, pattern="fin$") == "dos.txt:1:fin"
    assert await text(work, pattern=r"fin\s") == "dos.txt:3:no fin here"
    assert await text(work, pattern="^$", path="dos.txt", count=True, invert=True) == (
        "dos.txt: 2\n[2 lines in 1 files]"
    )


@pytest.mark.usefixtures("rg")
async def test_what_is_no_text_is_not_told_as_no_match(work: Path) -> None:
    for name, data in (("x.dat", b"fin\0\1"), ("wide.txt", "fin\n".encode("utf-16"))):
        (work / name).write_bytes(data)
        with pytest.raises(ToolError, match="is binary or UTF-16, so it was not searched"):
            await text(work, pattern="fin", path=name)
    (work / "late.txt").write_bytes(b"fin 1\n" + b"x y\n" * 30_000 + b"\0\nfin 2\n")
    found = await text(work, pattern="fin")
    assert "late.txt:1:fin 1" in found
    assert "late.txt:30003:fin 2" in found or "[not looked into: late.txt (behind byte" in found
    assert "late.txt: 2" in await text(work, pattern="fin", count=True)
    no = await text(work, pattern=r"1\nx y", path="late.txt")
    assert no.endswith("[no match spans lines]")


@pytest.mark.usefixtures("rg")
async def test_a_line_of_megabytes_is_one_line(work: Path) -> None:
    (work / "min.js").write_bytes(b"a" * (3 << 20) + b"fin" + b"b" * (2 << 20) + b"\nnext\n")
    found = await text(work, pattern="fin", glob="min.js")
    assert len(found.splitlines()) == 1
    assert found.startswith("min.js:1:[… 3145653 characters left out …]")
    assert await text(work, pattern="fin", glob="min.js", invert=True) == "min.js:2:next"


async def test_a_file_that_cannot_be_read_is_named(
    work: Path,
    rg: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (work / "src" / "b.txt").chmod(0)
    if rg:  # which regains its rights as root
        program = tmp_path / "rg"
        program.write_text(
            "#!/bin/sh\necho './src/b.txt: Permission denied (os error 13)' >&2; exit 2\n"
        )
        program.chmod(0o755)
        monkeypatch.setattr("kogniterm.tools.search_files.find_program", lambda name: str(program))
    with ordinary():
        found = (await text(work, pattern="nada")).splitlines()
    assert found[1].lower() == "[not looked into: src/b.txt (permission denied)]"


@pytest.mark.usefixtures("rg")
async def test_of_a_long_line_the_hit_is_shown_and_the_cuts_are_marked(work: Path) -> None:
    (work / "long.txt").write_text("a" * 5_000 + "NEEDLE" + "b" * 5_000 + "\n")
    found = await text(work, pattern="NEEDLE")
    assert "NEEDLE" in found
    assert found.startswith("long.txt:1:[… 4925 characters left out …]")
    assert found.endswith("b[… 4781 characters left out …]")


async def test_paths_are_those_that_every_tool_takes(work: Path) -> None:
    outputs = OutputStore(work.parent / "outputs")
    below = search_text(lambda: str(work / "src"), str(work), is_secret, outputs)
    told = f"[relative paths are from {work}/src]"
    assert (await below.run({"pattern": "hola"})).text == f"b.txt:1:hola mundo\n{told}"
    above = (await below.run({"pattern": "hola", "path": ".."})).text
    assert above == f"b.txt:1:hola mundo\n{told}"
    named = find_files(lambda: str(work / "src"), str(work))
    ignored = (await named.run({"glob": ".gitignore", "path": ".."})).text
    assert ignored == f"{work}/.gitignore\n{told}"


async def test_an_output_is_searched_with_its_context_and_counted(work: Path) -> None:
    outputs = work.parent / "outputs"
    outputs.mkdir()
    log = outputs / "1.log"
    log.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    found = await text(work, pattern="two", path=str(log), context=1)
    assert found == "1-one\n2:two\n3-three"
    assert await text(work, pattern="t", path=str(log), count=True) == "[2 of 3 lines]"
    assert await text(work, pattern="t", path=str(log), invert=True) == "1:one"
    assert await text(work, pattern="x", path=str(log)) == "[no match in 3 lines]"


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
    assert lines[-1] == f"[more than these {MAX_RESULTS} lines; narrow it down]"


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
    assert (await tool.run({"glob": "./src/*"})).text == "src/a.py\nsrc/b.txt"
    assert (await tool.run({"glob": "*.{py,txt}"})).text == "src/a.py\nsrc/b.txt"
    told = "[no such file; files that git ignores are left out]"
    assert (await tool.run({"glob": "*.log"})).text == told


async def test_of_too_many_files_folders_stand_with_their_numbers(work: Path) -> None:
    for folder, count in (("data/set", 400), ("docs", 3)):
        (work / folder).mkdir(parents=True)
        for number in range(count):
            (work / folder / f"{number}.md").touch()
    found = (await find_files(lambda: str(work), str(work)).run({"glob": "*.md"})).text
    assert found.splitlines() == [
        "data/set/ (400)", "docs/0.md", "docs/1.md", "docs/2.md",
        "[403 files; a folder stands for the files below it]",
    ]  # fmt: skip


async def test_outside_of_git_too_and_pipes_do_not_block(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "x.js").write_text("hola")
    (tmp_path / "y.js").write_text("hola")
    os.mkfifo(tmp_path / "pipe.js")
    tool = find_files(lambda: str(tmp_path), str(tmp_path))
    assert (await tool.run({"glob": "*.js"})).text == "y.js\n[not looked into: node_modules/]"


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


@needs("rg")
async def test_a_search_that_takes_too_long_keeps_what_it_found(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as beside the image of a disk, which is binary and read whole."""
    monkeypatch.setattr("kogniterm.tools.search_files.SECONDS", 0.5)
    with (work / "z.img").open("wb") as file:
        file.truncate(1 << 40)
    for number in range(12):  # texts that are not searched to their ends
        (work / f"t{number}.txt").write_bytes(b"x\n" * 50_000 + b"\0hola\n")
    found = await text(work, pattern="hola")
    assert "src/b.txt:1:hola mundo" in found
    assert "not looked into: all behind the last line found" in found
    assert "hola mundo" in await text(work, pattern="hola", glob="!*.img")
    with pytest.raises(ToolError, match=r"glob \(!\*.bin\)"):
        await text(work, pattern="adios")


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
    closed_folder = "" if in_git else "\n[not looked into: shut/ (permission denied)]"
    assert (await tool.run({"glob": "*.txt"})).text == f"src/b.txt{closed_folder}"
    assert (await text(closed, pattern="^hola m")).startswith("src/b.txt:1:hola mundo")


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
    with pytest.raises(ToolError, match="read by read_file alone, with approval"):
        await text(work, pattern="hola", path=".env")
    with pytest.raises(ToolError, match="read by read_file alone, with approval"):
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
