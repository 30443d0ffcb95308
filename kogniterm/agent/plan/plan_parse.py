"""A written plan, checked: what the model or the user gave becomes steps, or every mistake in it.

A plan that cannot be used is refused with all mistakes at once, so that one repair mends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, get_args

from kogniterm.agent.plan.plan_steps import TOOL_SETS, activate_next, open_steps
from kogniterm.errors import ToolError
from kogniterm.text.bounded_regex import Pattern
from kogniterm.types import Check, CheckKind, DelegateKind, Phrase, Plan, PlanStep

Agents = Mapping[str, Collection[str]]
"""The sub-agents with a name, and the tools of each."""
NO_AGENTS: Agents = {}
CheckProblem = Callable[[str], tuple[Phrase, str] | None]
"""Give why the exit status of a command proves nothing, and what hides it; None if it does."""
_OWN_NAME = "[a-z0-9][a-z0-9_-]{0,40}"
OWN_AGENT_NAME = re.compile(rf"{_OWN_NAME}\Z")
"""The name that a sub-agent's file gives it."""
AGENT_NAME = re.compile(rf"(?:{_OWN_NAME}:)?{_OWN_NAME}\Z")
"""The name by which it is called: that of its plugin stands before its own."""
CHECKS: tuple[CheckKind, ...] = get_args(CheckKind)
KINDS: tuple[DelegateKind, ...] = get_args(DelegateKind)
INSIDE_CHECKS: tuple[CheckKind, ...] = ("exit_code", "pattern", "judgement")
"""The checks of a sub-agent's own plan: those that run no command."""

MAX_STEPS = 30
MAX_TEXT = 500
MAX_GOAL = 2_000
MAX_CHECK = 2_000
MAX_NAMES = 20
MAX_SUBSTEPS = 10
_ID = re.compile(r"[a-z][a-z0-9_]{0,15}\Z")
_PART_ID = re.compile(r"[a-z][a-z0-9_]{0,18}\Z")
_EXIT_CODE = re.compile(r"(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\Z", re.ASCII)
_REFERENCE = re.compile(
    r"(?:steps\.([a-z][a-z0-9_]*)\.(?:output|exit_code)|input\.(?:text|data|files)"
    r"|session\.(?:cwd|folder|preferences\.[a-z][a-z0-9_]*))\Z"
)
REFERENCES = "steps.ID.output, input.text, session.cwd or session.preferences.NAME"


class HiddenFailureError(ToolError):
    """A plan without other mistakes has checks that pass although something failed."""


def parse_plan(
    arguments: Mapping[str, Any],
    previous: Plan | None,
    *,
    going_on: bool = False,
    tools: Collection[str] | None = None,
    inside: bool = False,
    agents: Agents | None = NO_AGENTS,
    check_problem: CheckProblem | None = None,
) -> Plan:
    """Return the plan in a `make_plan` call.

    With a reason it changes `previous`: finished steps are kept with their evidence. Without
    one it is a new plan, unless a plan is `going_on` in this turn: then the reason is asked for.
    `tools` are the tools there are, and `agents` the sub-agents with a name; what is None is not
    checked. A plan made `inside` a sub-agent hands out nothing and is checked without commands.
    `check_problem` is asked about each command that is a check.
    Raises `ToolError` naming everything that is wrong, so that one repair can mend it all.
    """
    problems: list[Phrase] = []
    goal = str(arguments.get("goal") or "").strip()
    reason = str(arguments.get("reason") or "").strip()
    if not goal:
        problems.append(Phrase("goal is empty"))
    problems += [
        Phrase("{name} has more than {most} characters", {"name": name, "most": MAX_GOAL})
        for name, text in (("goal", goal), ("reason", reason))
        if len(text) > MAX_GOAL
    ]
    raw_steps = arguments.get("steps")
    if not isinstance(raw_steps, Sequence) or isinstance(raw_steps, str) or not raw_steps:
        raise _refusal([Phrase("steps must be a list with at least one entry")])
    if len(raw_steps) > MAX_STEPS:
        many = {"count": len(raw_steps), "most": MAX_STEPS}
        problems.append(Phrase("{count} steps given; at most {most} are allowed", many))
    under_way = previous if open_steps(previous) else None
    if under_way is not None and going_on and not reason:
        problems.append(Phrase("a plan is in progress; state in reason why it changes"))
    changed = under_way if under_way is not None and reason else None
    kept = _finished_steps(changed, raw_steps) if changed is not None else ()
    reader = _PlanReader(problems, kept, changed, inside, agents, check_problem)
    steps = reader.steps(raw_steps[:MAX_STEPS])
    problems += tool_problems(steps, tools, agents)
    if not steps and not problems:
        problems.append(Phrase("all given steps are already done"))
    if problems:
        raise _refusal([*problems, *reader.hiding])
    if reader.hiding:
        raise HiddenFailureError("Invalid plan: {problems}.", problems=tuple(reader.hiding))
    revision = changed.revision + 1 if changed is not None else 1
    return activate_next(Plan(goal=goal, steps=(*kept, *steps), revision=revision, reason=reason))


