"""The prompt as a user meets it: typed keys in, a terminal's screen out."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.input.base import PipeInput

from kogniterm.types import LeftRunning, Phrase, UserInput
from kogniterm.types import events as ev
from kogniterm.ui.repl import Opened
from kogniterm.ui.screen.screen_preferences import Preferences
from tests.ui.face import PlayedSession
from tests.ui.live import AT_ONCE, PATIENCE_SECONDS, live_repl


async def say_hello(session: PlayedSession, given: Any, approver: Any, sink: Any) -> None:
    sink(ev.AnswerDelta("Hello **there**.\n"))


async def wait_for_ever(session: PlayedSession, given: Any, approver: Any, sink: Any) -> None:
    sink(ev.AnswerDelta("On my way."))
    await asyncio.Event().wait()


async def test_a_task_is_sent_and_its_answer_stays(keys: PipeInput) -> None:
    live, session = live_repl(keys, say_hello)
    live.press("greet me\r")
    await live.until("Hello there.")
    await live.until("1.2k tokens in")
    assert session.inputs == [UserInput("greet me")]
    assert "› greet me" in live.terminal.text
    assert await live.leave() == 0
    assert session.closed
    assert "Hello there." in live.terminal.text


async def test_what_is_typed_before_the_session_is_open_waits(keys: PipeInput) -> None:
    gate = asyncio.Event()
    live, session = live_repl(keys, say_hello)
    opening = live.repl._open_session

    async def slowly(session_id: str | None) -> Opened:
        await gate.wait()
        return await opening(session_id)

    live.repl._open_session = slowly
    live.press("early\r")
    await live.until("queued: early")
    assert session.inputs == []
    gate.set()
    await live.until("Hello there.")
    assert [item.text for item in session.inputs if item] == ["early"]
    assert await live.leave() == 0


async def test_typing_while_a_turn_runs_is_queued_shown_and_sent(keys: PipeInput) -> None:
    go = asyncio.Event()

    async def play(session: PlayedSession, given: Any, approver: Any, sink: Any) -> None:
        await go.wait()

    live, session = live_repl(keys, play)
    live.press("one\r")
    await live.until(lambda: len(session.inputs) == 1)
    live.press("two\r")
    await live.until("queued: two")
    go.set()
    await live.until(lambda: len(session.inputs) == 2)
    await live.until(lambda: not live.repl.turns.running)
    assert [item.text for item in session.inputs if item] == ["one", "two"]
    await live.leave()


async def test_what_is_typed_can_steer_the_running_turn(keys: PipeInput) -> None:
    go = asyncio.Event()

    async def play(session: PlayedSession, given: Any, approver: Any, sink: Any) -> None:
        sink(ev.AnswerDelta("On my way."))
        await go.wait()

    live, session = live_repl(keys, play)
    live.press("one\r")
    await live.until("On my way.")
    live.press("only the tests\x13")
    await live.until("Sent with the next step.")
    assert "› only the tests" in live.terminal.text
    assert session.journal.steering.take() == ("only the tests",)
    session.journal.steering.note_journaled()
    live.press("queued\r")
    await live.until("queued: queued")
    live.press("\x13")
    await live.until(lambda: not live.repl.turns.queue)
    # The turn ends without another step, so its waiting message becomes the next turn.
    go.set()
    await live.until(lambda: len(session.inputs) == 2)
    assert session.inputs[1] == UserInput("queued")
    await live.until(lambda: not live.repl.turns.running)
    await live.leave()


async def test_steering_that_was_not_heard_comes_back_when_the_turn_is_stopped(
    keys: PipeInput,
) -> None:
    live, session = live_repl(keys, wait_for_ever)
    live.press("one\r")
    await live.until("On my way.")
    live.press("wait\x13")
    await live.until("Sent with the next step.")
    live.press("\x03")
    await live.until(lambda: session.stopped == 1)
    await live.until(lambda: "wait" in live.prompt.line.buffer.text)
    live.press("\x03")
    await live.leave()


async def test_one_escape_stops_the_turn_and_gives_the_words_back(keys: PipeInput) -> None:
    live, session = live_repl(keys, wait_for_ever, wiring=AT_ONCE)
    live.press("a long task\r")
    await live.until("On my way.")
    live.press("\x1b")
    await live.until(lambda: session.stopped == 1)
    await live.until("The turn was stopped.")
    await live.until(lambda: live.prompt.line.buffer.text == "a long task")
    live.press("\x03")
    await live.until(lambda: live.prompt.line.buffer.text == "")
    assert await live.leave() == 0


@pytest.mark.parametrize("key", ["escape", "ctrl-c"])
async def test_a_draft_goes_first_and_stopping_gives_the_queue_back(
    keys: PipeInput, key: str
) -> None:
    live, session = live_repl(keys, wait_for_ever, wiring=AT_ONCE)
    live.press("first\r")
    await live.until("On my way.")
    live.press("second\rdraft")
    await live.until("queued: second")
    live.press("\x03" if key == "ctrl-c" else "\x1b")
    await live.until(lambda: live.prompt.line.buffer.text == "")
    assert session.stopped == 0
    if key == "escape":
        await live.until("The line was cleared; Up brings it back.")
        live.press("\x1b[A")
        await live.until(lambda: live.prompt.line.buffer.text == "draft")
        live.press("\x1b")
        await live.until(lambda: live.prompt.line.buffer.text == "")
    live.press("\x1b")
    await live.until(lambda: session.stopped == 1)
    await live.until(lambda: live.prompt.line.buffer.text == "second")
    assert len(session.inputs) == 1
    live.press("\x03")
    await live.leave()


async def test_ctrl_c_clears_the_line_then_stops_the_command_then_the_turn(
    keys: PipeInput,
) -> None:
    async def play(session: PlayedSession, given: Any, approver: Any, sink: Any) -> None:
        sink(ev.CommandStarted("1-1", "sleep 100", "/work/project"))
        await asyncio.Event().wait()

    live, session = live_repl(keys, play)
    live.press("go\r")
    await live.until("$ sleep 100")
    live.press("draft")
    await live.until("› draft")
    live.press("\x03")
    await live.until(lambda: live.prompt.line.buffer.text == "")
    assert not session.command_stopped.is_set()
    live.press("\x03")
    await live.until(session.command_stopped.is_set)
    assert session.stopped == 0
    live.press("\x03")
    await live.until(lambda: session.stopped == 1)
    live.press("\x03")
    await live.leave()


async def test_ctrl_d_asks_while_something_runs(keys: PipeInput) -> None:
    live, session = live_repl(keys, wait_for_ever, wiring=AT_ONCE)
    live.press("go\r")
    await live.until("On my way.")
    live.press("\x04")
    await live.until("Ctrl-D again stops it")
    assert not live.task.done()
    assert await live.leave() == 0
    assert session.stopped == 1
    assert session.closed


async def test_send_now_steers(keys: PipeInput) -> None:
    live, session = live_repl(keys, wait_for_ever, wiring=AT_ONCE)
    live.press("first\r")
    await live.until("On my way.")
    live.press("rather this\r")
    await live.until("queued: rather this")
    live.press("\x14")
    await live.until(lambda: len(session.inputs) == 2)
    assert session.stopped == 1
    await live.until("› rather this")
    live.press("\x04\x04")
    assert await asyncio.wait_for(live.task, PATIENCE_SECONDS) == 0


async def test_the_users_own_command_runs_without_the_model(keys: PipeInput) -> None:
    live, session = live_repl(keys, say_hello)
    live.press("!make clean\r")
    await live.until("exit 0")
    assert session.shells == ["make clean"]
    assert session.inputs == []
    assert "mine" in live.terminal.text
    await live.leave()


async def test_slash_commands_answer_and_complain(keys: PipeInput) -> None:
    live, session = live_repl(keys, say_hello)
    live.press("/mode auto\r")
    await live.until("Mode: auto in sandbox (runs what your rules and the sandbox permit")
    assert session.modes.approval == "auto"
    live.press("/nothing\r")
    await live.until("Unknown command /nothing")
    live.press("/mode sometimes\r")
    await live.until("Unknown value: sometimes. Use one of: ask, accept-edits, auto, plan,")
    live.press("/theme plain\r")
    await live.until("Theme: plain.")
    live.press("/etc/hosts is a file\r")
    await live.until("Hello there.")
    assert [item.text for item in session.inputs if item] == ["/etc/hosts is a file"]
    live.press("/quit\r")
    assert await asyncio.wait_for(live.task, PATIENCE_SECONDS) == 0


async def test_mode_takes_the_names_that_it_shows_and_the_earlier_one(keys: PipeInput) -> None:
    live, session = live_repl(keys, say_hello)
    for name, mode in (("plan", "plan"), ("ask", "manual"), ("auto", "auto"), ("manual", "manual")):
        live.press(f"/mode {name}\r")
        await live.until(lambda mode=mode: session.modes.approval == mode)
    live.press("/mode\r")
    for name in ("ask", "accept-edits", "auto", "plan"):
        await live.until(f"\n {name}  ")
    await live.leave()


async def test_mode_says_and_keeps_whether_read_only_commands_ask(
    keys: PipeInput, tmp_path: Path
) -> None:
    live, session = live_repl(keys, say_hello)
    session.archive.paths.config_file = tmp_path / "config.toml"
    for word, value, line in (
        ("allow-reads", "true", "run without asking."),
        ("ask-reads", "false", "that your rules do not allow)."),
    ):
        live.press(f"/mode {word}\r")
        await live.until(f"Setting allow_reads = {value} saved in")
        await live.until(line)
        assert session.policy.circumstances.safe_unasked is (value == "true")
        assert session.archive.paths.config_file.read_text() == f"allow_reads = {value}\n"
    await live.leave()


async def test_tab_completes_commands_and_arguments(keys: PipeInput) -> None:
    live, session = live_repl(keys, say_hello)
    await live.until("· ask ·")
    live.press("/mod")
    await live.until("/model [NAME] [EFFORT] [")
    await live.until("/mode [ask|accept-edits")
    live.press("e au\t")
    await live.until("› /mode auto")
    live.press("\r")
    await live.until(lambda: session.modes.approval == "auto")
    await live.leave()


async def test_the_first_run_explains_itself_in_a_few_lines(keys: PipeInput) -> None:
    def opened(session: PlayedSession) -> Opened:
        reason = Phrase("No key is set, so the embedded model answers.")
        return Opened(session, reason, first_run=True)  # type: ignore[arg-type]  # its face

    live, _session = live_repl(keys, say_hello, opened=opened, columns=60)
    await live.until("No key is set")
    await live.until("Each command waits for your approval")
    assert any(line.startswith("  ") and "to explain." in line for line in live.terminal.shown)
    assert len(live.terminal.shown) < 17
    assert all(len(line) <= 60 for line in live.terminal.shown)
    await live.leave()


async def test_nothing_typed_reaches_the_history_file_that_should_not(
    keys: PipeInput, tmp_path: Path
) -> None:
    file = tmp_path / "state" / "history"

    preferences = Preferences(history=file, notify="off")
    live, session = live_repl(keys, say_hello, preferences=preferences)
    await live.until("· ask ·")
    for number, line in enumerate(["keep me", " not me", "password=Hunter2Xy9", "and me"], start=1):
        live.press(f"{line}\r")
        await live.until(lambda number=number: len(session.inputs) == number)
    await live.leave()
    assert file.read_text() == '"keep me"\n"and me"\n'
    assert file.stat().st_mode & 0o777 == 0o600


async def test_every_frame_is_one_write(keys: PipeInput) -> None:
    live, _session = live_repl(keys, say_hello)
    live.press("go\r")
    await live.until("1.2k tokens in")
    await live.leave()
    # Erasing and drawing in two writes is visible as flicker.
    erasing = [text for text in live.terminal.writes if "\x1b[J" in text and "Hello" in text]
    assert erasing
    assert all("›" in text for text in erasing)
    # Terminals with synchronized updates show a frame at once, even one that erases nothing.
    frames = [text for text in live.terminal.writes if "›" in text]
    assert len(frames) > len(erasing)
    assert all(text.endswith("\x1b[?2026l") for text in frames)
    assert all(text.count("\x1b[?2026h") == 1 for text in frames)


async def test_a_surprise_is_told_and_the_prompt_goes_on(keys: PipeInput) -> None:
    async def play(session: PlayedSession, given: Any, approver: Any, sink: Any) -> None:
        if len(session.inputs) == 1:
            raise ZeroDivisionError
        sink(ev.AnswerDelta("Still here."))

    live, _session = live_repl(keys, play)
    live.press("break\r")
    await live.until("Internal error; details are in the log")
    live.press("again\r")
    await live.until("Still here.")
    await live.leave()


async def test_undo_names_what_stays_and_asks_for_it_apart(keys: PipeInput, tmp_path: Path) -> None:
    from kogniterm.execution.effect_preview import UndoService
    from kogniterm.execution.undo import PreimageStore

    made = tmp_path / "w" / "out"
    made.parent.mkdir()
    store = PreimageStore(tmp_path / "kept")
    store.keep("1", "mkdir out", [made])
    made.mkdir()
    store.note_left("1")
    (made / "mine.txt").write_text("precious\n")
    live, session = live_repl(keys, say_hello)
    session.undo = UndoService(store, made.parent)
    await live.until("· ask ·")
    live.press("/undo\r")
    await live.until("Stays as it is")
    await live.until("[a] also take back what changed since  [n]")
    assert "mine.txt" in "".join(live.terminal.text.split())
    assert "+precious" not in live.terminal.text
    await live.ready()
    live.press("a")
    await live.until("+precious")
    await live.until("[y] restore the files  [n]")
    await live.ready()
    live.press("y")
    await live.until("Restored:")
    assert not made.exists()
    live.press("/undo\r")
    await live.until("undo of: mkdir out")
    await live.ready()
    live.press("y")
    await live.until(lambda: live.terminal.text.count("Restored:") == 2)
    assert (made / "mine.txt").read_text() == "precious\n"
    await live.leave()


async def test_vi_keys_edit_tell_their_mode_and_begin_each_line_by_inserting(
    keys: PipeInput,
) -> None:
    live, session = live_repl(keys, say_hello, preferences=Preferences(keys="vi", notify="off"))
    live.press("one two")
    await live.until("› one two")
    live.press("\x1b")
    await live.until("vi normal mode")
    live.press("0dw")
    await live.until(lambda: live.repl.front.draft() == "two")
    live.press("\r")
    await live.until("Hello there.")
    live.press("three")
    await live.until("› three")
    assert "vi normal mode" not in live.terminal.shown[-1]
    # On an empty line Esc still switches to vi's commands: k brings the last line back.
    live.press("\x03")
    await live.until(lambda: live.repl.front.draft() == "")
    live.press("\x1b")
    await live.until("vi normal mode")
    live.press("k")
    await live.until(lambda: live.repl.front.draft() == "two")
    live.press("\r")
    await live.until(lambda: len(session.inputs) == 2)
    assert [item.text for item in session.inputs if item] == ["two", "two"]
    await live.until(lambda: not live.repl.turns.running)
    assert await live.leave() == 0


async def test_a_line_that_was_sent_is_no_draft_of_the_session_that_is_left(
    keys: PipeInput,
) -> None:
    live, session = live_repl(keys, say_hello)
    await live.until("· ask ·")
    live.press("/new")
    await live.until("› /new")
    live.repl._drafts.keep()
    assert session.state.draft == "/new"
    live.press("\r")
    await live.until(lambda: session.closed)
    await live.until(live.repl._is_open.is_set)
    assert session.state.draft == ""
    assert live.repl.front.draft() == ""
    assert await live.leave() == 0


@pytest.mark.parametrize("early", [True, False])
async def test_what_is_typed_while_another_session_is_opened_belongs_to_that(
    keys: PipeInput, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    live, session = live_repl(keys, say_hello)
    await live.until("· ask ·")
    ending, ended = threading.Event(), threading.Event()

    def end_jobs() -> tuple[LeftRunning, ...]:
        ending.set()
        ended.wait(PATIENCE_SECONDS)
        return ()

    monkeypatch.setattr(session, "end_jobs", end_jobs)
    live.press("/new\rfor the " if early else "/new\r")
    await live.until(ending.is_set)
    live.press("new one" if early else "for the new one")
    await live.until("› for the new one")
    live.repl._drafts.keep()
    assert session.state.draft == ""
    ended.set()
    await live.until(lambda: session.closed)
    await live.until(lambda: live.repl._session is session)
    live.repl._drafts.keep()
    assert session.state.draft == "for the new one"
    live.press("\x03")
    assert await live.leave() == 0
