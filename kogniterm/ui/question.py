"""What an approval question shows, as lines: the same document in the panel and in plain text.

The command comes first and in full, hard-wrapped at the cell, every invisible character made
visible. `Document.must_see` is the line that has to have been on the screen before approving.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import RenderableType
from rich.text import Text

from kogniterm.approval.policy import EVERY_COMMAND
from kogniterm.types import ActionRequest, Decision, RiskReport, Verdict
from kogniterm.types import Text as Message
from kogniterm.ui.approval_words import decision_text, effect_text, label_text, origin_text
from kogniterm.ui.clean import one_line
from kogniterm.ui.command_text import command_lines
from kogniterm.ui.diffs import diff, relative, summary, words
from kogniterm.ui.locale import _, translate
from kogniterm.ui.paint import Painter

BY_PERSON = "person"
_LABEL_STYLES = {
    "safe_readonly": "good",
    "workspace_write": "accent",
    "needs_approval": "warn",
    "dangerous": "bad",
}
_PREVIEWED = ("network", "privilege", "secret", "delete", "overwrite", "write", "create")
"""Effects that the preview tells more of than their names."""
_SAID_BY_EFFECTS = ("It deletes {path}.", "It writes {path}.")


@dataclass(frozen=True, slots=True)
class Offer:
    """A lease that may be granted together with the approval."""

    label: Message
    grant: Callable[[], None]


Preview = Callable[[ActionRequest, RiskReport], Sequence[Message]]


@dataclass(frozen=True, slots=True)
class AskHooks:
    """What other rooms add to a question; each is optional.

    `preview` gives lines about the effects (file counts, what would be overwritten, whether it
    can be undone), `diff` the unified diff of an edit, `offers` the leases that may be granted.
    """

    preview: Preview | None = None
    diff: Callable[[ActionRequest], str | None] | None = None
    offers: Callable[[ActionRequest, RiskReport], Sequence[Offer]] | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A question's lines; everything up to `must_see` has to be shown before approving."""

    lines: list[str]
    must_see: int


