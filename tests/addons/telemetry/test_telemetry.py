"""Telemetry: spans and metrics of real turns, received over HTTP and decoded as OTLP."""

from __future__ import annotations

import ast
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from kogniterm.addons.telemetry import conventions as names
from kogniterm.types import Answer, events
from tests.flows.conftest import Flow, MakeFlow, no, yes
from tests.flows.program import start_run
from tests.flows.test_mcp import call, script, trusted
from tests.flows.test_subagent import DELEGATE
from tests.support.forge import Forge
from tests.support.otlp_receiver import Receiver, receiving

MARKS = ("INPUTMARK", "COMMANDMARK", "OUTPUTMARK", "ANSWERMARK", "FILEMARK", "PURPOSEMARK")
MARKED = """
replies:
  - calls: [{tool: read_file, arguments: {path: FILEMARK.txt}}]
  - {run: "grep COMMANDMARK FILEMARK.txt", purpose: PURPOSEMARK}
  - {run: "touch FILEMARK", purpose: PURPOSEMARK}
  - {text: ANSWERMARK}
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


Observed = Callable[..., Flow]
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture
def observed(make_flow: MakeFlow, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Observed:
    """Return what makes flows that are observed; the SDK reads the variables of this process."""

    def make(script: str, variables: Mapping[str, str] = {}, **given: object) -> Flow:
        flow = make_flow(script, **given)
        for name, value in {ENDPOINT: receiver.url, **variables}.items():
            monkeypatch.setenv(name, value)
            flow.environ[name] = value
        return flow

    return make


async def run(flow: Flow, text: str | None = "go") -> Answer:
    answer = await flow.run(text)
    await flow.session.finish()
    flow.close()
    return answer


async def test_a_turn_is_a_tree_of_spans_with_the_names_of_the_conventions(
    observed: Observed, receiver: Receiver
) -> None:
    flow = observed(MARKED, decisions=[yes, no("not now")])
    (flow.folder / "FILEMARK.txt").write_text("OUTPUTMARK\n")
    answer = await run(flow, "INPUTMARK")
    turn = receiver.the("invoke_agent kogniterm")
    assert (turn.parent, turn.kind) == ("", 1)
    session = turn.attributes["gen_ai.conversation.id"]
    assert turn.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "kogniterm",
        "gen_ai.agent.version": turn.attributes["gen_ai.agent.version"],
        "gen_ai.conversation.id": session,
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.usage.input_tokens": answer.usage.input,
        "gen_ai.usage.output_tokens": answer.usage.output,
        "kogniterm.turn.number": 1,
        "kogniterm.turn.stop": "refused",
        "kogniterm.turn.waited": turn.attributes["kogniterm.turn.waited"],
    }
    assert receiver.below(turn) == [
        "chat scripted",
        "execute_tool read_file",
        "chat scripted",
        "execute_tool execute_command grep",
        "chat scripted",
        "execute_tool execute_command",
        "chat scripted",
    ]
    assert {one.trace for one in receiver.spans} == {turn.trace}
    chat = receiver.named("chat scripted")[0]
    assert chat.kind == 3
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert chat.attributes["gen_ai.conversation.id"] == session
    assert chat.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    ran = receiver.the("execute_tool execute_command grep")
    assert receiver.below(ran) == ["approval", "command"]
    assert ran.attributes["process.exit.code"] == 1
    assert ran.attributes["process.executable.name"] == "grep"
    assert ran.attributes["gen_ai.tool.call.id"] == "call_2"
    assert ran.attributes["kogniterm.approval.by"] == "user"
    assert not ran.failed  # a command that says no is no failure of the tool
    refused = receiver.the("execute_tool execute_command")
    assert refused.attributes["kogniterm.approval.decision"] == "reject"
    assert "error.type" not in refused.attributes
    assert receiver.below(refused) == ["approval"]
    asked, command = receiver.named("approval")[0], receiver.the("command")
    assert ran.begin <= asked.begin <= asked.end <= command.begin <= command.end <= ran.end
    assert receiver.schemas == {names.SCHEMA_URL}
    assert receiver.resources[0]["service.name"] == "kogniterm"


async def test_no_text_is_sent_unless_content_is_asked_for(
    observed: Observed, receiver: Receiver
) -> None:
    flow = observed(MARKED, decisions=[yes, no("REASONMARK")])
    (flow.folder / "FILEMARK.txt").write_text("OUTPUTMARK\n")
    await run(flow, "INPUTMARK")
    sent = b"".join(receiver.bodies)
    for mark in (*MARKS, "REASONMARK", str(flow.folder), str(flow.folder.parent)):
        assert mark.encode() not in sent, mark
    assert not any(set(names.CONTENT) & set(span.attributes) for span in receiver.spans)


async def test_content_on_request_is_redacted_like_everything(
    observed: Observed, receiver: Receiver
) -> None:
    key = "sk-" + "proj-" + "a1B2" * 12
    script = f"""
