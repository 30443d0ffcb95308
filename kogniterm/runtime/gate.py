"""The gate of a session: every action request is classified and decided before it runs.

Policy decides what it can, the approver the rest. Analysis, rules, hooks, approver and runner get
the same request, byte for byte; only what is shown of it and kept is redacted. An edit is judged
again, and an approval is withdrawn when a file that decides what would run changed before the
start. Extensions are heard after policy: they can make its verdict stricter, and a hook of the
user's can allow what an allow rule of theirs could.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kogniterm.agent import messages
from kogniterm.approval import render
from kogniterm.errors import UsageError
from kogniterm.protocols import Executor
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.crash_recovery import runs_repeated
from kogniterm.runtime.extensions.extension_port import ExtensionPort
from kogniterm.runtime.turn_journal import TurnJournal, text_of
from kogniterm.runtime.turn_ports import JointApprover, PolicyPort, SessionModes, TurnIO
from kogniterm.runtime.user_secrets import MISSING
from kogniterm.sessions.records import Decided, Judged, Requested
from kogniterm.types import (
    ActionRequest,
    Decision,
    Phrase,
    RiskReport,
    RuleTrace,
    Verdict,
    events,
)


class JudgedRequest(NamedTuple):
    """Policy's verdict on a request, after extensions; `request` is as they changed it."""

    request: ActionRequest
    report: RiskReport
    verdict: Verdict


