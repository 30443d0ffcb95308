"""Run tasks for other agents: each is a turn of a session of its own, as in `kogniterm run`.

What a user would be asked goes to the client as a form, with everything the question at the
terminal shows in words. A client without forms gets the answers of a run without a user.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm import prompts
from kogniterm.addons.mcp_serve.serving import (
    RECALL,
    RUN_TASK,
    SEARCH_SESSIONS,
    Done,
    Form,
    ToolText,
    serve_stdio,
)
from kogniterm.approval import Unattended
from kogniterm.errors import UsageError
from kogniterm.host.identity import account_name
from kogniterm.host.safe_files import resolve_path
from kogniterm.runtime.opening import open_user_store
from kogniterm.runtime.questions.approval_facts import Say
from kogniterm.runtime.questions.client_questions import (
    action_text,
    approving_word,
    asked_text,
    plan_text,
)
from kogniterm.runtime.session_approver import Approval, Asked, SessionApprover
from kogniterm.storage.folders import expand_path
from kogniterm.text.redact import redact
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.types import (
    Answer,
    Decision,
    Phrase,
    Plan,
    PlanReview,
    UserInput,
    events,
)

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.protocols import Approver
    from kogniterm.runtime.session import LiveSession
    from kogniterm.runtime.turn_ports import Question
    from kogniterm.settings import Settings

log = logging.getLogger(__name__)

_MOST_HITS = 200
"""Turns that are looked at; those of other folders are left out."""


async def serve(
    settings: Settings,
    paths: Paths,
    roots: Sequence[Path],
    say: Say,
    open_session: Callable[..., LiveSession],
) -> None:
    """Serve on standard input and output until the client leaves. `roots`: resolved folders."""
    await serve_stdio(_Server(settings, paths, tuple(roots), say, open_session), _texts())


def _texts() -> Mapping[str, ToolText]:
    """Return the descriptions of the tools from prompts/served.md."""
    named_texts = {
        RUN_TASK: ("task", "folder"),
        SEARCH_SESSIONS: ("query", "limit"),
        RECALL: ("query", "limit"),
    }
    return {
        name: (
            prompts.text(f"served.{name}"),
            {one: prompts.text(f"served.{name}_{one}") for one in arguments},
        )
        for name, arguments in named_texts.items()
    }


class _Server:
    def __init__(
        self,
        settings: Settings,
        paths: Paths,
        roots: tuple[Path, ...],
        say: Say,
        open_session: Callable[..., LiveSession],
    ) -> None:
        self.settings = settings
        self.paths = paths
        self.roots = roots
        self.say = say
        self.open_session = open_session

    async def run_task(self, task: str, folder: str, *, asks: bool) -> _Task:
        """Begin `task`. Raises `KognitermError`."""
        workspace = self._folder(folder)
        session = self.open_session(self.settings, folder=str(workspace))
        given = UserInput(task, source="run", foreign=((0, len(task)),))
        return _Task(session, given, self.say, asks=asks)

    async def search_sessions(self, query: str, limit: int) -> Done:
        """Return the turns in sessions of the served folders."""
        store, _notices = open_user_store(self.settings, self.paths)
        try:
            hits = store.search(query, limit=_MOST_HITS)
        finally:
            store.close()
        shown = [
            {
                "session": hit.session_id,
                "turn": hit.turn,
                "title": redact(info.title),
                "folder": info.folder,
                "excerpt": redact(hit.excerpt),
            }
            for info, hit in hits
            if self._is_served(Path(info.folder))
        ][:limit]
        lines = [f"{one['session']} turn {one['turn']}: {one['excerpt']}" for one in shown]
        return Done({"found": shown}, "\n".join(lines) or self.say(Phrase("Nothing was found.")))

    async def recall(self, query: str, limit: int) -> Done:
        """Return the memories for the first served folder."""
        if self.settings.memory == "off":
            raise UsageError("Memory is off in this server.")
        from kogniterm.memory import open_memory
        from kogniterm.memory.project import project_root

        url = self.settings.database_url
        with open_memory(
            url.get_secret_value() if url is not None else self.paths.database,
            user=account_name(),
            project=str(project_root(self.roots[0])),
            redact=redact,
            key_file=self.paths.data / "memory-key",
            heads=self.paths.data,
        ) as memory:
            hits = memory.search(query, limit)
        shown = [{"id": hit.label, "text": redact(hit.text)} for hit in hits]
        lines = [f"{one['id']}: {one['text']}" for one in shown]
        return Done({"found": shown}, "\n".join(lines) or self.say(Phrase("Nothing was found.")))

    def _folder(self, name: str) -> Path:
        """Return the folder of a task, which the user let this server work in."""
        try:
            found = resolve_path(expand_path(self.roots[0], name)) if name else self.roots[0]
        except (OSError, ValueError):
            found = Path()
        if not self._is_served(found):
            raise UsageError(
                "{folder} is not in a folder that this server was started for ({roots}).",
                folder=one_line(name),
                roots=", ".join(map(str, self.roots)),
            )
        if not found.is_dir():
            raise UsageError("{folder} is not a folder.", folder=found)
        return found

    def _is_served(self, folder: Path) -> bool:
        return any(folder.is_relative_to(root) for root in self.roots)


class _Task(events.EventVisitor):
    """One turn at work, and the queue of what its client gets."""

    def __init__(self, session: LiveSession, given: UserInput, say: Say, *, asks: bool) -> None:
        self._session = session
        self._say = say
        self._found: asyncio.Queue[Form | Done | str] = asyncio.Queue()
        self._answer: asyncio.Future[Mapping[str, Any] | None] | None = None
        self._commands: list[dict[str, object]] = []
        approver: Approver = _FormApprover(self._ask, say, session) if asks else Unattended()
        for notice in session.notices:
            self._tell(say(notice))
        running = session.run(
            given,
            approver=approver,
            sink=self,
            ask=self._question if asks else None,
        )
        self._turn = asyncio.ensure_future(running)
        self._end = asyncio.ensure_future(self._finish())

    async def next(self) -> Form | Done | str:
        """Return what comes next."""
        return await self._found.get()

    def answer(self, values: Mapping[str, Any] | None) -> None:
        """Answer the last form."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(values)

    async def stop(self) -> None:
        """Stop the turn; the session is closed when this returns."""
        self._turn.cancel()
        await asyncio.shield(self._end)

    async def _finish(self) -> None:
        """Wait for the end of the turn, whatever it is, and release the session."""
        session, failure = self._session, None
        answer = Answer("", "interrupted", 130)
        try:
            with suppress(asyncio.CancelledError):
                await asyncio.wait({self._turn})
                failure = self._turn.exception()
                if failure is None:
                    answer = self._turn.result()
            await asyncio.to_thread(session.end_jobs)
            await session.finish()
        finally:
            session.close()
        if failure is not None:
            log.error("a task of an MCP client failed", exc_info=failure)
            text = redact(str(failure) or type(failure).__name__)
            self._found.put_nowait(Done({"stop": "failed", "error": text}, text, failed=True))
            return
        self._found.put_nowait(self._done(answer))

    def _done(self, answer: Answer) -> Done:
        reason = self._say(answer.reason) if answer.reason is not None else ""
        text = redact(clean(answer.text))
        data = {
            "session": self._session.id,
            "folder": self._session.folder,
            "answer": text,
            "stop": answer.stop,
            "exit_code": answer.exit_code,
            "reason": redact(reason),
            "refused_by": answer.refused_by,
            "verified": list(answer.verified),
            "not_verified": list(answer.not_verified),
            "commands": self._commands,
        }
        shown = "\n\n".join(part for part in (text, redact(reason)) if part) or answer.stop
        return Done(data, shown, failed=answer.stop != "done")

    def on_command_started(self, event: events.CommandStarted) -> None:
        self._tell(f"$ {event.command}")

    def on_command_ended(self, event: events.CommandEnded) -> None:
        shown = clean(event.result.command)
        self._commands.append({"command": shown, "exit_code": event.result.exit_code})

    def on_tool_ran(self, event: events.ToolRan) -> None:
        self._tell(event.name)

    def on_plan_changed(self, event: events.PlanChanged) -> None:
        open_steps = [one for one in event.plan.walk() if one.open]
        self._tell(open_steps[0].what if open_steps else event.plan.goal)

    def on_notice(self, event: events.Notice) -> None:
        self._tell(self._say(event.text))

    def _tell(self, text: str) -> None:
        self._found.put_nowait(one_line(redact(text)))

    async def _ask(self, form: Form) -> Mapping[str, Any] | None:
        self._answer = asyncio.get_running_loop().create_future()
        self._found.put_nowait(form)
        return await self._answer

    async def _question(self, question: Question, answers: Sequence[str | Phrase]) -> str | None:
        """Ask a question of the model, or one of KogniTerm."""
        asked = asked_text(question, answers, self._say)
        text = "\n".join([asked.text, *(f"- {shown}" for shown in asked.answers)])
        values = await self._ask(Form(text, {"answer": {"type": "string"}}, ("answer",)))
        return asked.meant(str(values.get("answer", "")) if values is not None else None)


