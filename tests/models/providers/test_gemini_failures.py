"""The real Gemini client with a Gemini endpoint on 127.0.0.1: failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from email.utils import formatdate

import pytest

from kogniterm.agent.replies import is_unusable
from kogniterm.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelBlockedError,
    ModelError,
    ModelNotFoundError,
    ModelQuotaError,
    ModelTimeoutError,
    ModelUnavailableError,
    SettingsError,
)
from kogniterm.models.calling import ModelOptions
from kogniterm.models.providers.gemini import GeminiModel
from kogniterm.types import AnswerDelta, ModelEvent, ModelInfo, ModelRetried
from tests.support.asking import TOOLS, OpenGemini, Pauses, ask, hear, request
from tests.support.fake_gemini import FakeGemini, candidate, event, text_answer

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
    "unauthenticated": (lambda f: f.fail(401, "who are you"), ModelAuthError, "who are you"),
    "forbidden": (lambda f: f.fail(403, "not for you"), ModelAuthError, "not for you"),
    "unknown model": (
        lambda f: f.fail(404, "models/x is not found"),
        ModelNotFoundError,
        "Model google_genai:gemini-2.5-flash not found at Gemini",
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
    "bad request": (
        lambda f: f.fail(400, "Unknown name: foo"),
        ModelError,
        "status 400 (Unknown name: foo)",
    ),
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
    "output limit": (chunk("MAX_TOKENS", "and so on and"), "output limit"),
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
    "rate limit": (lambda f: f.fail(429, "slow down"), "slow down"),
    "internal": (lambda f: f.fail(500, "oops"), "status 500"),
    "overloaded": (lambda f: f.fail(503, "The model is overloaded."), "overloaded"),
    "gateway timeout": (lambda f: f.fail(504, "late"), "status 504"),
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


async def test_tries_are_bounded_and_the_pauses_grow(
    open_gemini: OpenGemini, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    for number in range(9):
        fake_gemini.fail(503, f"busy {number}")
    with pytest.raises(ModelUnavailableError, match="busy 3"):
        await ask(open_gemini())
    assert len(fake_gemini.requests) == 4
    assert pauses.taken == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("wish", "pause"),
    [
        ({"retry_after": 7}, 7.0),
        ({"retry_after": "0"}, 0.0),
        ({"retry_delay": "3.5s"}, 3.5),
        ({"retry_after": "soon"}, 1.0),
        ({"retry_delay": "soon"}, 1.0),
        ({"retry_after": "-5"}, 0.0),
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


async def test_a_date_in_the_past_means_now(
    open_gemini: OpenGemini, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    fake_gemini.fail(503, "busy", retry_after=formatdate(0, usegmt=True))
    fake_gemini.say("ok")
    await ask(open_gemini())
    assert pauses.taken == [0.0]


async def test_a_wish_longer_than_the_user_would_wait_ends_the_call(
    open_gemini: OpenGemini, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    fake_gemini.fail(429, "come back tomorrow", retry_after=3600)
    with pytest.raises(ModelQuotaError) as caught:
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


TEXTS = ("one ", "two ", "three ", "four")


@pytest.mark.parametrize("pieces", range(len(TEXTS)))
async def test_a_stream_cut_anywhere_is_marked_and_asked_again(
    pieces: int, open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.cut(pieces, *TEXTS)
    fake_gemini.say(*TEXTS)
    heard = await ask(open_gemini())
    kinds = [type(one) for one in heard.events]
    assert kinds[: pieces + 1] == [AnswerDelta] * pieces + [ModelRetried]
    assert heard.message.text == "one two three four"


@pytest.mark.parametrize("pieces", range(3))
async def test_a_cut_stream_never_gives_half_of_its_tool_calls(
    pieces: int, open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    calls = [{"functionCall": {"name": "read_file", "args": {"path": name}}} for name in "abc"]
    fake_gemini.chunks(*(candidate([call]) for call in calls[:pieces]), ending="cut")
    fake_gemini.parts(*calls)
    heard = await ask(open_gemini(), tools=TOOLS)
    assert [call["args"]["path"] for call in heard.message.tool_calls] == ["a", "b", "c"]
    assert len(heard.retries) == 1


async def test_a_stream_that_is_always_cut_gives_up(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    for _ in range(4):
        fake_gemini.cut(2, *TEXTS)
    heard: list[ModelEvent] = []
    with pytest.raises(ModelUnavailableError, match="was cut"):
        await hear(open_gemini(), request("go"), heard)
    assert len(fake_gemini.requests) == 4
    assert sum(isinstance(one, ModelRetried) for one in heard) == 3


@pytest.mark.parametrize("pieces", [0, 2])
async def test_silence_beyond_the_deadline_ends_the_call_and_the_connection(
    pieces: int, open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.hang(pieces, *TEXTS)
    deadline = 0.5
    while not fake_gemini.requests:  # a busy machine may need longer to send the request
        deadline *= 2
        with pytest.raises(ModelTimeoutError, match=f"within {deadline:g} s"):
            await ask(open_gemini(deadline=deadline))
    assert await asyncio.to_thread(fake_gemini.gone.wait, 60)


async def test_the_deadline_covers_a_trickle_too(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    """Each piece comes in time and the reply never ends, so a read timeout alone does not help."""
    fake_gemini.trickle(event(candidate([{"text": "."}])), every=0.05)
    with pytest.raises(ModelTimeoutError):
        await ask(open_gemini(deadline=1.5))


async def test_silence_beyond_idle_is_asked_again(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    fake_gemini.hang(1, *TEXTS)
    fake_gemini.answer_with(lambda _: text_answer("ok"))
    heard = await ask(open_gemini(idle=0.5, tries=100))  # a busy machine may be silent for as long
    assert "stopped responding" in str(heard.retries[0].reason)
    assert heard.message.text == "ok"


async def test_a_refused_connection_names_the_address(
    open_gemini: OpenGemini, closed_port: int
) -> None:
    with pytest.raises(
        ModelUnavailableError, match=f"Cannot reach Gemini at 127.0.0.1:{closed_port}"
    ):
        await ask(open_gemini(url=f"http://127.0.0.1:{closed_port}", tries=2))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed_with_the_key(
    status: int, open_gemini: OpenGemini, fake_gemini: FakeGemini, pauses: Pauses
) -> None:
    elsewhere = fake_gemini.url.replace("127.0.0.1", "localhost")
    fake_gemini.raw_body(status, "", {"Location": elsewhere})
    with pytest.raises(ModelUnavailableError, match="redirects to http://localhost"):
        await ask(open_gemini())
    assert len(fake_gemini.requests) == 1
    assert pauses.taken == []


async def test_a_host_that_does_not_exist_is_named(open_gemini: OpenGemini) -> None:
    with pytest.raises(ModelUnavailableError, match=r"no-such-host\.invalid"):
        await ask(open_gemini(url="http://no-such-host.invalid", tries=1))


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1", "http://", "127.0.0.1:80", "http://[::1", "http://h:port", "  "]
)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    options = ModelOptions(keys={"google_genai": "k"}, base_urls={"google_genai": url})
    with pytest.raises(SettingsError, match="is not a valid address"):
        GeminiModel(ModelInfo("google_genai:x", "google_genai", 1, 1), options)


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
