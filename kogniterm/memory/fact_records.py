"""The values of memory: facts, preferences, lessons, recalls; and what may be one."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from kogniterm.errors import UnusableValueError, UsageError
from kogniterm.memory.sensitive_topics import personal_kind
from kogniterm.text.redact import find_secrets, holds_mark
from kogniterm.types import Phrase

DAY = 86_400.0
HALF_LIVES: Mapping[Category, float | None] = {
    "preference": 365.0,
    "requirement": 365.0,
    "project": 180.0,
    "feedback": 120.0,
    "learning": 60.0,
    "constraint": None,
    "fact": 730.0,
}
"""Days until confidence has halved; None never decays. Pinned facts never decay either."""

DORMANT_BELOW = 0.2
"""Effective confidence under which a fact stays out of prompts; it is still listed."""

RECENCY_HALF_LIFE = 180.0


def effective_confidence(fact: Fact, now: float) -> float:
    """Return the confidence of `fact` at `now` (seconds since the epoch): it decays with age."""
    half_life = HALF_LIVES[fact.category]
    if fact.pinned or half_life is None:
        return fact.confidence
    age = max(0.0, now - fact.last_confirmed) / DAY
    return float(fact.confidence * 2.0 ** (-age / half_life))


def is_dormant(fact: Fact, now: float) -> bool:
    """Return whether `fact` has faded too much to be shown to the model unasked."""
    return effective_confidence(fact, now) < DORMANT_BELOW


def recency(created: float, now: float) -> float:
    """Return 1 for a new fact, 0.5 after 180 days, towards 0."""
    return float(2.0 ** (-max(0.0, now - created) / DAY / RECENCY_HALF_LIFE))


Category = Literal[
    "preference", "requirement", "constraint", "feedback", "project", "learning", "fact"
]
Source = Literal["explicit", "inferred", "imported"]
Status = Literal["active", "pending", "superseded"]
Relation = Literal["same", "update", "detail", "other"]
"""The relation of a new statement to a known fact."""
Mode = Literal["off", "session", "full"]
"""`off`: nothing is read or written; `session`: read and short-term only; `full`: everything."""

CATEGORIES: tuple[Category, ...] = get_args(Category)
SOURCES: tuple[Source, ...] = get_args(Source)
STATUSES: tuple[Status, ...] = get_args(Status)
LONGEST_TEXT = 4000
"""Characters a fact may have; more than that is a document, not a fact."""

_LABEL = re.compile(r"\[?m?(\d{1,18})\]?", re.IGNORECASE)


class Origin(NamedTuple):
    """The origin of a fact: the session, the record in its journal, the user's words."""

    session_id: str = ""
    seq: int | None = None
    quote: str = ""


class Fact(NamedTuple):
    """One remembered statement. Times are seconds since the epoch.

    `project` is "" for a fact that holds everywhere. `slot` names the question that a fact answers
    ("editor", "test_command"): one active fact per slot and scope. `superseded_by` is the id of
    the fact that replaced it. `claim` is the source and pin by the file that a fact was imported
    from; exports pass it on, and it has no other effect.
    """

    id: int
    text: str
    category: Category = "fact"
    project: str = ""
    slot: str | None = None
    keywords: str = ""
    language: str = "en"
    confidence: float = 1.0
    source: Source = "explicit"
    status: Status = "active"
    created: float = 0.0
    last_confirmed: float = 0.0
    relevance_count: int = 0
    pinned: bool = False
    valid_from: float = 0.0
    valid_to: float | None = None
    superseded_by: int | None = None
    origin: Origin = Origin()
    claim: str = ""

    def checked(self) -> Fact:
        """Return the fact. Raises `UnusableValueError` for one that there cannot be."""
        if self.category not in CATEGORIES:
            raise UnusableValueError("unknown category {value}", value=self.category)
        if self.source not in SOURCES or self.status not in STATUSES:
            raise UnusableValueError(
                "unknown source or status: {source}, {status}",
                source=self.source,
                status=self.status,
            )
        if not self.text.strip() or len(self.text) > LONGEST_TEXT:
            raise UnusableValueError("a fact has 1 to {most} characters", most=LONGEST_TEXT)
        if not 0.0 <= self.confidence <= 1.0:
            raise UnusableValueError("the confidence must be between 0 and 1")
        return self

    @property
    def label(self) -> str:
        """The id as users and answers cite it: `m7`."""
        return f"m{self.id}"


class Recall(NamedTuple):
    """A fact that answers a question. `score` orders recalls of one search, nothing else.

    `confidence` is the decayed one, as of the search.
    """

    id: int
    text: str
    score: float
    category: Category
    confidence: float
    source: Source
    created: float
    project: str = ""
    pinned: bool = False
    why: Phrase = Phrase("")

    @property
    def label(self) -> str:
        """The id as users and answers cite it: `m7`."""
        return f"m{self.id}"