class _FormApprover(SessionApprover):
    """Asks the client about each action that policy neither allows nor denies."""

    def __init__(self, ask: Callable[[Form], Any], say: Say, session: LiveSession) -> None:
        super().__init__(session)
        self.ask = ask
        self.say = say

    async def ask_about(self, asked: Asked) -> Approval:
        """Ask about the whole command, why it is asked about, and where it would run."""
        command, dangerous = asked.facts.request.command, asked.facts.dangerous
        text = action_text(self.mask_facts(asked.facts), asked.cwd, self.say)
        word = approving_word(asked.facts.request) if dangerous else ""
        values = await self.ask(_approval(text, self.say, word=word)) or {}
        if values.get("decision") == (word or "approve"):
            return Approval(Decision("approve", command, events.BY_PROGRAM))
        reason = one_line(str(values.get("reason", "")), 500)
        return Approval(Decision("reject", command, events.BY_PROGRAM, reason))

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Ask whether the plan may start."""
        del previous
        values = await self.ask(_approval(plan_text(plan, self.say), self.say))
        approved = values is not None and values.get("decision") == "approve"
        reason = one_line(str((values or {}).get("reason", "")), 500)
        return PlanReview("approve" if approved else "reject", plan, events.BY_PROGRAM, reason)


def _approval(message: str, say: Say, *, word: str = "") -> Form:
    """Return the form of an approval; a dangerous command needs a typed `word`."""
    if word:
        told = say(Phrase("Dangerous. Type {word} to approve.", {"word": word}))
        decision: dict[str, Any] = {"type": "string", "description": told}
    else:
        decision = {"type": "string", "enum": ["approve", "reject"]}
    why = say(Phrase("Reason for a rejection"))
    reason = {"type": "string", "description": why}
    return Form(message, {"decision": decision, "reason": reason}, ("decision",))
