"""Keys in a project's `.env`: detected, reported, and not used."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from kogniterm import settings
from kogniterm.errors import ModelError
from kogniterm.models import model_registry
from kogniterm.paths import resolve
from kogniterm.runtime.build import keys_not_read, open_session


def told(tmp_path: Path, content: str | None, **given: str) -> str:
    """Return the notice about a folder whose `.env` has this content."""
    environ = {"HOME": str(tmp_path / "home"), **given}
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    if content is not None:
        (folder / ".env").write_text(content)
    found = keys_not_read(settings.load(environ=environ), resolve(environ), folder)
    return str(found or "")


def test_a_key_in_the_folder_is_named_with_the_ways_to_use_it(tmp_path: Path) -> None:
    said = told(tmp_path, "A=1\nexport GOOGLE_API_KEY=not-shown\nOPENAI_API_KEY='y'\n")
    assert (
        f"{tmp_path}/project/.env sets GOOGLE_API_KEY, OPENAI_API_KEY, but it was not read" in said
    )
    assert f"--env-file {tmp_path}/project/.env" in said
    assert f"copy the line to {tmp_path}/home/.config/kogniterm/.env" in said
    assert "not-shown" not in said


@pytest.mark.parametrize("content", [None, "", "DEBUG=1\n", "# GOOGLE_API_KEY=x\n", "no form\n"])
def test_nothing_is_said_of_other_files(tmp_path: Path, content: str | None) -> None:
    assert told(tmp_path, content) == ""


def test_nothing_is_said_where_a_key_is_set(tmp_path: Path) -> None:
    assert told(tmp_path, "GOOGLE_API_KEY=x\n", ANTHROPIC_API_KEY="mine") == ""


def test_a_pipe_of_that_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    os.mkfifo(tmp_path / "project" / ".env")
    assert told(tmp_path, None) == ""


def test_without_any_model_the_error_says_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_registry, "is_installed", lambda provider: False)
    environ = {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    (tmp_path / ".env").write_text("GOOGLE_API_KEY=x\n")
    with pytest.raises(ModelError, match=r"No model is configured\. .*\.env sets GOOGLE_API"):
        open_session(settings.load(environ=environ), folder=str(tmp_path), environ=environ)


def test_a_key_is_enough_for_a_new_session(tmp_path: Path) -> None:
    """The weights of the embedded model need not be there."""
    environ = {
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "GOOGLE_API_KEY": "k" * 39,
    }
    session = open_session(settings.load(environ=environ), folder=str(tmp_path), environ=environ)
    with contextlib.closing(session):
        assert session.model.name.startswith("google_genai:")
