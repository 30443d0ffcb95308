"""Trust granted and revoked in a running session: effective at once, with an unchanged prefix."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kogniterm.errors import SettingsError, UsageError
from kogniterm.runtime.operations.trust_actions import revoke, trust
from kogniterm.runtime.trust.project_places import walk
from kogniterm.types import ActionRequest, Decision
from kogniterm.types.turn_values import LEFT_OPEN
from tests.flows.conftest import MakeFlow, yes
from tests.ui.commands.commanded import Commanded

DENY = '[[rule]]\ndecision = "deny"\nprogram = "touch"\nreason = "no touching"\n'
TOUCH = "replies: [{text: Hello.}, {run: touch a}, {text: One.}, {run: touch b}, {text: Two.}]"


def project(folder: Path) -> None:
    (folder / "AGENTS.md").write_text("Answer in rhyme.\n")
    (folder / ".kogniterm" / "commands").mkdir(parents=True)
    (folder / ".kogniterm" / "policy.toml").write_text(DENY)
    (folder / ".kogniterm" / "commands" / "ship.md").write_text("Ship it")


async def test_trust_takes_effect_at_once_and_so_does_taking_it_back(make_flow: MakeFlow) -> None:
    flow = make_flow(TOUCH, decisions=[yes])
    project(flow.folder)
    session = flow.open()
    repl = Commanded(session, answers=["yes"])
    await flow.run("hi")
    system, before = session.context.system.text, list(flow.shown)
    assert "rhyme" not in system

    assert "Folder trusted. Its files now apply." in await repl.type("/trust")
    assert repl.own == ("ship",)
    answer = await flow.run("touch a")
    assert answer.exit_code == 3
    assert not (flow.folder / "a").exists()
    assert session.context.system.text == system
    assert flow.shown[: len(before)] == before
    assert '<project_instructions file="AGENTS.md">\nAnswer in rhyme.' in flow.shown[len(before)]

    assert "no longer" in await repl.type("/trust revoke")
    assert repl.own == ()
    assert "ignore them" in flow.shown[-1]
    await flow.run("touch b")
    assert (flow.folder / "b").exists()


async def test_a_resumed_session_has_the_same_system_text_and_is_told_what_changed(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow()
    project(flow.folder)
    await trust(flow.open(), flow.folder, walk(flow.folder).files)
    flow.close()
    flow = make_flow()
    session = flow.open()
    system = session.context.system.text
    assert "Answer in rhyme." in system
    await flow.run("hi")
    flow.close()
    session = flow.open("last")
    assert session.context.system.text == system
    assert [text.partition("\n")[0] for text in flow.shown] == ["hi", "Hello."]
    (flow.folder / "AGENTS.md").write_text("Answer in prose.\n")
    await trust(session, flow.folder, walk(flow.folder).files)
    flow.close()
    session = flow.open("last")
    assert session.context.system.text == system
    assert "Answer in prose." in flow.shown[2]
    assert len(flow.shown) == 3


async def test_instructions_that_come_while_a_question_waits_stand_behind_its_round(
    make_flow: MakeFlow,
) -> None:
    def leaves(request: ActionRequest) -> Decision:
        raise asyncio.CancelledError(LEFT_OPEN)

    calls = "{calls: [{run: touch one}, {run: touch two}]}"
    flow = make_flow(f"replies: [{calls}]", decisions=[leaves])
    project(flow.folder)
    session = flow.open()
    with pytest.raises(asyncio.CancelledError):
        await flow.run("go")
    await trust(session, flow.folder, walk(flow.folder).files)
    flow.close()
    again = make_flow("replies: [{text: Rhymed.}]", decisions=[])
    again.open("last")
    await again.run(None)
    _go, _calls, one, two, told, _answer = again.shown
    assert one.startswith("[not run: refused by policy: no touching")
    assert two.startswith("[not run: an earlier call of the same reply")
    assert "Answer in rhyme." in told


async def test_after_a_compaction_the_system_text_has_what_is_in_force(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("replies: [{text: Hello.}, {when: {purpose: compact}, text: A summary.}]")
    project(flow.folder)
    session = flow.open()
    await flow.run("hi")
    await trust(session, flow.folder, walk(flow.folder).files)
    assert "rhyme" not in session.context.system.text
    await session.context.compact_now(asked=True)
    assert "Answer in rhyme." in session.context.system.text
    flow.close()
    assert "Answer in rhyme." in flow.open("last").context.system.text
    assert await revoke(flow.session, flow.folder)  # type: ignore[arg-type]  # it was just opened


async def test_rules_that_are_wrong_are_not_trusted(make_flow: MakeFlow) -> None:
    flow = make_flow()
    project(flow.folder)
    (flow.folder / ".kogniterm" / "policy.toml").write_text('[[rule]]\ndecision = "allow"\n')
    session = flow.open()
    with pytest.raises(SettingsError):
        await trust(session, flow.folder, walk(flow.folder).files)
    with pytest.raises(UsageError, match="is not trusted"):
        await revoke(session, flow.folder)
    assert "rhyme" not in session.context.system.text


async def test_secrets_in_instructions_do_not_reach_the_model(make_flow: MakeFlow) -> None:
    flow = make_flow()
    key = "ghp_" + "aB3" * 12
    (flow.folder / "AGENTS.md").write_text(f"The token is {key}\n")
    session = flow.open()
    await flow.run("hi")
    await trust(session, flow.folder, walk(flow.folder).files)
    assert "The token is" in flow.shown[-1]
    assert key not in flow.shown[-1]
