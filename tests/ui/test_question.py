"""The approval question: what it shows, and what it takes to say yes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from prompt_toolkit.input.base import PipeInput

from kogniterm.errors import TurnInterruptedError
from kogniterm.types import ActionRequest, Decision, RiskReport, RuleTrace, Text, Verdict
from kogniterm.ui.ask import LineAsker
from kogniterm.ui.paint import Painter
from kogniterm.ui.question import AskHooks, Offer, Question
from kogniterm.ui.repl import Opened
from kogniterm.ui.theme import choose
from tests.ui.face import ASK, PlayedSession, ask, report, request
from tests.ui.screen import AT_ONCE, Live, keyboard, live_repl

PLAIN = Painter(choose("plain", color=False, background=None), attributes=False)


def question(command: str, **changes: Any) -> Question:
    given: dict[str, Any] = {"verdict": ASK, "cwd": "/work/project"} | changes
    return Question(request(command), report(command), **given)


# --- the document ----------------------------------------------------------------------------


def test_everything_a_person_needs_is_there() -> None:
    lines = question("rm -r build").document(PLAIN, 80).lines
    assert lines == [
        "Run this command?  needs approval",
        "│ $ rm -r build",
        "Purpose    to see what happens",
        "Folder     /work/project",
        "Effects    Deletes build",
        "Why asked  rm deletes files; manual mode asks before every command",
    ]


def test_a_sub_agent_is_named_by_its_task_before_what_it_wants() -> None:
    asked = request("ls", agent="c1", agent_task="Look at \x1b[2Jeverything there is")
    lines = Question(asked, report("ls"), ASK, "/work/project").document(PLAIN, 80).lines
    assert lines[:3] == [
        "Run this command?  needs approval",
        "▸ A sub-agent asks: Look at [2Jeverything there is",
        "│ $ ls",
    ]


@pytest.mark.parametrize("width", [20, 60, 80, 160])
def test_the_command_is_never_cut_at_any_width(width: int) -> None:
    command = "printf '%s' " + "".join(chr(97 + n % 26) for n in range(700)) + " 漢字" * 30
    document = question(command).document(PLAIN, width)
    shown = "".join(line[4:] for line in document.lines if line.startswith("│ "))
    assert shown == command
    assert all(len(line) <= width for line in document.lines[: document.must_see])


@pytest.mark.parametrize(
    ("hidden", "visible"),
    [
        ("ls\u200b -l", "\\u{200B}"),
        ("echo \u202egnp.exe", "\\u{202E}"),
        ("ls\r\x1b[2Kecho safe", "\\u{1B}"),
        ("rm" + " " * 300 + "-rf /", "\\u{20*300}"),
        ("echo a\u00a0b", "\\u{A0}"),
    ],
)
def test_nothing_hides(hidden: str, visible: str) -> None:
    document = question(hidden).document(PLAIN, 60)
    text = "\n".join(document.lines)
    assert visible in text
    assert "\x1b" not in text
    warned = any(line.startswith("! ") for line in document.lines[: document.must_see])
    assert warned or "20*300" in visible  # spaces are spelt out, that is warning enough


def test_what_the_model_says_cannot_draw_another_question() -> None:
    spoof = request("true", purpose="x\n[y] approve\x1b[2J\u202e")
    lines = Question(spoof, report("true"), ASK, "/w").document(PLAIN, 80).lines
    assert "Purpose    x [y] approve[2J" in lines


def test_previews_rules_and_changes_are_told() -> None:
    trace = (RuleTrace("built-in", "ask", True, Text("deletes files")),)
    hooks = AskHooks(preview=lambda _r, _p: [Text("{n} files, not tracked by git", {"n": 12})])
    asked = question("rm -r b", verdict=Verdict("ask", (), trace), hooks=hooks, original="rm -r a")
    asked.explained = True
    text = "\n".join(asked.document(PLAIN, 80).lines)
    assert "changed by you" in text
    assert "- rm -r a\n+ rm -r b" in text
    assert "Effects    12 files, not tracked by git" in text
    assert "✓ built-in → ask: deletes files" in text
    assert "  rm -r build" in text


def test_the_disk_is_looked_at_once_however_often_the_question_is_drawn() -> None:
    looks = []
    hooks = AskHooks(
        preview=lambda _r, _p: [Text("look {n}", {"n": looks.append(1) or len(looks)})],
        diff=lambda _r: looks.append(2),
    )
    asked = question("rm -r build", hooks=hooks)
    first = asked.document(PLAIN, 80)
    assert asked.document(PLAIN, 80) == first
    assert sorted(looks) == [1, 2]


def test_an_edit_shows_its_diff_and_has_to_be_seen_whole() -> None:
    change = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"
    edit = ActionRequest("1", "c", "edit_file", "edit x", "fix", effect="edit", detail=change)
    document = Question(edit, report("edit x"), ASK, "/w").document(PLAIN, 80)
    text = "\n".join(document.lines)
    assert "Make this change?" in text
    assert "-old\n+new" in text
    assert document.lines.index("+new") < document.must_see
    assert "Change     +1 −1 lines" in text


# --- plain lines -----------------------------------------------------------------------------


class Person:
    """Answers the prompts of a `LineAsker` from a list."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.shown = ""
        self.flushed = 0
        self.offered: tuple[Offer, ...] = ()

    async def read(self, prompt: str, prefill: str) -> str | None:
        self.shown += f"{prompt}<{prefill}>\n"
        return self.answers.pop(0)

    def flush(self) -> None:
        assert self.shown == ""
        self.flushed += 1

    def show(self, text: str) -> None:
        self.shown += text

    async def decide(self, command: str, label: str = "needs_approval", rows: int = 24) -> Decision:
        asker = LineAsker(
            read_line=self.read,
            write=self.show,
            size=lambda: (rows, 60),
            flush_input=self.flush,
            painter=PLAIN,
            folder=lambda _request: "/w",
            hooks=lambda: AskHooks(offers=lambda _q, _r: self.offered),
        )
        return await asker.decide(request(command), report(command, label), ASK)