def _refusal(problems: Sequence[Phrase]) -> ToolError:
    return ToolError("Invalid plan: {problems}.", problems=tuple(problems))


def _finished_steps(plan: Plan, raw_steps: Sequence[Any]) -> tuple[PlanStep, ...]:
    """Return the steps that a changed plan keeps: those done, and done parts of those now gone."""
    given = {str(raw.get("id")) for raw in raw_steps if isinstance(raw, Mapping)}
    kept: list[PlanStep] = []
    for step in plan.steps:
        if step.status == "done":
            kept.append(step)
        elif step.id not in given:
            kept += (part for part in step.parts if part.status == "done")
    return tuple(kept)


def tool_problems(
    steps: Iterable[PlanStep], tools: Collection[str] | None, agents: Agents | None = None
) -> list[Phrase]:
    """Return the problems with the tools that `steps` name, given those there are (None: any)."""
    every = [one for step in steps for one in (step, *step.parts)]
    sets = {**TOOL_SETS, **(agents or {})}
    problems = [
        Phrase(
            "{step} needs the tool {name!r}, which does not exist", {"step": step.id, "name": name}
        )
        for step in every
        for name in step.tools
        if tools is not None and name not in tools
    ]
    if problems and tools:
        problems.append(Phrase("available tools: {names}", {"names": ", ".join(tools)}))
    problems += [
        Phrase(
            "delegate of {step} must be one of: {kinds}",
            {"step": step.id, "kinds": ", ".join(sets)},
        )
        for step in every
        if agents is not None and step.delegate and step.delegate not in sets
    ]
    return problems + [
        Phrase(
            "{step} is delegated to {kind}, which has no tool {name!r}",
            {"step": step.id, "kind": step.delegate, "name": name},
        )
        for step in every
        for name in step.tools
        if step.delegate and name not in sets.get(step.delegate, step.tools)
        and (tools is None or name in tools)
    ]  # fmt: skip


