"""The evaluator's own look at a step that no command can check.

A model call of its own, small and fresh: what the step is to reach and the outputs of its work,
as quoted data, without the history or the words of the model that did the work. What it finds
counts only with a quote that stands in those outputs. One call for the same step and the same
outputs: the reply stays in the journal with the observation, where a later look and a replay
find it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from kogniterm import prompts
from kogniterm.agent.compaction import CHARS_PER_TOKEN, fit_messages
from kogniterm.agent.graph_state import ThinkContext
from kogniterm.agent.messages import artifact_of
from kogniterm.agent.plan.plan_tools import fresh_outputs, is_about
from kogniterm.agent.replies import ask
from kogniterm.errors import ModelError
from kogniterm.text.shorten import head_and_tail
from kogniterm.text.visible import whole
from kogniterm.types import ModelLoading, ModelRequest, ModelRetried, Plan, PlanStep, Reply, Usage

Word = Literal["met", "not met", "cannot tell"]

MAX_OUTPUTS = 12_000
"""Characters of outputs that are judged; the newest have the first claim to them."""

MAX_REPLY = 4_000
MAX_REASON = 200
SHORTEST_QUOTE = 4
"""Characters a quote needs unless it is a whole line: a single letter stands everywhere."""

JUDGED = "judgement"
"""The name of the reply in the artifact of the observation."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": list(get_args(Word))},
        "quote": {"type": "string"},
        "reason": {"type": "string"},
    },
    "required": ["verdict", "quote", "reason"],
}


class StepJudgement(NamedTuple):
    """A finding in one sentence, and the words of an output that it rests on."""

    verdict: Word
    reason: str
    quote: str = ""

    def __str__(self) -> str:
        return f'{self.reason}: "{self.quote}"' if self.quote else self.reason


class Output(NamedTuple):
    """An output of a step's work: what it is of, and its text."""

    of: str
    text: str


class JudgedCase(NamedTuple):
    """A case to judge: the step, and the outputs of its work in order."""

    step: PlanStep
    outputs: tuple[Output, ...]

    @property
    def digest(self) -> str:
        """The same for the same question about the same outputs, whenever they were made."""
        asked = [_question(self.step), [[one.of, one.text] for one in self.outputs]]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


class Judge:
    """Asks `context.model` about a step; keeps what that cost, and what was replied to which case.

    `kept` is None where no model was asked.
    """

    def __init__(self, context: ThinkContext) -> None:
        self.context = context
        self.usage = Usage()
        self.kept: Mapping[str, str] | None = None

    async def __call__(
        self, plan: Plan, step: PlanStep, messages: Sequence[BaseMessage]
    ) -> StepJudgement | None:
        """Return the judgement; None when there is none, or none that can be used."""
        case = JudgedCase(step, outputs_of(plan, step, messages))
        reply = _known(messages, case.digest)
        if reply is None:
            reply = await self._ask(case)
            if reply is None:
                return None
            self.kept = {"case": case.digest, "reply": reply}
        return read(reply, case)

    async def _ask(self, case: JudgedCase) -> str | None:
        """Return the model's reply, "" when it fails, None when it must not be asked."""
        context = self.context
        if await context.may_continue(context.agent) is not None:
            return None
        reply = None
        try:
            space = context.window.room(context.model.info, ())
            text = as_text(case, min(MAX_OUTPUTS, int(space * CHARS_PER_TOKEN / 2)))
            asked = fit_messages(SystemMessage(prompts.text("judge")), [HumanMessage(text)], space)
            request = ModelRequest(asked, purpose="judge", schema=SCHEMA)
            async for event in ask(context.model, request, context.report):
                # Its words are not the answer: nothing of them is shown as they come.
                if isinstance(event, Reply | ModelRetried | ModelLoading):
                    context.report(event)
                if isinstance(event, Reply):
                    reply = event
        except ModelError:
            # The turn goes on: the step's own note is left, and told as such.
            return ""
        if reply is None:
            return ""
        self.usage += reply.usage
        return context.clean(whole(reply.message.text))[:MAX_REPLY]


