"""Regular expressions from outside: matched, refused, or abandoned after too many steps."""

from __future__ import annotations

import pytest

from kogniterm.errors import ToolError
from kogniterm.text.bounded_regex import Pattern


def test_it_finds_what_python_would() -> None:
    assert Pattern("^b+$").search("a\nbb\nc") == (2, 4)
    assert Pattern("B").search("ab") is None
    assert Pattern("B", ignore_case=True).search("ab") == (1, 2)


# The last two mean something to one library only, or something else to each.
@pytest.mark.parametrize("text", ["(", "a{99999999999}", "\\p{Lu}", "(?(DEFINE)x)"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match="not a valid regular expression"):
        Pattern(text)


def test_all_searches_together_are_bounded() -> None:
    pattern = Pattern("(a|aa)+$", seconds=0.2)
    assert pattern.search("aa") == (0, 2)
    with pytest.raises(ToolError, match="takes too long"):
        pattern.search("a" * 80 + "!")
    with pytest.raises(ToolError, match="takes too long"):
        pattern.search("aa")


def test_much_text_is_not_blamed_on_the_pattern() -> None:
    pattern = Pattern("^[0-9]+,x$", seconds=0.05)

    def search_all() -> None:
        while True:
            pattern.search("12345,y\n" * 100)

    with pytest.raises(ToolError, match="too much text"):
        search_all()
