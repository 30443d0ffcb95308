"""Serve KogniTerm's tools to other agents over standard input and output; the SDK speaks MCP.

A task may ask its client: for approval of a command, the review of a plan, an answer. The newest
revision has no requests from server to client: the call returns with the question, and the client
calls again with the answer. Older ones ask while the call waits. Both are driven here by the same
`ServedTask`, which goes on between the rounds; a task whose client does not come back is stopped.

Importing this module loads the SDK.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import mcp_types as wire
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from kogniterm import __version__
from kogniterm.errors import KognitermError, UsageError
from kogniterm.host.standard_streams import standard_streams

ROUND_SECONDS = 3600.0
"""Time that a task waits for a client that has to call again with an answer."""
_QUESTION = "question"

RUN_TASK, SEARCH_SESSIONS, RECALL = "run_task", "search_sessions", "recall"


@dataclass(frozen=True, slots=True)
class Form:
    """A question to the client's user: a text, and fields as in JSON Schema."""

    message: str
    fields: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a tool: data for programs and text for readers."""

    data: Mapping[str, Any]
    text: str
    failed: bool = False


class ServedTask(Protocol):
    """A task at work."""

    async def next(self) -> Form | Done | str:
        """Return what comes next, text for progress. After a `Form`, call `answer` first."""

    def answer(self, values: Mapping[str, Any] | None) -> None:
        """Answer the last form; None is no answer."""

    async def stop(self) -> None:
        """Stop it, and wait until what was open is settled. Safe to call twice."""


class Served(Protocol):
    """The operations behind the tools. Each raises `KognitermError`."""

    async def run_task(self, task: str, folder: str, *, asks: bool) -> ServedTask:
        """Begin `task` in `folder`; with `asks` the client can show forms."""

    async def search_sessions(self, query: str, limit: int) -> Done:
        """Return the turns of earlier sessions that hold the words."""

    async def recall(self, query: str, limit: int) -> Done:
        """Return the memories that answer `query`."""


ToolText = tuple[str, Mapping[str, str]]
"""The description of a served tool, and of its arguments by name."""


async def serve_stdio(served: Served, texts: Mapping[str, ToolText]) -> None:
    """Serve until the client closes its end or this task is cancelled; every task ends with it."""
    calls = _Calls(served, texts)
    server: Server[Any] = Server(
        "kogniterm", version=__version__, on_list_tools=calls.list, on_call_tool=calls.call
    )
    try:
        async with _standard_streams() as (stdin, stdout), stdio_server(stdin, stdout) as streams:
            read, write = streams
            await server.run(read, write, server.create_initialization_options())
    except* (BrokenPipeError, ConnectionError):
        pass  # the client is gone, as at the end of its input
    finally:
        await calls.close()


MAX_LINE = 16 * 1024 * 1024
"""Bytes of one message of the client; a longer one ends the connection."""


@asynccontextmanager
async def _standard_streams() -> AsyncIterator[tuple[Any, Any]]:
    """Yield standard input and output for the protocol alone, as the SDK reads and writes files.

    The SDK's own would do both in threads, which nothing can stop while the client is silent. For
    what is no pipe, such as a file, the SDK's are used.
    """
    async with standard_streams(MAX_LINE) as streams:
        if streams is None:
            yield None, None
        else:
            yield _Lines(streams[0]), _Writer(streams[1])


class _Lines:
    """The lines of the client, as the SDK reads a file."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.reader = reader

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        try:
            line = await self.reader.readline()
        except (ValueError, ConnectionError):
            line = b""
        if not line:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")


