"""An image reaches each provider in its own form, once, beside its text."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from kogniterm.agent.messages import human_content, image_block
from kogniterm.models.calling import ModelOptions
from kogniterm.models.catalog import images_of
from kogniterm.models.model_registry import open_model
from kogniterm.models.providers.langchain import LangChainModel
from kogniterm.types import Image, ModelInfo
from tests.support.asking import OpenGemini, Pauses, ask
from tests.support.fake_gemini import FakeGemini
from tests.support.images import png
from tests.support.provider_streams import anthropic_stream, ollama_stream, openai_stream

PICTURE = png()
IN_BASE64 = base64.b64encode(PICTURE).decode()
QUESTION = human_content("What is this?", [image_block(Image(PICTURE, "image/png", "a.png", 4, 3))])


async def test_gemini_gets_inline_data_in_every_request(
    open_gemini: OpenGemini, fake_gemini: FakeGemini
) -> None:
    model = open_gemini()
    fake_gemini.say("Red.")
    fake_gemini.say("Yes.")
    first = await ask(model, QUESTION)
    await ask(model, QUESTION, first.message, HumanMessage("Sure?"))
    for seen in fake_gemini.requests:
        words, image = seen.contents[0]["parts"]
        assert words == {"text": "What is this?"}
        assert base64.urlsafe_b64decode(image["inlineData"]["data"]) == PICTURE
        assert "image/png" in image["inlineData"].values()
    whole = fake_gemini.requests[1].raw
    assert whole.count(b"inlineData") == 1
    assert whole.startswith(fake_gemini.requests[0].raw.removesuffix(b"]}"))


def _openai(body: dict[str, Any]) -> object:
    return body["messages"][0]["content"]


def _anthropic(body: dict[str, Any]) -> object:
    # The last block also carries the mark that asks for caching.
    blocks = body["messages"][0]["content"]
    return [
        {key: value for key, value in block.items() if key != "cache_control"} for block in blocks
    ]


def _ollama(body: dict[str, Any]) -> object:
    message = body["messages"][0]
    return message["content"].strip(), message["images"]


@pytest.mark.parametrize(
    ("provider", "answer", "sent", "expected"),
    [
        (
            "openai",
            openai_stream({"content": "Red."}),
            _openai,
            [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IN_BASE64}"}},
            ],
        ),
        (
            "anthropic",
            anthropic_stream({"text": "Red."}),
            _anthropic,
            [
                {"type": "text", "text": "What is this?"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": IN_BASE64},
                },
            ],
        ),
        ("ollama", ollama_stream({"content": "Red."}), _ollama, ("What is this?", [IN_BASE64])),
    ],
)
async def test_other_providers_get_their_own_form(
    fake_gemini: FakeGemini,
    pauses: Pauses,
    provider: str,
    answer: list[bytes],
    sent: Callable[[dict[str, Any]], object],
    expected: object,
) -> None:
    options = ModelOptions(keys={provider: "a-key"}, base_urls={provider: fake_gemini.url})
    info = ModelInfo(f"{provider}:some-model", provider, 20_000, 1_000)
    model = LangChainModel(info, options, pauses.caller(info.name, options))
    try:
        fake_gemini.raw(*answer)
        heard = await ask(model, QUESTION)
    finally:
        await model.aclose()
    assert heard.text == "Red."
    assert isinstance(heard.message, AIMessage)
    assert sent(fake_gemini.last.body) == expected


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("google_genai:gemini-flash-latest", True),
        ("google_genai:gemma-3-1b-it", False),
        ("openai:gpt-5.5", True),
        ("openai:gpt-4", False),
        ("openai:o3-mini", False),
        ("openai:my-own-server-model", False),
        ("anthropic:claude-sonnet-5", True),
        ("ollama:llava:13b", True),
        ("ollama:llama3.1", False),
    ],
)
def test_the_table_knows_who_takes_images(name: str, takes: bool) -> None:
    assert bool(images_of(*name.split(":", 1))) is takes


def test_gemini_takes_no_gif() -> None:
    assert "image/gif" not in images_of("google_genai", "gemini-2.5-pro")


def test_the_setting_decides_over_the_table() -> None:
    def images(**more: Any) -> tuple[str, ...]:
        keys = {"openai": "k"}
        return open_model("openai:my-own", ModelOptions(keys=keys, **more)).info.images

    assert images() == ()
    assert "image/png" in images(images=True)
    model = open_model("openai:gpt-5.5", ModelOptions(keys={"openai": "k"}, images=False))
    assert model.info.images == ()
