"""Sessions through the protocol: several, resumed, cut off, refused; and clients that go away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from acp.schema import ClientCapabilities, EnvVariable, HttpMcpServer, McpServerStdio, SseMcpServer

from tests.addons.acp.conftest import MakeEditor
from tests.support.acp_editor import Editor, editing, refused, until_seen
from tests.support.typing_user import nap, running

WRITES = '  - {when: {last_contains: "make it"}, run: "touch made && echo hello", repeat: forever}'


def again(editor: Editor) -> Editor:
    """Return another editor of the same user."""
    return Editor(editor.home, editor.work, editor.model, editor.variables)


async def test_a_loaded_session_shows_its_turns_and_goes_on(make_editor: MakeEditor) -> None:
    editor = make_editor(WRITES)
    editor.answers = ["approve", "reject"]
    async with editing(editor) as user:
        session = await user.open()
        await user.say(session, "make it")
        await user.say(session, "make it once more")
    later = again(editor)
    async with editing(later) as user:
        await user.agent.load_session(cwd=str(user.work), session_id=session, mcp_servers=[])
        assert user.said("user_message_chunk") == "make itmake it once more"
        states = [one["status"] for one in user.calls().values()]
        assert states == ["completed", "failed"]
        done = next(one for one in user.calls().values() if one["status"] == "completed")
        assert "hello" in done["content"][0]["content"]["text"]
        assert "All done." in user.said()
        assert await user.say(session, "hello") == "end_turn"
        await user.agent.close_session(session_id=session)
        code, told = await refused(user.say(session, "hello"))
        assert (code, "is not open" in told) == (-32602, True)
        await user.agent.resume_session(cwd=str(user.work), session_id=session)
        assert await user.say(session, "hello") == "end_turn"

        wrong = user.agent.load_session(cwd="/", session_id=session, mcp_servers=[])
        code, told = await refused(wrong)
        unknown = user.agent.load_session(cwd=str(user.work), session_id="zzz", mcp_servers=[])
        assert await refused(unknown) == (-32602, "There is no session zzz.")
    assert later.kinds("user_message_chunk")[0]["content"]["text"] == "make it"


async def test_sessions_at_once_do_not_mix_and_another_client_is_refused(
    make_editor: MakeEditor, tmp_path: Path
) -> None:
    editor = make_editor("""
  - when: {last_contains: "one"}
    run: "pwd; until test -e ../go; do sleep 0.01; done; echo from-one"
  - when: {last_contains: "two"}
    run: "pwd; touch ../go; echo from-two"
""")
    other = tmp_path / "other"
    other.mkdir()
    # Each session has the script for itself.
    async with editing(editor, "--auto-approve", "--no-sandbox") as user:
        first, second = await user.open(), await user.open(other)
        turns = asyncio.gather(user.say(first, "one"), user.say(second, "two"))
        assert await turns == ["end_turn", "end_turn"]
        for session, folder, words in ((first, user.work, "one"), (second, other, "two")):
            (call,) = user.kinds("tool_call", session)
            (done,) = [
                one for one in user.kinds("tool_call_update", session)
                if one["toolCallId"] == call["toolCallId"] and one["status"] == "completed"
            ]  # fmt: skip
            shown = done["content"][0]["content"]["text"]
            assert str(folder) in shown
            assert f"from-{words}" in shown
            assert f"from-{'two' if words == 'one' else 'one'}" not in shown
        late = again(editor)
        async with editing(late) as another:
            loading = another.agent.load_session(
                cwd=str(user.work), session_id=first, mcp_servers=[]
            )
            code, told = await refused(loading)
            assert code == -32603
            twice = [
                user.agent.resume_session(cwd=str(user.work), session_id=session)
                for session in (first, first)
            ]
            await asyncio.gather(*twice)  # open here already: nothing is opened again
            assert told.startswith(f"Session {first} is open in another terminal")


async def test_a_client_that_leaves_at_a_question_leaves_it_open(make_editor: MakeEditor) -> None:
    editor = make_editor(WRITES)
    editor.at_question = asyncio.Event()
    async with editing(editor) as user:
        session = await user.open()
        turn = asyncio.ensure_future(user.say(session, "make it"))
        await user.at_question.wait()
    turn.cancel()
    assert not (editor.work / "made").exists()
    later = again(editor)
    later.answers = ["approve"]
    async with editing(later) as user:
        await user.agent.load_session(cwd=str(user.work), session_id=session, mcp_servers=[])
        assert "/continue continues it" in user.said()
        commands = user.kinds("available_commands_update")[-1]["availableCommands"]
        assert "continue" in [one["name"] for one in commands]
        assert await user.say(session, "/continue") == "end_turn"
        assert len(user.asked) == 1
        code, told = await refused(user.say(session, "/continue"))
        assert (code, "is finished" in told) == (-32602, True)
    assert (editor.work / "made").exists()


async def test_a_killed_agent_leaves_the_outcome_unknown_and_never_runs_it_again(
    make_editor: MakeEditor,
) -> None:
    sleeping = nap()
    command = f"echo once >> runs; {sleeping}"
    editor = make_editor(f'  - {{when: {{last_contains: "work"}}, run: "{command}"}}')
    async with editing(editor, "--auto-approve") as user:
        session = await user.open()
        turn = asyncio.ensure_future(user.say(session, "work"))
        await until_seen(lambda: bool(running(sleeping)) and (user.work / "runs").exists())
        user.process.send_signal(signal.SIGKILL)
        await user.process.wait()
    turn.cancel()
    for process in running(sleeping):
        with suppress(ProcessLookupError):  # ended with the one before it
            os.kill(process, signal.SIGKILL)
    later = again(editor)
    later.answers = ["skip"]
    async with editing(later, "--auto-approve") as user:
        await user.agent.load_session(cwd=str(user.work), session_id=session, mcp_servers=[])
        assert await user.say(session, "what happened?") == "end_turn"
        assert user.asked[0].call["title"] == "What should happen with this command?"
        assert list(user.asked[0].options) == ["check", "again", "skip"]
        assert "its outcome is unknown" in user.said()
    assert (editor.work / "runs").read_text() == "once\n"


async def test_agents_and_skills_of_the_user_are_called_by_name(make_editor: MakeEditor) -> None:
    editor = make_editor('  - {when: {last_contains: "the commit"}, text: "Reviewed well."}')
    folder = editor.home / ".config" / "kogniterm" / "agents"
    folder.mkdir(parents=True)
    (folder / "reviewer.md").write_text(
        "---\nname: reviewer\ndescription: Reviews changes\n---\nReview what you are given."
    )
    async with editing(editor) as user:
        session = await user.open()
        await until_seen(lambda: bool(user.kinds("available_commands_update")))
        offered = user.kinds("available_commands_update")[-1]["availableCommands"]
        assert "@reviewer" in [one["name"] for one in offered]
        for line in ("@reviewer the commit", "/@reviewer the commit"):
            assert await user.say(session, line) == "end_turn"
        assert "Reviewed well." in user.said()
        calls = [one["title"] for one in user.calls().values()]
        assert any(title.startswith("@reviewer:") for title in calls), calls


SERVER = str(Path(__file__).parents[2] / "support" / "mcp_demo" / "demo_server.py")


async def test_a_server_of_the_editor_is_asked_about_and_then_used(
    make_editor: MakeEditor,
) -> None:
    editor = make_editor("""
  - when: {last_contains: "add"}
    calls: [{tool: call_tool, arguments: {tool: mcp__demo__add, arguments: {a: 2, b: 3}}}]
