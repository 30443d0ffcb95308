"""Commands that a user types and answers, in this process: mistakes, questions, and limits."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kogniterm.cli import tour
from kogniterm.ui.questions.answer_keys import KeyTimes
from tests.support.typist import Typist, typing_here

HELLO = "replies: [{text: Hello., repeat: forever}]"


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typist]:
    with typing_here(tmp_path, monkeypatch) as typist:
        yield typist


COMMANDS = """commands:
  - {command: make, output: "main.c:3: error", exit: 2, repeat: 1}
  - {matches: "make( .*)?", output: all built, seconds: 12}
"""


def test_each_question_says_that_nothing_runs(user: Typist) -> None:
    (user.project / "commands.yaml").write_text(COMMANDS)
    model = user.script("replies: [{run: make clean}, All is clean.]")
    typed = [("> ", "clean up\n"), ("make clean", "y\n")]
    own = [("> ", "!make\n"), ("> ", "!touch made.txt\n"), ("> ", "\x04")]
    words = ("--model", model, "--executor", "scripted:commands.yaml")
    assert user.type(*words, answers=[*typed, *own]) == 0
    assert "No command runs in this session" in user.flat
    question = user.flat[: user.flat.index("all built")]
    assert "Nothing runs: commands.yaml answers" in question
    assert "Answered from commands.yaml; nothing ran." in user.flat
    assert "main.c:3: error" in user.flat
    assert "has no entry for: touch made.txt" in user.flat
    assert not (user.project / "made.txt").exists()


def test_files_with_a_mark_of_bytes_are_read(user: Typist) -> None:
    """Editors of Windows begin each file with one."""
    rule = '[[rule]]\ndecision = "{}"\nprogram = "{}"\n'
    files = {
        user.config / "policy.toml": rule.format("allow", "make"),
        user.config / "mcp.json": '{"mcpServers": {"one": {"command": "true"}}}',
        user.config / "hooks.json": '{"hooks": {"Stop": [{"hooks": [{"command": "true"}]}]}}',
        user.project / ".mcp.json": '{"mcpServers": {"two": {"command": "true"}}}',
        user.project / ".kogniterm" / "policy.toml": rule.format("deny", "curl"),
    }
    for file, text in files.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"\ufeff{text}")
    assert user.type("trust") == 0
    for words, told in (
        (("policy", "check", "make"), "=> [allow]"),
        (("policy", "check", "curl x"), "=> [deny]"),
        (("hooks", "list"), "Stop"),
    ):
        assert user.type(*words) == 0
        assert told in user.flat
    assert user.type("mcp", "list") == 0
    assert all(re.search(rf"^{name} ", user.shown, re.MULTILINE) for name in ("one", "two"))


def test_mcp_servers_are_written_where_a_link_leads(user: Typist) -> None:
    for folder, link, words in (
        (user.home / "dot", user.config / "mcp.json", ()),
        (user.project / "tools", user.project / ".mcp.json", ("--project",)),
    ):
        folder.mkdir()
        link.symlink_to(file := folder / "servers.json")
        assert user.type("mcp", "add", *words, "one", "--", "true") == 0
        assert user.type("mcp", "add", *words, "two", "--", "true") == 0
        assert user.type("mcp", "remove", *words, "one") == 0
        assert link.is_symlink()
        assert list(json.loads(file.read_text())["mcpServers"]) == ["two"]
    (user.project / ".mcp.json").unlink()
    (user.project / ".mcp.json").symlink_to(user.home / "dot" / "servers.json")
    assert user.type("mcp", "add", "--project", "three", "--", "true") == 2
    assert "it leads out of the folder" in user.flat


def test_mistakes_with_mcp_servers_are_one_sentence_each(user: Typist) -> None:
    assert user.type("mcp", "add", "demo", "npx", "-y", "server") == 2
    assert "Put -- before the server's command" in user.flat
    assert user.type("mcp", "add", "a b", "--", "true") == 2
    assert user.type("mcp", "add", "gone", "--", "/no/such/program") == 0
    assert user.type("mcp", "add", "gone", "--", "true") == 2
    assert "already has a server gone; remove it first" in user.flat
    for verb in ("test", "trust", "login"):
        assert user.type("mcp", verb, "gonne") == 2
        assert "did you mean gone?" in user.flat
    assert user.type("mcp", "trust", "gone", stdin=Path(os.devnull)) == 2
    assert "needs a terminal" in user.flat
    assert user.type("mcp", "serve") == 2
    assert "is started by another agent" in user.flat
    assert user.type("mcp", "test", "gone") == 2
    assert "could not be started" in user.flat
    assert user.type("mcp", "remove", "gone") == 0
    assert user.type("mcp", "list") == 0
    assert "No MCP servers." in user.flat


SLOW = """import sys, time
for number in (1, 2, 3):
    print("fetch", number, file=sys.stderr, flush=True)
    time.sleep(0.9)
