"""What models cost, as far as it was public on the table's date. Unknown is said, never guessed."""

from __future__ import annotations

from dataclasses import dataclass

from kogniterm.types import Usage

PRICES_DATE = "2025-08-01"
"""When the list prices below were noted; providers change them without notice."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens; `cached` is the part of the input served from a cache."""

    input: float
    output: float
    cached: float

    def cost(self, usage: Usage) -> float:
        """What `usage` cost, in US dollars."""
        fresh = max(0, usage.input - usage.cached)
        total = fresh * self.input + usage.cached * self.cached + usage.output * self.output
        return total / 1_000_000


FREE = Price(0, 0, 0)
FREE_PROVIDERS = ("local", "ollama", "scripted", "replay")

# Longest matching prefix wins, so that dated versions find their family.
PRICES: dict[str, Price] = {
    "google_genai:gemini-2.5-pro": Price(1.25, 10.00, 0.31),
    "google_genai:gemini-2.5-flash": Price(0.30, 2.50, 0.075),
    "google_genai:gemini-2.5-flash-lite": Price(0.10, 0.40, 0.025),
    "google_genai:gemini-2.0-flash": Price(0.10, 0.40, 0.025),
    "google_genai:gemini-2.0-flash-lite": Price(0.075, 0.30, 0.075),
    "openai:gpt-4o": Price(2.50, 10.00, 1.25),
    "openai:gpt-4o-mini": Price(0.15, 0.60, 0.075),
    "openai:gpt-4.1": Price(2.00, 8.00, 0.50),
    "openai:gpt-4.1-mini": Price(0.40, 1.60, 0.10),
    "openai:gpt-4.1-nano": Price(0.10, 0.40, 0.025),
    "openai:o3": Price(2.00, 8.00, 0.50),
    "openai:o4-mini": Price(1.10, 4.40, 0.275),
    "anthropic:claude-opus-4": Price(15.00, 75.00, 1.50),
    "anthropic:claude-sonnet-4": Price(3.00, 15.00, 0.30),
    "anthropic:claude-3-7-sonnet": Price(3.00, 15.00, 0.30),
    "anthropic:claude-3-5-haiku": Price(0.80, 4.00, 0.08),
}


def price_of(name: str) -> Price | None:
    """The price of `provider:model`; None when it is not known."""
    provider = name.partition(":")[0]
    if provider in FREE_PROVIDERS:
        return FREE
    matches = [known for known in PRICES if name == known or name.startswith(f"{known}-")]
    return PRICES[max(matches, key=len)] if matches else None
