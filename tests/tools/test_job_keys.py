"""Keys for a job: names of keys, and line breaks in both spellings."""

from __future__ import annotations

import pytest

from kogniterm.tools.command_tools import typed


@pytest.mark.parametrize(
    ("keys", "characters"),
    [
        ("demo\n", "demo\n"),
        ("demo\\n", "demo\n"),
        ("a\\nb\\n", "a\nb\n"),
        ("print('a\\nb')\n", "print('a\\nb')\n"),
        ("<Up><enter>", "\x1b[A\r"),
        ("<C-c>", "\x03"),
        ("<b>text</b>", "<b>text</b>"),
    ],
)
def test_keys_stand_for_characters_once(keys: str, characters: str) -> None:
    assert typed(keys) == characters
    assert typed(characters) == characters
