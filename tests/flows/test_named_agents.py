"""Sub-agents of files: offered to the model, named by plan steps, and called by the user."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from kogniterm.agent.subagent import delegate_spec
from kogniterm.errors import UsageError
from kogniterm.models.catalog import cost_of
from kogniterm.runtime.inputs.agent_turn import address_agent
from kogniterm.runtime.operations.trust_actions import revoke
from kogniterm.sessions.history import SessionHistory
from kogniterm.types import UserInput, events
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.program import replayed, start_run
from tests.support.fake_gemini import FakeGemini, text_answer
from tests.support.forge import Forge
from tests.ui.commands.commanded import Commanded

DATA = Path(__file__).resolve().parents[1] / "data" / "extensions" / "agents"
SKILLS = DATA.parents[1] / "skills"
PRO = "google_genai:gemini-2.5-pro"
KEEPER = """---
name: keeper
description: Keeps notes \x1b[2J of what was said
tools: execute_command
tokens: 5000
---
Write every note into notes.txt.
"""
SCRIPT = """replies:
  - when: {sub_agent: true, last_contains: "write milk"}
    repeat: forever
    run: "echo milk >> notes.txt"
  - {when: {sub_agent: true, tool: execute_command}, text: "Milk is noted.", repeat: forever}
  - {when: {last_contains: "hand it over"}, repeat: forever,
     calls: [{tool: delegate, arguments: {task: "write milk", agent: keeper}}]}
  - {when: {tool: delegate}, text: "The keeper did it.", repeat: forever}
  - {when: {any_contains: "Milk is noted."}, text: "I know that milk is noted.", repeat: forever}
  - {text: "Nothing is known.", repeat: forever}
"""


@pytest.fixture
def keeping(make_flow: MakeFlow, tmp_path: Path) -> MakeFlow:
    file = tmp_path / "config" / "agents" / "keeper.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(KEEPER)
    return make_flow


def called(flow: Flow, text: str) -> UserInput:
    session = flow.session or flow.open()
    return address_agent(UserInput(text), session.extensions.agents.named)


async def test_the_model_gives_a_task_to_it(keeping: MakeFlow) -> None:
    flow = keeping(SCRIPT, decisions=[yes])
    answer = await flow.run("hand it over")
    assert answer.text == "The keeper did it."
    assert (flow.folder / "notes.txt").read_text() == "milk\n"
    ((request, _report, _verdict),) = flow.user.asked
    assert (request.agent_name, request.agent_task) == ("keeper", "write milk")
    assert [event.name for event in flow.of(events.AgentStarted)] == ["keeper"]
    spec = delegate_spec(flow.session.extensions.agents.named)
    assert spec.parameters["properties"]["agent"]["enum"] == ["keeper"]
    assert "- keeper: Keeps notes" in spec.description
    assert "\x1b" not in spec.description
    assert "agent" not in delegate_spec({}).parameters["properties"]


async def test_the_user_calls_it_and_the_main_model_knows_it_afterwards(keeping: MakeFlow) -> None:
    flow = keeping(SCRIPT, decisions=[yes])
    answer = await flow.run(called(flow, "@keeper write milk"))
    assert (answer.text, answer.stop) == ("Milk is noted.", "done")
    assert flow.shown == ["@keeper write milk", "Milk is noted."]
    assert not [event for event in flow.of(events.ModelCalled) if event.purpose == "main"]
    assert (await flow.run("what do you know?")).text == "I know that milk is noted."


@pytest.mark.parametrize("point", ["after-input", "after-outcome:1", "after-node:4"])
async def test_a_turn_that_was_killed_goes_on(keeping: MakeFlow, forge: Forge, point: str) -> None:
    flow = keeping(SCRIPT)
    killed = start_run(forge, flow, "-y", "@keeper write milk", faults=f"kill:{point}")
    assert killed.wait() == -signal.SIGKILL, killed.said
    flow.open("last")
    answer = await flow.run(None)
    assert answer.text == "Milk is noted."
    assert (flow.folder / "notes.txt").read_text() == "milk\n"
    assert flow.shown[-1] == "Milk is noted."


async def test_files_of_others_are_read_and_nothing_in_them_loosens(make_flow: MakeFlow) -> None:
    flow = make_flow()
    shutil.copytree(DATA, flow.folder, dirs_exist_ok=True)
    session = flow.open()
    assert not session.extensions.agents.named
    repl = Commanded(session, answers=["yes"])
    told = await repl.type("/trust")
    assert "Sub-agents and MCP servers from the next session on: reviewer, test-writer" in told
    assert not session.extensions.agents.named
    flow.close()
    session = flow.open()
    agents = session.extensions.agents.named
    assert agents["reviewer"].tools == (
        "read_file", "search_text", "find_files", "execute_command",
    )  # fmt: skip
    assert agents["reviewer"].open_model is None
    assert "execute_command" not in agents["test-writer"].tools
    assert "write_file" in agents["test-writer"].tools
    assert agents["test-writer"].rounds == 12
    told = "\n".join(map(str, session.notices))
    assert "names the model sonnet of another agent" in told
    assert "permissionMode is ignored; your approval applies" in told
    assert "there is no tool NoSuchTool" in told
    spec = delegate_spec(agents)
    await revoke(session, flow.folder)
    assert delegate_spec(session.extensions.agents.named) == spec
    with pytest.raises(UsageError, match="no longer trusted"):
        await flow.run(called(flow, "@reviewer look"))
    await Commanded(session, answers=["yes"]).type("/trust")
    assert called(flow, "@reviewer look").agent == "reviewer"


async def test_no_file_gives_a_tool_that_is_switched_off_or_a_sub_agent_of_its_own(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    file = tmp_path / "config" / "agents" / "all.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\ntools: '*, Task, web_fetch'\n---\nDo all.")
    script = """replies:
  - {when: {last_contains: "fetch"}, calls: [{tool: web_fetch, arguments: {url: "http://x"}}]}
  - {when: {last_contains: "web_fetch is switched off"},
     calls: [{tool: delegate, arguments: {task: x}}]}
  - {when: {last_contains: "no tool delegate"}, text: "I can do neither."}
  - {text: "Unexpected."}
"""
    flow = make_flow(script, tools_off=["web_fetch"])
    flow.open()
    assert (await flow.run(called(flow, "@all fetch"))).text == "I can do neither."


async def test_a_model_of_its_own_answers(make_flow: MakeFlow, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("replies: [{text: The other one.}]")
    for name, model in (("own", f"scripted:{other}"), ("none", "nowhere:x")):
        file = tmp_path / "config" / "agents" / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"---\nmodel: {model}\n---\nAnswer.")
    flow = make_flow("replies: [{text: The usual one., repeat: forever}]")
    assert (await flow.run(called(flow, "@own who?"))).text == "The other one."
    assert (await flow.run("who?")).text == "The usual one."
    answer = await flow.run(called(flow, "@none who?"))
    assert "The sub-agent none cannot be used" in str(answer.reason)


def test_only_the_beginning_of_an_input_calls_one() -> None:
    names = ("reviewer",)
    given = address_agent(UserInput("@Reviewer look @a", attachments=("Reviewer", "a")), names)
    assert (given.agent, given.attachments) == ("reviewer", ("a",))
    for text in ("look @reviewer", "@./reviewer look", "@other look"):
        assert not address_agent(UserInput(text), names).agent
    with pytest.raises(UsageError, match="needs a task"):
        address_agent(UserInput("@reviewer"), names)
    assert not address_agent(UserInput("@reviewer look", line="/x"), names).agent


async def test_where_delegate_is_off_none_can_be_called(keeping: MakeFlow) -> None:
    flow = keeping(SCRIPT, tools_off=["delegate"])
    with pytest.raises(UsageError, match="keeper cannot be used: setting tools_off"):
        await flow.run(called(flow, "@keeper write milk"))
    with pytest.raises(UsageError, match="no sub-agent nobody"):
        await flow.run(UserInput("@nobody x", agent="nobody"))


async def test_each_call_has_the_price_of_the_model_that_answered(
    make_flow: MakeFlow, fake_gemini: FakeGemini, tmp_path: Path
) -> None:
    for name, model in (("pro", PRO), ("new", "google_genai:gemini-99")):
        file = tmp_path / "config" / "agents" / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"---\nmodel: {model}\n---\nAnswer.")
    fake_gemini.answer_with(lambda body: text_answer("It is fine."))
    script = """replies:
  - {when: {last_contains: "hand it over"}, repeat: forever,
     calls: [{tool: delegate, arguments: {task: "look", agent: pro}}]}
  - {text: "Both looked.", repeat: forever}
"""
    given = {"google_api_key": "a-key", "google_base_url": fake_gemini.url, "memory": "off"}
    flow = make_flow(script, max_session_cost_usd=1.0, **given)
    await flow.run(called(flow, "@pro look"))
    await flow.run("hand it over")
    session = flow.session
    others = session.state.others_usage
    assert others[PRO].calls == 2
    dollars = cost_of(PRO, others[PRO])
    assert dollars
    assert session.services.budget.total(session.state.usage, others) == pytest.approx(dollars)
    used = SessionHistory(session.journal.records()).models
    assert used[PRO] == others[PRO]
    assert session.state.usage == used[PRO] + used[session.model.name]
    main = session.model.name
    assert [one.model for one in flow.of(events.ModelCalled)] == [PRO, main, PRO, main]
    # A model of the session that costs nothing does not hide it, and a limit ends the next turn.
    session.use_model(session.model.name)
    assert session.services.budget.total(session.state.usage, session.state.others_usage) == (
        pytest.approx(dollars)
    )
    await flow.run(called(flow, "@new look"))
    told = [str(event.text) for event in flow.of(events.Notice)]
    assert [one for one in told if "price of google_genai:gemini-99 is unknown" in one]
    await session.finish()
    flow.close()
    again = make_flow(script, max_session_cost_usd=dollars, **given)
    session = again.open("last")
    assert session.state.others_usage[PRO] == others[PRO]
    assert (await again.run("hand it over")).stop == "budget"


SKILLED = """replies:
  - {when: {sub_agent: true, offers: use_skill, system_contains: "- release-notes: Write the notes",
            last_contains: "write the notes"},
     calls: [{tool: use_skill, arguments: {name: release-notes}}], repeat: forever}
  - {when: {sub_agent: true, tool: use_skill}, text: "Read.", repeat: forever}
  - {when: {sub_agent: true, system_contains: "1. Run `scripts/commits.sh`"},
     text: "I began with it.", repeat: forever}
  - {when: {sub_agent: true}, text: "There are no skills.", repeat: forever}
  - {when: {last_contains: "hand it over"}, repeat: forever,
     calls: [{tool: delegate, arguments: {task: "write the notes", tools: run}}]}
  - {when: {tool: delegate}, text: "Handed over.", repeat: forever}
"""


async def test_skills_of_sub_agents(make_flow: MakeFlow, tmp_path: Path, forge: Forge) -> None:
    agents, skills = (tmp_path / "config" / one for one in ("agents", "skills"))
    agents.mkdir(parents=True)
    for name, fields in {
        "all": "description: All",
        "reads": "tools: Read, Skill",
        "none": "disallowedTools: Skill",
        "begins": "tools: Read\nskills: release-notes, no-such",
    }.items():
        (agents / f"{name}.md").write_text(f"---\n{fields}\n---\nWrite.")
    shutil.copytree(SKILLS / "release-notes", skills / "release-notes")
    flow = make_flow(SKILLED)
    session = flow.open()
    assert "begins without a skill: there is no skill no-such" in "\n".join(
        map(str, session.notices)
    )
    for name, said in {
        "all": "Read.",
        "reads": "Read.",
        "none": "There are no skills.",
        "begins": "I began with it.",
    }.items():
        assert (await flow.run(called(flow, f"@{name} write the notes"))).text == said
    assert (await flow.run("hand it over")).text == "Handed over."
    assert flow.shown[-2] == "Read."
    assert "heliotrope" not in session.extensions.agents.files["begins"].instructions
    await session.finish()
    flow.close()
    status, report = replayed(forge, flow)
    assert (status, report["divergence"]) == (0, None)
