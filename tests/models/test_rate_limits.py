"""Limits of providers: the moments of calls, and many processes that share a database."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kogniterm.models.calling import Caller, ModelOptions
from kogniterm.models.rate_limits import (
    RATES,
    WINDOW,
    CallRecord,
    Pacing,
    Rate,
    free_moment,
    take_turn,
)
from kogniterm.storage.database import Database
from kogniterm.types import ModelRetried, Usage
from tests.models.test_calling import DONE, attempts
from tests.support.databases import location, postgres_server, postgres_url

__all__ = ["location", "postgres_server", "postgres_url"]

OpenDatabase = Callable[[], Database]


@pytest.fixture
def open_database(location: Path | str, tmp_path: Path) -> Iterator[OpenDatabase]:
    with ExitStack() as stack:

        def open_one() -> Database:
            database = Database(location, RATES, user="ana", heads=tmp_path)
            stack.callback(database.close)
            return database

        yield open_one


def in_order(rate: Rate, arrivals: list[tuple[float, int]]) -> list[CallRecord]:
    calls: list[CallRecord] = []
    for now, tokens in arrivals:
        recent = [call for call in calls if call.moment >= now - WINDOW]
        calls.append(CallRecord(free_moment(recent, now, rate, tokens), tokens))
    return calls


def fullest(calls: list[CallRecord]) -> tuple[int, int]:
    """Return the most calls, and the most tokens, of any window that a call begins."""
    windows = [
        [one for one in calls if first.moment <= one.moment < first.moment + WINDOW]
        for first in calls
    ]
    return max(map(len, windows)), max(sum(one.tokens for one in window) for window in windows)


def test_no_window_has_more_than_the_limit_whatever_comes() -> None:
    chance = random.Random(7)
    for _ in range(60):
        rate = Rate(chance.choice([None, 1, 2, 5]), chance.choice([100, 300]))
        now, arrivals = 0.0, []
        for _ in range(40):
            now += chance.choice([0.0, 0.1, 5.0, 90.0])
            arrivals.append((now, chance.randrange(1, 90)))
        calls = in_order(rate, arrivals)
        requests, tokens = fullest(calls)
        assert requests <= (rate.requests or 40)
        assert tokens <= (rate.tokens or 0)
        assert all(call.moment >= now for call, (now, _) in zip(calls, arrivals, strict=True))
        assert calls == sorted(calls, key=lambda call: call.moment)  # nobody overtakes


def test_a_call_goes_out_at_once_while_there_is_room() -> None:
    assert [call.moment for call in in_order(Rate(2), [(0, 1), (1, 1), (2, 1), (3, 1)])] == [
        0, 1, WINDOW, 1 + WINDOW,
    ]  # fmt: skip
    # One that is larger than the limit waits until it is alone.
    calls = in_order(Rate(None, 10), [(0, 4), (1, 50), (2, 1)])
    assert [call.moment for call in calls] == [0, WINDOW, 2 * WINDOW]


def test_processes_at_once_share_the_limit_by_database(open_database: OpenDatabase) -> None:
    def work(database: Database) -> None:
        for _ in range(5):
            take_turn(database, "google_genai", Rate(4), 10)

    databases = [open_database() for _ in range(4)]
    threads = [threading.Thread(target=work, args=(one,)) for one in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = databases[0].execute("SELECT moment, tokens FROM provider_calls")
    assert len(rows) == 20
    assert fullest([CallRecord(*row) for row in rows])[0] == 4


def test_a_call_waits_for_its_turn_and_its_retry_takes_another(
    open_database: OpenDatabase, location: Path | str, tmp_path: Path
) -> None:
    def opened() -> Database:
        return Database(location, RATES, user="ana", heads=tmp_path)

    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    pacing = Pacing({"openai": Rate(2)}, opened)
    caller = Caller("openai:gpt", ModelOptions(pacing=pacing, deadline=5), sleep=sleep)

    async def call() -> list[object]:
        return [event async for event in caller.call(attempts([DONE]))]

    assert asyncio.run(call()) == [DONE]
    assert asyncio.run(call()) == [DONE]
    waited, reply = asyncio.run(call())
    assert isinstance(waited, ModelRetried)
    assert (waited.attempt, reply) == (0, DONE)
    assert str(waited.reason) == "Your settings allow openai 2 requests a minute."
    assert slept == [waited.wait]
    # What a call took counts for those after it.
    database = open_database()
    turn = asyncio.run(pacing.turn("openai:gpt", None))
    assert turn is not None
    asyncio.run(pacing.settle(turn, Usage(input=40, output=2)))
    found = database.execute("SELECT tokens FROM provider_calls WHERE id = ?", (turn.id,))
    assert found == [(42,)]
    assert asyncio.run(pacing.turn("ollama:x", None)) is None