time.sleep(60)
"""


def test_a_server_that_does_not_start_shows_what_it_says_meanwhile_and_at_its_end(
    user: Typist,
) -> None:
    (user.project / "slow.py").write_text(SLOW)
    (user.project / "ends.py").write_text("import sys; sys.exit('Error: no module x')")
    servers = {
        "slow": {"command": sys.executable, "args": ["slow.py"], "startup_timeout": 4},
        "ends": {"command": sys.executable, "args": ["ends.py"]},
    }
    (user.config / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert user.type("mcp", "trust", "slow", "--yes") == 2
    assert "Starting slow. A first start may download it." in user.flat
    assert "\n  fetch 3\n" in user.shown.replace("\r", "")
    late = "did not answer within 4 s in the sandbox, without network; its last lines: fetch 1 "
    assert f"{late}fetch 2 fetch 3." in user.flat
    assert user.type("mcp", "test", "ends") == 2
    bounds = "it ended in the sandbox, without network"
    assert f"{bounds}; its last lines: Error: no module x." in user.flat
    assert user.type("mcp", "test", "ends", "--lang", "es") == 2
    bounds = "terminó en la zona de pruebas, sin red"
    assert f"{bounds}; sus últimas líneas: Error: no module x." in user.flat
    assert "Traceback" not in user.shown


def test_ctrl_c_ends_a_sign_in(user: Typist, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def sign_in(config: Any, _file: object, front: Any) -> str:
        asked.append(config.url)
        signal.raise_signal(signal.SIGINT)
        await front.pasted(again=False)
        raise AssertionError("the sign-in went on")

    monkeypatch.setattr("kogniterm.tools.mcp.oauth.sign_in", sign_in)
    assert user.type("mcp", "add", "peer", "https://peer.example/mcp") == 0
    assert user.type("mcp", "login", "peer") == 130
    assert asked == ["https://peer.example/mcp"]
    assert "Traceback" not in user.shown


def test_a_run_ends_at_its_time_limit(user: Typist) -> None:
    model = user.script("delays: true\nreplies: [{text: Late., delay: 987}]")
    assert user.type("run", "--model", model, "--timeout", "1", "go") == 4
    assert "Time limit reached: 1" in user.flat
    assert "--timeout" in user.flat


def test_plain_lines_take_the_tour_with_answers(
    user: Typist, monkeypatch: pytest.MonkeyPatch
) -> None:
    preferences = tour._Tour._preferences
    monkeypatch.setattr(
        tour._Tour,
        "_preferences",
        lambda self: replace(preferences(self), key_times=KeyTimes(0.0, 0.0, 0.0)),
    )
    hints = [("Tour 1/5", "y\n"), ("Tour 2/5", "y\n"), ("Tour 3/5", "y\n"), ("Tour 4/5", "y\n")]
    undo = [
        ("Tour 5/5", "/undo\n"),
        ("Restore the files as they were", "y\n"),
        ("The tour ends here. Press Ctrl-D to leave.", "\x04"),
    ]
    assert user.type("tour", answers=[*hints, *undo]) == 0
    assert "Deletes logs/2025: 2 files" in user.flat
    assert "Restored: logs/2025" in user.flat
    assert user.flat.endswith("To set up a model of your own: kogniterm login")
    assert "\x1b" not in user.shown


def test_a_task_without_a_model_names_login(user: Typist) -> None:
    assert user.type("run", "--model", "openai:gpt-4.1", "hi") == 2
    assert "Run `kogniterm login openai`" in user.flat
    assert user.type("run", "--model", "openai:gpt-4.1", "--output", "json", "hi") == 2
    assert "kogniterm login openai" in user.shown.replace("\\n", " ")


def test_what_cannot_be_a_key_is_refused(user: Typist) -> None:
    keys = user.project / "key.txt"
    for words, told in (
        ("two words of a sentence", "contains spaces"),
        ("short", "too short or a placeholder"),
        ("OPENAI_API_KEY=sk-0123456789abcdef", "without NAME="),
    ):
        keys.write_text(words)
        assert user.type("login", "openai", stdin=keys) == 2
        assert told in user.flat
        assert not {"sentence", "0123456789abcdef"} & set(re.split(r"\W", user.shown))
    assert user.type("login", stdin=keys) == 2
    assert "name the provider of the key" in user.flat
    assert list(user.config.iterdir()) == []


def test_a_dangerous_command_in_the_text_of_a_command_is_stopped(user: Typist) -> None:
    kept = user.project / "keep" / "me.txt"
    kept.parent.mkdir()
    kept.write_text("x")
    commands = user.config / "commands"
    commands.mkdir()
    (commands / "clean.md").write_text(
        "---\nallowed-tools: Bash\n---\nLeft: !`rm -rf ./* ~/*; ls`\n"
    )
    (commands / "drop.md").write_text(
        "---\nallowed-tools: Bash(rm:*)\n---\nLeft: !`rm -rf keep; ls`\n"
    )
    model = user.script(HELLO)
    assert user.type("run", "-y", "--no-sandbox", "--model", model, "/clean") == 3
    assert "Refused by a hard limit: rm -rf ./* ~/*; ls" in user.flat
    nobody = Path(os.devnull)
    assert user.type("run", "--model", model, "/drop", stdin=nobody) == 3
    assert "rm -rf keep; ls" in user.flat
    assert "Hello." not in user.shown
    assert kept.exists()


def test_help_on_a_topic_at_the_prompt(user: Typist) -> None:
    typed = [("> ", "/help privacy\n"), ("> ", "/help mem\n"), ("> ", "\x04")]
    assert user.type("--model", user.script(HELLO), answers=typed) == 0
    assert "What is kept, and what is sent" in user.flat
    assert "More: docs/security.md" in user.flat
    assert "memories, or show, search" in user.flat


def test_tools_are_listed_and_wrong_names_answered(
    user: Typist, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert user.type("tools", "--json") == 0
    tools = {one["name"]: one for one in json.loads(user.shown)}
    assert tools["execute_command"] == {
        "name": "execute_command", "effect": "command", "source": "built_in", "package": None,
        "state": "on", "reason": None, "note": None,
    }  # fmt: skip
    assert {"delegate", "make_plan", "complete_step", "forget"} <= set(tools)
    assert user.type("tools", "show", "read_file", "--json") == 0
    assert json.loads(user.shown)["arguments"]["required"] == ["path"]
    assert user.type("tools", "show", "web_fech") == 2
    assert "did you mean web_fetch?" in user.flat
    monkeypatch.setenv("KOGNITERM_TOOLS_OFF", "jobs")
    assert user.type("tools", "--lang", "es") == 0
    assert "tools_off" in user.flat


def test_edits_of_the_workspace_can_be_allowed_for_the_session(user: Typist) -> None:
    paths = ("one.txt", "two.txt", ".git/hooks/pre-commit")
    calls = [
        f"{{calls: [{{tool: write_file, arguments: {{path: {path}, content: new}}}}]}}"
        for path in paths
    ]
    model = user.script(f"replies: [{', '.join(calls)}, {{text: Done., repeat: forever}}]")
    allowed = [("> ", "go\n"), ("one.txt", "a\n"), ("edits of files in", "1\n")]
    refused = [("pre-commit", "n\n"), ("eason", "\n"), ("> ", "\x04")]
    assert user.type("--model", model, answers=[*allowed, *refused]) == 0
    assert (user.project / "two.txt").read_text() == "new"
    assert not (user.project / ".git").exists()


def test_jobs_are_ended_where_the_user_says_so(user: Typist) -> None:
    job = "nohup sleep 987 >/dev/null 2>&1 &"
    model = user.script(f"replies: [{{run: '{job}'}}, {{text: Started.}}]")
    assert user.type("run", "-y", "--no-sandbox", "--end-jobs", "--model", model, "go") == 0
    assert "(--end-jobs)" in user.flat
    assert "Stopped: nohup sleep 987" in user.flat or "Stopped: sleep 987" in user.flat


def test_kept_replies_are_reported(user: Typist) -> None:
    assert user.type("doctor") in {0, 1}  # 1 without the weights of the embedded model
    assert "kept replies of models: 0 (0 kB)" in user.flat
    assert f"{user.config} is writable" in user.flat


def test_how_thoughts_are_shown_is_chosen_at_the_prompt(user: Typist) -> None:
    thinking = "replies: [{thoughts: I count on my fingers., text: Two.}]\nat_end: restart\n"
    lines = ("/thoughts", "one?", "/thoughts shown", "two?", "/thoughts folded", "/thoughts off")
    answers = [*(("> ", f"{line}\n") for line in lines), ("> ", "\x04")]
    assert user.type("--memory", "off", "--model", user.script(thinking), answers=answers) == 0
    assert "The model has not shown any thoughts in this session." in user.flat
    first, _shown, second = user.flat.partition("Thoughts are shown")
    assert "I count on my fingers." not in first
    assert "I count on my fingers." in second
    assert "Thoughts are folded into a line." in second
    assert "New sessions do not request them." in second
    assert (user.config / "config.toml").read_text() == 'thoughts = "off"\n'


def test_a_server_that_has_to_be_downloaded_asks_about_the_network(user: Typist) -> None:
    words = ("--", "npx", "-y", "@modelcontextprotocol/server-filesystem", ".")
    for name, said in (("files", "yes\n"), ("other", "no\n")):
        assert user.type("mcp", "add", name, *words, answers=[("Allow it?", said)]) == 0
    assert user.type("mcp", "add", "quick", "--network", *words) == 0
    assert user.type("mcp", "add", "own", "--", "true") == 0
    servers = json.loads((user.config / "mcp.json").read_text())["mcpServers"]
    assert [name for name, one in servers.items() if one.get("network")] == ["files", "quick"]
