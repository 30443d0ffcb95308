"""Instruction files: which of them are found, what they import, and when the model gets them."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from kogniterm.paths import Paths
from kogniterm.runtime.trust.instruction_texts import (
    MOST_TEXT,
    NestedInstructions,
    in_force,
    instructions_text,
    too_much,
)
from kogniterm.runtime.trust.project_places import (
    MAX_FILE,
    MOST_NESTED,
    files_of_folder,
    folders_above,
    imports_of,
    walk,
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "repo" / "app" / "work"
    folder.mkdir(parents=True)
    return folder


def put(folder: Path, name: str, text: str = "") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or f"This is {name}.\n")
    return path


def repository(folder: Path) -> None:
    put(folder, ".git/HEAD", "ref: refs/heads/main\n")


def found(folder: Path) -> dict[str, str]:
    return {one.name: one.kind for one in walk(folder).files}


def blocks(text: str) -> list[str]:
    return [part.split('"')[1] for part in text.split("_instructions file=")[1:]]


@pytest.mark.parametrize(
    ("there", "used"),
    [
        (("AGENTS.md", "CLAUDE.md", "GEMINI.md", "KOGNITERM.md"), ["AGENTS.md", "KOGNITERM.md"]),
        (("CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md"), ["CLAUDE.md"]),
        ((".claude/CLAUDE.md", "GEMINI.md"), [".claude/CLAUDE.md"]),
        (("GEMINI.md", "KOGNITERM.md"), ["GEMINI.md", "KOGNITERM.md"]),
    ],
)
def test_a_folder_without_agents_md_needs_no_new_file(
    work: Path, there: tuple[str, ...], used: list[str]
) -> None:
    for name in there:
        put(work, name)
    assert list(found(work)) == used


def test_folders_above_count_up_to_the_root_of_the_repository(tmp_path: Path, work: Path) -> None:
    put(tmp_path, "AGENTS.md")
    put(tmp_path / "repo", "AGENTS.md", "Root. See @docs/style.md and @../secret.md\n")
    put(tmp_path / "repo", "docs/style.md")
    put(tmp_path, "secret.md")
    put(tmp_path / "repo" / "app", "CLAUDE.md")
    put(work, "AGENTS.md")
    assert found(work) == {"AGENTS.md": "instructions"}
    repository(tmp_path / "repo")
    assert found(work) == {
        "../../AGENTS.md": "instructions",
        "../CLAUDE.md": "instructions",
        "AGENTS.md": "instructions",
        "../../docs/style.md": "import",
    }
    names = blocks(instructions_text(walk(work).files))
    assert names == ["../../AGENTS.md", "../../docs/style.md", "../CLAUDE.md", "AGENTS.md"]
    repository(work)
    assert found(work) == {"AGENTS.md": "instructions"}


def test_only_a_real_repository_of_the_user_leads_above(tmp_path: Path, work: Path) -> None:
    repo = tmp_path / "repo"
    (repo / ".git").mkdir()
    assert folders_above(work) == ()
    (repo / ".git").rmdir()
    repository(tmp_path / "elsewhere")
    (repo / ".git").symlink_to(tmp_path / "elsewhere" / ".git")
    assert folders_above(work) == ()
    (repo / ".git").unlink()
    put(repo, ".git", "gitdir: /somewhere\n")
    assert folders_above(work) == ("../..", "..")
    put(repo, ".git", "something else\n")
    assert folders_above(work) == ()


def test_links_out_of_the_folder_are_no_instructions(tmp_path: Path, work: Path) -> None:
    put(tmp_path, "notes.md")
    (work / "AGENTS.md").symlink_to(tmp_path / "notes.md")
    put(work, "CLAUDE.md")
    put(work, "api/AGENTS.md")
    (work / "linked").symlink_to(work / "api")
    assert found(work) == {"CLAUDE.md": "instructions", "api/AGENTS.md": "nested"}


def test_files_of_folders_below_are_found_within_bounds(work: Path) -> None:
    deep = "a/b/c/d/e/f"
    for folder in ("api", "node_modules/x", ".venv", deep, f"{deep}/g"):
        put(work, f"{folder}/AGENTS.md")
    put(work, "api/v1/CLAUDE.md")
    assert found(work) == {
        "api/AGENTS.md": "nested",
        "api/v1/CLAUDE.md": "nested",
        "a/b/c/d/e/f/AGENTS.md": "nested",
    }
    for number in range(MOST_NESTED + 10):
        put(work, f"many/{number}/AGENTS.md")
    assert list(found(work).values()).count("nested") == MOST_NESTED


def test_a_home_is_not_searched(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(work, "api/AGENTS.md")
    monkeypatch.setenv("HOME", str(work))
    assert found(work) == {}


def test_imports_are_those_of_claude_code() -> None:
    text = """Read @docs/a.md, and @./b.md.
