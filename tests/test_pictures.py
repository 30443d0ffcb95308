"""The recordings and pictures of docs/pictures show what the program shows now."""

from __future__ import annotations

import html
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
AGAIN = "run docs/pictures/draw.py, and look at what changed"


def drawing() -> ModuleType:
    """Return the module that records and draws."""
    spec = importlib.util.spec_from_file_location("drawn_pictures", PICTURES / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


DRAW = drawing()


def without_numbers(screens: list[str]) -> list[str]:
    """Return screens without numbers of tokens, which are estimates."""
    return [re.sub(r"[\d.]+k? (?=tokens|out)", "", screen) for screen in screens]


def words(svg: str) -> list[str]:
    """Return the text of a picture."""
    return [html.unescape(text) for text in re.findall(r"<text [^>]*>(.*?)</text>", svg)]


@pytest.mark.parametrize("name", DRAW.CASTS)
def test_a_recording_shows_what_the_program_shows(name: str) -> None:
    kept = (PICTURES / f"{name}.cast").read_text("utf-8")
    recorded = DRAW.CASTS[name]().text
    assert recorded.splitlines()[0] == kept.splitlines()[0]
    assert without_numbers(DRAW.screens(recorded)) == without_numbers(DRAW.screens(kept)), AGAIN


@pytest.mark.parametrize("marker", DRAW.PICTURES)
def test_a_picture_shows_the_screen_of_its_recording(marker: str) -> None:
    kept = (PICTURES / f"{marker}.svg").read_text("utf-8")
    cast = (PICTURES / f"{DRAW.PICTURES[marker]}.cast").read_text("utf-8")
    assert words(kept) == words(DRAW.picture(cast, marker)), AGAIN
