"""The port of extensions: their order, their rights, and what one of them cannot do to another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from kogniterm.approval import Circumstances, RuleSet
from kogniterm.installed import parts
from kogniterm.runtime.assembly import EXTENSIONS
from kogniterm.runtime.extensions.extension_port import (
    MOMENTS,
    ActingExtension,
    ActionFindings,
    ActionNotes,
    Choice,
    Extension,
    ExtensionPort,
    Moment,
    Right,
)
from kogniterm.runtime.services.policy_service import PolicyService
from kogniterm.runtime.services.sandbox_service import SandboxService
from kogniterm.runtime.turn_ports import Attached, ToolEnd, TurnIO
from kogniterm.types import ActionRequest, CommandResult, Phrase, RiskReport, UserInput, events

REQUEST = ActionRequest("a-1", "c-1", "execute_command", "touch x")
Shown = list[events.Event]


class Planted(Extension):
    """Says what a test wants at every moment, and notes what it heard."""

    def __init__(
        self,
        name: str,
        right: Right,
        choice: Choice = "",
        *,
        changes: Callable[[str], str] = lambda command: command,
        fails: BaseException | None = None,
    ) -> None:
        self.name = name  # type: ignore[misc]
        every: tuple[Moment, ...] = ("before_input", "before_action", "after_action", "closed")
        self.moments: Mapping[Moment, Right] = dict.fromkeys(every, right)  # type: ignore[misc]
        self.choice, self.changes, self.fails = choice, changes, fails
        self.heard: list[str] = []

    async def before_input(self, given: UserInput, io: TurnIO) -> Attached | Phrase:
        self.heard.append(given.text)
        return Phrase("no") if self.choice == "deny" else Attached(f"{self.name} adds")

    async def before_action(
        self, request: ActionRequest, sink: object, *, changing: bool
    ) -> ActionFindings:
        self.heard.append(request.command)
        command = self.changes(request.command)
        changed = ActionRequest("a-1", "c-1", "execute_command", command)
        reasons = (Phrase(f"{self.name} says so"),) if self.choice else ()
        return ActionFindings(changed, self.choice, self.name, reasons, f"{self.name} was here")

    async def after_action(
        self, request: ActionRequest, end: CommandResult | str, sink: object
    ) -> ActionNotes:
        if self.fails is not None:
            raise self.fails
        return ActionNotes(f"after {self.name}", Phrase("stop") if self.choice == "deny" else None)

    async def closed(self, reason: str) -> Sequence[Phrase]:
        self.heard.append(reason)
        if self.fails is not None:
            raise self.fails
        return [Phrase(f"{self.name} closed")]


def driver() -> TurnIO:
    return TurnIO(None, sink=lambda event: None)  # type: ignore[arg-type]


async def judged(*extensions: Extension) -> ActionFindings:
    return await ExtensionPort(extensions).before_action(REQUEST, lambda event: None)


@pytest.mark.parametrize(
    ("choices", "choice", "by"),
    [
        (("ask", "deny"), "deny", "b"),
        (("deny", "allow"), "deny", "a"),
        (("deny", "deny"), "deny", "a"),
        (("allow", "ask"), "ask", "b"),
        (("", "allow"), "allow", "b"),
    ],
)
async def test_the_strictest_of_several_counts(
    choices: tuple[Choice, Choice], choice: str, by: str
) -> None:
    first, second = (Planted(*one) for one in zip("ab", ("block",) * 2, choices, strict=True))
    found = await judged(first, second)
    assert (found.choice, found.by, found.trace.origin) == (choice, by, f"hook {by}")
    assert second.heard == ([] if choices[0] == "deny" else ["touch x"])


async def test_all_hear_a_changed_action_and_nothing_said_on_the_first_allows_it() -> None:
    """The first allows what the second makes something else of."""
    strict = Planted("strict", "block", "allow")
    changing = Planted("changing", "block", changes=lambda command: f"{command}; rm y")
    strict.before_action = refusing(strict, "rm")  # type: ignore[method-assign]
    found = await judged(strict, changing)
    assert found.request.command == "touch x; rm y"  # not changed twice
    assert strict.heard == ["touch x", "touch x; rm y"]
    assert found.choice == "deny"


def refusing(extension: Planted, word: str) -> Callable[..., object]:
    own = extension.before_action

    async def before_action(
        request: ActionRequest, sink: object, *, changing: bool
    ) -> ActionFindings:
        extension.choice = "deny" if word in request.command else "allow"
        return await own(request, sink, changing=changing)

    return before_action


@pytest.mark.parametrize("right", ["watch", "add"])
async def test_one_without_the_right_neither_refuses_nor_changes(right: Right) -> None:
    one = Planted("one", right, "deny", changes=str.upper)
    port, shown = ExtensionPort([one]), Shown()
    assert (await judged(one)) == ActionFindings(REQUEST)
    assert await port.before_input(UserInput("go"), driver()) is None
    await port.add_to_input(UserInput("go"), driver())
    assert port.take_added() == Attached()
    notes = await port.after_action(REQUEST, "done", shown.append)
    assert notes == ActionNotes("[one:]\nafter one" if right == "add" else "")


async def test_one_that_fails_after_an_action_costs_neither_outcome_nor_notes() -> None:
    failing = Planted("failing", "block", fails=RuntimeError("broken"))
    port, shown = ExtensionPort([failing, Planted("other", "block", "deny")]), Shown()
    notes = await port.after_action(REQUEST, "done", shown.append)
    assert notes == ActionNotes("[other:]\nafter other", Phrase("stop"))
    assert [type(one) for one in shown] == [events.Notice]


async def test_an_interruption_after_an_action_is_kept_until_the_outcome_is_recorded() -> None:
    port = ExtensionPort(
        [Planted("a", "block"), Planted("b", "add", fails=asyncio.CancelledError())]
    )
    notes = await port.after_action(REQUEST, "done", lambda event: None)
    assert (notes.note, notes.cancelled) == ("[a:]\nafter a", True)
    with pytest.raises(asyncio.CancelledError):
        notes.conclude()


async def test_words_before_and_after_an_action_come_with_its_result_once() -> None:
    port = ExtensionPort([Planted("a", "block")])
    await port.before_action(REQUEST, lambda event: None)
    notes = await port.after_action(REQUEST, "done", lambda event: None)
    assert notes.note == "[a:]\na was here\nafter a"
    assert port.take_notes(REQUEST) == ""


async def test_what_was_added_to_an_input_that_got_no_turn_is_not_added_to_the_next() -> None:
    port = ExtensionPort([Planted("a", "block")])
    await port.before_input(UserInput("forget it"), driver())
    await port.before_input(UserInput("go"), driver())
    assert port.take_added().text == "a adds"
    assert port.take_added().text == ""


async def test_each_is_closed_although_one_fails() -> None:
    last = Planted("last", "watch")
    with pytest.raises(RuntimeError):
        await ExtensionPort([Planted("first", "watch", fails=RuntimeError()), last]).closed("exit")
    assert last.heard == ["exit"]


METHODS: Mapping[Moment, tuple[str, ...]] = {
    "connect": ("connect",),
    "opened": ("opened",),
    "before_input": ("before_input",),
    "offer_tools": ("tools", "unneeded", "catalogue", "agents", "news"),
    "before_action": ("before_action", "asking", "before_compaction"),
    "after_action": ("after_action", "before_end"),
    "closed": ("closed",),
}


@pytest.mark.parametrize("one", [*EXTENSIONS, *parts("EXTENSIONS")], ids=lambda one: one.name)
def test_each_states_the_moments_at_which_it_does_something(one: type[Extension]) -> None:
    assert set(METHODS) == set(MOMENTS)
    own = {name for kind in one.mro() if kind is not Extension for name in vars(kind)}
    acts = {moment for moment, methods in METHODS.items() if own & {*methods}}
    assert acts == set(one.moments)


class Own(ActingExtension):
    name = "own"
    moments: ClassVar = {}
    tool, effect = "own_tool", "external"

    def assess(self, request: ActionRequest) -> RiskReport:
        return RiskReport(request.command, "dangerous")

    async def act(self, request: ActionRequest, report: RiskReport, sink: object) -> ToolEnd:
        return ToolEnd("")

    async def recover(self, request: ActionRequest, sink: object) -> ToolEnd:
        return ToolEnd("")


def test_one_acts_for_its_own_tool_alone_and_judges_it(tmp_path: Path) -> None:
    port = ExtensionPort([Own()])
    policy = PolicyService(
        str(tmp_path), SandboxService(None), Circumstances(), RuleSet(()), lambda: 0.0,
        acting_for=port.acting_for,
    )  # fmt: skip
    for tool, effect, label in (
        ("own_tool", "external", "dangerous"),
        ("other", "external", "needs_approval"),
        ("own_tool", "network", "needs_approval"),
    ):
        request = ActionRequest("a-1", "c-1", tool, "do it", effect=effect)  # type: ignore[arg-type]
        assert policy.assess(request, str(tmp_path)).label == label
        assert (port.acting_for(request) is not None) == (label == "dangerous")


async def test_a_replay_has_none() -> None:
    assert (await judged()) == ActionFindings(REQUEST)
    assert not ExtensionPort().follows(REQUEST)
