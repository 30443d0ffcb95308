"""One task from the shell: questions at the terminal, pipes, and exit statuses."""

from __future__ import annotations

import json

from tests.support.fake_gemini import FakeGemini
from tests.support.programs import require
from tests.support.real_terminal import User
from tests.support.typing_user import (
    answer,
    asked,
    has_prompt,
    holding,
    nap,
    put,
    result_of,
    running,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

FOUR = """replies:
  - {run: "cat notes.txt > copy.txt", purpose: Copy the notes.}
  - {run: "rm notes.txt", purpose: Tidy up.}
  - {run: "echo first", purpose: Say something.}
  - {run: "echo first", purpose: Say it again.}
  - {when: {any_contains: "I still need it"}, text: "**You** keep your notes."}
"""


def test_every_command_is_asked_for_and_only_what_was_shown_runs(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    put(terminal.folder, "notes.txt", "alpha\n")
    terminal.start(f"kogniterm run --model {scripted(terminal, FOUR)} 'tidy up'")
    shown = answer(terminal, "cat notes.txt", "x")
    assert "Copy the notes." in shown
    assert str(terminal.folder) in shown
    terminal.until("In ask mode, every action needs approval")
    answer(terminal, "cat notes.txt", "y")
    shown = asked(terminal, "rm notes.txt")
    assert "Deletes notes.txt" in shown
    assert "1 file" in shown
    assert "/undo" in shown
    answer(terminal, "rm notes.txt", "n")
    terminal.until("Reason")
    terminal.send("I still need it\r")
    answer(terminal, "echo first", "e")
    terminal.until("New command:")
    terminal.send("echo second\r")
    answer(terminal, "echo second", "y")
    answer(terminal, "echo first", "y")
    assert terminal.status() == 3
    assert "You keep your notes." in terminal.text
    assert "│ second" in terminal.text
    assert (terminal.folder / "notes.txt").exists()


def test_pipes_lead_data_in_and_nothing_but_the_answer_out(
    open_terminal: OpenTerminal, user: User, fake_gemini: FakeGemini
) -> None:
    key = "AIza" + "SyTerminalTerminalTerminalTerminal0"
    terminal = open_terminal(
        user=user,
        columns=120,
        environment={
            "GOOGLE_API_KEY": key,
            "GOOGLE_GEMINI_BASE_URL": fake_gemini.url,
            "KOGNITERM_MEMORY": "session",
        },
    )
    put(terminal.folder, "notes.txt", "alpha\n")
    require("git")
    terminal.run("git init -q . && git add . && echo beta > notes.txt")
    fake_gemini.say("It adds beta.")
    status, _ = terminal.run("git diff | kogniterm run 'review this' > review.txt")
    assert (status, (terminal.folder / "review.txt").read_text()) == (0, "It adds beta.\n")
    assert "It adds beta." not in terminal.text
    (request,) = fake_gemini.requests
    assert "+beta" in json.dumps(request.contents)
    assert request.headers["x-goog-api-key"] == key
    # If standard output is a pipe to the terminal, the answer appears there once.
    fake_gemini.call(("calculate", {"formula": "6*7"}))
    fake_gemini.say("It is forty-two.")
    status, shown = terminal.run("kogniterm run 'how much is it?' | cat")
    assert (status, shown.count("It is forty-two.")) == (0, 1)
    # Without a key the task is not started: this is a configuration error.
    unset = "env -u GOOGLE_API_KEY kogniterm --model google_genai:x"
    status, shown = terminal.run(f"{unset} run 'anything'")
    assert (status, "needs an API key" in shown) == (2, True)
    # If standard input is data, the question still comes to the terminal.
    fake_gemini.call(("execute_command", {"command": "wc -l notes.txt", "purpose": "Count."}))
    fake_gemini.say("One line.")
    terminal.start("echo 'how long is it?' | kogniterm run --output stream-json > events")
    answer(terminal, "wc -l notes.txt", "y")
    assert terminal.status() == 0
    lines = (terminal.folder / "events").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["type"] for event in events][0::-1] == ["turn_started"]
    assert {"command_output", "action_decided", "turn_ended"} <= {e["type"] for e in events}
    assert all(event["version"] == 1 for event in events)
    assert all(line.isascii() for line in lines)
    assert events[-2]["type"] == "turn_ended"
    result = events[-1]
    assert (result["type"], result["answer"], result["stop"]) == ("result", "One line.", "done")
    assert result["commands"][0]["output"] == "1 notes.txt"
    assert result["usage"]["calls"] == 2
    # A file as standard input is data too, and leaves the terminal for questions.
    fake_gemini.call(("execute_command", {"command": "head -1 notes.txt", "purpose": "Look."}))
    fake_gemini.say("It says beta.")
    terminal.start("kogniterm run 'and this?' < notes.txt > said.txt")
    answer(terminal, "head -1 notes.txt", "y")
    assert terminal.status() == 0
    assert (terminal.folder / "said.txt").read_text() == "It says beta.\n"
    # The key is in no file, and no command sees it.
    fake_gemini.call(("execute_command", {"command": "env", "purpose": "Look."}))
    fake_gemini.say("Seen.")
    status, _ = terminal.run("echo look | kogniterm run -y --no-sandbox - --output json > env.json")
    assert status == 0
    assert "PATH=" in result_of(terminal.folder / "env.json")["commands"][0]["output"]
    assert holding(terminal.home.parent, key.encode()) == []


def test_each_exit_status_means_what_the_page_says(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    run = "kogniterm run --output json --model "
    said = scripted(terminal, "replies: [{text: Done.}]")
    two = scripted(terminal, "replies: [{run: ls}, {run: pwd}, {text: Done.}]")
    failing = scripted(terminal, "replies: [{error: auth, message: The key is wrong.}]")
    wrong = scripted(terminal, "replies:\n  - text: x\n  - txet: y\n")

    def reason(command: str) -> tuple[int, object, str]:
        status, shown = terminal.run(f"{command} > out.json")
        result = result_of(terminal.folder / "out.json")
        assert result["exit_code"] == status
        return status, result["stop"], f"{result['reason']} {shown}"

    assert reason(f"{run}{said} hi")[:2] == (0, "done")
    status, _, why = reason(f"{run}{wrong} hi")
    assert status == 2
    assert "3: replies[2].txet: unknown key (did you mean text?)" in why.replace("\n", "")
    # Without a terminal nobody can be asked, so nothing runs.
    status, stop, _ = reason(f"setsid -w {run}{two} hi < /dev/null 2> errors")
    assert (status, stop) == (3, "refused")
    assert reason(f"{run}{two} --allow-reads --max-steps 1 hi")[:2] == (4, "budget")
    status, stop, why = reason(f"{run}{failing} hi")
    assert (status, stop) == (5, "model_failed")
    assert "The key is wrong." in why
    sleep = nap()
    slow = scripted(terminal, f"replies: [{{run: 'touch begun; {sleep}'}}, {{text: Done.}}]")
    terminal.start(f"{run}{slow} -y --no-sandbox hi > out.json")
    begun = terminal.folder / "begun"
    terminal.until(begun.exists)
    terminal.send("\x03")
    assert terminal.status() == 130
    assert result_of(terminal.folder / "out.json")["stop"] == "interrupted"
    assert not running(sleep)
    assert terminal.run("kogniterm run hi --modle x")[0] == 2
    assert terminal.run("kogniterm sessions show nix")[0] == 2
    giving_up = scripted(
        terminal,
        """replies:
  - plan: {goal: Build it, steps: [{what: Build, check: {kind: file, value: built}}]}
  - repeat: 9
    run: "false"
  - at: {}
""".replace("  - at: {}\n", "  - text: I could not build it.\n    repeat: 9\n"),
    )
    status, stop, _ = reason(f"{run}{giving_up} -y --no-sandbox hi")
    assert (status, stop) == (1, "not_done")


def test_a_task_in_quotes_opens_the_prompt_with_it(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, "replies: [{run: echo done, purpose: Try it.}, {text: It works.}]")
    terminal.start(f"kogniterm --model {model} 'try the tests'")
    answer(terminal, "echo done", "y")
    terminal.until("It works.")
    assert "› try the tests" in terminal.text
    terminal.until(lambda: has_prompt(terminal))
    terminal.send("/quit\r")
    assert terminal.status() == 0
    status, said = terminal.run(f"kogniterm --model {model} -p 'try the tests' --allow-reads")
    assert (status, "It works." in said) == (0, True)
    status, said = terminal.run("kogniterm --modle local 'try'")
    assert (status, "Did you mean --model?" in said) == (2, True)
