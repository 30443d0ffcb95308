"""Edits are shown first, applied whole, and refused when the file changed since it was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.errors import ToolError
from kogniterm.tools.file_tools import FileVersions, edit_file, write_file


@pytest.fixture
def versions() -> FileVersions:
    return FileVersions()


async def edit(folder: Path, versions: FileVersions, **arguments: object) -> str:
    tool = edit_file(lambda: str(folder), versions)
    checked = tool.check(arguments)
    tool.describe(checked)
    return (await tool.run(checked)).text


async def test_an_edit_replaces_exactly_and_keeps_the_mode(
    tmp_path: Path, versions: FileVersions
) -> None:
    file = tmp_path / "run.sh"
    file.write_text("a\nb\nc\n")
    file.chmod(0o755)
    assert await edit(tmp_path, versions, path="run.sh", old="b\n", new="B\nB2\n") == (
        f"Wrote {file} (+2 -1 lines)."
    )
    assert file.read_text() == "a\nB\nB2\nc\n"
    assert file.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["run.sh"]


def test_the_diff_is_what_would_be_written(tmp_path: Path, versions: FileVersions) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    tool = edit_file(lambda: str(tmp_path), versions)
    arguments = {"path": "a.txt", "old": "two", "new": "2", "purpose": "Shorten"}
    line, purpose = tool.describe(arguments)
    assert line == f"edit {tmp_path}/a.txt (+1 -1 lines)"
    assert purpose == "Shorten"
    assert tool.detail(arguments).splitlines()[-2:] == ["-two", "+2"]
    assert tool.spec.effect == "edit"


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("missing", "x", "is not in"),
        ("def f(y):", "x", r"line 2 is similar"),
        ("x", "y", "occurs 2 times"),
        ("# one", "# one", "nothing to change"),
    ],
)
async def test_an_edit_that_does_not_fit_says_why(
    tmp_path: Path, versions: FileVersions, old: str, new: str, part: str
) -> None:
    (tmp_path / "a.py").write_text("# one\ndef f(x):\n    return x\n")
    with pytest.raises(ToolError, match=part):
        await edit(tmp_path, versions, path="a.py", old=old, new=new)


async def test_every_occurrence_only_when_asked(tmp_path: Path, versions: FileVersions) -> None:
    (tmp_path / "a").write_text("x x")
    await edit(tmp_path, versions, path="a", old="x", new="y", every=True)
    assert (tmp_path / "a").read_text() == "y y"


async def test_windows_line_ends_stay(tmp_path: Path, versions: FileVersions) -> None:
    (tmp_path / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await edit(tmp_path, versions, path="a", old="one\ntwo", new="1\n2")
    assert (tmp_path / "a").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_a_file_that_changed_after_the_proposal_is_not_written(
    tmp_path: Path, versions: FileVersions
) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    tool = write_file(lambda: str(tmp_path), versions)
    arguments = {"path": "a", "content": "mine"}
    tool.describe(arguments)
    file.write_text("theirs")
    with pytest.raises(ToolError, match="changed since you read it"):
        await tool.run(arguments)
    assert file.read_text() == "theirs"


async def test_a_file_that_appeared_after_the_proposal_is_not_overwritten(
    tmp_path: Path, versions: FileVersions
) -> None:
    tool = write_file(lambda: str(tmp_path), versions)
    arguments = {"path": "new/a", "content": "mine"}
    assert tool.describe(arguments)[0].startswith("create ")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a").write_text("theirs")
    with pytest.raises(ToolError, match="changed"):
        await tool.run(arguments)


async def test_a_new_file_is_made_with_its_folders(tmp_path: Path, versions: FileVersions) -> None:
    tool = write_file(lambda: str(tmp_path), versions)
    arguments = {"path": "x/y/z.txt", "content": "hi\n"}
    tool.describe(arguments)
    await tool.run(arguments)
    assert (tmp_path / "x/y/z.txt").read_text() == "hi\n"


async def test_links_are_followed_and_stay_links(tmp_path: Path, versions: FileVersions) -> None:
    (tmp_path / "real").write_text("a")
    (tmp_path / "link").symlink_to("real")
    await edit(tmp_path, versions, path="link", old="a", new="b")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "b"


@pytest.mark.parametrize(
    ("content", "part"),
    [(b"\xff\xfe\x00", "not UTF-8"), (b"x" * (2 * 1024 * 1024 + 1), "too large")],
)
async def test_what_is_no_small_text_is_refused(
    tmp_path: Path, versions: FileVersions, content: bytes, part: str
) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ToolError, match=part):
        await edit(tmp_path, versions, path="a", old="x", new="y")


async def test_a_folder_is_refused(tmp_path: Path, versions: FileVersions) -> None:
    with pytest.raises(ToolError, match="not a regular file"):
        await edit(tmp_path, versions, path=".", old="x", new="y")