Mail ana@example.org. (@not) `@code.md`
```
@fence.md
```
@~/home.md @/etc/passwd @../up.md @.env @a.md
"""
    assert imports_of("sub/X.md", text) == ("sub/docs/a.md", "sub/b.md", "up.md", "sub/a.md")


def test_imports_go_five_levels_deep_and_not_in_circles(work: Path) -> None:
    put(work, "AGENTS.md", "@1.md\n")
    for number in range(1, 8):
        put(work, f"{number}.md", f"Level {number}. @{number + 1}.md @AGENTS.md @1.md\n")
    (work / "8.md").write_bytes(b"\0binary")
    assert list(found(work)) == ["AGENTS.md", "1.md", "2.md", "3.md", "4.md", "5.md"]
    assert blocks(instructions_text(walk(work).files)) == list(found(work))


def test_all_files_together_are_bounded_with_a_notice(work: Path) -> None:
    put(work, "AGENTS.md", "@a.md @b.md @c.md\n")
    for name in "abc":
        put(work, f"{name}.md", name * (MAX_FILE - 1))
    files = walk(work).files
    text = instructions_text(files)
    assert len(text) < MOST_TEXT + 1_000
    assert "c" * 1_000 not in text
    assert "not used: b.md, c.md" in str(*too_much(files)) or "not used: c.md" in str(
        *too_much(files)
    )
    assert too_much(files[:1]) == ()


def test_the_users_own_file_comes_first_with_its_imports(tmp_path: Path, work: Path) -> None:
    paths = Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache")
    assert in_force(paths, ()) == ""
    put(paths.config, "AGENTS.md", "Answer in Latin. @more.md @../outside.md\n")
    put(paths.config, "more.md")
    put(tmp_path, "outside.md")
    put(work, "AGENTS.md")
    text = in_force(paths, walk(work).files)
    assert blocks(text) == [
        str(paths.config / "AGENTS.md"), str(paths.config / "more.md"), "AGENTS.md",
    ]  # fmt: skip
    assert text.startswith("<user_instructions")


def reads(path: str, number: int = 1) -> list[BaseMessage]:
    call = {"name": "read_file", "args": {"path": path}, "id": f"c{number}"}
    return [AIMessage("", tool_calls=[call]), ToolMessage("text", tool_call_id=f"c{number}")]


def runs(command: str, cwd: str) -> list[BaseMessage]:
    call = {"name": "execute_command", "args": {"command": command}, "id": "r1"}
    end = ToolMessage("[exit 0]", tool_call_id="r1", artifact={"cwd": cwd, "exit_code": 0})
    return [AIMessage("", tool_calls=[call]), end]


def test_instructions_of_a_folder_are_due_once_when_work_there_begins(work: Path) -> None:
    put(work, "api/AGENTS.md", "For the API. @rules.md\n")
    put(work, "api/rules.md", "Rules.\n")
    put(work, "api/v1/.claude/CLAUDE.md", "For version one.\n")
    put(work, "web/AGENTS.md", "For the web.\n")
    nested = NestedInstructions(str(work), walk(work).files)
    history: list[BaseMessage] = [HumanMessage("look at api/v1/x.py and web")]
    assert nested.due(history) == []
    history += reads("README.md") + reads("apiary/x.py")
    assert nested.due(history) == []
    history += reads(str(work / "api/v1/x.py"))
    due = nested.due(history)
    assert [blocks(one.text) for one in due] == [
        ["api/AGENTS.md", "api/rules.md"], ["api/v1/.claude/CLAUDE.md"],
    ]  # fmt: skip
    history += due
    assert nested.due([*history, *reads("api/y.py", 2)]) == []
    # A compaction took the notes away, and the folder is still being worked in.
    assert len(nested.due(reads("api/v1/y.py"))) == 2
    put(work, "api/AGENTS.md", "Other rules for the API.\n")
    changed = NestedInstructions(str(work), walk(work).files)
    assert ["Other rules" in one.text for one in changed.due(history)] == [True]


@pytest.mark.parametrize(
    ("command", "cwd"),
    [
        ("cat web/x.js", ""),
        ("make --directory=web test", ""),
        ("echo hi > web/out.txt", ""),
        ("cd web && ls", "web"),
        ("ls", "web/src"),
        ("grep -r 'x", "web"),
    ],
)
def test_commands_work_in_the_folders_that_they_name_or_run_in(
    work: Path, command: str, cwd: str
) -> None:
    put(work, "web/AGENTS.md")
    put(work, "api/AGENTS.md")
    nested = NestedInstructions(str(work), walk(work).files)
    due = nested.due(runs(command, str(work / cwd)))
    assert [blocks(one.text) for one in due] == [["web/AGENTS.md"]]


def test_an_unreadable_file_is_no_instruction(work: Path) -> None:
    put(work, "AGENTS.md", "x" * (MAX_FILE + 1))
    (work / "CLAUDE.md").mkdir()
    assert found(work) == {}
    assert list(files_of_folder("", lambda name: None)) == []
