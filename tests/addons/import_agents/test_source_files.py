"""JSON with comments and trailing commas."""

from __future__ import annotations

import json

import pytest

from kogniterm.addons.import_agents.foreign.source_files import json_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('{"a": 1, // one\n}', {"a": 1}),
        ('{"a": [1, 2, /* , */ ], }', {"a": [1, 2]}),
        ('// first\n{"a": "http://x//y"}', {"a": "http://x//y"}),
        ('{"a": "/* no */, }",}', {"a": "/* no */, }"}),
        ('{"a": "\\"// no", /* yes */}', {"a": '"// no'}),
        ('{"a": 1, /* a\n b */ "b": 2}', {"a": 1, "b": 2}),
        ("[\n1,\n\n// last\n]", [1]),
    ],
)
def test_comments_and_trailing_commas_are_ignored(text: str, value: object) -> None:
    assert json_value(text) == value


@pytest.mark.parametrize(
    "text",
    ['{"a": }', "{,}x", '{"a": 1 /* open', "{'a': 1}", '{"a": NaN}', '{"a": -Infinity,}', ""],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_value(text)


def test_the_line_of_a_mistake_counts_comments() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json_value('{\n// one\n/* two\nthree */\n"a": wrong,\n}')
    assert caught.value.lineno == 5
