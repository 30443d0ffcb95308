"""Memory in a session: recalled for an input, learned from a finished turn in the background."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from kogniterm.errors import KognitermError
from kogniterm.installed import rows
from kogniterm.memory.extract import MOST_TURNS, Pause
from kogniterm.memory.fact_records import Message, Preference
from kogniterm.memory.preference_statements import without_preferences
from kogniterm.memory.preferences import value_text
from kogniterm.memory.project import ProjectScanner
from kogniterm.memory.short_term import Mention, named_in
from kogniterm.memory.statements import hide
from kogniterm.protocols import Model
from kogniterm.runtime.services.command_repairs import repairs
from kogniterm.sessions.fold import usage_note
from kogniterm.sessions.history import SessionHistory
from kogniterm.sessions.journal.journal import SessionJournal
from kogniterm.sessions.records import Record
from kogniterm.text.matching import Matcher
from kogniterm.text.shorten import cut
from kogniterm.types import (
    EXECUTE_COMMAND,
    CommandResult,
    Phrase,
    PlanStep,
    Usage,
    UserInput,
)

if TYPE_CHECKING:
    from kogniterm.memory import Fact
    from kogniterm.memory.contexts import SessionContext

log = logging.getLogger(__name__)
Announcement = Literal["asked", "told"]
"""The ways to announce a fact that waits: asked about at the prompt, told after `kogniterm run`."""

BEFORE = 40
"""Records before the last one read that are shown again, as context for new ones."""

BEFORE_REPAIR = 300
"""Records before a turn in which the failure may be that its commands made good."""

IDLE_SECONDS = 300.0
"""Seconds after a turn until its words are read, although they do not fill a request yet."""


class RequestOffer(NamedTuple):
    """A request that came often enough, and whether something was done for it."""

    request: str
    times: int
    acted: bool


class MemoryService:
    """Recalls and learns for a session. Failures are logged: memory must not stop a turn.

    `project` scans the workspace. `keep_example` takes approved commands, unless none are
    kept. `seen` is the number of the last record that was learned from. Without `real_commands`,
    commands are answered from a file, and how they end teaches nothing. `others` returns records
    of another session, from a number on, None while another process has it open.
    """

    def __init__(
        self,
        context: SessionContext,
        journal: SessionJournal,
        project: ProjectScanner,
        others: Callable[[str, int], list[Record] | None],
        keep_example: Callable[[str, str], object] | None = None,
        idle_seconds: float = IDLE_SECONDS,
        real_commands: bool = True,
    ) -> None:
        self.context = context
        self.journal = journal
        self.project = project
        self.others = others
        self.keep_example = keep_example
        self.task = ""
        self.idle_seconds = idle_seconds
        self.real_commands = real_commands
        self._learning: set[asyncio.Task[object]] = set()
        self._saved: list[Fact] = []
        self._offer: RequestOffer | None = None
        self._one_at_a_time = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        state = journal.state
        self.seen = state.seq
        if state.open_turn:  # it is learned from as a whole, once it ends
            history = SessionHistory(journal.records(max(1, state.seq - BEFORE_REPAIR)))
            self.seen = history.turns[-1].seq - 1 if history.turns else state.seq

    def use_model(self, model: Model) -> None:
        """Let the session's model, and no other, read the conversation for facts.

        A model that only writes commands cannot; explicit requests work without one.
        """
        can = model.info.finds_facts and not model.info.one_command
        self.context.read_with(model if can else None)

    def recall(self, user_input: UserInput) -> str:
        """Return what memory adds to this input, as a delimited block; may be empty."""
        self.task = user_input.typed
        self._stop_reading()
        trusted = self.project.folder if self.project.trusted() else None
        self.project.look()
        try:
            folder = str(trusted) if trusted else None
            return self.context.begin_turn(_own(user_input), folder).text
        except KognitermError:
            log.exception("nothing could be recalled")
            return ""

    def preload(self) -> None:
        """Load what the first recall needs; a failure is left to that. Called on a thread."""
        with contextlib.suppress(KognitermError):
            self.context.preload()

    def to_confirm(self, how: Announcement) -> list[Fact]:
        """Return the facts that wait for the user's confirmation, and were not announced yet."""
        memory = self.context.memory
        return memory.repository.find_unannounced(how) if self.context.mode == "full" else []

    def announce(self, fact: Fact, how: Announcement) -> None:
        """Note that the user was told of a fact that waits; it is told once in each way."""
        memory = self.context.memory
        memory.repository.change(fact, how, now=memory.clock.now())

    def saved_lines(self) -> list[Phrase]:
        """Return a line for each fact of the user's own words that was saved; each once."""
        saved, self._saved = self._saved, []
        get = self.context.memory.repository.get
        return [
            Phrase("Saved to memory as {id}: “{text}”", {"id": one.label, "text": one.text})
            for one in filter(None, (get(fact.id) for fact in saved))
            if one.source == "explicit" and one.status == "active"
        ]

    def waiting_lines(self) -> list[Phrase]:
        """Return lines for a user who is not at the prompt: what was saved, and what waits.

        Each is told once. They name the command that decides: nothing is confirmed here.
        """
        lines: list[Phrase] = []
        with self._quietly("the facts that were saved or wait could not be read"):
            lines += self.saved_lines()
            waiting = self.to_confirm("told")
            for fact in waiting:
                self.announce(fact, "told")
            if len(waiting) == 1:
                phrase = Phrase(
                    "Waiting for confirmation: “{text}”. To keep it, run: kogniterm memory "
                    "confirm {id}",
                    {"id": waiting[0].label, "text": waiting[0].text},
                )
                lines.append(phrase)
            elif waiting:
                phrase = Phrase(
                    "{count} facts wait for confirmation. To see them, run: kogniterm memory list",
                    {"count": len(waiting)},
                )
                lines.append(phrase)
        return lines

    def decide(self, fact: Fact, *, confirmed: bool) -> None:
        """Confirm or drop a fact that waits, unless it was decided or deleted meanwhile."""
        memory = self.context.memory
        current = memory.repository.get(fact.id)
        if current is None or current.status != "pending":
            return
        if confirmed:
            memory.updater.confirm(current)
        else:
            memory.updater.drop(current)

    def set_preferences(self, user_input: UserInput) -> tuple[Phrase, ...]:
        """Set the preferences that this input states; return what the user is told about it."""
        if user_input.source == "shell":
            return ()
        try:
            changed = self.context.prefer(_own(user_input))
        except KognitermError:
            log.exception("a preference could not be kept")
            return ()
        in_shell = user_input.source == "run"
        return tuple(_set(new, old, in_shell=in_shell) for new, old in changed)

    def only_prefers(self, user_input: UserInput) -> bool:
        """Return whether this input states preferences and nothing else."""
        if user_input.source == "shell" or user_input.data is not None or user_input.attachments:
            return False
        return self.context.mode == "full" and not without_preferences(_own(user_input))

    def preferences(self) -> Mapping[str, str]:
        """Return the user's preferences as they hold here, in words; none if unreadable."""
        held: Mapping[str, object] = {}
        with self._quietly("the preferences could not be read"):
            held = self.context.for_modules().preferences()
        return {
            key: " ".join(value.split()) if isinstance(value, str) else json.dumps(value)
            for key, value in held.items()
        }

    def why_not_kept(self, user_input: UserInput) -> Phrase | None:
        """Return why what this input asks to remember is not kept, or None."""
        if user_input.source == "shell":
            return None
        return self.context.why_not_kept(_own(user_input))

    def forgot(self, terms: Sequence[str]) -> None:
        """Drop everything that holds one of the terms, which were forgotten just now."""
        self._stop_reading()
        matcher = Matcher(terms)
        if matcher.holds(self.task):
            self.task = ""
        if self._offer is not None and matcher.holds(self._offer.request):
            self._offer = None
        self.context.forgot(terms)

    def turn_ended(self, answer: str, *, at_prompt: bool) -> None:
        """Learn from the turn by rule; `at_prompt`, a model then reads in the background."""
        first, self.seen = self.seen + 1, self.journal.state.seq
        before = list(self.journal.records(max(1, first - BEFORE_REPAIR)))
        records = [record for record in before if record.seq >= first]
        history = SessionHistory(records)
        self._keep_outcomes(history)
        self._keep_plan(plan_lesson(history))
        self._keep_repairs(before, first)
        self.context.named(named_in_turn(history))
        self._keep_example(approved_command(history))
        with self._quietly("what was said could not be kept"):
            said = _said(self._records(self.context.cursor))
            kept = self.context.end_turn(answer, said, first - 1)
            self._saved += [one.fact for one in kept.changes if one.fact] if kept else []
        if at_prompt:
            self._count_request(history)
            self.read()
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(self.idle_seconds, self.read, "idle")

    def _count_request(self, history: SessionHistory) -> None:
        """Count what the user asked for, if it was done; what came often enough is offered."""
        requests, turns = self.context.requests, history.all_turns
        turn = turns[-1] if turns else None
        if requests is None or turn is None or turn.end is None or turn.end.stop != "done":
            return
        given = turn.input
        if given.source != "repl" or given.foreign or given.data or given.attachments:
            return
        with self._quietly("the request could not be counted"):
            now = self.context.memory.clock.now()
            times = requests.count(given.typed, self.context.session_id, now)
            acted = any(one.succeeded for one in turn.ended)
            # A recipe is saved from the last plan: one of another request would be offered.
            saved = bool(turn.plans) or self.journal.state.plan is None
            saved = saved and any(verb == "recipe" for _group, verb, *_ in rows("VERBS"))
            if times and (saved or not acted):
                self._offer = RequestOffer(given.typed, times, acted)

    def offered_line(self) -> Phrase | None:
        """Return the way to what a repeated request gave, told once; None if there is none."""
        offer, self._offer = self._offer, None
        requests = self.context.requests
        if offer is None or requests is None or not requests.offer(offer.request):
            return None
        values = {"times": offer.times, "session": self.context.session_id}
        if offer.acted:
            return Phrase(
                "You have asked for this {times} times. To repeat it without the model, save it "
                "as a recipe: kogniterm recipe save NAME --session {session}",
                values,
            )
        return Phrase(
            "You have asked this {times} times. To read the answer again without the model: "
            "kogniterm sessions show {session}",
            values,
        )

    def read(self, pause: Pause | None = None) -> None:
        """Let the model read for facts, in the background, until the next input or the end.

        At a `pause` it also reads what other sessions of the project left.
        """
        task = asyncio.ensure_future(self._learn(pause))
        self._learning.add(task)
        task.add_done_callback(self._learning.discard)

    def _stop_reading(self) -> None:
        """Read no more: what was not read waits for the next pause."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        for task in self._learning:
            task.cancel()

    def _keep_outcomes(self, history: SessionHistory) -> None:
        """Keep how commands ended, good or bad, as lessons for similar tasks."""
        learnings = self.context.learnings
        if learnings is None or not self.real_commands:
            return
        with self._quietly("the outcomes could not be kept"), learnings.together():
            for task, result in commands_ended(history):
                learnings.record(
                    task,
                    result.command,
                    ok=result.exit_code == 0,
                    exit_code=result.exit_code,
                    seconds=result.duration,
                    note="" if result.exit_code == 0 else result.text.strip()[-300:],
                    session_id=self.context.session_id,
                )

    def _keep_plan(self, lesson: PlanLesson | None) -> None:
        learnings = self.context.learnings
        if lesson is None or learnings is None:
            return
        with self._quietly("the outcome of the plan could not be kept"):
            learnings.record_plan(
                self.task or lesson.goal,
                lesson.steps,
                ok=lesson.ok,
                note=lesson.note,
                session_id=self.context.session_id,
            )

    def _keep_repairs(self, records: Iterable[Record], first: int) -> None:
        """Keep what worked from record `first` on in place of commands that failed."""
        learnings = self.context.learnings
        if learnings is None:
            return
        with self._quietly("what worked instead of a command could not be kept"):
            said = self.journal.state.conversation(records)
            for one in repairs(said, after=first - 1):
                learnings.record_repair(
                    one.task or self.task,
                    one.failed,
                    one.worked,
                    exit_code=one.exit_code,
                    output=one.output,
                    fix=one.fix,
                    session_id=self.context.session_id,
                )

    def _keep_example(self, example: tuple[str, str] | None) -> None:
        """Keep an example for the local model. The journal it comes from is redacted."""
        if self.keep_example is None or example is None:
            return
        try:
            self.keep_example(*example)
        except OSError:
            log.exception("an example could not be kept")

    async def finish(self) -> None:
        """Stop reading; what was not read waits for a later session of the project."""
        self._stop_reading()
        await asyncio.gather(*self._learning, return_exceptions=True)

    def close(self) -> None:
        """Stop what runs in the background, and release the database."""
        self._stop_reading()
        self.project.close()
        self.context.memory.close()

    async def _learn(self, pause: Pause | None) -> None:
        """Learn, one after the other: what two read at once they would store twice."""
        turn, left = self.journal.state.turn, MOST_TURNS
        with self._quietly("nothing could be learned"):
            async with self._one_at_a_time:
                for notes in self.context.unread():
                    own = notes.session_id == self.context.session_id
                    records = self._records(notes.cursor) if own else None
                    if not own and pause:
                        first = max(1, notes.cursor - BEFORE)
                        records = self.others(notes.session_id, first)
                    if records is None:
                        continue
                    said = [one for one in _said(records) if one.seq <= notes.ended]
                    turns = [m.seq for m in said if m.role == "person" and m.seq > notes.cursor]
                    if not own and len(turns) > left:
                        self.context.pass_over(notes, turns[-left] - 1 if left else notes.ended)
                    left -= 0 if own else min(left, len(turns))
                    # The open session goes on, the others have ended.
                    when: Pause | None = "idle" if own and pause else pause
                    read = await self.context.read(notes.session_id, said, pause=when)
                    if read is not None and read.usage != Usage():
                        self.journal.append(usage_note(read.usage, read.model, turn))

    def _records(self, cursor: int) -> list[Record]:
        """Return what was said in the conversation since `cursor`, with some before it."""
        records = self.journal.records(max(1, cursor - BEFORE), kinds=("input", "turn_ended"))
        return list(self.journal.state.conversation(records))

    @contextlib.contextmanager
    def _quietly(self, what: str) -> Iterator[None]:
        try:
            yield
        except KognitermError:
            log.exception(what)


def _said(records: Iterable[Record]) -> list[Message]:
    """Return what was said in a conversation, with the user's own words marked."""
    said: list[Message] = []
    for turn in SessionHistory(records).all_turns:
        if turn.seq and turn.input.source != "shell":
            said.append(Message(turn.seq, "person", _own(turn.input), turn.time))
        if turn.end is not None and turn.end.answer:
            said.append(Message(turn.end.seq, "model", turn.end.answer, turn.end.time))
    return said