class _Writer:
    """The output to the client, as the SDK writes a file."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer

    async def write(self, text: str) -> None:
        self.writer.write(text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        await self.writer.drain()


class _Calls:
    """The calls of one client; `waiting` are the tasks whose client has to call again."""

    def __init__(self, served: Served, texts: Mapping[str, ToolText]) -> None:
        self.served, self.texts = served, texts
        self.waiting: dict[str, ServedTask] = {}
        self.running: set[ServedTask] = set()

    async def list(self, context: Any, params: Any) -> wire.ListToolsResult:
        """List the tools."""
        del context, params
        return wire.ListToolsResult(tools=[_tool(name, self.texts[name]) for name in _ARGUMENTS])

    async def call(
        self, context: Any, params: wire.CallToolRequestParams
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        """Run a tool."""
        try:
            given = _complete_arguments(params.name, params.arguments or {})
            if params.name == RUN_TASK:
                return await self._run(context, params, given)
            if params.name == SEARCH_SESSIONS:
                return _result(await self.served.search_sessions(**given))
            return _result(await self.served.recall(**given))
        except KognitermError as error:
            return _result(Done({"error": str(error)}, str(error), failed=True))

    async def close(self) -> None:
        """Stop every task."""
        await asyncio.gather(*(task.stop() for task in [*self.running, *self.waiting.values()]))

    async def _run(
        self, context: Any, params: wire.CallToolRequestParams, given: dict[str, Any]
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        if params.request_state is not None:
            # A client comes back to its task, with an answer.
            task = self.waiting.pop(params.request_state, None)
            if task is None:
                raise UsageError("This task has ended; call run_task again.")
            task.answer(_values((params.input_responses or {}).get(_QUESTION)))
        else:
            capabilities = context.session.client_capabilities
            asks = capabilities is not None and capabilities.elicitation is not None
            task = await self.served.run_task(given["task"], given["folder"], asks=asks)
        self.running.add(task)
        try:
            return await self._drive(context, task)
        except BaseException:
            # The SDK cancels again and again until the call has ended; the turn ends in peace.
            with anyio.CancelScope(shield=True):
                await task.stop()
            raise
        finally:
            self.running.discard(task)

    async def _drive(
        self, context: Any, task: ServedTask
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        steps = 0
        while True:
            found = await task.next()
            if isinstance(found, Done):
                return _result(found)
            if isinstance(found, str):
                steps += 1
                await context.session.report_progress(steps, None, found)
            elif context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return self._ask_client(task, found)
            else:
                task.answer(_values(await context.session.elicit_form(
                    found.message, _schema(found), context.request_id
                )))  # fmt: skip

    def _ask_client(self, task: ServedTask, form: Form) -> wire.InputRequiredResult:
        state = secrets.token_urlsafe(24)
        self.waiting[state] = task
        asyncio.get_running_loop().call_later(ROUND_SECONDS, self._give_up, state)
        asked = wire.ElicitRequest(
            params=wire.ElicitRequestFormParams(
                message=form.message, requested_schema=_schema(form)
            )
        )
        return wire.InputRequiredResult(input_requests={_QUESTION: asked}, request_state=state)

    def _give_up(self, state: str) -> None:
        task = self.waiting.pop(state, None)
        if task is not None:
            stopping = asyncio.ensure_future(task.stop())
            self.running.add(task)
            stopping.add_done_callback(lambda _done: self.running.discard(task))


_ARGUMENTS: Mapping[str, Mapping[str, tuple[type, object]]] = {
    RUN_TASK: {"task": (str, None), "folder": (str, "")},
    SEARCH_SESSIONS: {"query": (str, None), "limit": (int, 10)},
    RECALL: {"query": (str, None), "limit": (int, 8)},
}
"""The arguments of each tool: their type, and the value of one that may be left out."""
_MOST = 50


def _tool(name: str, text: ToolText) -> wire.Tool:
    description, arguments = text
    properties: dict[str, dict[str, object]] = {}
    for argument, (kind, default) in _ARGUMENTS[name].items():
        properties[argument] = {
            "type": "string" if kind is str else "integer",
            "description": arguments[argument],
        }
        if kind is int:
            properties[argument] |= {"minimum": 1, "maximum": _MOST, "default": default}
    required = [one for one, (_kind, default) in _ARGUMENTS[name].items() if default is None]
    reads = name != RUN_TASK
    return wire.Tool(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        },
        annotations=wire.ToolAnnotations(
            read_only_hint=reads, destructive_hint=not reads, open_world_hint=not reads
        ),
    )


def _complete_arguments(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, completed. Raises `UsageError`."""
    if name not in _ARGUMENTS:
        raise UsageError("There is no tool {name}.", name=name)
    expected = _ARGUMENTS[name]
    for one in given:
        if one not in expected:
            raise UsageError("The tool {name} has no argument {argument}.", name=name, argument=one)
    checked: dict[str, Any] = {}
    for one, (kind, default) in expected.items():
        value = given.get(one, default)
        empty = isinstance(value, str) and not value.strip() and default is None
        wrong = not isinstance(value, kind) or isinstance(value, bool)
        if wrong or empty or (isinstance(value, int) and not 1 <= value <= _MOST):
            raise UsageError(
                "The argument {argument} of {name} is missing or cannot be used.",
                name=name,
                argument=one,
            )
        checked[one] = value
    return checked


def _schema(form: Form) -> dict[str, Any]:
    fields = {name: dict(schema) for name, schema in form.fields.items()}
    return {"type": "object", "properties": fields, "required": list(form.required)}


def _values(answer: object) -> Mapping[str, Any] | None:
    """Return what the user put into a form; None when they declined it or closed it."""
    if not isinstance(answer, wire.ElicitResult) or answer.action != "accept":
        return None
    return dict(answer.content or {})


def _result(done: Done) -> wire.CallToolResult:
    return wire.CallToolResult(
        content=[wire.TextContent(text=done.text)],
        structured_content=dict(done.data),
        is_error=done.failed,
    )
