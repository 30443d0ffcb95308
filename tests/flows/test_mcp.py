"""MCP servers in whole turns: real servers of the official SDK, in processes of their own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kogniterm.errors import UsageError
from kogniterm.runtime.extensions.servers.mcp_servers import load_servers
from kogniterm.runtime.extensions.servers.server_elicitation import OPENED
from kogniterm.runtime.inputs.called_input import fill_prompt, resolve_input
from kogniterm.runtime.operations.action import Shown
from kogniterm.runtime.operations.mcp.mcp_actions import show_server, trust_server
from kogniterm.runtime.session import LiveSession
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.tools.mcp.server_values import ServerRecord, ServerRecords
from kogniterm.types import Phrase, UserInput
from kogniterm.types.events import ActionProgress, Notice
from kogniterm.ui.slash_commands import prompt_commands
from tests.flows.conftest import Flow, MakeFlow, no, yes
from tests.flows.program import replayed
from tests.support.forge import Forge

SERVER = str(Path(__file__).parents[1] / "support" / "mcp_demo" / "demo_server.py")


def configure(flow: Flow, *arguments: str, **fields: Any) -> Path:
    """Configure the server `demo` for the user; return the file of its calls."""
    calls = flow.folder / "calls"
    entry = {"command": sys.executable, "args": [SERVER, str(calls), *arguments], **fields}
    file = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "mcp.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": {"demo": entry}}))
    return calls


async def trust(session: LiveSession, name: str = "demo") -> None:
    server = session.extensions.servers.find(name)
    session.extensions.servers.trust(server, await session.extensions.servers.list_anew(server))
    await session.extensions.servers.stop(server)


async def trusted(flow: Flow, *arguments: str, **fields: Any) -> Path:
    """Configure and trust the server in a session of its own; return the file of its calls."""
    calls = configure(flow, *arguments, **fields)
    session = flow.open()
    await trust(session)
    await session.finish()
    flow.close()
    calls.write_text("")
    return calls


def call(tool: str, arguments: str = "{}") -> str:
    return f"{{calls: [{{tool: {tool}, arguments: {arguments}}}]}}"


def script(*replies: str) -> str:
    return "replies:\n" + "".join(f"  - {one}\n" for one in (*replies, "{text: Done.}"))


async def test_a_tool_is_called_once_after_approval_and_starts_its_server_then(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(script(call("mcp__demo__add", "{a: 1, b: 2}")), decisions=[yes])
    calls = await trusted(flow, "many")
    flow = make_flow(
        script(call("call_tool", "{tool: mcp__demo__add, arguments: {a: 1, b: 2}}")),
        decisions=[yes],
    )
    session = flow.open()
    assert calls.read_text() == ""
    answer = await flow.run()
    assert answer.stop == "done"
    assert calls.read_text() == "started\nadd 1 2\n"
    ((request, report, _verdict),) = flow.user.asked
    assert (request.tool, request.effect) == ("mcp__demo__add", "external")
    assert request.command == "demo: add(a=1, b=2)"
    assert str(report.reasons[0]) == ("Calls the MCP server demo, which KogniTerm cannot inspect.")
    (message,) = [m for m in session.state.messages if m.type == "tool"]
    assert message.name == "call_tool"
    assert "3" in message.text


async def test_few_tools_are_offered_directly_and_many_are_found(make_flow: MakeFlow) -> None:
    flow = make_flow(script(call("find_tools", "{query: look up a record 17}")), mcp_direct_tools=4)
    await trusted(flow, "many")
    session = flow.open()
    offered = {tool.name for tool in session.context.offered_tools()}
    assert {"find_tools", "call_tool"} <= offered
    assert not any(name.startswith("mcp__") for name in offered)
    await flow.run()
    found = next(text for text in flow.shown if "arguments:" in text)
    assert found.index("mcp__demo__lookup_17") < found.index("Others:")
    assert '"text"' in found
    flow.close()
    few = make_flow(mcp_direct_tools=100)
    session = few.open()
    offered = {tool.name for tool in session.context.offered_tools()}
    assert {"find_tools", "call_tool", "mcp__demo__add"} <= offered


async def test_an_untrusted_server_is_not_started(make_flow: MakeFlow) -> None:
    flow = make_flow(
        script(
            call("find_tools", "{query: add}"),
            call("call_tool", "{tool: mcp__demo__add, arguments: {a: 1, b: 2}}"),
        ),
        decisions=[yes],
    )
    calls = configure(flow)
    session = flow.open()
    assert [str(one) for one in session.notices if "MCP" in str(one)] == [
        "MCP servers not used until you trust them (/mcp trust NAME, or in a shell "
        "kogniterm mcp trust NAME): demo."
    ]
    await flow.run()
    assert not calls.exists()
    assert any("not trusted yet" in text for text in flow.shown)


async def test_a_changed_launch_needs_trust_again(make_flow: MakeFlow) -> None:
    flow = make_flow()
    await trusted(flow)
    configure(flow, "changed")
    session = flow.open()
    assert session.extensions.servers.find("demo").state == "changed"
    assert session.extensions.servers.tools() == []
    flow.close()
    configure(flow, env={"DEMO": "1"})
    session = flow.open()
    assert session.extensions.servers.find("demo").state == "changed"


async def test_a_changed_tool_is_asked_about_with_its_diff(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    link = tmp_path / "server.py"
    link.write_text(Path(SERVER).read_text())
    flow = make_flow(script(call("call_tool", "{tool: mcp__demo__add, arguments: {a: 1, b: 2}}")),
                     decisions=[yes])  # fmt: skip
    calls = flow.folder / "calls"
    file = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "mcp.json"
    file.parent.mkdir(parents=True)
    entry = {"command": sys.executable, "args": [str(link), str(calls)]}
    file.write_text(json.dumps({"mcpServers": {"demo": entry}}))
    session = flow.open()
    await trust(session)
    link.write_text(link.read_text().replace('VARIANT == "changed"', "True"))
    calls.write_text("")
    await flow.run()  # nobody answers the question of a server here
    assert "add" not in calls.read_text()
    assert any("the definition of add changed" in text for text in flow.shown)

    asked: list[list[str]] = []

    async def ask(question: Any, answers: Any) -> str:
        asked.append([str(one) for one in question])
        return str(answers[0])

    again = make_flow(script(call("call_tool", "{tool: mcp__demo__add, arguments: {a: 1, b: 2}}")),
                      decisions=[yes])  # fmt: skip
    session = again.open()
    await session.run(UserInput("go"), approver=again.user, sink=again.tell, ask=ask)
    assert "add 1 2" in calls.read_text()
    (lines,) = asked
    assert lines[0] == "The MCP server demo has changed its tool add since you trusted it."
    assert any(line.startswith("+") and "evil.example" in line for line in lines)
    assert any(line.startswith("-") and "Add two numbers." in line for line in lines)


async def test_a_call_whose_server_dies_is_unknown_and_not_repeated(make_flow: MakeFlow) -> None:
    flow = make_flow(
        script(call("mcp__demo__pay_and_die"), call("mcp__demo__pay_and_die")),
        decisions=[yes, no("check first")],
        mcp_direct_tools=100,
    )
    calls = await trusted(flow)
    flow.open()
    await flow.run()
    assert calls.read_text().count("pay_and_die") == 1
    assert any("may or may not have been carried out" in text for text in flow.shown)
    _request, _report, verdict = flow.user.asked[1]
    assert any("outcome" in str(reason) for reason in verdict.reasons)


async def test_a_read_only_call_is_repeated_once(make_flow: MakeFlow) -> None:
    flow = make_flow(script(call("mcp__demo__look_and_die")), decisions=[yes], mcp_direct_tools=100)
    calls = await trusted(flow)
    flow.open()
    await flow.run()
    assert calls.read_text().count("look_and_die") == 2
    assert any("looked" in text for text in flow.shown)


async def test_a_hanging_call_ends_after_its_time(make_flow: MakeFlow) -> None:
    flow = make_flow(script(call("mcp__demo__hang")), decisions=[yes], mcp_direct_tools=100)
    await trusted(flow, timeout=0.5)
    flow.open()
    await flow.run()
    assert any("no answer within" in text for text in flow.shown)


async def test_results_are_foreign_bounded_and_harmless(make_flow: MakeFlow) -> None:
    flow = make_flow(
        script(call("mcp__demo__escapes"), call("mcp__demo__big", "{size: 5000000}")),
        decisions=[yes, yes],
        mcp_direct_tools=100,
    )
    await trusted(flow)
    flow.open()
    await flow.run()
    text = next(text for text in flow.shown if "hello" in text)
    assert "\x1b" not in text
    assert text.startswith('<untrusted source="MCP server demo, tool escapes">')
    assert text.count("</untrusted>") == 1
    big = next(text for text in flow.shown if "xxxx" in text)
    assert len(big) < 100_000


LOOSE = r"""
import json, sys
print("[INFO] server running on stdio\n" + '{"level": "info"}', flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    tools = [{"name": "one", "inputSchema": {"properties": {}}}, {"name": "two", "inputSchema": {}}]
    tools += [{"name": "three"}, {"name": "four", "inputSchema": {}, "description": 4}, 5]
    tools += [{"name": "task", "inputSchema": {}, "execution": {"taskSupport": "required"}}]
    tools += [{"name": "open", "inputSchema": {}}]
    content = [{"type": "text", "text": "4 items @ half"}]
    done = {"content": content, "structuredContent": {"items": [1, 2]}}
    version = asked.get("params", {}).get("protocolVersion")
    results = {
        "initialize": {"protocolVersion": version, "capabilities": {"tools": {}},
                       "serverInfo": {"name": "loose", "version": "1"}},
        "tools/list": {"tools": tools}, "tools/call": done,
    }
    if "id" in asked:
        print('{"level": "debug"}')
        found = results.get(asked["method"])
        end = {"result": found} if found else {"error": {"code": -32601, "message": "none"}}
        if asked.get("params", {}).get("name") == "open":
            first = {"mode": "url", "message": "Sign in.", "url": "https://x.example/in"}
            wanted = {"elicitations": [{**first, "elicitationId": "1"}]}
            end = {"error": {"code": -32042, "message": "first", "data": wanted}}
        answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **end})
        print(answer.replace("@", r"\ud83d"), flush=True)
