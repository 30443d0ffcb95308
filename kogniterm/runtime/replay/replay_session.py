"""Replay of a stored session, an export or a bug report, through the same graph and turn.

Turns begin with their recorded inputs. The model's replies, policy's verdicts, the user's decisions
and the results of tools and commands come from the journal; with `live`, commands and the tools for
files really run in a copy of the folder. The replay writes a journal of its own in a scratch
folder, and `first_divergence` compares the two.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from kogniterm import __version__, prompts
from kogniterm.agent.plan.plan_tools import MAKE_PLAN, NOT_SET
from kogniterm.errors import UsageError
from kogniterm.protocols import Executor, SystemClock, Tool
from kogniterm.runtime.budgets import Budget
from kogniterm.runtime.context import system_message
from kogniterm.runtime.extensions.extension_port import ExtensionPort
from kogniterm.runtime.extensions.session_agents import SessionAgents, recorded_agents
from kogniterm.runtime.extensions.tool_service import GRAPH_TOOLS
from kogniterm.runtime.gate import Gate
from kogniterm.runtime.operations.recordings import Recorded
from kogniterm.runtime.replay.live_copy import LiveCopy
from kogniterm.runtime.replay.recorded_seams import (
    Player,
    RecordedApprover,
    RecordedContext,
    RecordedExecutor,
    RecordedPolicy,
    RecordedRunner,
    RecordedText,
    RecordedTool,
    RecordedTools,
)
from kogniterm.runtime.services.session_prompts import files_of, kept_prompts
from kogniterm.runtime.turn import TurnServices, run_turn
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import SessionModes, TurnIO
from kogniterm.sessions.history import SessionHistory
from kogniterm.sessions.journal.journal import SessionJournal
from kogniterm.sessions.recording import (
    Divergence,
    SessionRecording,
    TurnRecording,
    first_divergence,
    recording_of,
)
from kogniterm.sessions.records import Record
from kogniterm.sessions.session_database import open_store
from kogniterm.sessions.session_search import messages_of
from kogniterm.text.redact import session_label
from kogniterm.tools.tool_registry import listed_tools
from kogniterm.types import PlanMode, ToolSpec, approval_mode


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
    files, _unfit = files_of(kept_prompts(recorded.records) or {}, scratch)
    prompts.use(files)
    with (
        closing(store),
        closing(store.create(folder=recorded.folder, model=recorded.model)) as journal,
    ):
        if not live:
            return asyncio.run(_replay(recording, journal, recorded.model, None))
        with closing(LiveCopy(recorded.folder, folder or recorded.folder, scratch)) as copy:
            return asyncio.run(_replay(recording, journal, recorded.model, copy))


async def _replay(
    recording: SessionRecording,
    journal: SessionJournal,
    model: str,
    live: LiveCopy | None,
) -> ReplayReport:
    """Play `recording` into `journal`, an empty session, and compare the two."""
    player = Player(model)
    known = _recorded_preferences(recording.records)
    history = SessionHistory(recording.records)
    labels = [session_label(one.session_id) for one in history.opened]
    text = RecordedText(label=labels[0] if labels else "", others=labels)
    written = TurnJournal(journal, text, SystemClock(), preferences=lambda: known)
    tools = _recorded_tools(recording, player)
    executor: Executor = live or RecordedExecutor(lambda: journal.state)
    modes, budget, policy = SessionModes(player.model), Budget(), RecordedPolicy(player)
    runner = RecordedRunner(
        written, policy, modes, executor, (live.tools if live else tools).__getitem__, budget,
        player=player, live=live,
    )  # fmt: skip
    context = RecordedContext(
        written, modes, None, system_message(written), RecordedTools(tools, player),
        extensions=ExtensionPort([SessionAgents(recorded_agents(recording.records))]),
        player=player,
    )  # fmt: skip
    gate = Gate(written, policy, modes, executor)
    services = TurnServices(written, gate, runner, context, modes, budget)
    io = TurnIO(RecordedApprover(player, policy), sink=lambda event: None)
    for part in recording.parts:
        if isinstance(part, TurnRecording):
            await _play(services, player, part, io)
            continue
        if part.command is not None and live is not None:
            await asyncio.to_thread(executor.run, part.command)
        journal.append(part.body)
    divergence = first_divergence(recording.records, journal.records())
    return ReplayReport(len(history.turns), runner.commands, divergence)


async def _play(services: TurnServices, player: Player, turn: TurnRecording, io: TurnIO) -> None:
    """Play one turn, which goes on from its recorded input."""
    player.begin(turn)
    modes = services.modes
    modes.use_model(player.model)
    modes.planning, modes.approval = cast(PlanMode, turn.plan_mode), approval_mode(turn.mode)
    reviewed = any(one.tool == MAKE_PLAN.name and one.request for one in turn.calls.values())
    modes.plans.approval = "always" if reviewed else "never"
    services.journal.record(turn.given)
    if turn.plan is not None:
        services.journal.record(turn.plan)
    await run_turn(services, None, io)


def _recorded_tools(recording: SessionRecording, player: Player) -> dict[str, Tool]:
    """Return the tools that the session had: the built-in ones, and others that were called."""
    turns = [part for part in recording.parts if isinstance(part, TurnRecording)]
    called = {call.tool for turn in turns for call in turn.calls.values()}
    own = {spec.name for spec in GRAPH_TOOLS}
    others = (ToolSpec(name, name, {"type": "object"}, "external") for name in called - own)
    tools: dict[str, Tool] = {one.name: RecordedTool(one, player) for one in others}
    real = listed_tools().items()
    return tools | {name: RecordedTool(one.spec, player, one) for name, one in real}


_PREFERENCE = re.compile(r"^session\.preferences\.(?P<name>\w+): (?P<value>.*)$", re.MULTILINE)


def _recorded_preferences(records: Iterable[Record]) -> Mapping[str, str]:
    """Return the preferences that steps of plans used, as the recorded model was told them."""
    told = (message.text for record in records for message in messages_of(record.body))
    found = (match for text in told for match in _PREFERENCE.finditer(text))
    return {match["name"]: match["value"] for match in found if match["value"] != NOT_SET}
