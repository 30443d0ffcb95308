"""Replay of a stored session, an export or a bug report, through the same graph and turn.

The model's replies, policy's verdicts, the user's decisions and the tools' observations come from
the journal. Commands are answered from it too, or really run (`live`) in a copy of the folder. The
replay writes a journal of its own in a scratch folder, and `first_divergence` compares the two.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from kogniterm import __version__, prompts
from kogniterm.agent.plan.plan_tools import MAKE_PLAN, NOT_SET
from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.errors import UsageError
from kogniterm.execution import open_executor
from kogniterm.execution.command_output import OutputStore
from kogniterm.protocols import Executor, SystemClock, Tool
from kogniterm.runtime.budgets import Budget
from kogniterm.runtime.extensions.session_agents import recorded_agents
from kogniterm.runtime.gate import Gate
from kogniterm.runtime.replay.recorded_world import (
    Absent,
    PastTool,
    Player,
    RecordedApprover,
    RecordedContext,
    RecordedExecutor,
    RecordedModel,
    RecordedPolicy,
    RecordedRunner,
    RecordedText,
    RecordedTool,
    RelocatedExecutor,
)
from kogniterm.runtime.services.session_prompts import files_of, kept_prompts
from kogniterm.runtime.turn import TurnServices, run_turn
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import AskPort, PlanSettings, SessionModes, TurnIO
from kogniterm.runtime.use_cases.recordings import Recorded
from kogniterm.sessions.journal.journal import SessionJournal
from kogniterm.sessions.recording import (
    Divergence,
    SessionRecording,
    TurnRecording,
    first_divergence,
    recording_of,
)
from kogniterm.sessions.records import InputReceived, Intent, Record, SessionOpened
from kogniterm.sessions.session_database import open_store
from kogniterm.sessions.session_search import messages_of
from kogniterm.settings import environment
from kogniterm.text.redact import session_label
from kogniterm.tools.skill_tools import NO_SKILLS
from kogniterm.tools.tool_registry import ToolPorts, session_tools
from kogniterm.types import PlanMode, approval_mode

IN_SCRATCH = frozenset({"read_file", "search_text", "find_files", "edit_file", "write_file"})
"""Tools that work on the scratch copy in a live replay; the others answer from the record."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The number of turns played, and the first difference from the record, if any."""

    turns: int
    commands: int
    divergence: Divergence | None


def replay_recorded(
    recorded: Recorded, scratch: Path, *, live: bool, folder: str | None
) -> ReplayReport:
    """Run a session again; `live` runs its commands in a copy of its folder, or of `folder`."""
    recording = recording_of(recorded.records)
    if not recording.parts:
        raise UsageError("This session has nothing to replay.")
    store, _recovery = open_store(scratch / "replay.db", user="replay", version=__version__)
    copied = (folder or recorded.folder) if live else None
    files, _unfit = files_of(kept_prompts(recorded.records) or {}, scratch)
    prompts.use(files)
    with (
        closing(store),
        _world(recorded.folder, copied, scratch) as (executor, tools),
        closing(store.create(folder=recorded.folder, model=recorded.model)) as journal,
    ):
        return asyncio.run(_replay(recording, journal, recorded.model, tools, executor))


@contextmanager
def _world(
    folder: str, copied: str | None, scratch: Path
) -> Iterator[tuple[Executor | None, dict[str, Tool]]]:
    """Open the executor of a live replay, if it is one, and the tools that a session offers."""
    work, absent = scratch / "work", Absent()
    if copied is not None:
        source = Path(copied)
        if not source.is_dir():
            raise UsageError(
                "Folder {folder} not found. Specify the folder to copy with --folder.",
                folder=source,
            )
        shutil.copytree(source, work, symlinks=True, ignore_dangling_symlinks=True)
    else:
        work.mkdir()
    outputs = scratch / "outputs"
    executor = open_executor(str(work), env=dict(environment()), outputs=outputs)
    ports = ToolPorts(
        lambda: executor.cwd,
        str(work),
        OutputStore(outputs),
        is_secret,
        executor,
        AskPort(),
        memory=absent,
        history=absent,
        servers=absent,
        forgetting=absent,
        skills=NO_SKILLS,
    )
    try:
        live = RelocatedExecutor(executor, folder, work) if copied is not None else None
        yield live, dict(session_tools(ports))
    finally:
        executor.close()


async def _replay(
    recording: SessionRecording,
    journal: SessionJournal,
    model: str,
    tools: Mapping[str, Tool],
    live: Executor | None,
) -> ReplayReport:
    """Play `recording` into `journal`, an empty session, and compare the two."""
    player = Player()
    known = _recorded_preferences(recording.records)
    opened = (record.body for record in recording.records)
    labels = [session_label(one.session_id) for one in opened if isinstance(one, SessionOpened)]
    text = RecordedText(player, labels)
    written = TurnJournal(journal, text, SystemClock(), preferences=lambda: known)
    executor = RecordedExecutor(player, live, lambda: journal.state.cwd)
    past = {
        name: PastTool(name, player)
        for part in recording.parts
        if isinstance(part, TurnRecording)
        for name, requests in part.proposed.items()
        if any(request.effect == "external" for request in requests)
    }
    offered: dict[str, Tool] = {
        name: tool if live is not None and name in IN_SCRATCH else RecordedTool(tool, player)
        for name, tool in {**tools, **past}.items()
    }
    modes, budget = SessionModes(RecordedModel(model, player)), Budget()
    policy = RecordedPolicy(player)
    runner = RecordedRunner(written, policy, modes, executor, offered.__getitem__, budget)
    runner.player = player
    services = TurnServices(
        written,
        Gate(written, policy, modes, executor),
        runner,
        RecordedContext(written, player, modes, offered, recorded_agents(recording.records)),
        modes,
        budget,
    )
    io = TurnIO(RecordedApprover(player), sink=lambda event: None)
    turns = 0
    for part in recording.parts:
        if isinstance(part, TurnRecording):
            turns += 1
            await _play(services, player, part, io)
            continue
        turns += isinstance(part, InputReceived)
        if isinstance(part, Intent) and live is not None:
            await asyncio.to_thread(live.run, part.command)
        journal.append(part)
    divergence = first_divergence(recording.records, journal.records())
    return ReplayReport(turns, len(executor.ran), divergence)


_PREFERENCE = re.compile(r"^session\.preferences\.(?P<name>\w+): (?P<value>.*)$", re.MULTILINE)


def _recorded_preferences(records: Iterable[Record]) -> Mapping[str, str]:
    """Return the preferences that steps of plans used, as the recorded model was told them."""
    told = (message.text for record in records for message in messages_of(record.body))
    found = (match for text in told for match in _PREFERENCE.finditer(text))
    return {match["name"]: match["value"] for match in found if match["value"] != NOT_SET}


async def _play(services: TurnServices, player: Player, turn: TurnRecording, io: TurnIO) -> None:
    """Play one turn."""
    player.begin(turn)
    services.modes.planning = cast(PlanMode, turn.plan_mode)
    services.modes.approval = approval_mode(turn.mode)
    services.modes.plans = PlanSettings(
        only=turn.given.plan_only,
        given=turn.plan,
        approval="always" if turn.proposed[MAKE_PLAN.name] else "never",
    )
    await run_turn(services, turn.given.input, io)
