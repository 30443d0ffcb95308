"""Text at the approval question: nothing hidden, nothing changed, nothing ambiguous."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kogniterm.approval import render, unrender, warnings
from tests.approval.corpus import commands

_HIDDEN = [
    "\x00", "\x07", "\x08", "\t", "\x0b", "\r", "\x1b", "\x7f", "\x85", "\x9b", "\u00a0", "\u00ad",
    "\u034f", "\u061c", "\u115f", "\u1680", "\u180e", "\u2000", "\u200b", "\u200d", "\u200e",
    "\u2028", "\u2029", "\u202a", "\u202e", "\u2060", "\u2066", "\u2069", "\u2800", "\u3000",
    "\ufffc", "\U00016fe4",
    "\u3164", "\ufe0f", "\ufeff", "\uffa0", "\ufff9", "\U0001d173", "\U000e0001", "\U000e0041",
    "\U000e0100", "\ue000", "\U000f0000", "\U0010ffff", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("char", _HIDDEN)
def test_a_hidden_character_is_shown(char: str) -> None:
    shown = render(f"ls{char}; rm x")
    assert char not in shown
    assert f"\\u{{{ord(char):X}}}" in shown


def test_ordinary_commands_are_untouched() -> None:
    ordinary = commands("safe") + commands("dangerous")
    assert [render(command) for command in ordinary] == ordinary


@pytest.mark.parametrize(
    "command", ["echo 'naïve café'", "echo 日本語 'emoji 🎉'", "a\n  b\n\n\tc"[:6]]
)
def test_other_scripts_and_lines_are_untouched(command: str) -> None:
    assert render(command) == command


@pytest.mark.parametrize("padding", [" " * 300, "\n" * 60, "\t" * 40, "\u3000" * 30, " " * 17])
def test_padding_cannot_push_text_out_of_sight(padding: str) -> None:
    shown = render(f"ls{padding}; rm -rf x")
    assert shown.count(" ") < 20
    assert shown.count("\n") < 4
    assert shown.endswith("; rm -rf x")


@given(st.text())
def test_rendering_is_injective(text: str) -> None:
    shown = render(text)
    assert unrender(shown) == text
    for char in shown:
        assert char == "\n" or unicodedata.category(char) not in {
            "Cc",
            "Cf",
            "Cs",
            "Co",
            "Zl",
            "Zp",
        }


@given(st.text(alphabet=" \n\\u{}2A0*15\x00\u200bx"))
def test_rendering_is_injective_round_its_own_escapes(text: str) -> None:
    assert unrender(render(text)) == text


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("rm –rf x", "look-alike"), ("gіt push", "look-alike"), ("ｌｓ", "look-alike"),
        ("curl https://xn--pple-43d.com", "internationalised"),
        ("ls\u200b", "invisible characters: U+200B"),
        ("curl https://github.com@evil.io/x", "user name"), ("echo שלום", "right-to-left"),
        ("x\n" * 50, "Read it to the end"),
    ],
)  # fmt: skip
def test_deceptions_are_hinted_at(command: str, hint: str) -> None:
    assert hint in " ".join(str(text) for text in warnings(command))


@pytest.mark.parametrize("command", ["echo привет", "echo café", "git commit -m '日本'", "ls -la"])
def test_honest_text_is_not_warned_about(command: str) -> None:
    assert warnings(command) == ()
