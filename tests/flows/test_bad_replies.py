"""Unusable replies, from every provider's real client, through whole turns."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kogniterm.types import events
from tests.flows.conftest import Flow, MakeFlow
from tests.support.fake_gemini import FakeGemini, candidate, event
from tests.support.provider_streams import anthropic_stream, openai_call, openai_stream, spoken

Prepare = Callable[[FakeGemini], None]
MODELS = {
    "google_genai": "google_genai:gemini-2.5-flash",
    "openai": "openai:gpt-4o",
    "anthropic": "anthropic:claude-x",
    "ollama": "ollama:llama3.2",
}


def ended(finish: str, text: str = "") -> Prepare:
    """Return a reply of Gemini that ended for this reason."""
    parts = [{"text": text}] if text else []
    return lambda fake: fake.raw(event(candidate(parts, finish)))


def words(provider: str, text: str, finish: str = "") -> Prepare:
    return lambda fake: fake.raw(*spoken(provider, *([text] if text else []), finish=finish))


def refused(status: int, message: str, kind: str = "invalid_request_error") -> Prepare:
    body = json.dumps({"error": {"message": message, "type": kind}})
    return lambda fake: fake.raw_body(status, body)


HALF_A_CALL = openai_call(0, "call_a", "execute_command", '{"command": "touch made')
LONG = "longer than 2000000 characters"


def one_line(fake: FakeGemini) -> None:
    """Send one event longer than a client should buffer."""
    fake.raw(b'data: {"text": "', *[b"x" * 1_000_000] * 20)


BAD: dict[tuple[str, str], tuple[Prepare, str]] = {
    ("google_genai", "empty"): (ended("STOP"), "it was empty"),
    ("google_genai", "no candidates"): (
        lambda fake: fake.chunks({"candidates": [], "usageMetadata": {"promptTokenCount": 1}}),
        "it was empty",
    ),
    ("google_genai", "malformed"): (ended("MALFORMED_FUNCTION_CALL"), "could not be read"),
    ("google_genai", "cut"): (ended("MAX_TOKENS", "On and on and"), "output limit"),
    ("google_genai", "endless"): (
        lambda fake: fake.say(*["on and on " * 5_000] * 60),
        LONG,
    ),
    ("google_genai", "one line"): (one_line, LONG),
    ("openai", "one line"): (one_line, LONG),
    ("anthropic", "one line"): (one_line, LONG),
    ("ollama", "one line"): (one_line, LONG),
    ("openai", "endless"): (
        lambda fake: fake.raw(*spoken("openai", *["on and on " * 5_000] * 60)),
        LONG,
    ),
    ("openai", "empty"): (words("openai", ""), "it was empty"),
    ("openai", "cut"): (words("openai", "On and on", "length"), "output limit"),
    ("openai", "cut in a call"): (
        lambda fake: fake.raw(*openai_stream(HALF_A_CALL, finish="length")),
        "output limit",
    ),
    ("openai", "malformed"): (
        lambda fake: fake.raw(*openai_stream(HALF_A_CALL, finish="tool_calls")),
        "malformed_json",
    ),
    ("anthropic", "empty"): (words("anthropic", ""), "it was empty"),
    ("anthropic", "cut"): (words("anthropic", "On and on", "max_tokens"), "output limit"),
    ("anthropic", "malformed"): (
        lambda fake: fake.raw(
            *anthropic_stream(
                {"name": "execute_command", "json": '{"command": "touch made'}, stop="tool_use"
            )
        ),
        "malformed_json",
    ),
    ("ollama", "empty"): (words("ollama", ""), "it was empty"),
    ("ollama", "cut"): (words("ollama", "On and on", "length"), "output limit"),
}
"""The reply of each provider, and the part of the error that the next request tells the model."""
OVERFLOWS: dict[tuple[str, str], Prepare] = {
    ("google_genai", "refused"): lambda fake: fake.fail(
        400, "The input token count (1048577) exceeds the maximum number of tokens allowed."
    ),
    ("openai", "refused"): refused(400, "This model's maximum context length is 8192 tokens."),
    ("anthropic", "refused"): refused(400, "prompt is too long: 9 tokens > 8 maximum"),
    ("anthropic", "in mid-reply"): words("anthropic", "Half", "model_context_window_exceeded"),
    ("ollama", "refused"): lambda fake: fake.raw_body(
        400, json.dumps({"error": "the prompt exceeds the context length"})
    ),
}


def flow_of(provider: str, make_flow: MakeFlow, fake: FakeGemini) -> Flow:
    """Return an unattended flow with the provider's real client."""
    kind = {"google_genai": "google"}.get(provider, provider)
    keys = {} if provider == "ollama" else {f"{kind}_api_key": "a-key-of-the-user"}
    address = {"openai": f"{fake.url}/v1"}.get(provider, fake.url)
    given = {**keys, f"{kind}_base_url": address}
    return make_flow(model=MODELS[provider], model_retries=1, memory="off", **given)