@dataclass(slots=True)
class _PlanReader:
    """Reads the steps of a plan one after the other; `known` are the ids read so far.

    `kept` stay from the plan that is `changed`, with their evidence.
    """

    problems: list[Phrase]
    kept: Sequence[PlanStep]
    changed: Plan | None
    inside: bool
    agents: Agents | None = None
    check_problem: CheckProblem | None = None
    known: list[str] = field(default_factory=list)
    hiding: list[Phrase] = field(default_factory=list)

    def steps(self, raw_steps: Sequence[Any]) -> list[PlanStep]:
        self.known += [one.id for step in self.kept for one in (step, *step.parts)]
        read = (self._step(raw, str(number)) for number, raw in enumerate(raw_steps, 1))
        return [step for step in read if step is not None]

    def _step(self, raw: Any, number: str) -> PlanStep | None:
        """Return a step; None when it is unusable, or is one of `kept`."""
        if not isinstance(raw, Mapping):
            self.problems.append(Phrase("step {number} is not an object", {"number": number}))
            return None
        if self._is_kept(raw, self.kept):
            return None
        step = self._read(raw, number, is_part=False)
        if step is None:
            return None
        step = self._with_parts(raw, step, number)
        self.known.append(step.id)
        return step

    def _is_kept(self, raw: Mapping[str, Any], kept: Sequence[PlanStep]) -> bool:
        step_id, what = str(raw.get("id") or ""), str(raw.get("what") or "").strip()
        finished = next((step for step in kept if step.id == step_id), None)
        if finished is not None and what not in ("", finished.what):
            self.problems.append(
                Phrase(
                    "{step} is already done ({what}); use a new id for another step",
                    {"step": step_id, "what": finished.what},
                )
            )
        return finished is not None

    def _read(self, raw: Mapping[str, Any], number: str, *, is_part: bool) -> PlanStep | None:
        """Return what a step or a substep says about itself."""
        problems = self.problems
        step_id = str(raw.get("id") or "")
        what = str(raw.get("what") or "").strip()
        if not (_PART_ID if is_part else _ID).match(step_id):
            named = {"number": number, "id": step_id}
            problems.append(Phrase("step {number} has the invalid id {id!r}; use s1, s2, …", named))
        elif step_id in self.known:
            problems.append(Phrase("the id {id} is used twice", {"id": step_id}))
        if not what or len(what) > MAX_TEXT:
            problems.append(
                Phrase(
                    "what of step {number} must have 1 to {most} characters",
                    {"number": number, "most": MAX_TEXT},
                )
            )
            return None
        texts = {key: str(raw.get(key) or "").strip() for key in ("why", "expect", "fallback")}
        problems.extend(
            Phrase(
                "{key} of {step} has more than {most} characters",
                {"key": key, "step": step_id, "most": MAX_TEXT},
            )
            for key, text in texts.items()
            if len(text) > MAX_TEXT
        )
        inputs = _strings(raw, "inputs", step_id, problems)
        after = _strings(raw, "after", step_id, problems)
        problems.extend(_bad_references(step_id, inputs, after, self.known))
        return PlanStep(
            id=step_id or f"s{number}",
            what=what,
            why=texts["why"],
            expect=texts["expect"],
            fallback=texts["fallback"],
            check=self._check(raw.get("check"), step_id),
            inputs=inputs,
            tools=_strings(raw, "tools", step_id, problems),
            delegate=self._delegate(raw.get("delegate"), step_id),
            after=after,
            writes=_strings(raw, "writes", step_id, problems),
        )

    def _with_parts(self, raw: Mapping[str, Any], step: PlanStep, number: str) -> PlanStep:
        """Return `step` with its substeps: texts, or steps of their own where one is an object."""
        items = raw.get("substeps") or ()
        if isinstance(items, str) or not isinstance(items, Sequence):
            listed = {"key": "substeps", "step": step.id}
            self.problems.append(Phrase("{key} of {step} must be a list", listed))
            return step
        if len(items) > MAX_SUBSTEPS:
            many = {"step": step.id, "most": MAX_SUBSTEPS}
            self.problems.append(Phrase("{step} has more than {most} substeps", many))
        # One that says nothing but what it is needs no evidence of its own, like a text.
        items = [one["what"] if _only_what(one) else one for one in items[:MAX_SUBSTEPS]]
        if not any(isinstance(item, Mapping) for item in items):
            return replace(step, substeps=self._texts(items, step.id))
        if step.delegate:
            both = {"step": step.id}
            self.problems.append(
                Phrase("{step} is delegated; delegate its substeps instead, or list texts", both)
            )
        steps = self.changed.steps if self.changed is not None else ()
        before = next((one.parts for one in steps if one.id == step.id), ())
        done = [part for part in before if part.status == "done"]
        self.known += [part.id for part in done]
        parts = [*done]
        for place, raw in enumerate(_with_ids(items, step.id, before), 1):
            part = self._part(raw, f"{number}.{place}", step.id, done)
            if part is not None:
                parts.append(part)
        return replace(step, substeps=tuple(parts), subplan=bool(parts))

    def _part(
        self, raw: Mapping[str, Any], number: str, step_id: str, done: Sequence[PlanStep]
    ) -> PlanStep | None:
        if self._is_kept(raw, done):
            return None
        part = self._read(raw, number, is_part=True)
        if part is None:
            return None
        if part.id == step_id:
            self.problems.append(Phrase("the id {id} is used twice", {"id": step_id}))
        if raw.get("substeps"):
            deep = {"step": part.id}
            self.problems.append(
                Phrase("{step} is a substep and cannot have substeps; delegate it instead", deep)
            )
        self.known.append(part.id)
        return part

    def _texts(self, items: Sequence[Any], step_id: str) -> tuple[PlanStep, ...]:
        parts: list[PlanStep] = []
        for number, item in enumerate(items, 1):
            what = str(item).strip()
            if not what or len(what) > MAX_TEXT:
                which = {"number": number, "step": step_id}
                self.problems.append(
                    Phrase("substep {number} of {step} is empty or too long", which)
                )
                continue
            parts.append(PlanStep(f"{step_id}_{number}", what))
        return tuple(parts)

    def _delegate(self, raw: Any, step_id: str) -> str | None:
        kinds = (*KINDS, *(self.agents or ()))
        kind: str | None = next((one for one in kinds if one == raw), None)
        if self.agents is None and isinstance(raw, str) and AGENT_NAME.match(raw):
            kind = raw
        if raw and self.inside:
            self.problems.append(
                Phrase("{step} cannot be delegated by a sub-agent", {"step": step_id})
            )
        elif raw and kind is None:
            allowed = {"step": step_id, "kinds": ", ".join(kinds)}
            self.problems.append(Phrase("delegate of {step} must be one of: {kinds}", allowed))
        return kind

    def _check(self, raw: Any, step_id: str) -> Check | None:
        if raw is None:
            return None
        kinds = INSIDE_CHECKS if self.inside else CHECKS
        kind = raw.get("kind") if isinstance(raw, Mapping) else None
        value = str(raw.get("value") or "") if isinstance(raw, Mapping) else ""
        if kind not in kinds or not value:
            allowed = {"step": step_id, "kinds": ", ".join(kinds)}
            self.problems.append(Phrase("check of {step} needs kind ({kinds}) and value", allowed))
            return None
        self.problems.extend(_wrong_value(kind, value, step_id))
        if kind == "command" and self.check_problem is not None:
            self.hiding.extend(_hides(value, step_id, self.check_problem))
        return Check(kind, value)


