"""Where the analysis puts what it finds: the worst label so far, reasons, effects, programs."""

from __future__ import annotations

import re

from kogniterm.approval.analysis.path_kinds import HOLE
from kogniterm.text.visible import render
from kogniterm.types import RISK_LABELS, Effect, EffectKind, GitCall, Phrase, RiskLabel, RiskReport

_RANK = {label: rank for rank, label in enumerate(RISK_LABELS)}
_MAX_REASONS = 24
_MAX_EFFECTS = 400
UNREAD = ("…",)
"""Stands among the programs for what could not be read."""


class Findings:
    """Collects facts about one command; only ever gets worse."""

    def __init__(self) -> None:
        self.label: RiskLabel = "safe_readonly"
        self._reasons: dict[str, tuple[int, Phrase]] = {}
        self._effects: dict[Effect, None] = {}
        self.argvs: list[tuple[str, ...]] = []
        """The programs found so far, in order."""
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
        text = Phrase(template, shown)
        self._reasons.setdefault(str(text), (_RANK[label], text))

    def ask(self, template: str, **values: object) -> None:
        """Something a person must approve."""
        self.note("needs_approval", template, **values)

    def danger(self, template: str, **values: object) -> None:
        """Something nobody should approve lightly, and auto mode never does."""
        self.note("dangerous", template, **values)

    def scan(self, code: str, template: str) -> None:
        """Search code that is not parsed for the worst it visibly does: never a permission."""
        what = _worst(code)
        if what:
            self.danger(template, what=what)

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
        if len(self.argvs) < _MAX_EFFECTS:
            self.argvs.append(argv)
        elif self.argvs[-1] != UNREAD:
            self.argvs.append(UNREAD)

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

    def has(self, kind: EffectKind) -> bool:
        """Return whether an effect of this kind was found."""
        return any(effect.kind == kind for effect in self._effects)

    def report(self, command: str) -> RiskReport:
        """The facts, worst reasons first."""
        ordered = sorted(self._reasons.values(), key=lambda item: -item[0])
        return RiskReport(
            command,
            self.label,
            tuple(text for _, text in ordered[:_MAX_REASONS]),
            tuple(self._effects),
            tuple(self.argvs),
            self._files_that_decide(),
            git_calls=tuple(self._git_calls),
        )

    def _files_that_decide(self) -> tuple[str, ...]:
        found = dict(self._deciding)
        if self._runs_input:
            kinds = ("read", "secret")
            found |= {e.target: None for e in self._effects if e.kind in kinds}
        return tuple(name for name in found if "…" not in name)


_WORST = (
    (r"rm\s+(?:-\w+\s+)*-\w*[rRf]\w*\s+(?:--\S+\s+)*[\"']?(?:/|~|\$HOME|\*|\.\.?(?:[\"'\s]"
        r"|$))", "deletes far more than one file"),
    (r"rmtree\(\s*(?:[\"'](?:/|~|\.\.)|os\.path\.expanduser|Path\.home"
        r"|[\"']\.[\"'])", "deletes whole folders"),
    (r"rm_rf|rimraf|rmSync\([^)]*recursive|removeSync|File::Path.*(?:rmtree"
        r"|remove_tree)", "deletes whole folders"),
    (r"mkfs|/dev/(?:sd|nvme|hd|vd|mmcblk|mem)|dd\s+if=", "writes to a disk"),
    (r"socket.*(?:dup2|subprocess|pty\.spawn|/bin/(?:ba)?sh|exec)|pty\.spawn|/dev/tcp/"
        r"|fsockopen.*exec", "gives a shell to the network"),
    (r"(?:curl|wget)[^|;&]*\|\s*(?:ba|z|da)?sh\b|exec\(\s*(?:urllib"
        r"|requests)", "runs code that comes from the network"),
    (r":\(\)\s*\{|while\s+(?:True|1)\s*:?\s*os\.fork|fork\s+while\s+fork"
        r"|os\.fork\(\)\s*while", "starts processes without end"),
    (r"os\.kill\(\s*-1|kill\s+-9\s+-1", "ends every process"),
    (r"authorized_keys|/etc/(?:passwd|shadow|sudoers|cron)|\.bashrc"
        r"|\.ssh/", "touches files other programs obey"),
    (r"base64.{0,40}(?:b64decode|decode64|-d).{0,60}(?:exec|eval|system)|(?:exec"
        r"|eval)\(.{0,60}(?:b64decode|decode64|unhexlify|fromhex|atob"
            r"|marshal)", "runs text that was decoded out of sight"),
)  # fmt: skip

_PUT_TOGETHER = re.compile(r"\$\{?IFS\}?|[{},]")
"""How a shell joins words without blanks: braces and the separator variable."""


def _worst(code: str) -> str | None:
    """The most dangerous pattern found in code that is not parsed, in words."""
    plain = _PUT_TOGETHER.sub(" ", code[:20000])
    for pattern, what in _WORST:
        if re.search(pattern, code[:20000], re.DOTALL) or re.search(pattern, plain, re.DOTALL):
            return what
    return None
