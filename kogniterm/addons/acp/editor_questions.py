"""Questions of a turn to the user of an editor: permission requests, and forms where it has them.

What is asked is what the terminal asks. An editor that is gone answers nothing: the question stays
open until the session is closed, and is asked again when it is resumed.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from acp import RequestError
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionResponse,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    ToolKind,
)
from pydantic import ValidationError

from kogniterm.addons.acp.outbox import Outbox
from kogniterm.addons.acp.session_updates import safe
from kogniterm.addons.acp.update_parts import Content, diffs, first_line, tool_kind, whole_fenced
from kogniterm.agent.plan.evaluate import check_commands
from kogniterm.runtime.fixed_questions import FixedQuestion, Value
from kogniterm.runtime.questions.approval_facts import ActionFacts, Say, effect_line
from kogniterm.runtime.questions.client_questions import (
    action_lines,
    approving_word,
    asked_text,
    plan_text,
)
from kogniterm.runtime.session_approver import Approval, Asked, SessionApprover
from kogniterm.runtime.session_plans import may_grant
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import render, render_line, render_request, unrender
from kogniterm.types import (
    Decision,
    Phrase,
    Plan,
    PlanReview,
)
from kogniterm.types.events import BY_USER
from kogniterm.types.turn_values import GRANTS

if TYPE_CHECKING:
    from kogniterm.approval import Offer
    from kogniterm.runtime.session import LiveSession
    from kogniterm.runtime.turn_ports import Question

log = logging.getLogger(__name__)

NOT_ANSWERED = "the editor gave no answer that was offered"
_MOST_REASON = 500


class Editor(Protocol):
    """The client's methods that questions need."""

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse:
        """Ask the user to choose an option."""

    async def create_elicitation(self, message: str, mode: ElicitationFormSessionMode) -> Any:
        """Ask the user to fill in a form."""


class Choice(NamedTuple):
    """An answer to choose: its ID, its words, and the protocol's hint about its nature."""

    id: str
    words: Phrase
    kind: PermissionOptionKind = "allow_once"


_REJECT = Choice("reject", Phrase("Reject"), "reject_once")
_REASON = Choice("reject_reason", Phrase("Reject with a reason …"), "reject_once")


