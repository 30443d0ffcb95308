"""`kogniterm.open_agent` runs tasks for a program, which decides, answers and listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

import kogniterm
from kogniterm.errors import SettingsError, UsageError
from kogniterm.runtime.python_api.open_agent import Agent
from kogniterm.tools import tool
from kogniterm.types import ActionRequest, Decision, RiskReport, events


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the user's own configuration and data a folder of their own."""
    for kind in ("CONFIG", "DATA", "CACHE"):
        monkeypatch.setenv(f"KOGNITERM_{kind}_DIR", str(tmp_path / kind.lower()))
    return tmp_path


@asynccontextmanager
async def agent_with(home: Path, script: str, **options: Any) -> AsyncIterator[Agent]:
    work = home / "work"
    work.mkdir(exist_ok=True)
    file = home / "script.yaml"
    file.write_text(script)
    given = {"model": f"scripted:{file}", "sandbox": "off", **options}
    async with kogniterm.open_agent(work, **given) as agent:
        yield agent


WRITES = "replies: [{run: echo hi > f.txt}, {text: Written.}]"


async def test_a_task_runs_to_its_answer_and_the_callback_sees_the_facts(home: Path) -> None:
    asked: list[tuple[str, str]] = []

    def approve(request: ActionRequest, report: RiskReport) -> bool:
        asked.append((request.command, report.label))
        return True

    async with agent_with(home, WRITES, approve=approve) as agent:
        answer = await agent.run("write it")
    assert (answer.stop, answer.text, answer.exit_code) == ("done", "Written.", 0)
    assert asked == [("echo hi > f.txt", "workspace_write")]
    assert (home / "work" / "f.txt").read_text() == "hi\n"


class Scripted(BaseChatModel):
    """A program's own chat model, which does not stream."""

    replies: list[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: Any, *_more: Any, **_options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.replies.pop(0))])

    def bind_tools(self, tools: Any, **_options: Any) -> Any:
        assert any("execute_command" in str(one) for one in tools)
        return self


async def test_a_chat_model_of_the_program_takes_the_place_of_a_name(home: Path) -> None:
    call = {"name": "execute_command", "args": {"command": "echo hi > f.txt"}, "id": "1"}
    replies = [AIMessage("", tool_calls=[call]), AIMessage("Written.")]
    chat = Scripted(replies=replies)
    options: dict[str, Any] = {"model": chat, "plan": "never", "memory": "off"}
    async with agent_with(home, WRITES, approve=lambda *_: True, **options) as agent:
        answer = await agent.run("write it")
        assert agent.session.model.name == "langchain:Scripted"
    assert (answer.stop, answer.text) == ("done", "Written.")
    assert (home / "work" / "f.txt").read_text() == "hi\n"


CALLED = """replies:
  - {when: {sub_agent: true}, text: "I am the reviewer."}
  - {when: {last_contains: "Look at main."}, text: "Command."}
  - {when: {last_contains: "<skill name"}, text: "Skill."}
  - {text: "Only words.", repeat: forever}
"""


async def test_sub_agents_commands_and_skills_are_called_by_name(home: Path) -> None:
    config = home / "config"
    for name, text in {
        "agents/reviewer.md": "Review.",
        "commands/review.md": "Look at $1. @notes.txt",
        "skills/notes/SKILL.md": "---\nname: notes\ndescription: Notes\n---\nWrite notes.",
    }.items():
        (config / name).parent.mkdir(parents=True)
        (config / name).write_text(text)
    (home / "work").mkdir()
    (home / "work" / "notes.txt").write_text("periwinkle")
    async with agent_with(home, CALLED) as agent:
        assert (await agent.run("look", agent="Reviewer")).text == "I am the reviewer."
        assert (await agent.run("main", command="review")).text == "Command."
        assert "periwinkle" in agent.session.state.messages[-2].text
        assert (await agent.run("", command="notes")).text == "Skill."
        # The words of a task call nothing: a program may pass on what others wrote.
        for words in ("/review main", "@reviewer look", "/notes"):
            assert (await agent.run(words)).text == "Only words."
        with pytest.raises(UsageError, match="no custom command or skill revue; there are: notes"):
            await agent.run("x", command="revue")
        with pytest.raises(UsageError, match="no sub-agent nobody"):
            await agent.run("x", agent="nobody")
        with pytest.raises(UsageError, match="either agent or command"):
            await agent.run("x", agent="reviewer", command="review")


