"""The last guard before a model call: no request is larger than the window, whatever is in it.

Compaction keeps the history small between rounds. This is for what happens within one: many
large results at once, an input that is larger than the window. Only the request is shortened;
history and journal keep the whole text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from kogniterm.agent.compaction import (
    clip,
    estimate_tokens,
    message_tokens,
    plain_summary,
    text_tokens,
)
from kogniterm.agent.image_blocks import with_text, without_images
from kogniterm.agent.messages import drop_old_images, note
from kogniterm.errors import ContextOverflowError
from kogniterm.types import ModelInfo, ToolSpec

RESULT_SIZES = (8_000, 2_000, 600, 200, 80)
"""What tool results are shortened to in turn, in characters, until the request fits."""

TEXT_SIZES = (8_000, 2_000, 600, 150, 60)
"""What everything else is shortened to when that was not enough."""


def tools_tokens(tools: Sequence[ToolSpec]) -> int:
    """About how many tokens the tools' descriptions take in every request."""
    return sum(text_tokens(f"{spec.name} {spec.description} {spec.parameters}") for spec in tools)


def observation_limit(window: int) -> int:
    """The most characters one observation may have, for a model with a `window` in tokens.

    An eighth of the window at three characters a token: even several observations of one round
    fit beside the rest of a compacted history.
    """
    return max(1_000, min(24_000, window * 3 // 8))


REFUSED_SHARE = 0.7
"""Share of a history that a provider refused as too long which the next request may have.
Estimates err upwards (`compaction.CHARS_PER_TOKEN`), but less for text that tokenizers split
finely."""


@dataclass(slots=True)
class Window:
    """The number of tokens that a request to a session's model may have.

    As the model's tables say, until its provider refuses a request as too long: then less.
    """

    most: int | None = None

    def tokens(self, info: ModelInfo) -> int:
        """Return what a request may take beside the reply."""
        return self._limited(info.context_window - info.max_output)

    def whole(self, info: ModelInfo) -> int:
        """Return the window with the reply's part, by which a history is cut."""
        return self._limited(info.context_window)

    def _limited(self, usual: int) -> int:
        return usual if self.most is None else min(usual, self.most)

    def room(self, info: ModelInfo, tools: Sequence[ToolSpec]) -> int:
        """Return what system text and history may take beside the tools and the reply."""
        return self.tokens(info) - tools_tokens(tools)

    def refuse(self, messages: Sequence[BaseMessage], tools: Sequence[ToolSpec]) -> None:
        """Note that the provider refused a request with these as too long: system text first."""
        system, *history = messages
        fixed = message_tokens(system) + tools_tokens(tools)
        self.most = fixed + int(estimate_tokens(history) * REFUSED_SHARE)


def fitted(
    system: SystemMessage, messages: Sequence[BaseMessage], limit: int
) -> tuple[BaseMessage, ...]:
    """`system` and `messages` within `limit` tokens; as they are whenever they fit.

    Images of earlier inputs give way first, then tool results, long texts and arguments, the
    other images, and the oldest rounds. Raises `ContextOverflowError` when the window is too
    small even for what is left.
    """
    left = limit - message_tokens(system)
    kept = list(messages)
    shorten: list[Callable[[BaseMessage], BaseMessage]] = []
    shorten += [lambda m, size=size: _short_result(m, size) for size in RESULT_SIZES]  # type: ignore[misc]  # mypy cannot infer a lambda's default
    shorten += [lambda m, size=size: _short_text(m, size) for size in TEXT_SIZES]  # type: ignore[misc]  # as above
    shorten.append(lambda m: without_images(m, "not shown; it does not fit this model's window"))
    if estimate_tokens(kept) > left:
        kept = drop_old_images(kept)
    for step in shorten:
        if estimate_tokens(kept) <= left:
            return (system, *kept)
        kept = [step(message) for message in kept]
    kept = _newest_rounds(kept, left)
    if estimate_tokens(kept) > left:
        raise ContextOverflowError(
            "The model's window of {window} tokens is too small for this request; choose a "
            "model with a larger one.",
            window=limit,
        )
    return (system, *kept)


def _short_result(message: BaseMessage, size: int) -> BaseMessage:
    if isinstance(message, ToolMessage) and len(message.text) > size:
        return message.model_copy(update={"content": clip(message.text, size)})
    return message


def _short_text(message: BaseMessage, size: int) -> BaseMessage:
    update: dict[str, Any] = {}
    if len(message.text) > size:
        message = with_text(message, clip(message.text, size))
    if isinstance(message, AIMessage) and message.tool_calls:
        update["tool_calls"] = [
            {**call, "args": {key: _short_value(v, size) for key, v in call["args"].items()}}
            for call in message.tool_calls
        ]
    return message.model_copy(update=update) if update else message


def _short_value(value: Any, size: int) -> Any:
    if isinstance(value, str):
        return clip(value, size)
    return value if len(str(value)) <= size else clip(str(value), size)


def _newest_rounds(messages: Sequence[BaseMessage], limit: int) -> list[BaseMessage]:
    """The newest whole rounds within `limit`, behind a note on what was left out."""
    starts = [i for i, m in enumerate(messages) if not isinstance(m, ToolMessage)]
    for start in starts[1:]:
        left_out = note(
            f"(Earlier rounds, shortened: {clip(plain_summary(messages[:start]), 600)})"
        )
        kept = [left_out, *messages[start:]]
        if estimate_tokens(kept) <= limit:
            return kept
    return list(messages[starts[-1] :]) if starts else []