replies:
  - {{run: "echo OUTPUTMARK key={key}", purpose: Look}}
  - {{text: "ANSWERMARK {key}"}}
"""
    flow = observed(script, {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"})
    await run(flow, f"INPUTMARK {key}")
    turn = receiver.the("invoke_agent kogniterm")
    assert "INPUTMARK" in turn.attributes["gen_ai.input.messages"]
    assert "ANSWERMARK" in turn.attributes["gen_ai.output.messages"]
    tool = receiver.the("execute_tool execute_command echo")
    assert "OUTPUTMARK" in tool.attributes["gen_ai.tool.call.arguments"]
    assert "OUTPUTMARK" in tool.attributes["gen_ai.tool.call.result"]
    first, last = (
        json.loads(one.attributes["gen_ai.output.messages"])[0]
        for one in receiver.named("chat scripted")
    )
    assert first["parts"][-1] == {"type": "tool_call", "name": "execute_command"}
    assert (first["finish_reason"], last["finish_reason"]) == ("tool_call", "stop")
    assert "ANSWERMARK" in last["parts"][0]["content"]
    assert key.encode() not in b"".join(receiver.bodies)


async def test_metrics_count_tokens_commands_and_approvals(
    observed: Observed, receiver: Receiver
) -> None:
    script = "replies: [{run: 'true', purpose: A}, {run: 'false', purpose: B}, {text: Done.}]"
    flow = observed(script, decisions=[yes, yes])
    answer = await run(flow)
    tokens = {at["gen_ai.token.type"]: p for at, p in receiver.metrics["gen_ai.client.token.usage"]}
    assert tokens["input"].sum == answer.usage.input
    assert tokens["output"].sum == answer.usage.output
    ((about, calls),) = receiver.metrics["gen_ai.client.operation.duration"]
    assert (calls.count, about["gen_ai.provider.name"]) == (3, "scripted")
    assert calls.explicit_bounds[0] == 0.01
    ended = receiver.metrics["kogniterm.commands"]
    commands = {at["kogniterm.command.outcome"]: point.as_int for at, point in ended}
    assert commands == {"succeeded": 1, "failed": 1}
    ((decided, approvals),) = receiver.metrics["kogniterm.approvals"]
    assert decided == {"kogniterm.approval.decision": "approve", "kogniterm.approval.by": "user"}
    assert approvals.as_int == 2
    ((_, waits),) = receiver.metrics["kogniterm.approval.wait.duration"]
    assert waits.count == 2


async def test_sub_agents_at_work_side_by_side_have_their_own_calls(
    observed: Observed, receiver: Receiver
) -> None:
    flow = observed(DELEGATE)
    (flow.folder / "a.txt").write_text("first secret word\n")
    (flow.folder / "b.txt").write_text("second secret word\n")
    await run(flow, "Compare them")
    turn = receiver.the("invoke_agent kogniterm")
    delegated = receiver.named("execute_tool delegate")
    assert [one.parent for one in delegated] == [turn.id, turn.id]
    for tool in delegated:
        (agent,) = [one for one in receiver.spans if one.parent == tool.id]
        assert agent.name == "invoke_agent subagent"
        assert agent.attributes["gen_ai.agent.id"] == tool.attributes["gen_ai.tool.call.id"]
        assert receiver.below(agent) == ["chat scripted", "execute_tool read_file", "chat scripted"]
        assert tool.begin <= agent.begin <= agent.end <= tool.end
        calls = [one for one in receiver.named("chat scripted") if one.parent == agent.id]
        for used in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
            assert agent.attributes[used] == sum(one.attributes[used] for one in calls)
        assert agent.attributes["gen_ai.request.model"] == "scripted"
    assert receiver.below(turn)[0] == receiver.below(turn)[-1] == "chat scripted"


async def test_a_call_that_makes_a_plan_is_below_a_plan_span(
    observed: Observed, receiver: Receiver
) -> None:
    script = """
