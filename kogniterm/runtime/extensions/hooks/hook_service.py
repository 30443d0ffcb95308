"""The hooks of a session: which there are, and their runs at an event, side by side.

What they said is noted in the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kogniterm.errors import UsageError
from kogniterm.protocols import EventSink
from kogniterm.runtime.extensions.extension_port import Choice
from kogniterm.runtime.extensions.hooks.hook_files import EVENTS, GUARDS, Hook, HookEvent, HookSet
from kogniterm.sessions.history import notes
from kogniterm.sessions.journal import codec
from kogniterm.sessions.records import Noted, Record
from kogniterm.text.visible import with_texts
from kogniterm.types import Phrase, events

if TYPE_CHECKING:
    from kogniterm.runtime.extensions.hooks.hook_runs import HookAnswer, HookPlace

NOTED = "hook"
"""The kind of a note about what hooks said."""
SHOWN_AFTER = 1.0
"""Seconds after which a running hook is shown."""


class Quote(NamedTuple):
    """A hook's words for the model, and the name of the hook."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class HookFindings:
    """The answers of all hooks of one event together: deny beats ask beats allow.

    `name` is the hook that decided, `stop` why the turn is to end at once.
    """

    choice: Choice = ""
    name: str = ""
    reasons: tuple[Phrase, ...] = ()
    quotes: tuple[Quote, ...] = ()
    updated: Mapping[str, Any] = field(default_factory=dict)
    updated_by: str = ""
    stop: Phrase | None = None


@dataclass(frozen=True, slots=True)
class Occasion:
    """An event of a session: what it is about, and what hooks are told of it."""

    event: HookEvent
    subject: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    request_id: str = ""


class HookRunner(Protocol):
    """Runs the hooks of an event."""

    def concerns(self, event: HookEvent, subject: str = "") -> bool:
        """Return whether a hook runs at this event."""

    async def run(self, occasion: Occasion, sink: EventSink) -> HookFindings:
        """Run the hooks of an event and return what they said together."""


@dataclass(slots=True)
class HookService:
    """The hooks of an open session. `place` returns where they run now, `common` what all get.

    `own` are the user's, `project` those of a trusted folder. `off` are the events at which the
    user's do not run in this session.
    """

    own: HookSet
    project: HookSet
    place: Callable[[], HookPlace]
    common: Callable[[], Mapping[str, Any]]
    transcript: Callable[[], AbstractContextManager[str]]
    note: Callable[[Noted], object]
    redact: Callable[[str], str]
    enabled: bool = True
    off: set[HookEvent] = field(default_factory=set)

    @property
    def all(self) -> HookSet:
        """Return the hooks that are in force, the user's first."""
        if not self.enabled:
            return HookSet()
        own = tuple(hook for hook in self.own.hooks if hook.event not in self.off)
        return HookSet(own + self.project.hooks)

    @property
    def notices(self) -> tuple[Phrase, ...]:
        """Return what is left out of the files; nothing where hooks are switched off."""
        return (self.own + self.project).notices if self.enabled else ()

    def concerns(self, event: HookEvent, subject: str = "") -> bool:
        return bool(self.all.matching(event, subject))

    def switch_off(self, name: str) -> tuple[HookEvent, ...]:
        """Switch the user's hooks off for this session, of one event or "all" of them.

        Returns the events. Raises `UsageError` for an event at which none of the user's runs.
        """
        there = {hook.event for hook in self.own.hooks} - self.off
        wanted = {event for event in there if name in (event, "all")}
        if not wanted:
            known = ", ".join(event for event in EVENTS if event in there)
            if not known:
                raise UsageError("None of your own hooks is on.")
            raise UsageError(
                "You have no hooks for {event}; use one of: {known}, or all.",
                event=name,
                known=known,
            )
        self.off |= wanted
        return tuple(event for event in EVENTS if event in wanted)

    async def run(self, occasion: Occasion, sink: EventSink) -> HookFindings:
        hooks = self.all.matching(occasion.event, occasion.subject)
        if not hooks:
            return HookFindings()
        answers = await self.answers(hooks, occasion, sink)
        found = combine_answers(answers)
        self._note(occasion, answers, found)
        for answer in answers:
            name = answer.hook.name
            if answer.message:
                words = {"name": name, "words": answer.message}
                sink(events.Notice(Phrase("Hook {name}: {words}", words)))
            if answer.failure is not None and answer.hook.event not in GUARDS:
                failed = {"name": name, "why": answer.failure}
                sink(events.Notice(Phrase("The hook {name} failed: {why}.", failed), "warning"))
        return found

    async def answers(
        self, hooks: Sequence[Hook], occasion: Occasion, sink: EventSink
    ) -> tuple[HookAnswer, ...]:
        """Run hooks at the same time; a cancel ends all of them."""
        from kogniterm.runtime.extensions.hooks.hook_runs import run_hook

        place, loop = self.place(), asyncio.get_running_loop()

        async def run(hook: Hook) -> HookAnswer:
            waiting = Phrase("Waiting for the hook {name}…", {"name": hook.name})
            shown = loop.call_later(SHOWN_AFTER, sink, events.Notice(waiting))
            try:
                return await run_hook(hook, fields, place, redact=self.redact)
            finally:
                shown.cancel()

        with self.transcript() as transcript:
            fields = {
                **self.common(),
                "transcript_path": transcript,
                "cwd": place.cwd,
                "hook_event_name": occasion.event,
                **occasion.fields,
            }
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(run(hook)) for hook in hooks]
        return tuple(task.result() for task in running)

    def _note(self, occasion: Occasion, answers: Sequence[HookAnswer], found: HookFindings) -> None:
        ran = [
            {
                "event": answer.hook.event,
                "command": self.redact(answer.hook.command),
                "source": answer.hook.source,
                "result": answer.result,
                "seconds": round(answer.seconds, 3),
                "exit_code": answer.exit_code,
            }
            for answer in answers
        ]
        said = codec.to_plain(found)
        data = {
            "event": occasion.event,
            "subject": occasion.subject,
            "request_id": occasion.request_id,
            "said": said,
            "ran": ran,
        }
        self.note(Noted(NOTED, with_texts(data, self.redact)))


