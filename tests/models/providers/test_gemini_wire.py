"""Request bodies: equal to the plain client's, converted once, growing only at the end.

Tools differ on purpose: the plain client converts their schemas, and we send them whole.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_google_genai import ChatGoogleGenerativeAI
from pydantic import SecretStr

from kogniterm.models.providers.chunks import tool_form
from kogniterm.models.providers.gemini_wire import Wire
from tests.support.asking import TOOLS, OpenGemini, ask, request
from tests.support.fake_gemini import FakeGemini, text_answer

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02"
        "0000000b4944415478da63fcff1f0003030200efbfa7db0000000049454e44ae426082"
    )
).decode()
SIGNATURES = "__gemini_function_call_thought_signatures__"


def call(number: str, name: str = "execute_command", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": arguments or {"command": "ls"}, "id": f"call-{number}"}


def native(content: Any = "", **more: Any) -> AIMessage:
    return AIMessage(content, response_metadata={"model_provider": "google_genai"}, **more)


HISTORIES: dict[str, list[BaseMessage]] = {
    "one question": [HumanMessage("hello")],
    "system text": [SystemMessage("Be brief."), HumanMessage("hello")],
    "two system texts": [SystemMessage("A"), HumanMessage("x"), SystemMessage("B")],
    "a system text too late": [HumanMessage("x"), SystemMessage("B"), HumanMessage("y")],
    "a conversation": [
        SystemMessage("Be brief."),
        HumanMessage("¿qué tal? ✓ 漢字 \U0001f600"),
        native("fine"),
        HumanMessage('and\n"quotes" \\ too'),
    ],
    "a tool call": [
        HumanMessage("look"),
        native("Let me.", tool_calls=[call("1")]),
        ToolMessage("file", tool_call_id="call-1"),
    ],
    "parallel calls, answered in another order": [
        HumanMessage("look"),
        native(tool_calls=[call("1"), call("2", "read_file", path="a"), call("3")]),
        ToolMessage("third", tool_call_id="call-3"),
        ToolMessage("first", tool_call_id="call-1"),
        ToolMessage('{"json": [1, 2]}', tool_call_id="call-2", name="read_file"),
    ],
    "an answer that comes after the next question": [
        HumanMessage("look"),
        native(tool_calls=[call("1")]),
        HumanMessage("hurry"),
        ToolMessage("late", tool_call_id="call-1"),
    ],
    "a call without an answer, an answer without a call": [
        HumanMessage("look"),
        native(tool_calls=[call("1")]),
        ToolMessage("whose?", tool_call_id="nobody"),
        HumanMessage("never mind"),
    ],
    "thoughts and signatures": [
        HumanMessage("look"),
        native(
            [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "text", "text": "Right.", "extras": {"signature": "dGV4dA=="}},
            ],
            tool_calls=[call("1"), call("2")],
            additional_kwargs={SIGNATURES: {"call-1": "c2lnbmVk"}},
        ),
        ToolMessage("one", tool_call_id="call-1"),
        ToolMessage("two", tool_call_id="call-2"),
    ],
    "an image": [
        HumanMessage(
            [
                {"type": "text", "text": "what is this?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            ]
        ),
    ],
    "a list as a tool's answer": [
        HumanMessage("look"),
        native(tool_calls=[call("1")]),
        ToolMessage(
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], tool_call_id="call-1"
        ),
    ],
    "messages of another provider": [
        HumanMessage("look"),
        AIMessage(
            "",
            tool_calls=[call("1")],
            response_metadata={"model_provider": "openai"},
        ),
        ToolMessage("ok", tool_call_id="call-1"),
        AIMessage(
            [{"type": "text", "text": "done"}], response_metadata={"model_provider": "anthropic"}
        ),
        HumanMessage("thanks"),
    ],
    "the same message twice": [HumanMessage("again"), native("yes"), HumanMessage("again")],
    "a kind the join does not know": [
        HumanMessage("look"),
        FunctionMessage("result", name="old"),
        HumanMessage("go on"),
    ],
}


def plain_client(model: str, url: str) -> ChatGoogleGenerativeAI:
    return ChatGoogleGenerativeAI(
        model=model,
        api_key=SecretStr("a-key"),
        base_url=url,
        max_retries=1,
        timeout=600.0,
        temperature=None,
    )


async def ask_plainly(plain: ChatGoogleGenerativeAI, messages: list[BaseMessage]) -> None:
    async for _ in plain.bind_tools([tool_form(tool) for tool in TOOLS]).astream(messages):
        pass


def without_tools(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body without its tools, of which it has some."""
    assert body["tools"][0]["functionDeclarations"]
    return {**body, "tools": None}


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-pro-preview"])
@pytest.mark.parametrize("name", HISTORIES)
async def test_the_body_is_what_the_plain_client_sends(
    name: str, model: str, open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.answer_with(lambda _: text_answer("ok"))
    history = HISTORIES[name]
    plain = plain_client(model, fake_gemini.url)
    await ask_plainly(plain, history)
    await plain.aclose()
    asked_plainly = without_tools(fake_gemini.last.body)
    ours = open_gemini(model)
    for _ in range(2):
        await ask(ours, *history, tools=TOOLS)
        assert without_tools(fake_gemini.last.body) == asked_plainly


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-pro-preview"])
async def test_a_growing_session_sends_what_the_plain_client_sends(
    model: str, open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.answer_with(lambda _: text_answer("ok", model=model))
    plain, ours = plain_client(model, fake_gemini.url), open_gemini(model)
    for messages in _session(12):
        await ask(ours, *messages, tools=TOOLS)
        await ask_plainly(plain, messages)
        sent, sent_plainly = (without_tools(one.body) for one in fake_gemini.requests[-2:])
        assert sent == sent_plainly
    await plain.aclose()


def _session(steps: int) -> list[list[BaseMessage]]:
    """Return the histories of each request in a session of `steps` tool calls, sharing messages."""
    history: list[BaseMessage] = [SystemMessage("Be brief."), HumanMessage("work")]
    asked = [list(history)]
    for number in range(steps):
        signed = {SIGNATURES: {f"call-{number}": "c2lnbmVk"}}
        history += [
            native(tool_calls=[call(str(number))], additional_kwargs=signed),
            ToolMessage(f"output {number}", tool_call_id=f"call-{number}"),
        ]
        asked.append(list(history))
    return asked


async def test_one_body_is_the_beginning_of_the_next(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.answer_with(lambda _: text_answer("ok"))
    model = open_gemini()
    for messages in _session(20):
        await ask(model, *messages, tools=TOOLS)
    bodies = [seen.raw for seen in fake_gemini.requests]
    for old, new in pairwise(bodies):
        assert old.endswith(b"]}")
        assert new.startswith(old[:-2])


async def test_the_client_gets_only_what_is_new(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    """The client's work per step does not grow with the history."""
    fake_gemini.answer_with(lambda _: text_answer("ok"))
    model = open_gemini()
    counting = Counting(model)
    for messages in _session(50):
        await ask(model, *messages, tools=TOOLS)
    assert counting.handed == [2] + [2] * 50
    assert len(fake_gemini.last.contents) == 101


class Counting:
    """A counter of the messages that the client under `model` receives, from its own callbacks."""

    def __init__(self, model: Any) -> None:
        from langchain_core.callbacks import AsyncCallbackHandler

        handed: list[int] = []

        class Counter(AsyncCallbackHandler):
            async def on_chat_model_start(
                self, serialized: Any, messages: Sequence[Sequence[BaseMessage]], **_: Any
            ) -> None:
                handed.append(len(messages[0]))

        model.preload()
        model._client.callbacks = [Counter()]
        self.handed = handed


async def test_messages_read_again_from_a_journal_are_not_converted_again(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.answer_with(lambda _: text_answer("ok"))
    model = open_gemini()
    counting = Counting(model)
    messages = _session(10)[-1]
    for number, message in enumerate(messages):
        message.id = f"m{number}"
    await ask(model, *messages, tools=TOOLS)
    read_again = [message.model_copy(deep=True) for message in messages]
    await ask(model, *read_again, tools=TOOLS)
    assert counting.handed == [22, 2]
    assert fake_gemini.requests[0].raw == fake_gemini.requests[1].raw


async def test_a_compacted_history_keeps_the_wire_form_of_its_tail(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.answer_with(lambda _: text_answer("ok"))
    model = open_gemini()
    counting = Counting(model)
    messages = _session(10)[-1]
    await ask(model, *messages, tools=TOOLS)
    compacted = [messages[0], HumanMessage("Before: much was done."), *messages[-4:]]
    await ask(model, *compacted, tools=TOOLS)
    assert counting.handed == [22, 1]
    assert [one["role"] for one in fake_gemini.last.contents] == ["user"] + ["model", "user"] * 2


async def test_other_tools_and_other_system_texts_make_another_head(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.answer_with(lambda _: text_answer("ok"))
    model = open_gemini()
    await ask(model, SystemMessage("A"), "x", tools=TOOLS)
    await ask(model, SystemMessage("B"), "x", tools=TOOLS[:1])
    await ask(model, "x")
    await ask(model, SystemMessage("A"), "x", tools=TOOLS)
    first, second, third, fourth = (seen.body for seen in fake_gemini.requests)
    assert len(second["tools"][0]["functionDeclarations"]) == 1
    assert second["systemInstruction"]["parts"] == [{"text": "B"}]
    assert "systemInstruction" not in third
    assert "tools" not in third
    assert first == fourth


async def test_a_second_answer_to_the_same_message_is_sent_too(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.answer_with(lambda _: text_answer("ok"))
    model = open_gemini()
    history: list[BaseMessage] = [HumanMessage("x"), native(tool_calls=[call("1"), call("2")])]
    history.append(ToolMessage("one", tool_call_id="call-1"))
    await ask(model, *history, tools=TOOLS)
    history.append(ToolMessage("two", tool_call_id="call-2"))
    await ask(model, *history, tools=TOOLS)
    answers = fake_gemini.last.contents[-1]["parts"]
    assert [part["functionResponse"]["response"]["output"] for part in answers] == ["one", "two"]


async def test_an_empty_message_of_a_user_is_not_sent(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.say("ok")
    await ask(open_gemini(), HumanMessage(""), HumanMessage("x"))
    assert fake_gemini.last.contents == [{"parts": [{"text": "x"}], "role": "user"}]


async def test_a_client_with_another_request_shape_still_works(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    """As after an update of the client: two entries where one was expected."""
    fake_gemini.answer_with(lambda _: text_answer("ok"))
    model = open_gemini()
    await ask(model, "one")
    inner = model._client
    assert inner is not None

    class Doubling(ChatGoogleGenerativeAI):
        def _prepare_request(self, messages: list[BaseMessage], **more: Any) -> dict[str, Any]:
            return super()._prepare_request([*messages, *messages], **more)

    model._client = Doubling(
        model=inner.model,
        api_key=SecretStr("a-key"),
        base_url=fake_gemini.url,
        max_retries=1,
        client_args=inner.client_args,
    )
    heard = await ask(model, "one", "two")
    assert heard.message.text == "ok"
    assert len(fake_gemini.last.contents) == 4


def test_planning_sends_nothing_and_knows_nothing_new() -> None:
    wire = Wire(idle=1.0)
    messages = request("x").messages
    assert wire.plan(messages, {}).messages == list(messages)
    assert wire.plan(messages, {}).messages == list(messages)
