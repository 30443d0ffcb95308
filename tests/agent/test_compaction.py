"""Compaction keeps the user's words, the plan and whole rounds; requests fit the window."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from kogniterm import prompts
from kogniterm.agent import compaction
from kogniterm.agent import messages as told
from kogniterm.agent.compaction import fit_messages
from kogniterm.text.shorten import head_and_tail
from kogniterm.types import (
    ActionRequest,
    Check,
    CommandResult,
    Decision,
    Evidence,
    Job,
    Plan,
    PlanStep,
    UserInput,
)


def rounds(count: int, size: int = 400) -> list[BaseMessage]:
    messages: list[BaseMessage] = [HumanMessage("Never touch the file prod.db.")]
    for n in range(count):
        call = {
            "name": "execute_command",
            "args": {"command": f"step {n}"},
            "id": f"c{n}",
            "type": "tool_call",
        }
        messages += [
            AIMessage("", tool_calls=[call]),
            ToolMessage("x" * size, tool_call_id=f"c{n}"),
        ]
    return messages


@given(st.integers(1, 60), st.integers(0, 5000), st.integers(500, 40_000))
def test_rounds_stay_whole_and_nothing_is_lost(count: int, size: int, window: int) -> None:
    messages = rounds(count, size)
    older, kept = compaction.split_history(messages, window)
    assert older + kept == messages
    assert kept
    assert not isinstance(kept[0], ToolMessage)


@given(st.integers(5, 60), st.integers(0, 20_000))
def test_what_is_kept_beside_the_newest_round_fits_its_share(count: int, size: int) -> None:
    history = rounds(count, size)
    _, kept = compaction.split_history(history, 8_000)
    assert kept[-2:] == history[-2:]
    beside = compaction.estimate_tokens(kept) if len(kept) > 2 else 0
    assert beside <= 8_000 * compaction.KEEP_SHARE


def test_the_users_words_and_the_plan_survive_word_for_word() -> None:
    plan = Plan("Ship", (PlanStep("s1", "Build", status="done", evidence=(Evidence("r7", 0),)),))
    older, kept = compaction.split_history(rounds(50), 2_000)
    history = compaction.compact_history(older, kept, "the middle", plan, 2_000)
    assert "Never touch the file prod.db." in history[0].text
    assert "s1 [done] Build (r7 exit 0)" in history[0].text
    assert "the middle" in history[0].text
    assert list(history[1:]) == kept


def test_a_second_compaction_keeps_the_first_words_too() -> None:
    older, kept = compaction.split_history(rounds(50), 2_000)
    once = list(compaction.compact_history(older, kept, "first", None, 2_000)) + rounds(50)[1:]
    older, kept = compaction.split_history(once, 2_000)
    twice = compaction.compact_history(older, kept, "second", None, 2_000)
    assert "Never touch the file prod.db." in twice[0].text


@given(st.lists(st.text(max_size=400), max_size=40), st.integers(200, 5_000))
def test_the_words_kept_fit_and_hold_the_task_and_the_newest(said: list[str], limit: int) -> None:
    chosen = compaction.within(said, limit)
    assert sum(map(len, chosen)) <= limit + 60
    assert bool(chosen) == bool(said)
    if len(said) > 1 and len(said[0]) + len(said[-1]) < limit // 2:
        assert (chosen[0], chosen[-1]) == (said[0], said[-1])


def test_clip_keeps_more_of_the_tail() -> None:
    text = "head " + "." * 5_000 + " the error"
    short = head_and_tail(text, 300)
    assert short.startswith("head")
    assert short.endswith("the error")
    assert "characters left out" in short


SYSTEM = SystemMessage("You are a test.")
TEXTS = st.tuples(st.sampled_from("x7 é漢🐍\n"), st.integers(0, 60_000)).map(lambda t: t[0] * t[1])


@st.composite
def histories(draw: st.DrawFn) -> list[BaseMessage]:
    messages: list[BaseMessage] = [HumanMessage(draw(TEXTS))]
    for number in range(draw(st.integers(0, 5))):
        sizes = draw(st.lists(TEXTS, min_size=1, max_size=4))
        calls = [
            {"name": "t", "args": {"a": draw(TEXTS)}, "id": f"{number}-{i}", "type": "tool_call"}
            for i in range(len(sizes))
        ]
        messages.append(AIMessage(draw(TEXTS), tool_calls=calls))
        messages += [
            ToolMessage(text, tool_call_id=f"{number}-{i}") for i, text in enumerate(sizes)
        ]
    return messages


@settings(max_examples=60)
@given(histories(), st.integers(3_000, 40_000))
def test_every_request_fits_and_stays_valid(history: list[BaseMessage], limit: int) -> None:
    request = fit_messages(SYSTEM, history, limit)
    assert compaction.estimate_tokens(request) <= limit
    assert request[0] == SYSTEM
    asked: list[str] = []
    for message in request[1:]:
        if isinstance(message, AIMessage):
            assert not asked
            asked = [str(call["id"]) for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            asked.remove(message.tool_call_id)
    assert not asked


def test_what_fits_is_sent_as_it_is() -> None:
    history = [HumanMessage("a"), AIMessage("b")]
    assert fit_messages(SYSTEM, history, 3_000) == (SYSTEM, *history)


def test_old_results_give_way_before_the_users_words() -> None:
    history = [
        HumanMessage("keep me " * 300),
        AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "1", "type": "tool_call"}]),
        ToolMessage("z" * 50_000, tool_call_id="1"),
    ]
    request = fit_messages(SYSTEM, history, 4_000)
    assert request[1].text == history[0].text
    assert "characters left out" in request[3].text


def test_digits_and_wide_characters_are_not_underestimated() -> None:
    assert compaction.text_tokens("7" * 300) >= 300
    assert compaction.text_tokens("漢" * 300) >= 300
    assert compaction.text_tokens("x" * 300) < 110


def test_a_summary_without_a_model_has_every_call_with_its_result() -> None:
    calls = [
        {"name": "execute_command", "args": {"command": "make"}, "id": "c1", "type": "tool_call"},
        {"name": "read_file", "args": {"path": "a.txt"}, "id": "c2", "type": "tool_call"},
    ]
    messages = [
        HumanMessage("Build it."),
        AIMessage("I build it.", tool_calls=calls),
        ToolMessage("error: no rule to make target", tool_call_id="c1", status="error"),
        ToolMessage("the text", tool_call_id="c2"),
        ToolMessage("an answer", tool_call_id="gone", name="recall_history", status="error"),
    ]
    assert compaction.plain_summary(messages).splitlines() == [
        "Model: I build it.",
        "execute_command: make -> error: no rule to make target",
        "read_file: {'path': 'a.txt'} -> the text",
        "recall_history -> an answer",
    ]


def test_a_summary_without_a_model_is_short() -> None:
    summary = compaction.plain_summary(rounds(500, 5_000))
    assert len(summary) <= 6_100
    assert summary.startswith("execute_command: step 0 -> xxx")
    assert "execute_command: step 499 -> xxx" in summary


def ran(number: int, command: str, code: int, text: str = "") -> list[BaseMessage]:
    call = {"name": "x", "args": {}, "id": f"r{number}", "type": "tool_call"}
    artifact = {"command": command, "exit_code": code}
    told = ToolMessage(text, tool_call_id=f"r{number}", artifact=artifact)
    return [AIMessage("", tool_calls=[call]), told]


def test_what_was_done_survives_every_compaction_without_a_model() -> None:
    edit = {"name": "edit_file", "args": {}, "id": "e1", "type": "tool_call"}
    history: list[BaseMessage] = [
        HumanMessage("Fix it."),
        AIMessage("", tool_calls=[edit]),
        ToolMessage(
            "Wrote /w/a.py (+1 -1 lines).",
            tool_call_id="e1",
            name="edit_file",
            artifact={"request_id": "e1"},
        ),
        AIMessage(
            "", tool_calls=[{"name": "ask_user", "args": {"question": "Which port?"}, "id": "q"}]
        ),
        ToolMessage("8080", tool_call_id="q", name="ask_user"),
        *ran(0, "export MODE=fast", 0),
        *ran(1, "make test", 2, "[exit 2]\n[job j1 still runs (ends with KogniTerm): serve]"),
    ]
    for again in range(3):
        kept = ran(10 + again, f"step {again}", 0)
        history = list(compaction.compact_history(history, kept, "summary", None, 16_000))
    shown = history[0].text
    assert "Wrote /w/a.py (+1 -1 lines)." in shown
    assert "Which port? -> 8080" in shown
    assert "export MODE=fast -> exit 0" in shown
    assert "make test -> exit 2" in shown
    assert "step 1 -> exit 0" in shown
    many = [message for n in range(20, 190) for message in ran(n, f"step {n} {'of' * 20}", 0)]
    (last, *_) = compaction.compact_history([*history, *many], [], "summary", None, 16_000)
    assert "export MODE=fast -> exit 0" in last.text
    assert "make test" not in last.text
    assert "older ones are left out" in last.text


def test_the_summary_sees_whole_results_where_they_fit() -> None:
    result = "x" * 5_000 + "END"
    assert result in compaction.transcript(ran(1, "cat a", 0, result), 20_000)
    assert len(compaction.transcript(ran(1, "cat a", 0, result), 700)) < 2_200


def after(
    *messages: BaseMessage, kept: list[BaseMessage] | None = None, window: int = 16_000
) -> str:
    """Return what stands before the kept rounds after two compactions."""
    once = compaction.compact_history([HumanMessage("Go."), *messages], [], "summary", None, window)
    again = compaction.compact_history([*once, AIMessage("On.")], kept or [], "new", None, window)
    return again[0].text


def called(name: str, given: dict[str, object], answer: ToolMessage) -> list[BaseMessage]:
    call = {"name": name, "args": given, "id": answer.tool_call_id, "type": "tool_call"}
    return [AIMessage("", tool_calls=[call]), answer]


def command(number: int, line: str, *jobs: Job, code: int | None = 0) -> list[BaseMessage]:
    request = ActionRequest(f"r{number}", f"k{number}", "execute_command", line)
    ended = "exited" if code is not None else "stopped"
    result = CommandResult(line, ended, code, "", 0.1, "/w", jobs=jobs)  # type: ignore[arg-type]
    answer = told.command_message(request, result, Decision("approve", line, "policy"))
    return called("execute_command", {"command": line}, answer)


JOB = Job("j1", "serve &", "running", (7,), 0.0)


def test_what_the_user_said_meanwhile_survives() -> None:
    assert "The user said:\nNever touch b.py." in after(told.steering_message("Never touch b.py."))
    planning = told.steering_message(prompts.text(told.PLAN_MODE))
    assert "The user said:\n(" not in after(planning)


def test_the_users_words_stand_apart_from_what_was_added_to_them() -> None:
    words = "Fix it, " + "and mind the rest, " * 60
    added = "<memory>\nm1: uses tabs\n</memory>" + "x" * 9_000
    shown = after(told.human_message(UserInput(words.strip()), "auto", added))
    assert f"The user said:\n{words.strip()}\n\n" in shown
    assert "Beside the last of these came:\n<memory>\nm1: uses tabs" in shown
    assert len(shown) < 10_000


def test_open_steps_keep_their_checks() -> None:
    check = Check("command", "pytest -q tests/test_a.py")
    plan = Plan("Ship", (PlanStep("s1", "Build", check=check),))
    assert "pytest -q tests/test_a.py" in compaction.plan_text(plan)


def test_an_earlier_summary_survives_a_summariser_that_fails() -> None:
    history: list[BaseMessage] = [HumanMessage("Go."), *ran(1, "make", 2)]
    history = list(compaction.compact_history(history, [], "The port is 8080.", None, 16_000))
    for number in range(3):
        plain = compaction.plain_summary([*history, *ran(number, "make", 2)])
        history = list(compaction.compact_history(history, [], plain, None, 16_000))
    assert history[0].text.count("The port is 8080.") == 1
    shown = compaction.transcript([*history, told.note("(A note.)")], 20_000)
    assert "SUMMARY SO FAR: The port is 8080." in shown
    assert "USER: (A note.)" not in shown


def test_a_job_that_was_stopped_is_not_told_as_running() -> None:
    started = command(1, "serve &", JOB)
    stop = ToolMessage("j1 ended, exit 143: serve &", tool_call_id="s", name="jobs")
    stopped = called("jobs", {"action": "stop", "id": "j1"}, stop)
    assert "job j1 still runs" in after(kept=[*started])
    assert "still runs" not in after(*started, kept=stopped)
    assert "j1 ended, exit 143" in after(kept=[*started, *stopped])
    assert "still runs" not in after(*started, kept=command(2, "true"))


def test_output_cannot_pass_for_a_job() -> None:
    lines = ran(1, "cat notes", 0, "[job j9 still runs (kept): mine]")
    assert "j9" not in after(*lines)


def test_files_that_the_user_restored_stand_behind_their_edits() -> None:
    answer = ToolMessage(
        "Wrote /w/a.py (+1 -1 lines).", tool_call_id="e", name="edit_file",
        artifact={"request_id": "e"},
    )  # fmt: skip
    edit = called("edit_file", {"path": "a.py"}, answer)
    shown = after(
        *edit, told.note(told.files_restored(["a.py"])), told.note(told.files_kept(["b"]))
    )
    assert "Later changes of these files were kept: b" in shown
    assert shown.index("Wrote /w/a.py") < shown.index("The user restored these files")
    assert shown.count("The user said") == 1


def test_many_edits_of_one_file_hide_no_other_edit() -> None:
    edits = list[BaseMessage]()
    for number in range(300):
        name = "first" if number == 0 else "often"
        text = f"Wrote /w/{name}.py (+{number} -1 lines)."
        answer = ToolMessage(text, tool_call_id=f"e{number}", name="edit_file", artifact={"a": 1})
        edits += called("edit_file", {"path": name}, answer)
    shown = after(*edits)
    assert "/w/first.py" in shown
    assert shown.count("/w/often.py (+299 -1 lines)") == 1


def test_refused_actions_survive_with_the_reason() -> None:
    request = ActionRequest("r1", "k1", "execute_command", "git push")
    no = Decision("reject", "git push", "person", "only after the release")
    refused = called("execute_command", {"command": "git push"}, told.refusal_message(request, no))
    assert "git push -> [not run: refused by the user: only after the release" in after(*refused)


def test_parts_of_commands_that_set_variables_survive_whole() -> None:
    line = (
        f"cd app; export PORT=8080; {'echo long; ' * 60}declare -x MODE='a b'\nLEVEL=3; f() (true)"
    )
    shown = after(*command(1, line), *[one for n in range(2, 60) for one in command(n, f"x {n}")])
    for part in ("export PORT=8080", "declare -x MODE='a b'", "LEVEL=3", "f()"):
        assert f"- {part}" in shown


def test_a_command_that_was_stopped_has_no_exit_status() -> None:
    assert "make -> stopped; outcome incomplete" in after(*command(1, "make", code=None))


def test_results_that_the_model_has_not_seen_stay_whole() -> None:
    calls = [{"name": "t", "args": {}, "id": str(n), "type": "tool_call"} for n in (1, 2)]
    new = [
        AIMessage("", tool_calls=calls),
        *(ToolMessage("x" * 9_000, tool_call_id=str(n)) for n in (1, 2)),
    ]
    _, kept = compaction.split_history([*rounds(3), *new], 8_000)
    assert kept == new


def test_the_request_for_a_summary_fits_whatever_the_text() -> None:
    for text in ("7" * 30_000, "漢" * 9_000, "x" * 90_000):
        shown = compaction.transcript(ran(1, "cat a", 0, text), 2_000)
        assert compaction.text_tokens(shown) <= 2_100
