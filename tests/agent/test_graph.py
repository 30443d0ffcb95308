"""The graph with a scripted model: one call per step, and it ends while an action is pending."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage

from kogniterm import prompts
from kogniterm.agent.graph import compile_graph, think
from kogniterm.agent.graph_state import Item, ThinkContext
from kogniterm.agent.messages import PLAN_FIRST, tool_message
from kogniterm.errors import LoopError, ModelReplyError
from kogniterm.models.calling import ModelOptions
from kogniterm.models.scripted_model import open_scripted
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.session_tools import execute_command
from kogniterm.types import (
    AnswerDelta,
    ModelAsked,
    NodeUpdate,
    Phrase,
    Plan,
    PlanMode,
    PlanStep,
    ToolRan,
)


class Word(Arguments):
    word: str


async def echo(arguments: Word) -> str:
    if arguments.word == "crash":
        raise RuntimeError("boom")
    return f"heard {arguments.word}"


class Driver:
    """Driver that calls `think` with a growing history, as the runtime does."""

    def __init__(self, folder: Path, script: str, plan_mode: PlanMode = "auto") -> None:
        file = folder / "script.yaml"
        file.write_text(script)
        ids = count(1)
        self.stop: Phrase | None = None
        self.messages: list[BaseMessage] = []
        self.plan: Plan | None = None
        self.updates: list[NodeUpdate] = []
        self.calls: list[str] = []
        self.tools: list[ToolRan] = []
        self.said: list[str] = []
        tools = (execute_command(), SchemaTool("echo", Word, echo))
        self.context = ThinkContext(
            model=open_scripted(file, ModelOptions()),
            tools={tool.spec.name: tool for tool in tools},
            system=SystemMessage("You are a test."),
            plan_mode=plan_mode,
            may_continue=self._may_continue,
            new_id=lambda: f"r{next(ids)}",
            report=self._report,
        )

    def offer(self, tool: SchemaTool[Word]) -> None:
        self.context = replace(self.context, tools={**self.context.tools, tool.spec.name: tool})

    async def _may_continue(self, agent: str) -> Phrase | None:
        del agent
        return self.stop

    async def __call__(self, *new: BaseMessage) -> NodeUpdate:
        self.messages += new
        async for update in think(self.messages, self.plan, self.context):
            self.updates.append(update)
            self.messages += update.messages
            self.plan = update.plan or self.plan
        return self.updates[-1]

    def _report(self, item: Item) -> None:
        if isinstance(item, ModelAsked):
            self.calls.append(item.purpose)
        elif isinstance(item, ToolRan):
            self.tools.append(item)
        elif isinstance(item, AnswerDelta):
            item.text.encode()
            self.said.append(item.text)

    @property
    def nodes(self) -> list[str]:
        return [update.node for update in self.updates]


def test_the_graph_has_exactly_the_four_nodes() -> None:
    names = set(compile_graph().get_graph().nodes) - {"__start__", "__end__"}
    assert names == {"create_plan", "decide_action", "execute_tool", "final_response"}
    assert compile_graph() is compile_graph()


async def test_a_question_costs_one_call(tmp_path: Path) -> None:
    drive = Driver(tmp_path, "replies: [{text: Forty-two.}]")
    last = await drive(HumanMessage("What is the answer?"))
    assert last.answer == "Forty-two."
    assert drive.nodes == ["create_plan", "final_response"]
    assert drive.calls == ["create_plan"]


async def test_a_command_ends_the_graph_and_the_observation_goes_on_without_planning(
    tmp_path: Path,
) -> None:
    drive = Driver(tmp_path, "replies: [{run: ls, purpose: Look around}, {text: Two files.}]")
    last = await drive(HumanMessage("What is here?"))
    (request,) = last.pending
    assert (request.command, request.purpose, request.effect) == ("ls", "Look around", "command")
    assert drive.nodes == ["create_plan", "execute_tool"]
    last = await drive(tool_message(request.call_id, request.tool, "a b"))
    assert last.answer == "Two files."
    assert drive.calls == ["create_plan", "decide_action"]


async def test_plan_always_sends_an_answer_without_plan_back(tmp_path: Path) -> None:
    script = """
replies:
  - text: I know.
  - plan: {goal: g, steps: [{id: s1, what: a}]}
  - {text: k, repeat: 2}
