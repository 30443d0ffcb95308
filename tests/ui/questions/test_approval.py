"""The approval question: its contents, and the keys that approve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from prompt_toolkit.input.base import PipeInput

from kogniterm.approval.analysis.shared_findings import DELETES_FILE, USES_NETWORK
from kogniterm.approval.policy.leases import Offer
from kogniterm.approval.policy.verdict import EVERY_COMMAND
from kogniterm.errors import TurnInterruptedError
from kogniterm.types import ActionRequest, Decision, Effect, Phrase, RiskReport, RuleTrace, Verdict
from kogniterm.ui.asking_approver import AskingApprover
from kogniterm.ui.display import Display
from kogniterm.ui.locale import language, use_language
from kogniterm.ui.questions.approval import ApprovalQuestion, Subject, TogetherQuestion
from kogniterm.ui.questions.lines import LineQuestions
from kogniterm.ui.questions.question import Answered, ChoiceQuestion, QuestionText
from kogniterm.ui.repl import Opened
from kogniterm.ui.screen.screen_preferences import KeyTimes, Preferences
from kogniterm.ui.words.key_table import letter
from tests.support.language import in_spanish
from tests.ui.face import ASK, PLAIN, PlayedSession, PlayedUndo, ask, nothing, report, request
from tests.ui.live import AT_ONCE, Live, live_repl

SLOW = KeyTimes(600, 600, 600, 0.0)


def question(command: str, explained: bool = False, **changes: Any) -> ApprovalQuestion:
    given: dict[str, Any] = {"verdict": ASK, "cwd": "/work/project"} | changes
    subject = Subject(request(command), report(command), **given)
    return ApprovalQuestion(subject, explained=explained)


def drawn(asked: ApprovalQuestion, columns: int = 80) -> QuestionText:
    """Return what the panel shows of a question that has unlimited height."""
    return asked.document(PLAIN, columns, 1000)


# --- the document ----------------------------------------------------------------------------


def test_a_dangerous_command_on_hosts_takes_their_number_and_names_them_all() -> None:
    names = tuple(f"web{number}" for number in range(40))
    asks = replace(request("rm -rf /srv/old"), effect="hosts", tool="run_on_hosts", hosts=names)
    groups = (names[:1], names[1:])
    danger = replace(report("rm -rf /srv/old"), label="dangerous", groups=groups)
    asked = ApprovalQuestion(Subject(asks, danger, verdict=ASK, cwd="/work/project"))
    document = drawn(asked)
    shown = " ".join(document.lines[: document.must_see])
    assert all(name in shown.replace(",", " ").split() for name in names)
    assert "Run this on 40 hosts?  dangerous" in document.lines
    confirming = asked.press(letter("approve"))
    assert isinstance(confirming, ApprovalQuestion)
    for wrong in ("yes", "4", "400", "40 hosts", ""):
        refused = confirming.entered(wrong)
        assert isinstance(refused, ApprovalQuestion)
        assert "number of hosts" in refused.note
    approved = confirming.entered(" 40 ")
    assert isinstance(approved, Answered)
    assert approved.value.decision.kind == "approve"
    assert approved.value.offer is None
    assert not {"edit", "allow_session"} & {action for action, *_ in asked._answers()}


def test_everything_a_user_needs_is_there() -> None:
    lines = drawn(question("rm -r build"), 80).lines
    assert lines == [
        "Run this command?  needs approval",
        "│ $ rm -r build",
        "Purpose  to see what happens",
        "Folder   /work/project",
        "Effects  Deletes build",
        "Reason   rm deletes files; manual mode asks before every command",
    ]


def test_a_check_of_a_step_is_told_in_the_language_of_the_screen() -> None:
    checks = replace(request("test -f a", purpose="Check s1: Make a: b"), tool="complete_step")
    asked = ApprovalQuestion(Subject(checks, report("test -f a"), ASK, "/work/project"))
    assert "Check s1: Make a: b" in "\n".join(drawn(asked).lines)
    with in_spanish():
        assert "Comprobar s1: Make a: b" in "\n".join(drawn(asked).lines)


def test_reasons_end_at_a_readable_width_and_the_command_at_the_screens() -> None:
    command, words = "make " + "target " * 18, "a long purpose of it " * 12
    asked = ApprovalQuestion(
        Subject(request(command, purpose=words), report(command), ASK, "/work/project")
    )
    lines = drawn(asked, 160).lines
    assert f"│ $ {command.strip()}" in [line.strip() for line in lines]
    assert max(len(line) for line in lines if "purpose" in line) in range(85, 101)
    choice = ChoiceQuestion(words, [words], [])
    assert max(map(len, choice.document(PLAIN, 160, 50).lines)) in range(85, 101)


def test_a_sub_agent_is_named_by_its_task_before_what_it_wants() -> None:
    asked = request("ls", agent="c1", agent_task="Look at \x1b[2Jeverything there is")
    lines = drawn(ApprovalQuestion(Subject(asked, report("ls"), ASK, "/work/project")), 80).lines
    assert lines[:3] == [
        "Run this command?  needs approval",
        "▸ Proposed by a sub-agent, for the task: Look at \\u{1B}[2Jeverything there is",
        "│ $ ls",
    ]


@pytest.mark.parametrize("width", [20, 60, 80, 160])
def test_the_command_is_never_cut_at_any_width(width: int) -> None:
    command = "printf '%s' " + "".join(chr(97 + n % 26) for n in range(700)) + " 漢字" * 30
    document = drawn(question(command), width)
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
    document = drawn(question(hidden), 60)
    text = "\n".join(document.lines)
    assert visible in text
    assert "\x1b" not in text
    warned = any(line.startswith("! ") for line in document.lines[: document.must_see])
    assert warned or "20*300" in visible  # spaces are written out, which is warning enough


def test_what_the_model_says_cannot_draw_another_question() -> None:
    spoof = request("true", purpose="x\n[y] approve\x1b[2J\u202e")
    lines = drawn(ApprovalQuestion(Subject(spoof, report("true"), ASK, "/w")), 80).lines
    assert "Purpose  x [y] approve\\u{1B}[2J\\u{202E}" in lines


def test_previews_rules_and_changes_are_told() -> None:
    trace = (
        RuleTrace("floor", "deny", False, Phrase("none apply")),
        RuleTrace("built-in", "ask", True, Phrase("deletes files")),
    )
    asked = question(
        "rm -r b",
        verdict=Verdict("ask", (), trace),
        preview=[Phrase("{n} files, not tracked by git", {"n": 12})],
        original="rm -r a",
        explained=True,
    )
    text = "\n".join(drawn(asked, 80).lines)
    assert "edited by you" in text
    assert "- rm -r a\n+ rm -r b" in text
    assert "Effects  12 files, not tracked by git" in text
    assert "○ hard limits: none apply" in text
    assert "✓ built-in → ask: deletes files" in text
    assert "  rm -r build" in text


async def test_the_disk_is_looked_at_once_however_often_the_question_is_drawn(
    keys: PipeInput,
) -> None:
    looks: list[str] = []

    class Looking(PlayedUndo):
        def preview(self, request: ActionRequest, report: RiskReport) -> Sequence[Phrase]:
            looks.append(request.command)
            return [Phrase("look {n}", {"n": len(looks)})]

    def opened(session: PlayedSession) -> Opened:
        session.undo = Looking()
        return Opened(session)  # type: ignore[arg-type]  # its face

    live, session = asking(keys, "rm -r build", opened=opened)
    await live.until("[y] approve")
    assert "look 1" in live.terminal.text
    live.press("x")
    await live.until("How this was decided")
    await live.ready()
    live.press("y")
    await live.until(lambda: bool(session.decisions))
    assert looks == ["rm -r build"]
    await live.leave()


def test_the_most_telling_reason_comes_before_that_of_the_mode() -> None:
    found = (Phrase(DELETES_FILE, {"path": "a"}), Phrase(USES_NETWORK, {"program": "curl"}))
    for reason, shown in zip(found, ("Deletes files", "curl uses the network"), strict=True):
        risk = replace(report("rm a"), reasons=(reason,))
        subject = Subject(request("rm a"), risk, Verdict("ask", (EVERY_COMMAND,)), "/w")
        lines = drawn(ApprovalQuestion(subject)).lines
        assert [line for line in lines if line.startswith("Reason")] == [f"Reason   {shown}"]


def test_reasons_read_as_one_sentence() -> None:
    reasons = (
        Phrase("Runs outside the sandbox."),
        Phrase("KogniTerm stopped."),
        Phrase("Only reads."),
    )
    subject = Subject(
        request("ls"), replace(report("ls"), reasons=()), Verdict("ask", reasons), "/w"
    )
    text = " ".join(drawn(ApprovalQuestion(subject), 120).lines)
    assert "Runs outside the sandbox; KogniTerm stopped; only reads" in text


def test_an_edit_shows_its_diff_and_has_to_be_seen_whole() -> None:
    change = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"
    edit = ActionRequest("1", "c", "edit_file", "edit x", "fix", effect="edit", detail=change)
    subject = Subject(edit, report("edit x"), ASK, "/w")
    document = drawn(ApprovalQuestion(subject), 80)
    explained = drawn(ApprovalQuestion(subject, explained=True)).lines
    assert "Programs it starts:" not in explained
    text = "\n".join(document.lines)
    assert "Make this change?" in text
    assert "1 -old\n1 +new" in text
    assert document.lines.index("1 +new") < document.must_see


# --- the model -------------------------------------------------------------------------------


# --- plain lines -----------------------------------------------------------------------------


class ToldDisplay(Display):
    """A display that keeps what the user is told."""

    def __init__(self, preferences: Preferences) -> None:
        super().__init__(preferences)
        self.told: list[str] = []

    def say(self, text: Phrase, level: str = "info") -> None:
        self.told.append(str(text))

    def write(self, renderable: object) -> None:
        self.told.append(str(renderable))


class User:
    """A user who answers the prompts of `LineQuestions` from a list."""

    painter = PLAIN

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.shown = ""
        self.pauses = 0
        self.rows = 24
        self.session = PlayedSession(nothing, folder="/w")
        self.told: list[str] = []

    def size(self) -> tuple[int, int]:
        return self.rows, 60

    async def read_line(self, prompt: str, start: str = "", *, free: bool = False) -> str | None:
        self.shown += f"{prompt}<{start}>\n"
        return self.answers.pop(0)

    async def pause(self) -> None:
        assert "│ $ " in self.shown
        assert self.pauses or "Your decision" not in self.shown
        self.pauses += 1

    def commit(self, text: str) -> None:
        self.shown += text

    async def decide(self, command: str, label: str = "needs_approval", rows: int = 24) -> Decision:
        self.rows = rows
        return await self.approver().decide(request(command), report(command, label), ASK)

    async def decide_together(self, *commands: str) -> Sequence[Decision] | None:
        asked = [(request(command), report(command), ASK) for command in commands]
        return await self.approver().decide_together(asked)

    def approver(self) -> AskingApprover:
        display = ToldDisplay(Preferences(language=language()))
        self.told = display.told
        return AskingApprover(LineQuestions(self), self.session, display)  # type: ignore[arg-type]  # its face


def test_secrets_are_shown_when_the_user_wants_to_see_them() -> None:
    shown = Subject(request("login [secret:ab2c-1]"), report("login …"), ASK, "/w")
    subject = replace(shown, request=request("login hunter22"))
    asked = ApprovalQuestion(subject, shown)
    assert "hunter22" not in "".join(drawn(asked).lines)
    seen = asked.press("v")
    assert isinstance(seen, ApprovalQuestion)
    assert "hunter22" in "".join(drawn(seen).lines)
    assert "hunter22" not in seen.transcript(PLAIN, 80, None)
    again = seen.press("v")
    assert isinstance(again, ApprovalQuestion)
    assert "hunter22" not in "".join(drawn(again).lines)
    edits = asked.press("e")
    assert isinstance(edits, ApprovalQuestion)
    assert edits.entry is not None
    assert edits.entry.start == "login hunter22"
    answer = asked.press("y")
    assert isinstance(answer, Answered)
    assert answer.value.decision.command == "login hunter22"
    assert "v" not in ApprovalQuestion(subject).options()


def test_commands_that_run_at_once_are_all_shown_in_full_in_one_question() -> None:
    long = "make " + "target " * 60
    shown = tuple(
        Subject(request(command), report(command), ASK, "/w", number=number)
        for number, command in enumerate((long, "login [secret:ab2c-1]", "ls\u200b"), 1)
    )
    subjects = (shown[0], replace(shown[1], request=request("login hunter22")), shown[2])
    asked = TogetherQuestion(subjects[0], subjects=subjects, shown=shown)
    document = drawn(asked, 60)
    seen = document.lines[: document.must_see]
    assert seen[:2] == ["Run these 3 at once?", "1.  needs approval"]
    assert "".join(line[4:] for line in seen if line.startswith("│ ")).count("target ") == 60
    assert "│ $ login [secret:ab2c-1]" in seen
    assert "│ $ ls\\u{200B}" in seen
    assert sum(line.startswith("Reason") for line in document.lines) == 3
    assert [key for key, *_ in asked._answers()] == [
        "approve", "reject", "explain", "reveal", "each", "stop",
    ]  # fmt: skip
    assert not {"e", "a", "p", "r"} & set(asked.options())
    assert asked.press("e") == asked
    unseen = asked.press("y", seen=False)
    assert isinstance(unseen, TogetherQuestion)
    assert "Read the whole command first" in unseen.note
    revealed = asked.press("v")
    assert isinstance(revealed, TogetherQuestion)
    assert "hunter22" in "".join(drawn(revealed).lines)
    assert "hunter22" not in revealed.transcript(PLAIN, 80, None)


async def test_lines_decide_on_several_commands_together() -> None:
    commands = ("make", "ls")
    user = User("y")
    assert await user.decide_together(*commands) == [
        Decision("approve", command, "person") for command in commands
    ]
    assert "o = decide one by one" in user.shown
    assert "y = approve all" in user.shown
    assert await User("n", "not yet").decide_together(*commands) == [
        Decision("reject", command, "person", "not yet") for command in commands
    ]
    assert await User("o").decide_together(*commands) is None
    with pytest.raises(TurnInterruptedError):
        await User("s").decide_together(*commands)
    with in_spanish():
        assert await User("u").decide_together(*commands) is None


async def test_lines_yes_and_no_with_a_reason() -> None:
    user = User("y")
    assert (await user.decide("make")).kind == "approve"
    assert user.pauses == 1
    assert await User("n", "too early").decide("make") == Decision(
        "reject", "make", "person", "too early"
    )


async def test_lines_enter_and_nonsense_decide_nothing() -> None:
    user = User("", "ok", "Y")
    assert (await user.decide("make")).kind == "approve"
    assert user.shown.count("Answer with one of the keys") == 2


@pytest.mark.parametrize("words", ["yes but it my way", "y it", "why?", "yy", "s y", "no way"])
async def test_lines_words_are_a_reason_that_enter_sends(words: str) -> None:
    user = User(words, "")
    decision = await user.decide("make")
    assert decision == Decision("reject", "make", "person", words)
    assert user.shown.count("Press Enter to reject with this reason") == 1
    assert (await User(words, "y").decide("make")).kind == "approve"
    assert (await User("why?", "ok", "", "y").decide("make")).kind == "approve"


async def test_lines_in_spanish_the_letters_are_those_of_the_words() -> None:
    use_language("es")
    try:
        for word in ("s", "sí", "si", "y", "yes"):
            assert (await User(word).decide("make")).kind == "approve"
        with pytest.raises(TurnInterruptedError):
            await User("d").decide("make")
    finally:
        use_language("en")


async def test_lines_a_dangerous_command_takes_the_whole_word() -> None:
    user = User("y", "yes")
    assert (await user.decide("rm -rf /x", "dangerous")).kind == "approve"
    assert "yes = approve" in user.shown
    assert user.shown.count("Type the whole word yes") == 1


async def test_lines_the_end_of_input_is_a_no() -> None:
    assert (await User(None).decide("make")).kind == "reject"


async def test_lines_a_long_command_is_paged_to_its_end_first() -> None:
    user = User(*[""] * 20, "y")
    command = "\n".join(f"echo {n}" for n in range(100))
    assert (await user.decide(command, rows=12)).kind == "approve"
    assert user.shown.index("echo 99") < user.shown.index("Your decision")


async def test_lines_an_edit_starts_from_what_is_shown_and_is_proposed() -> None:
    user = User("e", "make clean")
    decision = await user.decide("make\u200b")
    assert decision == Decision("edit", "make clean", "person")
    assert "New command: <make\\u{200B}>" in user.shown


async def test_lines_a_lease_is_granted_with_the_approval() -> None:
    offered = (Offer("exact", Phrase("this command")), Offer("program", Phrase("this program")))
    for key, saved, heading in (("a", False, "in this session"), ("p", True, "in this project")):
        user = User(key, "9", key, "2")
        user.session.policy.offered = offered
        assert (await user.decide("make")).kind == "approve"
        assert user.session.policy.granted == [("program", saved)]
        assert f"do not ask again {heading} for:" in user.shown
        assert "2. this program" in user.shown
        saved_text = " ".join(user.told)
        assert ("Permission p1 saved in /nowhere/permissions.toml" in saved_text) is saved
        assert ("toml: " in saved_text) is saved


async def test_lines_the_only_permission_is_granted_by_its_number_too() -> None:
    user = User("a", "1")
    user.session.policy.offered = (Offer("exact", Phrase("this command")),)
    assert (await user.decide("make")).kind == "approve"
    assert user.session.policy.granted == [("exact", False)]
    assert "1. this command" in user.shown


async def test_lines_words_and_yes_grant_nothing() -> None:
    for words in ("a now", "always", "allow", "p please", "y"):
        user = User(words, "", "y")
        user.session.policy.offered = (Offer("exact", Phrase("this command")),)
        await user.decide("make")
        assert user.session.policy.granted == []


async def test_lines_a_kind_that_cannot_be_saved_is_offered_for_the_session_only() -> None:
    user = User("p", "y")
    user.session.policy.offered = (Offer("exact", Phrase("this command")),)
    user.session.policy.savable = False
    assert (await user.decide("make")).kind == "approve"
    assert user.session.policy.granted == []
    assert "p = always" not in user.shown
    assert "a = allow this session" in user.shown


async def test_lines_an_approval_holds_when_its_permission_cannot_be_saved() -> None:
    user = User("p", "1")
    user.session.policy.offered = (Offer("exact", Phrase("this command")),)
    user.session.policy.refuses_to_save = True
    assert (await user.decide("make")).kind == "approve"
    assert user.session.policy.granted == []
    assert "no space left" in " ".join(user.told)


# --- the panel -------------------------------------------------------------------------------


def on_screen(live: Live, words: str) -> Callable[[], bool]:
    """Return a check that `words` are on the screen now, not only above it."""
    return lambda: words in "\n".join(live.terminal.shown)


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
    await live.until("Enter: reject with this reason · Esc: back to the question")
    await live.until("› yzq1")
    live.press("\x03")
    await live.until(on_screen(live, "[n] reject"))
    live.press("n")
    await live.until("Optional reason for the model.")
    live.press("use ninja\r")
    await live.until("Rejected: make\n")
    await live.until("  use ninja")
    assert session.decisions == [Decision("reject", "make", "person", "use ninja")]
    assert "│ $ make" in live.terminal.text
    await live.leave()


async def test_a_dangerous_command_takes_the_word_yes(keys: PipeInput) -> None:
    live, session = asking(keys, "rm -rf /", "dangerous")
    await live.until("[y] approve")
    live.press("y")
    await live.until("Type yes and press Enter")
    assert live.prompt.entry.text == ""
    live.press("yyes\r")
    await live.until("Not run. To run it, press y again and type yes.")
    await live.until(on_screen(live, "[y] approve"))
    assert session.decisions == []
    live.press("y")
    await live.until(on_screen(live, "Type yes and press Enter"))
    live.press("yes\r")
    await live.until(lambda: bool(session.decisions))
    assert session.decisions[0].kind == "approve"
    await live.leave()


async def test_nothing_is_approved_before_its_end_was_shown(keys: PipeInput) -> None:
    command = "\n".join(f"echo {n}" for n in range(60)) + "\nrm -rf ~"
    live, session = asking(keys, command, rows=20)
    await live.until("lines left to read before approving")
    await live.ready()
    assert "rm -rf ~" not in "\n".join(live.terminal.shown)
    live.press("y")
    await live.until("Read the whole command first")
    await live.ready()
    assert session.decisions == []
    for _ in range(5):
        live.press(" ")
    await live.until(on_screen(live, "[y] approve"))
    assert "rm -rf ~" in "\n".join(live.terminal.shown)
    live.press("y")
    await live.until(lambda: bool(session.decisions))
    assert session.decisions[0].command == command
    await live.leave()


async def test_a_lease_cannot_be_taken_before_the_end_was_shown(keys: PipeInput) -> None:
    offer = Offer("effect", Phrase("what it changes"))

    def opened(session: PlayedSession) -> Opened:
        session.policy.offered = (offer,)
        return Opened(session)  # type: ignore[arg-type]  # its face

    command = "\n".join(f"echo {n}" for n in range(60))
    live, session = asking(keys, command, rows=20, opened=opened)
    await live.until("lines left to read before approving")
    await live.ready()
    live.press("a")
    await live.until("[1] what it changes")
    live.press("1")
    await live.until(lambda: live.prompt.keys.held == "1", "the key is held")
    live.press("\r")  # what is granted needs Enter
    await live.until("Read the whole command")
    assert session.policy.granted == []
    await live.ready()
    live.press("    ")
    await live.until(on_screen(live, "[a] allow this session"))
    live.press("a")
    await live.until(on_screen(live, "[1] what it changes"))
    live.press("1")
    await live.until(lambda: live.prompt.keys.held == "1", "the key is held")
    live.press("\r")  # what is granted needs Enter
    await live.until(lambda: bool(session.decisions))
    assert session.policy.granted == [("effect", False)]
    await live.leave()


async def test_an_edited_command_is_asked_again_with_what_changed(keys: PipeInput) -> None:
    live, session = asking(keys, "rm -r build")
    await live.until("[y] approve")
    live.press("e")
    await live.until("Edit the command.")
    live.press("s\r")
    await live.until("edited by you")
    await live.until("+ rm -r builds")
    await live.until(on_screen(live, "[y] approve"))
    live.press("y")
    await live.until(lambda: len(session.decisions) == 2)
    assert [d.kind for d in session.decisions] == ["edit", "approve"]
    assert session.decisions[1].command == "rm -r builds"
    await live.leave()


async def test_an_edit_keeps_the_invisible_characters_it_does_not_touch(keys: PipeInput) -> None:
    live, session = asking(keys, "echo a\u200bb")
    await live.until("[y] approve")
    live.press("e")
    await live.until("Edit the command.")
    live.press("c\r")
    await live.until("+ echo a\\u{200B}bc")
    await live.until(on_screen(live, "[y] approve"))
    live.press("y")
    await live.until(lambda: len(session.decisions) == 2)
    assert session.decisions[1].command == "echo a\u200bbc"
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


@pytest.mark.parametrize("stopping", ["\x03", "\x04", "\x1b"])
async def test_the_keys_that_stop_a_turn_do_so_at_a_question(
    keys: PipeInput, stopping: str
) -> None:
    live, session = asking(keys, "make", wiring=AT_ONCE)
    await live.until("[y] approve")
    live.press("\x1by\x1bn")  # Alt-y is not y
    live.press(stopping)
    await live.until("The turn was stopped.")
    assert session.decisions == []
    assert session.stopped == 1
    await live.until(lambda: live.repl.front.draft() == "go")
    live.press("\x03")
    await live.leave()


async def test_what_is_being_typed_when_a_question_appears_does_not_answer_it(
    keys: PipeInput,
) -> None:
    go = asyncio.Event()

    async def play(session: PlayedSession, _input: Any, approver: Any, sink: Any) -> None:
        await go.wait()
        await ask(session, approver, sink, "make")

    live, session = live_repl(keys, play)
    live.press("go\r")
    await live.until(lambda: len(session.inputs) == 1)
    live.press("why do yo")
    await live.until("› why do yo")
    go.set()
    await live.until("The question waits until you stop typing.")
    live.press("u say y")
    await live.until("› why do you say y")
    await live.until("Enter: reject with this reason · Esc: back to the question")
    live.press("\x1b")
    await live.until(on_screen(live, "[y] approve"))
    assert session.decisions == []
    live.press("y")
    await live.until(lambda: bool(session.decisions))
    assert session.decisions[0].kind == "approve"
    await live.until(
        lambda: live.prompt.line.buffer.text == "why do you say y", "the words are back"
    )
    live.press("\x03\x03")
    await live.leave()


async def test_words_and_enter_reject_with_them_as_the_reason(keys: PipeInput) -> None:
    live, session = asking(keys, "make")
    await live.until("[y] approve")
    live.press("y it my way")
    await live.until("› y it my way")
    await live.until("Enter: reject with this reason")
    live.press("\r")
    await live.until("Rejected: make\n")
    await live.until("  y it my way")
    assert session.decisions == [Decision("reject", "make", "person", "y it my way")]
    await live.leave()


@pytest.mark.parametrize("word", ["n", "no"])
async def test_no_and_enter_rejects_without_a_reason(keys: PipeInput, word: str) -> None:
    live, session = asking(keys, "make")
    await live.until("[y] approve")
    live.press(f"{word}\r")
    await live.until(lambda: bool(session.decisions))
    assert session.decisions == [Decision("reject", "make", "person", "")]
    await live.leave()


@pytest.mark.parametrize("word", ["yes", "ok", "y"])
async def test_words_that_look_like_an_answer_are_none(keys: PipeInput, word: str) -> None:
    live, session = asking(keys, "make")
    await live.until("[y] approve")
    live.press(word + "\r")
    await live.until("A typed answer does not count.")
    assert session.decisions == []
    live.press("\x03")
    await live.until(on_screen(live, "[y] approve"))
    live.press("y")
    await live.until(lambda: bool(session.decisions))
    assert session.decisions[0].kind == "approve"
    await live.leave()


async def test_a_slash_command_at_a_question_runs_and_the_question_stays(keys: PipeInput) -> None:
    live, session = asking(keys, "make")
    await live.until("[y] approve")
    live.press("/help stop")
    await live.until("Enter: run the command · Esc: back to the question")
    live.press("\r")
    await live.until("Unknown command /stop")
    live.press("/compact\r")
    await live.until(
        "/compact cannot run during a turn. Wait until it ends, or stop it with Ctrl-C."
    )
    await live.until(on_screen(live, "[y] approve"))
    assert session.decisions == []
    live.press("y")
    await live.until(lambda: bool(session.decisions))
    await live.leave()


async def test_a_key_held_down_answers_one_question_of_several(keys: PipeInput) -> None:
    async def play(session: PlayedSession, _input: Any, approver: Any, sink: Any) -> None:
        await ask(session, approver, sink, "make one")
        await ask(session, approver, sink, "make two")

    live, session = live_repl(keys, play, key_times=KeyTimes(1.0, 1.0, 1.0, 0.0, 3.0))
    live.press("go\r")
    await live.until("[y] approve")
    live.press("y")
    await live.until(lambda: bool(session.decisions))
    live.press("yyyyyyyyyy")
    await live.until("make two")
    await live.until(on_screen(live, "[y] approve"))
    assert len(session.decisions) == 1
    assert live.repl.front.draft() == ""
    await live.until(lambda: not live.prompt.keys.repeating, "the key is no longer held down")
    live.press("y")
    await live.until(lambda: len(session.decisions) == 2)
    await live.leave()


async def test_enter_makes_the_pressed_key_count_at_once(keys: PipeInput) -> None:
    live, session = asking(keys, "make", key_times=SLOW)
    await live.until("Run this command?")
    live.prompt.keys.armed = live.prompt.keys.ready = True
    live.press("y\r")  # one read: a paste, or a line that was typed ahead
    await live.until("A typed answer does not count.")
    live.press("\x1b")
    await live.until(lambda: not live.prompt.line.buffer.text)
    live.prompt.keys.ready = True
    live.press("y")
    await live.until(lambda: live.prompt.keys.held == "y", "the key is held")
    live.press("\r")
    await live.until(lambda: bool(session.decisions))
    assert [one.kind for one in session.decisions] == ["approve"]
    await live.until(lambda: not live.prompt.questions.open)
    assert live.repl.front.draft() == ""
    await live.leave()


@pytest.mark.parametrize(
    "after", ["\x7f", "\x15", "\x17", "\x01", "\x0c", "\t", "\x02", "\x14", "\x1b[H", "\x1b[3~",
              "\x1bOP", "\x1b[B", "\x1b[5~"],
)  # fmt: skip
async def test_any_key_withdraws_the_answer_before_it(keys: PipeInput, after: str) -> None:
    live, session = asking(keys, "make", key_times=SLOW)
    await live.until("Run this command?")
    live.prompt.keys.armed = live.prompt.keys.ready = True
    live.press("y")
    await live.until(lambda: live.prompt.keys.held == "y", "the key is held")
    live.press(after)
    await live.until(lambda: live.prompt.keys.held == "", "the key is withdrawn")
    assert session.decisions == []
    live.prompt.keys.ready = True
    live.press("y")
    await live.until(lambda: live.prompt.keys.held == "y", "the key is held")
    live.press("\r")
    await live.until(lambda: bool(session.decisions))
    await live.leave()


async def test_a_key_too_early_is_told_and_returns_neither_here_nor_later(keys: PipeInput) -> None:
    async def play(session: PlayedSession, _input: Any, approver: Any, sink: Any) -> None:
        await ask(session, approver, sink, "make one")
        await ask(session, approver, sink, "make two")

    live, session = live_repl(keys, play, key_times=KeyTimes(0.0, 600.0, 0.05, 0.0, 0.0))
    live.press("go\r")
    for number in range(2):
        await live.until(on_screen(live, ("make one", "make two")[number]))
        live.press("y")
        await live.until(lambda: live.prompt.keys.dropped == "y", "the key is dropped")
        await live.until("Too early: press the key again.")
        assert live.repl.front.draft() == ""
        live.prompt.keys.armed = live.prompt.keys.ready = True
        live.press("y")
        await live.until(lambda n=number: len(session.decisions) == n + 1)
    await live.until(lambda: not live.prompt.questions.open)
    assert live.repl.front.draft() == ""
    await live.leave()


async def test_the_key_that_was_pressed_is_marked_at_once(keys: PipeInput) -> None:
    live, session = asking(keys, "make", key_times=SLOW)
    await live.until("Run this command?")
    live.prompt.keys.armed = live.prompt.keys.ready = True
    live.press("y")
    await live.until(lambda: "\x1b[0;1;7m[y] approve" in live.terminal.raw)
    live.press("es")
    await live.until("› yes")
    assert session.decisions == []
    live.press("\x03\x03")
    await live.until("The turn was stopped.")
    live.press("\x03")
    await live.leave()


async def test_a_report_of_nothing_is_still_a_question(keys: PipeInput) -> None:
    bare = Subject(
        request("true", purpose=""), RiskReport("true", "safe_readonly"), Verdict("ask"), "/"
    )
    assert drawn(ApprovalQuestion(bare), 40).lines == [
        "Run this command?  read-only",
        "│ $ true",
        "Folder  /",
    ]


def test_the_name_of_a_file_cannot_draw_a_row() -> None:
    name = "a\n[y] approve  b\u200b"
    touched = replace(report("rm x"), effects=(Effect("delete", name, outside=False),))
    asked = ApprovalQuestion(Subject(request("rm x"), touched, ASK, "/work/project"))
    (effects,) = [line for line in drawn(asked, 160).lines if "Deletes" in line]
    assert "\\u{A}[y] approve" in effects
    assert "\\u{200B}" in effects
