"""The approval question: an action request, what is known about it, and what can be decided.

The command comes first and in full, hard-wrapped at the cell, every invisible character made
visible. `QuestionText.must_see` is the line that has to have been on the screen before approving.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from rich.console import RenderableType
from rich.text import Text

from kogniterm.approval import Offer
from kogniterm.runtime.questions.approval_facts import ActionFacts, proposed_by
from kogniterm.runtime.questions.client_questions import HOSTS_STOP
from kogniterm.runtime.session_approver import Approval
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import render, render_line
from kogniterm.types import ActionRequest, Decision, Phrase, RiskReport, Verdict
from kogniterm.types.events import BY_USER
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.questions.question import (
    Answered,
    Entry,
    Question,
    QuestionText,
    Shown,
    Step,
    Stopped,
)
from kogniterm.ui.screen.command_frame import command_lines
from kogniterm.ui.screen.diffs import diff, relative, words
from kogniterm.ui.screen.paint import Painter, Readable
from kogniterm.ui.words.approval_words import (
    decision_text,
    label_text,
    origin_text,
)
from kogniterm.ui.words.key_table import YES_WORDS, action_of, actions, letter, paging
from kogniterm.ui.words.turn_words import edit_words

ApprovalPage = Literal[
    "choose", "reason", "edit", "confirm", "allow_session", "allow_project", "allow_reads"
]

DIFF_LINES = 2_000
"""Lines of a diff that are shown at first: drawing many more takes seconds."""

_BY_NEW_MODE = (
    ("allow", Phrase("The mode you chose would run this without a question. It still waits.")),
    ("deny", Phrase("The mode you chose does not allow this.")),
)
_LABEL_STYLES = {
    "safe_readonly": "good",
    "workspace_write": "accent",
    "needs_approval": "warn",
    "dangerous": "bad",
}


@dataclass(frozen=True)
class Subject:
    """The subject of an approval question.

    `preview` tells the effects, where they were looked up on the disk; `offers` are the permissions
    that may be granted for the session, `lasting` those for the project. `original` is the command
    before the user edited it. Its purpose is left out unless `with_purpose`. `number` tells it from
    others in one question.
    """

    request: ActionRequest
    report: RiskReport
    verdict: Verdict
    cwd: str
    preview: Sequence[Phrase] | None = None
    offers: Sequence[Offer] = ()
    lasting: Sequence[Offer] = ()
    original: str | None = None
    with_purpose: bool = True
    number: int = 0

    @property
    def facts(self) -> ActionFacts:
        """Return what is known about the action."""
        return ActionFacts(self.request, self.report, self.verdict, self.preview)

    @property
    def editable(self) -> bool:
        """Return whether it is a command, which can be edited; arguments of tools are data."""
        return self.request.effect == "command"

    @property
    def only_reads(self) -> bool:
        """Return whether it is asked about only because the mode asks about reading."""
        trace, reads = self.verdict.trace, self.report.label == "safe_readonly"
        by_mode = bool(trace) and trace[-1].origin.startswith("mode ")
        return reads and by_mode and self.editable and self.verdict.kind == "ask"

    @property
    def on_hosts(self) -> bool:
        """Return whether it is a command on other machines."""
        return self.request.effect == "hosts"

    @property
    def dangerous(self) -> bool:
        """Return whether approving takes the whole word."""
        return self.report.label == "dangerous"

    @property
    def confirming(self) -> tuple[str, ...]:
        """The words that approve what is dangerous; on other machines, their number."""
        return (str(len(self.request.hosts)),) if self.on_hosts else YES_WORDS

    def decision(self, kind: Literal["approve", "reject"], reason: str = "") -> Decision:
        """Return the user's decision about exactly what was shown."""
        return Decision(kind, self.request.command, BY_USER, reason.strip())

    def edit(self, shown: str) -> Decision | None:
        """Return the decision that proposes `shown` (as `render` shows it) instead.

        It is judged and asked again. None when nothing changed.
        """
        from kogniterm.text.visible import unrender

        command = unrender(shown)
        if not command.strip() or command == self.request.command:
            return None
        return Decision("edit", command, BY_USER)

    def document(self, painter: Painter, width: int, *, explained: bool) -> QuestionText:
        """Return the question at `width` columns, `explained` with what the rules said."""
        lines = painter.lines(self._title(painter), width)
        lines += self._command_lines(painter, width)
        for text in self._hosts():
            lines += painter.lines(text, width)
        if self._diff:
            limit = None if explained else DIFF_LINES
            lines += painter.lines(diff(self._diff, limit=limit, columns=width), width)
            if limit and self._diff.count("\n") >= limit:
                told = _("[{key}] shows all changed lines.").format(key=letter("explain"))
                lines += painter.lines(Text(told, "muted"), width)
        from kogniterm.text.visible import warnings

        warned = [(text, "bad") for text in warnings(self.request.command)]
        warned += [(text, "warn") for text in self.facts.refusal]
        warned += [(text, "warn") for kind, text in _BY_NEW_MODE if kind == self.verdict.kind]
        for phrase, style in warned:
            warning = Text(f"{painter.symbol('warn')} {translate(phrase)}", style)
            lines += painter.lines(warning, width)
        must_see = len(lines)
        facts: list[RenderableType] = []
        if self.original is not None:
            old, new = words(render_line(self.original), render_line(self.request.command))
            facts += [Text.assemble("- ", old), Text.assemble("+ ", new)]
        facts.append(Readable(self._table()))
        if explained:
            facts += self._explanation(painter)
        for fact in facts:
            lines += [line.rstrip() for line in painter.paint(fact, width).splitlines()]
        return QuestionText([line for line in lines if line.strip() or line == ""], must_see)

    def transcript(self, painter: Painter, width: int) -> str:
        """Return title and command, which stay in the scrollback."""
        lines = painter.lines(self._title(painter), width) + self._command_lines(painter, width)
        for text in self._hosts():
            lines += painter.lines(text, width)
        if self._diff:
            lines += painter.lines(diff(self._diff, limit=40, columns=width), width)
        return "\n".join(lines) + "\n"

    def _title(self, painter: Painter) -> Text:
        text = Text()
        questions = {
            "command": _("Run this command?"),
            "edit": _("Make this change?"),
            "network": _("Use the network for this?"),
            "keystrokes": {
                "stop": _("Stop this job?"),
                "keep": _("Keep this job running?"),
            }.get(str(self.request.arguments.get("action")), _("Send these keys?")),
        }
        title = questions.get(self.request.effect, _("Allow this action?"))
        if self.on_hosts:
            count = len(self.request.hosts)
            title = plural("Run this on {count} host?", "Run this on {count} hosts?", count)
        if self.request.refusal is not None:
            title = _("Run this command outside the sandbox?")
        elif self.number and self.editable:
            title = ""  # one question stands above them all
        if self.number:
            title = f"{self.number}. {title}".rstrip()
        text.append(title, "heading")
        text.append("  ")
        text.append(label_text(self.report.label), _LABEL_STYLES[self.report.label])
        if self.original is not None:
            text.append("  " + _("edited by you"), "accent")
        asks = proposed_by(self.request)
        if asks is not None:
            text.append(f"\n{painter.symbol('active')} {translate(asks)}", "accent")
        return text

    def _command_lines(self, painter: Painter, width: int) -> list[str]:
        edits = self.request.effect == "edit"
        command = edit_words(self.request.command) if edits else self.request.command
        dollar = self.editable or self.on_hosts
        return command_lines(command, painter, width, dollar=dollar)

    def _hosts(self) -> list[Text]:
        """Return every host, in the groups in which they are asked, and what ends the run."""
        if not self.on_hosts:
            return []
        groups = self.report.groups or (self.request.hosts,)
        names = [_("Hosts")] if len(groups) == 1 else []
        names += [_("First"), *[_("Then")] * (len(groups) - 1)] if not names else []
        lines = [
            Text.assemble((f"{name}: ", "muted"), render_line(", ".join(group)))
            for name, group in zip(names, groups, strict=True)
        ]
        if len(groups) > 1:
            lines.append(Text(translate(HOSTS_STOP), "muted"))
        return lines

    @cached_property
    def _diff(self) -> str | None:
        change = self.request.detail
        return relative(change, self.cwd) if change else None

    def _table(self) -> RenderableType:
        """Return the facts to decide by, one a row."""
        from rich.table import Table

        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="muted", no_wrap=True)
        table.add_column(overflow="fold")
        if self.request.purpose and self.with_purpose:
            table.add_row(_("Purpose"), Text(one_line(self.facts.purpose(translate), 400)))
        if self.on_hosts:
            told = self.request.arguments.get("inventory")
            sources = told.get("sources", ()) if isinstance(told, Mapping) else ()
            table.add_row(_("Inventory"), Text(render_line(", ".join(map(str, sources)))))
        else:
            table.add_row(_("Folder"), Text(render_line(self.cwd)))
        effects = self.facts.effects(translate)
        if effects:
            table.add_row(_("Effects"), Text("\n".join(effects)))
        reasons = self.facts.reasons(translate, told=bool(effects))
        if reasons:
            table.add_row(
                _("Reason"), Text("; ".join([reasons[0], *map(_lower_capital, reasons[1:])]))
            )
        return table

    def _explanation(self, painter: Painter) -> list[RenderableType]:
        from rich.table import Table

        rows = Table.grid(padding=(0, 1, 0, 0))
        for trace in self.verdict.trace:
            sign = painter.symbol("done" if trace.matched else "pending")
            line = one_line(origin_text(trace.origin))
            if trace.matched:  # a rule that did not match decided nothing
                line += f" {painter.symbol('arrow')} {decision_text(trace.decision)}"
            line += f": {translate(trace.reason)}"
            rows.add_row(f"  {sign}", Text(line), style="" if trace.matched else "muted")
        lines: list[RenderableType] = [Text(_("How this was decided:"), "heading"), rows]
        if not self.verdict.trace:
            lines.append(Text("  " + _("No rule applies; the default is to ask."), "muted"))
        if self.report.programs and self.editable:
            lines.append(Text(_("Programs it starts:"), "heading"))
            lines += [Text("  " + render_line(" ".join(argv))) for argv in self.report.programs]
        return lines