@dataclass(slots=True)
class Gate:
    """Assesses, judges and decides on the action requests of one session.

    `prepare` begins what a command needs to run, while it is judged and asked about.
    """

    journal: TurnJournal
    policy: PolicyPort
    modes: SessionModes
    executor: Executor
    env_hash: str = ""
    extensions: ExtensionPort = field(default_factory=ExtensionPort)
    prepare: Callable[[], None] = lambda: None
    _io: TurnIO | None = field(default=None, init=False)

    async def judge(self, request: ActionRequest, io: TurnIO) -> JudgedRequest:
        """Arrow 8: return the facts about the request, and policy's verdict on it."""
        if request.effect == "command":
            self.prepare()
        self._io, cwd = io, self.executor.cwd
        judged = self._by_policy(request, io, cwd)
        if judged.verdict.kind != "deny":
            judged = await self._heard(judged, io, cwd)
        request, report, verdict = judged.request, judged.report, judged.verdict
        if request.effect == "command" and verdict.kind != "deny":
            asked = Decision("approve", request.command, "person")
            likely = asked if verdict.kind == "ask" else _policy_decision(request, verdict)
            self.policy.confine(likely, report, ahead=True)
        states = self.policy.file_states(request, report)
        shown = self.journal.record(
            Requested(request, cwd, self.env_hash, states), hold=True
        ).request
        told = self.journal.record(Judged(request.id, report, verdict), hold=True)
        io.sink(events.ActionProposed(shown, told.report, told.verdict, cwd))
        return judged

    def judge_again(self, request: ActionRequest, before: Verdict) -> JudgedRequest:
        """Judge a request that waits by the mode in use now; what a hook said `before` holds."""
        assert self._io is not None
        judged = self._by_policy(request, self._io, self.executor.cwd)
        by_hook = bool(before.trace) and before.trace[-1].origin.startswith("hook ")
        if by_hook and judged.verdict.kind == "allow":
            return judged._replace(verdict=before)
        return judged

    async def _heard(self, judged: JudgedRequest, io: TurnIO, cwd: str) -> JudgedRequest:
        """Return the verdict after extensions. Raises `RefusedError` where one ends the turn."""
        said = await self.extensions.before_action(judged.request, io.sink)
        if said.request != judged.request:
            judged = self._by_policy(said.request, io, cwd)
        verdict, report = judged.verdict, judged.report
        if said.choice == "allow" and verdict.kind == "ask":
            return self._by_policy(said.request, io, cwd, allowing=said.trace)
        if verdict.kind == "deny" or said.choice not in ("ask", "deny"):
            return judged
        others = verdict.reasons if verdict.kind == "ask" else report.reasons
        stricter = Verdict(said.choice, (*said.reasons, *others), (*verdict.trace, said.trace))
        return judged._replace(verdict=stricter)

    def _by_policy(
        self, request: ActionRequest, io: TurnIO, cwd: str, allowing: RuleTrace | None = None
    ) -> JudgedRequest:
        self.journal.given.answers = io.user_answers
        report = self.policy.assess(request, cwd)
        again = bool(runs_repeated(self.journal, request, cwd))
        verdict = self.policy.judge(
            request, report, self.modes, cwd, unknown_outcome=again, at_prompt=io.at_prompt,
            allowing=allowing,
        )  # fmt: skip
        if mark := self.journal.secrets.placeholder(text_of(request)):
            why = Phrase(messages.NEVER_FILLED_IN.template, {"mark": mark})
            verdict = Verdict("deny", (why,), verdict.trace)
        return JudgedRequest(request, report, verdict)

    async def decide(
        self,
        request: ActionRequest,
        report: RiskReport,
        verdict: Verdict,
        io: TurnIO,
        count: TurnCount,
        answer: Decision | None = None,
    ) -> tuple[Decision, RiskReport]:
        """Arrow 9: return the decision, and the facts about the request as it was decided on.

        `answer` is the user's, where it was asked about together with others.
        """
        proposed = request
        while True:
            mode = self.modes.approval
            if verdict.kind != "ask":
                decision = _policy_decision(request, verdict)
            elif answer is not None:
                decision = answer
            else:
                with count.waiting():
                    if io.attended:
                        io.sink(events.ApprovalAsked(request.id))
                        self.extensions.asking(request, io.sink)
                    decision = await io.approver.decide(request, report, verdict)
                decision = replace(decision, reason=self.journal.redact(decision.reason))
            if decision.kind == "approve" and (answer or self.modes.approval != mode):
                now = self.judge_again(request, verdict).verdict
                decision = _policy_decision(request, now) if now.kind == "deny" else decision
            if decision.kind != "edit":
                # What was judged is what runs, whatever an approver shows or returns.
                decision = replace(decision, command=request.command)
                break
            request, answer = replace(request, command=decision.command), None
            judged = await self.judge(request, io)
            request, report, verdict = judged.request, judged.report, judged.verdict
            if verdict.kind == "allow":
                decision = Decision("approve", request.command, decision.by)
                break
        if decision.kind == "approve":
            decision = await self._with_values(decision, count)
        # The intent or refusal that follows is durable, and all that is held is written with it.
        self.journal.record(Decided(request.id, decision), hold=True)
        io.sink(self.decision_event(proposed, decision))
        return decision, report

    async def ask_together(
        self, asked: Sequence[JudgedRequest], io: TurnIO, count: TurnCount
    ) -> Sequence[Decision | None]:
        """Arrow 9 for commands that would run at once: return the answers to one question.

        None for each that is to be asked about by itself.
        """
        approver = io.approver
        if len(asked) < 2 or not isinstance(approver, JointApprover):
            return [None] * len(asked)
        with count.waiting():
            for one in asked:
                io.sink(events.ApprovalAsked(one.request.id))
                self.extensions.asking(one.request, io.sink)
            answers = await approver.decide_together(asked)
        if answers is None:
            return [None] * len(asked)
        return [replace(one, reason=self.journal.redact(one.reason)) for one in answers]

    def decision_event(self, request: ActionRequest, decision: Decision) -> events.ActionDecided:
        """Return the event of a decision, as it is shown."""
        shown = self.journal.shown_decision(request.id, decision)
        return events.ActionDecided(self.journal.show_request(request), shown)

    async def _with_values(self, decision: Decision, count: TurnCount) -> Decision:
        """Ask for the values of secrets that the command needs and this process does not know."""
        given = self.journal.given
        for name in given.missing(decision.command):
            with count.waiting():
                value = await given.ask(name) if given.ask is not None else None
            try:
                given.give(value or "", name, told=True)
            except UsageError as error:
                why = error.text if value else Phrase(MISSING.template, {"name": name})
                return Decision("reject", decision.command, events.BY_KOGNITERM, str(why), (why,))
        return decision

    def check_start(
        self, request: ActionRequest, decision: Decision, io: TurnIO
    ) -> tuple[Decision, messages.Observed]:
        """Return the decision, and the text for the model if it is a refusal.

        An approval is withdrawn when a file that decides what would run changed since the request
        was judged.
        """
        changed = self.changed_since(request) if decision.kind == "approve" else None
        if changed is None:
            shown = self.journal.shown_decision(request.id, decision)
            return decision, messages.refusal_message(request, shown)
        decision = withdrawn(decision.command, changed)
        io.sink(self.decision_event(request, decision))
        return decision, messages.changed_message(request, changed)

    def changed_since(self, request: ActionRequest) -> str | None:
        """Return a file that decides what would run and changed since the request was judged."""
        requested = self.journal.state.requested.get(request.id)
        return None if requested is None else self.policy.changed_file(requested.script_hashes)

    def refuse_acting(self, request: ActionRequest) -> Decision:
        """Refuse a request of a turn that only plans; this is no refusal that ends a task."""
        why = messages.ONLY_A_PLAN
        refusal = Decision("reject", request.command, events.BY_KOGNITERM, str(why), (why,))
        self.journal.settle(request, "refused", messages.refusal_message(request, refusal))
        return refusal


def withdrawn(command: str, changed: str) -> Decision:
    """Return the decision that withdraws an approval, because the file `changed` was modified."""
    why = Phrase(
        "{file} changed after the command was checked, so it was not "
        "run. Check the file, then ask for the command again.",
        {"file": render(changed)},
    )
    return Decision("reject", command, events.START_CHECK, str(why), (why,))


def _policy_decision(request: ActionRequest, verdict: Verdict) -> Decision:
    last = verdict.trace[-1] if verdict.trace else None
    of_hook = last is not None and last.matched and last.origin.startswith("hook ")
    by = events.BY_HOOK if of_hook else "policy"
    if verdict.kind == "deny":
        decision = Decision("reject", request.command, by, reasons=verdict.reasons)
        return replace(decision, reason=str(decision.why))
    by = f"lease {verdict.lease_id}" if verdict.lease_id else by
    return Decision("approve", request.command, by)