replies:
  - plan: {goal: GOALMARK, steps: [{id: s1, what: STEPMARK}]}
  - {run: "true", purpose: A}
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - {text: Done.}
"""
    flow = observed(script)
    await run(flow)
    turn, plan = receiver.the("invoke_agent kogniterm"), receiver.the("plan kogniterm")
    assert plan.parent == turn.id
    assert plan.attributes["gen_ai.operation.name"] == "plan"
    assert receiver.below(plan) == ["chat scripted"]
    assert b"MARK" not in b"".join(receiver.bodies)


async def test_a_call_of_an_mcp_server_is_named_by_its_tool(
    observed: Observed, receiver: Receiver
) -> None:
    text = script(call("call_tool", "{tool: mcp__demo__add, arguments: {a: 1, b: 2}}"))
    flow = observed(text, decisions=[yes])
    await trusted(flow, "many")
    flow.environ[ENDPOINT] = receiver.url
    await run(flow)
    tool = receiver.the("tools/call add")
    assert tool.kind == 3
    assert tool.attributes["gen_ai.operation.name"] == "execute_tool"
    assert tool.attributes["mcp.method.name"] == "tools/call"
    assert tool.attributes["gen_ai.tool.name"] == "add"
    assert tool.attributes["kogniterm.mcp.server"] == "demo"
    assert receiver.below(tool) == ["approval"]


async def test_the_caller_of_the_program_is_the_parent(
    observed: Observed, receiver: Receiver
) -> None:
    flow = observed("replies: [{text: Hello.}]")
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    flow.environ["TRACEPARENT"] = f"00-{trace}-{span}-01"
    await run(flow)
    turn = receiver.the("invoke_agent kogniterm")
    assert (turn.trace, turn.parent) == (trace, span)


def failed_collector(kind: str, receiver: Receiver) -> str:
    """Return the address of a collector that does not take what it gets."""
    if kind == "refuses":
        with socket.create_server(("127.0.0.1", 0)) as closed:
            return f"http://127.0.0.1:{closed.getsockname()[1]}"
    if kind == "answers 500":
        receiver.status = 500
    if kind == "hangs":
        receiver.hold = threading.Event()
    return receiver.url


@pytest.mark.parametrize("kind", ["refuses", "answers 500", "hangs"])
async def test_a_collector_that_fails_costs_one_line_and_nothing_else(
    make_flow: MakeFlow, receiver: Receiver, forge: Forge, kind: str
) -> None:
    flow = make_flow("replies: [{run: 'echo ran >>count', purpose: A}, {text: Done.}]")
    flow.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = failed_collector(kind, receiver)
    started = start_run(forge, flow, "-y", "count")
    assert started.wait() == 0, started.said
    assert started.out.read_text() == "Done.\n"
    assert (flow.folder / "count").read_text() == "ran\n"
    lines = [line for line in started.err.read_text().splitlines() if "elemetry" in line]
    assert len(lines) == 1, started.said
    assert "Traceback" not in started.said
    assert "127.0.0.1:" in lines[0]


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "opentelemetry-exporter-otlp-proto-grpc"),
        (
            {"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_METRICS_EXPORTER": "none"},
            "No installed package has the OpenTelemetry exporter zipkin",
        ),
    ],
)
async def test_an_exporter_that_is_not_installed_is_named_once(
    observed: Observed, receiver: Receiver, variables: dict[str, str], said: str
) -> None:
    if find_spec("grpc") is not None and "PROTOCOL" in str(variables):
        pytest.skip("the package for gRPC is installed")
    flow = observed("replies: [{text: Done.}]", variables)
    session = flow.open()
    assert (await flow.run()).text == "Done."
    late = await session.finish()
    flow.close()
    shown = [one.text for one in flow.of(events.Notice)]
    told = [str(one) for one in (*session.notices, *shown, *late)]
    assert len([one for one in told if said in one]) == 1
    assert receiver.bodies == []


HEADER = "Bearer c0llect0r-k3y-1234567890"


async def test_the_key_of_a_collector_reaches_no_command_and_no_model(
    observed: Observed, receiver: Receiver
) -> None:
    script = """