def outputs_of(plan: Plan, step: PlanStep, messages: Sequence[BaseMessage]) -> tuple[Output, ...]:
    """Return the outputs of the work on `step`, in order; without what proves other steps.

    An output that came again unchanged is there once: doing the same again makes no new case.
    """
    others = {
        proof.request_id for one in plan.walk() if one.id != step.id for proof in one.evidence
    } - {None}
    calls = {
        str(call["id"]): call
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }
    found = [
        Output(_what(message, calls), message.text)
        for message in fresh_outputs(plan, messages, step)
        if artifact_of(message).get("request_id") not in others and is_about(message, step)
    ]
    return tuple(reversed(dict.fromkeys(found)))


def _what(message: ToolMessage, calls: Mapping[str, Any]) -> str:
    """Return the source of an output: the command that ran, or the tool with its arguments."""
    command = artifact_of(message).get("command")
    if command:
        return head_and_tail(f"$ {command}", 400)
    call = calls.get(message.tool_call_id)
    arguments = json.dumps(call["args"], ensure_ascii=False, default=str) if call else ""
    return head_and_tail(f"{message.name} {arguments}".strip(), 400)


def as_text(case: JudgedCase, limit: int) -> str:
    """Return the case for the model, with `limit` characters of outputs.

    The newest have the first claim to them; what is too long keeps its head and more of its end.
    No output can end its own quotation: the mark is made from all of them.
    """
    mark = f"output-{case.digest}"
    parts: list[str] = []
    for one in reversed(case.outputs):
        if limit <= 0:
            break
        text = head_and_tail(one.text, max(limit * 2 // 3, 200))
        limit -= len(text)
        parts.append(f'<{mark} of="{one.of}">\n{text}\n</{mark}>')
    return "\n\n".join((_question(case.step), *reversed(parts)))


def _question(step: PlanStep) -> str:
    what = step.fallback if step.on_fallback else step.what
    lines = [f"Step: {what}"]
    if step.expect:
        lines.append(f"Expected: {step.expect}")
    if step.check is not None:
        lines.append(f"Check: {step.check.value}")
    return "\n".join(lines)


def read(reply: str, case: JudgedCase) -> StepJudgement | None:
    """Return the judgement in `reply`; None when it is not of the form that was asked for.

    A quote that stands in no output turns every word into "cannot tell", and so does "met"
    without one.
    """
    data = _object(reply)
    word = str(data.get("verdict") or "").strip().lower().replace("_", " ") if data else ""
    verdict = next((known for known in get_args(Word) if known == word), None)
    if data is None or verdict is None:
        return None
    reason = head_and_tail(
        " ".join(str(data.get("reason") or "").split()).rstrip(".: "), MAX_REASON
    )
    quote = " ".join(str(data.get("quote") or "").split())
    found = StepJudgement(verdict, reason or verdict, quote)
    if quote and not stands(quote, case.outputs):
        return StepJudgement("cannot tell", "the quote is not in any output")
    if verdict == "met" and not quote:
        return StepJudgement("cannot tell", "no output was quoted that shows it")
    return found if verdict != "cannot tell" else found._replace(quote="")


def stands(quote: str, outputs: Sequence[Output]) -> bool:
    """Return whether `quote` is in an output, spaces aside: a whole line, or some words of it."""
    for one in outputs:
        lines = [" ".join(line.split()) for line in one.text.splitlines()]
        if quote in lines:
            return True
        if len(quote) >= SHORTEST_QUOTE and quote in " ".join(lines):
            return True
    return False


_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*)\n\s*```\Z", re.DOTALL)


def _object(reply: str) -> Mapping[str, Any] | None:
    """Return the one JSON object that a reply is, in a fence or not."""
    text = _THOUGHT.sub("", reply).strip()
    fenced = _FENCE.match(text)
    try:
        data = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, Mapping) else None


def _known(messages: Sequence[BaseMessage], digest: str) -> str | None:
    for message in reversed(messages):
        kept = artifact_of(message).get(JUDGED)
        if isinstance(kept, Mapping) and kept.get("case") == digest and kept.get("reply"):
            return str(kept["reply"])
    return None