def _own(given: UserInput) -> str:
    """Return what the user typed, with the stretches hidden that somebody else may have written."""
    return hide(given.typed, given.foreign)


def named_in_turn(history: SessionHistory) -> list[Mention]:
    """Return what a turn named: in the user's words, and in the commands and edits that ran."""
    found: list[Mention] = []
    for turn in history.all_turns:
        if turn.input.source != "shell":
            found += named_in(turn.input.typed, request=True)
        for action in turn.ended:
            if action.result is not None and action.status == "finished":
                found += named_in(action.result.command)
            elif action.request and action.effect == "edit" and action.status == "finished":
                path = str(action.request.arguments.get("path", ""))
                found += [Mention("file", path)] if path else []
    return found


def preference_of(memory: MemoryService | None, name: str) -> object:
    """Return the value of a preference as it holds in a session, None where it is not set."""
    try:
        held = memory.context.for_modules().preferences() if memory is not None else {}
    except KognitermError:
        log.exception("preferences could not be read")
        return None
    return held.get(name)


def _set(new: Preference, old: Preference | None, *, in_shell: bool) -> Phrase:
    """Return the notice that a preference was set, with the command that undoes it."""
    before = value_text(old.value) if old is not None else ""
    if in_shell:
        words = ["kogniterm", "memory", "prefer", new.key, before or "--remove"]
        undo = shlex.join([*words, "--here"] if new.project else words)
    else:
        change = f"set {new.key} {before}" if old is not None else f"remove {new.key}"
        undo = f"/preferences {change}{' --project' if new.project else ''}"
    values = {"name": new.key, "value": value_text(new.value), "undo": undo}
    if new.project:
        return Phrase("Preference set for this project: {name} = {value}. Undo: {undo}", values)
    return Phrase("Preference set: {name} = {value}. Undo: {undo}", values)


