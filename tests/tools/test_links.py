"""Tools follow links in the workspace only to the place that was classified for their call."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.errors import PathChangedError, ToolError
from kogniterm.execution.command_output import OutputStore
from kogniterm.protocols import Tool
from kogniterm.tools.file_tools import edit_file, read_file, write_file
from kogniterm.tools.search_files import find_files, search_text

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nkey\n"


class Places:
    """A workspace, and a folder beside it that no tool may reach without approval."""

    def __init__(self, folder: Path) -> None:
        self.work, self.outside = folder / "work", folder / "outside"
        for one in (self.work / "sub", self.outside):
            one.mkdir(parents=True)
        (self.work / "sub" / "a.txt").write_text("inside\n")
        (self.outside / "a.txt").write_text("foreign\n")
        (self.outside / "id_ed25519").write_text(KEY)

    def tool(self, name: str) -> Tool:
        def here() -> str:
            return str(self.work)

        work = str(self.work)
        outputs = OutputStore(self.work.parent / "outputs")
        tools: list[Any] = [
            write_file(here),
            edit_file(here, work),
            read_file(here, work, is_secret, outputs),
            search_text(here, work, is_secret, outputs),
            find_files(here, work),
        ]
        return {tool.spec.name: tool for tool in tools}[name]

    def swap(self, name: str = "sub") -> None:
        """Replace a folder of the workspace by a link to the folder outside."""
        (self.work / name).rename(self.work / f"{name}-before")
        (self.work / name).symlink_to(self.outside)

    def untouched(self) -> bool:
        found = {path.name: path.read_text() for path in self.outside.iterdir()}
        return found == {"a.txt": "foreign\n", "id_ed25519": KEY}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


WRITES = {
    "write_file": {"path": "sub/a.txt", "content": "mine\n"},
    "edit_file": {"path": "sub/a.txt", "old": "inside", "new": "mine"},
}


@pytest.mark.parametrize("name", WRITES)
async def test_an_edit_through_a_link_is_one_of_what_it_leads_to(places: Places, name: str) -> None:
    (places.work / "link").symlink_to(places.outside)
    tool = places.tool(name)
    arguments = {**WRITES[name], "path": "link/a.txt"} | (
        {"old": "foreign"} if name == "edit_file" else {}
    )
    checked = tool.check(arguments)
    assert checked["path"] == f"{places.outside}/a.txt"
    assert f"edit {places.outside}/a.txt" in tool.describe(checked)[0]


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("swapped", ["sub", "sub/a.txt"])
async def test_what_became_a_link_while_the_question_was_open_is_refused(
    places: Places, name: str, swapped: str
) -> None:
    tool = places.tool(name)
    checked = tool.check(WRITES[name])
    tool.describe(checked)
    if swapped == "sub":
        places.swap()
    else:
        (places.work / swapped).unlink()
        (places.work / swapped).symlink_to(places.outside / "a.txt")
    with pytest.raises(PathChangedError, match="was replaced by a link"):
        await tool.run(checked)
    assert places.untouched()


async def test_a_new_file_below_a_folder_that_became_a_link_is_refused(places: Places) -> None:
    tool = places.tool("write_file")
    checked = tool.check({"path": "sub/deep/new.txt", "content": "x"})
    tool.describe(checked)
    places.swap()
    with pytest.raises(PathChangedError):
        await tool.run(checked)
    assert places.untouched()


@pytest.mark.parametrize("link", ["key", "sub"])
async def test_a_read_through_a_link_is_judged_by_what_it_leads_to(
    places: Places, link: str
) -> None:
    tool = places.tool("read_file")
    name = "key" if link == "key" else "linked/id_ed25519"
    target = places.outside / "id_ed25519" if link == "key" else places.outside
    (places.work / name.partition("/")[0]).symlink_to(target)
    checked = tool.check({"path": name})
    assert tool.effect_of(checked) == "read"
    assert tool.describe(checked)[0] == f"read {places.outside}/id_ed25519"


async def test_a_link_to_a_secret_of_the_workspace_is_one_too(places: Places) -> None:
    (places.work / ".env").write_text("A=1\n")
    (places.work / "notes").symlink_to(".env")
    tool = places.tool("read_file")
    assert tool.effect_of(tool.check({"path": "notes"})) == "read"


async def test_a_read_of_what_became_a_link_is_refused(places: Places) -> None:
    tool = places.tool("read_file")
    checked = tool.check({"path": "sub/a.txt"})
    assert tool.effect_of(checked) == "none"
    places.swap()
    with pytest.raises(PathChangedError):
        await tool.run(checked)


async def test_a_pipe_in_place_of_the_file_does_not_block(places: Places) -> None:
    for name, arguments in (*WRITES.items(), ("read_file", {"path": "sub/a.txt"})):
        tool = places.tool(name)
        checked = tool.check(arguments)
        file = places.work / "sub" / "a.txt"
        file.unlink()
        os.mkfifo(file)
        with pytest.raises(ToolError, match="not a regular file"):
            await tool.run(checked)
        file.unlink()
        file.write_text("inside\n")


@contextmanager
def flipping(places: Places) -> Iterator[None]:
    """Turn the folder `sub` into a link and back, as fast as a process can, during the test."""
    stop = threading.Event()
    sub, aside, link = (places.work / name for name in ("sub", "aside", "link"))

    def put_back() -> None:
        while aside.exists():
            with suppress(OSError):  # recreated once more
                if sub.is_symlink():
                    sub.unlink()
                shutil.rmtree(sub, ignore_errors=True)
                aside.rename(sub)

    def flip() -> None:
        while not stop.is_set():
            try:
                link.symlink_to(places.outside)
                sub.rename(aside)
                link.rename(sub)
                sub.unlink()
                aside.rename(sub)
            except OSError:  # a tool recreated the folder in between
                link.unlink(missing_ok=True)
                put_back()

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("name", [*WRITES, "read_file", "search_text", "own_search", "find_files"])
async def test_no_race_leads_outside(
    places: Places, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "own_search":
        monkeypatch.setattr("kogniterm.host.programs.SYSTEM_FOLDERS", ())  # without ripgrep
    (places.outside / "only-there.txt").write_text("foreign\n")
    arguments = {
        **WRITES,
        "read_file": {"path": "sub/a.txt"},
        "search_text": {"pattern": "e"},
        "find_files": {"path": "sub"},
        "own_search": {"pattern": "e"},
    }[name]
    tool = places.tool("search_text" if name == "own_search" else name)
    with flipping(places):
        for _ in range(150):
            with suppress(ToolError):
                checked = tool.check(arguments)
                if str(places.outside) in str(checked.get("path")):
                    continue  # then the call is classified for that place, and asked about
                if tool.effect_of(checked) != "none":
                    tool.describe(checked)
                found = (await tool.run(checked)).text
                assert "foreign" not in found
                assert "only-there" not in found
    (places.outside / "only-there.txt").unlink()
    assert places.untouched()


async def test_a_program_on_path_in_the_workspace_does_not_search(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rg", "git"):
        program = places.work / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {name} >> {places.outside}/ran\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{places.work}/bin:{os.environ['PATH']}")
    assert "sub/a.txt" in (await places.tool("search_text").run({"pattern": "inside"})).text
    assert "a.txt" in (await places.tool("find_files").run({"glob": "*.txt"})).text
    assert places.untouched()
