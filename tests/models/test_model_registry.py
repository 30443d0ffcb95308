"""Opening a model by its name, or an error that names what is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator

import pytest

from kogniterm.errors import (
    ModelAuthError,
    ModelError,
    ModelKeyMissingError,
    ModelNotFoundError,
    ModelUnavailableError,
    UsageError,
)
from kogniterm.installed import rows
from kogniterm.models import (
    ModelOptions,
    OpenModels,
    default_name,
    is_installed,
    open_model,
    parse_name,
    preload,
)
from kogniterm.models.catalog import BY_NAME, PROVIDERS, UNKNOWN_WINDOW, WINDOWS, window_of
from kogniterm.models.model_registry import OPENERS
from kogniterm.types import ModelEvent, ModelInfo, ModelRequest
from tests.support.asking import ask
from tests.support.fake_gemini import FakeGemini

KEYS = {"google_genai": "a", "openai": "b", "anthropic": "c"}


def test_every_provider_has_an_opener_and_nothing_else_has() -> None:
    openers = [*OPENERS]
    if not rows("EMBEDDED_MODEL"):
        openers.remove("local")
    assert [provider.name for provider in PROVIDERS] == openers


def test_every_window_belongs_to_a_provider_and_is_sane() -> None:
    names = {provider.name for provider in PROVIDERS}
    for provider, start, window, output in WINDOWS:
        assert provider in names
        assert start
        assert 0 < output <= window


@pytest.mark.parametrize(
    ("provider", "model", "window"),
    [
        ("google_genai", "gemini-2.5-flash", (1_048_576, 65_536)),
        ("google_genai", "models/gemini-2.5-flash", (1_048_576, 65_536)),
        ("google_genai", "gemini-2.0-flash", (1_048_576, 8_192)),
        ("openai", "gpt-4o-mini", (128_000, 16_384)),
        ("openai", "gpt-4.1-mini", (1_047_576, 32_768)),
        ("openai", "gpt-4-0613", (8_192, 8_192)),
        ("anthropic", "claude-sonnet-4-5", (200_000, 64_000)),
        ("anthropic", "claude-sonnet-4-6", (1_000_000, 128_000)),
        ("ollama", "qwen3", UNKNOWN_WINDOW),
        ("openai", "my-own-model", UNKNOWN_WINDOW),
    ],
)
def test_the_longest_known_beginning_decides_the_window(
    provider: str, model: str, window: tuple[int, int]
) -> None:
    assert window_of(provider, model) == window


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gemni", "Did you mean google_genai:gemni?"),
        ("gpt-4o", "Did you mean openai:gpt-4o?"),
        ("claude-x", "Did you mean anthropic:claude-x?"),
        ("opena:gpt-4o", "Unknown provider opena. Did you mean openai?"),
        ("google-genai:x", "Did you mean google_genai?"),
        ("wonderful", "Known providers: google_genai, openai"),
        ("", "Known providers: google_genai"),
        (":", "Known providers: google_genai"),
        ("scripted:", "needs a file after the colon, as in scripted:FILE"),
        ("replay", "needs a file after the colon, as in replay:FILE"),
    ],
)
def test_a_name_that_is_none_gets_one_sentence(name: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_model(name, ModelOptions(keys=KEYS))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("google_genai:x", "Gemini needs an API key. Run `kogniterm login google_genai`, or set G"),
        ("openai:x", "set OPENAI_API_KEY"),
        ("anthropic:x", "set ANTHROPIC_API_KEY"),
    ],
)
def test_a_missing_key_is_named(name: str, words: str) -> None:
    with pytest.raises(ModelKeyMissingError) as caught:
        open_model(name, ModelOptions())
    assert words in str(caught.value)


def test_a_server_of_ones_own_needs_no_key() -> None:
    options = ModelOptions(base_urls={"openai": "http://127.0.0.1:8000/v1"})
    assert open_model("openai:mine", options).info.name == "openai:mine"


@pytest.mark.parametrize("provider", ["google_genai", "openai", "anthropic"])
@pytest.mark.parametrize("key", ["schlüssel", "two words", "with\nline", "nul\x00"])
def test_a_key_that_can_be_none_is_refused_and_not_repeated(provider: str, key: str) -> None:
    with pytest.raises(ModelAuthError, match="copy it again") as caught:
        open_model(f"{provider}:x", ModelOptions(keys={provider: key}))
    assert key not in str(caught.value)


async def test_a_setting_that_the_client_refuses_is_one_sentence() -> None:
    options = ModelOptions(keys=KEYS, temperature=5.0)
    model = open_model("google_genai:x", options)
    preload(model)
    with pytest.raises(ModelError, match="cannot be set up") as caught:
        await ask(model)
    assert "\n" not in str(caught.value)


def test_a_provider_without_a_model_uses_its_default() -> None:
    provider, argument = parse_name("google_genai")
    assert argument == provider.default_model
    assert parse_name("ollama")[1] == ""
    if rows("EMBEDDED_MODEL"):
        assert parse_name("local")[1] == ""
    assert parse_name("ollama:llama3:8b")[1] == "llama3:8b"


def test_settings_override_the_table() -> None:
    options = ModelOptions(keys=KEYS, context_window=5_000, max_output=100)
    info = open_model("google_genai:gemini-2.5-flash", options).info
    assert (info.context_window, info.max_output) == (5_000, 100)
    assert (info.provider, info.calls_tools, info.local) == ("google_genai", True, False)


def run_without(packages: list[str], code: str) -> str:
    """Run `code` in a Python that does not find `packages`; return its standard output."""
    hide = f"""
