"""Forms of MCP servers: what each field begins with, shows and takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kogniterm.runtime.extensions.servers.server_elicitation import ServerQuestions
from kogniterm.runtime.turn_ports import AskPort, Question
from kogniterm.tools.mcp.server_questions import form_fields
from kogniterm.tools.mcp.server_values import ServerQuestion
from kogniterm.types import Phrase

SCHEMA = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "minimum": 0, "maximum": 120, "default": 30},
        "mail": {"type": "string", "title": "Mail", "description": "Where to", "format": "email"},
        "page": {"type": "string", "format": "uri"},
        "at": {"type": "string", "format": "date-time"},
        "colour": {
            "type": "string",
            "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}],
            "default": "g",
        },
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
        "sides": {
            "type": "array",
            "items": {"anyOf": [{"const": "l", "title": "Left"}, {"const": "r", "title": "Right"}]},
            "maxItems": 1,
        },
        "sure": {"type": "boolean", "default": True},
    },
    "required": ["age", "mail", "page", "at", "colour", "size", "sides", "sure"],
}


async def test_a_form_is_asked_with_its_defaults_titles_bounds_and_formats() -> None:
    said = iter(
        ["500", "30", "nobody", "a@b.org", "nowhere", "https://b.org", "soon",
         "2026-01-02T03:04:05Z", "Green", "Large", "Left, Right", "Left", "yes"]
    )  # fmt: skip
    asked: list[tuple[list[str], list[str]]] = []

    async def ask(question: Question, answers: Sequence[str | Phrase]) -> str | None:
        asked.append((list(map(str, question)), list(map(str, answers))))
        return next(said)

    fields = form_fields(SCHEMA)
    assert fields is not None
    found = await ServerQuestions(AskPort(ask)).answer(ServerQuestion("demo", "Who?", fields))
    assert found == {
        "age": 30, "mail": "a@b.org", "page": "https://b.org", "at": "2026-01-02T03:04:05Z",
        "colour": "g", "size": "l", "sides": ["l"], "sure": True,
    }  # fmt: skip
    shown: Any = {question[1]: answers for question, answers in asked}
    assert shown["age"] == ["30"]
    assert shown["Mail: Where to"] == []
    assert shown["colour"] == ["Green", "Red"]
    assert shown["size"] == ["Small", "Large"]
    assert shown["sides"] == ["Left", "Right"]
    assert shown["sure"] == ["yes", "no"]
    wrong = [question[2] for question, _answers in asked if len(question) > 2]
    assert wrong[0] == "500 does not fit here: 500 is greater than the maximum of 120."
    assert len(wrong) == 5