def commands_ended(history: SessionHistory) -> Iterator[tuple[str, CommandResult]]:
    """Yield the model's commands that ended by themselves, each with the input it ran for."""
    for turn in history.all_turns:
        for action in turn.ended:
            result = action.result
            if action.request is None or action.effect != "command" or result is None:
                continue
            if result.ended in ("exited", "signaled"):
                yield turn.input.typed, result


def approved_command(history: SessionHistory) -> tuple[str, str] | None:
    """Return (request, command) of a turn that ran exactly one command, which the user approved.

    With several commands it is open which one fulfilled the request, and a sub-agent's was for
    another task. Commands with a secret are left out, because they hold a placeholder.
    """
    given = history.open_turn.input
    actions = [action for turn in history.all_turns for action in turn.actions.values()]
    asked = [one.request for one in actions if one.request and one.effect != "person"]
    ended = [action for action in actions if action.outcome is not None]
    if any(one.tool != EXECUTE_COMMAND or one.agent for one in asked) or len(ended) != 1:
        return None
    decision, result = ended[0].decision, ended[0].result
    if not given.text or given.data is not None or given.attachments:
        return None
    if decision is None or decision.by != "person" or "[secret:" in given.text + decision.command:
        return None
    good = ended[0].status == "finished" and result is not None and result.exit_code == 0
    return (given.text, decision.command) if good else None


