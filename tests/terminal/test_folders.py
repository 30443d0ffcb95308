"""Content of a folder: trust questions; custom commands; files and images named in an input."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tests.support.fake_gemini import FakeGemini, candidate
from tests.support.real_terminal import User
from tests.support.typing_user import (
    answer,
    flat,
    leave,
    open_prompt,
    put,
    say,
    say_task,
    scripted,
    turn_end,
)
from tests.terminal.conftest import OpenTerminal

ROOT = Path(__file__).resolve().parents[2]
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
SCRIPT = """replies:
  - {when: {last_contains: "Look at feature"}, text: "The review of feature."}
  - {when: {last_contains: "Say it to Ana"}, text: "Hello Ana."}
  - {when: {any_contains: "Always use tabs"}, text: "I know the house rules.", repeat: forever}
  - {when: {last_contains: "list"}, run: "ls"}
  - {text: "Nothing is known here.", repeat: forever}
"""


def test_nothing_of_a_folder_has_an_effect_before_it_is_trusted(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120, rows=50)
    put(terminal.folder, "AGENTS.md", "Always use tabs.\n")
    put(terminal.folder, ".kogniterm/commands/greet.md", "Say it to $1.\n")
    rule = '[[rule]]\ndecision = "deny"\nprogram = "ls"\n'
    put(terminal.folder, ".kogniterm/policy.toml", rule)
    own = "---\ndescription: Review a branch\narguments: BRANCH\n---\nLook at $ARGUMENTS.\n"
    put(terminal.home, ".config/kogniterm/commands/review.md", own)
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, SCRIPT)}")
    say(terminal, "/help review", "Review a branch")
    say(terminal, "/review feature", "The review of feature.")
    say(terminal, "/greet Ana", "/greet")
    assert "Hello Ana." not in terminal.text
    say(terminal, "what are the rules?", "Nothing is known here.")
    say(terminal, "list the files")
    answer(terminal, "$ ls", "n")
    with turn_end(terminal):
        terminal.send("\r")
        terminal.until("Rejected: ls")
    say(terminal, "/trust")
    terminal.until("AGENTS.md")
    terminal.until("[y]")
    terminal.look()
    terminal.send("y")
    terminal.pause(1)
    say_task(terminal, "and the rules now?", "I know the house rules.")
    say(terminal, "/greet Ana", "Hello Ana.")
    say(terminal, "/trust revoke")
    terminal.pause(1)
    assert leave(terminal) == 0
    status, shown = terminal.run("kogniterm trust --list --json; kogniterm trust --show")
    assert "AGENTS.md" in shown
    status, shown = terminal.run("kogniterm trust")
    assert (status, "AGENTS.md" in shown) == (0, True)
    assert "=> [deny] rule .kogniterm/policy.toml:1" in terminal.run("kogniterm policy check ls")[1]
    put(terminal.folder, "AGENTS.md", "Now use spaces.\n")
    assert "Changed" in terminal.run("kogniterm trust --show")[1]
    wrong = put(terminal.home, ".config/kogniterm/policy.toml", "[[rule]]\ndecision = 'alow'\n")
    status, shown = terminal.run("kogniterm policy check ls")
    assert status == 2
    assert "policy.toml" in shown
    wrong.unlink()


def test_rules_of_the_user_decide(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    rules = """[[rule]]
decision = "allow"
program = "npm"
arguments = "test|run lint"
match = ["npm test"]
not_match = ["npm publish"]