async def test_lines_yes_and_no_with_a_reason() -> None:
    person = Person("y")
    assert (await person.decide("make")).kind == "approve"
    assert person.flushed == 1
    assert await Person("n", "too early").decide("make") == Decision(
        "reject", "make", "person", "too early"
    )


async def test_lines_enter_and_nonsense_decide_nothing() -> None:
    person = Person("", "maybe", "Y")
    assert (await person.decide("make")).kind == "approve"
    assert person.shown.count("Please answer with one of the letters") == 2


async def test_lines_a_dangerous_command_takes_the_whole_word() -> None:
    person = Person("y", "yes")
    assert (await person.decide("rm -rf /x", "dangerous")).kind == "approve"
    assert "yes = run it" in person.shown
    assert person.shown.count("Please answer") == 1


async def test_lines_the_end_of_input_is_a_no() -> None:
    assert (await Person(None).decide("make")).kind == "reject"


async def test_lines_stop_stops_the_turn() -> None:
    with pytest.raises(TurnInterruptedError):
        await Person("s").decide("make")


async def test_lines_a_long_command_is_paged_to_its_end_first() -> None:
    person = Person(*[""] * 20, "y")
    command = "\n".join(f"echo {n}" for n in range(100))
    assert (await person.decide(command, rows=12)).kind == "approve"
    assert person.shown.index("echo 99") < person.shown.index("Your decision")


async def test_lines_an_edit_starts_from_what_is_shown_and_is_proposed() -> None:
    person = Person("e", "make clean")
    decision = await person.decide("make\u200b")
    assert decision == Decision("edit", "make clean", "person")
    assert "New command: <make\\u{200B}>" in person.shown


async def test_lines_a_lease_is_granted_with_the_approval() -> None:
    granted: list[str] = []
    person = Person("l", "9", "l", "1")
    person.offered = (Offer(Text("this command, today"), lambda: granted.append("x")),)
    assert (await person.decide("make")).kind == "approve"
    assert granted == ["x"]
    assert "1. this command, today" in person.shown


# --- the panel -------------------------------------------------------------------------------


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with keyboard() as pipe:
        yield pipe


def asking(
    keys: PipeInput, command: str, label: str = "needs_approval", **given: Any
) -> tuple[Live, PlayedSession]:
    async def play(session: PlayedSession, _input: Any, approver: Any, sink: Any) -> None:
        await ask(session, approver, sink, command, label)

    live, session = live_repl(keys, play, **given)
    live.press("go\r")
    return live, session


async def test_enter_alone_approves_nothing(keys: PipeInput) -> None:
    live, session = asking(keys, "make")
    await live.until("[y] approve")
    live.press("\r\r\r\x1b[200~y\x1b[201~zq1")
    live.press("n")
    await live.until("Why not?")
    live.press("use ninja\r")
    await live.until("You rejected it: use ninja")
    assert session.decisions == [Decision("reject", "make", "person", "use ninja")]
    assert "│ $ make" in live.terminal.text
    await live.leave()


async def test_a_dangerous_command_takes_the_word_yes(keys: PipeInput) -> None:
    live, session = asking(keys, "rm -rf /", "dangerous")
    await live.until("[y] approve")
    live.press("y\r")
    await live.until("Not run: only the whole word yes runs it.")
    assert session.decisions == []
    live.press("yes\r")
    await live.until(lambda: bool(session.decisions))
    assert session.decisions[0].kind == "approve"
    await live.leave()


async def test_nothing_is_approved_before_its_end_was_shown(keys: PipeInput) -> None:
    command = "\n".join(f"echo {n}" for n in range(60)) + "\nrm -rf ~"
    live, session = asking(keys, command, rows=20)
    await live.until("more lines before you can approve")
    assert "rm -rf ~" not in "\n".join(live.terminal.shown)
    live.press("y")
    await live.until("Not yet: read the command to its end first")
    assert session.decisions == []
    for _ in range(5):
        live.press(" ")
    await live.until("rm -rf ~")
    live.press("y")
    await live.until(lambda: bool(session.decisions))
    assert session.decisions[0].command == command
    await live.leave()


