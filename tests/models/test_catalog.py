"""Costs are computed from a dated table; a model that is not in it has no known cost."""

from __future__ import annotations

import pytest

from kogniterm.models.catalog import FREE, PRICES, PRICES_DATE, price_of
from kogniterm.types import Usage


def test_cached_tokens_cost_less() -> None:
    price = price_of("google_genai:gemini-2.5-flash")
    assert price is not None
    usage = Usage(input=1_000_000, output=1_000_000, cached=500_000)
    assert price.cost(usage) == pytest.approx(0.15 + 0.0375 + 2.50)


def test_versions_find_their_family_and_not_a_cheaper_sibling() -> None:
    assert price_of("openai:gpt-4o-2024-08-06") == PRICES["openai:gpt-4o"]
    assert price_of("openai:gpt-4o-mini-2024-07-18") == PRICES["openai:gpt-4o-mini"]


@pytest.mark.parametrize("name", ["local", "local:qwen2.5-coder-1.5b", "ollama:x", "scripted:f"])
def test_what_runs_here_is_free(name: str) -> None:
    assert price_of(name) == FREE


@pytest.mark.parametrize("name", ["openai:gpt-9", "google_genai:gemini-2.5-flashy", "x:y"])
def test_unknown_prices_are_unknown(name: str) -> None:
    assert price_of(name) is None


def test_every_price_is_plausible() -> None:
    assert len(PRICES_DATE) == 10
    for price in PRICES.values():
        assert 0 < price.cached <= price.input <= price.output