SHORT = 60
ENDED = ("done", "failed", "skipped")
UNTOLD = ("interrupted", "plan_only", "refused")
"""Ends of a turn that teach nothing about the plan."""


class PlanLesson(NamedTuple):
    """A plan as it ended: `steps` in one line, whether all were done, and what went wrong."""

    goal: str
    steps: str
    ok: bool
    note: str


def plan_lesson(history: SessionHistory) -> PlanLesson | None:
    """Return the lesson of the plan in a turn, or None."""
    plans = [plan for turn in history.all_turns for _seq, plan in turn.plans]
    end = history.open_turn.end
    stop = end.stop if end is not None else ""
    if not plans or stop in UNTOLD or not any(s.status in ENDED for s in plans[-1].steps):
        return None
    last = plans[-1]
    ok = stop == "done" and all(step.status in ("done", "skipped") for step in last.steps)
    steps = " > ".join(_step(step) for step in last.walk() if not step.parts)
    reasons = dict.fromkeys(plan.reason for plan in plans if plan.reason)
    parts = [f"changed because {reason}" for reason in reasons]
    for step in last.walk():
        tried = [one.note for one in step.evidence if one.note]
        if step.status == "failed":
            parts.append(f"{step.what} failed: {tried[-1] if tried else 'no reason'}")
        elif step.on_fallback:
            parts.append(f"{step.what} could not be done, {step.fallback} instead")
        elif step.failed_checks:
            parts.append(f"{step.what} took {step.failed_checks + 1} tries: {tried[0]}")
    return PlanLesson(last.goal, steps, ok, "; ".join(parts))


def _step(step: PlanStep) -> str:
    what = step.fallback if step.on_fallback else step.what
    short = cut(what, SHORT)
    return short if step.status == "done" else f"{short} ({step.status})"
