"""Whole turns: a scripted model, the real graph, journal and executor, and a scripted user."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kogniterm import settings
from kogniterm.approval import Unattended
from kogniterm.runtime.build import open_session
from kogniterm.runtime.session import LiveSession
from kogniterm.runtime.turn_ports import AtLimit
from kogniterm.types import (
    ActionRequest,
    Answer,
    Decision,
    Plan,
    PlanReview,
    RiskReport,
    UserInput,
    Verdict,
    events,
)
from tests.support.typing_user import holding

E = TypeVar("E")


@dataclass
class User:
    """A user who gives prepared decisions, one per question, and records what was asked."""

    decisions: list[Callable[[ActionRequest], Decision]] = field(default_factory=list)
    asked: list[tuple[ActionRequest, RiskReport, Verdict]] = field(default_factory=list)
    reviews: list[Callable[[Plan], PlanReview]] = field(default_factory=list)
    plans: list[tuple[Plan, Plan | None]] = field(default_factory=list)

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        self.asked.append((request, report, verdict))
        return self.decisions.pop(0)(request)

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Return the prepared review, or approve the plan if there is none."""
        self.plans.append((plan, previous))
        return self.reviews.pop(0)(plan) if self.reviews else PlanReview("approve", plan, "person")


def yes(request: ActionRequest) -> Decision:
    return Decision("approve", request.command, "person")


def no(reason: str) -> Callable[[ActionRequest], Decision]:
    return lambda request: Decision("reject", request.command, "person", reason)


def change_to(command: str) -> Callable[[ActionRequest], Decision]:
    return lambda request: Decision("edit", command, "person")


@dataclass
class Flow:
    """One session and every event its sinks received."""

    folder: Path
    environ: dict[str, str]
    flags: dict[str, object]
    events: list[Any] = field(default_factory=list)
    user: Any = None
    """The `User` who answers, or None."""
    at_limit: AtLimit | None = None
    session: Any = None
    """The open session, or None."""
    at_prompt: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, event: object) -> None:
        self.events.append(event)
        self.news.set()

    @property
    def data(self) -> Path:
        """The folder of databases and stored outputs."""
        return Path(self.environ["KOGNITERM_DATA_DIR"])

    def files_with(self, words: bytes) -> list[Path]:
        """Return the files of the session, the folder and what stands beside it with `words`."""
        return [*holding(self.data, words), *holding(self.folder.parent, words)]

    def open(self, session_id: str | None = None) -> LiveSession:
        loaded = settings.load(self.flags, environ=self.environ)
        self.session = open_session(
            loaded, folder=str(self.folder), session_id=session_id, environ=self.environ
        )
        return self.session

    def close(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    async def run(self, text: str | UserInput | None = "go") -> Answer:
        session = self.session or self.open()
        user_input = UserInput(text) if isinstance(text, str) else text
        approver = self.user or Unattended()
        return await session.run(
            user_input, approver=approver, sink=self.tell, at_limit=self.at_limit,
            at_prompt=self.at_prompt,
        )  # fmt: skip

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, wanted: Callable[[Any], bool]) -> None:
        """Wait until such an event was received."""
        async with asyncio.timeout(120):  # a guard against hanging, not a measure
            while not any(wanted(event) for event in self.events):
                self.news.clear()
                await self.news.wait()

    @property
    def results(self) -> list[Any]:
        return [event.result for event in self.of(events.CommandEnded)]

    @property
    def shown(self) -> list[str]:
        """The text of every message that the model received."""
        return [message.text for message in self.session.state.messages]


MakeFlow = Callable[..., Flow]


@pytest.fixture
async def make_flow(tmp_path: Path, memory_folder: Path) -> AsyncIterator[MakeFlow]:
    """Make flows that share one state folder; with `decisions` a user answers the questions.

    The databases are in memory, where syncing them costs nothing. A sandbox has a /dev/shm of its
    own: for a first flow in one they are on disk, where it has to hide them.
    """
    made: list[Flow] = []
    work = tmp_path / "work"
    work.mkdir()
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "KOGNITERM_WARM")
    environ = {name: os.environ[name] for name in kept}
    for kind in ("CONFIG", "CACHE"):
        environ[f"KOGNITERM_{kind}_DIR"] = str(tmp_path / kind.lower())

    def make(
        script: str = "replies: [{text: Hello.}]",
        decisions: Sequence[Callable[[ActionRequest], Decision]] | None = None,
        **flags: object,
    ) -> Flow:
        file = tmp_path / f"script-{len(made)}.yaml"
        file.write_text(script)
        given = {"model": f"scripted:{file}", "sandbox": "off", **flags}
        data = memory_folder if given["sandbox"] == "off" else tmp_path
        environ.setdefault("KOGNITERM_DATA_DIR", str(data / "data"))
        if decisions is None:
            given.setdefault("approval_mode", "auto")
        flow = Flow(work, dict(environ), given)
        flow.user = User(list(decisions)) if decisions is not None else None
        made.append(flow)
        return flow

    yield make
    for flow in made:
        if flow.session is not None:
            await flow.session.finish()
        flow.close()