"""


async def test_a_server_that_is_a_little_wrong_is_used(make_flow: MakeFlow) -> None:
    tools = ("one", "two", "open", "open")
    replies = script(*(call(f"mcp__demo__{tool}") for tool in tools))
    flow = make_flow(replies, decisions=[yes] * 4, mcp_direct_tools=100)
    file = flow.folder / "loose.py"
    file.write_text(LOOSE)
    await trusted(flow, args=[str(file)])
    session = flow.open()
    said, asked = iter([str(OPENED), None]), list[str]()

    async def ask(question: Any, answers: Any) -> str | None:
        asked.append(" ".join(map(str, question)))
        return next(said)

    notes = list(map(str, show_server(session.extensions.servers.servers["demo"]).notes))
    assert notes == [
        "Left out, because they are not valid: three, four, tools 5",
        "Left out, because they run only as tasks of MCP: task",
    ]
    assert "mcp__demo__task" not in {one.name for one in session.context.offered_tools()}
    await session.run(UserInput("go"), approver=flow.user, sink=flow.tell, ask=ask)
    told = [text for text in flow.shown if "4 items" in text]
    assert len(told) == 2
    address = "The MCP server demo asks: Sign in. Open in your browser: https://x.example/in"
    assert asked == [address, address]
    assert [text for text in flow.shown if "did not run the call" in text] == [
        "The MCP server demo did not run the call, because the user had to open an address first. "
        "They answered that they did, so the call can be made again.",
        "The MCP server demo did not run the call: the user has to open https://x.example/in "
        "first, and declined or could not be asked.",
    ]
    assert all("4 items \N{REPLACEMENT CHARACTER} half" in text for text in told)
    assert all('"items": [' in text for text in told)


async def test_an_endless_result_ends_the_connection(make_flow: MakeFlow) -> None:
    flow = make_flow(
        script(call("mcp__demo__big", "{size: 20000000}"), call("mcp__demo__big", "{size: 3}")),
        decisions=[yes, yes],
        mcp_direct_tools=100,
    )
    await trusted(flow)
    flow.open()
    await flow.run()
    assert any("more than 16 MB" in text for text in flow.shown)
    assert any("xxx" in text for text in flow.shown)


async def test_a_server_gets_its_own_variables_only(make_flow: MakeFlow) -> None:
    flow = make_flow(script(call("mcp__demo__environment")), decisions=[yes], mcp_direct_tools=100)
    flow.environ |= {"DEMO_VALUE": "forty-two", "OTHER_SECRET": "x"}
    await trusted(flow, env={"DEMO": "${DEMO_VALUE} in ${CLAUDE_PROJECT_DIR}"})
    flow.open()
    await flow.run()
    text = next(text for text in flow.shown if "DEMO=" in text)
    assert f"DEMO=forty-two in {flow.folder}" in text
    assert "CLAUDE_PROJECT_DIR" in text.split(" DEMO=")[0]
    assert "OTHER_SECRET" not in text
    assert "DEMO_VALUE" not in text


@pytest.mark.parametrize("more", [True, False])
async def test_network_and_a_home_of_its_own_are_for_servers_that_ask_for_them(
    more: bool, make_flow: MakeFlow
) -> None:
    flow = make_flow(
        script(call("mcp__demo__environment"), call("mcp__demo__write_outside", "{path: ~/.demo}")),
        decisions=[yes, yes],
        mcp_direct_tools=100,
        sandbox="auto",
    )
    names = ("https_proxy", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
    flow.environ |= dict.fromkeys(names, "/x")
    await trusted(flow, network=more, own_home=more)
    session = flow.open()
    own = "Has an empty home folder of its own."
    shown = show_server(session.extensions.servers.servers["demo"]).lines
    assert (own in map(str, shown)) == more
    await flow.run()
    text = next(text for text in flow.shown if "DEMO=" in text)
    assert [name in text for name in names] == [more] * 4
    assert [one for one in ("written", "refused") if any(one in text for text in flow.shown)] == [
        "written" if more else "refused"
    ]
    assert not Path("~/.demo").expanduser().exists()


async def test_the_user_answers_a_form_of_a_server(make_flow: MakeFlow) -> None:
    flow = make_flow(script(call("mcp__demo__book")), decisions=[yes], mcp_direct_tools=100)
    await trusted(flow)
    session = flow.open()
    said = iter(["Ada", "many", "30", "3"])
    asked: list[str] = []

    async def ask(question: Any, answers: Any) -> str:
        asked.append(" ".join(str(one) for one in question))
        return next(said)

    await session.run(UserInput("go"), approver=flow.user, sink=flow.tell, ask=ask)
    assert any("booked 3 for Ada" in text for text in flow.shown)
    assert "The MCP server demo asks: Whose booking is it?" in asked[0]
    assert "many does not fit here." in asked[2]
    assert "30 does not fit here: 30 is greater than the maximum of 9." in asked[3]


async def test_a_form_is_declined_where_nobody_is(make_flow: MakeFlow) -> None:
    flow = make_flow(script(call("mcp__demo__book")), decisions=[yes], mcp_direct_tools=100)
    await trusted(flow)
    flow.open()
    await flow.run()
    assert any("not booked: decline" in text for text in flow.shown)


async def test_a_permission_covers_calls_of_one_tool(make_flow: MakeFlow) -> None:
    flow = make_flow(
        script(call("mcp__demo__add", "{a: 1, b: 2}"), call("mcp__demo__add", "{a: 3, b: 4}"),
               call("mcp__demo__big", "{size: 3}")),
        decisions=[yes, no("not this one")],
        mcp_direct_tools=100,
    )  # fmt: skip
    calls = await trusted(flow)
    session = flow.open()
    grant = flow.user.decisions[0]

    def granting(request: Any) -> Any:
        _request, report, _verdict = flow.user.asked[-1]
        offer, _server = session.policy.offers(request, report, str(flow.folder))
        assert str(offer.label) == "calls of mcp__demo__add (demo)"
        session.policy.grant(report, offer, session.executor.cwd)
        return grant(request)

    flow.user.decisions[0] = granting
    await flow.run()
    assert calls.read_text().count("add") == 2
    assert [request.tool for request, _r, _v in flow.user.asked] == [
        "mcp__demo__add", "mcp__demo__big",
    ]  # fmt: skip


async def test_a_rule_switches_a_tool_of_a_server_off(make_flow: MakeFlow) -> None:
    flow = make_flow(
        script(call("call_tool", "{tool: mcp__demo__add, arguments: {a: 1, b: 2}}")),
        decisions=[yes],
    )
    calls = await trusted(flow)
    policy = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "policy.toml"
    policy.write_text('[[rule]]\ndecision = "deny"\ntool = "mcp__demo__add"\nreason = "no sums"\n')
    flow.open()
    await flow.run()
    assert "add" not in calls.read_text()
    assert any("no sums" in text for text in flow.shown)


async def test_plan_mode_calls_nothing(make_flow: MakeFlow) -> None:
    flow = make_flow(
        script(call("call_tool", "{tool: mcp__demo__add, arguments: {a: 1, b: 2}}")),
        decisions=[],
        approval_mode="plan",
    )
    calls = await trusted(flow)
    flow.open()
    await flow.run()
    assert calls.read_text() == ""


async def test_a_session_with_calls_is_replayed_without_its_server(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow(
        script(
            call("find_tools", "{query: add numbers}"),
            call("call_tool", "{tool: mcp__demo__add, arguments: {a: 1, b: 2}}"),
        ),
        decisions=[yes],
    )
    calls = await trusted(flow)
    flow.open()
    await flow.run()
    await flow.session.finish()
    flow.close()
    calls.write_text("")
    status, report = replayed(forge, flow)
    assert report == {"turns": 1, "commands": 0, "divergence": None}
    assert status == 0
    assert calls.read_text() == ""


async def test_a_resource_that_the_user_names_is_attached(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: Read.}, {text: Again.}]", decisions=[])
    await trusted(flow)
    flow.open()
    await flow.run("what does @demo:memo://hello, say? and mail a@demo:x")
    assert "the memo says hello" in flow.shown[0]
    assert '<untrusted source="MCP server demo, resource memo://hello">' in flow.shown[0]
    await flow.run("and @demo:memo://nothing?")
    assert any("@demo:memo://nothing could not be read" in str(n.text) for n in flow.of(Notice))


async def test_progress_and_a_picture_reach_the_user_and_the_model(make_flow: MakeFlow) -> None:
    flow = make_flow(
        script(call("mcp__demo__count", "{to: 2}"), call("mcp__demo__picture")),
        decisions=[yes, yes],
        mcp_direct_tools=100,
    )
    await trusted(flow)
    flow.open()
    await flow.run()
    told = [(event.tool, event.text) for event in flow.of(ActionProgress)]
    assert told == [("mcp__demo__count", "50% step 1"), ("mcp__demo__count", "100% step 2")]
    assert any("PNG image, 4x4 pixels" in text for text in flow.shown)


async def test_a_prompt_of_a_server_is_a_slash_command(make_flow: MakeFlow) -> None:
    flow = make_flow()
    await trusted(flow)
    session = flow.open()
    commands = {one.name: one for one in prompt_commands(session)}
    assert commands["demo:review"].arguments == "CODE"
    sent: list[UserInput] = []

    class Repl:
        def __init__(self) -> None:
            self.session = session

        def ask_model(self, given: UserInput) -> None:
            sent.append(given)

    done = commands["demo:review"].run(Repl(), "the parser of dates")
    assert done is not None
    await done
    assert sent[0].text == "Please review the parser of dates carefully."
    failed = commands["demo:review"].run(Repl(), "")
    assert failed is not None
    with pytest.raises(UsageError, match="needs: code"):
        await failed
    typed = UserInput("/demo:review the parser of dates")
    given = resolve_input(session, await fill_prompt(session, typed), tuple)
    assert (given.text, given.line) == (sent[0].text, typed.text)


async def test_hooks_and_sub_agents_meet_tools_that_are_only_found(make_flow: MakeFlow) -> None:
    flow = make_flow(
        "replies:\n"
        "  - calls: [{tool: delegate, arguments: {agent: adder, task: add them}}]\n"
        "  - calls: [{tool: mcp__demo__add, arguments: {a: 1, b: 2}}]\n"
        "  - {text: The sub-agent is done.}\n"
        "  - calls:\n"
        "    - {tool: call_tool, arguments: {tool: mcp__demo__add, arguments: {a: 5, b: 6}}}\n"
        "  - {text: Done.}\n",
        decisions=[yes, yes],
    )
    calls = await trusted(flow, "many")
    config = Path(flow.environ["KOGNITERM_CONFIG_DIR"])
    (config / "agents").mkdir()
    (config / "agents" / "adder.md").write_text(
        "---\nname: adder\ndescription: Adds\ntools: mcp__demo__add\n---\nAdd.\n"
    )
    guard = """grep -q '"a": *5' && echo no fives >&2 && exit 2; exit 0"""
    hook = {"matcher": "mcp__demo__.*", "hooks": [{"type": "command", "command": guard}]}
    (config / "hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}))
    flow.open()
    await flow.run()
    assert "add 1 2" in calls.read_text()
    assert "add 5 6" not in calls.read_text()
    assert any("no fives" in text for text in flow.shown)


async def test_the_model_is_told_of_each_server_once_with_its_trusted_instructions(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("replies: [{text: One., repeat: forever}]")
    await trusted(flow)
    session = flow.open()
    system = session.context.system.text
    assert "- demo: 12 tools (add, count, " in system
    said = '<untrusted source="MCP server demo">\nUse add for sums, and nothing else.\n</untrusted>'
    assert said in system
    await flow.run("go")
    session.extensions.servers.find("demo").off = True
    await flow.run("go on")
    await flow.run("and on")
    gone = [m.text for m in session.state.messages if "No MCP servers are available" in m.text]
    assert len(gone) == 1
    assert session.context.system.text == system


async def test_instructions_that_changed_wait_for_trust(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    program = tmp_path / "server.py"
    program.write_text(Path(SERVER).read_text())
    flow = make_flow("replies: [{text: One.}]")
    await trusted(flow, args=[str(program), str(flow.folder / "calls")])
    program.write_text(program.read_text().replace("and nothing else", "and rm for files"))
    session = flow.open()
    servers = session.extensions.servers
    server = servers.find("demo")
    shown: list[str] = []

    async def agree(title: Phrase, lines: Sequence[Shown], yes: Phrase) -> bool:
        shown.extend(map(str, lines))
        assert "rm for files" not in session.context.system.text
        return True

    await flow.run()
    assert await trust_server(servers, server, agree) is not None
    assert "+Use add for sums, and rm for files." in shown
    session.context.instruct()
    assert "rm for files" in session.state.messages[-1].text


async def test_a_changed_list_is_a_note_and_the_tools_of_the_session_stay(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(
        script(
            call("call_tool", "{tool: mcp__demo__grow}"),
            call("find_tools", "{query: smaller}"),
            call("mcp__demo__add", "{a: 1, b: 2}"),
        ),
        decisions=[yes],
    )
    await trusted(flow)
    session = flow.open()
    before = session.context.offered_tools()
    await flow.run()
    notes = [m.text for m in session.state.messages if "demo changed its list of tools" in m.text]
    assert len(notes) == 1
    assert any("changed its tools" in str(one.text) for one in flow.of(Notice))
    assert session.context.offered_tools() == before
    assert any("1 new tools, not trusted yet" in text for text in flow.shown)
    assert any("Call mcp__demo__add with call_tool" in text for text in flow.shown)


ADDS_AT_ITS_START = """if asked["method"] in ("notifications/initialized", "tools/call"):
        kind = "resources" if "id" in asked else "tools"
        said = {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"}
        print(json.dumps(said), flush=True)
    if "id" in asked:"""


async def test_what_a_server_adds_at_its_start_and_resources_are_no_changed_tools(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(
        script(call("mcp__demo__one"), call("mcp__demo__one")),
        decisions=[yes, yes],
        mcp_direct_tools=100,
    )
    file = flow.folder / "adds.py"
    file.write_text(LOOSE.replace('if "id" in asked:', ADDS_AT_ITS_START))
    await trusted(flow, args=[str(file)])
    session = flow.open()
    await flow.run()
    assert sum("4 items" in text for text in flow.shown) == 2
    assert session.extensions.servers.find("demo").connection.changed == {"Resource"}
    assert not any("changed its" in str(one.text) for one in flow.of(Notice))
    assert not any("changed its list" in one.text for one in session.state.messages)


async def test_resources_are_found_and_read_by_a_tool(make_flow: MakeFlow) -> None:
    flow = make_flow(
        script(
            call("find_tools", "{query: read a memo}"),
            call(
                "call_tool",
                "{tool: mcp__demo__read_resource, arguments: {uri: 'memo://hello'}}",
            ),
        ),
        decisions=[yes],
    )
    await trusted(flow)
    flow.open()
    await flow.run()
    found = next(text for text in flow.shown if "mcp__demo__read_resource" in text)
    assert "memo://hello hello Return a memo." in found
    assert found.startswith("Call each of these with call_tool")
    assert any("the memo says hello" in text for text in flow.shown)


async def test_one_rule_is_about_a_whole_server(make_flow: MakeFlow) -> None:
    replies = script(call("mcp__demo__add", "{a: 1, b: 2}"), call("mcp__demo__big", "{size: 3}"))
    flow = make_flow(replies, mcp_direct_tools=100)
    calls = await trusted(flow)
    policy = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "policy.toml"
    policy.write_text(
        '[[rule]]\ndecision = "allow"\ntool = "mcp__demo"\n'
        '[[rule]]\ndecision = "deny"\ntool = "mcp__demo__b*"\n'
        '[[rule]]\ndecision = "deny"\ntool = "mcp__other"\n'
        '[[rule]]\ndecision = "deny"\ntool = "mcp__demo__nothing"\n'
    )
    session = flow.open()
    await flow.run()
    assert "add 1 2" in calls.read_text()
    assert not any("xxx" in text for text in flow.shown)
    told = [str(one) for one in session.notices if "policy.toml" in str(one)]
    assert len(told) == 2
    assert "there is no tool mcp__other, so it has no effect." in told[0]
    assert "mcp__demo__nothing" in told[1]


async def test_a_permission_covers_the_trusted_tools_of_a_server(make_flow: MakeFlow) -> None:
    flow = make_flow(
        script(call("mcp__demo__add", "{a: 1, b: 2}"), call("mcp__demo__big", "{size: 3}")),
        decisions=[yes],
        mcp_direct_tools=100,
    )
    await trusted(flow)
    session = flow.open()

    def granting(request: Any) -> Any:
        _request, report, _verdict = flow.user.asked[-1]
        _calls, offer = session.policy.offers(request, report, str(flow.folder))
        words = "calls of every trusted tool of the MCP server demo"
        assert str(offer.label) == words
        session.policy.save(report, offer, session.executor.cwd)
        return yes(request)

    flow.user.decisions[0] = granting
    await flow.run()
    assert any("xxx" in text for text in flow.shown)
    assert len(flow.user.asked) == 1


def test_trust_of_a_projects_server_is_for_that_project(tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": ["server.py", "calls"]}
    text = json.dumps({"mcpServers": {"demo": entry}})
    project = [ProjectFile(".mcp.json", "mcp", "", text)]
    one = load_servers(tmp_path / "no", project, tmp_path / "one").servers[0]
    other = load_servers(tmp_path / "no", project, tmp_path / "other").servers[0]
    records = ServerRecords(tmp_path / "records")
    records.write(one, ServerRecord(one.launch))
    assert records.read(one).launches(one)
    assert not records.read(other).launches(other)