def _lower_capital(reason: str) -> str:
    """Return a reason as it reads behind another, without its capital; names keep theirs."""
    first = reason.partition(" ")[0]
    return f"{reason[:1].lower()}{reason[1:]}" if first[1:].islower() else reason


@dataclass(frozen=True)
class ApprovalQuestion(Question[Approval]):
    """Asks about `subject`. `page` is what is asked for now, `explained` what the rules said.

    `masked` is the same subject with its secrets replaced, shown until the user wants to see them.
    """

    subject: Subject
    masked: Subject | None = None
    page: ApprovalPage = "choose"
    explained: bool = False
    revealed: bool = False

    reasons = True

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> QuestionText:
        """Return everything; the driver shows it a page at a time."""
        return self.text(painter, columns)

    def text(self, painter: Painter, columns: int) -> QuestionText:
        """Return the same as in the panel."""
        subject = self.subject if self.masked is None or self.revealed else self.masked
        return subject.document(painter, columns, explained=self.explained)

    def transcript(self, painter: Painter, columns: int, answer: Answered[Approval] | None) -> str:
        """Return title and command; nothing of a command that runs, whose frame shows it."""
        runs = answer is not None and answer.value.decision.kind != "reject"
        framed = runs and self.subject.editable
        kept = self.masked or self.subject  # what stays in the scrollback shows no secret
        return "" if framed else kept.transcript(painter, columns)

    @property
    def entry(self) -> Entry | None:
        """The words that the page takes."""
        if self.page == "reason":
            return Entry(
                _("Optional reason for the model. Enter rejects, Esc goes back."),
                _("Reason for the model (Enter for none): "),
            )
        if self.page == "edit":
            return Entry(
                _("Edit the command. Enter checks and shows it again, Esc goes back."),
                _("New command: "),
                start=render(self.subject.request.command),
            )
        if self.page == "confirm":
            return self._confirmation
        if self._granting:
            heading = {
                "allow_session": _("Approve, and do not ask again in this session for:"),
                "allow_project": _("Approve, and do not ask again in this project for:"),
            }.get(self.page, _("Approve, and never ask again (setting allow_reads) for:"))
            ask = _("Number (Enter for none): ")
            return Entry(ask=ask, heading=heading, listed=self._grants)
        return None

    @property
    def _confirmation(self) -> Entry:
        """The word for what is dangerous; on other machines, their number."""
        accepts, count = self.subject.confirming, len(self.subject.request.hosts)
        panel = _("This is dangerous. Type yes and press Enter to run it; Esc goes back.")
        line = _("This is dangerous. Type the whole word yes to run it.")
        if self.subject.on_hosts:
            panel = plural(
                "This is dangerous. Type the number of hosts ({count}) and press Enter to run it; "
                "Esc goes back.",
                "This is dangerous. Type the number of hosts ({count}) and press Enter to run it; "
                "Esc goes back.",
                count,
            )
            line = plural(
                "This is dangerous. Type the number of hosts ({count}) to run it.",
                "This is dangerous. Type the number of hosts ({count}) to run it.",
                count,
            )
        return Entry(panel, line, word=True, accepts=accepts, waiting=_("This is dangerous."))

    @property
    def _granting(self) -> bool:
        """Return whether the page lists permissions."""
        return self.page in ("allow_session", "allow_project", "allow_reads")

    @property
    def confirms(self) -> bool:  # type: ignore[override]  # it depends on the page
        """The need of Enter after a key that grants something."""
        return self._granting

    @property
    def _offers(self) -> Sequence[Offer]:
        """The permissions that the page lists."""
        return self.subject.lasting if self.page == "allow_project" else self.subject.offers

    @property
    def _grants(self) -> tuple[str, ...]:
        """The grants that the page lists, in words."""
        if self.page == "allow_reads":
            return (_("commands that only read files of this machine, in a read-only sandbox"),)
        return tuple(translate(offer.label) for offer in self._offers)

    # --- single keys ---------------------------------------------------------------------------

    @property
    def hint(self) -> str:
        """Words reject."""
        return _("Enter: reject with this reason · Esc: back to the question")

    @property
    def reading(self) -> Collection[str]:  # type: ignore[override]  # it depends on the page
        """The keys that scroll, where the command is read."""
        return paging() if self.page == "choose" else ()

    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return the keys of the page."""
        if self.entry is not None:
            listed = zip(self._offer_keys, self.entry.listed, strict=True)
            more = (Shown(_("number, Enter"), _("grant")), Shown("Esc", _("back")))
            return [*(Shown(key, label) for key, label in listed), *more]
        keys = [Shown(letter(action), words) for action, words, _line in self._answers()]
        return [*keys, Shown(_("space"), _("more"), more=True)]

    @property
    def _offer_keys(self) -> list[str]:
        """The numbers of what the page grants."""
        return [str(number) for number in range(1, len(self._grants) + 1)]

    def _answers(self) -> list[tuple[str, str, str]]:
        """Return the offered actions, each with its words in the panel and on plain lines."""
        answers = [
            ("approve", _("approve"), _("approve")),
            ("reject", _("reject"), _("reject")),
            ("edit", _("edit"), _("edit")),
            ("explain", _("explain"), _("explain")),
            ("reveal", _("show secrets"), _("show the secrets in it")),
            ("allow_session", _("allow this session"), _("allow this session")),
            ("allow_project", _("always in this project"), _("always in this project")),
            ("allow_reads", _("never ask for read-only"), _("never ask for read-only commands")),
            ("each", _("one by one"), _("decide one by one")),
            ("stop", _("stop turn"), _("stop the turn")),
        ]
        return [answer for answer in answers if self._is_offered(answer[0])]

    def options(self) -> Collection[str]:
        """Return the keys that do something on this page."""
        if self._granting:
            return self._offer_keys
        return [key for key, action in actions("question").items() if self._is_offered(action)]

    def press(self, key: str, *, seen: bool = True) -> Step[Approval]:
        """Take a single key; nothing is approved before the command was `seen` to its end."""
        now = replace(self, note="")
        if self._granting:
            if key not in self._offer_keys:
                return now
            if not seen:
                return now._ask_to_read()
            approve = self.subject.decision("approve")
            if self.page == "allow_reads":
                return Answered(Approval(approve, reads=True))
            chosen = self._offers[self._offer_keys.index(key)]
            return Answered(Approval(approve, chosen, self.page == "allow_project"))
        action = actions("question").get(key, "")
        return now._ask_to_read() if action == "approve" and not seen else now._act(action)

    def _ask_to_read(self) -> ApprovalQuestion:
        note = _("Read the whole command first: press [space].")
        return replace(self, page="choose", note=note)

    def _is_offered(self, action: str) -> bool:
        denied = self.subject.verdict.kind == "deny"  # by a mode that was chosen meanwhile
        missing = {
            "approve": denied,
            "edit": not self.subject.editable,
            "reveal": self.masked is None,
            "allow_session": denied or not self.subject.offers,
            "allow_project": denied or not self.subject.lasting,
            "allow_reads": not self.subject.only_reads,
            "each": True,
        }
        return not missing.get(action, False)

    def _act(self, action: str) -> Step[Approval]:
        match action:
            case "approve" if self.subject.dangerous:
                return replace(self, page="confirm")
            case "approve":
                return Answered(Approval(self.subject.decision("approve")))
            case "reject":
                return replace(self, page="reason")
            case "edit" | "allow_session" | "allow_project" | "allow_reads":
                return replace(self, page=action) if self._is_offered(action) else self
            case "explain":
                return replace(self, explained=not self.explained)
            case "reveal" if self._is_offered(action):
                return replace(self, revealed=not self.revealed)
            case "stop":
                return Stopped()
        return self

    def words(self, text: str) -> Step[Approval]:
        """Reject with `text` as the reason."""
        return Answered(Approval(self.subject.decision("reject", text)))

    def entered(self, text: str) -> Step[Approval]:
        """Take the words that the page wanted."""
        back = replace(self, page="choose", note="")
        match self.page:
            case "reason":
                return self.words(text)
            case "confirm" if text.strip().lower() in self.subject.confirming:
                return Answered(Approval(self.subject.decision("approve")))
            case "confirm":
                note = _("Not run. To run it, press {key} again and type yes.")
                if self.subject.on_hosts:
                    note = _("Not run. To run it, press {key} again and type the number of hosts.")
                return replace(back, note=note.format(key=letter("approve")))
            case "edit":
                decision = self.subject.edit(text)
                if decision is not None:
                    return Answered(Approval(decision))
                return replace(back, note=_("Nothing changed."))
            case "allow_session" | "allow_project" | "allow_reads":
                step = self.press(text.strip())
                return step if isinstance(step, Answered) else back
        return self

    def back(self) -> Step[Approval] | None:
        """Return to the keys of the question."""
        return replace(self, page="choose", note="") if self.page != "choose" else None

    # --- whole lines ---------------------------------------------------------------------------

    def menu(self) -> Sequence[str]:
        """Return the answers with their letters."""
        word = self.subject.confirming[0] if self.subject.on_hosts else _("yes")
        keys = {"approve": word} if self.subject.dangerous else {}
        return [
            f"{keys.get(action) or letter(action)} = {words}"
            for action, _panel, words in self._answers()
        ]

    def typed(self, line: str) -> Step[Approval] | None:
        """Take a line that is exactly a letter or its word."""
        if self.subject.dangerous and self.subject.on_hosts and line in self.subject.confirming:
            return replace(self, page="confirm")
        action = action_of("question", line)
        return self._act(action) if action and self._is_offered(action) else None

    def ended(self) -> Approval:
        """Reject: silence approves nothing."""
        return Approval(self.subject.decision("reject", _("the input ended without an answer")))


@dataclass(frozen=True)
class TogetherQuestion(ApprovalQuestion):
    """Asks about commands that would run at once: all, none, or each by itself.

    `subjects` are all of them, of which `subject` is the first, and `shown` the same without their
    secrets.
    """

    subjects: tuple[Subject, ...] = ()
    shown: tuple[Subject, ...] = ()

    def text(self, painter: Painter, columns: int) -> QuestionText:
        """Return every command in full, below each other."""
        title = _("Run these {count} at once?").format(count=len(self.subjects))
        lines, must_see = painter.lines(Text(title, "heading"), columns), 0
        for subject in self.subjects if self.revealed else self.shown:
            found = subject.document(painter, columns, explained=self.explained)
            must_see = len(lines) + found.must_see
            lines += found.lines
        return QuestionText(lines, must_see)

    def transcript(self, painter: Painter, columns: int, answer: Answered[Approval] | None) -> str:
        """Return the commands, unless their frames or questions of their own show them."""
        if answer is not None and (answer.value.each or answer.value.decision.kind != "reject"):
            return ""
        return "".join(one.transcript(painter, columns) for one in self.shown)

    def _answers(self) -> list[tuple[str, str, str]]:
        words = {"approve": _("approve all"), "reject": _("reject all")}
        found = super()._answers()
        return [(key, words.get(key, short), words.get(key, line)) for key, short, line in found]

    def _is_offered(self, action: str) -> bool:
        if action == "reveal":
            return self.shown != self.subjects
        return action == "each" or (super()._is_offered(action) and action not in _OF_ONE)

    def _act(self, action: str) -> Step[Approval]:
        if action == "each":
            return Answered(Approval(self.subject.decision("reject"), each=True))
        return super()._act(action)


_OF_ONE = ("edit", "allow_session", "allow_project", "allow_reads")
