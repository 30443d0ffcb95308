"""How a model is called: visible retries, a deadline over everything, no half replies.

An adapter makes one attempt as an async generator of events that ends with its `Reply` and
raises `ModelError` kinds only. `Caller.call` turns attempts into a call: what failed in a way
that asking again may cure is asked again after a pause (the provider's own wish when it names
one, else exponential backoff with full jitter), and every pause is announced with a
`ModelRetried` first. Text streamed before a `ModelRetried` belongs to a reply that never came:
whoever shows it marks it, the history never gets it. Nothing of an attempt but its `Reply`
carries tool calls, so a cut stream cannot leave half a tool call behind.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from kogniterm.errors import ModelError, ModelReplyError, ModelTimeoutError
from kogniterm.models.model_options import ModelOptions
from kogniterm.types import ModelEvent, ModelRetried, Reply

Attempt = Callable[[], AsyncGenerator[ModelEvent, None]]
FIRST_WAIT = 1.0
"""Seconds the first backoff pause is drawn from; doubled at every further one."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Makes calls of one model under `options`; `sleep` and `jitter` are given by tests."""

    name: str
    options: ModelOptions
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    async def call(self, attempt: Attempt) -> AsyncGenerator[ModelEvent, None]:
        """The events of one call. Raises the last attempt's error when tries or time run out."""
        deadline = asyncio.get_running_loop().time() + self.options.deadline
        waited = 0.0
        for number in range(1, self.options.tries + 1):
            try:
                async with aclosing(self._events(attempt, deadline)) as events:
                    async for event in events:
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
        """Seconds until the next try, or None when there must not be one."""
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
                        "The model {model} gave no complete reply within {seconds:g} s; "
                        "raise the deadline or try again.",
                        model=self.name,
                        seconds=self.options.deadline,
                    ) from error
                yield event
                if isinstance(event, Reply):
                    return
        raise ModelReplyError("The model {model} ended without a reply.", model=self.name)
