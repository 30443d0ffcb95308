"""`kogniterm models` as a user runs it."""

from __future__ import annotations

import json

from tests.cli.conftest import Shell
from tests.support.fake_gemini import FakeGemini


def test_list_shows_the_models_of_the_providers_too(shell: Shell, fake_gemini: FakeGemini) -> None:
    methods = {"supportedGenerationMethods": ["generateContent"]}
    names = ("gemini-2.5-pro", "gemini-flash-latest")
    fake_gemini.page(
        "/v1beta/models", {"models": [{"name": f"models/{one}", **methods} for one in names]}
    )
    environ = {
        "GOOGLE_API_KEY": "a-key",
        "GOOGLE_GEMINI_BASE_URL": fake_gemini.url,
        "ANTHROPIC_API_KEY": "another-key",
        "ANTHROPIC_BASE_URL": fake_gemini.url,
    }
    shown = shell.run("models", "list", environ=environ)
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["google_genai:gemini-flash-latest", "–", "1M", "in", "use"]
    assert lines[1].split() == ["google_genai:gemini-2.5-pro", "$1.25", "/", "$10.00", "1M"]
    assert "anthropic:claude-sonnet-5-5" in shown.stdout
    assert "Anthropic: names from the catalog. Anthropic at 127.0.0.1" in shown.stderr
    found = json.loads(shell.run("models", "list", "--json", environ=environ).stdout)
    assert found["models"][1] == {
        "name": "google_genai:gemini-2.5-pro",
        "default": False,
        "context_window": 1_048_576,
        "input_price": 1.25,
        "output_price": 10.0,
        "listed_by_provider": True,
    }
    assert [one["name"] for one in found["models"] if one["default"]] == [
        "google_genai:gemini-flash-latest"
    ]
