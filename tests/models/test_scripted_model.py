"""Scripts: possible replies, their conditions, and errors in a broken one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from kogniterm.errors import ModelError, ModelQuotaError, UsageError
from kogniterm.models import ModelOptions, open_model
from kogniterm.models.scripted_model import ERRORS, ScriptedModel, read_script
from kogniterm.types import AnswerDelta, Usage
from tests.support.asking import TOOLS, Pauses, ask


def script(folder: Path, text: str) -> ScriptedModel:
    path = folder / "script.yaml"
    path.write_text(text)
    return ScriptedModel(read_script(path))


def after_command(output: str) -> list[HumanMessage | AIMessage | ToolMessage]:
    call = {"name": "execute_command", "args": {"command": "ls"}, "id": "c1"}
    return [
        HumanMessage("go"),
        AIMessage("", tool_calls=[call]),
        ToolMessage(output, tool_call_id="c1"),
    ]


async def test_replies_come_in_order_and_stream_word_by_word(tmp_path: Path) -> None:
    model = script(tmp_path, "replies:\n- text: one two\n- three\n")
    first = await ask(model)
    assert [e.text for e in first.events if isinstance(e, AnswerDelta)] == ["one", " two"]
    assert first.message.text == "one two"
    assert (await ask(model)).message.text == "three"


async def test_run_is_a_command_and_its_text_is_taken_as_written(tmp_path: Path) -> None:
    model = script(tmp_path, "replies:\n- run: yes\n  purpose: no\n- run: |\n    a\n    b\n")
    call = (await ask(model)).message.tool_calls[0]
    assert call["name"] == "execute_command"
    assert call["args"] == {"command": "yes", "purpose": "no"}
    assert (await ask(model)).message.tool_calls[0]["args"] == {"command": "a\nb\n"}


async def test_a_plan_becomes_the_plan_tools_call(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        """
replies:
- plan:
    goal: tidy up
    steps:
    - look around
    - {what: delete, why: space, expect: gone, check: {kind: exit_code, value: 0}}
    - {id: last, what: tell, inputs: [steps.s2.output], fallback: ask}
""",
    )
    call = (await ask(model)).message.tool_calls[0]
    assert call["name"] == "make_plan"
    assert call["args"] == {
        "goal": "tidy up",
        "steps": [
            {"id": "s1", "what": "look around"},
            {
                "id": "s2",
                "what": "delete",
                "why": "space",
                "expect": "gone",
                "check": {"kind": "exit_code", "value": "0"},
            },
            {"id": "last", "what": "tell", "inputs": ["steps.s2.output"], "fallback": "ask"},
        ],
    }


async def test_calls_of_any_tool_even_broken_ones(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        """
replies:
- text: two at once
  calls:
  - tool: read_file
    id: mine
    arguments: {path: a, lines: [1, 2], since: 2024-01-31, flag: true, none: null, f: 1.5}
  - run: ls
  - tool: read_file
    raw_arguments: '{"path": '
  - tool: read_file
    arguments: [not, an, object]
