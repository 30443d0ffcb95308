"""One part of a request to one proposal; the completions are given, the rest is the real thing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from kogniterm.errors import ModelReplyError
from kogniterm.models.local.bank import Example, LearnedExamples
from kogniterm.models.local.commands import CommandWriter, Completion, command_chat
from kogniterm.models.local.runtime import Prompt
from kogniterm.models.local.steps import TurnSoFar, turn_so_far
from kogniterm.types import Usage

Write = Callable[[Prompt], Awaitable[Completion]]


def replies(*texts: str) -> tuple[Write, list[Prompt]]:
    """A completion that gives `texts` in order, and the prompts it was given."""
    prompts: list[Prompt] = []

    async def write(prompt: Prompt) -> Completion:
        prompts.append(prompt)
        return Completion(texts[len(prompts) - 1], Usage(10, 2, calls=1), cut=False)

    return write, prompts


def begun(request: str) -> TurnSoFar:
    """A turn in which nothing ran yet."""
    return turn_so_far([HumanMessage(request)])


def failed(request: str, command: str) -> TurnSoFar:
    """A turn whose first command failed."""
    call = {"name": "execute_command", "args": {"command": command}, "id": "x"}
    said = ToolMessage("no\n[exit 1]", tool_call_id="x", artifact={"exit_code": 1})
    return turn_so_far([HumanMessage(request), AIMessage("", tool_calls=[call]), said])


async def test_command_without_doubts_is_taken_at_once() -> None:
    write, prompts = replies("wc -l < a.csv")
    writer = CommandWriter(write, tuple)
    found = await writer.propose(begun("count the lines of a.csv"), "the lines")
    assert (found.command, found.doubts, found.usage.calls) == ("wc -l < a.csv", (), 1)
    assert len(prompts) == 1


async def test_forgotten_name_makes_for_another_try_with_other_examples() -> None:
    write, prompts = replies("wc -l < b.csv", "wc -l < a.csv")
    request = "count the lines of a.csv"
    found = await CommandWriter(write, tuple).propose(begun(request), request)
    assert (found.command, found.doubts, found.usage.calls) == ("wc -l < a.csv", (), 2)
    assert prompts[0].text != prompts[1].text


async def test_of_two_doubtful_commands_the_better_one_is_taken() -> None:
    write, _ = replies("sort z.csv", "cat q.csv b.csv")
    request = "join a.csv and b.csv"
    found = await CommandWriter(write, tuple).propose(begun(request), request)
    assert found.command == "cat q.csv b.csv"
    assert found.doubts == ("forgot a.csv",)


async def test_harm_is_told_apart_and_never_the_better_one() -> None:
    write, _ = replies("rm -r cache", "ls other")
    found = await CommandWriter(write, tuple).propose(begun("is cache/ big?"), "is cache/ big?")
    assert found.command == "ls other"
    write, _ = replies("rm -r cache", "rm -rf cache")
    found = await CommandWriter(write, tuple).propose(begun("is cache/ big?"), "is cache/ big?")
    assert found.harmful


async def test_list_is_counted_when_the_number_was_asked_for() -> None:
    write, _ = replies("find . -name '*.rs'")
    request = "how many .rs files are here?"
    found = await CommandWriter(write, tuple).propose(begun(request), request)
    assert found.command == "find . -name '*.rs' | wc -l"


async def test_what_failed_is_not_proposed_again() -> None:
    write, prompts = replies("cat a.txt", "head a.txt")
    turn = failed("show a.txt", "cat a.txt")
    found = await CommandWriter(write, tuple).propose(turn, "show a.txt")
    assert found.command == "head a.txt"
    assert "That failed: no" in prompts[0].text
    write, _ = replies("cat a.txt", "cat a.txt")
    assert (await CommandWriter(write, tuple).propose(turn, "show a.txt")).repeated


async def test_no_usable_reply_is_an_error() -> None:
    write, _ = replies("", "")
    with pytest.raises(ModelReplyError, match="no usable command"):
        await CommandWriter(write, tuple).propose(begun("list"), "list")


def test_examples_are_chat_turns_and_come_before_the_request() -> None:
    turn = begun("count the lines of a.csv")
    shown = (Example("best", "1", "en"), Example("second", "2", "en"))
    chat = command_chat(turn, "count the lines of a.csv", shown)
    assert chat[1:] == [
        ("user", "second"),
        ("assistant", "2"),
        ("user", "best"),
        ("assistant", "1"),
        ("user", "count the lines of a.csv"),
    ]


async def test_what_was_learnt_a_moment_ago_stands_nearest_to_the_request(tmp_path: Path) -> None:
    write, prompts = replies(*["make brass"] * 4)
    learned = LearnedExamples(tmp_path / "examples.jsonl")
    request = "polish the brass"
    writer = CommandWriter(write, learned.load)
    await writer.propose(begun(request), request)
    assert not any("make brass" in prompt.text for prompt in prompts)
    learned.add("polish the brass", "make brass")
    before = len(prompts)
    await writer.propose(begun(request), request)
    nearest = prompts[before].text.split("<|im_start|>user\n")[-2]
    assert nearest.startswith("polish the brass<|im_end|>")
    assert "make brass" in nearest


async def test_earlier_parts_are_earlier_turns() -> None:
    call = {"name": "execute_command", "args": {"command": "mkdir x"}, "id": "x"}
    done = ToolMessage("[exit 0]", tool_call_id="x", artifact={"exit_code": 0})
    request = HumanMessage("create folder x, then list it")
    turn = turn_so_far([request, AIMessage("", tool_calls=[call]), done])
    assert turn.part == "list the folder x"
    chat = command_chat(turn, turn.part, ())
    assert chat[1:] == [
        ("user", "create folder x"),
        ("assistant", "mkdir x"),
        ("user", "list the folder x"),
    ]
