"""Reasoning effort and thoughts, as the real clients send them to a server on 127.0.0.1."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from kogniterm.agent.replies import is_unusable
from kogniterm.errors import ModelBlockedError, UsageError
from kogniterm.models.calling import ModelOptions, close_model
from kogniterm.models.model_registry import no_such_effort, open_model
from kogniterm.protocols import Model
from kogniterm.types import ThoughtDelta, Usage
from tests.support.asking import TOOLS, ask
from tests.support.fake_gemini import FakeGemini
from tests.support.provider_streams import ollama_stream, openai_responses, spoken

Opener = Callable[..., Model]


@pytest.fixture
async def opened(fake_gemini: FakeGemini) -> AsyncIterator[Opener]:
    """Yield a function that opens a model at the fake server; close them after the test."""
    models: list[Model] = []

    def open_one(name: str, effort: str = "", **more: Any) -> Model:
        provider = name.partition(":")[0]
        options = ModelOptions(
            keys={provider: "a-key"}, base_urls={provider: fake_gemini.url}, effort=effort, **more
        )
        models.append(open_model(name, options))
        return models[-1]

    yield open_one
    for model in models:
        await close_model(model)


@pytest.mark.parametrize(
    ("name", "effort", "sent"),
    [
        ("gemini-flash-latest", "high", {"thinkingLevel": "HIGH"}),
        ("gemini-3.5-flash", "minimal", {"thinkingLevel": "MINIMAL"}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "medium", {"thinkingBudget": 8_192}),
        ("gemini-2.5-pro", "none", None),
        ("gemini-2.0-flash", "high", None),
        ("gemini-flash-latest", "", None),
    ],
)
async def test_gemini_gets_a_level_or_a_budget(
    name: str, effort: str, sent: dict[str, Any] | None, opened: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.say("done")
    await ask(opened(f"google_genai:{name}", effort))
    config = fake_gemini.last.body["generationConfig"].get("thinkingConfig")
    assert _camel(config) == sent


@pytest.mark.parametrize(
    ("name", "thoughts"), [("gemini-flash-latest", True), ("gemini-2.0-flash", False)]
)
async def test_gemini_is_asked_for_thoughts_where_it_has_some(
    name: str, thoughts: bool, opened: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.say("done")
    await ask(opened(f"google_genai:{name}", "low", thoughts=True))
    config = _camel(fake_gemini.last.body["generationConfig"].get("thinkingConfig")) or {}
    assert config.get("includeThoughts", False) is thoughts


async def test_no_thoughts_are_asked_for_where_thinking_is_off(
    opened: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.say("done")
    await ask(opened("google_genai:gemini-2.5-flash", "none", thoughts=True))
    config = fake_gemini.last.body["generationConfig"]["thinkingConfig"]
    assert _camel(config) == {"thinkingBudget": 0}


def _camel(config: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the configuration in the API's own spelling, which clients need not use."""
    if config is None:
        return None
    names = {
        "thinking_budget": "thinkingBudget",
        "thinking_level": "thinkingLevel",
        "include_thoughts": "includeThoughts",
    }
    found = {names.get(name, name): value for name, value in config.items()}
    if "thinkingLevel" in found:
        found["thinkingLevel"] = str(found["thinkingLevel"]).upper()
    return found


@pytest.mark.parametrize(
    ("name", "effort", "sent"),
    [("gpt-5.6", "xhigh", "xhigh"), ("o3", "low", "low"), ("gpt-4.1", "low", None)],
)
async def test_openai_gets_the_effort(
    name: str, effort: str, sent: str | None, opened: Opener, fake_gemini: FakeGemini
) -> None:
    fake_gemini.raw(*spoken("openai", "done"))
    await ask(opened(f"openai:{name}", effort), tools=TOOLS)
    assert fake_gemini.last.body.get("reasoning_effort") == sent


async def test_newer_models_of_openai_speak_the_responses_api(
    opened: Opener, fake_gemini: FakeGemini
) -> None:
    model = opened("openai:gpt-6-sol", "max")
    call = ("execute_command", '{"command": "ls"}')
    for _ in range(2):
        fake_gemini.raw(*openai_responses("Let me look.", call, thought="Hm."))
    heard = await ask(model, "look", tools=TOOLS)
    assert (heard.text, heard.thoughts) == ("Let me look.", "Hm.")
    assert [one["args"] for one in heard.message.tool_calls] == [{"command": "ls"}]
    assert heard.reply.usage == Usage(12, 3, 8, 1)
    assert fake_gemini.last.path == "/responses"
    assert fake_gemini.last.body["reasoning"] == {"effort": "max"}
    # The call goes back with its reasoning, which the service wants to see again.
    answer = ToolMessage("notes.md", tool_call_id="call_1")
    await ask(model, HumanMessage("look"), heard.message, answer, tools=TOOLS)
    kinds = [item["type"] for item in fake_gemini.last.body["input"]]
    assert kinds == ["message", "reasoning", "message", "function_call", "function_call_output"]


