"""Calling a model: its options, visible retries, a deadline over everything, no half replies.

An adapter makes one attempt as an async generator of events that ends with its `Reply` and raises
`ModelError` kinds only. `Caller.call` makes a call of attempts: a failure that asking again may
cure is asked again after a pause (the provider's own request, else exponential backoff with full
jitter), and every pause is announced with a `ModelRetried` first, also one for the limits of the
settings, whose `attempt` is 0. Text streamed before a
`ModelRetried` belongs to a reply that never came: a screen marks it, the history never gets it.
Only the `Reply` of an attempt carries tool calls, so a cut stream cannot leave half a tool call
behind.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import ModelError, ModelReplyError, ModelTimeoutError
from kogniterm.protocols import Model
from kogniterm.types import ModelEvent, ModelInfo, ModelRequest, ModelRetried, Reply
from kogniterm.types.model_calls import Recording

if TYPE_CHECKING:
    from kogniterm.models.rate_limits import Pacing


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The settings a model needs, as plain values.

    `keys` and `base_urls` are by provider name (`google_genai`, `openai`, …). `deadline` bounds
    one model call in seconds, its retries and waits included; `idle` bounds the silence between
    two pieces of a reply. `tries` counts the first call too; `longest_wait` bounds one pause
    between tries and `total_wait` their sum, in seconds.

    `temperature` and `max_output` (tokens) are left to the provider when None, `context_window`
    (tokens) to the table of known models. `thoughts` asks for the model's thinking where it is
    shown; `effort` is that of reasoning, for models that have it (empty: the provider's default);
    `images` says whether the model takes images (None: the table of known models
    does); `prompt_cache` asks providers to cache the beginning of requests, and `provider_caches`
    is the folder that lists what is stored there; `text_calls` offers tools in text to a model that
    calls none. `weights_file` is used instead of pulled weights; `examples_file` holds what the
    user's approvals taught. Relative paths of scripted and replay files start from `base_folder`;
    `read_recording` reads the file of a replay model. `pacing` lets calls wait for the limits of
    their provider.
    """

    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    base_urls: Mapping[str, str] = field(default_factory=dict)
    deadline: float = 600.0
    idle: float = 120.0
    tries: int = 4
    longest_wait: float = 60.0
    total_wait: float = 180.0
    temperature: float | None = None
    max_output: int | None = None
    context_window: int | None = None
    thoughts: bool = False
    effort: str = ""
    images: bool | None = None
    prompt_cache: bool = True
    provider_caches: Path | None = None
    text_calls: bool = False
    weights_folder: Path | None = None
    weights_file: Path | None = None
    examples_file: Path | None = None
    base_folder: Path | None = None
    read_recording: Callable[[Path], Recording] | None = None
    pacing: Pacing | None = None

    def __post_init__(self) -> None:
        if self.deadline <= 0 or self.idle <= 0:
            raise ValueError("deadline and idle are seconds above zero")
        if self.tries < 1:
            raise ValueError("a model is tried at least once")


Attempt = Callable[[], AsyncGenerator[ModelEvent, None]]
FIRST_WAIT = 1.0
"""Seconds the first backoff pause is drawn from; doubled at every further one."""


