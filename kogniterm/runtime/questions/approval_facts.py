"""The words of approval, for every front that asks: the terminal, editors, forms.

They are `Phrase`s or take `say`, which puts a sentence into the user's language. Needs no drawing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kogniterm.approval.analysis.shared_findings import DELETES_FILE, REPEATS_EFFECT, USES_NETWORK
from kogniterm.text.shorten import cut, one_line
from kogniterm.text.visible import render_line
from kogniterm.types import (
    APPROVAL_MODES,
    ActionRequest,
    ApprovalMode,
    Effect,
    ModelInfo,
    Phrase,
    RiskReport,
    Verdict,
)

if TYPE_CHECKING:
    from kogniterm.runtime.services.policy_service import PolicyService

Say = Callable[[Phrase], str]
"""Puts a sentence into the user's language."""

MODE_HELP: Mapping[ApprovalMode, Phrase] = {
    "manual": Phrase("asks before every action that your rules do not allow"),
    "accept-edits": Phrase("edits files of the workspace without asking; asks about the rest"),
    "auto": Phrase("runs what your rules and the sandbox permit; asks about the rest"),
    "plan": Phrase("only reads and plans; asks before it starts the plan"),
}
_MODES: Mapping[ApprovalMode, Phrase] = {
    "manual": Phrase("ask"),
    "accept-edits": Phrase("accept edits"),
    "auto": Phrase("auto in sandbox"),
    "plan": Phrase("plan only"),
}


def mode_name(mode: ApprovalMode, *, sandboxed: bool = True) -> Phrase:
    """Return an approval mode in words; auto mode differs where commands are not `sandboxed`."""
    if mode == "auto" and not sandboxed:
        return Phrase("auto, no sandbox")
    return _MODES[mode]


def usable_modes(policy: PolicyService, model: ModelInfo) -> tuple[ApprovalMode, ...]:
    """Return the approval modes that work in a session.

    Auto mode needs a sandbox, and plan mode a model that can plan.
    """
    works = {"auto": policy.auto_works, "plan": not model.one_command}
    return tuple(mode for mode in APPROVAL_MODES if works.get(mode, True))


_LABELS: Mapping[str, Phrase] = {
    "safe_readonly": Phrase("read-only"),
    "workspace_write": Phrase("writes to the workspace"),
    "needs_approval": Phrase("needs approval"),
    "dangerous": Phrase("dangerous"),
}


def label_phrase(label: str) -> Phrase:
    """Return a risk label in words."""
    return _LABELS.get(label) or Phrase("{label}", {"label": label})


_EFFECTS: Mapping[str, Phrase] = {
    "read": Phrase("reads {target}"),
    "create": Phrase("creates {target}"),
    "write": Phrase("writes {target}"),
    "overwrite": Phrase("overwrites {target}"),
    "delete": Phrase("deletes {target}"),
    "network": Phrase("uses the network: {target}"),
    "privilege": Phrase("runs with elevated privileges: {target}"),
    "execute": Phrase("runs code: {target}"),
    "secret": Phrase("may reveal secrets: {target}"),
    "process": Phrase("affects processes: {target}"),
}


_OUTSIDE = Phrase("(outside the workspace)")


def effect_line(effect: Effect, say: Say) -> str:
    """Return an effect in words."""
    target = {"target": cut(render_line(effect.target), 120)}
    text = say(replace(_EFFECTS[effect.kind], values=target))
    return f"{text} {say(_OUTSIDE)}" if effect.outside else text


def proposed_by(request: ActionRequest) -> Phrase | None:
    """Return who proposes an action of a sub-agent or a custom command; None for the main agent."""
    values = {"name": one_line(request.agent_name, 40), "task": one_line(request.agent_task)}
    if not request.agent:
        return None
    if request.agent_name.startswith("/"):
        return Phrase("Part of the custom command {task}", values)
    if request.agent_name:
        return Phrase("Proposed by the sub-agent {name}, for the task: {task}", values)
    return Phrase("Proposed by a sub-agent, for the task: {task}", values)


_PREVIEWED = ("network", "privilege", "secret", "delete", "overwrite", "write", "create")
"""Effects that the preview tells more of than their names."""


class ActionFacts:
    """The facts about an action that needs approval.

    `preview` tells the effects, where they were looked up on the disk.
    """

    def __init__(
        self,
        request: ActionRequest,
        report: RiskReport,
        verdict: Verdict,
        preview: Sequence[Phrase] | None = None,
    ) -> None:
        self.request = request
        self.report = report
        self.verdict = verdict
        self.preview = preview

    @property
    def dangerous(self) -> bool:
        """Return whether approving takes the whole word."""
        return self.report.label == "dangerous"

    def purpose(self, say: Say) -> str:
        """Return the purpose: in the model's words, or that it checks a step of the plan."""
        job = re.fullmatch(r"(\S+) is: (.*)", self.request.purpose, re.DOTALL)
        if job is not None and self.request.effect == "keystrokes":
            return say(Phrase("{job} is: {command}", {"job": job[1], "command": job[2]}))
        checked = re.fullmatch(r"Check (\S+: .*)", self.request.purpose, re.DOTALL)
        if checked is None or self.request.tool != "complete_step":
            return self.request.purpose
        return say(Phrase("Check {step}", {"step": checked[1]}))

    @property
    def refusal(self) -> Sequence[Phrase]:
        """The warnings about a command that ran in the sandbox."""
        refusal = self.request.refusal
        if refusal is None:
            return ()
        told = [refusal.reason]
        told.append(
            Phrase("It has already run in part; running it again may repeat its effects.")
            if refusal.effects
            else Phrase("It has already run in part.")
        )
        if refusal.changed:
            values = {"file": render_line(refusal.changed)}
            told.append(Phrase("It changed {file}, which decides what it runs now.", values))
        return told

    def effects(self, say: Say) -> list[str]:
        """Return the effects: counted on the disk where that can be, else in words."""
        there = self.request.effect == "hosts"
        counted = _PREVIEWED if self.preview is not None and not there else ()
        reasons = " ".join(map(say, self.report.reasons))
        told = [
            effect_line(replace(effect, outside=effect.outside and not there), say)
            for effect in self.report.effects
            if effect.kind not in counted
            # The reason names the program that runs code, and why that matters.
            and not (effect.kind == "execute" and effect.target in reasons)
        ]
        return [*(f"{words[:1].upper()}{words[1:]}" for words in told),
                *map(say, self.preview or ())]  # fmt: skip

    def reasons(self, say: Say, *, told: bool) -> list[str]:
        """Return why it is asked, each reason once; what is `told` as an effect is left out.

        A deletion stays as a reason, without its paths: it must not seem as harmless as a read.
        """
        from kogniterm.approval.policy.verdict import ASKED_BY_MODE

        said = [*self.report.reasons, *self.verdict.reasons]
        said = [text for text in said if text not in self.refusal]
        if told:
            repeated = [text for text in said if text.template in REPEATS_EFFECT]
            said = [text for text in said if text not in repeated]
            if any(text.template == DELETES_FILE for text in repeated):
                said.append(Phrase("Deletes files."))
            if all(text in ASKED_BY_MODE.values() for text in said):
                said += [text for text in repeated if text.template == USES_NETWORK]
        if len(said) > 1:
            said = [text for text in said if text not in ASKED_BY_MODE.values()]
        return list(dict.fromkeys(say(text).rstrip(". ") for text in said))
