"""Setting up a model: at a first start, with `kogniterm login`, and removing the key again."""

from __future__ import annotations

import stat
from pathlib import Path

from tests.support.fake_gemini import FakeGemini
from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import (
    has_prompt,
    holding,
    leave,
    put,
    running,
    say,
    screen,
)
from tests.terminal.conftest import OpenTerminal

KEY = "an-invented-key.Z9-for-the-tests"
ENV_FILE = ".config/kogniterm/.env"
CTRL_C = "\x03"


def chosen(terminal: RealTerminal, title: str, key: str) -> None:
    """Answer the list below `title` with a key, after the pause of a reading user."""
    terminal.until(lambda: title in screen(terminal) and "[1-" in screen(terminal))
    terminal.look()
    terminal.send(key)


def entered(terminal: RealTerminal, keys: str) -> None:
    """Type `keys` at the hidden entry, once it is shown."""
    terminal.until(lambda: terminal.shown[-1].rstrip().endswith("):"))
    terminal.send(keys)


def modes(home: Path) -> tuple[int, int]:
    """Return the modes of the settings file and of its folder."""
    file = home / ENV_FILE
    return stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)


def test_a_first_start_without_a_model_sets_one_up(
    open_terminal: OpenTerminal, user: User, fake_gemini: FakeGemini
) -> None:
    address = {"GOOGLE_GEMINI_BASE_URL": fake_gemini.url}
    terminal = open_terminal(user=user, environment=address)
    fake_gemini.fail(400, f"API key not valid: {KEY[::-1]}", reason="API_KEY_INVALID")
    fake_gemini.say("ready")
    terminal.start("kogniterm")
    terminal.until("Choose a model to start with")
    for line in ("1 Google Gemini", "2 OpenAI", "3 Anthropic", "MB download", "Not now"):
        terminal.until(line)
    # Enter chooses the first one. A wrong key is tested, and can be entered again.
    chosen(terminal, "Choose a model", "\r")
    terminal.until("Get a key at https://aistudio.google.com/apikey")
    entered(terminal, f"{KEY[::-1]}\r")
    terminal.until("Gemini rejected the API key")
    chosen(terminal, "What now?", "1")
    # Pasted, with a line break before and after it.
    entered(terminal, f"\x1b[200~\n {KEY}\n\x1b[201~")
    terminal.send("\r")
    terminal.until("The key works.")
    chosen(terminal, "How should KogniTerm work?", "\r")
    terminal.until("Model: google_genai:gemini-flash-latest. Selected by")
    terminal.until(lambda: has_prompt(terminal))
    assert fake_gemini.requests[-1].headers["x-goog-api-key"] == KEY
    assert (terminal.home / ENV_FILE).read_text() == f"GOOGLE_API_KEY={KEY}\n"
    assert modes(terminal.home) == (0o600, 0o700)
    for secret in (KEY, KEY[::-1]):
        assert secret.encode() not in terminal.raw
    # The key is used, and stored nowhere else.
    fake_gemini.say("Hello, user.")
    say(terminal, "hello", "tokens in, ")
    assert running(KEY) == []
    assert leave(terminal) == 0
    assert holding(terminal.home, KEY.encode()) == [terminal.home / ENV_FILE]
    assert holding(terminal.home, KEY[::-1].encode()) == []
    assert holding(terminal.folder, KEY.encode()) == []
    # The next start asks nothing.
    terminal.start("kogniterm")
    terminal.until(lambda: "google_genai:gemini-flash-latest · ask" in terminal.shown[-1])
    assert terminal.text.count("Choose a model") == 1
    assert leave(terminal) == 0


def test_ctrl_c_at_every_step_leaves_nothing(
    open_terminal: OpenTerminal, user: User, fake_gemini: FakeGemini
) -> None:
    address = {"GOOGLE_GEMINI_BASE_URL": fake_gemini.url}
    terminal = open_terminal(user=user, environment=address)
    terminal.start("kogniterm")
    chosen(terminal, "Choose a model", "1")
    entered(terminal, f"{KEY}{CTRL_C}")
    terminal.until("No key was saved.")
    fake_gemini.hang(after=0)
    chosen(terminal, "Choose a model", "1")
    entered(terminal, f"{KEY}\r")
    terminal.until(lambda: len(fake_gemini.requests) == 1)
    terminal.send(CTRL_C)
    terminal.until("Test stopped.")
    chosen(terminal, "What now?", CTRL_C)
    terminal.until(lambda: terminal.text.count("No key was saved.") == 2)
    chosen(terminal, "Choose a model", CTRL_C)
    assert terminal.status() == 2
    assert "kogniterm login" in terminal.text
    assert KEY.encode() not in terminal.raw
    assert not (terminal.home / ENV_FILE).exists()
    assert holding(terminal.home, KEY.encode()) == []


def test_login_and_logout_change_one_key(
    open_terminal: OpenTerminal, user: User, fake_gemini: FakeGemini
) -> None:
    address = {"GOOGLE_GEMINI_BASE_URL": fake_gemini.url}
    terminal = open_terminal(user=user, environment=address, columns=160)
    before = "# mine\nOPENAI_API_KEY=sk-other-key\n\nKOGNITERM_MAX_STEPS=7\n"
    file = put(terminal.home, ENV_FILE, before)
    keyfile = put(terminal.home, "key.txt", f"\n  {KEY}\n")
    # A key that the provider refuses is not saved.
    fake_gemini.fail(400, "API key not valid", reason="API_KEY_INVALID")
    status, shown = terminal.run("kogniterm login gemini < ~/key.txt")
    assert (status, "rejected the API key" in shown) == (5, True)
    assert file.read_text() == before
    fake_gemini.say("ready")
    status, shown = terminal.run("kogniterm login google_genai < ~/key.txt")
    assert (status, "kogniterm now uses google_genai:" in shown) == (0, True), shown
    assert file.read_text() == f"{before}GOOGLE_API_KEY={KEY}\n"
    assert modes(terminal.home)[0] == 0o600
    # The source of the key is shown, the key itself is not.
    for command in ("kogniterm config show --changed", "kogniterm doctor"):
        _status, shown = terminal.run(command)
        assert f"{file}:5" in shown, shown
    # At the terminal: hidden, without a test; the environment takes precedence.
    terminal.start("GOOGLE_API_KEY=from-the-environment kogniterm login gemini --no-test")
    entered(terminal, f"{KEY[::-1]}\r")
    terminal.until("This is also set by the variable GOOGLE_API_KEY, which takes precedence")
    assert terminal.status() == 0
    assert file.read_text() == f"{before}GOOGLE_API_KEY={KEY[::-1]}\n"
    status, shown = terminal.run("kogniterm logout")
    assert (status, "Keys of several providers are saved" in shown) == (2, True)
    status, shown = terminal.run("GEMINI_API_KEY=from-the-environment kogniterm logout gemini")
    assert (status, "It is still set by the variable GEMINI_API_KEY" in shown) == (0, True)
    assert file.read_text() == before
    status, shown = terminal.run("kogniterm logout gemini")
    assert (status, "has no key for Google Gemini" in shown) == (1, True)
    for secret in (KEY, KEY[::-1]):
        assert secret.encode() not in terminal.raw
    assert holding(terminal.home, KEY.encode()) == [keyfile]