replies:
  - {run: "env | grep OTEL", purpose: Look}
  - {run: "cat /proc/$PPID/environ header.txt", purpose: Look}
  - {text: Done.}
"""
    keys = {
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={HEADER.replace(' ', '%20')}",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"authorization={HEADER.replace(' ', '%20')},x-team=a",
    }
    flow = observed(script, keys)
    (flow.folder / "header.txt").write_text(f"found {HEADER}\n")
    await flow.run()
    shown = "\n".join(flow.shown)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in shown  # an address is no secret
    assert "HEADERS" not in shown
    assert "c0llect0r" not in shown
    assert "found" in shown
    await flow.session.finish()
    given = [headers.get("authorization") for headers in receiver.headers]
    assert given == [HEADER] * len(given)


async def test_files_of_a_folder_and_of_the_user_cannot_switch_telemetry_on(
    make_flow: MakeFlow, receiver: Receiver, forge: Forge
) -> None:
    flow = make_flow("replies: [{text: Done.}]")
    variable = f"OTEL_EXPORTER_OTLP_ENDPOINT={receiver.url}\n"
    (flow.folder / ".env").write_text(variable)
    (flow.folder / ".kogniterm").mkdir()
    (flow.folder / ".kogniterm" / ".env").write_text(variable)
    (flow.folder / ".kogniterm" / "config.toml").write_text(f'otlp_endpoint = "{receiver.url}"\n')
    started = start_run(forge, flow, "go", "--env-file", ".env")
    assert started.wait() == 0, started.said
    assert receiver.bodies == []


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"OTEL_SDK_DISABLED": "true"},
    ],
)
def test_nothing_is_imported_or_sent_where_telemetry_is_off(
    make_flow: MakeFlow, receiver: Receiver, given: dict[str, str]
) -> None:
    flow = make_flow("replies: [{run: 'true', purpose: A}, {text: Done.}]")
    flow.environ |= given
    if given:
        flow.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.url
    program = (
        "import sys\nfrom kogniterm.__main__ import main\nstatus = main()\n"
        "print([n for n in sys.modules if n.startswith(('opentelemetry', 'google.protobuf'))])\n"
        "sys.exit(status)"
    )
    model = str(flow.flags["model"])
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "--no-sandbox", "-y", "--model", model, "go"],
        env=flow.environ,
        cwd=flow.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Done.\n[]\n"
    assert receiver.bodies == []


async def test_retries_and_failures_of_the_model_are_on_its_span(
    observed: Observed, receiver: Receiver
) -> None:
    script = """
replies:
  - {error: unavailable, retry: true, retry_after: 0}
  - {run: "true", purpose: A}
  - {error: auth, message: "KEYMARK is wrong"}
"""
    flow = observed(script)
    answer = await run(flow)
    assert answer.stop == "model_failed"
    first, second = receiver.named("chat scripted")
    assert [name for name, _ in first.events] == ["retry"]
    assert not first.failed
    assert (second.failed, second.attributes["error.type"]) == (True, "ModelAuthError")
    turn = receiver.the("invoke_agent kogniterm")
    assert (turn.failed, turn.attributes["error.type"]) == (True, "model_failed")
    assert b"KEYMARK" not in b"".join(receiver.bodies)


def test_names_are_those_of_the_conventions() -> None:
    from opentelemetry.semconv._incubating.attributes import (
        error_attributes,
        gen_ai_attributes,
        mcp_attributes,
        process_attributes,
        server_attributes,
    )
    from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

    modules = (
        error_attributes, gen_ai_attributes, gen_ai_metrics, mcp_attributes, process_attributes,
        server_attributes,
    )  # fmt: skip
    known = {value for module in modules for value in vars(module).values() if type(value) is str}
    newer = {
        "gen_ai.request.reasoning.level",
        "gen_ai.invoke_agent.duration",
        "gen_ai.execute_tool.duration",
    }
    folder = Path(names.__file__).parent
    trees = [ast.parse(file.read_text()) for file in folder.glob("*.py")]
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    used = {one.value for one in nodes if NAME.fullmatch(str(one.value))}
    assert {"gen_ai.tool.name", "error.type"} < used
    assert used - known == newer


NAME = re.compile(r"(?:gen_ai|error|server|process|mcp)(?:\.\w+)+")
