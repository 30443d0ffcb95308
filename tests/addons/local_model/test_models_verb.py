"""`kogniterm models` with the weights of the embedded model, as a user runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kogniterm.addons.local_model.weights import CATALOGUE
from tests.cli.conftest import Shell, shell

__all__ = ["shell"]

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