async def test_a_coroutine_may_refuse_with_a_reason_for_the_model(home: Path) -> None:
    async def approve(request: ActionRequest, report: RiskReport) -> Decision:
        await asyncio.sleep(0)
        return Decision("reject", request.command, "reviewer", "use another file")

    async with agent_with(home, WRITES, approve=approve) as agent:
        answer = await agent.run("write it")
        shown = [message.text for message in agent.session.state.messages]
    assert answer.exit_code == 3
    assert not (home / "work" / "f.txt").exists()
    assert any("refused by reviewer" in text and "use another file" in text for text in shown)


async def test_without_a_callback_what_policy_does_not_allow_is_refused(home: Path) -> None:
    async with agent_with(home, WRITES) as agent:
        answer = await agent.run("write it")
    assert (answer.stop, answer.refused_by) == ("refused", "unattended")
    assert not (home / "work" / "f.txt").exists()


async def test_a_plain_no_is_told_as_the_programs(home: Path) -> None:
    async with agent_with(home, WRITES, approve=lambda request, report: False) as agent:
        answer = await agent.run("write it")
        shown = [message.text for message in agent.session.state.messages]
    assert (answer.stop, answer.refused_by) == ("refused", "program")
    assert any("refused by the program that runs you" in text for text in shown)


async def test_settings_are_given_by_name(home: Path) -> None:
    script = "replies: [{run: echo hi > f.txt}, {run: echo more > g.txt}, {text: Written.}]"
    async with agent_with(home, script, approval_mode="auto", max_steps=1) as agent:
        answer = await agent.run("write it")
    assert answer.stop == "budget"
    assert (home / "work" / "f.txt").exists()
    assert not (home / "work" / "g.txt").exists()


async def test_events_come_in_order_and_end_with_the_turn(home: Path) -> None:
    also: list[events.Event] = []
    async with agent_with(
        home, WRITES, approve=lambda request, report: True, on_event=also.append
    ) as agent:
        seen = [event async for event in agent.events("write it")]
    kinds = [type(event) for event in seen]
    assert kinds[0] is events.TurnStarted
    assert kinds[-1] is events.TurnEnded
    assert kinds.index(events.ActionProposed) < kinds.index(events.CommandEnded)
    assert also == seen


SLOW = "replies: [{run: sleep 300}, {text: Slept.}, {text: Next.}]"


async def test_leaving_the_events_stops_what_runs_and_the_agent_goes_on(home: Path) -> None:
    async with agent_with(home, SLOW, approve=lambda request, report: True) as agent:
        stream = agent.events("sleep")
        async for event in stream:
            if isinstance(event, events.CommandStarted):
                break
        await stream.aclose()
        answer = await agent.run("and now?")
    assert (answer.stop, answer.text) == ("done", "Slept.")


async def test_stop_ends_the_task_with_an_answer_and_cancelling_with_an_error(home: Path) -> None:
    started = asyncio.Event()

    def watch(event: events.Event) -> None:
        if isinstance(event, events.CommandStarted):
            started.set()

    script = "replies: [{run: sleep 300}, {run: sleep 301}, {text: End.}]"
    async with agent_with(
        home, script, approve=lambda request, report: True, on_event=watch
    ) as agent:
        task = asyncio.ensure_future(agent.run("sleep"))
        await started.wait()
        agent.stop()
        assert (await task).stop == "interrupted"
        started.clear()
        task = asyncio.ensure_future(agent.run("sleep again"))
        await started.wait()
        with pytest.raises(UsageError, match="at work"):
            await agent.run("and this")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not agent.session.state.open_turn