"""
    drive = Driver(tmp_path, script, "always")
    await drive(HumanMessage(f"Do it\n\n{prompts.text(PLAN_FIRST)}"))
    assert drive.plan is not None
    assert any("make_plan was not called" in m.text for m in drive.messages)


async def test_plan_always_fails_clearly_where_no_plan_comes(tmp_path: Path) -> None:
    drive = Driver(tmp_path, "replies: [{text: I know., repeat: 3}]", "always")
    with pytest.raises(ModelReplyError, match="made no plan in 3 replies"):
        await drive(HumanMessage(f"Do it\n\n{prompts.text(PLAN_FIRST)}"))


async def test_an_answer_with_open_steps_is_sent_back_once(tmp_path: Path) -> None:
    script = """
replies:
  - plan: {goal: g, steps: [{id: s1, what: a}, {id: s2, what: b}]}
  - text: All done!
  - calls: [{tool: complete_step, arguments: {step: s1, status: skipped, note: no need}}]
  - text: s2 is left.
"""
    drive = Driver(tmp_path, script)
    last = await drive(HumanMessage("go"))
    assert last.answer == "s2 is left."
    nudges = [m for m in drive.messages if "the plan has open steps: s1, s2" in m.text]
    assert len(nudges) == 1


async def test_an_old_open_plan_does_not_disturb_a_new_question(tmp_path: Path) -> None:
    drive = Driver(tmp_path, "replies: [{text: Four.}]")
    drive.plan = Plan("old", (PlanStep("s1", "left over"),))
    assert (await drive(HumanMessage("2+2?"))).answer == "Four."


async def test_plan_never_offers_no_plan(tmp_path: Path) -> None:
    drive = Driver(
        tmp_path, "replies: [{plan: {goal: g, steps: [{id: s1, what: a}]}}, {text: k, repeat: 2}]"
    )
    never = Driver(tmp_path, "replies: [{expect: {offers: make_plan}, text: k}]", "never")
    await drive(HumanMessage("x"))
    with pytest.raises(Exception, match="offers"):
        await never(HumanMessage("x"))


async def test_order_means_order(tmp_path: Path) -> None:
    script = """
replies:
  - calls:
      - {tool: echo, arguments: {word: one}}
      - {tool: execute_command, arguments: {command: "true"}}
      - {tool: execute_command, arguments: {command: "false"}}
      - {tool: echo, arguments: {word: two}}
  - text: Done.
"""
    drive = Driver(tmp_path, script)
    last = await drive(HumanMessage("go"))
    assert [r.command for r in last.pending] == ["true", "false"]
    assert [t.observation for t in drive.tools] == ["heard one"]
    last = await drive(*(tool_message(r.call_id, r.tool, "ok") for r in last.pending))
    assert [t.observation for t in drive.tools] == ["heard one", "heard two"]
    answered = [m.tool_call_id for m in drive.messages if isinstance(m, ToolMessage)]
    assert len(answered) == len(set(answered)) == 4


@pytest.mark.parametrize(
    ("call", "part"),
    [
        ("{tool: nonsense, arguments: {}}", "There is no tool nonsense"),
        ("{tool: echo, arguments: {}}", "word: Field required"),
        ("{tool: echo, arguments: {word: a, sudo: true}}", "sudo: Extra inputs"),
        ("{tool: echo, arguments: {word: [1]}}", "word: Input should be a valid string"),
        ("{tool: execute_command, arguments: {command: '  '}}", "is empty"),
        ("{tool: execute_command, raw_arguments: '{\"command\": '}", "malformed_json"),
        ("{tool: echo, arguments: {word: crash}}", "echo failed: RuntimeError: boom"),
        (
            "{tool: complete_step, arguments: {step: s1}}",
            "No plan exists; answer, or call make_plan first",
        ),
        ("{tool: make_plan, arguments: {goal: g, steps: []}}", "at least one entry"),
    ],
)
async def test_what_cannot_run_is_answered_as_an_error(
    tmp_path: Path, call: str, part: str
) -> None:
    drive = Driver(tmp_path, f"replies: [{{calls: [{call}]}}, {{text: Sorry.}}]")
    last = await drive(HumanMessage("go"))
    assert last.answer == "Sorry."
    (result,) = [m for m in drive.messages if isinstance(m, ToolMessage)]
    assert result.status == "error"
    assert part in result.text


async def test_unusable_calls_end_after_three_rounds(tmp_path: Path) -> None:
    drive = Driver(tmp_path, "replies: [{calls: [{tool: nope}], repeat: forever}]")
    with pytest.raises(ModelReplyError, match="3 times in a row") as failed:
        await drive(HumanMessage("go"))
    assert "execute_command" not in str(failed.value)


async def test_empty_replies_end_after_three(tmp_path: Path) -> None:
    drive = Driver(tmp_path, "replies: [{text: ' ', repeat: forever}]")
    with pytest.raises(ModelReplyError, match="no usable reply 3 times"):
        await drive(HumanMessage("go"))


async def test_going_in_circles_is_hinted_then_stopped(tmp_path: Path) -> None:
    drive = Driver(
        tmp_path, "replies: [{calls: [{tool: echo, arguments: {word: a}}], repeat: forever}]"
    )
    with pytest.raises(LoopError, match="same results 5 times"):
        await drive(HumanMessage("go"))
    hints = [m for m in drive.messages if m.text.startswith("(The same calls")]
    assert len(hints) == 1
    assert len(drive.tools) == 5


async def test_a_circle_of_two_calls_is_hinted_then_stopped(tmp_path: Path) -> None:
    script = """