import importlib.abc, importlib.util, sys
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
real = importlib.util.find_spec
def find_spec(name, package=None):
    return None if name in {packages!r} else real(name, package)
importlib.util.find_spec = find_spec
from kogniterm.errors import KognitermError
from kogniterm.models import *
"""
    ran = subprocess.run([sys.executable, "-c", hide + code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_with_neither_key_nor_local_extra_one_sentence_says_the_two_ways_out() -> None:
    code = """
try:
    default_name(ModelOptions())
except KognitermError as error:
    print(error.exit_code, error)
"""
    said = run_without(["xllamacpp"], code)
    assert said.count("\n") == 0
    assert said.startswith("2 No model is configured. Run `kogniterm login`")
    assert "GOOGLE_API_KEY" in said
    assert said.endswith("pip install xllamacpp`.")


@pytest.mark.parametrize(
    ("keys", "provider"),
    [
        (KEYS, "google_genai"),
        ({"openai": "b", "anthropic": "c"}, "openai"),
        ({"anthropic": "c"}, "anthropic"),
    ],
)
def test_the_first_provider_with_a_key_is_chosen(keys: dict[str, str], provider: str) -> None:
    name = default_name(ModelOptions(keys=keys, base_urls={"ollama": "http://127.0.0.1:1"}))
    assert name == f"{provider}:{BY_NAME[provider].default_model}"
    assert window_of(provider, BY_NAME[provider].default_model) != UNKNOWN_WINDOW


def test_a_compatible_service_needs_a_named_model() -> None:
    options = ModelOptions(
        keys=KEYS | {"google_genai": ""}, base_urls={"openai": "http://127.0.0.1"}
    )
    with pytest.raises(ModelAuthError, match="--model openai:MODEL"):
        default_name(options)


def test_the_model_pulled_last_is_used_where_only_ollama_is_set(fake_gemini: FakeGemini) -> None:
    models = [
        {"name": "old:1b", "modified_at": "2025-01-01T00:00:00Z"},
        {"name": "new:3b", "modified_at": "2026-01-01T00:00:00Z"},
    ]
    fake_gemini.page("/api/tags", {"models": models})
    options = ModelOptions(base_urls={"ollama": fake_gemini.url})
    assert default_name(options) == "ollama"
    assert open_model("ollama", options).info.name == "ollama:new:3b"


def test_an_ollama_without_models_says_what_to_do(fake_gemini: FakeGemini) -> None:
    fake_gemini.page("/api/tags", {"models": []})
    with pytest.raises(ModelNotFoundError, match="ollama pull MODEL"):
        open_model("ollama", ModelOptions(base_urls={"ollama": fake_gemini.url}))
    with pytest.raises(ModelUnavailableError, match=r"Cannot reach Ollama at 127\.0\.0\.1:1"):
        open_model("ollama", ModelOptions(base_urls={"ollama": "http://127.0.0.1:1"}))


def test_without_a_key_the_embedded_model_is_the_default_when_its_library_is_there() -> None:
    if is_installed("local"):
        assert default_name(ModelOptions()) == "local"


@pytest.mark.parametrize(
    ("package", "name", "distribution"),
    [
        ("langchain_openai", "openai:x", "langchain-openai"),
        ("langchain_anthropic", "anthropic:x", "langchain-anthropic"),
        ("langchain_ollama", "ollama:x", "langchain-ollama"),
        ("xllamacpp", "local", "xllamacpp"),
    ],
)
def test_a_missing_package_is_one_sentence_with_the_command(
    package: str, name: str, distribution: str
) -> None:
    code = f"""