""",
    )
    message = (await ask(model)).message
    assert message.text == "two at once"
    assert message.tool_calls[0]["id"] == "mine"
    assert message.tool_calls[0]["args"] == {
        "path": "a",
        "lines": [1, 2],
        "since": "2024-01-31",
        "flag": True,
        "none": None,
        "f": 1.5,
    }
    assert message.tool_calls[1]["args"] == {"command": "ls"}
    assert [call["args"] for call in message.invalid_tool_calls] == [
        '{"path": ',
        '["not", "an", "object"]',
    ]
    ids = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]
    assert len(set(ids)) == 4


async def test_ids_do_not_repeat_those_of_a_resumed_session(tmp_path: Path) -> None:
    model = script(tmp_path, "replies:\n- run: ls\n")
    call = {"name": "execute_command", "args": {"command": "ls"}, "id": "call_1"}
    old = [
        HumanMessage("x"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("", tool_call_id="call_1"),
    ]
    assert (await ask(model, *old)).message.tool_calls[0]["id"] == "call_2"


CONDITIONS = {
    "last_contains: total 3": True,
    "last_contains: total 4": False,
    "last_matches: 'total \\d+$'": True,
    "last_matches: '^otal'": False,
    "any_contains: gettysburg": True,
    "any_contains: springfield": False,
    "system_contains: gettysburg": False,
    "system_contains: brief": True,
    "tool: execute_command": True,
    "tool: read_file": False,
    "offers: read_file": True,
    "offers: web": False,
    "turn: 2": True,
    "turn: 1": False,
    "call: 1": True,
    "call: 2": False,
    "purpose: decide_action": True,
    "purpose: create_plan": False,
    "{tool: execute_command, turn: 2}": True,
    "{tool: execute_command, turn: 3}": False,
}


@pytest.mark.parametrize("condition", CONDITIONS)
async def test_a_conditional_reply_waits_for_its_moment(condition: str, tmp_path: Path) -> None:
    body = condition if condition.startswith("{") else f"{{{condition}}}"
    model = script(tmp_path, f"replies:\n- when: {body}\n  text: matched\n- text: plain\n")
    history = [
        SystemMessage("be brief"),
        HumanMessage("gettysburg"),
        *after_command("drwx\ntotal 3"),
    ]
    heard = await ask(model, *history, tools=TOOLS)
    assert (heard.message.text == "matched") is CONDITIONS[condition]


async def test_a_repeated_reply_serves_so_often_and_a_forever_one_always(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        "replies:\n- text: a\n  repeat: 2\n"
        "- when: {last_contains: x}\n  text: b\n  repeat: forever\n",
    )
    asked = ["y", "y", "x", "x", "x"]
    assert [(await ask(model, word)).message.text for word in asked] == ["a", "a", "b", "b", "b"]


async def test_side_calls_are_served_by_name_only(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        "replies:\n- text: main\n- when: {purpose: compact}\n  text: summary\n",
    )
    assert (await ask(model, purpose="compact")).message.text == "summary"
    assert (await ask(model)).message.text == "main"
    with pytest.raises(ModelError, match=r"no reply for call 3 \(judge\)"):
        await ask(model, purpose="judge")


async def test_the_end_of_the_script_says_where_it_is_and_what_was_asked(tmp_path: Path) -> None:
    model = script(tmp_path, "replies:\n- only\n")
    await ask(model)
    with pytest.raises(ModelError) as caught:
        await ask(model, "and now?")
    assert str(caught.value).startswith(f"The script {tmp_path / 'script.yaml'} has no reply")
    assert "and now?" in str(caught.value)
    assert caught.value.exit_code == 5


async def test_other_ends_of_the_script(tmp_path: Path) -> None:
    repeating = script(tmp_path, "at_end: repeat_last\nreplies: [a, b]\n")
    assert [(await ask(repeating)).message.text for _ in range(4)] == ["a", "b", "b", "b"]
    restarting = script(tmp_path, "at_end: restart\nreplies: [a, b]\n")
    assert [(await ask(restarting)).message.text for _ in range(4)] == ["a", "b", "a", "b"]
    stuck = script(tmp_path, "at_end: restart\nreplies:\n- when: {tool: x}\n  text: never\n")
    with pytest.raises(ModelError, match="no reply"):
        await ask(stuck)


async def test_an_expectation_that_is_not_met_names_its_line(tmp_path: Path) -> None:
    model = script(
        tmp_path, "replies:\n- text: a\n- expect: {last_contains: 'exit 0'}\n  text: b\n"
    )
    await ask(model)
    with pytest.raises(
        ModelError, match=r"script\.yaml:3: the script expects last_contains 'exit 0'"
    ):
        await ask(model, "exit 1")


@pytest.mark.parametrize("kind", ERRORS)
async def test_every_kind_of_failure_can_be_played(kind: str, tmp_path: Path) -> None:
    model = script(
        tmp_path, f"replies:\n- text: half\n  error: {kind}\n  message: it is so\n- after\n"
    )
    with pytest.raises(ModelError, match="it is so") as caught:
        await ask(model)
    assert type(caught.value) is ERRORS[kind]
    assert (await ask(model)).message.text == "after"


async def test_a_failure_with_retry_goes_through_the_visible_retries(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("replies:\n- error: quota\n  retry: true\n  retry_after: 9\n- better\n")
    heard = await ask(ScriptedModel(read_script(path)))
    assert [notice.wait for notice in heard.retries] == [9.0]
    assert heard.message.text == "better"
    path.write_text("replies:\n- error: quota\n  retry: true\n  repeat: forever\n")
    with pytest.raises(ModelQuotaError):
        await ask(ScriptedModel(read_script(path)))


async def test_delays_are_kept_only_when_the_script_wants_them(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    for wanted, taken in (("false", []), ("true", [2.5])):
        path.write_text(f"delays: {wanted}\nreplies:\n- text: a\n  delay: 2.5\n")
        pauses = Pauses()
        await ask(ScriptedModel(read_script(path), sleep=pauses.sleep))
        assert pauses.taken == taken


async def test_usage_is_given_or_estimated(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        "replies:\n- text: a\n  usage: {input: 10, output: 5, cached: 2}\n- text: 12345678\n",
    )
    assert (await ask(model)).reply.usage == Usage(10, 5, 2, 1)
    assert (await ask(model, "x" * 40)).reply.usage == Usage(10, 2, 0, 1)


async def test_thoughts_and_chunk_sizes(tmp_path: Path) -> None:
    model = script(tmp_path, "chunk: 3\nreplies:\n- thoughts: hmm well\n  text: abcdefg\n")
    heard = await ask(model)
    assert heard.thoughts == "hmm well"
    assert [e.text for e in heard.events if isinstance(e, AnswerDelta)] == ["abc", "def", "g"]


def test_the_script_describes_its_model(tmp_path: Path) -> None:
    model = script(tmp_path, "model: {context_window: 9000, calls_tools: false}\nreplies: [a]\n")
    assert (model.info.context_window, model.info.max_output) == (9000, 4500)
    assert model.info.calls_tools is False
    assert model.info.provider == "scripted"


BROKEN = {
    "": "is empty",
    "replies: []": ", line 1: replies: holds no entry",
    "model: {}": ", line 1: replies is missing",
    "- a": ", line 1: must be a mapping",
    "replies: {}": ", line 1: replies: must be a list",
    "reply: [a]": ", line 1: reply: unknown key (did you mean replies?).",
    "replies:\n- txet: a": ", line 2: replies[1].txet: unknown key (did you mean text?).",
    "replies:\n- text: a\n  text: b": ", line 3: replies[1].text: stands here twice",
    "replies:\n- text: [a]": ", line 2: replies[1].text: must be text",
    "replies:\n- purpose: x\n  text: a": ", line 2: replies[1].purpose: only goes with run",
    "replies:\n- delay: 1": ", line 2: replies[1]: says nothing",
    "replies:\n- text: a\n  delay: soon": ", line 3: replies[1].delay: must be a number",
    "replies:\n- text: a\n  delay: -1": ", line 3: replies[1].delay: must be a number",
    "replies:\n- text: a\n  delay: .nan": ", line 3: replies[1].delay: must be a number",
    "replies:\n- text: a\n  repeat: 0": ", line 3: replies[1].repeat: must be a whole number",
    "replies:\n- text: a\n  repeat: true": ", line 3: replies[1].repeat: must be a whole number",
    "replies:\n- text: a\n  when: {}": ", line 3: replies[1].when: holds no condition",
    "replies:\n- text: a\n  when: {last_matches: '('}": "is not a regular expression",
    "replies:\n- text: a\n  when: {purpose: nap}": "nap is none of create_plan",
    "replies:\n- run: ls\n  calls: []": ", line 3: replies[1].calls: does not go with run",
    "replies:\n- calls: []": ", line 2: replies[1].calls: holds no call",
    "replies:\n- calls: [{arguments: {}}]": "names no tool",
    "replies:\n- calls: [{run: a, tool: b}]": "does not go with run",
    "replies:\n- calls: [{tool: b, purpose: c}]": "only goes with run",
    "replies:\n- calls: [{tool: b, arguments: {}, raw_arguments: c}]": "does not go with raw",
    "replies:\n- calls: [{tool: b, arguments: !!python/object/apply:os.getcwd []}]": "os.getcwd",
    "replies:\n- calls: [{tool: b, arguments: !!binary aGk=}]": "binary",
    "replies:\n- error: odd": "odd is none of auth",
    "replies:\n- text: a\n  retry: true": ", line 3: replies[1].retry: only goes with error",
    "replies:\n- error: auth\n  run: ls": "a reply that fails makes no calls",
    "replies:\n- plan: {goal: a}": "steps is missing",
    "replies:\n- plan: {goal: a, steps: [{why: b}]}": "what is missing",
    "replies:\n- plan: {goal: a, steps: [{what: b, check: {kid: c}}]}": "did you mean kind?",
    "replies:\n- text: a\n  usage: {input: -1}": "must be a whole number",
    "at_end: explode\nreplies: [a]": ", line 1: at_end: explode is none of fail",
    "delays: perhaps\nreplies: [a]": ", line 1: delays: must be true or false",
    "replies:\n- text: a\n b: c": ", line 3: not valid YAML",
    "replies: [a": ", line 1: not valid YAML",
    "replies: *nowhere": ", line 1: not valid YAML",
    "a: b\n---\nc: d": ", line 2: not valid YAML",
    "replies:\n- text: '\x07'": "is not valid YAML",
    "replies:\n- calls:\n  - tool: a\n    arguments: &x {self: *x}": "is nested too deeply",
}


@pytest.mark.parametrize("text", BROKEN)
def test_an_error_in_the_file_names_file_line_and_key(text: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        open_model(f"scripted:{path}", ModelOptions())
    assert str(path) in str(caught.value)
    assert BROKEN[text] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    options = ModelOptions(base_folder=tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        open_model("scripted:nowhere.yaml", options)
    with pytest.raises(UsageError, match="it is a folder"):
        open_model("scripted:.", options)
    (tmp_path / "latin.yaml").write_bytes(b"replies: [caf\xe9]")
    with pytest.raises(UsageError, match="line 1: the file is not UTF-8 text"):
        open_model("scripted:latin.yaml", options)


async def test_a_relative_path_starts_at_the_base_folder(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("replies: [here]")
    model = open_model("scripted:s.yaml", ModelOptions(base_folder=tmp_path))
    assert (await ask(model)).message.text == "here"


def test_a_scripted_model_needs_no_provider_package(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("replies:\n- run: ls\n")
    code = f"""