[[rule]]
decision = "deny"
program = "curl"
"""
    put(terminal.home, ".config/kogniterm/policy.toml", rules)
    for command, verdict in (
        ("npm test", "=> [allow]"),
        ("npm publish", "=> [ask]"),
        ("curl localhost", "=> [deny]"),
        ("rm -rf /", "=> [deny]"),
    ):
        _, shown = terminal.run(f"kogniterm policy check '{command}'")
        assert verdict in shown, command


def test_files_and_images_named_in_an_input_reach_the_model(
    open_terminal: OpenTerminal, user: User, fake_gemini: FakeGemini
) -> None:
    environment = {
        "GOOGLE_API_KEY": "x",
        "GOOGLE_GEMINI_BASE_URL": fake_gemini.url,
        "KOGNITERM_MEMORY": "session",
    }
    terminal = open_terminal(user=user, columns=120, environment=environment)
    put(terminal.folder, "shot.png", PIXEL)
    secret = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
    put(terminal.folder, "notes.txt", f"alpha\ntoken: {secret}\n")
    fake_gemini.say("A dot, and alpha.")
    status, shown = terminal.run("kogniterm run 'what is in @shot.png and @notes.txt?'")
    assert (status, "A dot, and alpha." in shown) == (0, True)
    sent = json.dumps(fake_gemini.requests[-1].body)
    assert "image/png" in sent
    assert "alpha" in sent
    assert secret not in sent
    # The model opens the image itself, because it is told that it may.
    fake_gemini.call(("read_file", {"path": "shot.png"}))
    fake_gemini.say("A dot again.")
    status, shown = terminal.run("kogniterm run 'look for yourself'")
    assert (status, "A dot again." in shown) == (0, True)
    # A rate limit is reported and waited for; a wrong key is not tried again.
    fake_gemini.fail(429, "slow down", retry_after=0)
    fake_gemini.say("At last.")
    status, shown = terminal.run("kogniterm run hi")
    assert (status, "At last." in shown) == (0, True)
    # An unusable reply is reported, and returned to the model with the reason.
    fake_gemini.chunks({"candidates": []})
    fake_gemini.say("Here I am.")
    status, shown = terminal.run("kogniterm run hi")
    assert (status, "Here I am." in shown) == (0, True)
    assert "could not be used: it was empty. Retrying (1 of 3)." in shown
    before = len(fake_gemini.requests)
    fake_gemini.fail(403, "API key not valid", name="PERMISSION_DENIED")
    assert terminal.run("kogniterm run hi")[0] == 5
    assert len(fake_gemini.requests) == before + 1
    fake_gemini.hang(after=1)
    terminal.start("kogniterm run hi")
    terminal.until(lambda: len(fake_gemini.requests) == before + 2)
    terminal.send("\x03")
    assert terminal.status() == 130
    assert fake_gemini.gone.wait(60)
    # Each request of a session begins with the bytes of the one before it.
    fake_gemini.say("One.")
    fake_gemini.say("Two.")
    terminal.run("kogniterm run 'the first'; kogniterm run -c 'the second'")
    one, two = (request.contents for request in fake_gemini.requests[-2:])
    assert two[: len(one)] == one


NESTED = """replies:
  - when: {last_contains: "see the api"}
    calls: [{tool: read_file, arguments: {path: api/x.py}}]
  - {when: {last_contains: "after a tree"}, text: "I name it oak.", repeat: forever}
  - {when: {system_contains: "Imported: be brief"}, text: "Brief.", repeat: forever}
  - {when: {system_contains: "Answer in Latin"}, text: "Salve.", repeat: forever}
  - {text: "Nothing is known here.", repeat: forever}
