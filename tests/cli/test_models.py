"""`kogniterm models` as a user runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kogniterm.addons.local_model.weights import CATALOGUE
from tests.cli.conftest import Shell
from tests.support.fake_gemini import FakeGemini

NAME = CATALOGUE[0].name


Models = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cache(shell: Shell) -> Path:
    """Return an empty cache folder for this test."""
    return shell.home / "cache"


@pytest.fixture
def models(shell: Shell) -> Models:
    """Return a function that runs the verb."""
    return lambda *words: shell.run("models", *words)


def test_list_tells_what_is_there_and_where(models: Models, cache: Path) -> None:
    shown = models("list")
    assert shown.returncode == 0
    for entry in CATALOGUE:
        assert f"local:{entry.short}" in shown.stdout
    assert shown.stdout.count("not downloaded") == len(CATALOGUE)
    assert str(cache / "models") in shown.stdout


def test_list_as_json(models: Models) -> None:
    found = json.loads(models("list", "--json").stdout)
    assert found["models"] == []
    table = found["local"]
    assert table[NAME]["state"] == "missing"
    assert table[NAME]["sha256"] == CATALOGUE[0].sha256


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


def test_wrong_file_is_refused_with_both_checksums(models: Models, tmp_path: Path) -> None:
    given = tmp_path / "wrong.gguf"
    given.write_bytes(b"not the weights")
    done = models("pull", NAME, "--source", str(given))
    assert done.returncode == 5
    assert CATALOGUE[0].sha256 in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(models("list", "--json").stdout)["local"][NAME]["state"] == "missing"


def test_source_that_does_not_exist_is_a_usage_error(models: Models) -> None:
    done = models("pull", "--source", "/nowhere/at/all.gguf")
    assert done.returncode == 2
    assert "/nowhere/at/all.gguf" in done.stderr


def test_unknown_name_is_told_the_known_ones(models: Models) -> None:
    done = models("pull", "gpt-9")
    assert done.returncode == 2
    assert "0.5b, 1.5b" in done.stderr


def test_remove_says_what_it_freed(models: Models, cache: Path) -> None:
    folder = cache / "models"
    folder.mkdir(parents=True)
    (folder / f"{CATALOGUE[0].file}.partial").write_bytes(bytes(3_000_000))
    assert json.loads(models("list", "--json").stdout)["local"][NAME]["state"] == "partial"
    assert "3 MB freed" in models("remove", f"local:{NAME}").stdout
    assert "was not on this machine" in models("remove", NAME).stdout


def test_remove_needs_a_name(models: Models) -> None:
    assert models("remove").returncode == 2
