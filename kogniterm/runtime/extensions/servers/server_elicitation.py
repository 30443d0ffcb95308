"""Questions of MCP servers, asked as KogniTerm asks its own: changed tools, forms, addresses."""

from __future__ import annotations

from kogniterm.runtime.turn_ports import AskPort
from kogniterm.text.shorten import cut, one_line
from kogniterm.text.visible import clean
from kogniterm.tools.mcp.server_config import ServerConfig
from kogniterm.tools.mcp.server_questions import why_wrong
from kogniterm.tools.mcp.server_values import Answers, FormField, ServerQuestion, ServerTool
from kogniterm.types import Phrase

TRUST = Phrase("trust this definition and call it")
REFUSE = Phrase("do not call it")
OPENED = Phrase("I have opened it")
YES, NO = Phrase("yes"), Phrase("no")
SKIP = Phrase("leave it empty")
MOST_LINES = 40
TRIES = 3


class ServerQuestions:
    """Asks the user at whose terminal a turn runs."""

    def __init__(self, asker: AskPort) -> None:
        self.asker = asker

    async def trust_tool(self, config: ServerConfig, tool: ServerTool, diff: str) -> bool:
        values = {"server": config.name, "tool": one_line(tool.name, 80)}
        head = Phrase(
            "The MCP server {server} has changed its tool {tool} since you trusted it.", values
        )
        lines = diff.splitlines()[2:]
        shown = [Phrase("{line}", {"line": cut(clean(one), 400)}) for one in lines[:MOST_LINES]]
        if len(lines) > MOST_LINES:
            shown.append(Phrase("… and {count} more lines", {"count": len(lines) - MOST_LINES}))
        return await self.asker.ask([head, *shown], [TRUST, REFUSE]) == str(TRUST)

    async def answer(self, question: ServerQuestion) -> Answers | None:
        asks = Phrase(
            "The MCP server {server} asks: {message}",
            {"server": question.server, "message": one_line(question.message, 500)},
        )
        if question.url:
            lines = [asks, Phrase("Open in your browser: {url}", {"url": question.url})]
            return {} if await self.asker.ask(lines, [OPENED, NO]) == str(OPENED) else None
        if not question.fields:
            return {} if await self.asker.ask([asks], [YES, NO]) == str(YES) else None
        answers: dict[str, str | int | float | bool | list[str]] = {}
        for field in question.fields:
            found = await self._field(asks, field)
            if found is None:
                return None
            if found != "":
                answers[field.name] = found
        return answers

    async def _field(
        self, asks: Phrase, field: FormField
    ) -> str | int | float | bool | list[str] | None:
        """Return the value of a field, "" for none; None where the user declines."""
        choices: list[str | Phrase] = list(field.choices)
        if field.kind == "boolean":
            choices = [YES, NO]
        if field.default:
            choices = [field.default, *(one for one in choices if str(one) != field.default)]
        if not field.required:
            choices.append(SKIP)
        lines = [asks, Phrase("{field}", {"field": field.title})]
        for _ in range(TRIES):
            said = await self.asker.ask(lines, choices)
            if said is None:
                return None
            if not field.required and said == str(SKIP):
                return ""
            value = value_of(field, said)
            why = why_wrong(field.schema, value)
            if value is not None and not why:
                return value
            values = {"answer": one_line(said, 60), "why": why}
            wrong = Phrase("{answer} does not fit here.", values)
            if value is not None:
                wrong = Phrase("{answer} does not fit here: {why}.", values)
            lines = [asks, Phrase("{field}", {"field": field.title}), wrong]
        return None


def value_of(field: FormField, said: str) -> str | int | float | bool | list[str] | None:
    """Return what the user said as a value of the field's kind; None where it is none."""
    said = said.strip()
    if field.kind == "boolean":
        return {str(YES): True, str(NO): False}.get(said.lower())
    if field.kind == "list":
        items = [one.strip() for one in said.split(",") if one.strip()]
        return [field.choices.get(one, one) for one in items]
    if field.choices or field.kind == "text":
        return field.choices.get(said, said)
    try:
        return int(said) if field.kind == "integer" else float(said)
    except ValueError:
        return None
