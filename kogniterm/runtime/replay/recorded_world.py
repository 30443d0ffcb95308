"""The world of a replay: what is recorded answers for commands, tools, crashes and interrupts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm.agent.messages import image_in, images_of
from kogniterm.agent.plan.judge import JUDGED
from kogniterm.agent.plan.plan_tools import COMPLETE_STEP
from kogniterm.errors import ExecutionError, KognitermError, ModelError, ToolError
from kogniterm.execution.scripted_executor import ScriptedExecutor, no_result
from kogniterm.protocols import Executor, Tool
from kogniterm.runtime.turn_ports import RecoveryChoice
from kogniterm.sessions.recording import STOPPED, Answered, TurnRecording
from kogniterm.sessions.records import Compacted, Intent, NodeRan, Outcome, RecordBody
from kogniterm.types import (
    Answer,
    CommandResult,
    EffectClass,
    Job,
    Observation,
    Phrase,
    ToolSpec,
    Usage,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

PATIENCE = 200
"""Looks (10 ms apart) without any news of them after which other sub-agents are not waited for."""


class KilledError(KognitermError):
    """The recorded process was killed here: what follows was never written."""


class Player:
    """Where the replay is: the turn that is played, and how it ends.

    `crashed` is set when the recorded process was killed here: from then on nothing counts
    until the turn is begun again.
    """

    def __init__(self) -> None:
        self.turn: TurnRecording
        self.crashed = False
        self.judged_id = ""
        self.settled: Outcome | None = None
        self.task: asyncio.Future[Answer] | None = None
        self._replies = self._outcomes = self._agent_nodes = 0

    def begin(self, turn: TurnRecording) -> None:
        """Play `turn` from here."""
        self.turn, self.crashed, self.judged_id, self.settled = turn, False, "", None
        self._replies = self._outcomes = self._agent_nodes = 0

    def journaled(self, body: RecordBody) -> None:
        """The replay has written `body`."""
        self._outcomes += isinstance(body, Outcome)
        if isinstance(body, NodeRan) and body.update.agent:
            self._agent_nodes += body.update.node != STOPPED

    @property
    def last_observation(self) -> str:
        """What the model was told of the command that ended last."""
        return self.settled.message.text if self.settled is not None else ""

    @property
    def goes_on(self) -> bool:
        """Whether the recorded turn went on after the crash."""
        turn = self.turn
        return turn.ended is not None or bool(turn.outcomes) or not turn.speechless

    async def recover(self, intent: Intent, output: str) -> RecoveryChoice:
        """What the person had wanted of a command whose outcome was unknown."""
        del intent, output
        return "again" if "propose it again" in self.last_observation else "skip"

    async def reply(self, agent: str) -> tuple[AIMessage | None, Usage]:
        """The next recorded reply to an agent, None for one with nothing in it."""
        voice = self.turn.voices[agent]
        if voice.replies:
            self._replies += not agent
            return voice.replies.popleft()
        if voice.error is not None:
            raise ModelError(voice.error.template, **dict(voice.error.values))
        if agent:
            await self._others()
        raise await self.exhausted(
            ModelError("The recording has no further reply of the model in this turn.")
        )

    def judgement(self) -> tuple[str, Usage]:
        """What was replied when the next step was judged; raises `ModelError` when nothing was."""
        waiting = self.turn.inside[COMPLETE_STEP.name]
        while waiting:
            artifact = waiting.pop(0).message.artifact
            kept = artifact.get(JUDGED) if isinstance(artifact, Mapping) else None
            if isinstance(kept, Mapping):
                return str(kept["reply"]), Usage(calls=1)
        raise ModelError("The recording has no judgement of this step.")

    async def _others(self) -> None:
        """Let the other sub-agents come as far as they came before the recorded end."""
        idle, seen = 0, -1
        while self._agent_nodes < self.turn.agent_nodes and idle < PATIENCE:
            idle, seen = (idle + 1 if seen == self._agent_nodes else 0), self._agent_nodes
            await asyncio.sleep(0.01)

    @property
    def compaction(self) -> Compacted | None:
        """How the recorded history was shortened at this very place, if it was."""
        waiting = self.turn.compactions
        here = (self._replies, self._outcomes)
        if waiting and (waiting[0].replies, waiting[0].outcomes) == here:
            return waiting[0].body
        return None

    async def exhausted(self, otherwise: KognitermError) -> KognitermError:
        """What ends the turn where its recording ends; an interrupted one is cancelled here."""
        ended = self.turn.ended
        if ended is None:
            self.crashed = True
        elif ended.stop == "interrupted" and self.task is not None:
            self.task.cancel()
            await asyncio.get_running_loop().create_future()
        return otherwise

    def next_outcome(self) -> Outcome | None:
        """The recorded end of what is done now."""
        outcomes = self.turn.outcomes
        self.settled = outcomes.popleft() if outcomes else None
        if self.settled is None or self.settled.status == "unknown":
            self.crashed = self.crashed or self.settled is not None or self.turn.ended is None
        return self.settled

    def stop_reason(self, agent: str) -> Phrase | None:
        """Why the recorded agent was stopped before its next model call, where it was."""
        voice = self.turn.voices[agent]
        return None if voice.replies else voice.stop

    def said(self, agent: str) -> Sequence[str]:
        """What the person said to an agent before its next model call in the recorded turn."""
        waiting = self.turn.voices[agent].said
        return waiting.popleft() if waiting else ()

    @property
    def was_last(self) -> bool:
        """Whether the recorded turn was interrupted in what was done last."""
        turn = self.turn
        interrupted = turn.ended is not None and turn.ended.stop == "interrupted"
        return interrupted and not turn.outcomes and turn.speechless


class RecordedExecutor(ScriptedExecutor):
    """Answers from the record; with `live` it runs the command and keeps the record for crashes."""

    def __init__(
        self, player: Player, live: Executor | None, recorded_cwd: Callable[[], str]
    ) -> None:
        super().__init__(live=live)
        self._player = player
        self._recorded_cwd = recorded_cwd

    @property
    def cwd(self) -> str:
        """Where the next recorded command starts."""
        return self._recorded_cwd()

    def result_of(self, command: str) -> CommandResult:
        """The result of what is done now, whatever its command was called."""
        outcome = self._player.next_outcome()
        if self._player.crashed:
            raise ExecutionError("The recorded process was killed here.")
        if outcome is None or outcome.result is None:
            raise no_result(command)
        return outcome.result

    def run(self, command: str, **how: Any) -> CommandResult:
        """The recorded result, or the real one; see `protocols.Executor`."""
        result = super().run(command, **how)
        outcome, task = self._player.settled, self._player.task
        cancelled = outcome is not None and outcome.status == "cancelled"
        if cancelled and self._player.was_last and task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)
        return result


class RecordedTool:
    """A tool that checks and describes as ever, and whose observation is the recorded one."""

    def __init__(self, tool: Tool, player: Player) -> None:
        self._tool = tool
        self._player = player

    @property
    def spec(self) -> ToolSpec:
        """The real one."""
        return self._tool.spec

    def check(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments, checked by the real tool; where their path led is recorded."""
        checked = self._tool.check(arguments)
        if "path" not in checked:
            return checked
        name = Path(checked["path"]).name
        for request in self._player.turn.proposed[self.spec.name]:
            recorded = dict(request.arguments)
            if Path(str(recorded.get("path"))).name == name and checked == {
                **recorded,
                "path": checked["path"],
            }:
                return recorded
        return checked

    def effect_of(self, arguments: Mapping[str, Any]) -> EffectClass:
        """The effect of this call."""
        return self._tool.effect_of(arguments)

    def describe(self, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """What would happen, and why: recorded, because the files may not be here."""
        proposed = self._player.turn.proposed[self.spec.name]
        if not proposed:
            return self._tool.describe(arguments)
        same = [at for at, one in enumerate(proposed) if one.arguments == arguments]
        request = proposed.pop(same[0] if same else 0)
        # A command must be compared as the model gave it now.
        if request.effect == "command":
            return self._tool.describe(arguments)
        return request.command, request.purpose

    def detail(self, arguments: Mapping[str, Any]) -> str:
        """Depends on files that may not be here: left to the comparison to ignore."""
        del arguments
        return ""

    async def run(self, arguments: Mapping[str, Any]) -> Observation:
        """The recorded observation; raises `ToolError` where the tool failed."""
        if self._tool.effect_of(arguments) == "none":
            message = self._recorded(arguments)
        else:
            outcome = self._player.next_outcome()
            if outcome is None or self._player.crashed:
                raise ToolError("The recording has no result of {name}.", name=self.spec.name)
            message = outcome.message
        if getattr(message, "status", "success") == "error":
            raise ToolError("{text}", text=message.text)
        return Observation(str(message.text), tuple(map(image_in, images_of(message))))

    def _recorded(self, arguments: Mapping[str, Any]) -> BaseMessage:
        """What this call gave; the next one of the tool where none had the same arguments."""
        waiting = self._player.turn.inside[self.spec.name]
        same = [at for at, one in enumerate(waiting) if self._checked(one) == arguments]
        others = [at for at, one in enumerate(waiting) if self._checked(one) is not None]
        if not others:
            raise ToolError("The recording has no result of {name}.", name=self.spec.name)
        return waiting.pop((same or others)[0]).message

    def _checked(self, answered: Answered) -> Mapping[str, Any] | None:
        """The recorded arguments as the tool would have got them; None for a wrong call."""
        try:
            return self._tool.check(answered.arguments)
        except ToolError:
            return None


class Absent:
    """Memory and past of a replay: the tools over them are offered, and answer from the record."""

    def __getattr__(self, name: str) -> Any:
        raise ToolError("A replay has no {name}.", name=name)


@dataclass(slots=True)
class Elsewhere:
    """A real executor in a copy of the folder that speaks of the original one.

    `home` is the recorded folder, `scratch` its copy: the one stands for the other in commands,
    folders and output.
    """

    executor: Executor
    home: str
    scratch: Path

    @property
    def cwd(self) -> str:
        """In terms of the recorded folder."""
        return self._back(self.executor.cwd)

    @property
    def next_output(self) -> str | None:
        """The real one."""
        return self.executor.next_output

    def run(self, command: str, **how: Any) -> CommandResult:
        """Run the command in the copy."""
        result = self.executor.run(command.replace(self.home, str(self.scratch)), **how)
        text, cwd = self._back(result.text), self._back(result.cwd)
        return replace(result, command=command, text=text, cwd=cwd)

    def _back(self, text: str) -> str:
        return text.replace(str(self.scratch), self.home)

    def stop(self) -> None:
        """End the running command."""
        self.executor.stop()

    def jobs(self) -> tuple[Job, ...]:
        """The real ones."""
        return self.executor.jobs()

    def close(self) -> None:
        """End everything."""
        self.executor.close()
