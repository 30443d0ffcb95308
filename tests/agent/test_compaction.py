"""Compaction loses neither the person's words, nor the plan, nor half a round."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from kogniterm.agent import compaction
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


def test_the_persons_words_and_the_plan_survive_word_for_word() -> None:
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
