"""Tool calls as text: one form, parsed strictly, repaired once, never completed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from kogniterm.models.scripted_model import (
    Script,
    ScriptedInfo,
    ScriptedModel,
    ScriptedReply,
    TokenCounts,
)
from kogniterm.models.text_tool_calls import CLOSE, OPEN, TextCall, TextCallModel, parse
from kogniterm.types import AnswerDelta, ModelRequest, Usage
from tests.support.asking import TOOLS, ask

GOOD = '{"name": "execute_command", "arguments": {"command": "ls"}}'
LS = TextCall("execute_command", {"command": "ls"})


def block(body: str) -> str:
    return f"{OPEN}\n{body}\n{CLOSE}"


READABLE: dict[str, tuple[str, tuple[TextCall, ...]]] = {
    "": ("", ()),
    "just text": ("just text", ()),
    "a < b and b > a": ("a < b and b > a", ()),
    "talk of <tool_result>x</tool_result>": ("talk of <tool_result>x</tool_result>", ()),
    block(GOOD): ("", (LS,)),
    f"{OPEN}{GOOD}{CLOSE}": ("", (LS,)),
    f"Let me look.\n\n{block(GOOD)}\n": ("Let me look.", (LS,)),
    block(GOOD) + "\n" + block(GOOD): ("", (LS, LS)),
    block(GOOD) + block(GOOD): ("", (LS, LS)),
    block('{"arguments": {}, "name": "x"}'): ("", (TextCall("x", {}),)),
    block('{"name": "unknown_tool", "arguments": {}}'): ("", (TextCall("unknown_tool", {}),)),
    block(GOOD) + "\nIt printed: a b c": ("", (LS,)),
    block(GOOD) + "\n<tool_result>\nmade up\n</tool_result>": ("", (LS,)),
    block('{"name": "x", "arguments": {"text": "</tool_call>"}}'): (
        "",
        (TextCall("x", {"text": "</tool_call>"}),),
    ),
    block('{"name": "x", "arguments": {"text": "a\\n\\"b\\" \\u00e9 {["}}'): (
        "",
        (TextCall("x", {"text": 'a\n"b" é {['}),),
    ),
    block(json.dumps({"name": "x", "arguments": {"deep": {"er": [1, None, True, 1.5]}}})): (
        "",
        (TextCall("x", {"deep": {"er": [1, None, True, 1.5]}}),),
    ),
}

MALFORMED = [
    OPEN,
    CLOSE,
    OPEN + CLOSE,
    f"text {CLOSE} text",
    f"{CLOSE}{GOOD}{OPEN}",
    f"{OPEN}\n{GOOD}",
    f"{OPEN}{GOOD}</tool_cal",
    f"{OPEN}{GOOD}</tool-call>",
    f"{OPEN}{OPEN}{GOOD}{CLOSE}{CLOSE}",
    f"{OPEN}{GOOD}{OPEN}",
    f"{OPEN}{GOOD}{GOOD}{CLOSE}",
    f"{OPEN}{GOOD},{GOOD}{CLOSE}",
    f"{block(GOOD)} and then {block(GOOD)}",
    f"{block(GOOD)}\n{OPEN}",
    f"{block(GOOD)}\n{OPEN}{{",
    block("ls -la"),
    block("```json\n" + GOOD + "\n```"),
    block("execute_command(command='ls')"),
    block(GOOD[:-1]),
    block(GOOD[:-2]),
    block(GOOD[: len(GOOD) // 2]),
    block(GOOD + "}"),
    block(GOOD + " done"),
    block("[" + GOOD + "]"),
    block('"' + "x" + '"'),
    block("null"),
    block("42"),
    block("true"),
    block("{}"),
    block('{"name": "x"}'),
    block('{"arguments": {}}'),
    block('{"name": "x", "arguments": {}, "id": "1"}'),
    block('{"name": "x", "args": {}}'),
    block('{"tool": "x", "arguments": {}}'),
    block('{"Name": "x", "Arguments": {}}'),
    block('{"name": "", "arguments": {}}'),
    block('{"name": "  ", "arguments": {}}'),
    block('{"name": null, "arguments": {}}'),
    block('{"name": 7, "arguments": {}}'),
    block('{"name": ["x"], "arguments": {}}'),
    block('{"name": "x", "arguments": null}'),
    block('{"name": "x", "arguments": "ls"}'),
    block('{"name": "x", "arguments": ["ls"]}'),
    block('{"name": "x", "arguments": "{\\"command\\": \\"ls\\"}"}'),
    block('{"name": "x", "name": "y", "arguments": {}}'),
    block('{"name": "x", "arguments": {"command": "ls", "command": "rm -rf /"}}'),
    block('{"name": "x", "arguments": {"n": NaN}}'),
    block('{"name": "x", "arguments": {"n": Infinity}}'),
    block("{'name': 'x', 'arguments': {}}"),
    block('{name: "x", arguments: {}}'),
    block('{"name": "x", "arguments": {},}'),
    block('{"name": "x", "arguments": {"a": 1,}}'),
    block('{"name": "x", "arguments": {"a": "line\nbreak"}}'),
    block('{"name": "x", "arguments": {"a": "tab\there"}}'),
    block('{"name": "x", /* why */ "arguments": {}}'),
    block('{"name": "x", "arguments": {"a": 01}}'),
    block('{"name": "x", "arguments": {"a": \\"ls\\"}}'),
    block('{"a":' * 5000),
    f"{OPEN.upper()}{GOOD}{CLOSE}",
    f"{block(GOOD)} {CLOSE} {OPEN}{GOOD}{CLOSE}",
]


@pytest.mark.parametrize("reply", READABLE)
def test_what_fits_the_form_is_read(reply: str) -> None:
    parsed = parse(reply)
    assert (parsed.text, parsed.calls) == READABLE[reply]
    assert parsed.problem is None


def test_the_table_is_as_long_as_promised() -> None:
    assert len(MALFORMED) >= 50


@pytest.mark.parametrize("reply", MALFORMED, ids=range(len(MALFORMED)))
def test_what_does_not_fit_is_no_call_at_all(reply: str) -> None:
    parsed = parse(reply)
    assert parsed.problem
    assert parsed.calls == ()
    assert "\n" not in parsed.problem


plain = st.text(max_size=40)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=8,
)
calls = st.builds(
    TextCall,
    st.text(min_size=1, max_size=20).filter(str.strip),
    st.dictionaries(plain, values, max_size=4),
)


@given(text=plain, made=st.lists(calls, min_size=1, max_size=4), ascii_only=st.booleans())
def test_every_call_that_is_written_in_the_form_is_read_back(
    text: str, made: list[TextCall], ascii_only: bool
) -> None:
    bodies = [
        json.dumps({"name": c.name, "arguments": c.arguments}, ensure_ascii=ascii_only)
        for c in made
    ]
    parsed = parse(text + "\n".join(block(body) for body in bodies))
    assert parsed.problem is None
    assert parsed.calls == tuple(made)
    assert parsed.text == text.strip()


pieces = st.sampled_from([OPEN, CLOSE, GOOD, "{", "}", '"', "name", ":", "\\", "\n", " ", "[", ","])


@given(st.lists(pieces | plain, max_size=12).map("".join))
@example(OPEN + GOOD)
def test_the_parser_never_fails_and_never_completes(reply: str) -> None:
    parsed = parse(reply)
    if parsed.problem is not None:
        assert parsed.calls == ()
    for call in parsed.calls:
        assert call.name.strip()
        assert reply.count(OPEN) >= len(parsed.calls) <= reply.count(CLOSE)
    if OPEN not in reply and CLOSE not in reply:
        assert (parsed.text, parsed.calls, parsed.problem) == (reply.strip(), (), None)


@given(st.integers(min_value=1, max_value=len(block(GOOD)) - 1))
def test_a_call_cut_anywhere_is_no_call(length: int) -> None:
    assert parse(block(GOOD)[:length]).calls == ()


class Remembering(ScriptedModel):
    """A scripted model that records its requests."""

    def __init__(self, *texts: str, chunk: int | None = None) -> None:
        usage = TokenCounts(input=10, output=5)
        replies = [ScriptedReply(text=text, usage=usage) for text in texts]
        script = Script(replies=replies, chunk=chunk, model=ScriptedInfo(calls_tools=False))
        super().__init__(script)
        self.asked: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> Any:
        self.asked.append(request)
        return super().stream(request)


def shown(messages: Sequence[BaseMessage]) -> list[tuple[str, str]]:
    return [(message.type, message.text) for message in messages]


async def test_tools_are_described_in_the_system_text() -> None:
    inner = Remembering("fine")
    model = TextCallModel(inner)
    assert model.info.calls_tools
    await ask(model, SystemMessage("Be brief."), "hi", tools=TOOLS)
    (asked,) = inner.asked
    assert asked.tools == ()
    assert asked.messages[0].text.startswith("Be brief.\n\n# Tools")
    assert '"required": ["command"]' in asked.messages[0].text
    assert shown(asked.messages[1:]) == [("human", "hi")]


async def test_without_tools_nothing_is_added_and_nothing_is_read() -> None:
    inner = Remembering(f"literally {block(GOOD)}")
    heard = await ask(TextCallModel(inner), "hi")
    assert shown(inner.asked[0].messages) == [("human", "hi")]
    assert heard.message.tool_calls == []


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
async def test_text_streams_up_to_the_call_and_the_call_does_not(chunk: int) -> None:
    inner = Remembering(f"I look <here> first.\n{block(GOOD)}", chunk=chunk)
    heard = await ask(TextCallModel(inner), tools=TOOLS)
    assert heard.text.strip() == "I look <here> first."
    assert heard.message.text == "I look <here> first."
    assert heard.message.tool_calls[0]["args"] == {"command": "ls"}
    assert heard.message.tool_calls[0]["id"]


@pytest.mark.parametrize("chunk", [1, 5, 1000])
async def test_text_that_only_begins_like_a_call_arrives_whole(chunk: int) -> None:
    inner = Remembering("see <tool_cal", chunk=chunk)
    heard = await ask(TextCallModel(inner), tools=TOOLS)
    assert heard.text == "see <tool_cal"


async def test_a_history_is_told_in_text_and_only_grows() -> None:
    inner = Remembering("one", "two")
    model = TextCallModel(inner)
    call = {"name": "execute_command", "args": {"command": "ls"}, "id": "a"}
    history: list[BaseMessage] = [
        HumanMessage("look"),
        AIMessage("Let me.", tool_calls=[call, {**call, "id": "b"}]),
        ToolMessage("out 1", tool_call_id="a"),
        ToolMessage("out 2", tool_call_id="b"),
    ]
    await ask(model, *history, tools=TOOLS)
    history += [AIMessage("one"), HumanMessage("on")]
    await ask(model, *history, tools=TOOLS)
    first, second = (shown(asked.messages) for asked in inner.asked)
    assert second[: len(first)] == first
    assert first[2:] == [
        ("ai", f"Let me.\n{block(GOOD)}\n{block(GOOD)}"),
        (
            "human",
            "<tool_result>\nout 1\n</tool_result>\n<tool_result>\nout 2\n</tool_result>",
        ),
    ]


async def test_a_malformed_call_is_repaired_once() -> None:
    inner = Remembering(f"Look:\n{block(GOOD[:-1])}", block(GOOD))
    heard = await ask(TextCallModel(inner), tools=TOOLS)
    assert heard.message.tool_calls[0]["args"] == {"command": "ls"}
    assert heard.message.text == "Look:"
    assert heard.reply.usage == Usage(20, 10, 0, 2)
    repair = inner.asked[1].messages
    assert repair[-2].text == f"Look:\n{block(GOOD[:-1])}"
    assert "the JSON is not valid" in repair[-1].text


async def test_a_repair_may_turn_out_to_be_an_answer() -> None:
    inner = Remembering(block("{"), "The answer is 4.")
    heard = await ask(TextCallModel(inner), tools=TOOLS)
    assert heard.message.text == "The answer is 4."
    assert heard.message.tool_calls == []
    assert AnswerDelta("The answer is 4.") in heard.events


async def test_what_stays_malformed_is_kept_for_the_agent_to_answer() -> None:
    inner = Remembering("First.\n" + block("{"), block('{"name": "x"}'))
    heard = await ask(TextCallModel(inner), tools=TOOLS)
    assert heard.message.text == "First."
    assert heard.message.tool_calls == []
    (invalid,) = heard.message.invalid_tool_calls
    assert invalid["args"] == block('{"name": "x"}')
    assert "exactly the keys" in str(invalid["error"])
    assert len(inner.asked) == 2


async def test_an_answered_invalid_call_is_told_in_text_too() -> None:
    inner = Remembering(block("{"), block("{"), "sorry")
    model = TextCallModel(inner)
    broken = (await ask(model, "go", tools=TOOLS)).message
    answer = ToolMessage("not JSON", tool_call_id=str(broken.invalid_tool_calls[0]["id"]))
    await ask(model, HumanMessage("go"), broken, answer, tools=TOOLS)
    assert [kind for kind, _ in shown(inner.asked[2].messages)] == [
        "system",
        "human",
        "ai",
        "human",
    ]
    assert inner.asked[2].messages[2].text == block("{")
    assert "not JSON" in inner.asked[2].messages[-1].text
