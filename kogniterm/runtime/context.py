"""The context of the model's calls: system message, recalled memories, attached files, history.

Files that the user named go to the model as data, within limits; images go as images to a model
that takes them. A history that nears the model's window is compacted: the model is asked for a
summary, and if it gives none, the calls and their ends remain.

A trusted project's instructions stand in the system message when they are trusted before the first
turn. What is trusted, changed or revoked later is appended to the history, so that the prefix of
earlier requests stays what it was, also after a resume. A compaction begins a new prefix, whose
system message holds the instructions in force.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from kogniterm import prompts
from kogniterm.agent import compaction
from kogniterm.agent.compaction import observation_limit, tools_tokens
from kogniterm.agent.graph_state import Item, ThinkContext
from kogniterm.agent.messages import (
    PLAN_MODE,
    PLAN_MODE_OVER,
    RESTARTED,
    WHO_ANSWERS,
    ImageBlock,
    drop_old_images,
    image_block,
    known_answers,
    note,
    told_to_plan,
    with_text,
)
from kogniterm.agent.replies import ask, is_unusable
from kogniterm.agent.subagent import DELEGATE
from kogniterm.agent.tool_dispatch import offered_tools
from kogniterm.approval.analysis.exit_status import check_problem
from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.errors import ModelError, UsageError, why
from kogniterm.host.safe_files import listable, look, open_file, resolve_path
from kogniterm.protocols import EventSink, Model, Tool
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.extensions.extension_port import ExtensionPort
from kogniterm.runtime.services.memory_service import MemoryService, preference_of
from kogniterm.runtime.trust.instruction_texts import NestedInstructions
from kogniterm.runtime.turn_end import limit_that_ends
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import (
    Attached,
    SessionModes,
    ToolRules,
    TurnIO,
    relay,
    relay_aside,
)
from kogniterm.sessions.fold import Note, SessionState
from kogniterm.sessions.history import notes
from kogniterm.sessions.records import NESTED, Compacted, NodeRan, Noted, Rewound
from kogniterm.storage.folders import expand_path
from kogniterm.text.shorten import head_and_tail
from kogniterm.text.visible import whole
from kogniterm.types import (
    Answer,
    Image,
    ModelAsked,
    ModelFailed,
    ModelInfo,
    ModelRequest,
    NodeUpdate,
    Phrase,
    Reply,
    ToolSpec,
    Usage,
    UserAnswers,
    UserInput,
    events,
)
from kogniterm.types.images import (
    HEADER_BYTES,
    IMAGE_BYTES,
    IMAGE_SIDE,
    ImageHeader,
    read_header,
)

MOST_FILES = 20
MOST_NAMES = 200
"""Names listed of an attached folder."""
READ_FACTOR = 4
"""Bytes read for each character that may be kept: the longest of UTF-8."""
_FIRST = (Note.INSTRUCTIONS, "skills", "servers")
"""The texts that sessions have had from the first: another order than theirs would make a resumed
session's system message a new one, which no provider and no kept reply knows."""