class EditorQuestions(SessionApprover):
    """Asks one question at a time.

    With `forms` the client can show a form, for words: an edited command, a reason, an answer.
    """

    def __init__(
        self, session: LiveSession, editor: Editor, outbox: Outbox, say: Say, *, forms: bool
    ) -> None:
        super().__init__(session)
        self.open = False
        self._editor = editor
        self._outbox = outbox
        self._say = say
        self._forms = forms

    # --- actions and plans ----------------------------------------------------------------------

    async def ask_about(self, asked: Asked) -> Approval:
        """Ask about an action; raises `CancelledError` when the turn is stopped instead."""
        offers: dict[str, tuple[Offer, bool]] = {}
        for number, offer in enumerate(asked.offers):
            offers[f"session_{number}"] = (offer, False)
            if offer in asked.lasting:
                offers[f"project_{number}"] = (offer, True)
        call = self._call_of(self.mask_facts(asked.facts), asked.cwd)
        while True:
            chosen = await self._permission(call, self._choices(asked.facts, offers))
            decision = await self._decision_of(chosen, asked.facts, call, offers)
            if decision is not None:
                granted = chosen if decision.kind == "approve" else ""
                return Approval(decision, *offers.get(granted or "", (None, False)))

    def _choices(
        self, facts: ActionFacts, offers: Mapping[str, tuple[Offer, bool]]
    ) -> list[Choice]:
        approve = Phrase("Approve")
        if facts.dangerous:
            approve = Phrase("Dangerous: approve, after one more question")
        found = [Choice("approve", approve), _REJECT]
        for key, (offer, always) in offers.items():
            values = {"what": offer.label}
            session = Phrase("Approve, and do not ask again in this session for: {what}", values)
            project = Phrase("Approve, and do not ask again in this project for: {what}", values)
            found.append(Choice(key, project if always else session, "allow_always"))
        if self._forms:
            found.append(_REASON)
            if facts.request.effect == "command":
                edit = Phrase("Do not run this; edit the command …")
                found.append(Choice("edit", edit, "reject_once"))
        return found

    async def _decision_of(
        self,
        chosen: str | None,
        facts: ActionFacts,
        call: ToolCallUpdate,
        offers: Collection[str],
    ) -> Decision | None:
        """Return the decision behind a choice; None when it led back to the question."""
        command = facts.request.command
        if chosen == "approve" or chosen in offers:
            if facts.dangerous and not await self._confirm_danger(call, facts):
                return Decision("reject", command, BY_USER)
            return Decision("approve", command, BY_USER)
        if chosen == "reject_reason":
            asks = self._say(Phrase("Reason for a rejection"))
            return Decision("reject", command, BY_USER, await self._words(asks) or "")
        if chosen == "edit":
            asks = self._say(Phrase("Edit the command. It is checked and shown again."))
            edited = unrender(await self._words(asks, start=render(command), most=0) or "")
            unchanged = not edited.strip() or edited == command
            return None if unchanged else Decision("edit", edited, BY_USER)
        return Decision("reject", command, BY_USER, "" if chosen == "reject" else NOT_ANSWERED)

    async def _confirm_danger(self, call: ToolCallUpdate, facts: ActionFacts) -> bool:
        """Ask once more about a dangerous command: for the word, or in a second request."""
        if self._forms:
            word = approving_word(facts.request)
            asks = self._say(Phrase("Dangerous. Type {word} to approve.", {"word": word}))
            said = await self._words(f"{asks}\n\n{call.title}")
            return (said or "").strip().lower() == word
        run = Phrase("Run this dangerous command now")
        if facts.request.effect == "hosts":
            count = {"count": len(facts.request.hosts)}
            run = Phrase("Run this dangerous command now, on {count} hosts", count)
        yes = Choice("run_dangerous", run)
        no = Choice("do_not_run", Phrase("Do not run it"), "reject_once")
        return await self._permission(call, [no, yes]) == yes.id

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Ask whether the plan may start."""
        del previous
        text = plan_text(plan, self._say)
        checks = {"checks": " ; ".join(map(render_line, check_commands(plan)))}
        unasked = Phrase("Start, and run these checks in the sandbox unasked: {checks}", checks)
        edits = Phrase("Start, and accept edits of files")
        granting = [Choice("checks", unasked, "allow_always")] if checks["checks"] else []
        granting.append(Choice("edits", edits, "allow_always"))
        start = [Choice("approve", Phrase("Start the plan"))]
        modes, policy = self._session.modes, self._session.policy
        start += granting if may_grant(modes, sandboxed=policy.sandboxed) else []
        choices = [*start, _REJECT, *([_REASON] if self._forms else [])]
        chosen = await self._ask("think", self._say(Phrase("Start this plan?")), text, choices)
        if (grant := GRANTS.get(chosen or "")) is not None:
            return PlanReview("approve", plan, BY_USER, grant=grant)
        reason = ""
        if chosen == "reject_reason":
            async with self._lock:
                reason = await self._words(self._say(Phrase("Reason for a rejection"))) or ""
        return PlanReview("reject", plan, BY_USER, reason)

    def _call_of(self, facts: ActionFacts, cwd: str) -> ToolCallUpdate:
        """Return what is asked about: ID, whole command, folder, effects, reasons, diff."""
        request, say = facts.request, self._say
        lines = "\n".join(action_lines(facts, cwd, say))
        # Some clients show the title alone, so nothing of the command is left out of it.
        title = render_request(request)
        if facts.dangerous:
            title = f"{say(Phrase('Dangerous'))}: {title}"
        content: list[Content] = [
            whole_fenced(
                render_request(request), "sh" if request.effect in ("command", "hosts") else ""
            ),
            whole_fenced(lines),
            *diffs(request),
        ]
        return ToolCallUpdate(
            tool_call_id=request.id,
            title=title,
            kind=tool_kind(request.tool, request.effect),
            status="pending",
            content=content,
            raw_input={
                "id": request.id,
                "command": request.command,
                "folder": cwd,
                "purpose": request.purpose,
                "risk": facts.report.label,
                "effects": [effect_line(one, say) for one in facts.report.effects],
                "reasons": facts.reasons(say, told=False),
            },
        )

    # --- other questions of a turn --------------------------------------------------------------

    async def ask(self, question: Question, answers: Sequence[str | Phrase]) -> str | None:
        """Ask a question of the model, or one of KogniTerm; implements `turn_ports.Ask`."""
        asked = asked_text(question, answers, self._say)
        # KogniTerm's own have fixed answers; other words, or a single one, are those of a field.
        own = not isinstance(question, str) and len(answers) > 1
        own = own and all(isinstance(one, Phrase) for one in answers)
        if self._forms and not own:
            async with self._lock:
                fields = {"answer": _field(self._say(Phrase("Your answer")))}
                if asked.answers:
                    which = self._say(Phrase("Choose an answer, or write your own"))
                    fields = {"choice": _field(which, asked.answers), **fields}
                values = await self._form(asked.text, fields)
            said = str(values.get("answer") or values.get("choice") or "")
            return asked.meant(said)
        choices = [
            Choice(f"answer_{number}", Phrase("{answer}", {"answer": one_line(shown)}))
            for number, shown in enumerate(asked.answers)
        ]
        none = Choice("no_answer", Phrase("No answer"), "reject_once")
        chosen = await self._ask("other", first_line(asked.text), asked.text, [*choices, none])
        known = {choice.id: shown for choice, shown in zip(choices, asked.answers, strict=True)}
        return asked.meant(known.get(chosen or ""))

    async def choose(self, question: FixedQuestion[Value]) -> Value:
        """Ask a question with fixed answers; implements `turn_ports.Recover` and `AtLimit`."""
        title, last = self._say(question.title), question.answers[-1]
        choices = []
        for one in question.answers:
            kind: PermissionOptionKind = "allow_always" if one.lasts else "allow_once"
            words = self._say(one.words)
            answer = Phrase("{answer}", {"answer": words[:1].upper() + words[1:]})
            choices.append(Choice(one.value, answer, "reject_once" if one is last else kind))
        chosen = await self._ask("other", title, question.body or title, choices)
        return next((one.value for one in question.answers if one.value == chosen), last.value)

    async def agree(self, title: str, text: str, yes: Phrase) -> bool:
        """Ask for consent to something that `text` describes in full."""
        agreed = Choice("agree", yes)
        return await self._ask("other", title, text, [agreed, _REJECT]) == agreed.id

    # --- the protocol ---------------------------------------------------------------------------

    async def _ask(
        self, kind: ToolKind, title: str, text: str, choices: Sequence[Choice]
    ) -> str | None:
        """Ask about something that is no action, as a tool call of its own."""
        key, title = f"question-{uuid.uuid4().hex}", one_line(title)
        content: list[Content] = [whole_fenced(text)]
        async with self._lock:
            self._outbox.put(
                ToolCallStart(
                    session_update="tool_call", tool_call_id=key, title=title, kind=kind,
                    status="pending", content=content,
                )
            )  # fmt: skip
            call = ToolCallUpdate(tool_call_id=key, title=title, kind=kind, content=content)
            chosen = await self._permission(call, choices)
            done = ToolCallProgress(
                session_update="tool_call_update", tool_call_id=key, status="completed"
            )
            self._outbox.put(done)
            return chosen

    async def _permission(self, call: ToolCallUpdate, choices: Sequence[Choice]) -> str | None:
        """Return the ID of the choice; None where the client answers anything else."""
        options = [
            PermissionOption(option_id=one.id, name=safe(self._say(one.words)), kind=one.kind)
            for one in choices
        ]
        response = await self._waiting(
            lambda: self._editor.request_permission(self._session.id, call, options)
        )
        if response is None:
            return None
        if not isinstance(response.outcome, AllowedOutcome):
            raise asyncio.CancelledError  # the protocol's answer when the turn is stopped
        chosen = response.outcome.option_id
        return chosen if chosen in {one.id for one in choices} else None

    async def _words(self, asks: str, *, start: str = "", most: int = _MOST_REASON) -> str | None:
        values = await self._form(asks, {"text": _field("", default=start)}, required=["text"])
        said = str(values.get("text") or "")
        return (one_line(said, most) if most else said) or None

    async def _form(
        self,
        message: str,
        fields: Mapping[str, ElicitationStringPropertySchema],
        required: list[str] | None = None,
    ) -> Mapping[str, Any]:
        schema = ElicitationSchema(type="object", properties=dict(fields), required=required or [])
        mode = ElicitationFormSessionMode(session_id=self._session.id, requested_schema=schema)
        response = await self._waiting(lambda: self._editor.create_elicitation(message, mode))
        if not isinstance(response, AcceptElicitationResponse):
            return {}
        return response.content or {}

    async def _waiting(self, ask: Any) -> Any:
        """Return the client's response; None for one that makes no sense."""
        await self._outbox.flush()
        self.open = True
        try:
            return await ask()
        except ConnectionError:
            # Whoever closes the session cancels the turn and leaves this question open.
            await asyncio.get_running_loop().create_future()
        except (RequestError, ValidationError) as error:
            log.warning("the client did not answer a question: %s", error)
        finally:
            self.open = False
        return None


def _field(
    title: str, answers: Sequence[str] = (), default: str = ""
) -> ElicitationStringPropertySchema:
    return ElicitationStringPropertySchema(
        type="string", title=title or None, enum=list(answers) or None, default=default or None
    )