class Caller:
    """Makes calls of one model under `options`; `sleep` and `jitter` are given by tests."""

    def __init__(
        self,
        name: str,
        options: ModelOptions,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name, self.options = name, options
        self.sleep, self.jitter = sleep, jitter

    async def call(
        self, attempt: Attempt, request: ModelRequest | None = None
    ) -> AsyncGenerator[ModelEvent, None]:
        """Return one call's events. Raises the last attempt's error when tries or time run out.

        From the `request` the tokens are estimated that count for a limit of the provider.
        """
        deadline = asyncio.get_running_loop().time() + self.options.deadline
        pacing = self.options.pacing
        waited = 0.0
        for number in range(1, self.options.tries + 1):
            turn = None if pacing is None else await pacing.turn(self.name, request)
            if turn is not None and turn.wait > 0:
                yield ModelRetried(0, 0, turn.wait, turn.reason)
                await self.sleep(turn.wait)
                deadline += turn.wait  # of the provider's time, nothing has passed
            try:
                async with aclosing(self._events(attempt, deadline)) as events:
                    async for event in events:
                        if isinstance(event, Reply) and pacing is not None and turn is not None:
                            await pacing.settle(turn, event.usage)
                        yield event
                return
            except ModelError as error:
                wait = self._pause(error, number, waited, deadline)
                if wait is None:
                    raise
                reason = error.text
            yield ModelRetried(number, self.options.tries, wait, reason)
            await self.sleep(wait)
            waited += wait

    def _pause(
        self, error: ModelError, number: int, waited: float, deadline: float
    ) -> float | None:
        """Return the seconds until the next try, or None if there must be none."""
        # A reply that came but cannot be used is the agent's to mend: it tells the model why.
        if not error.retryable or isinstance(error, ModelReplyError):
            return None
        if number >= self.options.tries:
            return None
        backoff: float = min(FIRST_WAIT * 2 ** (number - 1), self.options.longest_wait)
        wait: float = backoff * (0.5 + self.jitter() / 2)
        if error.retry_after is not None:
            if error.retry_after > self.options.longest_wait:
                return None
            wait = max(error.retry_after, 0.0)
        left = deadline - asyncio.get_running_loop().time()
        if wait >= left or waited + wait > self.options.total_wait:
            return None
        return wait

    async def _events(self, attempt: Attempt, deadline: float) -> AsyncGenerator[ModelEvent, None]:
        """One attempt under the deadline; exactly one `Reply`, at the end.

        The deadline guards each step alone: a guard held across a yield would cancel whatever
        the caller does with the event.
        """
        async with aclosing(attempt()) as events:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        event = await anext(events)
                except StopAsyncIteration:
                    break
                except TimeoutError as error:
                    raise ModelTimeoutError(
                        "The model {model} gave no complete reply within "
                        "{seconds:g} s; try again, or raise model_deadline.",
                        model=self.name,
                        seconds=self.options.deadline,
                    ) from error
                yield event
                if isinstance(event, Reply):
                    return
        raise ModelReplyError("The model {model} sent no reply; try again.", model=self.name)


def silence_tracing() -> None:
    """Switch LangSmith's tracing off for this process, whatever the environment says."""
    import langsmith

    langsmith.configure(enabled=False)


def preload(model: Model) -> None:
    """Import and construct what `model` needs, so that its first call does not.

    For a background thread; does nothing for models that are light. A failure is not raised
    here: the first call raises it, where the user can be told.
    """
    load: Callable[[], None] | None = getattr(model, "preload", None)
    if load is not None:
        try:
            load()
        except ModelError:
            return


class OpenModels:
    """Opens models by name, and closes what it opened."""

    def __init__(self, open_one: Callable[[str, str | None], Model]) -> None:
        self._open_one = open_one
        self._open: list[Model] = []
        self._shared: dict[str, Model] = {}

    def __call__(self, name: str, effort: str | None = None) -> Model:
        """Open the model `name`, with an effort other than the configured one if given.

        Raises what opening it raises.
        """
        self._open.append(self._open_one(name, effort))
        return self._open[-1]

    def share(self, name: str) -> Model:
        """Return the model `name` that was shared before, unless it was closed; else open it."""
        if name not in self._shared:
            self._shared[name] = self(name)
        return self._shared[name]

    async def close(self, *, but: Model | None = None) -> None:
        """Close all models, on the loop they were used on; leave `but` open."""
        closing, self._open = self._open, [model for model in self._open if model is but]
        self._shared.clear()
        for model in closing:
            if model is not but:
                await close_model(model)


async def close_model(model: Model) -> None:
    """Release what `model` holds, on the loop it was used on."""
    close = getattr(model, "aclose", None)
    if close is not None:
        await close()
        return
    close = getattr(model, "close", None)
    if close is not None:
        close()


class WrappedModel:
    """A model that has its calls answered by `model`."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def info(self) -> ModelInfo:
        return self._model.info

    def preload(self) -> None:
        preload(self._model)

    async def aclose(self) -> None:
        await close_model(self._model)