@dataclass(slots=True)
class ContextService:
    """Builds what a model sees in one session; `system` is the text every call begins with."""

    journal: TurnJournal
    modes: SessionModes
    memory: MemoryService | None
    system: SystemMessage
    rules: ToolRules
    nested: NestedInstructions = field(default_factory=NestedInstructions)
    extensions: ExtensionPort = field(default_factory=ExtensionPort)
    shortened: Callable[[Iterable[str]], object] = lambda texts: None
    """Told the texts of a history that has become another one."""
    resumed: bool = False
    """Set until the model was told what the shell of an earlier process took with it."""
    blocked: bool = False
    """Set while extensions do not want the history of this turn compacted."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Return the tools that the model gets, besides those of the graph."""
        return self.rules.offered

    @property
    def used_tokens(self) -> int:
        """Return about how many tokens of the model's window the next call takes at least."""
        return self.journal.history_tokens + compaction.message_tokens(self.system)

    def offered_tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools the model may call."""
        return offered_tools(self.unlimited_context())

    def recall(self, user_input: UserInput, answers: UserAnswers = "now") -> Attached:
        """Return what the files named in this input hold, and what memory and extensions add to it.

        `answers` is when a user approves and answers in this turn.
        """
        self.blocked = False
        model = self.modes.model.info
        found = attach_files(
            user_input.attachments,
            Path(self.journal.state.folder),
            observation_limit(model.context_window),
            self.journal.redact,
            model,
        )
        added = self.extensions.take_added()
        who = self._news(answers, self.journal.state.messages)
        told = (found.text, added.text, who)
        files = Attached(
            "\n\n".join(filter(None, told)),
            (*found.images, *added.images),
            (*found.notices, *added.notices),
        )
        if self.memory is None:
            return files
        news = self.memory.set_preferences(user_input)
        texts, notices = [files.text, self.memory.recall(user_input)], files.notices
        if news:
            texts.append(prompts.text("memory.preference_saved"))
        unfit = self.memory.why_not_kept(user_input)
        if unfit is not None:
            notice = Phrase("Not saved to memory: {reason}.", {"reason": unfit})
            texts.append(prompts.text("memory.not_saved", notice=notice))
            notices = (*notices, notice)
        text = "\n\n".join(filter(None, texts))
        return files._replace(text=text, notices=notices, news=news)

    def learn(self, answer: Answer, io: TurnIO) -> None:
        """Arrow 13: let memory learn from the turn that ended with this answer."""
        if self.memory is not None:
            self.memory.turn_ended(answer.text, at_prompt=io.at_prompt)

    async def make_room(self, io: TurnIO, count: TurnCount) -> None:
        """Compact the history when it nears the model's window."""
        window, before = self._window(), self.journal.history_tokens
        if self.blocked or not compaction.needs_compaction(before, window):
            return
        reason = await self.extensions.before_compaction("auto", io.sink)
        if reason is not None:
            # The turn goes on as it is, until the model refuses it as too long.
            self.blocked = True
            told = Phrase("The history is not compacted: {why}", {"why": reason})
            io.sink(events.Notice(told, "warning"))
            return
        await self._compact(partial(relay_aside, sink=io.sink, count=count), asked=False)
        values: dict[str, object] = {"before": before, "after": self.journal.history_tokens}
        if self.journal.history_tokens < before:
            told = Phrase("History compacted from about {before} to {after} tokens.", values)
            io.sink(events.Notice(told))
            return
        self.blocked = True
        told = Phrase(
            "The input has about {after} tokens, more than this model takes, so the middle of it "
            "is left out. Name a file in its place, or choose another model.", values,
        )  # fmt: skip
        io.sink(events.Notice(told, "warning"))

    async def compact_now(self, *, asked: bool = False, sink: EventSink | None = None) -> Phrase:
        """Compact the history, needed or not; return what to say about how many tokens it had.

        Raises `UsageError` where an extension does not want it.
        """
        reason = await self.extensions.before_compaction("manual", sink or (lambda event: None))
        if reason is not None:
            raise UsageError("The history is not compacted: {why}", why=reason)
        before = self.journal.history_tokens
        await self._compact(asked=asked)
        values: dict[str, object] = {"before": before, "after": self.journal.history_tokens}
        if self.journal.history_tokens < before:
            return Phrase("History compacted from about {before} to {after} tokens.", values)
        return Phrase("Compacting freed no space; the history has about {after} tokens.", values)

    async def _compact(self, tell: Tell | None = None, *, asked: bool) -> None:
        """Compact the history; `tell` gets the model call of the summary."""
        state = self.journal.state
        body = await compact(state, self.modes.model, self._window(), asked=asked, tell=tell)
        self.begin_anew(body)

    def _window(self) -> int:
        """Return the window of the history alone, beside what every request and reply take."""
        fixed = compaction.message_tokens(self.system) + tools_tokens(self.offered_tools())
        return self.modes.window.history(self.modes.model.info, fixed)

    def begin_anew(self, body: Compacted | Rewound) -> None:
        """Record another history, with the system message that belongs to it."""
        self.journal.record(body, durable=True)
        self.system = system_message(self.journal)
        self.shortened(message.text for message in self.journal.state.messages)
        if self.memory is not None:
            self.memory.context.history_was_shortened()

    def instruct(self, text: str | None = None) -> None:
        """Use these instructions from here on, None leaves what there is, and offer extensions."""
        use_instructions(self.journal, text, self.extensions)
        if not self.journal.state.turn:
            self.system = system_message(self.journal)

    def think_context(self, io: TurnIO, count: TurnCount) -> ThinkContext:
        """Return the ports of one graph invocation."""
        context = self._graph_context(lambda agent: limit_that_ends(self.journal, io, count))
        goes_on = partial(self.extensions.before_end, sink=io.sink)
        may_begin = partial(self.extensions.before_agent, sink=io.sink)
        due = partial(self._notes_due, io)
        report = partial(self._report, io, count)
        return replace(
            context, report=report, goes_on=goes_on, may_begin=may_begin, instructions_due=due
        )

    def _report(self, io: TurnIO, count: TurnCount, item: Item) -> None:
        """Take a report of the graph; a node of a sub-agent is journaled in its history."""
        if not isinstance(item, NodeUpdate):
            relay(item, io.sink, count)
            return
        item = self.journal.record_update(item)
        if item.node == DELEGATE.name and item.messages:
            io.sink(events.AgentStarted(item.agent, item.messages[0].text, item.agent_name))

    def unlimited_context(self) -> ThinkContext:
        """Return the ports of the graph for a caller that has no limits and no turn."""
        return self._graph_context(_never_stopped)

    def _graph_context(
        self, may_continue: Callable[[str], Awaitable[Phrase | None]]
    ) -> ThinkContext:
        modes, state = self.modes, self.journal.state
        only = modes.plans.only_planning(state)
        off = self.rules.off
        return ThinkContext(
            model=modes.model,
            tools=self.tools,
            system=self.system,
            plan_mode="always" if only else modes.plan_mode,
            may_continue=may_continue,
            new_id=self.journal.new_id,
            clean=self._clean,
            has_room=self._has_room,
            plan_only=only,
            review_plans=lambda: modes.plans.need_review(modes.approval) and not only,
            hidden=off,
            refusal=self.rules.refusal,
            placeholder=self.journal.secrets.placeholder,
            held_back=self.rules.holds_back,
            redirect=self.rules.redirect,
            delegates=DELEGATE.name not in off,
            said_meanwhile=self._said,
            instructions_due=self._instructions_due,
            window=modes.window,
            language=lambda: str(preference_of(self.memory, "language") or ""),
            agents={
                key: replace(one, messages=tuple(self.journal.exact_messages(one.messages)))
                for key, one in state.agents.items()
            },
            named=self.extensions.agents(),
            lookup=self.journal.value_of,
            check_problem=check_problem,
            catalogues=self._catalogues,
        )

    def _catalogues(self, tools: Collection[str]) -> list[str]:
        told = _texts_at(self.journal, self.journal.state.instructions)
        return [told[one] for one in self.extensions.catalogued(tools) if told.get(one)]

    def _said(self, agent: str) -> Sequence[str]:
        """Return what the user said to an agent meanwhile, a change to or from plan mode included.

        Sub-agents are not told of it: they have a task and no plan, and their actions are refused.
        """
        said, planning = self.journal.steering.take(agent), self.modes.in_plan_mode
        if agent or told_to_plan(self.journal.state.messages) == planning:
            return said
        return (*said, prompts.text(PLAN_MODE if planning else PLAN_MODE_OVER))

    def _notes_due(
        self, io: TurnIO, agent: str, messages: Sequence[BaseMessage]
    ) -> Sequence[BaseMessage]:
        """Return what the model has to know from now on: who approves, and instructions."""
        due = self._instructions_due(agent, messages)
        if agent or self.modes.model.info.one_command:
            return due
        told = [note(news)] if (news := self._news(io.user_answers, messages)) else []
        told += map(note, self.extensions.news(io.sink))
        for one in told:
            one.additional_kwargs[NESTED] = io.user_answers  # a replay takes it as it was
        return (*told, *due)

    def _news(self, answers: UserAnswers, messages: Sequence[BaseMessage]) -> str:
        """Return when a user approves and answers, and of a new shell, unless the model knows."""
        if self.modes.model.info.one_command:
            return ""
        news = [prompts.text(WHO_ANSWERS[answers])] if known_answers(messages) != answers else []
        resumed, self.resumed = self.resumed, False
        done = compaction.what_was_done(messages) if resumed else ()
        if any(kind in ("jobs", "sets") for kind, _, _ in done):
            news.append(prompts.text(RESTARTED, folder=self.journal.state.cwd))
        return "\n\n".join(news)

    def _instructions_due(
        self, agent: str, messages: Sequence[BaseMessage]
    ) -> Sequence[BaseMessage]:
        """Return the instructions of folders that the model began to work in, redacted."""
        del agent
        if self.modes.model.info.one_command:
            return ()
        due = self.nested.due(messages)
        return [with_text(one, self.journal.redact(one.text)) for one in due]

    def _clean(self, text: str) -> str:
        """Return the observation of a tool inside the graph, redacted and clipped."""
        limit = observation_limit(self.modes.model.info.context_window)
        return head_and_tail(self.journal.redact(text), limit)

    def _has_room(self, messages: Sequence[BaseMessage]) -> bool:
        if self.blocked:
            return True
        tokens = compaction.estimate_tokens(messages)
        return not compaction.needs_compaction(tokens, self._window())