async def test_the_model_asks_the_program(home: Path) -> None:
    script = """
replies:
  - calls: [{tool: ask_user, arguments: {question: "Which colour?", answers: [red, blue]}}]
  - text: Noted.
"""
    asked: list[tuple[str, tuple[str, ...]]] = []

    def ask(question: str, answers: tuple[str, ...]) -> str:
        asked.append((question, answers))
        return "blue"

    async with agent_with(home, script, ask=ask) as agent:
        await agent.run("paint")
        shown = [message.text for message in agent.session.state.messages]
    assert [question for question, _answers in asked] == ["Which colour?"]
    assert any("blue" in text for text in shown)


@tool(effect="none")
def stock(article: str) -> str:
    """Return how many pieces of an article are in stock."""
    return f"12 of {article}"


@tool(effect="network", hosts=["shop.example.org"])
async def order(article: str) -> str:
    """Order an article."""
    await asyncio.sleep(0)
    return f"ordered {article}"


async def test_functions_are_tools_and_those_with_effects_are_asked_for(home: Path) -> None:
    script = """
replies:
  - calls:
      - {tool: stock, arguments: {article: lamp}}
      - {tool: order, arguments: {article: lamp}}
  - text: Ordered.
"""
    asked: list[str] = []

    def approve(request: ActionRequest, report: RiskReport) -> bool:
        asked.append(f"{request.command} {[effect.target for effect in report.effects]}")
        return True

    async with agent_with(home, script, approve=approve, tools=[stock, order]) as agent:
        await agent.run("order a lamp")
        seen = [one.text for one in agent.session.state.messages if one.type == "tool"]
    assert seen == ["12 of lamp", "ordered lamp"]
    assert len(asked) == 1
    assert "order(article='lamp')" in asked[0]
    assert "shop.example.org" in asked[0]


async def test_a_function_that_cannot_be_a_tool_is_named(home: Path) -> None:
    def unmarked(article: str) -> str:
        return article

    (home / "work").mkdir()
    file = home / "script.yaml"
    file.write_text(WRITES)
    with pytest.raises(UsageError, match="unmarked cannot be a tool"):
        kogniterm.open_agent(home / "work", model=f"scripted:{file}", tools=[unmarked])


async def test_a_session_is_continued_in_the_storage_that_was_chosen(home: Path) -> None:
    storage = home / "elsewhere"
    async with agent_with(home, "replies: [{text: One.}]", storage=storage) as agent:
        await agent.run("first")
        session = agent.id
    assert (storage / "kogniterm.db").is_file()
    assert not (home / "data" / "kogniterm.db").exists()
    async with agent_with(
        home, "replies: [{text: Two.}]", storage=storage, session=session
    ) as agent:
        answer = await agent.run("second")
        said = [one.text for one in agent.session.state.messages]
    assert answer.text == "Two."
    assert (said[0].split()[0], said[1]) == ("first", "One.")


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"aproval_mode": "auto"}, UsageError, "did you mean approval_mode"),
        ({"max_steps": "many"}, SettingsError, "--max-steps is many"),
        ({"model": "scripted:/nowhere.yaml"}, UsageError, "/nowhere.yaml"),
        ({"session": "no-such-session"}, UsageError, "no-such-session"),
    ],
)
async def test_a_wrong_argument_is_one_clear_sentence(
    home: Path, options: dict[str, object], error: type[Exception], says: str
) -> None:
    (home / "work").mkdir(exist_ok=True)
    with pytest.raises(error, match=says):
        kogniterm.open_agent(home / "work", **options)  # type: ignore[arg-type]


async def test_a_folder_that_is_none_is_refused(home: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        kogniterm.open_agent(home / "nowhere")


async def test_an_empty_task_is_refused(home: Path) -> None:
    async with agent_with(home, WRITES) as agent:
        with pytest.raises(UsageError, match="empty"):
            await agent.run("  ")