@dataclass(slots=True)
class Question:
    """An action request in front of a person. `original` is the command before they edited it.

    The disk is looked at once, when the question is first drawn: it is drawn anew several times a
    second for as long as it waits.
    """

    request: ActionRequest
    report: RiskReport
    verdict: Verdict
    cwd: str
    hooks: AskHooks = field(default_factory=AskHooks)
    original: str | None = None
    explained: bool = False
    _previewed: Sequence[Message] | None = field(default=None, init=False, repr=False)
    _changed: tuple[str | None] | None = field(default=None, init=False, repr=False)

    @property
    def editable(self) -> bool:
        """Only commands can be edited in place; other tools' arguments are data."""
        return self.request.effect == "command"

    @property
    def dangerous(self) -> bool:
        """Whether approving takes the whole word."""
        return self.report.label == "dangerous"

    def offers(self) -> Sequence[Offer]:
        """The leases that may be granted."""
        return self.hooks.offers(self.request, self.report) if self.hooks.offers else ()

    def approve(self) -> Decision:
        """The decision that runs exactly what was shown."""
        return Decision("approve", self.request.command, BY_PERSON)

    def edit(self, shown: str) -> Decision | None:
        """The decision that proposes `shown` (as `render` shows it) in its place; it is judged
        and asked again. None when nothing changed."""
        from kogniterm.approval.display import unrender

        command = unrender(shown)
        if not command.strip() or command == self.request.command:
            return None
        return Decision("edit", command, BY_PERSON)

    def reject(self, reason: str = "") -> Decision:
        """The decision that runs nothing."""
        return Decision("reject", self.request.command, BY_PERSON, reason.strip())

    def document(self, painter: Painter, width: int) -> Document:
        """The question at `width` columns."""
        lines = painter.lines(self._title(painter), width)
        lines += self._command_lines(painter, width)
        change = self._diff()
        if change:
            lines += painter.lines(diff(change), width)
        warnings = self._warnings(painter)
        for text in warnings:
            lines += painter.lines(text, width)
        must_see = len(lines)
        for fact in self._facts(painter):
            lines += [line.rstrip() for line in painter.paint(fact, width).splitlines()]
        return Document([line for line in lines if line.strip() or line == ""], must_see)

    def transcript(self, painter: Painter, width: int) -> str:
        """What stays in the scrollback of a question that was answered: title and command."""
        lines = painter.lines(self._title(painter), width) + self._command_lines(painter, width)
        change = self._diff()
        if change:
            lines += painter.lines(diff(change, limit=40), width)
        return "\n".join(lines) + "\n"

    def _title(self, painter: Painter) -> Text:
        text = Text()
        questions = {
            "command": _("Run this command?"),
            "edit": _("Make this change?"),
            "network": _("Use the network for this?"),
            "keystrokes": _("Send these keys?"),
        }
        text.append(questions.get(self.request.effect, _("Do this?")), "heading")
        text.append("  ")
        text.append(label_text(self.report.label), _LABEL_STYLES[self.report.label])
        if self.original is not None:
            text.append("  " + _("changed by you"), "accent")
        if self.request.agent:
            asks = _("A sub-agent asks: {task}").format(task=one_line(self.request.agent_task))
            text.append(f"\n{painter.symbol('active')} {asks}", "accent")
        return text

    def _command_lines(self, painter: Painter, width: int) -> list[str]:
        return command_lines(self.request.command, painter, width, dollar=self.editable)

    def _diff(self) -> str | None:
        if self._changed is None:
            hook = self.hooks.diff
            change = hook(self.request) if hook is not None else self.request.detail
            self._changed = (relative(change, self.cwd) if change else None,)
        return self._changed[0]

    def _warnings(self, painter: Painter) -> list[Text]:
        from kogniterm.approval.display import warnings

        return [
            Text.assemble((f"{painter.symbol('warn')} ", "bad"), (translate(text), "bad"))
            for text in warnings(self.request.command)
        ]

    def _facts(self, painter: Painter) -> list[RenderableType]:
        facts: list[RenderableType] = [*self._changes()] if self.original is not None else []
        facts.append(self._table())
        if self.explained:
            facts += self._explanation(painter)
        return facts

    def _table(self) -> RenderableType:
        """What a user decides by, one fact a row."""
        from rich.table import Table

        from kogniterm.approval.display import render_line

        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="muted", no_wrap=True)
        table.add_column(overflow="fold")
        if self.request.purpose:
            table.add_row(_("Purpose"), Text(one_line(self.request.purpose, 400)))
        table.add_row(_("Folder"), Text(render_line(self.cwd)))
        effects = self._effects()
        if effects:
            table.add_row(_("Effects"), Text("\n".join(effects)))
        reasons = self._reasons(told=bool(effects))
        if reasons:
            table.add_row(_("Why asked"), Text("; ".join(reasons)))
        change = self._diff()
        if change:
            table.add_row(_("Change"), summary(change))
        return table

    def _effects(self) -> list[str]:
        """What it does to the world: counted on the disk where that can be, else in words."""
        if self.hooks.preview is None:
            return [_sentence(effect_text(effect)) for effect in self.report.effects]
        if self._previewed is None:
            self._previewed = self.hooks.preview(self.request, self.report)
        other = [effect for effect in self.report.effects if effect.kind not in _PREVIEWED]
        told = (_sentence(effect_text(effect)) for effect in other)
        return [*told, *map(translate, self._previewed)]

    def _reasons(self, *, told: bool) -> list[str]:
        """Why it was asked, each once; what is `told` as an effect already is left out."""
        said = [*self.report.reasons, *self.verdict.reasons]
        if told:
            said = [text for text in said if text.template not in _SAID_BY_EFFECTS]
        if len(said) > 1:
            said = [text for text in said if text != EVERY_COMMAND]
        return list(dict.fromkeys(translate(text).rstrip(". ") for text in said))

    def _changes(self) -> list[Text]:
        from kogniterm.approval.display import render_line

        old, new = words(render_line(self.original or ""), render_line(self.request.command))
        return [Text.assemble("- ", old), Text.assemble("+ ", new)]

    def _explanation(self, painter: Painter) -> list[Text]:
        lines = [Text(_("What the rules said:"), "heading")]
        for trace in self.verdict.trace:
            sign = painter.symbol("done" if trace.matched else "pending")
            origin, arrow = origin_text(trace.origin), painter.symbol("arrow")
            words = f"{sign} {one_line(origin)} {arrow} {decision_text(trace.decision)}"
            lines.append(
                Text(f"  {words}: {translate(trace.reason)}", "" if trace.matched else "muted")
            )
        if not self.verdict.trace:
            lines.append(Text("  " + _("No rule spoke; asking is the default."), "muted"))
        if self.report.programs:
            lines.append(Text(_("Programs it starts:"), "heading"))
            from kogniterm.approval.display import render_line

            lines += [Text("  " + render_line(" ".join(argv))) for argv in self.report.programs]
        return lines


def _sentence(words: str) -> str:
    """Like the sentences it stands among."""
    return words[:1].upper() + words[1:]
