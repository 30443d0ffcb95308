"""Limits on what a provider is asked in a minute, over all sessions of a user in one database.

A call takes the next free moment under the lock of its provider's row, and waits for it. So
processes on many machines keep one limit, and are served in the order in which they came. The
window is the last minute itself, not a minute of the clock: there is no moment from which more than
the limit goes out within 60 seconds.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from kogniterm.storage.database import Database
from kogniterm.storage.drivers import Migration, Schema, user_table
from kogniterm.types import ModelRequest, Phrase, Usage

WINDOW = 61.0
"""Seconds in which the limit holds: a minute, and a second for the way to the provider, which may
take one request longer than the next."""
CHARACTERS = 4
"""Characters of a token, for an estimate before the provider has counted."""


class Rate(NamedTuple):
    """The most requests and tokens (input and output) in a minute; None is no limit."""

    requests: int | None = None
    tokens: int | None = None


class CallRecord(NamedTuple):
    """A call that was made or will be: its time in seconds since the epoch, and its tokens."""

    moment: float
    tokens: int


class RequestTurn(NamedTuple):
    """The turn of a call: its ID, the seconds to wait for it, and why, for the user."""

    id: str
    wait: float
    reason: Phrase


def free_moment(calls: Sequence[CallRecord], now: float, rate: Rate, tokens: int) -> float:
    """Return the earliest time at which another call keeps `rate`, after all of `calls`.

    A call that needs more tokens than the limit has goes out once nothing else is in the window.
    """
    earliest = max([now, *(call.moment for call in calls)])
    ends = sorted(call.moment + WINDOW for call in calls)
    for moment in [earliest, *(end for end in ends if end > earliest)]:
        within = [call for call in calls if call.moment > moment - WINDOW]
        taken = sum(call.tokens for call in within)
        if (rate.requests is None or len(within) < rate.requests) and (
            rate.tokens is None or not within or taken + tokens <= rate.tokens
        ):
            return moment
    return max([earliest, *ends])


def _migrations(*, shared: bool) -> tuple[Migration, ...]:
    mine = "user_id, " if shared else ""
    calls = "id TEXT NOT NULL, provider TEXT NOT NULL, moment DOUBLE PRECISION NOT NULL, "
    calls += "tokens BIGINT NOT NULL"
    providers = "name TEXT NOT NULL, calls BIGINT NOT NULL"
    statements: list[str] = []
    for table, columns, key in (
        ("provider_calls", calls, "id"),
        ("provider_limits", providers, "name"),
    ):
        statements += user_table(table, columns, key, shared=shared)
    statements.append(f"CREATE INDEX provider_calls_moment ON provider_calls ({mine}provider)")
    return (Migration(1, "provider calls", tuple(statements)),)


RATES = Schema(
    "rates",
    _migrations(shared=False),
    _migrations(shared=True),
    ("provider_calls", "provider_limits"),
)


def take_turn(database: Database, provider: str, rate: Rate, tokens: int) -> tuple[str, float]:
    """Reserve the next free moment of `provider`; returns the ID of the call and the seconds left.

    Raises `StorageError` kinds.
    """
    call = secrets.token_hex(8)
    with database.transaction():
        # Whoever comes second waits here until the first one has its moment.
        database.run(
            "INSERT INTO provider_limits (name, calls) VALUES (?, 0) ON CONFLICT DO NOTHING",
            (provider,),
        )
        database.run("UPDATE provider_limits SET calls = calls + 1 WHERE name = ?", (provider,))
        now = database.clock()
        database.run(
            "DELETE FROM provider_calls WHERE provider = ? AND moment < ?", (provider, now - WINDOW)
        )
        rows = database.execute(
            "SELECT moment, tokens FROM provider_calls WHERE provider = ?", (provider,)
        )
        moment = free_moment([CallRecord(*row) for row in rows], now, rate, tokens)
        database.execute(
            "INSERT INTO provider_calls (id, provider, moment, tokens) VALUES (?, ?, ?, ?)",
            (call, provider, moment, tokens),
        )
    return call, moment - now


class Pacing:
    """Lets calls of models wait for their turn; `rates` are by provider.

    `open_database` opens the tables of `RATES`, for one call at a time: a connection that is kept
    would hold the database while a model thinks.
    """

    def __init__(self, rates: Mapping[str, Rate], open_database: Callable[[], Database]) -> None:
        self.rates, self.open_database = rates, open_database

    async def turn(self, model: str, request: ModelRequest | None) -> RequestTurn | None:
        """Take the turn of a call of `model`; None where its provider has no limit.

        Raises `StorageError` kinds.
        """
        tokens = _estimated_tokens(request)
        provider = model.partition(":")[0]
        rate = self.rates.get(provider)
        if rate is None:
            return None

        def take() -> tuple[str, float]:
            with closing(self.open_database()) as database:
                return take_turn(database, provider, rate, tokens)

        call, wait = await asyncio.to_thread(take)
        return RequestTurn(call, wait, _limit_phrase(provider, rate))

    async def settle(self, turn: RequestTurn, usage: Usage) -> None:
        """Note what a call took, for those after it."""

        def note() -> None:
            with closing(self.open_database()) as database:
                database.run(
                    "UPDATE provider_calls SET tokens = ? WHERE id = ?",
                    (usage.input + usage.output, turn.id),
                )

        await asyncio.to_thread(note)


def _limit_phrase(provider: str, rate: Rate) -> Phrase:
    if rate.tokens is None:
        return Phrase(
            "Your settings allow {provider} {count} requests a minute.",
            {"provider": provider, "count": rate.requests},
        )
    if rate.requests is None:
        return Phrase(
            "Your settings allow {provider} {count} tokens a minute.",
            {"provider": provider, "count": rate.tokens},
        )
    return Phrase(
        "Your settings allow {provider} {requests} requests and {tokens} tokens a minute.",
        {"provider": provider, "requests": rate.requests, "tokens": rate.tokens},
    )


def _estimated_tokens(request: ModelRequest | None) -> int:
    """Return about how many tokens the texts of a request have."""
    if request is None:
        return 0
    size = 0
    for message in request.messages:
        parts = message.content if isinstance(message.content, list) else [message.content]
        for part in parts:
            text = part.get("text", "") if isinstance(part, dict) else part
            size += len(text) if isinstance(text, str) else 0
    return size // CHARACTERS
