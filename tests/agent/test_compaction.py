"""Compaction keeps the user's words, the plan and whole rounds; requests fit the window."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from kogniterm.agent import compaction
from kogniterm.agent.compaction import fitted
from kogniterm.types import Evidence, Plan, PlanStep


def rounds(count: int, size: int = 400) -> list[BaseMessage]:
    messages: list[BaseMessage] = [HumanMessage("Never touch the file prod.db.")]
    for n in range(count):
        call = {
            "name": "execute_command",
            "args": {"command": f"step {n}"},
            "id": f"c{n}",
            "type": "tool_call",
        }
        messages += [
            AIMessage("", tool_calls=[call]),
            ToolMessage("x" * size, tool_call_id=f"c{n}"),
        ]
    return messages


@given(st.integers(1, 60), st.integers(0, 5000), st.integers(500, 40_000))
def test_rounds_stay_whole_and_nothing_is_lost(count: int, size: int, window: int) -> None:
    messages = rounds(count, size)
    older, kept = compaction.split(messages, window)
    assert older + kept == messages
    assert kept
    assert not isinstance(kept[0], ToolMessage)


@given(st.integers(5, 60), st.integers(0, 20_000))
def test_the_kept_part_fits_its_share(count: int, size: int) -> None:
    window = 8_000
    _, kept = compaction.split(rounds(count, size), window)
    short = compaction.shorten_results(kept, window)
    assert compaction.estimate_tokens(short) <= window * compaction.KEEP_SHARE + 500
    assert [m.type for m in short] == [m.type for m in kept]


def test_the_users_words_and_the_plan_survive_word_for_word() -> None:
    plan = Plan("Ship", (PlanStep("s1", "Build", status="done", evidence=(Evidence("r7", 0),)),))
    older, kept = compaction.split(rounds(50), 2_000)
    history = compaction.compacted(older, kept, "the middle", plan, 2_000)
    assert "Never touch the file prod.db." in history[0].text
    assert "s1 [done] Build (r7 exit 0)" in history[0].text
    assert "the middle" in history[0].text
    assert list(history[1:]) == kept


def test_a_second_compaction_keeps_the_first_words_too() -> None:
    older, kept = compaction.split(rounds(50), 2_000)
    once = list(compaction.compacted(older, kept, "first", None, 2_000)) + rounds(50)[1:]
    older, kept = compaction.split(once, 2_000)
    twice = compaction.compacted(older, kept, "second", None, 2_000)
    assert "Never touch the file prod.db." in twice[0].text


@given(st.lists(st.text(max_size=400), max_size=40), st.integers(200, 5_000))
def test_the_words_kept_fit_and_hold_the_task_and_the_newest(said: list[str], limit: int) -> None:
    chosen = compaction.within(said, limit)
    assert sum(map(len, chosen)) <= limit + 60
    assert bool(chosen) == bool(said)
    if len(said) > 1 and len(said[0]) + len(said[-1]) < limit // 2:
        assert (chosen[0], chosen[-1]) == (said[0], said[-1])


def test_clip_keeps_more_of_the_tail() -> None:
    text = "head " + "." * 5_000 + " the error"
    short = compaction.clip(text, 300)
    assert short.startswith("head")
    assert short.endswith("the error")
    assert "characters left out" in short


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


def test_old_results_give_way_before_the_users_words() -> None:
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


def test_a_summary_without_a_model_has_every_call_with_its_result() -> None:
    calls = [
        {"name": "execute_command", "args": {"command": "make"}, "id": "c1", "type": "tool_call"},
        {"name": "read_file", "args": {"path": "a.txt"}, "id": "c2", "type": "tool_call"},
    ]
    messages = [
        HumanMessage("Build it."),
        AIMessage("I build it.", tool_calls=calls),
        ToolMessage("error: no rule to make target", tool_call_id="c1", status="error"),
        ToolMessage("the text", tool_call_id="c2"),
        ToolMessage("an answer", tool_call_id="gone", name="recall_history", status="error"),
    ]
    assert compaction.plain_summary(messages).splitlines() == [
        "Model: I build it.",
        "execute_command: make -> error: no rule to make target",
        "read_file: {'path': 'a.txt'} -> the text",
        "recall_history -> an answer",
    ]


def test_a_summary_without_a_model_is_short() -> None:
    summary = compaction.plain_summary(rounds(500, 5_000))
    assert len(summary) <= 6_100
    assert summary.startswith("execute_command: step 0 -> xxx")
    assert "execute_command: step 499 -> xxx" in summary


def ran(number: int, command: str, code: int, text: str = "") -> list[BaseMessage]:
    call = {"name": "x", "args": {}, "id": f"r{number}", "type": "tool_call"}
    artifact = {"command": command, "exit_code": code}
    told = ToolMessage(text, tool_call_id=f"r{number}", artifact=artifact)
    return [AIMessage("", tool_calls=[call]), told]


def test_what_was_done_survives_every_compaction_without_a_model() -> None:
    edit = {"name": "edit_file", "args": {}, "id": "e1", "type": "tool_call"}
    history: list[BaseMessage] = [
        HumanMessage("Fix it."),
        AIMessage("", tool_calls=[edit]),
        ToolMessage("Wrote /w/a.py (+1 -1 lines).", tool_call_id="e1", name="edit_file"),
        AIMessage(
            "", tool_calls=[{"name": "ask_user", "args": {"question": "Which port?"}, "id": "q"}]
        ),
        ToolMessage("8080", tool_call_id="q", name="ask_user"),
        *ran(0, "export MODE=fast", 0),
        *ran(1, "make test", 2, "[exit 2]\n[job j1 still runs (ends with KogniTerm): serve]"),
    ]
    for again in range(3):
        kept = ran(10 + again, f"step {again}", 0)
        history = list(compaction.compacted(history, kept, "summary", None, 16_000))
    shown = history[0].text
    assert "Wrote /w/a.py (+1 -1 lines)." in shown
    assert "asked the user: Which port? -> 8080" in shown
    assert "export MODE=fast -> exit 0" in shown
    assert "make test -> exit 2" in shown
    assert "step 1 -> exit 0" in shown
    many = [message for n in range(20, 40) for message in ran(n, f"step {n}", 0)]
    (last, *_) = compaction.compacted([*history, *many], [], "summary", None, 16_000)
    assert "export MODE=fast -> exit 0" in last.text
    assert "make test" not in last.text


def test_the_summary_sees_whole_results_where_they_fit() -> None:
    result = "x" * 5_000 + "END"
    assert result in compaction.transcript(ran(1, "cat a", 0, result), 20_000)
    assert len(compaction.transcript(ran(1, "cat a", 0, result), 2_000)) < 2_100
