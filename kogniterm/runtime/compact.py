"""Makes room in the history: asks the model for a summary, does without it when that fails."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage

from kogniterm import prompts
from kogniterm.agent import compaction
from kogniterm.errors import ModelError
from kogniterm.protocols import Model
from kogniterm.sessions.fold import SessionState
from kogniterm.sessions.records import Compacted
from kogniterm.types import ModelInfo, ModelRequest, Reply

SUMMARY_SHARE = 0.5
"""Share of the window that the text to be summarised may take."""


def has_room(messages: Sequence[BaseMessage], fixed: int, model: ModelInfo) -> bool:
    """Whether a history may grow on beside `fixed` tokens of system text and tools."""
    tokens = compaction.estimate_tokens(messages)
    window = model.context_window - model.max_output
    return not compaction.needs_compaction(tokens, fixed, window)


async def compact(state: SessionState, model: Model, *, asked: bool = False) -> Compacted:
    """The record that replaces the history by a summary and its last rounds.

    `asked`: a person wants it smaller now, so it is cut by its own size and not by the window's.
    """
    window = model.info.context_window
    if asked:
        window = min(window, compaction.estimate_tokens(state.messages))
    older, kept = compaction.split(state.messages, window)
    kept = compaction.shorten_results(kept, window)
    summary = await _summary(older, model) if older else ""
    history = (
        compaction.compacted(older, kept, summary, state.plan, window) if older else tuple(kept)
    )
    return Compacted(history, state.plan, state.pending, state.turn)


async def _summary(older: list[BaseMessage], model: Model) -> str:
    if model.info.one_command:
        return compaction.plain_summary(older)
    limit = int(model.info.context_window * SUMMARY_SHARE * compaction.CHARS_PER_TOKEN)
    text = f"{prompts.load('compact')}\n\n{compaction.transcript(older, limit)}"
    try:
        async for event in model.stream(ModelRequest((HumanMessage(text),), purpose="compact")):
            if isinstance(event, Reply) and event.message.text.strip():
                return event.message.text.strip()
    except ModelError:
        # The turn must go on without a summary by the model; the calls and their ends remain.
        return compaction.plain_summary(older)
    return compaction.plain_summary(older)
