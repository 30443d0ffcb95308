"""Commands and forms of an editor, without a process: the client is the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from acp import text_block

from kogniterm.addons.acp.editor_session import EditorSession
from kogniterm.addons.acp.session_updates import FrontWords
from kogniterm.runtime.extensions.servers.server_elicitation import ServerQuestions
from kogniterm.runtime.turn_ports import AskPort
from kogniterm.tools.mcp.server_questions import form_fields
from kogniterm.tools.mcp.server_values import ServerQuestion
from tests.flows.conftest import Flow, MakeFlow
from tests.support.acp_editor import Editor

SCRIPT = "replies: [{text: Hello.}]"
WORDS = FrontWords(str, lambda tool, arguments: tool, lambda answer: "", lambda left: ())


@asynccontextmanager
async def edited(flow: Flow, *forms: dict[str, Any]) -> AsyncIterator[tuple[EditorSession, Editor]]:
    editor = Editor(flow.folder, flow.folder, "", forms=list(forms))
    opened = EditorSession(flow.open(), editor, WORDS, forms=True)
    opened.outbox.release()
    try:
        yield opened, editor
    finally:
        await opened.outbox.flush()
        flow.session = None
        await opened.close()


async def test_commands_that_notices_name_exist_in_an_editor(make_flow: MakeFlow) -> None:
    async with edited(make_flow(SCRIPT)) as (opened, editor):
        opened.greet()
        for line in ("/compact", "/mode plan", "/model", "/mcp", "/hooks"):
            await opened.prompt([text_block(line)])
    said = editor.said()
    assert "freed no space" in said
    assert "Approval mode: plan" in said
    assert "Model: scripted" in said
    (commands,) = editor.kinds("available_commands_update")[:1]
    offered = {one["name"] for one in commands["availableCommands"]}
    assert {"compact", "mode", "model", "mcp", "hooks"} <= offered


async def test_an_optional_field_with_a_default_takes_other_words(make_flow: MakeFlow) -> None:
    schema = {"properties": {"age": {"type": "integer", "default": 30}, "name": {"type": "string"}}}
    fields = form_fields(schema)
    assert fields is not None
    async with edited(make_flow(SCRIPT), {"answer": "41"}, {"answer": "Ada"}) as (opened, _):
        asks = ServerQuestions(AskPort(opened.questions.ask))
        found = await asks.answer(ServerQuestion("demo", "Who?", fields))
    assert found == {"age": 41, "name": "Ada"}
