"""Arguments of tools are shown in plain words, and completely."""

from __future__ import annotations

import json
from unittest.mock import MagicMock

import pytest

from kogniterm.agent.plan.plan_tools import COMPLETE_STEP, MAKE_PLAN
from kogniterm.agent.subagent import DELEGATE
from kogniterm.tools.net import mark_untrusted
from kogniterm.tools.tool_registry import session_tools
from kogniterm.types import events as ev
from kogniterm.ui.screen.tool_lines import tool_line
from kogniterm.ui.words.turn_words import edit_words, shown_result, tool_label, tool_words
from tests.support.language import in_spanish
from tests.ui.screen.test_renderer import PLAIN, begin, lines


@pytest.mark.parametrize(
    ("name", "given", "english", "spanish"),
    [
        ("read_file", {"path": "src/app.py"}, "src/app.py", "src/app.py"),
        (
            "read_file",
            {"path": "a.py", "start": 10, "lines": 31},
            "a.py, lines 10-40",
            "a.py, líneas 10-40",
        ),
        (
            "read_file",
            {"path": "a.py", "start": 7, "lines": 1},
            "a.py, line 7",
            "a.py, línea 7",
        ),
        (
            "read_file",
            {"path": "/c/1.log", "start": -50, "lines": 50},
            "/c/1.log, last 50 lines",
            "/c/1.log, últimas 50 líneas",
        ),
        ("search_text", {"pattern": "foo", "path": "src"}, '"foo" in src', '"foo" en src'),
        (
            "search_text",
            {"pattern": "foo", "path": ".", "glob": "*.py"},
            '"foo", *.py',
            '"foo", *.py',
        ),
        ("find_files", {"glob": "*.md", "path": "docs"}, "*.md in docs", "*.md en docs"),
        ("recall_history", {"entry": 12}, "entry 12", "entrada 12"),
        ("web_fetch", {"url": "https://a.example/x"}, "https://a.example/x", "https://a.example/x"),
        ("web_search", {"query": "two words", "purpose": "why"}, '"two words"', '"two words"'),
        ("github", {"action": "issue", "repo": "a/b", "number": 3}, "issue a/b #3", "issue a/b #3"),
        ("jobs", {"action": "list"}, "list", "list"),
    ],
)
def test_a_call_reads_like_a_sentence(
    name: str, given: dict[str, object], english: str, spanish: str
) -> None:
    told = json.dumps(given)
    assert tool_words(name, told) == english
    with in_spanish():
        assert tool_words(name, told) == spanish


def test_any_other_tool_names_what_it_was_given() -> None:
    given = {"city": "Lima", "days": 3, "wind": True, "note": "", "parts": ["a", {"b": 1}]}
    told = tool_words("weather", json.dumps(given))
    assert told == 'city: Lima, days: 3, wind: true, parts: ["a", {"b": 1}]'


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("read_file", '{"path": "a\\u202e\\nb\\u001b[2J"}', "a\\u{202E} b\\u{1B}[2J"),
        ("read_file", '{"path": "a", "start": "soon"}', "path: a, start: soon"),
        ("read_file", '{"file": "a"}', "file: a"),
        ("read_file", "no JSON\u200b", "no JSON\\u{200B}"),
        ("read_file", "[1, 2]", "[1, 2]"),
        ("weather", "{}", ""),
    ],
)
def test_what_does_not_fit_is_shown_as_it_is(name: str, given: str, told: str) -> None:
    assert tool_words(name, given) == told


def test_a_call_keeps_to_one_line_of_the_screen_and_a_failure_is_told_whole() -> None:
    sink, stream, _clock = lines(40)
    begin(sink)
    long = json.dumps({"path": "folder/" * 20})
    sink(ev.ToolRan("read_file", long, "x"))
    sink(ev.ActionEnded("1", "web_fetch", "A page", False, '{"url": "https://a.example/"}'))
    sink(ev.ToolRan("read_file", '{"path": "b"}', "There is no b.", failed=True))
    assert stream.getvalue() == (
        "• Read folder/folder/folder/folder/fold…\n"
        "• Fetch https://a.example/\n"
        "✗ Read b: There is no b.\n"
    )


def test_a_malformed_call_is_told_without_the_names_of_tools_and_parameters() -> None:
    sink, stream, _clock = lines(80)
    begin(sink)
    problem = "Invalid arguments for find_files: wrong: Extra inputs are not permitted."
    sink(ev.ToolRan("find_files", '{"glob": "*"}', problem, failed=True, malformed=True))
    calls = {
        "read_file": '{"pth": "a.py"}',
        "make_plan": '{"goal": "Tidy", "steps": [{"tools": ["read_file"]}]}',
        "search_text": "no JSON",
        "edit_file": '{"path": "a.py", "old": "x", "new": "y"}',
    }
    for name, given in calls.items():
        sink(ev.ToolRan(name, given, problem, failed=True, malformed=True))
    assert stream.getvalue() == (
        "✗ Find files *: invalid call, sent back to the model\n"
        "✗ Read: invalid call, sent back to the model\n"
        "✗ Make a plan: invalid call, sent back to the model\n"
        "✗ Search for: invalid call, sent back to the model\n"
        "✗ Edit a.py: invalid call, sent back to the model\n"
    )


def test_every_tool_has_a_label_in_both_languages() -> None:
    tools = session_tools(MagicMock(), brave_key="given")
    for name in (*tools, MAKE_PLAN.name, COMPLETE_STEP.name, DELEGATE.name, "calculate"):
        english = tool_label(name)
        assert "_" not in english
        with in_spanish():
            assert tool_label(name) not in (name, english)
    assert tool_label("mcp__weather") == "mcp__weather"


@pytest.mark.parametrize(
    ("told", "english", "spanish"),
    [
        (
            "Wrote /w/a b.py (+1 -2 lines).",
            "Wrote a b.py (+1 -2 lines)",
            "Escrito: a b.py (+1 -2 líneas)",
        ),
        ("edit /x/a.py (+1 -0 lines)", "edit /x/a.py (+1", "editar /x/a.py (+1 -0 líneas)"),
        ("Wrote /w/b (no changes).", "Wrote b (no changes)", "Escrito: b (sin cambios)"),
        ("create /w/b (+3 -0 lines)", "create b (+3", "crear b (+3 -0 líneas)"),
        ("anything else", "anything else", "anything else"),
    ],
)
def test_an_edit_is_told_in_the_language_of_the_screen(
    told: str, english: str, spanish: str
) -> None:
    assert edit_words(told, "/w").startswith(english)
    with in_spanish():
        assert edit_words(told, "/w").startswith(spanish)


def test_the_marks_of_foreign_text_are_for_the_model_alone() -> None:
    marked = mark_untrusted("MCP server demo, tool add", "no such number\nat all")
    assert shown_result(marked, 40) == "no such number at all"
    line = tool_line(PLAIN, "mcp__demo__add", "{}", marked, failed=True).plain
    assert "no such number" in line
    assert "untrusted" not in line
