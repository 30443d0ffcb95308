"""`kogniterm acp`: the agent that an editor starts. The SDK speaks the protocol.

`initialize` is answered with the SDK alone; what a session needs is loaded behind it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from acp import PROTOCOL_VERSION, RequestError, run_agent
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    AuthMethodAgent,
    ClientCapabilities,
    CloseSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    TerminalAuthMethod,
)

from kogniterm import __version__
from kogniterm.addons.acp.message_stream import MAX_LINE, MessageStream
from kogniterm.errors import (
    KognitermError,
    ModelAuthError,
    ModelKeyMissingError,
    UsageError,
    of_system,
)
from kogniterm.host.installation import own_command
from kogniterm.host.safe_files import resolve_path
from kogniterm.host.standard_streams import standard_streams
from kogniterm.models.embedded import embedded_model
from kogniterm.text.redact import redact
from kogniterm.text.shorten import one_line
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.addons.acp.editor_servers import Named
    from kogniterm.addons.acp.editor_session import Client, EditorSession
    from kogniterm.addons.acp.prompt_blocks import Block
    from kogniterm.addons.acp.session_updates import FrontWords
    from kogniterm.paths import Paths
    from kogniterm.settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")

LOGIN, LOCAL = "login", "local"
_PAGE = 50
"""Sessions in one answer to `session/list`."""
_INVALID_PARAMS, _INTERNAL, _AUTH_REQUIRED = -32602, -32603, -32000


async def serve(load_settings: Callable[[], Settings], paths: Paths, words: FrontWords) -> None:
    """Serve on standard input and output until the client leaves.

    Raises `UsageError` where one of them is no pipe.
    """
    async with standard_streams(MAX_LINE) as streams:
        if streams is None:
            raise UsageError(
                "kogniterm acp is started by an editor, which speaks ACP on its standard input; "
                "add it to that editor's agents."
            )
        agent = EditorAgent(load_settings, paths, words)
        stream = MessageStream(*streams)
        try:
            # Closing and resuming are part of the protocol; this SDK still counts them as unstable.
            # Its protocol of an agent also names methods that this one does not offer.
            served: Any = agent
            await run_agent(served, stream, use_unstable_protocol=True)
        finally:
            await agent.close()


class EditorAgent:
    """Answers the requests of one client; implements the SDK's `Agent`."""

    def __init__(
        self, load_settings: Callable[[], Settings], paths: Paths, words: FrontWords
    ) -> None:
        self._load_settings = load_settings
        self._paths = paths
        self._words = words
        self._sessions: dict[str, EditorSession] = {}
        self._client: Client | None = None
        self._forms = False
        self._tasks: set[asyncio.Future[Any]] = set()
        self._loading: asyncio.Future[None] | None = None

    def on_connect(self, conn: Client) -> None:
        """Take the connection."""
        self._client = conn

    # --- the connection -------------------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **_meta: Any,
    ) -> InitializeResponse:
        """Tell what this agent can do; then load what sessions need."""
        del protocol_version
        if client_info is not None:
            log.info("client: %s", one_line(f"{client_info.name} {client_info.version}"))
        asked = client_capabilities or ClientCapabilities()
        self._forms = asked.elicitation is not None and asked.elicitation.form is not None
        self._after(lambda: self._keep(self._load_parts()))
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="kogniterm", title="KogniTerm", version=__version__),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(
                    image=True, audio=False, embedded_context=True
                ),
                mcp_capabilities=McpCapabilities(http=True, sse=False),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                ),
            ),
            auth_methods=self._auth_methods(asked),
        )

    def _auth_methods(
        self, client: ClientCapabilities
    ) -> list[TerminalAuthMethod | AuthMethodAgent | Any]:
        """Return how a model is set up: in a terminal, or not at all for the embedded one."""
        say, meta = self._words.say, client.field_meta or {}
        title = say(Phrase("Set up a model"))
        told = say(Phrase("Run kogniterm login in a terminal: choose a provider, enter its key."))
        embedded = AuthMethodAgent(
            id=LOCAL,
            name=say(Phrase("Embedded model")),
            description=say(Phrase("Needs no key; kogniterm models pull downloads it.")),
        )
        without_key = [embedded] if embedded_model() is not None else []
        in_terminal = (client.auth is not None and client.auth.terminal) or meta.get(
            "terminal-auth"
        )
        if not in_terminal:
            return [AuthMethodAgent(id=LOGIN, name=title, description=told), *without_key]
        # Some editors take the command from here, others put `args` behind the agent's program.
        program, *words = own_command("login")
        started = {"command": program, "args": words, "label": title}
        login = TerminalAuthMethod(
            type="terminal", id=LOGIN, name=title, description=told, args=["login"],
            field_meta={"terminal-auth": started},
        )  # fmt: skip
        return [login, *without_key]

    async def authenticate(self, method_id: str, **_meta: Any) -> AuthenticateResponse:
        """Check that a model can be used."""
        return await self._convert_errors(self._authenticate(method_id))

    async def _authenticate(self, method: str) -> AuthenticateResponse:
        if method not in (LOGIN, LOCAL):
            raise UsageError("Unknown authentication method: {name}.", name=one_line(method, 60))
        await self._load_parts()
        from kogniterm.runtime.opening import has_weights, model_options
        from kogniterm.runtime.operations.provider_login import needs_set_up

        settings = self._load_settings()
        if method == LOCAL and not has_weights(model_options(settings, self._paths, Path("/"))):
            raise ModelKeyMissingError(
                "The embedded model is not on this machine. Run `kogniterm models pull` in a "
                "terminal."
            )
        if needs_set_up(settings, self._paths):
            raise ModelKeyMissingError(
                "No model is set up. Run `kogniterm login` in a terminal, then try again."
            )
        return AuthenticateResponse()

    # --- sessions -------------------------------------------------------------------------------

    async def new_session(
        self,
        cwd: str,
        mcp_servers: Sequence[Named] = (),
        additional_directories: Sequence[str] | None = None,
        **_meta: Any,
    ) -> NewSessionResponse:
        """Open a session in a folder."""
        opened = await self._convert_errors(
            self._new(cwd, mcp_servers, additional_directories or ())
        )
        return NewSessionResponse(session_id=opened.live.id, **self._choices(opened))

    async def _new(self, cwd: str, named: Sequence[Named], more: Sequence[str]) -> EditorSession:
        opened, problems = await self._open(None, cwd, named, more)
        opened.greet(problems)
        return opened

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[Named] = (),
        additional_directories: Sequence[str] | None = None,
        **_meta: Any,
    ) -> LoadSessionResponse:
        """Open a session of before, and send its turns."""
        more = additional_directories or ()
        opening = self._reopen_session(session_id, cwd, mcp_servers, more, replay=True)
        return LoadSessionResponse(**self._choices(await self._convert_errors(opening)))

    async def resume_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[Named] | None = None,
        additional_directories: Sequence[str] | None = None,
        **_meta: Any,
    ) -> ResumeSessionResponse:
        """Open a session of before; the client has its turns."""
        more, named = additional_directories or (), mcp_servers or ()
        opening = self._reopen_session(session_id, cwd, named, more, replay=False)
        return ResumeSessionResponse(**self._choices(await self._convert_errors(opening)))

    def _choices(self, opened: EditorSession) -> dict[str, Any]:
        """Return what each answer with a session tells of its modes and options."""
        from kogniterm.addons.acp.config_options import config_options, mode_state

        say = self._words.say
        return {
            "modes": mode_state(opened.live, say),
            "config_options": config_options(opened.live, opened.listings, say),
        }

    async def _reopen_session(
        self,
        session_id: str,
        cwd: str,
        named: Sequence[Named],
        more: Sequence[str],
        *,
        replay: bool,
    ) -> EditorSession:
        opened = self._sessions.get(session_id)
        problems: tuple[Phrase, ...] = ()
        if opened is None:
            opened, problems = await self._open(session_id, cwd, named, more)
        elif opened.running:
            raise UsageError("A turn is running in this session; cancel it first.")
        else:
            _require_folder(session_id, opened.live.folder, _folder(cwd))
        if replay:
            opened.replay()
        opened.greet(problems, resumed=True)
        if replay:
            opened.outbox.release()  # the protocol wants all of it before the answer
            await opened.outbox.flush()
        return opened

    async def _open(
        self, session_id: str | None, cwd: str, named: Sequence[Named], more: Sequence[str]
    ) -> tuple[EditorSession, tuple[Phrase, ...]]:
        await self._load_parts()
        from kogniterm.addons.acp.editor_servers import read_servers
        from kogniterm.addons.acp.editor_session import EditorSession
        from kogniterm.runtime.build import open_session
        from kogniterm.runtime.opening import model_lists

        folder = _folder(cwd)
        settings = await asyncio.to_thread(self._load_settings)
        if session_id is not None:
            self._check(settings, session_id, folder)
        if session_id in self._sessions:  # by another request, while this one waited
            raise UsageError("This session is being opened.")
        servers, problems = read_servers(named)
        if more:
            problems += (
                Phrase("A session works in one folder; the editor's other folders are not used."),
            )
        live = open_session(settings, folder=folder, session_id=session_id, servers=servers)
        assert self._client is not None
        opened = EditorSession(live, self._client, self._words, forms=self._forms)
        opened.servers = tuple(one.name for one in servers)
        self._sessions[live.id] = opened
        lists = model_lists(settings, self._paths)
        opened.listings = tuple(lists.list_known(provider) for provider in lists.providers)
        self._after(opened.outbox.release)
        return opened, problems

    def _check(self, settings: Settings, session_id: str, folder: str) -> None:
        """Raise `UsageError` unless there is a session of this ID that works in the folder."""
        from kogniterm.runtime.opening import open_user_store

        store, _notices = open_user_store(settings, self._paths)
        try:
            info = store.info(session_id)
        finally:
            store.close()
        if info is None:
            raise UsageError("There is no session {id}.", id=one_line(session_id, 60))
        _require_folder(session_id, info.folder, folder)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_meta: Any
    ) -> ListSessionsResponse:
        """List the user's sessions, the most recently used first."""
        return await self._convert_errors(self._list_sessions(cwd, cursor))

    async def _list_sessions(self, cwd: str | None, cursor: str | None) -> ListSessionsResponse:
        from kogniterm.runtime.opening import open_user_store

        if cursor is not None and not (cursor.isascii() and cursor.isdecimal()):
            raise UsageError("The cursor does not belong to this list.")
        first = int(cursor or 0)
        store, _notices = open_user_store(self._load_settings(), self._paths)
        try:
            folder = _folder(cwd) if cwd is not None else None
            found = store.sessions(folder=folder, used=True, limit=first + _PAGE + 1)[first:]
        finally:
            store.close()
        sessions = [
            SessionInfo(
                session_id=info.id,
                cwd=info.folder,
                title=redact(one_line(info.title)) or None,
                updated_at=datetime.fromtimestamp(info.updated, UTC).isoformat(),
            )
            for info in found[:_PAGE]
        ]
        more = str(first + _PAGE) if len(found) > _PAGE else None
        return ListSessionsResponse(sessions=sessions, next_cursor=more)

    async def close_session(self, session_id: str, **_meta: Any) -> CloseSessionResponse:
        """Stop a session's turn and release it."""
        await self._convert_errors(self._close_session(session_id))
        return CloseSessionResponse()

    async def _close_session(self, session_id: str) -> None:
        opened = self._found(session_id)
        del self._sessions[session_id]
        await opened.close()

    # --- turns ----------------------------------------------------------------------------------

    async def prompt(
        self, prompt: Sequence[Block], session_id: str, **_meta: Any
    ) -> PromptResponse:
        """Run a turn."""
        return PromptResponse(
            stop_reason=await self._convert_errors(self._run_prompt(session_id, prompt))
        )

    async def _run_prompt(self, session_id: str, blocks: Sequence[Block]) -> Any:
        return await self._found(session_id).prompt(blocks)

    async def cancel(self, session_id: str, **_meta: Any) -> None:
        """Stop the turn of a session, if one runs."""
        opened = self._sessions.get(session_id)
        if opened is not None:
            opened.cancel()

    async def set_session_mode(
        self, mode_id: str, session_id: str, **_meta: Any
    ) -> SetSessionModeResponse:
        """Change the approval mode, from the next action on."""
        from kogniterm.addons.acp.config_options import MODE

        await self._convert_errors(self._change_option(session_id, MODE, mode_id))
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_meta: Any
    ) -> SetSessionConfigOptionResponse:
        """Change mode, model or effort."""
        from kogniterm.addons.acp.config_options import config_options

        opened = await self._convert_errors(self._change_option(session_id, config_id, str(value)))
        options = config_options(opened.live, opened.listings, self._words.say)
        return SetSessionConfigOptionResponse(config_options=options)

    async def _change_option(self, session_id: str, option: str, value: str) -> EditorSession:
        from kogniterm.addons.acp.config_options import use_option

        opened = self._found(session_id)
        use_option(opened.live, option, value)
        opened.send_options()
        return opened

    # --- shared ---------------------------------------------------------------------------------

    def _found(self, session_id: str) -> EditorSession:
        if session_id not in self._sessions:
            raise UsageError(
                "Session {id} is not open; create or load it first.", id=one_line(session_id, 60)
            )
        return self._sessions[session_id]

    async def _convert_errors(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` does; its errors become the protocol's, as one sentence."""
        try:
            return await work
        except KognitermError as error:
            code = _INTERNAL
            if isinstance(error, ModelKeyMissingError | ModelAuthError):
                code = _AUTH_REQUIRED
            elif isinstance(error, UsageError):
                code = _INVALID_PARAMS
            raise RequestError(code, redact(self._words.say(error.text))) from error
        except OSError as error:
            told = of_system(error)
            if told is None:
                raise
            raise RequestError(_INTERNAL, redact(self._words.say(told))) from error

    async def _load_parts(self) -> None:
        """Load what sessions need, once, beside the protocol."""
        if self._loading is None:
            from kogniterm.runtime.build import preload

            self._loading = asyncio.ensure_future(asyncio.to_thread(_load, preload))
        await asyncio.shield(self._loading)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    def _after(do: Callable[[], None]) -> None:
        """Do something once the request that is being answered has its answer."""
        asked = asyncio.current_task()
        if asked is None:
            do()
        else:
            asked.add_done_callback(lambda _done: do())

    async def close(self) -> None:
        """Stop every turn and release every session."""
        closing = [opened.close() for opened in self._sessions.values()]
        self._sessions.clear()
        for failure in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(failure, BaseException):
                log.error("a session could not be closed", exc_info=failure)
        if self._loading is not None:
            await asyncio.wait({self._loading})


def _load(preload: Callable[[], None]) -> None:
    """Import what a session needs; runs on a thread."""
    preload()
    import kogniterm.addons.acp.editor_session  # noqa: F401  # the import is the work


def _folder(cwd: str) -> str:
    """Return the folder of a session. Raises `UsageError` where it cannot be used."""
    path = Path(cwd)
    if "\0" in cwd or not path.is_absolute():
        raise UsageError("The folder of a session must be an absolute path.")
    if not path.is_dir():
        raise UsageError("The folder {folder} does not exist.", folder=cwd)
    return str(path)


def _require_folder(session_id: str, folder: str, asked: str) -> None:
    """Raise `UsageError` unless the client asked for the folder that the session works in."""
    if resolve_path(Path(folder)) != resolve_path(Path(asked)):
        raise UsageError(
            "Session {id} works in {folder}; open that folder to load it.",
            id=session_id,
            folder=folder,
        )