async def _never_stopped(agent: str) -> Phrase | None:
    del agent
    return None


@dataclass(slots=True)
class _Attacher:
    """Takes files one after the other, until the room for text is used up."""

    folder: Path
    room: int
    redact: Callable[[str], str]
    model: ModelInfo
    images: list[ImageBlock]
    notices: list[Phrase]

    def take(self, name: str) -> str:
        """Return what the model gets of the file called `name`."""
        try:
            path = resolve_path(expand_path(self.folder, name))
            if self._leads_away(name, path):
                self.notices.append(
                    Phrase(
                        "{name} is a link to {target}, so it was not attached. "
                        "To attach it, name {target} directly.",
                        {"name": name, "target": str(path)},
                    )
                )
                return "[not shown: a link that leads elsewhere]"
            mode = look(path).st_mode
            if stat.S_ISDIR(mode):
                return self._count_text(_folder(path))
            if not stat.S_ISREG(mode):
                return "[not shown: not a regular file]"
            with os.fdopen(open_file(path), "rb") as file:
                header = read_header(file.read(HEADER_BYTES))
                file.seek(0)
                if header is not None:
                    return self._image(name, file, header)
                return self._count_text(_file(file, max(self.room, 0)))
        except OSError as error:
            return f"[cannot be read: {why(error)}]"
        except ValueError:  # a NUL, or half a character
            return "[cannot be read: no file has such a name]"

    def _count_text(self, text: str) -> str:
        text = self.redact(text)
        self.room -= len(text)
        return text

    def _leads_away(self, name: str, real: Path) -> bool:
        """Return whether a name in the workspace is a link out of it, or to something secret.

        A command may have made the link; a secret that the user names directly is theirs to send.
        """
        path = Path(os.path.normpath(expand_path(self.folder, name)))
        workspace = resolve_path(self.folder)
        if not path.is_relative_to(self.folder) and not path.is_relative_to(workspace):
            return False
        return not real.is_relative_to(workspace) or (
            is_secret(str(real)) and not is_secret(str(path))
        )

    def _image(self, name: str, file: BinaryIO, header: ImageHeader) -> str:
        size = os.fstat(file.fileno()).st_size
        what = header.describe(size)
        data = file.read(IMAGE_BYTES + 1)
        problem = _problem(name, size, header, data, self.model)
        if problem is not None:
            self.notices.append(problem)
            return f"[not shown: {what}]"
        self.images.append(
            image_block(Image(data, header.media_type, name, header.width, header.height))
        )
        return f"[{what}; image {len(self.images)} of this message]"


