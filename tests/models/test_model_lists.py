"""The lists of models: from real HTTP on 127.0.0.1, and from the catalog where none comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kogniterm.models.calling import ModelOptions
from kogniterm.models.catalog import BY_NAME, CURRENT, EFFORTS, efforts_of, thinking_tokens
from kogniterm.models.model_lists import ModelListing, ModelLists
from tests.support.fake_gemini import Answer, FakeGemini

KEY = "a-key"


def lists(fake: FakeGemini | str, *providers: str, **more: Any) -> ModelLists:
    """Return the lists of providers that are all served by `fake`."""
    url = fake if isinstance(fake, str) else fake.url
    keys = {name: KEY for name in providers if BY_NAME[name].key}
    return ModelLists(ModelOptions(keys=keys, base_urls=dict.fromkeys(providers, url)), **more)


def live(fake: FakeGemini | str, provider: str, **more: Any) -> ModelListing:
    return lists(fake, provider, **more).live(BY_NAME[provider])


def names(listing: ModelListing) -> list[str]:
    return [one.name.partition(":")[2] for one in listing.models]


def header(headers: Mapping[str, str], name: str) -> str:
    return {key.lower(): value for key, value in headers.items()}.get(name, "")


def gemini(*models: str) -> dict[str, Any]:
    methods = {"supportedGenerationMethods": ["generateContent", "countTokens"]}
    return {"models": [{"name": f"models/{one}", **methods} for one in models]}


def test_gemini_lists_what_can_chat_with_the_catalog_first(fake_gemini: FakeGemini) -> None:
    page = gemini("gemini-2.5-pro", "gemini-9-nova", "gemini-2.5-flash-preview-tts")
    page["models"].append(
        {"name": "models/embedding-001", "supportedGenerationMethods": ["embedContent"]}
    )
    page["models"] += gemini("gemini-flash-latest")["models"]
    fake_gemini.page("/v1beta/models", page)
    found = live(fake_gemini, "google_genai")
    assert names(found) == ["gemini-flash-latest", "gemini-2.5-pro", "gemini-9-nova"]
    assert (found.live, found.problem) == (True, None)
    assert header(fake_gemini.gets[0].headers, "x-goog-api-key") == KEY
    assert KEY not in fake_gemini.gets[0].path
    price = found.models[1].price
    assert price is not None
    assert (price.input, price.output) == (1.25, 10.0)
    assert found.models[2].price is None
    assert found.models[1].window == 1_048_576


def test_a_compatible_service_lists_all_that_it_has(fake_gemini: FakeGemini) -> None:
    data = [{"id": name} for name in ("qwen/qwen3-coder", "whisper-1")]
    fake_gemini.page("/models", {"object": "list", "data": data})
    found = live(fake_gemini, "openai")
    assert set(names(found)) == {"qwen/qwen3-coder", "whisper-1"}
    assert header(fake_gemini.gets[0].headers, "authorization") == f"Bearer {KEY}"
    # Its models are not those of OpenAI, so nothing is offered unless it answers.
    assert names(lists(fake_gemini, "openai").list_known(BY_NAME["openai"])) == []


def test_anthropic_and_ollama_list_theirs(fake_gemini: FakeGemini) -> None:
    fake_gemini.page("/v1/models", {"data": [{"id": "claude-opus-5-5"}, {"id": "claude-x-9"}]})
    assert names(live(fake_gemini, "anthropic")) == ["claude-opus-5-5", "claude-x-9"]
    seen = fake_gemini.gets[0].headers
    assert (header(seen, "x-api-key"), header(seen, "anthropic-version")) == (KEY, "2023-06-01")
    tags = [
        {"name": "old:1b", "modified_at": "2025-01-01"},
        {"name": "new:3b", "modified_at": "2026-01-01"},
    ]
    fake_gemini.page("/api/tags", {"models": tags})
    assert names(live(fake_gemini, "ollama")) == ["new:3b", "old:1b"]


@pytest.mark.parametrize("provider", ["google_genai", "anthropic"])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(status=401), "rejected the API key"),
        (Answer(status=404), "has no list of models (status 404)"),
        (Answer(status=302, headers={"Location": "http://127.0.0.1:1/"}), "status 302"),
        (Answer((b"<html>",)), "no list that can be read"),
        (Answer((b"[]",)), "no list that can be read"),
        (Answer((b'{"data": [1], "models": [1]}',)), "no list that can be read"),
        (Answer((b'{"data": [', b"{}"), ending="cut"), "was cut"),
        (Answer((b'{"data": [',), ending="hang"), "stopped responding"),
        (Answer((b" ",), ending="trickle", every=0.01), "no list that can be read"),
    ],
)
def test_a_list_that_does_not_come_leaves_the_names_of_the_catalog(
    provider: str, answer: Answer, told: str, fake_gemini: FakeGemini
) -> None:
    fake_gemini.pages = {"/v1beta/models": answer, "/v1/models": answer}
    found = live(fake_gemini, provider, patience=0.3)
    assert tuple(names(found)) == CURRENT[provider]
    assert not found.live
    assert told in str(found.problem)
    assert KEY not in str(found.problem)


def test_a_provider_that_cannot_be_reached_is_named_with_its_host() -> None:
    found = live("http://127.0.0.1:1", "anthropic")
    assert "Cannot reach Anthropic at 127.0.0.1:1" in str(found.problem)


def test_only_configured_providers_are_listed() -> None:
    options = ModelOptions(keys={"anthropic": KEY}, base_urls={"ollama": "http://127.0.0.1:1"})
    assert [one.name for one in ModelLists(options).providers] == ["anthropic", "ollama"]
    assert ModelLists(ModelOptions()).providers == ()


def test_every_effort_of_the_catalog_is_a_known_one_and_in_order() -> None:
    for provider, models in CURRENT.items():
        for model in models:
            efforts = efforts_of(provider, model)
            assert list(efforts) == sorted(efforts, key=EFFORTS.index), model
            budgets = [thinking_tokens(provider, model, effort) for effort in efforts]
            assert budgets == sorted(budgets, key=lambda tokens: tokens or 0), model
    assert efforts_of("openai", "gpt-4.1") == ()
    assert efforts_of("somewhere", "else") == ()


@pytest.mark.parametrize(
    ("variable", "value"), [("SSL_CERT_FILE", "/no/such"), ("ALL_PROXY", "ftp://127.0.0.1:1")]
)
def test_a_machine_whose_network_cannot_be_used_gives_the_catalogs_names(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    found = live("http://127.0.0.1:1", "google_genai")
    assert (found.live, bool(found.models)) == (False, True)
    assert variable in str(found.problem)
