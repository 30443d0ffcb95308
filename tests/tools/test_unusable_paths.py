"""Reading and editing unusable paths: an error message, and no data loss."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from kogniterm.errors import ToolError
from kogniterm.execution.command_output import OutputStore
from kogniterm.tools.base import SchemaTool
from kogniterm.tools.file_tools import edit_file, read_file, real_path, write_file
from tests.support.ordinary import ordinary

NAMES = [
    ("closed/a.txt", "permission denied|write-protected"),
    ("mute.txt", "permission denied|write-protected"),
    ("round", "too many symbolic links"),
    ("a" * 300, "the name is too long"),
    ("a.txt\0", r"'a.txt\\x00' is not a valid file name"),
    ("\udcff\ud800", "is not a valid file name"),
    ("pipe", "not a regular file"),
    ("dir", "folder|regular file"),
]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    for name in ("closed", "dir"):
        (tmp_path / name).mkdir()
    for name in ("closed/a.txt", "mute.txt", "a.txt"):
        (tmp_path / name).write_text("one\n")
    (tmp_path / "round").symlink_to("round")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "closed").chmod(0o600)
    (tmp_path / "mute.txt").chmod(0o000)
    with ordinary():
        yield tmp_path
    (tmp_path / "closed").chmod(0o700)


def tools(work: Path) -> list[tuple[SchemaTool[object], dict[str, object]]]:
    def here() -> str:
        return str(work)

    outputs = OutputStore(work / "outputs")
    return [  # type: ignore[return-value]
        (read_file(here, str(work), lambda path: False, outputs), {}),
        (edit_file(here, str(work)), {"old": "one", "new": "two"}),
        (write_file(here), {"content": "two\n"}),
    ]


async def _propose_and_run(tool: SchemaTool[object], arguments: dict[str, object]) -> None:
    if tool.effect_of(arguments) != "none":
        tool.describe(arguments)
    await tool.run(arguments)


@pytest.mark.parametrize(("name", "part"), NAMES)
@pytest.mark.parametrize("number", [0, 1, 2], ids=["read", "edit", "write"])
async def test_the_model_is_told_why(work: Path, name: str, part: str, number: int) -> None:
    """At any stage: computing the effect, showing the call, or running it."""
    tool, more = tools(work)[number]
    arguments = {"path": name, **more}
    with pytest.raises(ToolError, match=part):
        await _propose_and_run(tool, arguments)
    (work / "mute.txt").chmod(0o600)
    assert (work / "mute.txt").read_text() == "one\n"


async def test_a_write_protected_file_stays_so(work: Path) -> None:
    (work / "a.txt").chmod(0o444)
    tool = write_file(lambda: str(work))
    with pytest.raises(ToolError, match="write-protected"):
        tool.describe({"path": "a.txt", "content": "two\n"})
    assert (work / "a.txt").read_text() == "one\n"


async def test_a_file_in_a_folder_that_may_not_be_written_is_edited_in_place(work: Path) -> None:
    (work / "dir" / "b.txt").write_text("one\nand more\n")
    (work / "dir").chmod(0o500)
    before = (work / "dir" / "b.txt").stat().st_ino
    tool = write_file(lambda: str(work))
    await tool.run(tool.check({"path": "dir/b.txt", "content": "two\n"}))
    assert (work / "dir" / "b.txt").read_text() == "two\n"
    assert (work / "dir" / "b.txt").stat().st_ino == before
    with pytest.raises(ToolError, match="cannot be written: permission denied"):
        await tool.run(tool.check({"path": "dir/new.txt", "content": "two\n"}))
    assert [path.name for path in (work / "dir").iterdir()] == ["b.txt"]
    (work / "dir").chmod(0o700)


@pytest.mark.parametrize("who", [ordinary, nullcontext], ids=["ordinary", "root"])
async def test_a_file_of_another_user_keeps_its_owner(
    tmp_path: Path, who: Callable[[], AbstractContextManager[None]]
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\nand more\n")
    file.chmod(0o666)
    if os.geteuid() == 0:
        os.chown(file, 1234, 4321)
    before = file.stat()
    with who():
        tool = write_file(lambda: str(tmp_path))
        await tool.run(tool.check({"path": "a.txt", "content": "two\n"}))
    after = file.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (
        (before.st_uid, before.st_gid, before.st_mode)
    )
    assert file.read_text() == "two\n"
    assert list(tmp_path.iterdir()) == [file]


async def test_the_longest_name_there_can_be_is_written(work: Path) -> None:
    name = "n" * 251 + ".txt"
    tool = write_file(lambda: str(work))
    for content in ("one\n", "two\n"):
        await tool.run(tool.check({"path": name, "content": content}))
        assert (work / name).read_text() == content


def test_blanks_of_folders_are_read_as_those_of_files(tmp_path: Path) -> None:
    real = tmp_path / "Shots\u202fPM" / "one\u00a0two" / "a\u202fb.txt"
    real.parent.mkdir(parents=True)
    real.write_text("one\n")
    assert real_path(str(tmp_path), "Shots PM/one two/a b.txt") == real
    assert real_path(str(tmp_path), "Shots PM/new/b.txt") == tmp_path / "Shots\u202fPM/new/b.txt"