class Preference(NamedTuple):
    """A typed setting or stated preference; `project` is "" when it holds everywhere."""

    key: str
    value: object
    project: str = ""
    source: Source = "explicit"
    updated: float = 0.0


PLAN = "plan: "
"""The beginning of the shape of a plan; the rest are its steps."""


class Lesson(NamedTuple):
    """The outcome of a command or plan. `shape` is the command without its operands.

    With `failed`, a command that failed, `shape` is the whole command that worked in its place; or
    the same command again, once `fix` was done. `exit_code` and `note`, the line with the error,
    are those of the failure. `wording` is the user's own text in place of all this.
    """

    id: int
    task: str
    shape: str
    ok: bool
    exit_code: int | None
    seconds: float
    note: str
    created: float
    times: int = 1
    session_id: str = ""
    failed: str = ""
    fix: str = ""
    wording: str = ""

    @property
    def label(self) -> str:
        """The id as users see it: `l3`."""
        return f"l{self.id}"

    @property
    def told(self) -> Phrase:
        if self.wording:
            return Phrase("{text}", {"text": self.wording})
        if self.fix:
            return Phrase(
                "“{command}” failed; it worked after: {fix}",
                {"command": self.failed, "fix": self.fix},
            )
        if self.failed:
            return Phrase(
                "use “{worked}”, not “{failed}”", {"worked": self.shape, "failed": self.failed}
            )
        if self.shape.startswith(PLAN):
            steps = {"steps": self.shape.removeprefix(PLAN)}
            if self.ok:
                return Phrase("a plan worked: {steps}", steps)
            return Phrase("a plan failed: {steps}", steps)
        if self.ok:
            return Phrase("“{command}” worked", {"command": self.shape})
        return Phrase("“{command}” failed", {"command": self.shape})

    @property
    def evidence(self) -> str:
        """The exit status and the line with the error of what failed; "" when nothing did."""
        code = "" if self.exit_code is None or (self.ok and not self.failed) else self.exit_code
        parts = [f"exit {code}" if code != "" else "", self.note]
        return ": ".join(filter(None, parts))


class Message(NamedTuple):
    """A message as memory reads it; texts of the role `tool` are never a source of facts."""

    seq: int
    role: Literal["person", "model", "tool", "memory"]
    text: str
    time: float = 0.0


class Candidate(NamedTuple):
    """A statement that may become a fact; with `project` "" it holds everywhere."""

    text: str
    category: Category = "fact"
    slot: str | None = None
    confidence: float = 1.0
    source: Source = "explicit"
    keywords: str = ""
    project: str = ""
    created: float | None = None
    pinned: bool = False
    origin: Origin = Origin()


class StoredChange(NamedTuple):
    """The result of offering a statement to memory."""

    kind: Literal["added", "confirmed", "superseded", "pending", "rejected"]
    fact: Fact | None
    reason: Phrase
    replaced: Fact | None = None


class MemoryAuditEntry(NamedTuple):
    """An operation on a fact, by whom and when; never the text of the fact."""

    id: int
    time: float
    operation: str
    fact_id: int | None
    who: str


def fact_id(value: int | str) -> int:
    """Return the number in `7`, `m7` or `[m7]`. Raises `UsageError` for anything else."""
    if isinstance(value, int):
        return value
    match = _LABEL.fullmatch(value.strip())
    if match is None:
        raise UsageError("{value} is not a fact ID; fact IDs look like m7.", value=value)
    return int(match.group(1))


def why_not_kept(*texts: str) -> Phrase | None:
    """Return why a statement made of `texts` must not be remembered; None when it may be.

    The mark of a redacted secret counts as a secret: without it the statement says nothing.
    """
    if any(holds_mark(text) or find_secrets(text) for text in texts):
        return Phrase("it contains a secret, and memory does not store secrets")
    if any(map(personal_kind, texts)):
        return Phrase(
            "it is about someone's health, faith, politics, documents, telephone or home, and "
            "memory does not store such facts"
        )
    return None


@functools.lru_cache(maxsize=4096)
def may_be_recalled(text: str) -> bool:
    """Return whether a fact may be shown to a model; older versions stored more than this one."""
    return not find_secrets(text) and personal_kind(text) is None


CITED = re.compile(r"\[m(\d{1,18})\]")
"""A fact that an answer cites."""


def quoted(text: str) -> str:
    """Return `text` on one line, without marks that could end the block or start another fact.

    Facts that it cites are left out: they may be forgotten.
    """
    flat = " ".join(CITED.sub("", text).split()).replace("<", "‹").replace(">", "›")
    return '"' + flat.replace('"', "'").replace("[", "(").replace("]", ")") + '"'
