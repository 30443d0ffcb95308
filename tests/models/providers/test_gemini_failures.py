"""The real Gemini client with a Gemini endpoint on 127.0.0.1: failures."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate

import pytest

from kogniterm.agent.replies import is_unusable
from kogniterm.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelBlockedError,
    ModelError,
    ModelQuotaError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from tests.support.asking import TOOLS, OpenGemini, Pauses, ask
from tests.support.fake_gemini import FakeGemini, candidate, event

Prepare = Callable[[FakeGemini], None]


def chunk(finish: str, text: str = "") -> Prepare:
    parts = [{"text": text}] if text else []
    return lambda fake: fake.chunks(candidate(parts, finish, {"promptTokenCount": 3}))


FINAL: dict[str, tuple[Prepare, type[ModelError], str]] = {
    "bad key": (
        lambda f: f.fail(400, "API key not valid.", reason="API_KEY_INVALID"),
        ModelAuthError,
        "GOOGLE_API_KEY",
    ),
    "bad key without details": (
        lambda f: f.fail(400, "API key expired. Please renew it."),
        ModelAuthError,
        "expired",
    ),
    "context overflow": (
        lambda f: f.fail(
            400,
            "The input token count (1048577) exceeds the maximum number of tokens allowed "
            "(1048576).",
        ),
        ContextOverflowError,
        "1048577",
    ),
    "too large": (lambda f: f.fail(413, "Request too large"), ContextOverflowError, "too large"),
    "daily quota": (
        lambda f: f.raw_failure(
            429,
            {
                "code": 429,
                "message": "You exceeded your current quota",
                "details": [
                    {
                        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                        "violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}],
                    }
                ],
            },
        ),
        ModelQuotaError,
        "daily",
    ),
    "prompt blocked": (
        lambda f: f.chunks({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
        ModelBlockedError,
        "PROHIBITED_CONTENT",
    ),
    "reply blocked": (chunk("SAFETY", "half of it"), ModelBlockedError, "SAFETY"),
    "recitation": (chunk("RECITATION"), ModelBlockedError, "RECITATION"),
}


@pytest.mark.parametrize("name", FINAL)
async def test_what_asking_again_cannot_cure_fails_at_once(
    name: str, open_gemini: OpenGemini, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    prepare, kind, words = FINAL[name]
    prepare(fake_gemini)
    with pytest.raises(ModelError) as caught:
        await ask(open_gemini(), tools=TOOLS)
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert "a-key" not in str(caught.value)
    assert str(caught.value).count("\n") == 0
    assert len(fake_gemini.requests) == 1
    assert pauses.taken == []


UNUSABLE_REPLIES: dict[str, tuple[Prepare, str]] = {
    "malformed function call": (chunk("MALFORMED_FUNCTION_CALL"), "could not be read"),
    "unexpected tool call": (chunk("UNEXPECTED_TOOL_CALL"), "none was offered"),
    "unknown finish": (chunk("OTHER"), "OTHER"),
    "new finish reason": (chunk("BRAND_NEW", "x"), "the provider ended it"),
    "stopped without content": (chunk("STOP"), "empty"),
    "empty candidates": (
        lambda f: f.chunks({"candidates": [], "usageMetadata": {"promptTokenCount": 1}}),
        "empty",
    ),
    "json of another kind": (lambda f: f.raw(b"data: [1, 2]\r\n\r\n"), "empty"),
    "only white space": (chunk("STOP", "  \n"), "empty"),
}


# The Gemini client warns of a finish reason newer than itself.
@pytest.mark.filterwarnings("ignore:BRAND_NEW is not a valid FinishReason")
@pytest.mark.parametrize("name", UNUSABLE_REPLIES)
async def test_a_reply_that_cannot_be_used_comes_with_what_is_wrong(
    name: str, open_gemini: OpenGemini, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    prepare, words = UNUSABLE_REPLIES[name]
    prepare(fake_gemini)
    heard = await ask(open_gemini(), tools=TOOLS)
    assert words in str(is_unusable(heard.message))
    assert len(fake_gemini.requests) == 1
    assert pauses.taken == []


PASSING: dict[str, tuple[Prepare, str]] = {
    "a proxy's page": (lambda f: f.raw_failure(502, "<html>Bad gateway</html>"), "Bad gateway"),
    "nothing at all": (lambda f: f.raw(), "cannot be read"),
    "cut before the first piece": (lambda f: f.raw(ending="cut"), "was cut"),
    "broken json": (lambda f: f.raw(b'data: {"candidates": [\r\n\r\n'), "cannot be read"),
    "not an event stream": (lambda f: f.raw(b"<html>hello</html>"), "cannot be read"),
    "arguments of another kind": (
        lambda f: f.parts({"functionCall": {"name": "read_file", "args": "path=a"}}),
        "cannot be read",
    ),
    "error inside the stream": (
        lambda f: f.raw(event({"error": {"code": 503, "message": "went away"}})),
        "went away",
    ),
    "stream without an end": (
        lambda f: f.raw(event(candidate([{"text": "half an ans"}]))),
        "was cut",
    ),
}


@pytest.mark.parametrize("name", PASSING)
async def test_what_may_pass_is_announced_and_asked_again(
    name: str, open_gemini: OpenGemini, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    prepare, words = PASSING[name]
    prepare(fake_gemini)
    fake_gemini.say("better")
    heard = await ask(open_gemini(), tools=TOOLS)
    assert heard.message.text == "better"
    assert [(notice.attempt, notice.of) for notice in heard.retries] == [(1, 4)]
    assert words in str(heard.retries[0].reason)
    assert pauses.taken == [1.0]
    assert fake_gemini.requests[0].raw == fake_gemini.requests[1].raw


@pytest.mark.parametrize(
    ("wish", "pause"),
    [
        ({"retry_after": 7}, 7.0),
        ({"retry_after": "0"}, 0.0),
        ({"retry_delay": "3.5s"}, 3.5),
        ({"retry_after": "soon"}, 1.0),
        ({"retry_delay": "soon"}, 1.0),
        ({"retry_after": "-5"}, 0.0),
        ({"retry_after": formatdate(0, usegmt=True)}, 0.0),
        ({"retry_after": "1796000000"}, 1.0),  # a time of the clock
        ({"retry_after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 1.0),
    ],
)
async def test_the_providers_wish_is_honoured(
    wish: dict[str, str | float],
    pause: float,
    open_gemini: OpenGemini,
    fake_gemini: FakeGemini,
    pauses: Pauses,
) -> None:
    fake_gemini.fail(429, "slow down", **wish)
    fake_gemini.say("ok")
    heard = await ask(open_gemini())
    assert pauses.taken == [pause]
    assert [notice.wait for notice in heard.retries] == [pause]


async def test_a_wish_longer_than_the_user_would_wait_ends_the_call(
    open_gemini: OpenGemini, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    fake_gemini.fail(429, "come back tomorrow", retry_after=3600)
    with pytest.raises(ModelQuotaError, match="again in 60 min") as caught:
        await ask(open_gemini())
    assert caught.value.retry_after == 3600
    assert pauses.taken == []


async def test_the_sum_of_the_pauses_is_bounded(
    open_gemini: OpenGemini, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    for _ in range(9):
        fake_gemini.fail(429, "slow down", retry_after=20)
    with pytest.raises(ModelQuotaError):
        await ask(open_gemini(tries=9, total_wait=50.0))
    assert pauses.taken == [20.0, 20.0]


async def test_the_deadline_covers_a_trickle_too(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    """Each piece comes in time and the reply never ends, so a read timeout alone does not help."""
    fake_gemini.trickle(event(candidate([{"text": "."}])), every=0.05)
    with pytest.raises(ModelTimeoutError):
        await ask(open_gemini(deadline=1.5))


async def test_a_host_that_does_not_exist_is_named(open_gemini: OpenGemini) -> None:
    with pytest.raises(ModelUnavailableError, match=r"no-such-host\.invalid"):
        await ask(open_gemini(url="http://no-such-host.invalid", tries=1))


async def test_credentials_in_the_address_are_not_repeated(
    open_gemini: OpenGemini, closed_port: int
) -> None:
    url = f"http://someone:secret@127.0.0.1:{closed_port}"
    with pytest.raises(ModelUnavailableError) as caught:
        await ask(open_gemini(url=url, tries=1))
    assert "secret" not in str(caught.value)


async def test_a_long_message_of_the_provider_is_shortened(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.fail(400, "very " * 10_000 + "\nlong")
    with pytest.raises(ModelError) as caught:
        await ask(open_gemini())
    assert len(str(caught.value)) < 500


async def test_half_a_character_in_a_reply_does_not_break_the_session(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    """JSON can hold a lone surrogate, which no file or terminal accepts; it becomes U+FFFD."""
    fake_gemini.raw(event(candidate([{"text": "a\ud83d b"}], "STOP")))
    heard = await ask(open_gemini())
    assert heard.text == heard.message.text == "a\ufffd b"
