"""Questions of sessions that wait for an answer without a process, and the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kogniterm.types.actions import ActionRequest, RiskReport, Verdict
from kogniterm.types.localized import Phrase
from kogniterm.types.turn_values import Plan

QuestionKind = Literal["action", "plan", "question", "unknown"]
"""A question about an action, a plan, of the model, or about a command of unknown outcome."""

AnswerChoice = Literal[
    "approve", "reject", "edit", "checks", "edits", "words", "check", "again", "skip"
]
"""`checks` and `edits` start a plan and grant that; `words` answer the model; the last three are
about a command of unknown outcome."""

CHOICES: Mapping[QuestionKind, tuple[AnswerChoice, ...]] = {
    "action": ("approve", "reject", "edit"),
    "plan": ("approve", "checks", "edits", "reject"),
    "question": ("words",),
    "unknown": ("check", "again", "skip"),
}
"""The answers that each kind of question takes."""


@dataclass(frozen=True, slots=True)
class ParkedQuestion:
    """A question at which a session waits, with all that the terminal would show.

    `digest` stands for exactly this question: an answer names it. `title` is the question of the
    model or the command in one line, `host` the machine where it came up. `preview` tells effects
    as they were found on that machine's disk. For a command of unknown outcome, `output` is what it
    wrote so far. `about` is what else an answer is for: request, use, states of files. `ignored` is
    why a stored answer does not count. `grants` is whether an answer that starts a plan may grant
    more with it.
    """

    digest: str
    kind: QuestionKind
    title: str
    host: str
    folder: str
    request: ActionRequest | None = None
    report: RiskReport | None = None
    verdict: Verdict | None = None
    preview: tuple[Phrase, ...] = ()
    plan: Plan | None = None
    previous: Plan | None = None
    lines: tuple[Phrase, ...] = ()
    answers: tuple[str, ...] = ()
    output: str = ""
    about: Mapping[str, str] = field(default_factory=dict)
    ignored: Phrase | None = None
    grants: bool = False


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The user's answer to the question with this digest; `by` is account and machine.

    It counts only with a `signature` by the user's key.
    """

    digest: str
    choice: AnswerChoice
    text: str = ""
    by: str = ""
    signature: str = ""
