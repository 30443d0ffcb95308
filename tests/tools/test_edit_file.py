"""Edits are shown first, applied whole, and refused when the file changed since it was read."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

import pytest

from kogniterm.errors import ToolError
from kogniterm.execution.command_output import OutputStore
from kogniterm.host.safe_files import write_regular
from kogniterm.tools.file_tools import edit_file, read_file, write_file
from kogniterm.tools.search_files import search_text


async def edit(folder: Path, **arguments: object) -> str:
    tool = edit_file(lambda: str(folder), str(folder))
    checked = tool.check(arguments)
    tool.describe(checked)
    return (await tool.run(checked)).text


async def test_an_edit_replaces_exactly_and_keeps_the_mode(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("a\nb\nc\n")
    file.chmod(0o755)
    assert await edit(tmp_path, path="run.sh", old="b\n", new="B\nB2\n") == (
        f"Wrote {file} (+2 -1 lines)."
    )
    assert file.read_text() == "a\nB\nB2\nc\n"
    assert file.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["run.sh"]


async def test_both_names_of_a_file_have_the_edit(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("old")
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    await edit(tmp_path, path="one", old="old", new="new, and longer")
    assert (tmp_path / "two").read_text() == "new, and longer"


async def test_an_edit_keeps_the_extended_attributes(tmp_path: Path) -> None:
    (file := tmp_path / "a").write_text("old")
    os.setxattr(file, "user.note", b"mine")
    await edit(tmp_path, path="a", old="old", new="new")
    assert (file.read_text(), os.getxattr(file, "user.note")) == ("new", b"mine")


def test_a_file_has_the_mode_that_it_is_written_with_beside_an_access_list(tmp_path: Path) -> None:
    (file := tmp_path / "a").write_text("old")
    # The owner may all, user 1 may read, the group and the mask may read and write.
    rights = ((1, 6, -1), (2, 4, 1), (4, 6, -1), (16, 6, -1), (32, 0, -1))
    listed = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *one) for one in rights)
    try:
        os.setxattr(file, "system.posix_acl_access", listed)
    except OSError:
        pytest.skip("this file system has no access lists")
    write_regular(file, b"new", (0o600, os.getuid(), os.getgid()))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_diff_is_what_would_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    tool = edit_file(lambda: str(tmp_path), str(tmp_path))
    arguments = tool.check({"path": "a.txt", "old": "two", "new": "2", "purpose": "Shorten"})
    line, purpose = tool.describe(arguments)
    assert line == f"edit {tmp_path}/a.txt (+1 -1 lines)"
    assert purpose == "Shorten"
    assert tool.detail(arguments).splitlines()[-2:] == ["-two", "+2"]
    assert tool.spec.effect == "edit"


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("missing", "x", "is not in"),
        ("def f(y):\nreturn x", "x", r"; this is similar:\n2: def f\(x\):\n3:     return x$"),
        ("x", "y", "occurs 2 times in .*, at lines 2, 3; give more"),
        ("# one", "# one", "nothing to change"),
    ],
)
async def test_an_edit_that_does_not_fit_says_why(
    tmp_path: Path, old: str, new: str, part: str
) -> None:
    (tmp_path / "a.py").write_text("# one\ndef f(x):\n    return x\n")
    with pytest.raises(ToolError, match=part):
        await edit(tmp_path, path="a.py", old=old, new=new)


async def test_a_near_miss_marks_what_it_does_not_show(tmp_path: Path) -> None:
    lines = [f"line {n} {'x' * 2_100}" for n in range(30)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    with pytest.raises(ToolError) as caught:
        await edit(tmp_path, path="a.txt", old="\n".join([*lines[:24], "other"]), new="y")
    told = str(caught.value).splitlines()
    assert told[-1] == "[… and what follows]"
    assert len(told) == 22
    assert all(line.endswith("x…") for line in told[1:-1])


async def test_every_occurrence_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x x")
    await edit(tmp_path, path="a", old="x", new="y", every=True)
    assert (tmp_path / "a").read_text() == "y y"


async def test_replacements_are_counted_and_not_lines_of_a_diff(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x = 1\n\ny = x\n" * 150)
    told = await edit(tmp_path, path="a", old="x", new="z", every=True)
    assert told == f"Wrote {tmp_path}/a (300 replacements)."


async def test_the_same_content_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n")
    tool = write_file(lambda: str(tmp_path))
    arguments = tool.check({"path": "a", "content": "x\n"})
    assert tool.describe(arguments)[0] == f"edit {tmp_path}/a (no changes)"
    assert (await tool.run(arguments)).text == f"Wrote {tmp_path}/a (no changes)."


@pytest.mark.parametrize("name", ["edit_file", "read_file", "search_text"])
async def test_a_path_meant_from_the_workspace_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "rebase").mkdir()
    (tmp_path / "rebase" / "a.py").write_text("x\n")
    here, work, outputs = str(tmp_path / "rebase"), str(tmp_path), OutputStore(tmp_path / "o")
    tools = {
        "edit_file": (edit_file(lambda: here, work), {"old": "x", "new": "y"}),
        "read_file": (read_file(lambda: here, work, lambda path: False, outputs), {}),
        "search_text": (
            search_text(lambda: here, work, lambda path: False, outputs), {"pattern": "x"},
        ),
    }  # fmt: skip
    tool, arguments = tools[name]
    checked = tool.check({"path": "rebase/a.py", **arguments})
    with pytest.raises(ToolError) as caught:
        await tool.run(checked)
    told = f"There is no file {here}/rebase/a.py, for the shell is in {here}; {here}/a.py exists."
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", b"1\r\n2\r\nthree\r\n"),
        (b"alpha\r\nbeta\r\n", "beta", "beta\nbeta2", b"alpha\r\nbeta\r\nbeta2\r\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nb\nC\nd", b"a\r\nb\nC\r\nd\n"),
        (b"a\r\nX\nb\n", "a\nX\nb", "A\nX\nB", b"A\r\nX\nB\n"),
        (b"a\r\nX\nb\n", "a\nX\nb", "A\nY\nX\nB", b"A\r\nY\r\nX\nB\n"),
        (b"a\nb\r\nb\nc", "a\nb\nb\nc", "b\nb\nb\nd", b"b\nb\r\nb\nd"),
        (b"a\r\nb\nc\n", "b\n", "b\nb2\n", b"a\r\nb\nb2\nc\n"),
        (b"a\r\nb\r\nc", "c", "c\nd", b"a\r\nb\r\nc\r\nd"),
        (b"a\r\nb\r\n", "a\r\n", "a\n", b"a\nb\r\n"),
        (b"\xef\xbb\xbfa\nb\n", "a\n", "A\n", b"\xef\xbb\xbfA\nb\n"),
        (b"x\fy\x85\n\xe2\x80\xa8z", "y", "Y", b"x\fY\x85\n\xe2\x80\xa8z"),
        (b"price 10 \x80\nJos\xe9\n", "10", "11", b"price 11 \x80\nJos\xe9\n"),
        (b"price 10 \x80\nJos\xe9\n", "Jos\\xe9", "Ren\\xe9e", b"price 10 \x80\nRen\xe9e\n"),
        (b"\xe9 '\\xe9'", "'\\x5cxe9'", "'\\x5cxea'", b"\xe9 '\\xea'"),
        (b"\xc3\xa9 \xe9", " ", " \u00e9 ", b"\xc3\xa9 \xc3\xa9 \xe9"),
        ("\ufeffa\r\nb".encode("utf-16-le"), "b", "\u00e9\n\U0001f600",
         "\ufeffa\r\n\u00e9\r\n\U0001f600".encode("utf-16-le")),
        (b"\0\xff\0key=1\0", "key=1", "key=2", b"\0\xff\0key=2\0"),
    ],
)  # fmt: skip
async def test_every_byte_that_an_edit_does_not_replace_stays(
    tmp_path: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (tmp_path / "a").write_bytes(before)
    await edit(tmp_path, path="a", old=old, new=new)
    assert (tmp_path / "a").read_bytes() == after


async def test_text_is_not_written_in_another_encoding_than_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"Jos\xe9 1\n")
    with pytest.raises(ToolError, match="is not UTF-8; write each byte"):
        await edit(tmp_path, path="a", old="1", new="\u00e9")


async def test_an_edit_does_not_follow_a_change_that_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    tool = edit_file(lambda: str(tmp_path), str(tmp_path))
    first, second = (tool.check({"path": "a", "old": old, "new": "x"}) for old in ("one", "two"))
    await tool.run(first)
    (tmp_path / "a").write_text("x\ntwo\ntheirs\n")
    with pytest.raises(ToolError, match="changed since this was proposed"):
        await tool.run(second)


async def test_a_file_that_changed_after_the_proposal_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    tool = write_file(lambda: str(tmp_path))
    arguments = tool.check({"path": "a", "content": "mine"})
    tool.describe(arguments)
    file.write_text("theirs")
    with pytest.raises(ToolError, match="changed since this was proposed"):
        await tool.run(arguments)
    assert file.read_text() == "theirs"


async def test_a_file_that_appeared_after_the_proposal_is_not_overwritten(tmp_path: Path) -> None:
    tool = write_file(lambda: str(tmp_path))
    arguments = tool.check({"path": "new/a", "content": "mine"})
    assert tool.describe(arguments)[0].startswith("create ")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a").write_text("theirs")
    with pytest.raises(ToolError, match="changed"):
        await tool.run(arguments)


async def test_a_new_file_is_made_with_its_folders(tmp_path: Path) -> None:
    tool = write_file(lambda: str(tmp_path))
    arguments = tool.check({"path": "x/y/z.txt", "content": "hi\n"})
    tool.describe(arguments)
    await tool.run(arguments)
    assert (tmp_path / "x/y/z.txt").read_text() == "hi\n"


async def test_links_are_followed_and_stay_links(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("a")
    (tmp_path / "link").symlink_to("real")
    await edit(tmp_path, path="link", old="a", new="b")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "b"


@pytest.mark.parametrize(
    ("content", "part"),
    [(b"\xff\xfe\x00", "is not in"), (b"x" * (2 * 1024 * 1024 + 1), "too large")],
)
async def test_what_does_not_hold_the_text_or_is_too_large_is_refused(
    tmp_path: Path, content: bytes, part: str
) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ToolError, match=part):
        await edit(tmp_path, path="a", old="x", new="y")


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="not a regular file"):
        await edit(tmp_path, path=".", old="x", new="y")
