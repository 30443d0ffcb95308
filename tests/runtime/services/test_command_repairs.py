"""Failed commands and what worked in their place: which belong together, and which do not."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from kogniterm.runtime.services.command_repairs import Repair, repairs
from kogniterm.sessions.records import (
    InputReceived,
    Judged,
    NodeRan,
    Outcome,
    OutcomeStatus,
    Record,
    RecordBody,
    Requested,
)
from kogniterm.types import (
    ActionRequest,
    CommandResult,
    NodeUpdate,
    Plan,
    PlanStep,
    RiskReport,
    UserInput,
    Verdict,
)
from kogniterm.types.actions import EffectClass
from kogniterm.types.command_results import Ended


@dataclass
class Journal:
    """Records written by hand, numbered as in a journal."""

    records: list[Record] = field(default_factory=list)
    turns: int = 0

    def add(self, body: RecordBody) -> None:
        self.records.append(Record(len(self.records) + 1, 0.0, body, "", ""))

    def task(self, text: str) -> Journal:
        self.turns += 1
        self.add(InputReceived(self.turns, UserInput(text), HumanMessage(text)))
        return self

    def plan(self, *status: str) -> Journal:
        steps = tuple(
            PlanStep(f"s{number}", "do it", status=one)  # type: ignore[arg-type]
            for number, one in enumerate(status, 1)
        )
        self.add(NodeRan(NodeUpdate("decide_action", plan=Plan("all", steps))))
        return self

    def ran(
        self,
        command: str,
        code: int | None = 0,
        text: str = "",
        *,
        ended: Ended = "exited",
        status: OutcomeStatus = "finished",
        looks: bool = False,
        agent: str = "",
    ) -> Journal:
        number = f"r{len(self.records)}"
        request = ActionRequest(number, number, "execute_command", command, agent=agent)
        self.add(Requested(request, "/w", ""))
        label = "safe_readonly" if looks else "needs_approval"
        self.add(Judged(number, RiskReport(command, label), Verdict("ask")))
        result = CommandResult(command, ended, code, text, 0.1, "/w")
        kept = None if status == "refused" else result
        self.add(Outcome(number, status, ToolMessage("x", tool_call_id=number), kept))
        return self

    def edited(self, path: str) -> Journal:
        number, effect = f"r{len(self.records)}", "edit"
        kind: EffectClass = effect  # type: ignore[assignment]
        request = ActionRequest(
            number, number, "edit_file", path, arguments={"path": path}, effect=kind
        )
        self.add(Requested(request, "/w", ""))
        self.add(Outcome(number, "finished", ToolMessage("x", tool_call_id=number)))
        return self

    def found(self) -> list[tuple[str, str, str]]:
        return [(one.failed, one.worked, one.fix) for one in repairs(self.records)]


NO_RULE = "make: *** No rule to make target 'unit'.  Stop."


@pytest.mark.parametrize(
    ("failed", "code", "worked"),
    [
        ("make unit", 2, "pytest -q tests/unit"),
        ("make test", 2, "python -m pytest -q"),
        ("gti status", 127, "git status"),
        ("docker-compose up -d", 127, "docker compose up -d"),
        ("python app.py", 127, "python3 app.py"),
        ("npm tset", 1, "npm test"),
        ("git push", 128, "git push -u origin main"),
        ("pytest tests/unti", 4, "pytest tests/unit"),
        ("cargo build --relase", 101, "cargo build --release"),
        ("pip install flaskk", 1, "pip install flask"),
        ("sudo systemctl restart ngin", 5, "sudo systemctl restart nginx"),
    ],
)
def test_what_worked_for_the_same_purpose_is_found(failed: str, code: int, worked: str) -> None:
    journal = Journal().task("run the unit tests")
    journal.ran(failed, code, "error: no").ran("ls", looks=True).ran(worked)
    assert journal.found() == [(failed, worked, "")]


@pytest.mark.parametrize(
    ("failed", "worked"),
    [
        ("make unit", "git status"),
        ("make unit", "rm -r build/unit"),
        ("make unit", "mkdir unit"),
        ("cargo build", "cargo fmt"),
        ("git push", "git status"),
        ("apt-get install heron", "python report.py"),
        ("curl https://heron.example.org", "pytest -q"),
        ("npm test", "npm install"),
    ],
)
def test_a_success_that_has_nothing_to_do_with_it_teaches_nothing(failed: str, worked: str) -> None:
    assert Journal().task("work").ran(failed, 1, "error: no").ran(worked).found() == []


def test_a_command_that_only_looks_takes_no_other_programs_place() -> None:
    journal = Journal().task("run the unit tests").ran("make unit", 2, NO_RULE)
    assert journal.ran("cat tests/unit/Makefile", looks=True).found() == []
    assert journal.ran("pytest tests/unit").found() == [("make unit", "pytest tests/unit", "")]


def test_finding_nothing_is_no_failure() -> None:
    journal = Journal().task("where is it?").ran("grep -rn heron src", 1, looks=True)
    assert journal.ran("grep -rn heron lib", looks=True).found() == []


def test_a_wrong_file_name_is_a_failure_to_look() -> None:
    journal = Journal().task("read it")
    journal.ran("cat readme.md", 1, "cat: readme.md: No such file or directory", looks=True)
    journal.ran("cat README.md", looks=True)
    assert journal.found() == [("cat readme.md", "cat README.md", "")]


@pytest.mark.parametrize(
    ("code", "ended", "status"),
    [
        (None, "stopped", "cancelled"),
        (None, "timeout", "finished"),
        (130, "exited", "finished"),
        (143, "signaled", "finished"),
        (1, "exited", "refused"),
        (1, "exited", "cancelled"),
        (1, "exited", "unknown"),
    ],
)
def test_what_was_interrupted_or_refused_teaches_nothing(
    code: int | None, ended: Ended, status: OutcomeStatus
) -> None:
    journal = Journal().task("test").ran("make unit", code, NO_RULE, ended=ended, status=status)
    assert journal.ran("pytest tests/unit").found() == []


def test_an_edit_that_fixed_the_same_command_is_named() -> None:
    journal = Journal().task("run it").ran("python app.py", 1, "SyntaxError: invalid syntax")
    journal.edited("app.py").ran("python app.py")
    assert journal.found() == [("python app.py", "python app.py", "edit app.py")]


def test_a_command_that_the_error_asks_for_is_named() -> None:
    journal = Journal().task("run it")
    journal.ran("python app.py", 1, "ModuleNotFoundError: No module named 'flask'")
    journal.ran("git status", looks=True).ran("pip install flask").ran("python app.py")
    assert journal.found() == [("python app.py", "python app.py", "pip install flask")]


def test_the_same_command_that_works_by_itself_later_teaches_nothing() -> None:
    journal = Journal().task("run it").ran("curl https://heron.example.org", 6, "could not")
    assert journal.ran("git commit -m x").ran("curl https://heron.example.org").found() == []


def test_several_failures_on_the_way_are_one_lesson() -> None:
    journal = Journal().task("run the unit tests").ran("make unit", 2, NO_RULE)
    journal.ran("make units", 2, NO_RULE).ran("pytest tests/unit")
    assert journal.found() == [("make unit", "pytest tests/unit", "")]


def test_a_later_turn_may_bring_the_success_but_not_a_much_later_one() -> None:
    journal = Journal().task("run the unit tests").ran("make unit", 2, NO_RULE)
    assert journal.task("use pytest").ran("pytest tests/unit").found() != []
    late = Journal().task("run the unit tests").ran("make unit", 2, NO_RULE)
    late.task("a").task("b").task("c").ran("pytest tests/unit")
    assert late.found() == []


def test_only_what_is_new_is_reported_and_with_its_task() -> None:
    journal = Journal().task("run the unit tests").ran("make unit", 2, NO_RULE)
    first = len(journal.records)
    journal.task("use pytest").ran("pytest tests/unit")
    (repair,) = repairs(journal.records, after=first)
    assert (repair.task, repair.exit_code, repair.output) == ("run the unit tests", 2, NO_RULE)
    assert isinstance(repair, Repair)
    assert repairs(journal.records, after=len(journal.records)) == []


def test_the_same_plan_step_joins_programs_without_a_common_word() -> None:
    journal = Journal().task("publish it").plan("active", "pending")
    journal.ran("twine upload dist/*", 1, "error: 403").ran("flit publish")
    assert journal.found() == [("twine upload dist/*", "flit publish", "")]
    other = Journal().task("publish it").plan("active", "pending")
    other.ran("twine upload dist/*", 1, "error: 403").plan("failed", "active").ran("flit publish")
    assert other.found() == []


def test_a_sub_agent_and_the_main_agent_do_not_mend_each_others_commands() -> None:
    journal = Journal().task("test").ran("make unit", 2, NO_RULE, agent="c1")
    assert journal.ran("pytest tests/unit").found() == []
