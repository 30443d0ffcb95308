"""Commands that a user types and answers, in this process: mistakes, questions, and limits."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import termios
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kogniterm.cli import tour
from kogniterm.cli.main import main
from kogniterm.ui.prompt import user_terminal
from tests.support.other_agents import HOMES, SECRETS


HELLO = "replies: [{text: Hello., repeat: forever}]"


class Screen(io.StringIO):
    """Everything that is shown; it answers each question as soon as the question stands there.

    `answers` are pairs of the text of a question and of the keys that the user presses then.
    """

    def __init__(self, keyboard: int, number: int) -> None:
        super().__init__()
        self._keyboard, self._number = keyboard, number
        self._seen = 0
        self.answers: list[tuple[str, str]] = []

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def write(self, text: str) -> int:
        super().write(text)
        told = self.getvalue()
        # A question leaves the cursor behind its text.
        if self.answers and not told.endswith("\n") and self.answers[0][0] in told[self._seen :]:
            self._seen = len(told)
            os.write(self._keyboard, self.answers.pop(0)[1].encode())
        return len(text)


class Typist:
    """A user with a home and a project, at a terminal of their own."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.home, self.project = root / "home", root / "project"
        self.config = self.home / "config"
        self.config.mkdir(parents=True)
        self.project.mkdir()
        self._keyboard, self._terminal = pty.openpty()
        termios.tcsetwinsize(self._terminal, (40, 200))
        self._stdin = os.fdopen(self._terminal, encoding="utf-8")
        self.shown = ""
        for name, value in {
            "HOME": self.home,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "KOGNITERM_CONFIG_DIR": self.config,
            "KOGNITERM_DATA_DIR": self.home / "data",
            "KOGNITERM_CACHE_DIR": self.home / "cache",
        }.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.chdir(self.project)

    def type(self, *words: str, answers: list[tuple[str, str]] | None = None) -> int:
        """Run `kogniterm WORDS`, answer its questions; returns the exit status."""
        screen = Screen(self._keyboard, self._terminal)
        screen.answers = list(answers or ())
        with self._monkeypatch.context() as streams:
            streams.setattr("sys.stdin", self._stdin)
            streams.setattr("sys.stdout", screen)
            streams.setattr("sys.stderr", screen)
            status = main(words)
        assert screen.answers == [], screen.getvalue()
        self.shown = screen.getvalue()
        return status

    @property
    def flat(self) -> str:
        """What was shown, without the breaks that the width makes."""
        return " ".join(self.shown.split())

    def script(self, text: str) -> str:
        """Return the name of a scripted model that answers as `text` says."""
        file = self.home / "script.yaml"
        file.write_text(text, encoding="utf-8")
        return f"scripted:{file}"

    def close(self) -> None:
        self._stdin.close()
        os.close(self._keyboard)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typist]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr("kogniterm.cli.streams_and_signals._received", [])
    monkeypatch.setattr("kogniterm.logs.set_up", lambda *_args, **_options: True)
    # Nothing is typed ahead of a question here, so that there is nothing to wait for.
    monkeypatch.setattr(user_terminal.typed_before, "__defaults__", (0.0,))
    typist = Typist(tmp_path, monkeypatch)
    yield typist
    typist.close()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_secrets_are_copied_at_their_own_question(user: Typist) -> None:
    HOMES["claude"](user.home)
    answers = [("Import 3 entries? [y/N]", "y\n"), ("Copy the secrets? [y/N]", "y\n")]
    assert user.type("import", "claude", "--only", "mcp", answers=answers) == 0
    assert "3 entries imported." in user.flat
    shown = user.shown
    servers = (user.config / "mcp.json").read_text()
    assert all(one in servers for one in SECRETS)
    assert user.type("import", "claude", "--only", "mcp") == 0
    assert "There is nothing to add." in user.flat
    assert not any(one in shown + user.shown for one in SECRETS)


def test_an_import_that_is_refused_or_has_a_wrong_option_writes_nothing(user: Typist) -> None:
    HOMES["claude"](user.home)
    assert user.type("import", "claude", answers=[("Import 10 entries? [y/N]", "n\n")]) == 2
    for words, told in (
        (("claude", "--only", "servers"), "one or more of mcp, hooks"),
        (("claude", "-C", "/"), "--cwd needs --project."),
        (("cursor",), "choose from claude, codex"),
    ):
        assert user.type("import", *words) == 2
        assert told in user.flat
    assert user.type("import", "codex") == 1
    assert "No settings of Codex were found here." in user.flat
    assert list(user.config.iterdir()) == []


def test_the_prompt_imports_too(user: Typist) -> None:
    HOMES["gemini"](user.home)
    typed = ("/import", "/import cursor", "/import gemini")
    answers = [*(("> ", f"{line}\n") for line in typed), ("Import 6 entries?", "y\n")]
    again = [("> ", "/import gemini\n"), ("> ", "\x04")]
    assert user.type("--model", user.script(HELLO), answers=[*answers, *again]) == 0
    for text in ("gemini-cli", "choose one of claude, codex", "6 entries imported."):
        assert text in user.flat
    assert "There is nothing to add." in user.flat
    assert (user.config / "skills" / "maps" / "SKILL.md").exists()
    assert not any(one in user.shown for one in SECRETS)


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
    assert user.type("mcp", "test", "gone") == 2
    assert "could not be started" in user.flat
    assert user.type("mcp", "remove", "gone") == 0
    assert user.type("mcp", "list") == 0
    assert "No MCP servers." in user.flat


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


RECIPE = "name: other\nnodes:\n  - {id: files, command: ls}\n"


def test_a_recipe_is_replaced_only_on_request_and_its_schema_is_shown(user: Typist) -> None:
    file = user.project / "count.yaml"
    file.write_text(RECIPE)
    save = ("recipe", "save", "count", "--file", str(file))
    assert user.type(*save) == 0
    saved = Path(user.shown.strip())
    assert "name: count" in saved.read_text()
    file.write_text(RECIPE.replace("ls", "pwd"))
    assert user.type(*save) == 2
    assert "--replace" in user.flat
    assert "pwd" not in saved.read_text()
    assert user.type(*save, "--replace") == 0
    assert "pwd" in saved.read_text()
    assert user.type("recipe", "show", "--schema") == 0
    assert "nodes" in json.loads(user.shown)["properties"]


def test_the_budget_of_a_session_is_shared_by_runs_and_prompts(user: Typist) -> None:
    model = user.script("replies: [{text: Done., usage: {input: 90, output: 10}, repeat: forever}]")
    limit = ("--model", model, "--max-session-tokens", "150")
    assert user.type("run", *limit, "one") == 0
    typed = [("> ", "two\n"), ("> ", "three\n"), ("Session token limit reached: 150.", "n\n")]
    assert user.type("--continue", *limit, answers=[*typed, ("> ", "\x04")]) == 0
    assert user.shown.count("Done.") == 2  # of the run that is shown again, and of the second turn
    assert user.type("run", "--continue", *limit, "four") == 4
    assert "Session token limit reached: 150." in user.flat
    assert user.type("run", "--continue", *limit, "--max-session-tokens", "900", "five") == 0


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
        tour._Tour, "_preferences", lambda self: replace(preferences(self), answer_pause=0.0)
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
