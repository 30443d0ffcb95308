"""No request is larger than the window, whatever is in the history."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from kogniterm.agent import compaction
from kogniterm.agent.compaction import fitted

SYSTEM = SystemMessage("You are a test.")
TEXTS = st.tuples(st.sampled_from("x7 é漢🐍\n"), st.integers(0, 60_000)).map(lambda t: t[0] * t[1])


@st.composite
def histories(draw: st.DrawFn) -> list[BaseMessage]:
    messages: list[BaseMessage] = [HumanMessage(draw(TEXTS))]
    for number in range(draw(st.integers(0, 5))):
        sizes = draw(st.lists(TEXTS, min_size=1, max_size=4))
        calls = [
            {"name": "t", "args": {"a": draw(TEXTS)}, "id": f"{number}-{i}", "type": "tool_call"}
            for i in range(len(sizes))
        ]
        messages.append(AIMessage(draw(TEXTS), tool_calls=calls))
        messages += [
            ToolMessage(text, tool_call_id=f"{number}-{i}") for i, text in enumerate(sizes)
        ]
    return messages


@settings(max_examples=60)
@given(histories(), st.integers(3_000, 40_000))
def test_every_request_fits_and_stays_valid(history: list[BaseMessage], limit: int) -> None:
    request = fitted(SYSTEM, history, limit)
    assert compaction.estimate_tokens(request) <= limit
    assert request[0] == SYSTEM
    asked: list[str] = []
    for message in request[1:]:
        if isinstance(message, AIMessage):
            assert not asked
            asked = [str(call["id"]) for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            asked.remove(message.tool_call_id)
    assert not asked


def test_what_fits_is_sent_as_it_is() -> None:
    history = [HumanMessage("a"), AIMessage("b")]
    assert fitted(SYSTEM, history, 3_000) == (SYSTEM, *history)


def test_old_results_give_way_before_the_persons_words() -> None:
    history = [
        HumanMessage("keep me " * 300),
        AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "1", "type": "tool_call"}]),
        ToolMessage("z" * 50_000, tool_call_id="1"),
    ]
    request = fitted(SYSTEM, history, 4_000)
    assert request[1].text == history[0].text
    assert "characters left out" in request[3].text


def test_digits_and_wide_characters_are_not_underestimated() -> None:
    assert compaction.text_tokens("7" * 300) >= 300
    assert compaction.text_tokens("漢" * 300) >= 300
    assert compaction.text_tokens("x" * 300) < 110