replies:
  - {when: {tool: echo, last_contains: heard a}, repeat: forever,
     calls: [{tool: echo, arguments: {word: b}}]}
  - {repeat: forever, calls: [{tool: echo, arguments: {word: a}}]}
"""
    drive = Driver(tmp_path, script)
    with pytest.raises(LoopError, match="same results 10 times"):
        await drive(HumanMessage("go"))
    hints = [m for m in drive.messages if m.text.startswith("(The same calls")]
    assert len(hints) == 1
    assert len(drive.tools) == 20


async def test_calls_in_turn_whose_results_change_are_no_circle(tmp_path: Path) -> None:
    words = [word for number in range(12) for word in ("a", f"at {number}")]
    calls = "".join(f"  - calls: [{{tool: echo, arguments: {{word: {word}}}}}]\n" for word in words)
    drive = Driver(tmp_path, f"replies:\n{calls}  - Done.\n")
    last = await drive(HumanMessage("go"))
    assert last.answer == "Done."
    assert len(drive.tools) == len(words)


async def test_a_used_up_budget_stops_before_the_next_call(tmp_path: Path) -> None:
    drive = Driver(tmp_path, "replies: [{text: never}]")
    drive.stop = Phrase("No more.")
    last = await drive(HumanMessage("go"))
    assert last.failure == Phrase("No more.")
    assert last.answer is None


async def test_equal_call_ids_are_told_apart(tmp_path: Path) -> None:
    script = """
replies:
  - calls:
      - {tool: echo, arguments: {word: a}, id: same}
      - {tool: echo, arguments: {word: b}, id: same}
  - text: Done.
"""
    drive = Driver(tmp_path, script)
    await drive(HumanMessage("go"))
    answered = [m.tool_call_id for m in drive.messages if isinstance(m, ToolMessage)]
    assert len(set(answered)) == 2


async def test_half_characters_reach_neither_history_nor_screen(tmp_path: Path) -> None:
    script = r"""
replies:
  - {text: "Half \ud83d", calls: [{tool: echo, arguments: {word: "a\udc00"}}]}
  - {text: "Half \ud83d, whole \ud83d\ude00."}
"""
    drive = Driver(tmp_path, script)
    last = await drive(HumanMessage("go"))
    assert last.answer == "Half \ufffd, whole \U0001f600."
    heard = next(m for m in drive.messages if isinstance(m, ToolMessage))
    assert heard.text == "heard a\ufffd"
    assert drive.said
    for message in drive.messages:
        message.text.encode()


READS = """
replies:
  - calls:
      - {tool: meet, arguments: {word: one}}
      - {tool: meet, arguments: {word: crash}}
      - {tool: meet, arguments: {word: two}}
  - {text: Met.}
"""


async def test_reading_calls_of_one_reply_run_at_once_and_answer_in_order(tmp_path: Path) -> None:
    drive, all_here = Driver(tmp_path, READS), asyncio.Barrier(3)

    async def meet(arguments: Word) -> str:
        await all_here.wait()  # passes only when all three are running
        return await echo(arguments)

    drive.offer(SchemaTool("meet", Word, meet))
    last = await drive(HumanMessage("go"))
    assert last.answer == "Met."
    results = [message.text for message in drive.messages if isinstance(message, ToolMessage)]
    assert results == ["heard one", "meet failed: RuntimeError: boom", "heard two"]
    assert [tool.observation for tool in drive.tools] == results


async def test_a_cancel_stops_all_calls_that_run(tmp_path: Path) -> None:
    drive, all_here, stopped = Driver(tmp_path, READS), asyncio.Barrier(4), list[str]()

    async def meet(arguments: Word) -> str:
        try:
            await all_here.wait()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(arguments.word)
            raise
        return ""

    drive.offer(SchemaTool("meet", Word, meet))
    running = asyncio.create_task(drive(HumanMessage("go")))
    await all_here.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert sorted(stopped) == ["crash", "one", "two"]
