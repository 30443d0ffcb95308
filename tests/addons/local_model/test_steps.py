"""The next step and the answer, derived from the messages of a turn."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from kogniterm.addons.local_model.steps import answer, parts_of, turn_so_far, unrun_answer


def asked(text: str) -> HumanMessage:
    return HumanMessage(text)


def ran(
    command: str,
    observation: str,
    *,
    code: int | None = None,
    status: str = "success",
    call: str = "c",
) -> list[BaseMessage]:
    calls = [{"name": "execute_command", "args": {"command": command}, "id": call}]
    artifact = None if code is None else {"exit_code": code}
    return [
        AIMessage("", tool_calls=calls),
        ToolMessage(observation, tool_call_id=call, status=status, artifact=artifact),
    ]


def test_output_is_the_answer_word_for_word() -> None:
    turn = turn_so_far([asked("how many lines?"), *ran("wc -l < a", "42\n[exit 0]", code=0)])
    assert turn.part is None
    assert answer(turn) == "`wc -l < a` gave:\n\n```text\n42\n```"


def test_silent_success_is_told_in_the_users_language() -> None:
    turn = turn_so_far([asked("borra la carpeta x"), *ran("rm -r x", "[exit 0]", code=0)])
    assert answer(turn) == "`rm -r x` no imprimió nada (código 0); no se comprobó su efecto."


@pytest.mark.parametrize(
    "command",
    [
        "grep TODO notes.md > todo.txt",
        "touch report.txt",
        "sed -i s/cat/dog/ a.txt",
        "find . -name '*.bak' -delete",
        "find . -name '*.jpeg' -exec mv {} {}.jpg \\;",
        "grep -l cat *.md | xargs rm",
        "grep cat a.txt | tee b.txt",
        "grep -q cat a.txt; rm a.txt",
    ],
)
def test_silence_is_no_claim_that_something_was_found_or_done(command: str) -> None:
    turn = turn_so_far([asked("put the TODO lines in a file"), *ran(command, "[exit 0]", code=0)])
    assert answer(turn) == (
        f"`{command}` printed nothing (exit code 0); its effect was not checked."
    )


@pytest.mark.parametrize(
    "command",
    ["grep TODO notes.md > todo.txt && test -s todo.txt", "grep -q -- 'o' x && sed -i 's/o/b/g' x"],
)
def test_a_command_without_the_effect_it_checks_is_a_failure(command: str) -> None:
    silent = "[exit 1]"
    turn = turn_so_far([asked("put the TODO lines in a file"), *ran(command, silent, code=1)])
    assert [one.ending for one in turn.failed] == ["failed"]
    turn = turn_so_far([asked("put the TODO lines in a file"), *ran(command, "[exit 0]", code=0)])
    assert answer(turn) == f"`{command}` printed nothing (exit code 0)."


def test_without_a_text_to_replace_no_second_command_is_tried() -> None:
    command = "grep -q -- 'cat' pets.md && sed -i 's/cat/dog/g' pets.md"
    request = asked("replace cat with dog in pets.md")
    turn = turn_so_far([request, *ran(command, "[exit 1]", code=1)])
    assert turn.part is None
    assert answer(turn) == (
        f"`{command}` found nothing to replace (exit code 1), so no file was changed."
    )
    missing = "grep: pets.md: No such file or directory\n[exit 2]"
    assert turn_so_far([request, *ran(command, missing, code=2)]).part is not None
    misspelt = "grep -q -- 'catt' pets.md && sed -i 's/catt/dog/g' pets.md"
    assert turn_so_far([request, *ran(misspelt, "[exit 1]", code=1)]).part is not None


@pytest.mark.parametrize(
    ("request_text", "output", "ending"),
    [
        ("how many files?", "a.txt\n[exit 0]", "failed"),
        ("¿cuántos archivos hay?", "a.txt\n[exit 0]", "failed"),
        ("how many files?", "3\n[exit 0]", "ok"),
        ("list the files", "a.txt\n[exit 0]", "ok"),
    ],
)
def test_a_count_is_a_number(request_text: str, output: str, ending: str) -> None:
    turn = turn_so_far([asked(request_text), *ran("ls", output, code=0)])
    assert [one.ending for one in (*turn.done, *turn.failed)] == [ending]


def test_a_second_request_with_a_file_of_its_own_is_a_part() -> None:
    assert parts_of("rename año.txt to viejo.txt and create an empty nuevo.txt") == (
        "rename año.txt to viejo.txt",
        "create an empty nuevo.txt",
    )
    assert parts_of("haz una copia de año.txt llamada día.txt y muéstrala") == (
        "haz una copia de año.txt llamada día.txt",
        "muestra día.txt",
    )
    whole = "count the words of a.txt and put the number in b.txt"
    assert parts_of(whole) == (whole,)


def test_search_without_finding_is_an_answer() -> None:
    turn = turn_so_far([asked("who says foo?"), *ran("grep -r foo .", "[exit 1]", code=1)])
    assert turn.part is None
    assert answer(turn) == "`grep -r foo .` printed nothing (exit code 1)."


def test_failure_is_tried_once_more_then_told() -> None:
    request = asked("how many lines?")
    first = ran("wc -l nope", "wc: nope: No such file\n[exit 1]", code=1)
    turn = turn_so_far([request, *first])
    assert turn.part == "how many lines?"
    turn = turn_so_far([request, *first, *ran("cat nope", "cat: nope\n[exit 1]", code=1, call="d")])
    assert turn.part is None
    assert answer(turn) == "`cat nope` failed with exit code 1.\n\n```text\ncat: nope\n```"


def test_parts_come_one_after_the_other() -> None:
    request = asked("make a folder x, then create x/a.txt and then list x")
    turn = turn_so_far([request, *ran("mkdir x", "[exit 0]", code=0)])
    assert turn.part == "create x/a.txt"
    both = [
        *ran("mkdir x", "[exit 0]", code=0),
        *ran("touch x/a.txt", "[exit 0]", code=0, call="d"),
    ]
    turn = turn_so_far([request, *both])
    assert turn.part == "list x"
    turn = turn_so_far([request, *both, *ran("ls x", "a.txt\n[exit 0]", code=0, call="e")])
    assert turn.part is None
    assert answer(turn).count("`") > 6
    assert "a.txt" in answer(turn)


def test_failed_part_ends_the_turn_and_names_what_is_left() -> None:
    request = asked("make a folder x, then create x/a.txt and then list x")
    failed = [
        *ran("mkdir x", "exists\n[exit 1]", code=1),
        *ran("mkdir ./x", "exists\n[exit 1]", code=1, call="d"),
    ]
    said = answer(turn_so_far([request, *failed]))
    assert "failed with exit code 1" in said
    assert said.endswith("Not done because of that: create x/a.txt; list x.")


def test_refused_command_is_not_tried_again() -> None:
    refusal = ran("rm -r x", "[not run: refused by the user: no] Do not.", status="error")
    turn = turn_so_far([asked("delete x"), *refusal])
    assert turn.part is None
    assert answer(turn) == "`rm -r x` was not run, so there is no result."


def test_stopped_command_is_not_called_a_result() -> None:
    stopped = ran("find /", "/a\n/b\n[timed out after 20 s; outcome incomplete]")
    turn = turn_so_far([asked("list everything"), *stopped])
    assert turn.part is None
    assert "did not end by itself" in answer(turn)
    assert "/a\n/b" in answer(turn)


def test_notes_behind_the_exit_code_are_not_output() -> None:
    observation = "1\n2\n[exit 0]\n[500 bytes left out; read_file /x/y]\n[job 1 still runs: z]"
    turn = turn_so_far([asked("show"), *ran("seq 9", observation, code=0)])
    assert turn.done[0].output == "1\n2"


def test_output_that_looks_like_a_note_stays() -> None:
    turn = turn_so_far([asked("show"), *ran("cat x", "[section]\na=1\n[end]\n[exit 0]", code=0)])
    assert turn.done[0].output == "[section]\na=1\n[end]"


@pytest.mark.parametrize("who", ["user", "person"])  # "person": written by earlier versions
def test_edited_command_is_the_one_that_is_named(who: str) -> None:
    observation = f"[the {who} changed the command to: ls -l]\na\n[exit 0]"
    turn = turn_so_far([asked("list"), *ran("ls", observation, code=0)])
    assert answer(turn).startswith("`ls -l` gave:")


def test_fences_in_the_output_cannot_end_the_fence() -> None:
    turn = turn_so_far([asked("show"), *ran("cat a.md", "```\nx\n```\n[exit 0]", code=0)])
    assert "````text\n```\nx\n```\n````" in answer(turn)


def test_only_the_last_turn_counts() -> None:
    old = [asked("list"), *ran("ls", "a\n[exit 0]", code=0), AIMessage("`ls` gave a")]
    turn = turn_so_far([*old, asked("count the files")])
    assert turn.part == "count the files"
    assert turn.done == ()


def test_what_stands_behind_the_words_is_kept_apart() -> None:
    message = asked(
        "what is this?\n\n<stdin>\nsome data\n</stdin>\n\n<memory>\nlikes cats\n</memory>"
    )
    turn = turn_so_far([message])
    assert turn.request == "what is this?"
    assert turn.data == "some data"


def test_follow_up_knows_the_turn_before() -> None:
    old = [asked("count the files in src"), *ran("ls src | wc -l", "3\n[exit 0]", code=0)]
    turn = turn_so_far([*old, AIMessage("3"), asked("and in docs?")])
    assert turn.previous == ("count the files in src", "ls src | wc -l")
    turn = turn_so_far([*old, AIMessage("3"), asked("count the files in docs")])
    assert turn.previous is None
    assert turn_so_far([asked("and in docs?")]).previous is None


def test_errors_behind_a_pipe_are_a_failure() -> None:
    shown = "find: unknown predicate `-maxdepth=1'\n[exit 0]"
    turn = turn_so_far([asked("list"), *ran("find -maxdepth=1 | sort", shown, code=0)])
    assert turn.part == "list"
    again = ran("find -depth=1 | sort", shown, code=0, call="d")
    turn = turn_so_far([asked("list"), *ran("find . | sort", shown, code=0), *again])
    assert turn.part is None
    assert answer(turn).startswith("`find -depth=1 | sort` gave no valid result")


@pytest.mark.parametrize(("count", "over"), [("0", False), ("3", True)])
def test_a_count_of_nothing_behind_an_error_is_a_failure(count: str, over: bool) -> None:
    shown = f"grep: b.txt: No such file or directory\n{count}\n[exit 0]"
    turn = turn_so_far([asked("count a"), *ran("grep a b.txt | wc -l", shown, code=0)])
    assert (turn.part is None) is over


def test_output_that_mentions_errors_is_output() -> None:
    shown = "app.log: error: disk not found\n[exit 0]"
    turn = turn_so_far([asked("show errors"), *ran("grep error *.txt", shown, code=0)])
    assert turn.part is None
    mixed = "find: 'x': Permission denied\n./a.txt\n[exit 0]"
    turn = turn_so_far([asked("show"), *ran("find . | sort", mixed, code=0)])
    assert turn.part is None


def test_silence_is_no_answer_to_a_question() -> None:
    turn = turn_so_far([asked("which files are empty?"), *ran("find -empty", "[exit 0]", code=0)])
    assert answer(turn) == "`find -empty` printed nothing (exit code 0)."
    summed = ran("awk '{s += $1}' a", "[exit 0]", code=0)  # which did not search for anything
    turn = turn_so_far([asked("what is the total of a?"), *summed])
    assert answer(turn) == (
        "`awk '{s += $1}' a` printed nothing (exit code 0); its effect was not checked."
    )


def test_command_that_was_told_is_known_to_the_next_turn() -> None:
    before = [
        asked("¿cómo veo los ocultos?"),
        AIMessage(unrun_answer("ls -a", "es")),
    ]
    assert turn_so_far([*before, asked("hazlo")]).shown == ("¿cómo veo los ocultos?", "ls -a")
    assert turn_so_far([asked("x"), AIMessage("```sh\nls\n```"), asked("hazlo")]).shown is None


def test_a_comparison_reports_differences_with_exit_code_1() -> None:
    turn = turn_so_far([asked("diff?"), *ran("diff a b", "1c1\n< x\n[exit 1]", code=1)])
    assert turn.part is None
    assert answer(turn) == "`diff a b` gave:\n\n```text\n1c1\n< x\n```"
    turn = turn_so_far([asked("diff?"), *ran("diff a b", "diff: a: error\n[exit 2]", code=2)])
    assert turn.part == "diff?"


@pytest.mark.parametrize("printed", ["inf", "-nan", ""])
def test_what_is_no_number_is_no_result(printed: str) -> None:
    request, command = "what is the mean?", "awk '{s+=$1} END {print s/n}' a"
    turn = turn_so_far([asked(request), *ran(command, f"{printed}\n[exit 0]", code=0)])
    assert turn.part == request
    assert answer(turn).startswith(f"`{command}` gave no valid result (exit code 0).")


def test_words_that_join_are_not_cut_out_of_a_name() -> None:
    request = "unstage a.txt for the next commit"
    assert parts_of(request) == (request,)
    assert len(parts_of("unstage a.txt next commit b.txt")) == 2
