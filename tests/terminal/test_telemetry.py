"""Telemetry at a real terminal: what a collector gets, and what the user sees of a broken one."""

from __future__ import annotations

from tests.support.otlp_receiver import receiving
from tests.support.real_terminal import User
from tests.support.typing_user import answer, leave, open_prompt, say, scripted, turn_end
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
