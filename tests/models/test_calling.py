"""Retries, deadline and the sequence of events of a call, for any provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest
from langchain_core.messages import AIMessage

from kogniterm.errors import (
    ModelError,
    ModelReplyError,
    ModelUnavailableError,
)
from kogniterm.models.calling import Caller, ModelOptions
from kogniterm.models.providers.provider_model import adjust_error
from kogniterm.types import AnswerDelta, ModelEvent, ModelRetried, Reply
from tests.support.asking import Pauses

DONE = Reply(AIMessage("done"))
Step = ModelEvent | ModelError


def attempts(*plans: list[Step]) -> Callable[[], AsyncGenerator[ModelEvent, None]]:
    """Return a factory of attempts, each of which yields its events or raises its error."""
    left = list(plans)

    async def attempt() -> AsyncGenerator[ModelEvent, None]:
        for step in left.pop(0):
            if isinstance(step, ModelError):
                raise step
            yield step

    return attempt


async def collect(caller: Caller, *plans: list[Step]) -> list[ModelEvent]:
    return [event async for event in caller.call(attempts(*plans))]


def unavailable(after: float | None = None) -> ModelError:
    return adjust_error(ModelUnavailableError("it is away"), retry_after=after)


async def test_events_pass_and_the_reply_is_the_last(pauses: Pauses) -> None:
    caller = pauses.caller("m", ModelOptions())
    after = [AnswerDelta("a"), DONE, AnswerDelta("behind the reply")]
    assert await collect(caller, after) == [AnswerDelta("a"), DONE]


async def test_an_attempt_without_a_reply_is_an_error(pauses: Pauses) -> None:
    with pytest.raises(ModelReplyError, match="The model m sent no reply"):
        await collect(pauses.caller("m", ModelOptions()), [AnswerDelta("a")])


async def test_the_notice_comes_before_the_pause_and_says_why(pauses: Pauses) -> None:
    caller = pauses.caller("m", ModelOptions())
    events = caller.call(attempts([AnswerDelta("half"), unavailable(3.0)], [DONE]))
    assert await anext(events) == AnswerDelta("half")
    notice = await anext(events)
    assert isinstance(notice, ModelRetried)
    assert (notice.attempt, notice.of, notice.wait, str(notice.reason)) == (1, 4, 3.0, "it is away")
    assert pauses.taken == []
    assert await anext(events) == DONE
    assert pauses.taken == [3.0]


@pytest.mark.parametrize(("jitter", "taken"), [(0.0, [0.5, 1.0, 2.0]), (1.0, [1.0, 2.0, 4.0])])
async def test_backoff_doubles_between_half_and_whole(
    jitter: float, taken: list[float], pauses: Pauses
) -> None:
    caller = pauses.caller("m", ModelOptions(), jitter=jitter)
    await collect(caller, *[[unavailable()]] * 3, [DONE])
    assert pauses.taken == taken


async def test_backoff_stays_below_the_longest_wait(pauses: Pauses) -> None:
    caller = pauses.caller("m", ModelOptions(tries=6, longest_wait=3.0))
    await collect(caller, *[[unavailable()]] * 5, [DONE])
    assert pauses.taken == [1.0, 2.0, 3.0, 3.0, 3.0]


async def test_one_try_means_no_second(pauses: Pauses) -> None:
    with pytest.raises(ModelUnavailableError):
        await collect(pauses.caller("m", ModelOptions(tries=1)), [unavailable()], [DONE])


async def test_a_pause_that_passes_the_deadline_is_not_made(pauses: Pauses) -> None:
    caller = pauses.caller("m", ModelOptions(deadline=20.0))
    with pytest.raises(ModelUnavailableError):
        await collect(caller, [unavailable(30.0)], [DONE])
    assert pauses.taken == []


async def test_the_deadline_does_not_cancel_the_consumer() -> None:
    """The consumer is busy beyond the deadline; it gets an error, not a cancellation."""
    caller = Caller("m", ModelOptions(deadline=0.05))
    events = caller.call(attempts([AnswerDelta("a"), AnswerDelta("b"), DONE]))
    assert await anext(events) == AnswerDelta("a")
    loop = asyncio.get_running_loop()
    beyond = loop.create_future()
    loop.call_later(0.1, beyond.set_result, None)
    await beyond
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await events.aclose()


async def test_cancelling_during_a_pause_ends_the_call(pauses: Pauses) -> None:
    started = asyncio.Event()

    async def sleep(_: float) -> None:
        started.set()
        await asyncio.Event().wait()

    caller = Caller("m", ModelOptions(), sleep=sleep)

    async def listen() -> None:
        async for _ in caller.call(attempts([unavailable()], [DONE])):
            pass

    task = asyncio.create_task(listen())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_leaving_a_call_closes_its_attempt(pauses: Pauses) -> None:
    closed = []

    async def attempt() -> AsyncGenerator[ModelEvent, None]:
        try:
            yield AnswerDelta("a")
            yield DONE
        finally:
            closed.append(True)

    events = pauses.caller("m", ModelOptions()).call(attempt)
    await anext(events)
    await events.aclose()
    assert closed == [True]