def attach_files(
    paths: Sequence[str], folder: Path, limit: int, redact: Callable[[str], str], model: ModelInfo
) -> Attached:
    """Return the named files as `model` gets them, with about `limit` characters of text in all.

    A file that cannot be shown is described instead; relative names count from `folder`.
    """
    files = _Attacher(folder, limit, redact, model, [], [])
    parts: list[str] = []
    for path in paths[:MOST_FILES]:
        # The name is data too: it must not end the element it stands in.
        name = path.replace("<", "‹").replace('"', "'").replace("\n", " ")
        parts.append(f'<file name="{name}">\n{files.take(path)}\n</file>')
    if len(paths) > MOST_FILES:
        parts.append(f"[{len(paths) - MOST_FILES} more files are named, but not shown]")
    return Attached("\n\n".join(parts), tuple(files.images), tuple(files.notices))


def _problem(
    name: str, size: int, header: ImageHeader, data: bytes, model: ModelInfo
) -> Phrase | None:
    """Return why an image is not sent, for the user; None when it is."""
    values: dict[str, object] = {"name": name, "model": model.name, "kind": header.kind}
    if not model.images:
        return Phrase("{model} does not accept images; only the name {name} is sent.", values)
    if header.media_type not in model.images:
        return Phrase(
            "{model} does not accept {kind} images; only the name {name} is "
            "sent. Convert the file to PNG.",
            values,
        )
    if header.is_damaged(data):
        return Phrase("{name} is a damaged image; only its name is sent.", values)
    if not header.fits(size):
        values |= {"size": f"{size / 1e6:.1f}", "most": f"{IMAGE_BYTES / 1e6:.1f}"}
        values |= {"width": header.width, "height": header.height, "side": IMAGE_SIDE}
        return Phrase(
            "{name} is too large to send ({size} MB, {width}x{height} "
            "pixels). The limits are {most} MB and {side} pixels per side.",
            values,
        )
    return None


