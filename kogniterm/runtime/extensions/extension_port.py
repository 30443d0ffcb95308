"""The extensions of a session behind one port: the turn, the gate and the runner know nothing else.

Hooks, skills, MCP servers, sub-agents and add-ons are `Extension`s in a list. Each states the
moments at which it is called, and its right there; docs/architecture.md prints them. A replay has
only the recorded sub-agents.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any, ClassVar, Literal, NamedTuple

from kogniterm import prompts
from kogniterm.agent.graph_state import NamedAgent
from kogniterm.agent.subagent import DELEGATE
from kogniterm.errors import RefusedError
from kogniterm.paths import Paths
from kogniterm.protocols import EventSink
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import Attached, ToolEnd, TurnIO
from kogniterm.settings import Settings
from kogniterm.tools.plugins import Plugin
from kogniterm.types import (
    EXECUTE_COMMAND,
    ActionRequest,
    CommandResult,
    Phrase,
    RiskReport,
    RuleTrace,
    UserInput,
    events,
)

log = logging.getLogger(__name__)

Moment = Literal[
    "connect", "opened", "before_input", "offer_tools", "before_action", "after_action", "closed"
]
Right = Literal["watch", "add", "block"]
"""Each has those before it: to see, to tell the model more, to refuse."""
Choice = Literal["", "allow", "ask", "deny"]
OwnEffect = Literal["network", "external", "hosts"]
"""Those whose requests the core does not run by itself in a way of their own."""
MOMENTS: Mapping[Moment, str] = {
    "connect": "as a turn begins",
    "opened": "before the first turn",
    "before_input": "before an input is stored, and before a model is asked",
    "offer_tools": "before each model call",
    "before_action": "after policy; before a sub-agent and a compaction",
    "after_action": "before the outcome is recorded; at the end of an agent",
    "closed": "after the last turn",
}


class SessionBasis(NamedTuple):
    """The parts of a session that the extension of an add-on is made of.

    `opened` closes what was opened for the session.
    """

    settings: Settings
    paths: Paths
    environ: Mapping[str, str]
    journal: TurnJournal
    opened: ExitStack


class ActionFindings(NamedTuple):
    """The words of an extension on an action: the request as it is to be, a choice and its reasons.

    `by` is who decided. The model gets `note` with the result of the request.
    """

    request: ActionRequest
    choice: Choice = ""
    by: str = ""
    reasons: tuple[Phrase, ...] = ()
    note: str = ""

    @property
    def trace(self) -> RuleTrace:
        """Return the choice as verdicts record it."""
        return RuleTrace(f"hook {self.by}", self.choice or "ask", True, self.reasons[0])


class ActionNotes(NamedTuple):
    """The words of extensions after an action: a note to the model, and why the turn is to end.

    `cancelled` is whether the turn was stopped while they ran.
    """

    note: str = ""
    stop: Phrase | None = None
    cancelled: bool = False

    def conclude(self) -> None:
        """End the turn, if that is wanted, once the outcome is recorded."""
        if self.cancelled:
            raise asyncio.CancelledError
        if self.stop is not None:
            raise RefusedError(self.stop.template, **dict(self.stop.values))


class Extension:
    """An addition to a session; it does nothing at the moments that it does not state."""

    name: ClassVar[str]
    moments: ClassVar[Mapping[Moment, Right]]
    notices: tuple[Phrase, ...] = ()
    """Told to the user when the session opens."""
    catalogue_tool: ClassVar[str] = ""
    """The tool without which the catalogue is of no use to an agent; "" where there is none."""

    def connect(self, io: TurnIO) -> None:
        """Take the driver of a turn that begins: its user, and its sink, which it may wrap."""

    async def opened(self, sink: EventSink, *, resumed: bool) -> str:
        """Return what the model gets beside its first input."""
        return ""

    async def before_input(self, given: UserInput, io: TurnIO) -> Attached | Phrase:
        """Return what goes to the model beside an input, or why it is refused."""
        return Attached()

    def tools(self) -> Mapping[str, Plugin]:
        """Return further tools that can be called, by name."""
        return {}

    def unneeded(self) -> Collection[str]:
        """Return the names of tools that there is no use for."""
        return ()

    def why_without(self, tool: str) -> Phrase | None:
        """Return why a tool of it, which may have been offered before, cannot be called now."""
        return None

    @classmethod
    def switched_off(cls, settings: Settings) -> Mapping[str, Phrase]:
        """Return why tools of it are not offered, by name."""
        return {}

    def catalogue(self) -> str | None:
        """Return what the model is told of what there is; None for a model that cannot use it.

        Sub-agents get it too, where they have the tool `catalogue_tool`.
        """
        return None

    def withdrawal(self) -> str:
        """Return what the model is told when the catalogue is empty again."""
        return _withdrawal(self.name)

    def agents(self) -> Mapping[str, NamedAgent]:
        """Return the sub-agents that `delegate` and the user can call, by name."""
        return {}

    def news(self, sink: EventSink) -> Sequence[str]:
        """Return what the model has to know before its next call, each once."""
        return ()

    def concerns(self, moment: Moment, tool: str) -> bool:
        """Return whether it acts before or after the actions of a tool."""
        return False

    async def before_action(
        self, request: ActionRequest, sink: EventSink, *, changing: bool
    ) -> ActionFindings:
        """Return the request, perhaps changed, and a choice. Raises `RefusedError`.

        Without `changing` it was changed before, and stays as it is.
        """
        return ActionFindings(request)

    def asking(self, request: ActionRequest, sink: EventSink) -> None:
        """Learn that the user is asked about a request now."""

    async def before_compaction(self, trigger: str, sink: EventSink) -> Phrase | None:
        """Return why the history is not to be compacted, or None."""
        return None

    async def after_action(
        self, request: ActionRequest, end: CommandResult | str, sink: EventSink
    ) -> ActionNotes:
        """Return what the model and the turn learn of an action that ended."""
        return ActionNotes()

    async def before_end(self, agent: str, answer: str, sink: EventSink) -> str | None:
        """Return what an agent is told that must not end yet, or None."""
        return None

    async def closed(self, reason: str) -> Sequence[Phrase]:
        """Release what it holds; return what the user is told of it."""
        return ()


class ActingExtension(Extension, ABC):
    """An extension with a tool whose calls it judges, runs and recovers itself.

    They are action requests of its `tool` and `effect`, which other tools may have too: policy,
    question, intent and outcome are those of every action.
    """

    tool: ClassVar[str]
    effect: ClassVar[OwnEffect]

    @abstractmethod
    def assess(self, request: ActionRequest) -> RiskReport:
        """Return the facts about a request."""

    @abstractmethod
    async def act(self, request: ActionRequest, report: RiskReport, sink: EventSink) -> ToolEnd:
        """Run what was approved by this report, and whose intent is on disk; return its end.

        A turn that is stopped meanwhile gets an end that is `cancelled`.
        """

    async def recorded(self, request: ActionRequest) -> None:
        """Release what it holds of a request, whose outcome is on disk."""

    @abstractmethod
    async def recover(self, request: ActionRequest, sink: EventSink) -> ToolEnd:
        """Return the end of a request that a crash cut off; nothing is run again."""


class ExtensionPort:
    """Calls the extensions of a session, in their order and within their rights."""

    def __init__(self, extensions: Sequence[Extension] = ()) -> None:
        self.extensions = extensions
        self._is_open = False
        self._opening = asyncio.Lock()
        self._from_opening: list[str] = []
        self._beside_input: list[Attached] = []
        self._notes: dict[str, dict[str, list[str]]] = {}
        """Notes for the model that come with the result of a request, by extension."""

    def _at(self, moment: Moment, *rights: Right) -> Iterator[Extension]:
        for one in self.extensions:
            right = one.moments.get(moment)
            if right is not None and (not rights or right in rights):
                yield one

    # --- the session and its inputs -------------------------------------------------------------

    async def opened(self, sink: EventSink, *, resumed: bool) -> None:
        """Call the extensions before the first turn, once; a turn waits for them."""
        async with self._opening:
            if self._is_open:
                return
            self._is_open = True
            for one in self._at("opened"):
                if told := await one.opened(sink, resumed=resumed):
                    self._from_opening.append(told)

    async def before_input(self, given: UserInput, io: TurnIO) -> Phrase | None:
        """Ask those that may refuse an input; return why one does."""
        self._beside_input.clear()
        for one in self._at("before_input", "block"):
            said = await one.before_input(given, io)
            if isinstance(said, Phrase):
                return said
            self._beside_input.append(said)
        return None

    async def add_to_input(self, given: UserInput, io: TurnIO) -> None:
        """Collect what the others add to an input."""
        for one in self._at("before_input", "add"):
            said = await one.before_input(given, io)
            if not isinstance(said, Phrase):
                self._beside_input.append(said)

    def take_added(self) -> Attached:
        """Return, once, what goes to the model beside the next input."""
        added = self._beside_input
        texts = (*self._from_opening, *(one.text for one in added))
        self._from_opening, self._beside_input = [], []
        return Attached(
            "\n\n".join(filter(None, texts)),
            tuple(image for one in added for image in one.images),
            tuple(notice for one in added for notice in one.notices),
        )

    async def closed(self, reason: str) -> tuple[Phrase, ...]:
        """Call the extensions after the last turn; return what the user is told.

        Those that are called before the first turn hear of the end only where there was one.
        """
        told: list[Phrase] = []
        heard = [one for one in self._at("closed") if self._is_open or "opened" not in one.moments]

        async def close(one: Extension) -> None:
            told.extend(await one.closed(reason))

        async with AsyncExitStack() as closing:  # all of them, also where one fails
            for one in reversed(heard):
                closing.push_async_callback(close, one)
        return tuple(told)

    # --- tools ----------------------------------------------------------------------------------

    def tools(self) -> dict[str, Plugin]:
        """Return the tools that extensions bring; the first of a name counts."""
        found: dict[str, Plugin] = {}
        for one in self._at("offer_tools", "add"):
            found = {**one.tools(), **found}
        return found

    def catalogues(self, before: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return the catalogue of each extension, and its withdrawal.

        One of `before` whose extension is gone is empty; one that the model cannot use is left out.
        """
        found = {name: ("", _withdrawal(name)) for name in before}
        for one in self._at("offer_tools", "add"):
            found.pop(one.name, None)
            text = one.catalogue()
            if text is not None:
                found[one.name] = (text, one.withdrawal())
        return found

    def catalogued(self, tools: Collection[str]) -> list[str]:
        """Return the extensions whose catalogue is of use to an agent with these tools, by name."""
        offering = self._at("offer_tools", "add")
        return [one.name for one in offering if one.catalogue_tool in ("", *tools)]

    def agents(self) -> dict[str, NamedAgent]:
        """Return the sub-agents that can be called; the first of a name counts."""
        found: dict[str, NamedAgent] = {}
        for one in self._at("offer_tools", "add"):
            found = {**one.agents(), **found}
        return found

    def news(self, sink: EventSink) -> list[str]:
        """Return what the model has to know before its next call."""
        return [text for one in self._at("offer_tools", "add") for text in one.news(sink)]

    def holds_back(self, tool: str) -> bool:
        """Return whether a call of a tool without an effect has to leave the graph."""
        moments: tuple[Moment, ...] = ("before_action", "after_action")
        return any(one.concerns(moment, tool) for moment in moments for one in self._at(moment))

    def follows(self, request: ActionRequest) -> bool:
        """Return whether an extension acts after this request."""
        tool = EXECUTE_COMMAND if request.effect == "command" else request.tool
        return any(one.concerns("after_action", tool) for one in self._at("after_action"))

    # --- actions --------------------------------------------------------------------------------

    def acting_for(self, request: ActionRequest) -> ActingExtension | None:
        """Return the extension that judges, runs and recovers a request itself."""
        acting = (one for one in self.extensions if isinstance(one, ActingExtension))
        wanted = (request.tool, request.effect)
        return next((one for one in acting if (one.tool, one.effect) == wanted), None)

    async def before_action(self, request: ActionRequest, sink: EventSink) -> ActionFindings:
        """Return the request as extensions changed it, and the strictest of their choices.

        All of them hear a changed request once more: nothing that they say on the first one allows
        the other, and nothing is changed twice. Raises `RefusedError`.
        """
        found = await self._hear(request, sink)
        if found.request == request:
            return found
        again = await self._hear(found.request, sink, changing=False)
        stands = found.choice in ("deny", "ask") and not _is_stricter(again, found)
        return found if stands else again

    async def _hear(
        self, request: ActionRequest, sink: EventSink, *, changing: bool = True
    ) -> ActionFindings:
        found = ActionFindings(request)
        for one in self._at("before_action", "block"):
            said = await one.before_action(found.request, sink, changing=changing)
            now = said.request if changing else request
            if changing and said.note:
                self._note(request, one, said.note)
            found = (said if _is_stricter(said, found) else found)._replace(request=now)
            if found.choice == "deny":
                break
        return found

    def asking(self, request: ActionRequest, sink: EventSink) -> None:
        """Tell the extensions that the user is asked about a request now."""
        for one in self._at("before_action"):
            one.asking(request, sink)

    async def before_compaction(self, trigger: str, sink: EventSink) -> Phrase | None:
        """Return why an extension does not want the history compacted, or None."""
        for one in self._at("before_action", "block"):
            why = await one.before_compaction(trigger, sink)
            if why is not None:
                return why
        return None

    async def before_agent(
        self, call_id: str, arguments: Mapping[str, Any], sink: EventSink
    ) -> str | None:
        """Return why extensions do not let a sub-agent begin, or None.

        It begins inside the graph, where no user is asked and no input is changed: one that wants
        either refuses. Raises `RefusedError`.
        """
        request = ActionRequest(
            call_id, call_id, DELEGATE.name, "", arguments=arguments, effect="read"
        )
        said = await self.before_action(request, sink)
        self._notes.pop(call_id, None)
        if said.choice not in ("deny", "ask"):
            return None
        values: dict[str, object] = {"name": said.by}
        sink(events.Notice(Phrase("The hook {name} did not let a sub-agent begin.", values)))
        why = "; ".join(map(str, said.reasons))
        return prompts.text("hooks.no_agent", hook=said.by, why=why)

    async def after_action(
        self, request: ActionRequest, end: CommandResult | str, sink: EventSink
    ) -> ActionNotes:
        """Return what the model and the turn learn of an action, whatever happens meanwhile.

        Nothing that an extension does costs the outcome, which is recorded behind this.
        """
        stop: Phrase | None = None
        for one in self._at("after_action", "add", "block"):
            try:
                said = await one.after_action(request, end, sink)
            except asyncio.CancelledError:
                return ActionNotes(self.take_notes(request), stop, cancelled=True)
            except Exception:
                log.exception("an extension failed after an action")
                failed = Phrase("{name} failed after an action; see the log.", {"name": one.name})
                sink(events.Notice(failed, "warning"))
                continue
            if said.note:
                self._note(request, one, said.note)
            if one.moments["after_action"] == "block":
                stop = stop or said.stop
        return ActionNotes(self.take_notes(request), stop)

    def take_notes(self, request: ActionRequest) -> str:
        """Return, once, what the model is told with the result of a request."""
        told = self._notes.pop(request.id, {}).items()
        return "\n".join(line for name, notes in told for line in (f"[{name}:]", *notes))

    def _note(self, request: ActionRequest, extension: Extension, note: str) -> None:
        self._notes.setdefault(request.id, {}).setdefault(extension.name, []).append(note)

    async def before_end(self, agent: str, answer: str, sink: EventSink) -> str | None:
        """Return what an agent is told that must not end yet; None where it may."""
        for one in self._at("after_action", "block"):
            told = await one.before_end(agent, answer, sink)
            if told is not None:
                return told
        return None


def _withdrawal(name: str) -> str:
    return prompts.text("decide_action.catalogue_gone", extension=name)


def _is_stricter(one: ActionFindings, other: ActionFindings) -> bool:
    order = ("deny", "ask", "allow", "")
    return order.index(one.choice) < order.index(other.choice)
