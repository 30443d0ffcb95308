"""A connection to one MCP server: opened at its first use, and held by a task of its own.

The SDK's client speaks every revision of the protocol; it is entered and left by one task, as its
cancel scopes require. A call is sent once. When the connection breaks while it runs, what became of
it is not known, and `McpCallLostError` says so; nothing here sends it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from kogniterm.errors import ToolError
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.tools.mcp.call_results import call_end, prompt_text, resource_text
from kogniterm.tools.mcp.mcp_errors import (
    McpAddressNeededError,
    McpCallLostError,
    McpError,
    McpRefusedError,
    McpUnreachableError,
    failure_of,
    first_error,
    lost_call,
)
from kogniterm.tools.mcp.server_config import ServerConfig
from kogniterm.tools.mcp.server_questions import answer_elicitation, roots_result
from kogniterm.tools.mcp.server_values import (
    LEFT_OUT,
    Elicit,
    Listing,
    Progress,
    ServerPrompt,
    ServerResource,
    ServerTool,
)
from kogniterm.tools.mcp.stdio_transport import (
    ENDED,
    PipeProblem,
    ServerPipes,
    over_pipes,
    show_complaint,
)
from kogniterm.types import Observation, Phrase

if TYPE_CHECKING:
    from mcp import Client

log = logging.getLogger(__name__)

StartServer = Callable[[ServerConfig], Awaitable[ServerPipes]]
"""Starts a local server, whose variables are filled in. Raises `KognitermError`."""
OpenRemote = Callable[[ServerConfig], AbstractAsyncContextManager[Any]]
"""Opens the streams of a remote server, whose variables are filled in."""
T = TypeVar("T")

MAX_TOOLS = 1_000
MAX_PAGES = 50
MAX_DESCRIPTION = 4_000
MAX_INSTRUCTIONS = 2_000
"""Characters kept of what a server says of its use as a whole."""
LIST_SECONDS = 60.0
MAX_LISTINGS = 3
_TOOLS = "Tool"
"""The kind of a change to tools, as its notification begins."""


class Connection:
    """One server: closed, or open with a client that its task holds.

    `workspace` is the root that it is told of. `changed` has the kinds of its lists
    that changed.
    """

    def __init__(
        self,
        config: ServerConfig,
        start: StartServer,
        open_remote: OpenRemote,
        workspace: str,
        elicit: Elicit | None = None,
    ) -> None:
        self.config, self.start, self.open_remote = config, start, open_remote
        self.workspace, self.elicit = workspace, elicit
        self.changed: set[str] = set()
        self._client: Client | None = None
        self._holder: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()
        self._problem: PipeProblem | None = None
        self._lock = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Return whether the server is connected."""
        held = self._holder is not None and not self._holder.done()
        return held and self._client is not None and not self._leave.is_set()

    @property
    def last_line(self) -> str:
        """Return what a local server wrote last to its standard error."""
        pipes = self._problem.pipes if self._problem is not None else None
        return (
            show_complaint(pipes.complaints.rstrip().rpartition(b"\n")[2])
            if pipes is not None
            else ""
        )

    @property
    def tools_changed(self) -> bool:
        """Return whether the server said that its tools changed since they were listed."""
        return _TOOLS in self.changed

    async def open(self) -> None:
        """Connect, unless it is connected. Raises `ToolError` that says why it cannot be."""
        async with self._lock:
            if self.is_open:
                return
            await self._end()
            self._leave = asyncio.Event()
            self._problem = PipeProblem(self._leave)
            ready = asyncio.Event()
            self._holder = asyncio.create_task(self._hold(ready), name=f"mcp {self.config.name}")
            try:
                await self._until(ready, self._holder)
            except BaseException:
                await self._end()
                raise

    async def _until(self, ready: asyncio.Event, holder: asyncio.Task[None]) -> None:
        """Wait until the server is connected. Raises `ToolError` that says why it is not."""
        waiting = asyncio.create_task(ready.wait())
        seconds = self.config.startup_timeout
        try:
            done, _ = await asyncio.wait(
                {waiting, holder}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            waiting.cancel()
        if not done:
            holder.cancel()
            late = Phrase("it did not answer within {seconds:.0f} s", {"seconds": seconds})
            raise self._not_started(self._problem.after(late) if self._problem else late)
        if holder.done() and not ready.is_set():
            raise self._start_error(holder.exception() or ConnectionError("it ended"))

    async def close(self) -> None:
        """Disconnect, and end a local server. Safe to call twice."""
        async with self._lock:
            await self._end()

    async def _end(self) -> None:
        self._leave.set()
        holder, self._holder, self._client = self._holder, None, None
        if holder is not None:
            done, _ = await asyncio.wait({holder}, timeout=5.0)
            if not done:
                holder.cancel()
                await asyncio.wait({holder})
            if not holder.cancelled() and holder.exception() is not None:
                log.debug("mcp %s ended", self.config.name, exc_info=holder.exception())

    async def _hold(self, ready: asyncio.Event) -> None:
        """Enter the client, and leave it when that is asked for."""
        try:
            async with self._streams() as streams:
                from mcp import Client
                from mcp_types import Implementation

                from kogniterm import __version__

                async with Client(
                    nullcontext(streams),
                    mode="auto",
                    client_info=Implementation(name="kogniterm", version=__version__),
                    elicitation_callback=self._answer_form,
                    list_roots_callback=self._roots,
                    message_handler=self._take_notification,
                    cache=None,
                ) as client:
                    self._client = client
                    log.debug("mcp %s connected", self.config.name)
                    ready.set()
                    listening = asyncio.create_task(self._listen(client))
                    try:
                        await self._leave.wait()
                    finally:
                        listening.cancel()
                        await asyncio.wait({listening})
                    log.debug("mcp %s left", self.config.name)
        finally:
            self._client = None

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        if not self.config.local:
            async with self.open_remote(self.config) as streams:
                yield streams
            return
        pipes = await self.start(self.config)
        assert self._problem is not None
        async with over_pipes(pipes, self._problem) as streams:
            yield streams

    def _start_error(self, error: BaseException) -> ToolError:
        first = first_error(error)
        if isinstance(first, ToolError):
            return first
        if not self.config.local:
            return failure_of(first, self.config.name)
        return self._not_started(self._why_ended() or _told(first))

    def _not_started(self, reason: str | Phrase) -> ToolError:
        return ToolError(
            "The MCP server {name} could not be started: {why}.",
            name=self.config.name,
            why=reason,
        )

    def _why_ended(self) -> Phrase | None:
        return self._problem.text if self._problem is not None else None

    async def _answer_form(self, context: Any, params: Any) -> Any:
        return await answer_elicitation(self.config.name, params, self.elicit)

    async def _roots(self, context: Any) -> Any:
        return roots_result(self.workspace)

    async def _take_notification(self, message: Any) -> None:
        kind, ends, _ = type(message).__name__.partition("ListChangedNotification")
        if ends:
            self.changed.add(kind)

    async def _listen(self, client: Client) -> None:
        """Hear of changed lists from a server that tells of them only where it is asked to."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _change in changes:
                    self.changed.add(_TOOLS)

    # --- what it offers -------------------------------------------------------------------------

    async def listing(self) -> Listing:
        """Return what the server offers now. Raises `ToolError`.

        Many servers add tools as a client connects, and tell of each.
        """
        await self.open()
        for _ in range(MAX_LISTINGS):
            self.changed.clear()
            found = await self._list()
            if not self.changed:
                break
        return found

    async def _list(self) -> Listing:
        client = self._connect()
        can = client.server_capabilities
        pages: list[Any] = []
        tools = await self._list_pages(lambda at: client.list_tools(cursor=at), "tools", pages)
        valid = [float(getattr(page, "ttl_ms", 0) or 0) / 1000 for page in pages]
        prompts = resources = ()
        if can.prompts is not None:
            prompts = await self._list_pages(
                lambda at: client.list_prompts(cursor=at), "prompts", pages
            )
        if can.resources is not None:
            resources = await self._list_pages(
                lambda at: client.list_resources(cursor=at), "resources", pages
            )
            with suppress(McpError):  # a server may have none, and not know the question
                resources += await self._list_pages(
                    lambda at: client.list_resource_templates(cursor=at),
                    "resource_templates",
                    pages,
                )
        info = client.server_info
        title = f"{info.name} {info.version}".strip() if info is not None else ""
        return Listing(
            tuple(_tool(one) for one in tools if not _needs_task(one)),
            tuple(map(_prompt, prompts)),
            tuple(map(_resource, resources)),
            one_line(clean(title), 80),
            min(valid, default=0.0),
            clean(client.instructions or "").strip()[:MAX_INSTRUCTIONS],
            tuple(name for page in pages for name in _left_out(page)),
            tuple(one_line(clean(one.name), 100) for one in tools if _needs_task(one)),
        )

    async def _list_pages(
        self, page: Callable[[str | None], Coroutine[Any, Any, Any]], name: str, pages: list[Any]
    ) -> tuple[Any, ...]:
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            result = await self._limit_answer(page(cursor), LIST_SECONDS)
            found += getattr(result, name)
            pages.append(result)
            cursor = result.next_cursor
            if not cursor or len(found) >= MAX_TOOLS:
                break
        return tuple(found[:MAX_TOOLS])

    async def read_resource(self, uri: str) -> Observation:
        """Return the contents of a resource. Raises `ToolError`."""
        await self.open()
        result = await self._limit_answer(self._connect().read_resource(uri), self.config.timeout)
        return resource_text(self.config.name, uri, result.contents)

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Return a prompt with its arguments filled in. Raises `ToolError`."""
        await self.open()
        asked = self._connect().get_prompt(name, arguments)
        result = await self._limit_answer(asked, self.config.timeout)
        return prompt_text(result.messages)

    # --- calls ----------------------------------------------------------------------------------

    async def call(
        self, tool: ServerTool, arguments: dict[str, Any], told: Progress
    ) -> tuple[Observation, bool]:
        """Call a tool, once; return its result, and whether the server says that it failed.

        Raises `McpCallLostError` where its end is not known, and `McpError` where the server did
        not run it. The time limit begins anew whenever the
        server reports progress, which `told` gets.
        """
        await self.open()
        client = self._connect()
        limit = asyncio.timeout(self.config.timeout)

        # The names of the SDK's protocol.
        async def report(progress: float, total: float | None, message: str | None) -> None:
            limit.reschedule(asyncio.get_running_loop().time() + self.config.timeout)
            share = f"{progress / total:.0%}" if total else ""
            told(" ".join(filter(None, (share, one_line(clean(message or ""), 200)))))

        try:
            async with limit:
                asked = client.call_tool(tool.name, arguments, progress_callback=report)
                result = await self._watch_call(asked, called=True)
        except TimeoutError:
            seconds = f"no answer within {self.config.timeout:.0f} s"
            raise lost_call(self.config.name, seconds) from None
        except McpAddressNeededError as needed:
            raise await self._offer_addresses(needed) from needed
        return call_end(self.config.name, tool.name, result)

    async def _offer_addresses(self, needed: McpAddressNeededError) -> McpRefusedError:
        """Show the user the addresses that a call needs; return its refusal for the model."""
        for wanted in needed.wanted:
            answer = await answer_elicitation(self.config.name, wanted, self.elicit)
            if answer.action != "accept":
                return needed
        return McpRefusedError(
            "The MCP server {server} did not run the call, because the user had to open an address "
            "first. They answered that they did, so the call can be made again.",
            server=self.config.name,
        )

    async def _watch_call(self, call: Coroutine[Any, Any, T], *, called: bool = False) -> T:
        """Return what `call` returns, and end it with the connection. Raises `McpError`."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED
        from pydantic import ValidationError

        holder, name = self._holder, self.config.name
        assert holder is not None
        asked = asyncio.create_task(call)
        try:
            await asyncio.wait({asked, holder}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise self._broken(called=called)
            return asked.result()
        except MCPError as error:
            failure = failure_of(error, name, called=called)
            if error.code == CONNECTION_CLOSED and not isinstance(failure, McpRefusedError):
                self._leave.set()  # the next use opens it anew
            if isinstance(failure, McpCallLostError) and (why := self._why_ended()):
                failure = lost_call(name, why)
            raise failure from error
        except (ValidationError, RuntimeError) as error:
            raise McpError(
                "The MCP server {server} answered, but with a result that is not valid: {why}.",
                server=name,
                why=_told(error),
            ) from error
        finally:
            if not asked.done():
                asked.cancel()
                await asyncio.wait({asked})

    async def _limit_answer(self, asked: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return an answer that changes nothing. Raises `McpError`."""
        try:
            async with asyncio.timeout(seconds):
                return await self._watch_call(asked)
        except TimeoutError:
            raise McpError(
                "The MCP server {server} did not answer within {seconds:.0f} s.",
                server=self.config.name,
                seconds=seconds,
            ) from None

    def _connect(self) -> Client:
        if self._client is None:
            raise self._broken()
        return self._client

    def _broken(self, *, called: bool = False) -> McpError:
        self._leave.set()
        why = self._why_ended() or ENDED
        if called:
            return lost_call(self.config.name, why)
        return McpUnreachableError(
            "The connection to the MCP server {server} broke: {why}.",
            server=self.config.name,
            why=why,
        )


def _told(error: BaseException) -> str:
    return one_line(clean(str(error)), 400).rstrip(".") or type(error).__name__


def _left_out(page: Any) -> list[str]:
    """Return the names of what is left out of a page of a list."""
    found = [one_line(clean(name), 100) for name in (page.meta or {}).get(LEFT_OUT, ())]
    if found:
        log.warning("mcp: left out of a list, because they are not valid: %s", ", ".join(found))
    return found


def _needs_task(tool: Any) -> bool:
    return tool.execution is not None and tool.execution.task_support == "required"


def _tool(tool: Any) -> ServerTool:
    claims = tool.annotations
    return ServerTool(
        str(tool.name),
        clean(tool.description or tool.title or "")[:MAX_DESCRIPTION],
        dict(tool.input_schema),
        read_only=bool(claims and claims.read_only_hint),
        destructive=claims is None or claims.destructive_hint is not False,
        idempotent=bool(claims and claims.idempotent_hint),
    )


def _prompt(prompt: Any) -> ServerPrompt:
    arguments: Sequence[Any] = prompt.arguments or ()
    named = tuple((one_line(clean(one.name), 60), bool(one.required)) for one in arguments)
    return ServerPrompt(str(prompt.name), one_line(clean(prompt.description or ""), 200), named)


def _resource(resource: Any) -> ServerResource:
    return ServerResource(
        one_line(clean(str(getattr(resource, "uri", "") or resource.uri_template)), 500),
        one_line(clean(resource.name or ""), 100),
        one_line(clean(resource.description or ""), 200),
    )