def _folder(path: Path) -> str:
    with listable(path) as listed, os.scandir(listed) as entries:
        names = sorted(
            f"{entry.name}/" if _leads_to_folder(entry) else entry.name
            for entry in islice(entries, MOST_NAMES + 1)
        )
    more = [f"[more than {MOST_NAMES} names]"] if len(names) > MOST_NAMES else []
    return "\n".join(["[a folder with:]", *names[:MOST_NAMES], *more])


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _file(file: BinaryIO, limit: int) -> str:
    size = os.fstat(file.fileno()).st_size
    data = file.read(limit * READ_FACTOR + 16)
    if b"\0" in data:
        return f"[not shown: binary, {size} bytes]"
    text = data.decode("utf-8", "replace")
    if len(text) <= limit and len(data) >= size:
        return text.rstrip("\n") or "[empty]"
    # Both ends are shown, because the newest lines of a log are at its end.
    half = limit // 2
    file.seek(max(size - half * READ_FACTOR, 0))
    end = file.read(half * READ_FACTOR).decode("utf-8", "replace")
    cut = f"[cut here: the file has {size} bytes; read_file shows the rest]"
    return f"{text[:half]}\n{cut}\n{end[len(end) - half :]}"


Tell = Callable[[ModelAsked | ModelFailed | Reply], None]
"""Takes the start and the end of a model call."""


async def compact(
    state: SessionState,
    model: Model,
    window: int,
    *,
    asked: bool = False,
    tell: Tell | None = None,
) -> Compacted:
    """Return the record that replaces the history by a summary and its last rounds.

    `window` is that of the history in tokens. With `asked` the user wants it smaller now, so its
    own size counts and not the window's. `tell` gets the model call of the summary.
    """
    whole = window
    if asked:
        window = min(window, compaction.estimate_tokens(state.messages))
    older, _ = _parts(state, window)
    tell = tell or (lambda item: None)
    summary, usage = await _summary(older, model, whole, tell) if older else (None, Usage())
    return compaction_record(state, window, summary, usage)