def _hides(command: str, step_id: str, check_problem: CheckProblem) -> Iterable[Phrase]:
    """Yield the problem with a check whose text hides failures, and what to write instead."""
    if (found := check_problem(command)) is None:
        return
    values = {"step": step_id, "why": found[0], "end": found[1], "command": command}
    if found[1].startswith("| "):
        yield Phrase(
            "check of {step} cannot be used: {why}; write it without {end} (long output is clipped "
            "anyway), or as: set -o pipefail; {command}",
            values,
        )
    else:
        yield Phrase(
            "check of {step} cannot be used: {why}; write one command that fails if the step is "
            "not done, or join several with &&",
            values,
        )


def _with_ids(
    items: Sequence[Any], step_id: str, before: Sequence[PlanStep]
) -> Iterator[Mapping[str, Any]]:
    """Yield the substeps of a step, each with an ID.

    One that names none has the ID of the substep with the same text `before`, so that a change of
    the plan keeps its evidence, and otherwise one that no substep has had.
    """
    raws = [item if isinstance(item, Mapping) else {"what": item} for item in items]
    used = {str(raw["id"]) for raw in raws if raw.get("id")}
    same = {part.what: part.id for part in before if part.id not in used}
    used |= {part.id for part in before}
    free = (name for number in count(1) if (name := f"{step_id}_{number}") not in used)
    for raw in raws:
        known = same.pop(str(raw.get("what") or "").strip(), None)
        yield raw if raw.get("id") else {**raw, "id": known or next(free)}


def _only_what(item: Any) -> bool:
    return isinstance(item, Mapping) and {key for key, value in item.items() if value} == {"what"}


def _strings(
    raw: Mapping[str, Any], key: str, step_id: str, problems: list[Phrase]
) -> tuple[str, ...]:
    value = raw.get(key) or ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        problems.append(Phrase("{key} of {step} must be a list", {"key": key, "step": step_id}))
        return ()
    if len(value) > MAX_NAMES or any(len(str(item)) > MAX_TEXT for item in value):
        problems.append(
            Phrase(
                "{key} of {step} has too many entries, or one that is too long",
                {"key": key, "step": step_id},
            )
        )
    return tuple(str(item)[:MAX_TEXT] for item in value[:MAX_NAMES])


def _bad_references(
    step_id: str, inputs: Sequence[str], after: Sequence[str], known: Sequence[str]
) -> list[Phrase]:
    """Check that references only point backwards, which also rules out cycles."""
    problems = []
    for reference in inputs:
        match = _REFERENCE.match(reference)
        if match is None:
            problems.append(
                Phrase(
                    "inputs of {step} contains {reference!r}; use {references}",
                    {"step": step_id, "reference": reference, "references": REFERENCES},
                )
            )
        elif match[1] and match[1] not in known:
            meant = {"step": step_id, "other": match[1]}
            problems.append(
                Phrase("inputs of {step} refers to {other}, which is not an earlier step", meant)
            )
    return problems + [
        Phrase(
            "after of {step} names {other}, which is not an earlier step",
            {"step": step_id, "other": other},
        )
        for other in after
        if other not in known
    ]


def _wrong_value(kind: CheckKind, value: str, step_id: str) -> list[Phrase]:
    problems: list[Phrase] = []
    if len(value) > MAX_CHECK:
        long = {"step": step_id, "most": MAX_CHECK}
        problems.append(Phrase("check.value of {step} has more than {most} characters", long))
    if kind == "exit_code" and not _EXIT_CODE.match(value):
        step = {"step": step_id}
        problems.append(Phrase("check.value of {step} must be an exit code from 0 to 255", step))
    if kind == "pattern":
        try:
            Pattern(value)
        except ToolError as error:
            because = {"step": step_id, "why": error.text}
            problems.append(Phrase("check.value of {step} is not a usable pattern: {why}", because))
    return problems