try:
    open_model({name!r}, ModelOptions(keys={KEYS!r}))
except KognitermError as error:
    print(error.exit_code, error)
"""
    said = run_without([package], code)
    assert said.startswith("2 ")
    assert said.endswith(f"pip install {distribution}`.")


def test_opening_a_model_loads_no_provider_package() -> None:
    code = f"""
import sys
from kogniterm.models import ModelOptions, open_model
for name in ("google_genai:x", "openai:x", "anthropic:x", "ollama:x"):
    open_model(name, ModelOptions(keys={KEYS!r}))
heavy = {{"langchain_core", "httpx", "google", "openai", "anthropic", "ollama", "pydantic", "yaml"}}
print(sorted(heavy & {{name.partition(".")[0] for name in sys.modules}}))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr


class Closing:
    """A model that counts how often it is closed."""

    def __init__(self, name: str, _effort: str | None) -> None:
        self.info = ModelInfo(name, "closing", 1, 1)
        self.ends = 0

    async def aclose(self) -> None:
        self.ends += 1

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        raise AssertionError("opened and closed, never asked")
        yield


async def test_models_left_for_another_are_closed_and_each_one_once() -> None:
    open_one = OpenModels(Closing)
    left, used = open_one("a"), open_one("b")
    assert isinstance(left, Closing)
    assert isinstance(used, Closing)
    await open_one.close(but=used)
    assert (left.ends, used.ends) == (1, 0)
    await open_one.close()
    assert (left.ends, used.ends) == (1, 1)


def test_options_are_checked_and_keep_keys_out_of_sight() -> None:
    for wrong in ({"deadline": 0.0}, {"idle": -1.0}, {"tries": 0}):
        with pytest.raises(ValueError, match=r"above zero|at least once"):
            ModelOptions(**wrong)
    assert "secret" not in repr(ModelOptions(keys={"openai": "secret"}))


@pytest.mark.parametrize(
    ("window", "limit", "expected"),
    [
        (32_768, None, (32_768, 8_192)),
        (32_768, 1_000, (32_768, 1_000)),
        (None, None, (1_048_576, 65_536)),
    ],
)
def test_a_window_that_is_set_smaller_leaves_room_for_the_request(
    window: int | None, limit: int | None, expected: tuple[int, int]
) -> None:
    options = ModelOptions(keys=KEYS, context_window=window, max_output=limit)
    info = open_model("google_genai:gemini-flash-latest", options).info
    assert (info.context_window, info.max_output) == expected


def test_settings_that_leave_no_room_are_refused() -> None:
    options = ModelOptions(keys=KEYS, context_window=32_768, max_output=20_000)
    with pytest.raises(
        UsageError, match=r"max_output_tokens \(20000\) is more than half .*; lower it"
    ):
        open_model("google_genai:gemini-flash-latest", options)