def answers(provider: str, fake: FakeGemini, text: str) -> None:
    if provider == "google_genai":
        fake.say(text)
    else:
        words(provider, text)(fake)


@pytest.mark.parametrize(("provider", "kind"), BAD)
async def test_the_model_is_told_what_was_wrong_and_asked_again(
    provider: str, kind: str, make_flow: MakeFlow, fake_gemini: FakeGemini
) -> None:
    prepare, told = BAD[provider, kind]
    flow = flow_of(provider, make_flow, fake_gemini)
    prepare(fake_gemini)
    answers(provider, fake_gemini, "Better.")
    answer = await flow.run("go on")
    assert (answer.exit_code, answer.text) == (0, "Better.")
    first, second = (seen.raw.decode() for seen in fake_gemini.requests)
    assert told in second
    assert told not in first
    assert not (flow.folder / "made").exists()


@pytest.mark.parametrize("provider", MODELS)
async def test_it_is_given_up_after_three_replies_with_the_last_reason(
    provider: str, make_flow: MakeFlow, fake_gemini: FakeGemini
) -> None:
    flow = flow_of(provider, make_flow, fake_gemini)
    for _ in range(3):
        (ended("STOP") if provider == "google_genai" else words(provider, ""))(fake_gemini)
    answer = await flow.run("go on")
    assert answer.exit_code == 5
    assert "3 times in a row (last: it was empty)" in str(answer.reason)
    assert len(fake_gemini.requests) == 3
    notices = [str(one.reason) for one in flow.of(events.ModelRetried)]
    assert notices == ["The model's reply could not be used: it was empty."] * 2


@pytest.mark.parametrize(("provider", "kind"), OVERFLOWS)
async def test_a_request_that_is_refused_as_too_long_is_made_shorter(
    provider: str, kind: str, make_flow: MakeFlow, fake_gemini: FakeGemini
) -> None:
    flow = flow_of(provider, make_flow, fake_gemini)
    answers(provider, fake_gemini, "Read. " + "words " * 3000)
    assert (await flow.run("first: " + "facts " * 6000)).exit_code == 0
    OVERFLOWS[provider, kind](fake_gemini)
    answers(provider, fake_gemini, "Shorter.")
    answer = await flow.run("second")
    assert (answer.exit_code, answer.text) == (0, "Shorter.")
    _, refused_one, shorter = fake_gemini.requests
    assert len(shorter.raw) < len(refused_one.raw) * 0.8
    # From here on the history itself is short, so no later request is refused.
    answers(provider, fake_gemini, "- Facts were given.")
    answers(provider, fake_gemini, "Third.")
    answer = await flow.run("third")
    assert (answer.exit_code, answer.text) == (0, "Third.")
    assert [str(one.text) for one in flow.of(events.Notice) if "compacted" in str(one.text)]
    assert len(fake_gemini.requests[-1].raw) < len(refused_one.raw) * 0.8


@pytest.mark.parametrize("times", [1, 3])
async def test_a_short_request_that_is_refused_is_asked_again_or_told(
    times: int, make_flow: MakeFlow, fake_gemini: FakeGemini
) -> None:
    flow = flow_of("google_genai", make_flow, fake_gemini)
    for _ in range(times):
        OVERFLOWS["google_genai", "refused"](fake_gemini)
    answers("google_genai", fake_gemini, "Hello.")
    answer = await flow.run("hi " * 200)
    if times == 1:
        assert (answer.exit_code, answer.text) == (0, "Hello.")
    else:
        assert answer.exit_code == 5
        assert "1048577" in str(answer.reason)
