"""Where the analysis puts what it finds: the worst label so far, reasons, effects, programs."""

from __future__ import annotations

from kogniterm.approval.display import render
from kogniterm.approval.places import HOLE
from kogniterm.types import (
    RISK_LABELS,
    Effect,
    EffectKind,
    GitCall,
    RiskLabel,
    RiskReport,
    Text,
)

_RANK = {label: rank for rank, label in enumerate(RISK_LABELS)}
_MAX_REASONS = 24
_MAX_EFFECTS = 400
UNREAD = ("…",)
"""Stands among the programs for what could not be read."""


class Findings:
    """Collects facts about one command; only ever gets worse."""

    def __init__(self) -> None:
        self.label: RiskLabel = "safe_readonly"
        self._reasons: dict[str, tuple[int, Text]] = {}
        self._effects: dict[Effect, None] = {}
        self._programs: list[tuple[str, ...]] = []
        self._deciding: dict[str, None] = {}
        self._runs_input = False
        self._git_calls: dict[GitCall, None] = {}

    def note(self, label: RiskLabel, template: str, **values: object) -> None:
        """Raise the label to at least `label`, because of what the template says."""
        if _RANK[label] > _RANK[self.label]:
            self.label = label
        if len(self._reasons) >= _MAX_EFFECTS:
            return
        # A name or path of the command could otherwise hide characters in the reason itself.
        shown = {key: render(v) if isinstance(v, str) else v for key, v in values.items()}
        text = Text(template, shown)
        self._reasons.setdefault(str(text), (_RANK[label], text))

    def ask(self, template: str, **values: object) -> None:
        """Something a person must approve."""
        self.note("needs_approval", template, **values)

    def danger(self, template: str, **values: object) -> None:
        """Something nobody should approve lightly, and auto mode never does."""
        self.note("dangerous", template, **values)

    def effect(
        self, kind: EffectKind, target: str, *, outside: bool = False, source: str = ""
    ) -> None:
        """Record an effect; the number kept is bounded."""
        if len(self._effects) < _MAX_EFFECTS:
            self._effects[Effect(kind, target, outside, source)] = None
        else:
            self.unread()

    def program(self, argv: tuple[str, ...]) -> None:
        """Record a program that would run; beyond their bound, that there are more."""
        if len(self._programs) < _MAX_EFFECTS:
            self._programs.append(argv)
        elif self._programs[-1] != UNREAD:
            self._programs.append(UNREAD)

    def decides(self, path: str) -> None:
        """Record a file, perhaps one that is not there yet, whose content decides what runs."""
        if len(self._deciding) < _MAX_EFFECTS:
            self._deciding[path] = None

    def runs_input(self) -> None:
        """Record that a program runs what it reads: then every file read decides what runs."""
        self._runs_input = True

    def git_call(self, folder: str | None, *words: str) -> None:
        """Record that git is called in `folder`, None where that is not known, verb first."""
        known = folder is not None and HOLE not in folder and len(self._git_calls) < _MAX_EFFECTS
        self._git_calls[GitCall(folder if folder is not None and known else "", words)] = None

    def unread(self) -> None:
        """Record that something runs which nobody judged: no rule or lease may cover it."""
        self.program(UNREAD)

    def argvs(self) -> list[tuple[str, ...]]:
        """The programs found so far, in order."""
        return self._programs

    def has(self, kind: EffectKind) -> bool:
        """Whether an effect of this kind was found."""
        return any(effect.kind == kind for effect in self._effects)

    def report(self, command: str) -> RiskReport:
        """The facts, worst reasons first."""
        ordered = sorted(self._reasons.values(), key=lambda item: -item[0])
        return RiskReport(
            command,
            self.label,
            tuple(text for _, text in ordered[:_MAX_REASONS]),
            tuple(self._effects),
            tuple(self._programs),
            self._files_that_decide(),
            git_calls=tuple(self._git_calls),
        )

    def _files_that_decide(self) -> tuple[str, ...]:
        found = dict(self._deciding)
        if self._runs_input:
            kinds = ("read", "secret")
            found |= {e.target: None for e in self._effects if e.kind in kinds}
        return tuple(name for name in found if "…" not in name)