"""


def test_instructions_of_other_agents_and_folders_are_used_once_trusted(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100, rows=40)
    top, work = terminal.folder, terminal.folder / "app"
    put(top, ".git/HEAD", "ref: refs/heads/main\n")
    put(top, "AGENTS.md", "See @docs/style.md and @../home/secret.md\n")
    put(top, "docs/style.md", "Imported: be brief\n")
    put(terminal.home, "secret.md", "outside\n")
    put(top, "app/CLAUDE.md", "Use tabs.\n")
    put(top, "app/GEMINI.md", "Not this one.\n")
    put(top, "app/api/x.py", "pass\n")
    put(top, "app/api/AGENTS.md", "Name every endpoint after a tree.\n")
    put(terminal.home, ".config/kogniterm/AGENTS.md", "Answer in Latin.\n")
    model = scripted(terminal, NESTED)
    _, shown = terminal.run(f"kogniterm run -C {work} --model {model} hi")
    assert "Salve." in shown
    _, shown = terminal.run(f"kogniterm trust -C {work}")
    for line in (
        "instructions                 ../AGENTS.md",
        "instructions                 CLAUDE.md",
        "instructions for its folder  api/AGENTS.md",
        "imported by instructions     ../docs/style.md",
    ):
        assert line in shown
    assert "GEMINI.md" not in shown
    assert "secret.md" not in shown
    _, shown = terminal.run(f"kogniterm run -C {work} --model {model} hi")
    assert "Brief." in shown
    _, shown = terminal.run(f"kogniterm run -C {work} --model {model} 'see the api'")
    assert "I name it oak." in shown
    put(top, "docs/style.md", "Imported: be long\n")
    _, shown = terminal.run(f"kogniterm run -C {work} --model {model} hi")
    assert "Changed since this folder was trusted: ../docs/style.md." in flat(shown)
    assert "Salve." in shown
    _, shown = terminal.run(f"kogniterm trust --show -C {work}")
    assert "+Imported: be long" in shown


INIT = """replies:
  - when: {last_contains: "build with: cargo build"}
    calls: [{tool: read_file, arguments: {path: Cargo.toml}}]
  - calls: [{tool: write_file, arguments: {path: AGENTS.md, content: "Run cargo nextest.\\n"}}]
  - {text: "AGENTS.md is written; /trust applies it."}
"""


def test_init_writes_the_instructions_of_a_project(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(columns=100, rows=40)
    put(terminal.folder, "Cargo.toml", "[package]\n")
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, INIT)}")
    say(terminal, "/init name the test runner")
    answer(terminal, "+Run cargo nextest.", "y")
    terminal.until("AGENTS.md is written")
    assert (terminal.folder / "AGENTS.md").read_text() == "Run cargo nextest.\n"
    assert terminal.text.count("/init name the test runner") == 1
    assert "A scan found this" not in terminal.text
    assert leave(terminal) == 0

    small = "model: {one_command: true}\nreplies: [{text: Done., repeat: forever}]"
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, small)}")
    say(terminal, "/init")
    answer(terminal, "+- `cargo build`", "y")
    terminal.until("AGENTS.md written; /undo reverts it.")
    assert leave(terminal) == 0
    text = (terminal.folder / "AGENTS.md").read_text()
    assert text.startswith("Run cargo nextest.\n")
    assert "## Lint\n\n- `cargo clippy`" in text


def test_the_web_is_searched_by_the_provider_that_is_named(
    open_terminal: OpenTerminal, fake_gemini: FakeGemini
) -> None:
    environment = {"GOOGLE_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": fake_gemini.url}
    terminal = open_terminal(columns=100, rows=40, environment=environment)
    page = {"web": {"uri": "https://pypi.org/project/httpx", "title": "httpx"}}
    found = candidate([{"text": "It is 1.0.\x1b[2J"}], "STOP", {"promptTokenCount": 4})
    found["candidates"][0]["groundingMetadata"] = {"groundingChunks": [page]}
    fake_gemini.call(("web_search", {"query": "newest httpx"}))
    fake_gemini.chunks(found)
    fake_gemini.say("The newest is 1.0.")
    open_prompt(terminal, "kogniterm")
    say(terminal, "what is the newest httpx?")
    host = fake_gemini.url.removeprefix("http://")
    terminal.until(f"Uses the network: {host}")
    answer(terminal, "search the web: newest httpx", "y")
    terminal.until("The newest is 1.0.")
    assert "https://pypi.org/project/httpx" in str(fake_gemini.last.contents[-1])
    assert leave(terminal) == 0