""")
    calls = editor.work / "calls"
    demo = McpServerStdio(
        name="demo", command=sys.executable, args=[SERVER, str(calls)],
        env=[EnvVariable(name="DEMO_TOKEN", value="hidden-value-123456")],
    )  # fmt: skip
    others = [
        SseMcpServer(type="sse", name="old", url="https://127.0.0.1/sse", headers=[]),
        HttpMcpServer(type="http", name="bad name!", url="https://127.0.0.1/", headers=[]),
    ]
    async with editing(editor) as user:
        session = await user.open(servers=[demo, *others])
        assert not calls.exists()
        user.answers = ["agree", "agree", "approve"]
        await user.say(session, "add two and three")
        told = user.said()
        assert "MCP server old of the editor is not used" in told
        assert "MCP server bad name! of the editor is not used" in told
        assert user.asked[0].call["title"] == "Start the MCP server demo?"
        for part in (SERVER, "DEMO_TOKEN", "in the sandbox"):
            assert part in user.asked[0].text
        assert "hidden-value-123456" not in json.dumps([one.call for one in user.asked])
        assert user.asked[1].call["title"] == "Trust the tools of demo?"
        assert "add 2 3" in calls.read_text()
        # It is trusted now, as long as it stays what it is.
        user.asked.clear()
        user.answers = ["approve"]
        await user.say(await user.open(servers=[demo]), "add two and three")
        assert len(user.asked) == 1


async def test_without_a_model_the_editor_is_told_how_to_set_one_up(
    make_editor: MakeEditor,
) -> None:
    editor = make_editor("")
    editor.model = "google_genai:gemini-2.5-flash"
    async with editing(editor, start=False) as user:
        can = ClientCapabilities(auth={"terminal": True})
        hello = await user.agent.initialize(1, client_capabilities=can)
        login, local = hello.auth_methods
        assert (login.id, login.type, login.args) == ("login", "terminal", ["login"])
        started = login.field_meta["terminal-auth"]
        assert [*started["args"]][-2:] == ["kogniterm", "login"]
        assert local.id == "local"
        code, told = await refused(user.open())
        assert (code, "GOOGLE_API_KEY" in told) == (-32000, True)
        code, told = await refused(user.agent.authenticate(method_id="local"))
        assert (code, "kogniterm models pull" in told) == (-32000, True)
        assert (await refused(user.agent.authenticate(method_id="x")))[0] == -32602
    # What the client would run, at no terminal: it asks for a key on its input.
    ran = await asyncio.to_thread(
        subprocess.run,
        [started["command"], *started["args"]], env=editor.environ, cwd=editor.work,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 2