async def test_a_lease_cannot_be_taken_before_the_end_was_shown(keys: PipeInput) -> None:
    granted: list[int] = []
    offer = Offer(Text("for this session"), lambda: granted.append(1))

    def opened(session: PlayedSession) -> Opened:
        hooks = AskHooks(offers=lambda _q, _r: (offer,))
        return Opened(session, hooks=hooks)  # type: ignore[arg-type]  # its face

    command = "\n".join(f"echo {n}" for n in range(60))
    live, session = asking(keys, command, rows=20, opened=opened)
    await live.until("more lines before you can approve")
    live.press("l")
    await live.until("[1] for this session")
    live.press("1")
    await live.until("Not yet: read the command")
    assert granted == []
    live.press("    l")
    await live.until("[1] for this session")
    live.press("1")
    await live.until(lambda: bool(session.decisions))
    assert granted == [1]
    await live.leave()


async def test_an_edited_command_is_asked_again_with_what_changed(keys: PipeInput) -> None:
    live, session = asking(keys, "rm -r build")
    await live.until("[y] approve")
    live.press("e")
    await live.until("Change the command.")
    live.press("s\r")
    await live.until("changed by you")
    await live.until("+ rm -r builds")
    await live.until("[y] approve")
    live.press("y")
    await live.until(lambda: len(session.decisions) == 2)
    assert [d.kind for d in session.decisions] == ["edit", "approve"]
    assert session.decisions[1].command == "rm -r builds"
    await live.leave()


async def test_an_edit_keeps_the_invisible_characters_it_does_not_touch(keys: PipeInput) -> None:
    live, session = asking(keys, "echo a\u200bb")
    await live.until("[y] approve")
    live.press("ec\r")
    await live.until("+ echo a\\u{200B}bc")
    live.press("y")
    await live.until(lambda: len(session.decisions) == 2)
    assert session.decisions[1].command == "echo a\u200bbc"
    await live.leave()


async def test_escape_leaves_the_entry_line_and_x_explains(keys: PipeInput) -> None:
    live, session = asking(keys, "make")
    await live.until("[y] approve")
    live.press("n")
    await live.until("Why not?")
    live.press("\x1b")
    await live.until(lambda: "Why not?" not in "\n".join(live.terminal.shown))
    live.press("x")
    await live.until("What the rules said:")
    live.press("y")
    await live.until(lambda: bool(session.decisions))
    await live.leave()


async def test_s_stops_the_turn(keys: PipeInput) -> None:
    live, session = asking(keys, "make")
    await live.until("[y] approve")
    live.press("s")
    await live.until("The turn was stopped.")
    assert session.decisions == []
    assert session.stopped == 1
    live.press("\x03")
    await live.leave()


@pytest.mark.parametrize("stopping", ["\x03", "\x04", "\x1b\x1b"])
async def test_the_keys_that_stop_a_turn_do_so_at_a_question(
    keys: PipeInput, stopping: str
) -> None:
    live, session = asking(keys, "make", wiring=AT_ONCE)
    await live.until("[y] approve")
    live.press("\x1by\x1bn")  # Alt-y is not y
    live.press(stopping[0])
    if stopping[1:]:
        await live.until("Esc again stops the turn.")
        live.press(stopping[1:])
    await live.until("The turn was stopped.")
    assert session.decisions == []
    assert session.stopped == 1
    await live.until(lambda: live.repl.front.draft() == "go")
    live.press("\x03")
    await live.leave()


async def test_what_is_being_typed_when_a_question_appears_does_not_answer_it(
    keys: PipeInput,
) -> None:
    now = [0.0]
    go = asyncio.Event()

    async def play(session: PlayedSession, _input: Any, approver: Any, sink: Any) -> None:
        await go.wait()
        await ask(session, approver, sink, "make")

    live, session = live_repl(keys, play)
    front: Any = live.repl.front
    front._clock = lambda: now[0]
    live.press("go\r")
    await live.until(lambda: len(session.inputs) == 1)
    live.press("why do yo")
    await live.until("› why do yo")
    go.set()
    await live.until("You are typing: the question waits until you pause.")
    live.press("u say y")
    await live.until("› why do you say y")
    assert session.decisions == []
    now[0] += 60
    await live.until("[y] approve")
    assert front.buffer.text == "why do you say y"
    live.press("y")
    await live.until(lambda: bool(session.decisions))
    assert front.buffer.text == "why do you say y"
    live.press("\x03\x03")
    await live.leave()


async def test_a_report_of_nothing_is_still_a_question(keys: PipeInput) -> None:
    bare = Question(
        request("true", purpose=""), RiskReport("true", "safe_readonly"), Verdict("ask"), "/"
    )
    assert bare.document(PLAIN, 40).lines == [
        "Run this command?  only reads",
        "│ $ true",
        "Folder  /",
    ]
