"""Telemetry at a real terminal: what a collector gets, and what the user sees of a broken one."""

from __future__ import annotations

import socket
import threading

from tests.support.otlp_receiver import receiving
from tests.support.real_terminal import User
from tests.support.typing_user import answer, leave, open_prompt, say, say_task, scripted, turn_end
from tests.terminal.conftest import OpenTerminal

SCRIPT = """replies:
  - {run: "echo SECRETCOMMAND", purpose: Look.}
  - {text: "SECRETANSWER", repeat: forever}
"""


def test_the_wait_for_the_user_is_no_time_of_the_agent_and_nothing_is_on_the_screen(
    open_terminal: OpenTerminal, user: User
) -> None:
    with receiving() as receiver:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_SERVICE_NAME": "laptop"}
        terminal = open_terminal(user=user, columns=120, environment=variables)
        _, shown = terminal.run("kogniterm doctor")
        assert f"telemetry: sent to {receiver.url.removeprefix('http://')}" in shown
        open_prompt(terminal, f"kogniterm --model {scripted(terminal, SCRIPT)}")
        with turn_end(terminal):
            say(terminal, "SECRETINPUT please")
            answer(terminal, "echo SECRETCOMMAND", "y")
        leave(terminal)
        assert "elemetry" not in terminal.text.split("kogniterm --model")[1]
        turn = receiver.the("invoke_agent kogniterm")
        tool = receiver.the("execute_tool execute_command echo")
        assert receiver.below(tool) == ["approval", "command"]
        waited = receiver.the("approval")
        assert waited.attributes["kogniterm.approval.by"] == "user"
        assert tool.begin <= waited.begin <= waited.end <= receiver.the("command").begin
        assert turn.attributes["kogniterm.turn.waited"] > 0
        assert {one["service.name"] for one in receiver.resources} == {"laptop"}
        assert b"SECRET" not in b"".join(receiver.bodies)


def test_a_collector_that_is_gone_is_said_once_and_one_that_hangs_does_not_hold_the_user(
    open_terminal: OpenTerminal, user: User
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"http://127.0.0.1:{closed.getsockname()[1]}"
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": gone,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        "OTEL_BSP_SCHEDULE_DELAY": "1",
    }
    terminal = open_terminal(user=user, columns=120, environment=variables)
    model = scripted(terminal, 'replies: [{text: "The end of it.", repeat: forever}]')
    open_prompt(terminal, f"kogniterm --model {model}")
    while "Telemetry could not be sent" not in terminal.text:
        say_task(terminal, "hello", "The end of it.")
    say_task(terminal, "hello once more", "The end of it.")
    leave(terminal)
    assert terminal.text.count("Telemetry could not be sent to 127.0.0.1:") == 1
    assert "Traceback" not in terminal.text
    with receiving() as receiver:
        receiver.hold = threading.Event()
        other = f"env -u OTEL_EXPORTER_OTLP_TIMEOUT OTEL_EXPORTER_OTLP_ENDPOINT={receiver.url}"
        status, shown = terminal.run(f"{other} kogniterm run --model {model} hello")
        assert status == 0
        assert "The end of it." in shown
        assert shown.count("did not answer within 2 s") == 1


def test_telemetry_is_off_by_default_and_what_is_missing_is_said(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    _, shown = terminal.run("kogniterm doctor")
    assert "telemetry: off" in shown
    model = scripted(terminal, 'replies: [{text: "The end of it.", repeat: forever}]')
    bad = "OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318"
    status, shown = terminal.run(f"{bad} kogniterm run --model {model} hello")
    assert status == 0
    assert shown.count("OTEL_EXPORTER_OTLP_ENDPOINT is not an http or https address") == 1
    console = "OTEL_TRACES_EXPORTER=console"
    status, shown = terminal.run(f"{console} kogniterm run --model {model} hello")
    assert (status, "2>FILE" in shown) == (0, True)
    status, _ = terminal.run(f"{console} kogniterm run --model {model} hello 2>spans")
    assert '"name": "invoke_agent kogniterm"' in (terminal.folder / "spans").read_text()