def combine_answers(answers: Iterable[HookAnswer]) -> HookFindings:
    """Return what answers mean together. What a project's hook allows does not count."""
    from kogniterm.runtime.extensions.hooks.hook_runs import refuses

    answers = tuple(answers)
    deny = [one for one in answers if refuses(one)]
    ask = [one for one in answers if one.choice == "ask"]
    allow = [one for one in answers if one.choice == "allow" and one.hook.own]
    choice: Choice = "deny" if deny else "ask" if ask else "allow" if allow else ""
    deciding = deny or ask or allow
    updating = next((one for one in answers if one.updated and not deny), None)
    stopping = next((one for one in answers if one.stop is not None), None)
    return HookFindings(
        choice,
        deciding[0].hook.name if deciding else "",
        tuple(_reason(one) for one in deciding),
        tuple(Quote(one.hook.name, one.context) for one in answers if one.context),
        updating.updated if updating else {},
        updating.hook.name if updating else "",
        _stop(stopping) if stopping else None,
    )


_FAILED_OWN = Phrase(
    "The hook {name} failed, so this was refused: {why}. Correct it, or switch it off with "
    "/hooks off {event} or --no-hooks."
)
_FAILED_PROJECT = Phrase(
    "The hook {name} failed, so this was refused: {why}. Correct it, or switch the project's hooks "
    "off with /trust revoke, or in a shell kogniterm trust --revoke."
)
_FAILED_PLUGIN = Phrase(
    "The hook {name} failed, so this was refused: {why}. Start with --no-hooks, or correct and "
    "trust the plugin again or remove it, and open a new session: {folder}"
)
_SAID: Mapping[Choice, tuple[Phrase, Phrase]] = {
    "deny": (
        Phrase("The hook {name} refused this: {words}"), Phrase("The hook {name} refused this."),
    ),
    "ask": (
        Phrase("The hook {name} wants you to decide: {words}"),
        Phrase("The hook {name} wants you to decide."),
    ),
    "allow": (
        Phrase("The hook {name} allows this: {words}"), Phrase("The hook {name} allows this."),
    ),
}  # fmt: skip


def _reason(answer: HookAnswer) -> Phrase:
    hook = answer.hook
    if answer.failure is not None:
        failed = _FAILED_OWN if hook.own else _FAILED_PLUGIN if hook.root else _FAILED_PROJECT
        values: dict[str, object] = {"name": hook.name, "why": answer.failure}
        return Phrase(failed.template, {**values, "event": hook.event, "folder": hook.root})
    given, without = _SAID[answer.choice]
    if not answer.reason:
        return Phrase(without.template, {"name": hook.name})
    return Phrase(given.template, {"name": hook.name, "words": answer.reason})


def _stop(answer: HookAnswer) -> Phrase:
    if not answer.stop:
        return Phrase("The hook {name} stopped the turn.", {"name": answer.hook.name})
    values = {"name": answer.hook.name, "words": answer.stop}
    return Phrase("The hook {name} stopped the turn: {words}", values)


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run of a hook as the journal has it."""

    event: str
    command: str
    source: str
    result: str
    seconds: float


def past_runs(records: Iterable[Record]) -> list[PastRun]:
    """Return the runs of hooks in a session, in order."""
    ran = (one for note in notes(records, NOTED) for one in note.data.get("ran", ()))
    return [codec.from_fields(PastRun, one) for one in ran]
