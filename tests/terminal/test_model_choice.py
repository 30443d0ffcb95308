"""Choosing a model from the providers' lists, for a session and for all that follow."""

from __future__ import annotations

import json

from tests.support.fake_gemini import FakeGemini, text_answer
from tests.support.real_terminal import User
from tests.support.typing_user import (
    is_working,
    leave,
    open_prompt,
    say,
    screen,
    scripted,
    turn_end,
)
from tests.terminal.conftest import OpenTerminal

CTRL_O = "\x0f"
CTRL_S = "\x13"
RIGHT = "\x1b[C"
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


def test_reasoning_effort_is_chosen_sent_and_shown(
    open_terminal: OpenTerminal, user: User, fake_gemini: FakeGemini
) -> None:
    environment = {"GOOGLE_API_KEY": "an-invented-key", "GOOGLE_GEMINI_BASE_URL": fake_gemini.url}
    terminal = open_terminal(user=user, environment=environment, columns=120)

    def sent() -> str:
        fake_gemini.say("Fine.")
        say(terminal, "hello", "tokens in, ")
        config = fake_gemini.last.body["generationConfig"].get("thinkingConfig", {})
        return str(config.get("thinkingLevel") or config.get("thinking_level") or "").lower()

    open_prompt(terminal, "kogniterm --effort low --memory off")
    terminal.until(lambda: "gemini-flash-latest (low) · ask" in terminal.shown[-1])
    assert sent() == "low"
    # The arrows choose it in the list, also while a filter stands on the line.
    say(terminal, "/model", TITLE)
    terminal.until("Reasoning effort:  default  [low]  medium   high")
    terminal.send(RIGHT)
    terminal.until("[medium]")
    terminal.send("flash-latest")
    terminal.until(lambda: "› flash-latest" in screen(terminal))
    terminal.send(RIGHT)
    terminal.until("[high]")
    terminal.send("\r")
    terminal.until("Model: google_genai:gemini-flash-latest (high).")
    assert sent() == "high"
    # By name, and back to the provider's default; another model keeps what it has, too.
    say(terminal, "/model medium", "gemini-flash-latest (medium).")
    say(terminal, "/model google_genai:gemini-2.5-pro", "gemini-2.5-pro (medium).")
    say(terminal, "/model google_genai:gemini-2.0-flash", "gemini-2.0-flash. To make")
    say(terminal, "/model high", "has no setting for reasoning effort")
    say(
        terminal,
        "/model google_genai:gemini-flash-latest minimal",
        "Choose from: low, medium, high",
    )
    say(
        terminal, "/model google_genai:gemini-flash-latest high --save", "New sessions use it, too."
    )
    say(terminal, "/model default", "gemini-flash-latest. To make")
    assert leave(terminal) == 0
    file = terminal.home / ".config/kogniterm/config.toml"
    assert file.read_text() == 'model = "google_genai:gemini-flash-latest"\neffort = "high"\n'
    # A model without it: the option is refused, the setting is only reported.
    fake_gemini.say("Fine.")
    status, shown = terminal.run("kogniterm run --model google_genai:gemini-2.0-flash hello")
    assert (status, "has no setting for reasoning effort" in shown) == (0, True), shown
    status, shown = terminal.run(
        "kogniterm run --effort high --model google_genai:gemini-2.0-flash hello"
    )
    assert (status, "has no setting for reasoning effort" in shown) == (2, True), shown


def test_thoughts_are_folded_and_ctrl_o_unfolds_them(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user)
    thinking = "replies: [{thoughts: 'I count on my fingers.', text: Two.}]\nat_end: restart\n"
    model = scripted(terminal, thinking)
    whole = "│ I count on my fingers."
    open_prompt(terminal, f"kogniterm --memory off --model {model}")
    say(terminal, "/thoughts", "The model has not shown any thoughts in this session.")
    say(terminal, "one and one?", "Ctrl-O shows it Two.")
    assert whole not in terminal.text
    terminal.until(lambda: not is_working(terminal))
    terminal.send(CTRL_O)
    terminal.until(whole)
    terminal.until(lambda: "Thoughts are shown." in terminal.shown[-1])
    with turn_end(terminal):
        say(terminal, "again?", f"{whole} Two.")
    say(terminal, "/thoughts folded", "Thoughts are folded into a line.")
    file = terminal.home / ".config/kogniterm/config.toml"
    assert file.read_text() == 'thoughts = "folded"\n'
    with turn_end(terminal):
        say(terminal, "and again?", "Ctrl-O shows it Two.")
    say(terminal, "/thoughts", whole)
    say(terminal, "/thoughts off", "New sessions do not request them.")
    assert leave(terminal) == 0


def test_a_second_summary_is_free_until_the_kept_replies_are_deleted(
    open_terminal: OpenTerminal, user: User, fake_gemini: FakeGemini
) -> None:
    environment = {"GOOGLE_API_KEY": "an-invented-key", "GOOGLE_GEMINI_BASE_URL": fake_gemini.url}
    fake_gemini.answer_with(lambda body: text_answer("A long answer. " * 60))
    terminal = open_terminal(user=user, environment=environment, columns=100)
    open_prompt(terminal, "kogniterm --memory off --model google_genai:gemini-2.5-flash")
    for task in ("first", "second", "third"):
        with turn_end(terminal):
            say(terminal, task, "tokens in, ")
    # The same history is summed up in a copy of the session: the same call.
    say(terminal, "/fork", "")
    terminal.until(lambda: not is_working(terminal))
    asked = len(fake_gemini.requests)
    say(terminal, "/compact", "History compacted from about")
    assert len(fake_gemini.requests) == asked + 1
    say(terminal, "/cost", "Estimated from the list prices of 20")
    first = next(line for line in screen(terminal).splitlines() if "Model calls:" in line)
    assert "own cache" not in screen(terminal)
    assert first
    assert leave(terminal) == 0
    status, shown = terminal.run("kogniterm sessions list --json")
    assert status == 0
    (original,) = [one["id"] for one in json.loads(shown) if one["parent"] is None]
    open_prompt(terminal, f"kogniterm --memory off --resume {original}")
    say(terminal, "/compact", "History compacted from about")
    assert len(fake_gemini.requests) == asked + 1
    say(terminal, "/cost", "Answered from KogniTerm's own cache, free: 1 (")
    assert leave(terminal) == 0
    assert terminal.run("kogniterm storage cache")[1].startswith("Kept replies of models: 2 (")
    assert "kept replies of models: 2 (" in terminal.run("kogniterm doctor")[1]
    status, shown = terminal.run("kogniterm storage cache --clear")
    assert (status, shown.strip()) == (0, "Kept replies of models that were deleted: 2.")
    assert terminal.run("kogniterm storage cache")[1].startswith("Kept replies of models: 0 (0 B;")
