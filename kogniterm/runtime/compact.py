"""Makes room in the history: asks the model for a summary, does without it when that fails."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage

from kogniterm import prompts
from kogniterm.agent import compaction
from kogniterm.agent.history import is_unusable, whole
from kogniterm.agent.messages import drop_old_images
from kogniterm.errors import ModelError
from kogniterm.protocols import Model
from kogniterm.sessions.fold import SessionState
from kogniterm.sessions.records import Compacted
from kogniterm.types import ModelRequest, Reply, Usage

SUMMARY_SHARE = 0.5
"""Share of the window that the text to be summarised may take."""


def has_room(messages: Sequence[BaseMessage], fixed: int, window: int) -> bool:
    """Whether a history may grow on beside `fixed` tokens of system text and tools."""
    tokens = compaction.estimate_tokens(messages)
    return not compaction.needs_compaction(tokens, fixed, window)


async def compact(
    state: SessionState, model: Model, window: int, *, asked: bool = False
) -> Compacted:
    """The record that replaces the history by a summary and its last rounds.

    `asked`: a person wants it smaller now, so it is cut by its own size and not by the window's.
    """
    if asked:
        window = min(window, compaction.estimate_tokens(state.messages))
    older, _ = _parts(state, window)
    summary, usage = await _summary(older, model) if older else (None, Usage())
    return compacted(state, window, summary, usage)


def compacted(
    state: SessionState, window: int, summary: str | None, usage: Usage | None = None
) -> Compacted:
    """The record, from what the model said (None: do without). The same state gives the same."""
    older, kept = _parts(state, window)
    history: Sequence[BaseMessage] = kept
    if older:
        told = compaction.plain_summary(older) if summary is None else summary
        history = compaction.compacted(older, kept, told, state.plan, window)
    return Compacted(
        tuple(history),
        state.plan,
        state.pending,
        state.turn,
        state.agents,
        summary,
        usage or Usage(),
        window,
    )


def _parts(state: SessionState, window: int) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """(what a summary replaces, what stays). Images stay only with the input of an open turn, so
    that the journal does not keep them again and again."""
    messages = drop_old_images(state.messages, keep_newest=state.open_turn)
    older, kept = compaction.split(messages, window)
    return older, compaction.shorten_results(kept, window)


async def _summary(older: list[BaseMessage], model: Model) -> tuple[str | None, Usage]:
    """What the model says, None when it has nothing to say, and what asking cost."""
    usage = Usage()
    if model.info.one_command:
        return None, usage
    limit = int(model.info.context_window * SUMMARY_SHARE * compaction.CHARS_PER_TOKEN)
    text = f"{prompts.load('compact')}\n\n{compaction.transcript(older, limit)}"
    try:
        async for event in model.stream(ModelRequest((HumanMessage(text),), purpose="compact")):
            if isinstance(event, Reply):
                said = "" if is_unusable(event.message) else whole(event.message.text).strip()
                return said or None, event.usage
    except ModelError:
        # The turn must go on without a summary by the model; the calls and their ends remain.
        return None, usage
    return None, usage