async def test_a_cut_or_blocked_response_is_told(opened: Opener, fake_gemini: FakeGemini) -> None:
    model = opened("openai:gpt-6-sol")
    call = ("execute_command", '{"command": "ls"}')
    fake_gemini.raw(*openai_responses("Let", call, cut="max_output_tokens"))
    heard = await ask(model, "look", tools=TOOLS)
    assert is_unusable(heard.message)
    fake_gemini.raw(*openai_responses("Let", call, cut="content_filter"))
    with pytest.raises(ModelBlockedError, match="content_filter"):
        await ask(model, "look", tools=TOOLS)


@pytest.mark.parametrize(
    ("name", "effort", "thinking", "sent_effort"),
    [
        ("claude-opus-5", "xhigh", {"type": "adaptive", "display": "summarized"}, "xhigh"),
        ("claude-sonnet-4-6", "low", None, "low"),
        ("claude-haiku-4-5", "high", {"type": "enabled", "budget_tokens": 24_576}, None),
        ("claude-haiku-4-5", "", None, None),
    ],
)
async def test_anthropic_gets_an_effort_or_a_budget(
    name: str,
    effort: str,
    thinking: dict[str, Any] | None,
    sent_effort: str | None,
    opened: Opener,
    fake_gemini: FakeGemini,
) -> None:
    fake_gemini.raw(*spoken("anthropic", "done"))
    await ask(opened(f"anthropic:{name}", effort, temperature=0.5 if thinking else None))
    body = fake_gemini.last.body
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == sent_effort
    if thinking and thinking["type"] == "enabled":
        assert "temperature" not in body
        assert body["max_tokens"] > thinking["budget_tokens"]


async def test_anthropic_summarises_where_it_thinks_anyway(
    opened: Opener, fake_gemini: FakeGemini
) -> None:
    for name, sent in (
        ("claude-sonnet-5-5", {"type": "adaptive", "display": "summarized"}),
        ("claude-haiku-4-5", None),
    ):
        fake_gemini.raw(*spoken("anthropic", "done"))
        await ask(opened(f"anthropic:{name}", thoughts=True))
        assert fake_gemini.last.body.get("thinking") == sent


async def test_a_budget_leaves_room_for_the_reply(opened: Opener, fake_gemini: FakeGemini) -> None:
    for limit, sent in ((4_096, {"type": "enabled", "budget_tokens": 3_072}), (1_500, None)):
        fake_gemini.raw(*spoken("anthropic", "done"))
        await ask(opened("anthropic:claude-haiku-4-5", "high", max_output=limit))
        assert fake_gemini.last.body.get("thinking") == sent
        assert fake_gemini.last.body["max_tokens"] == limit


@pytest.mark.parametrize(
    ("name", "effort", "thoughts", "sent"),
    [
        ("qwen3:8b", "none", True, False),
        ("qwen3:8b", "high", False, True),
        ("qwen3:8b", "", True, True),
        ("gpt-oss:20b", "low", True, "low"),
        ("qwen3-coder:30b", "high", True, None),
    ],
)
async def test_ollama_thinks_or_not(
    name: str,
    effort: str,
    thoughts: bool,
    sent: bool | str | None,
    opened: Opener,
    fake_gemini: FakeGemini,
) -> None:
    fake_gemini.raw(*ollama_stream({"thinking": "Hm, "}, {"thinking": "yes."}, {"content": "Yes."}))
    heard = await ask(opened(f"ollama:{name}", effort, thoughts=thoughts))
    assert fake_gemini.last.body.get("think") == sent
    assert heard.text == "Yes."
    told = [event.text for event in heard.events if isinstance(event, ThoughtDelta)]
    assert told == (["Hm, ", "yes."] if sent else [])


@pytest.mark.parametrize(
    ("name", "effort", "told"),
    [
        ("openai:gpt-4.1", "high", "has no setting for reasoning effort"),
        ("anthropic:claude-opus-5", "minimal", "Choose from: low, medium, high, xhigh, max"),
    ],
)
def test_an_effort_that_a_model_does_not_have_is_one_sentence(
    name: str, effort: str, told: str, opened: Opener
) -> None:
    info = opened(name, effort).info
    assert info.effort == ""
    problem = no_such_effort(info, effort)
    assert isinstance(problem, UsageError)
    assert told in str(problem)