def compaction_record(
    state: SessionState, window: int, summary: str | None, usage: Usage | None = None
) -> Compacted:
    """Return the record made of the model's summary; with None the end of each call is kept."""
    older, kept = _parts(state, window)
    history: Sequence[BaseMessage] = kept
    if older:
        told = compaction.plain_summary(older) if summary is None else summary
        facts = [prompts.text("compact.folder", folder=state.cwd or state.folder)]
        if state.user_secrets:
            names = ", ".join(f"${name}" for name in state.user_secrets)
            facts.append(prompts.text("compact.secrets", names=names))
        history = compaction.compact_history(older, kept, told, state.plan, window, facts)
    return Compacted(
        tuple(history),
        state.plan,
        state.pending,
        state.turn,
        state.agents,
        summary,
        usage or Usage(),
        window,
    )


def _parts(state: SessionState, window: int) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """Return the messages that a summary replaces, and those that stay.

    Images stay only with the input of an open turn, so that the journal does not repeat them.
    """
    messages = drop_old_images(state.messages, keep_newest=state.open_turn)
    return compaction.split_history(messages, window)


async def _summary(
    older: list[BaseMessage], model: Model, window: int, tell: Tell
) -> tuple[str | None, Usage]:
    """Return the model's summary, None when it gives none, and the usage."""
    usage = Usage()
    if model.info.one_command:
        return None, usage
    limit = int(window * compaction.START_SHARE)
    words = min(max(window // 40, 200), 3_000)
    told = (prompts.text("compact.summarise"), prompts.text("compact.length", words=words))
    text = "\n".join((*told, "", compaction.transcript(older, limit)))
    request = ModelRequest((HumanMessage(text),), purpose="compact")
    try:
        async for event in ask(model, request, tell):
            if isinstance(event, Reply):
                tell(event)
                said = "" if is_unusable(event.message) else whole(event.message.text).strip()
                return said or None, event.usage
    except ModelError:
        # The turn goes on without a summary by the model.
        return None, usage
    return None, usage


def use_instructions(journal: TurnJournal, text: str | None, extensions: ExtensionPort) -> None:
    """Use `text` as the instructions from here on, and the catalogues of extensions.

    None leaves what there is. The model is told only what changed.
    """
    state = journal.state
    before = _texts_at(journal, state.instructions)
    given = extensions.catalogues(before.keys() - {Note.INSTRUCTIONS})
    if text is not None:
        gone = prompts.text("decide_action.instructions_gone")
        given = {Note.INSTRUCTIONS: (text, gone), **given}
    changed = {key: new for key, new in given.items() if new[0] != before.get(key, "")}
    if not changed:
        return
    told = [new or withdrawal for new, withdrawal in changed.values()]
    if changed.get(Note.INSTRUCTIONS, ("",))[0]:
        told[0] = prompts.text("decide_action.instructions", text=told[0])
    if state.turn:
        journal.record(NodeRan(NodeUpdate("instructions", tuple(map(note, told)))))
    after = {key: new for key, (new, _withdrawal) in changed.items()}
    journal.record(Noted(Note.INSTRUCTIONS, {**before, **after}))


def system_message(journal: TurnJournal) -> SystemMessage:
    """Return the system message of a session, which is fixed until its history is compacted."""
    state = journal.state
    day = datetime.fromtimestamp(next(iter(journal.records())).time, UTC).date().isoformat()
    system = f"{platform.system()} {platform.machine()}, bash"
    text = prompts.text("system", system=system, folder=state.folder, date=day)
    fixed = _texts_at(journal, state.fixed_instructions)
    names = (*_FIRST, *sorted(fixed.keys() - {*_FIRST}))
    return SystemMessage("\n\n".join(filter(None, (text, *(fixed.get(one) for one in names)))))


def _texts_at(journal: TurnJournal, seq: int) -> dict[str, str]:
    """Return the instructions and the catalogues, by extension, that the record `seq` set."""
    noted = notes(islice(journal.records(seq), 1), Note.INSTRUCTIONS) if seq else iter(())
    texts = next((note.data for note in noted if note.seq == seq), {})
    return {name: str(text) for name, text in texts.items()}
