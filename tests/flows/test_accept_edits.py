"""Accept-edits mode: only plain edits of the workspace run without a question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kogniterm.execution.sandbox.planted import protected_names
from kogniterm.types import ActionRequest
from tests.flows.conftest import Flow, MakeFlow, no

CONFIG = "[core]\n\trepositoryformatversion = 0\n\thooksPath = tools/hooks\n"


def edits(make_flow: MakeFlow, path: str | Path, old: str = "") -> Flow:
    """Return a flow whose model writes to `path` and whose user rejects what is asked.

    It replaces `old` of a file that is there.
    """
    call = {"tool": "write_file", "arguments": {"path": str(path), "content": "new\n"}}
    if old:
        call = {"tool": "edit_file", "arguments": {"path": str(path), "old": old, "new": "new"}}
    replies = [{"calls": [call]}, {"text": "Done."}]
    script = json.dumps({"replies": replies})
    return make_flow(script, [no("not this")], approval_mode="accept-edits")


def repository(folder: Path) -> None:
    for name in ("hooks", "objects", "refs"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "config").write_text(CONFIG)


def asked(flow: Flow) -> list[str]:
    return [request.tool for request, _report, _verdict in flow.user.asked]


@pytest.mark.parametrize("path", ["new.py", "old.py", "deep/er/new.py", ".github/notes.md"])
async def test_an_edit_of_the_workspace_runs_and_can_be_undone(
    make_flow: MakeFlow, path: str
) -> None:
    flow = edits(make_flow, path, "old" if path == "old.py" else "")
    (flow.folder / "old.py").write_text("old\n")
    before = (flow.folder / path).exists()
    answer = await flow.run()
    assert (asked(flow), answer.exit_code) == ([], 0)
    assert (flow.folder / path).read_text() == "new\n"
    flow.session.undo.store.restore(flow.session.undo.latest())
    assert (flow.folder / path).exists() == before
    assert (flow.folder / "old.py").read_text() == "old\n"


@pytest.mark.parametrize("path", [
    ".git/hooks/pre-commit", ".git/config", "sub/.git/hooks/x", "tools/hooks/pre-commit",
    ".bashrc", ".vscode/tasks.json", ".kogniterm/policy.toml", ".env", "sub/.env.local", "id_rsa",
    "secrets.yaml", "../beside.txt", "inner/../../beside.txt", "/tmp/elsewhere.txt",
])  # fmt: skip
async def test_what_has_a_further_effect_is_asked_about(make_flow: MakeFlow, path: str) -> None:
    old = "core" if path == ".git/config" else ""
    flow = edits(make_flow, path, old)
    repository(flow.folder)
    (flow.folder / "inner").mkdir()
    await flow.run()
    assert asked(flow) == ["edit_file" if old else "write_file"]
    assert not (flow.folder / path).is_file() or "new" not in (flow.folder / path).read_text()


async def test_no_name_that_the_sandbox_guards_is_written_unasked(make_flow: MakeFlow) -> None:
    flow = edits(make_flow, "new.py")
    session = flow.open()
    allowed = []
    for name in (*protected_names("guarded"), "new.py"):
        for path in (name, f"sub/{name}", f"{name}/inner"):
            arguments = {"path": str(flow.folder / path)}
            request = ActionRequest("r", "c", "write_file", "edit", "", arguments, "edit")
            report = session.policy.assess(request, str(flow.folder))
            verdict = session.policy.judge(request, report, session.modes, str(flow.folder))
            allowed += [path] if verdict.kind == "allow" else []
    assert set(allowed) == {"new.py", "sub/new.py", "new.py/inner"}


@pytest.mark.parametrize("target", ["outside/file", ".git/hooks/pre-commit", "data/.env"])
async def test_no_link_leads_an_unasked_edit_away(
    make_flow: MakeFlow, tmp_path: Path, target: str
) -> None:
    flow = edits(make_flow, "innocent.txt", "old")
    repository(flow.folder)
    (flow.folder / "data").mkdir()
    (tmp_path / "outside").mkdir()
    base = tmp_path if target.startswith("outside") else flow.folder
    (base / target).write_text("old\n")
    (flow.folder / "innocent.txt").symlink_to(base / target)
    await flow.run()
    assert asked(flow) == ["edit_file"]
    assert (base / target).read_text() == "old\n"


@pytest.mark.parametrize("path", [".config/x", "bin/tool", ".profile", "notes.txt"])
async def test_a_home_as_workspace_keeps_its_hidden_files(
    make_flow: MakeFlow, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    flow = edits(make_flow, path, "old" if path == "notes.txt" else "")
    monkeypatch.setenv("HOME", str(flow.folder))
    (flow.folder / "notes.txt").write_text("old\n")
    await flow.run()
    assert asked(flow) == ([] if path == "notes.txt" else ["write_file"])
