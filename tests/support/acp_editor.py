"""An editor for tests: the SDK's own client, which starts `kogniterm acp`, and its user."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, text_block
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ClientCapabilities,
    DeclineElicitationResponse,
    DeniedOutcome,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    RequestPermissionResponse,
)

from tests.support.forge import until
from tests.support.warm import inherited

CANCELLED = "(cancelled)"
"""The answer of a client whose user stops the turn at a question."""


@dataclass
class Asked:
    """A permission request as it came."""

    session: str
    call: dict[str, Any]
    options: dict[str, str]
    """The words of each option by its ID, in their order."""

    @property
    def text(self) -> str:
        return "\n".join(text_of(part) for part in self.call.get("content", ()))


@dataclass
class Editor:
    """A user at an editor: `answers` are the options chosen, `forms` what is typed, in order."""

    home: Path
    work: Path
    model: str
    variables: Mapping[str, str] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)
    forms: list[Mapping[str, Any] | None] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    updates: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    at_question: asyncio.Event | None = None
    """Set by the next question, which is never answered then."""
    agent: Any = None
    process: Any = None

    # --- the client's side of the protocol ------------------------------------------------------

    def on_connect(self, conn: Any) -> None:
        """Take the connection; `agent` has it already."""

    async def session_update(self, session_id: str, update: Any, **_meta: Any) -> None:
        self.updates.append((session_id, plain(update)))

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Sequence[Any], **_meta: Any
    ) -> RequestPermissionResponse:
        words = {one.option_id: one.name for one in options}
        self.asked.append(Asked(session_id, plain(tool_call), words))
        if self.at_question is not None:
            self.at_question.set()
            await asyncio.get_running_loop().create_future()
        chosen = self.answers.pop(0) if self.answers else "reject"
        if chosen == CANCELLED:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        outcome = AllowedOutcome(outcome="selected", option_id=chosen)
        return RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message: str, mode: Any = None, **_more: Any) -> Any:
        self.messages.append(message)
        found = self.forms.pop(0) if self.forms else None
        if found is None:
            return DeclineElicitationResponse(action="decline")
        return AcceptElicitationResponse(action="accept", content=dict(found))

    def __getattr__(self, name: str) -> Any:
        """Refuse every other method: files and terminals are the agent's own business."""
        raise AttributeError(name)

    # --- what the user sees ---------------------------------------------------------------------

    def kinds(self, kind: str, session: str = "") -> list[dict[str, Any]]:
        """Return the updates of one kind."""
        return [
            update
            for where, update in self.updates
            if update["sessionUpdate"] == kind and session in ("", where)
        ]

    def said(self, kind: str = "agent_message_chunk", session: str = "") -> str:
        """Return the text of all messages."""
        return "".join(one["content"]["text"] for one in self.kinds(kind, session))

    def calls(self) -> dict[str, dict[str, Any]]:
        """Return the tool calls as they stand, by ID."""
        found: dict[str, dict[str, Any]] = {}
        for _session, update in self.updates:
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                found.setdefault(update["toolCallId"], {}).update(update)
        return found

    def call(self, title: str) -> dict[str, Any]:
        """Return the one tool call with this title."""
        (found,) = [one for one in self.calls().values() if one["title"] == title]
        return {**found, "text": "\n".join(map(text_of, found.get("content", ())))}

    # --- what the user does ---------------------------------------------------------------------

    async def open(self, folder: Path | None = None, servers: Sequence[Any] = ()) -> str:
        """Open a session; return its ID."""
        made = await self.agent.new_session(cwd=str(folder or self.work), mcp_servers=list(servers))
        return str(made.session_id)

    async def say(self, session: str, *content: Any) -> str:
        """Send a prompt; return its stop reason."""
        blocks = [text_block(one) if isinstance(one, str) else one for one in content]
        done = await self.agent.prompt(session_id=session, prompt=blocks)
        return str(done.stop_reason)

    @property
    def environ(self) -> dict[str, str]:
        return inherited(self.home, self.variables)

    def kogniterm(self, *words: str) -> str:
        """Run a command of the user's in a terminal; return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "kogniterm", *words],
            env=self.environ, cwd=self.work, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *options: str) -> list[str]:
        return [sys.executable, "-m", "kogniterm", "acp", "--model", self.model, *options]


def plain(value: Any) -> dict[str, Any]:
    """Return a value of the SDK as it was sent."""
    return dict(value.model_dump(mode="json", by_alias=True, exclude_none=True))


def text_of(part: Mapping[str, Any]) -> str:
    """Return the text of one content of a tool call; a diff as before and after."""
    if part["type"] == "diff":
        return f"{part['path']}\n{part.get('oldText')}\n{part['newText']}"
    return str(part["content"]["text"])


@asynccontextmanager
async def editing(
    editor: Editor, *options: str, forms: bool = False, start: bool = True
) -> AsyncIterator[Editor]:
    """Start the agent for an editor; at the end its input is closed and it must leave by itself."""
    log = editor.home / "stderr.txt"
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *editor.command(*options), env=editor.environ, cwd=editor.work,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=errors,
            limit=64 * 1024 * 1024,
        )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    editor.process = process
    editor.agent = connect_to_agent(
        editor, process.stdin, process.stdout, use_unstable_protocol=True
    )
    form = ElicitationCapabilities(form=ElicitationFormCapabilities()) if forms else None
    try:
        if start:
            await editor.agent.initialize(
                PROTOCOL_VERSION, client_capabilities=ClientCapabilities(elicitation=form)
            )
        yield editor
    finally:
        process.stdin.close()
        status = await process.wait()
        await editor.agent.close()
        told = log.read_text()
    if status >= 0:  # a test may have killed it
        assert (status, told) == (0, ""), told


async def until_seen(holds: Callable[[], bool]) -> None:
    """Wait for something that the agent sends, or that its command does."""
    await asyncio.to_thread(until, holds)


async def refused(work: Any) -> tuple[int, str]:
    """Return code and sentence of the error that a request gets."""
    try:
        await work
    except RequestError as error:
        return error.code, str(error)
    raise AssertionError("the request was answered")
