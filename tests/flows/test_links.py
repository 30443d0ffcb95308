"""Tools that reach a file through a link: classified, shown and refused as the link's target."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kogniterm.cli.json_output import Summary
from kogniterm.types import ActionRequest, Decision
from tests.flows.conftest import MakeFlow, yes

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n"
EDIT = {"path": "link/a.txt", "old": "theirs", "new": "mine"}


def script(tool: str, arguments: dict[str, str]) -> str:
    return json.dumps(
        {"replies": [{"calls": [{"tool": tool, "arguments": arguments}]}, {"text": "Done."}]}
    )


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "a.txt").write_text("theirs\n")
    (folder / "id_ed25519").write_text(KEY)
    return folder


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": "link/new.txt", "content": "x"}),
        ("edit_file", EDIT),
        ("read_file", {"path": "link/id_ed25519"}),
        ("read_file", {"path": "key"}),
    ],
)
async def test_unattended_auto_mode_reaches_nothing_outside_through_a_link(
    make_flow: MakeFlow, outside: Path, tool: str, arguments: dict[str, str]
) -> None:
    flow = make_flow(script(tool, arguments), sandbox="auto")
    (flow.folder / "link").symlink_to(outside)
    (flow.folder / "key").symlink_to(outside / "id_ed25519")
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert "PRIVATE" not in "\n".join(flow.shown)
    assert sorted(path.name for path in outside.iterdir()) == ["a.txt", "id_ed25519"]
    assert (outside / "a.txt").read_text() == "theirs\n"


async def test_a_startup_file_behind_a_link_is_as_dangerous_as_itself(
    make_flow: MakeFlow, outside: Path
) -> None:
    (outside / ".bashrc").write_text("")
    flow = make_flow(script("write_file", {"path": "notes", "content": "evil"}))
    (flow.folder / "notes").symlink_to(outside / ".bashrc")
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert (outside / ".bashrc").read_text() == ""


async def test_the_question_shows_where_a_link_leads(make_flow: MakeFlow, outside: Path) -> None:
    flow = make_flow(script("edit_file", EDIT), decisions=[yes])
    (flow.folder / "link").symlink_to(outside)
    answer = await flow.run()
    assert answer.exit_code == 0
    ((request, report, _verdict),) = flow.user.asked
    assert f"edit {outside}/a.txt" in request.command
    assert any(effect.outside and "elsewhere" in effect.target for effect in report.effects)
    assert (outside / "a.txt").read_text() == "mine\n"


@pytest.mark.parametrize("tool", ["edit_file", "read_file"])
async def test_a_folder_that_became_a_link_after_the_question_is_a_refusal(
    make_flow: MakeFlow, outside: Path, tool: str
) -> None:
    arguments = {"path": "sub/a.txt", "old": "ours", "new": "mine"}
    if tool == "read_file":
        arguments = {"path": "sub/.env"}
    flow = make_flow(script(tool, arguments), decisions=[])
    sub = flow.folder / "sub"
    sub.mkdir()
    for name in ("a.txt", ".env"):
        (sub / name).write_text("ours\n")
    (outside / ".env").write_text("theirs\n")

    def swap_and_approve(request: ActionRequest) -> Decision:
        shutil.rmtree(sub)
        sub.symlink_to(outside)
        return yes(request)

    flow.user.decisions.append(swap_and_approve)
    answer = await flow.run()
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert "was replaced by a link" in str(answer.reason)
    summary = Summary()
    for event in flow.events:
        summary(event)
    (action,) = summary.final(answer)["actions"]
    assert action["status"] == "refused"
    assert "replaced by a link" in action["reason"]
    assert "theirs" not in "\n".join(flow.shown)
    assert (outside / "a.txt").read_text() == "theirs\n"


async def test_a_link_in_the_middle_of_a_command_is_not_undone_through(
    make_flow: MakeFlow, outside: Path
) -> None:
    """A file changed through a link is outside the workspace, so undo does not touch it."""
    flow = make_flow('{"replies": [{"run": "echo mine > link/a.txt"}, {"text": "Done."}]}', [yes])
    (flow.folder / "link").symlink_to(outside)
    await flow.run()
    assert (outside / "a.txt").read_text() == "mine\n"
    assert flow.session.undo.images() == ()
