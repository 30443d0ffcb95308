"""`allowed-tools` of skills in whole turns: an offer to the user, and never more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kogniterm.approval import Unattended
from kogniterm.runtime.extensions.allowed_tools import DECLINE, GRANT
from kogniterm.runtime.turn_ports import Question
from kogniterm.types import Phrase, UserInput
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.program import replayed
from tests.support.forge import Forge

SKILL = """---
name: tidy
description: Tidy up.
allowed-tools: Bash(mkdir:*) Bash(rm:*) Bash(*), Edit Read WebFetch
---
Make the folders.
"""
SCRIPT = """replies:
  - calls: [{tool: use_skill, arguments: {name: tidy}}]
  - run: mkdir one
  - run: touch two
  - text: Done.
  - calls: [{tool: use_skill, arguments: {name: tidy}}]
  - text: Again.
"""


@dataclass
class Answers:
    """A user who answers KogniTerm's own questions."""

    reply: str | None
    asked: list[list[str]] = field(default_factory=list)

    async def __call__(self, question: Question, answers: Sequence[str | Phrase]) -> str | None:
        self.asked.append([str(one) for one in question])
        assert [str(one) for one in answers] == [str(GRANT), str(DECLINE)]
        return self.reply


def skilled(make_flow: MakeFlow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Flow:
    monkeypatch.setenv("HOME", str(tmp_path))
    flow: Flow = make_flow(SCRIPT, decisions=[yes, yes])
    folder = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "skills" / "tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    return flow


async def go(flow: Flow, ask: Answers | None) -> None:
    session = flow.session or flow.open()
    approver = flow.user or Unattended()
    await session.run(UserInput("tidy up"), approver=approver, sink=flow.tell, ask=ask)


async def test_what_a_skill_names_is_offered_once_and_then_holds(
    make_flow: MakeFlow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, forge: Forge
) -> None:
    flow = skilled(make_flow, monkeypatch, tmp_path)
    user = Answers(str(GRANT))
    await go(flow, user)
    assert user.asked == [[
        "The skill tidy names these permissions. Allow them for this session?",
        f"commands that begin with mkdir, changing only files in {flow.folder}",
        f"edits of files in {flow.folder}",
    ]]  # fmt: skip
    assert [request.command for request, *_ in flow.user.asked] == ["touch two"]
    assert (flow.folder / "one").is_dir()
    await go(flow, user)
    assert len(user.asked) == 1
    assert [lease.kind for lease in flow.session.policy.leases] == ["words", "edits"]
    flow.close()
    status, report = replayed(forge, flow)
    assert (status, report["divergence"]) == (0, None), report
    assert flow.open("last").policy.leases == ()


@pytest.mark.parametrize("reply", [str(DECLINE), "yes", None])
async def test_without_a_clear_yes_its_commands_ask_as_usual(
    make_flow: MakeFlow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reply: str | None
) -> None:
    flow = skilled(make_flow, monkeypatch, tmp_path)
    user = Answers(reply)
    await go(flow, user)
    assert [request.command for request, *_ in flow.user.asked] == ["mkdir one", "touch two"]
    await go(flow, user)
    assert len(user.asked) == 1
    assert flow.session.policy.leases == ()


async def test_an_unattended_run_is_granted_nothing(
    make_flow: MakeFlow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flow = skilled(make_flow, monkeypatch, tmp_path)
    await go(flow, None)
    assert flow.session.policy.leases == ()
    assert any("Make the folders." in text for text in flow.shown)