import asyncio, sys
from kogniterm.models import ModelOptions, open_model
from kogniterm.types import ModelRequest
async def main():
    from langchain_core.messages import HumanMessage
    model = open_model("scripted:{tmp_path}/s.yaml", ModelOptions())
    events = [e async for e in model.stream(ModelRequest((HumanMessage("x"),)))]
    assert events[-1].message.tool_calls
asyncio.run(main())
heavy = {{"langsmith", "google.genai", "langchain_core.language_models.chat_models", "httpx"}}
print(sorted(heavy & set(sys.modules)))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr


async def test_facts_are_asked_for_only_where_the_script_has_them(tmp_path: Path) -> None:
    facts = "- when: {purpose: extract_facts}\n  text: '{}'\n"
    assert script(tmp_path, f"replies:\n- one\n{facts}").info.finds_facts
    assert not script(tmp_path, "replies:\n- one\n").info.finds_facts


async def test_a_reply_can_be_for_a_sub_agent_or_for_the_main_agent(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        "replies:\n- {when: {sub_agent: true}, text: inner, repeat: forever}\n"
        "- {when: {sub_agent: false}, text: outer, repeat: forever}\n",
    )
    assert (await ask(model)).message.text == "outer"
    assert (await ask(model, agent="call_1")).message.text == "inner"
