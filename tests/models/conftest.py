"""Fixtures of the model tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kogniterm.models.calling import ModelOptions
from kogniterm.models.providers.gemini import GeminiModel
from kogniterm.types import ModelInfo
from tests.support.asking import OpenGemini, Pauses
from tests.support.fake_gemini import FakeGemini


@pytest.fixture
def pauses() -> Pauses:
    """Return pauses between retries that take no time."""
    return Pauses()


@pytest.fixture
async def open_gemini(fake_gemini: FakeGemini, pauses: Pauses) -> AsyncIterator[OpenGemini]:
    """Yield a function that opens Gemini models on `fake_gemini`; close them after the test."""
    opened: list[GeminiModel] = []

    def open_one(name: str = "gemini-2.5-flash", url: str = "", **more: Any) -> GeminiModel:
        options = ModelOptions(
            keys={"google_genai": "a-key"},
            base_urls={"google_genai": url or fake_gemini.url},
            **more,
        )
        info = ModelInfo(f"google_genai:{name}", "google_genai", 1_048_576, 65_536)
        opened.append(GeminiModel(info, options, pauses.caller(info.name, options)))
        return opened[-1]

    yield open_one
    for model in opened:
        await model.aclose()
