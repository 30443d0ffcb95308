"""Choosing a model from the providers' lists, for a session and for all that follow."""

from __future__ import annotations

from tests.support.fake_gemini import FakeGemini
from tests.support.real_terminal import User
from tests.support.typing_user import (
    leave,
    open_prompt,
    say,
    screen,
)
from tests.terminal.conftest import OpenTerminal

CTRL_S = "\x13"
TITLE = "Which model do you want to use?"


def test_a_model_is_picked_from_a_list_and_made_the_default(
    open_terminal: OpenTerminal, user: User, fake_gemini: FakeGemini
) -> None:
    methods = {"supportedGenerationMethods": ["generateContent"]}
    names = ("gemini-9-nova", "gemini-2.5-pro", "gemini-flash-latest")
    fake_gemini.page(
        "/v1beta/models", {"models": [{"name": f"models/{one}", **methods} for one in names]}
    )
    environment = {
        "GOOGLE_API_KEY": "an-invented-key",
        "GOOGLE_GEMINI_BASE_URL": fake_gemini.url,
        "ANTHROPIC_API_KEY": "an-invented-key-2",
        "ANTHROPIC_BASE_URL": fake_gemini.url,
    }
    terminal = open_terminal(user=user, environment=environment, columns=120)
    open_prompt(terminal, "kogniterm")
    terminal.until(lambda: "google_genai:gemini-flash-latest · ask" in terminal.shown[-1])
    # Gemini sends its list; Anthropic has none here, so the catalog's names stand for it.
    say(terminal, "/model", TITLE)
    terminal.until("google_genai:gemini-9-nova")
    terminal.until("Anthropic: names from the catalog.")
    for line in ("▸ google_genai:gemini-flash-latest", "in use", "anthropic:claude-sonnet-5-5"):
        assert line in screen(terminal)
    assert "$1.25 / $10.00" in screen(terminal)
    assert "as of 20" in screen(terminal)
    # Typing filters; Enter uses the model in this session only.
    terminal.send("nova")
    terminal.until(lambda: "gemini-2.5-pro" not in screen(terminal))
    terminal.send("\r")
    terminal.until("Model: google_genai:gemini-9-nova. To make it the default: /model --save")
    fake_gemini.say("Hello, user.")
    say(terminal, "hello", "tokens in, ")
    assert fake_gemini.last.path.startswith("/v1beta/models/gemini-9-nova:")
    assert not (terminal.home / ".config/kogniterm/config.toml").exists()
    # Esc changes nothing. Ctrl-S makes a model the default.
    say(terminal, "/model", TITLE)
    terminal.send("\x1b")
    terminal.until(lambda: TITLE not in screen(terminal))
    assert "gemini-9-nova · ask" in terminal.shown[-1]
    say(terminal, "/model", TITLE)
    terminal.send("2.5-pro")
    terminal.until(lambda: "gemini-9-nova" not in terminal.shown[-4])
    terminal.send(CTRL_S)
    terminal.until("Model: google_genai:gemini-2.5-pro. New sessions use it, too.")
    assert leave(terminal) == 0
    status, shown = terminal.run("kogniterm models list")
    assert status == 0
    used = [line for line in shown.splitlines() if line.rstrip().endswith("in use")]
    assert [line.split()[0] for line in used] == ["google_genai:gemini-2.5-pro"]
    open_prompt(terminal, "kogniterm")
    terminal.until(lambda: "google_genai:gemini-2.5-pro · ask" in terminal.shown[-1])
    # Without the list: by name, and back to the first default.
    say(terminal, "/model google_genai:gemini-flash-latest --save", "New sessions use it, too.")
    assert leave(terminal) == 0
    file = terminal.home / ".config/kogniterm/config.toml"
    assert file.read_text() == 'model = "google_genai:gemini-flash-latest"\n'
