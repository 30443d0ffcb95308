"""Proposals for one part of a request, and doubts about a command derived from its text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from kogniterm.addons.local_model.bank import CommandExample, LearnedExamples, examples
from kogniterm.addons.local_model.commands import (
    CommandWriter,
    Completion,
    checked_command,
    command_chat,
    correct_command,
    doubts,
    names_in,
    needless_harm,
)
from kogniterm.addons.local_model.runtime import LocalPrompt
from kogniterm.addons.local_model.steps import TurnSoFar, turn_so_far
from kogniterm.errors import ModelReplyError
from kogniterm.types import Usage

Write = Callable[[LocalPrompt], Awaitable[Completion]]


def replies(*texts: str) -> tuple[Write, list[LocalPrompt]]:
    """Return a completion that gives `texts` in order, and the list of prompts it receives."""
    prompts: list[LocalPrompt] = []

    async def write(prompt: LocalPrompt) -> Completion:
        prompts.append(prompt)
        return Completion(texts[len(prompts) - 1], Usage(10, 2, calls=1), cut=False)

    return write, prompts


def begun(request: str) -> TurnSoFar:
    """Return a turn in which nothing has run yet."""
    return turn_so_far([HumanMessage(request)])


def failed(request: str, command: str) -> TurnSoFar:
    """Return a turn whose first command failed."""
    call = {"name": "execute_command", "args": {"command": command}, "id": "x"}
    said = ToolMessage("no\n[exit 1]", tool_call_id="x", artifact={"exit_code": 1})
    return turn_so_far([HumanMessage(request), AIMessage("", tool_calls=[call]), said])


@pytest.mark.parametrize(
    ("request_text", "command", "checked"),
    [
        ("cuenta", "wc -l < año.txt > día.txt", "wc -l < año.txt > día.txt && test -s día.txt"),
        ("swap", "sed -i 's/a/b/g' x.md", "grep -q -- 'a' x.md && sed -i 's/a/b/g' x.md"),
        ("ends", r"sed -i 's/\r$//' x.sh", r"sed -i 's/\r$//' x.sh"),
        ("find", "find . 2> /dev/null", "find . 2> /dev/null"),
        ("quiet", "make > /dev/null", "make > /dev/null"),
        ("create it", "touch a", "touch a"),
    ],
)
def test_a_command_checks_its_own_effect(request_text: str, command: str, checked: str) -> None:
    assert checked_command(request_text, command) == checked
    assert checked_command(request_text, checked) == checked


async def test_command_without_doubts_is_taken_at_once() -> None:
    write, prompts = replies("wc -l < a.csv")
    writer = CommandWriter(write, tuple)
    found = await writer.propose(begun("count the lines of a.csv"), "the lines")
    assert (found.command, found.doubts, found.usage.calls) == ("wc -l < a.csv", (), 1)
    assert len(prompts) == 1


async def test_forgotten_name_makes_for_another_try_with_other_examples() -> None:
    write, prompts = replies("wc -l < b.csv", "wc -l < a.csv")
    request = "count the lines of a.csv"
    found = await CommandWriter(write, tuple).propose(begun(request), request)
    assert (found.command, found.doubts, found.usage.calls) == ("wc -l < a.csv", (), 2)
    assert prompts[0].text != prompts[1].text


async def test_of_two_doubtful_commands_the_better_one_is_taken() -> None:
    write, _ = replies("sort z.csv", "cat q.csv b.csv", "sort y.csv")
    request = "join a.csv and b.csv"
    found = await CommandWriter(write, tuple).propose(begun(request), request)
    assert found.command == "cat q.csv b.csv"
    assert found.doubts == ("forgot a.csv",)


async def test_harm_is_told_apart_and_never_the_better_one() -> None:
    write, _ = replies("rm -r cache", "ls other", "rm -r cache")
    found = await CommandWriter(write, tuple).propose(begun("is cache/ big?"), "is cache/ big?")
    assert found.command == "ls other"
    write, _ = replies("rm -r cache", "rm -rf cache", "rm -r cache/")
    found = await CommandWriter(write, tuple).propose(begun("is cache/ big?"), "is cache/ big?")
    assert found.harmful


async def test_prose_and_missing_programs_are_not_preferred() -> None:
    request = "show the tree of src/"
    write, _ = replies("I will list src for you.", "no-such-program src", "find src")
    found = await CommandWriter(write, tuple).propose(begun(request), request)
    assert (found.command, found.doubts) == ("find src", ())
    write, _ = replies("no-such-program src", "ls x", "rm -r src")
    found = await CommandWriter(write, tuple).propose(begun(request), request)
    assert "no program no-such-program" in found.doubts


@pytest.mark.parametrize(
    ("request_text", "command", "doubt"),
    [
        ("replace cat with dog in a.txt", "sed -i 's/dog/dog/g' a.txt", "forgot cat"),
        ("cambia gato por perro en a.txt", "sed -i 's/perro/perro/' a.txt", "replaces nothing"),
        ("show the lines of a.txt with Eva", "grep eva a.txt", "forgot Eva"),
        ("list the newest files", "git ls-files", "git"),
    ],
)
def test_slips_that_show_in_the_text_are_noticed(
    request_text: str, command: str, doubt: str
) -> None:
    assert doubt in doubts(request_text, command, ())


async def test_list_is_counted_when_the_number_was_asked_for() -> None:
    write, _ = replies("find . -name '*.rs'")
    request = "how many .rs files are here?"
    found = await CommandWriter(write, tuple).propose(begun(request), request)
    assert found.command == "find . -name '*.rs' | wc -l"


async def test_what_failed_is_not_proposed_again() -> None:
    write, prompts = replies("cat a.txt", "head a.txt")
    turn = failed("show a.txt", "cat a.txt")
    found = await CommandWriter(write, tuple).propose(turn, "show a.txt")
    assert found.command == "head a.txt"
    assert "That failed: no" in prompts[0].text
    write, _ = replies("cat a.txt", "cat a.txt", "cat a.txt")
    assert (await CommandWriter(write, tuple).propose(turn, "show a.txt")).repeated


async def test_no_usable_reply_is_an_error() -> None:
    write, _ = replies("", "I can list the files for you.", "https://example.com")
    with pytest.raises(ModelReplyError, match="no usable command"):
        await CommandWriter(write, tuple).propose(begun("list"), "list")


def test_examples_are_chat_turns_and_come_before_the_request() -> None:
    turn = begun("count the lines of a.csv")
    shown = (CommandExample("best", "1", "en"), CommandExample("second", "2", "en"))
    chat = command_chat(turn, "count the lines of a.csv", shown)
    assert chat[1:] == [
        ("user", "second"),
        ("assistant", "2"),
        ("user", "best"),
        ("assistant", "1"),
        ("user", "count the lines of a.csv"),
    ]


async def test_what_was_learnt_a_moment_ago_stands_nearest_to_the_request(tmp_path: Path) -> None:
    write, prompts = replies(*["make brass"] * 4)
    learned = LearnedExamples(tmp_path / "examples.jsonl")
    request = "polish the brass"
    writer = CommandWriter(write, learned.load)
    await writer.propose(begun(request), request)
    assert not any("make brass" in prompt.text for prompt in prompts)
    learned.add("polish the brass", "make brass")
    before = len(prompts)
    await writer.propose(begun(request), request)
    nearest = prompts[before].text.split("<|im_start|>user\n")[-2]
    assert nearest.startswith("polish the brass<|im_end|>")
    assert "make brass" in nearest


async def test_earlier_parts_are_earlier_turns() -> None:
    call = {"name": "execute_command", "args": {"command": "mkdir x"}, "id": "x"}
    done = ToolMessage("[exit 0]", tool_call_id="x", artifact={"exit_code": 0})
    request = HumanMessage("create folder x, then list it")
    turn = turn_so_far([request, AIMessage("", tool_calls=[call]), done])
    assert turn.part == "list the folder x"
    chat = command_chat(turn, turn.part, ())
    assert chat[1:] == [
        ("user", "create folder x"),
        ("assistant", "mkdir x"),
        ("user", "list the folder x"),
    ]


@pytest.mark.parametrize(
    ("request_text", "command"),
    [
        ("which files are old?", "find . -mtime +9 -delete"),
        ("is the folder cache big?", "rm -rf cache"),
        ("what runs on port 80?", "kill $(lsof -ti :80)"),
        ("don't delete anything, only show the .old files", "rm *.old"),
        ("sin borrar nada, dime qué .bak hay", "find . -name '*.bak' -delete"),
        ("clear the screen", "rm -r screen"),
        ("show the status", "git reset --hard && git status"),
        ("list the logs", "ls *.log; > app.log"),
        ("show them all", "ls | xargs rm"),
        ("which scripts lack a header?", "find . -exec sed -i 's/a/b/' {} +"),
        ("¿qué archivos son míos?", "chown me *"),
        ("delete a folder with everything in it", "rm -rf ."),
        ("delete everything", "rm -rf / --no-preserve-root"),
        ("borra todo", "rm -r ~"),
        ("¿cuántas ramas hay?", "git branch -D vieja; git branch | wc -l"),
        ("find all empty files", "find . -name '*.o' -empty -delete"),
        ("find all empty files", "find . -type f -empty -delete"),
        ("list the empty folders", "find . -type d -empty -exec rmdir {} +"),
        ("count empty files", "find . -empty -delete -print | wc -l"),
        ("Can you show me which directories are empty?", "find . -type d -empty -delete"),
        ("I want to see the empty logs", "find . -name '*.log' -empty -delete"),
        ("print the empty lines' numbers", "grep -n '^$' a.txt; rm a.txt"),
        ("create an empty file called a.txt", "rm -f a.txt; touch a.txt"),
        ("sort the empty ones first", "find . -empty -delete"),
        ("list deleted files", "git ls-files -d | xargs rm"),
        ("find files that can be removed", "find . -name '*.tmp' -delete"),
        ("which files were deleted last week?", "find . -mtime -7 -delete"),
        ("how much memory is free?", "killall python3"),
        ("show stopped and closed jobs", "kill %1"),
        ("list the moved and the clean files", "git clean -fd"),
        ("busca los archivos vacíos", "find . -type f -empty -delete"),
        ("encuentra todas las carpetas vacías", "find . -type d -empty -delete"),
        ("¿Qué archivos están vacíos?", "find . -type f -empty -delete"),
        ("quiero ver los archivos vacíos", "find . -type f -empty -delete"),
        ("cuenta los archivos borrados", "git clean -f | wc -l"),
        ("muestra la memoria libre", "pkill -x firefox"),
        ("lista los logs", "ls *.log; : > app.log"),
        ("¿hay carpetas rotas o vacías?", "find . -type d -empty -delete"),
    ],
)
def test_harm_that_was_not_requested_is_noticed(request_text: str, command: str) -> None:
    assert needless_harm(request_text, command)
    assert doubts(request_text, command, ())[0] == "harm"


@pytest.mark.parametrize(
    ("request_text", "command"),
    [
        ("delete the .tmp files", "rm -- *.tmp"),
        ("get rid of old logs", "find . -name '*.log' -mtime +30 -delete"),
        ("borra la carpeta x", "rm -r x"),
        ("how do I make run.sh executable?", "chmod +x run.sh"),
        ("replace a with b in x.txt", "sed -i 's/a/b/g' x.txt"),
        ("which files are in move?", "ls mv; sort -i x"),
        ("delete everything in here", "rm -rf ./* && rm -r ../old"),
        ("empty app.log without deleting it", "truncate -s 0 app.log"),
        ("stop the process 71", "kill 71"),
        ("undo my changes in a.c", "git restore a.c"),
        ("write hi into a.txt", "echo hi > a.txt"),
        ("list the files", "ls 2> /dev/null"),
        ("show rm.txt", "cat rm.txt"),
        ("empty the trash", "rm -rf trash/*"),
        ("please empty my downloads folder", "rm downloads/*"),
        ("empty old.log", "truncate -s 0 old.log"),
        ("stop the server and empty the cache folder", "rm -r cache/*"),
        ("create an empty file called todo.txt", "> todo.txt"),
        ("crea un archivo vacío llamado x.txt", ": > x.txt"),
        ("find the .tmp files and delete them", "find . -name '*.tmp' -delete"),
        ("find and remove all .bak files", "find . -name '*.bak' -delete"),
        ("list the empty folders, then delete them", "find . -type d -empty -print -delete"),
        ("can you delete the empty files?", "find . -type f -empty -delete"),
        ("could you please get rid of core?", "rm core"),
        ("how do I delete the empty files?", "find . -type f -empty -delete"),
        ("find what listens on port 80 and kill it", "kill $(lsof -ti :80)"),
        ("vacía la papelera", "rm -rf papelera/*"),
        ("vacía registro.log", "truncate -s 0 registro.log"),
        ("por favor vacíalo", "truncate -s 0 registro.log"),
        ("busca los .tmp y bórralos", "find . -name '*.tmp' -delete"),
        ("encuentra y elimina las carpetas vacías", "find . -type d -empty -delete"),
        ("borra los archivos vacíos", "find . -type f -empty -delete"),
        ("¿puedes borrar los archivos vacíos?", "find . -type f -empty -delete"),
        ("muestra los logs y luego bórralos", "ls *.log; rm *.log"),
    ],
)
def test_what_was_asked_for_is_no_harm(request_text: str, command: str) -> None:
    assert not needless_harm(request_text, command)


def test_the_bank_gives_hardly_any_doubt() -> None:
    doubtful = [e.request for e in examples() if doubts(e.request, e.command, ())]
    assert len(doubtful) <= 0.02 * len(examples()), doubtful
    assert [e.request for e in examples() if needless_harm(e.request, e.command)] == []
    assert [
        e.request for e in examples() if correct_command(e.request, e.command) != e.command
    ] == []


def test_names_of_a_request() -> None:
    asked = "put 'two words' into src/a.txt and the last 20 lines of .bashrc, version 1.2"
    assert set(names_in(asked)) == {"two words", "src/a.txt", "20", ".bashrc", "1.2"}
    assert names_in("don't list it, that's all") == ()
    assert names_in("print the city column") == ("city",)
    assert names_in("which file in drafts is the oldest?") == ("drafts",)
    assert names_in("¿cuál es el archivo que más pesa en descargas?") == ("descargas",)
    assert names_in("how many files are there in total?") == ()
    assert names_in("sort it in reverse") == ()


def test_what_is_to_be_added_does_not_replace_the_file() -> None:
    asked = "put a header line a,b at the top of x.csv"
    assert doubts(asked, "echo 'a,b' > x.csv", ()) == ("overwrites",)
    for kept in ("echo 'b' >> x.csv", "echo 'b -> <p>' >> x.csv", "echo b 2> /dev/null >> x.csv"):
        assert doubts("add the line b to x.csv", kept, ()) == ()
    assert doubts("add the line b to x.csv", "ls && echo 'b' > x.csv", ()) == ("overwrites",)


def test_name_copied_from_an_example_is_noticed() -> None:
    shown = (CommandExample("count lines of old.csv", "wc -l < old.csv", "en"),)
    assert doubts("count the lines in there", "wc -l < old.csv", shown) == ("copied old.csv",)
    assert doubts("count the lines of old.csv", "wc -l < old.csv", shown) == ()
    assert doubts("count the lines in there", "wc -l < settings.py", shown) == ()


@pytest.mark.parametrize(
    ("request_text", "command", "made"),
    [
        ("how many logs are here?", "ls *.log", "ls *.log | wc -l"),
        ("¿cuántos enlaces hay?", "find . -type l", "find . -type l | wc -l"),
        ("how many lines say x?", "grep -c x a.txt", "grep -c x a.txt"),
        ("how many files?", "find . -type f | wc -l", "find . -type f | wc -l"),
        ("list the logs", "ls *.log", "ls *.log"),
        ("largest folders", "du -sh */ | sort -nr | head", "du -sh */ | sort -hr | head"),
        ("largest folders", "du -sh */ | sort -n", "du -sh */ | sort -h"),
        ("largest folders", "du -s */ | sort -nr", "du -s */ | sort -nr"),
        ("how many bytes?", "ls -l a.txt", "ls -l a.txt"),
        ("how many did you delete?", "find . -name x -delete", "find . -name x | wc -l"),
        ("which logs can go?", "find . -name '*.log' -exec rm {} +", "find . -name '*.log'"),
        ("busiest process?", "ps aux --sort=-%cpu | head -n 1", "ps aux --sort=-%cpu | head -n 2"),
        ("the newest file", "ls -lt media | head -n 1", "ls -lt media | head -n 2"),
        ("the newest file", "ls -t media | head -n 1", "ls -t media | head -n 1"),
        ("delete the logs", "find . -name '*.log' -delete", "find . -name '*.log' -delete"),
        (
            "commits by Eva?",
            "git log --author=Eva | wc -l",
            "git log --oneline --author=Eva | wc -l",
        ),
        ("show the end of 'my day.txt'", "tail my day.txt", "tail 'my day.txt'"),
        ("lines of the file old list.md?", "wc -l < old list.md", "wc -l < 'old list.md'"),
        ("is the file in a.txt?", "grep in a.txt", "grep in a.txt"),
        ("folders a, b in box", "mkdir -p a b box", "mkdir -p box/a box/b"),
        ("folders a, b and box", "mkdir -p a b box", "mkdir -p a b box"),
        (
            "a script x that says hi",
            r"echo '#!/bin/sh\necho hi\n' > x",
            r"echo -e '#!/bin/sh\necho hi' > x",
        ),
        ("unpack a.tar into b", "tar -xf a.tar -C b", "mkdir -p b && tar -xf a.tar -C b"),
        (
            "sort a.txt into itself",
            "sort a.txt | uniq > a.txt",
            "sort a.txt | uniq > a.txt.new && test -s a.txt.new && mv a.txt.new a.txt",
        ),
        ("join a.txt and b.txt", "cat a.txt b.txt > c.txt", "cat a.txt b.txt > c.txt"),
        ("x as a script", r"echo 'printf \"hi\n\"' > x", r"echo 'printf \"hi\n\"' > x"),
        ("put it into p", r"echo 'C:\new' > p", r"echo 'C:\new' > p"),
        ("put it into p", r"echo 'logs\app\new' > p", r"echo 'logs\app\new' > p"),
    ],
)
def test_slips_that_can_be_mended_for_certain_are(
    request_text: str, command: str, made: str
) -> None:
    assert correct_command(request_text, command) == made


@pytest.mark.parametrize(
    "reads",
    ["sort '{}'", "sort < {}", "sort ./{}", "x=1; cat < '{}' | sort", "cd . && sort {}"],
)
@pytest.mark.parametrize("output", [">", "1>", ">|", "&>"])
@pytest.mark.parametrize("file", ["a.txt", "'a.txt'", "./a.txt", "b/../a.txt"])
def test_no_command_empties_the_file_that_it_reads(reads: str, output: str, file: str) -> None:
    kept = (
        f"{reads.format('a.txt')} {output} {file}.new && test -s {file}.new && mv {file}.new {file}"
    )
    assert correct_command("sort it", f"{reads.format('a.txt')} {output} {file}") == kept


def test_a_name_with_spaces_is_read_and_written_as_one() -> None:
    kept = "sort 'my a.txt' > 'my a.txt'.new && test -s 'my a.txt'.new"
    made = correct_command("sort 'my a.txt' into itself", "sort my a.txt > my a.txt")
    assert made == f"{kept} && mv 'my a.txt'.new 'my a.txt'"


@pytest.mark.parametrize(
    "command",
    [
        "tail -1 a.txt >> a.txt",
        "echo 'see a.txt now' >> a.txt",
        "echo a.txt > a.txt",
        "cat a.txt 2> a.txt",
        "sort a.txt >> 'a.txt'",
        "sort < /dev/null > /dev/null",
        "sort a.txt > b.txt",
        "cat a.txt && sort b.txt > a.txt",
        'sort "$x" > "$x"',
    ],
)
def test_what_empties_no_file_that_it_reads_stays(command: str) -> None:
    assert correct_command("do it", command) == command
