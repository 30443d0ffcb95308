"""Tools that involve the user, memory and background jobs, through whole turns."""

from __future__ import annotations

import json
import os
from pathlib import Path

from kogniterm.types import events
from tests.flows.conftest import MakeFlow, no, yes
from tests.flows.program import replayed
from tests.support.forge import Forge
from tests.support.programs import require_sandbox


def call(tool: str, arguments: str) -> str:
    return f"{{calls: [{{tool: {tool}, arguments: {arguments}}}]}}"


async def test_a_job_is_listed_waited_for_and_read_unasked(make_flow: MakeFlow) -> None:
    script = f"""
replies:
  - {{run: "(echo from-the-job; read line < gate; echo done) &"}}
  - {call("jobs", "{action: list}")}
  - {{run: "echo go > gate"}}
  - {call("jobs", "{action: wait, id: j1}")}
  - {call("jobs", "{action: read, id: j1}")}
  - {{text: Done.}}
"""
    flow = make_flow(script, decisions=[yes, yes])
    os.mkfifo(flow.folder / "gate")
    await flow.run()
    shown = "\n".join(flow.shown)
    fate = "ends with KogniTerm unless the jobs tool keeps it"
    assert f"j1 running, {fate}: (echo from-the-job" in shown
    assert "j1 ended, exit 0" in shown
    assert "from-the-job\ndone" in shown
    assert len(flow.user.asked) == 2


async def test_typing_into_a_job_and_stopping_it_are_asked_about(make_flow: MakeFlow) -> None:
    script = f"""
replies:
  - {{run: "sleep 600 &"}}
  - {call("jobs", '{action: send, id: j1, keys: "hello there"}')}
  - {call("jobs", "{action: stop, id: j1}")}
  - {{text: Done.}}
"""
    flow = make_flow(script, decisions=[yes, yes, no("let it run")])
    answer = await flow.run()
    asked = [request for request, _report, _verdict in flow.user.asked]
    assert [request.effect for request in asked] == ["command", "keystrokes", "keystrokes"]
    assert asked[1].command == "type into j1: 'hello there'"
    assert "sleep 600" in asked[1].purpose
    assert answer.stop == "refused"
    job = flow.session.executor.jobs()[0]
    assert job.state == "running"


async def test_in_auto_mode_a_sandboxed_wizard_is_answered_unasked(make_flow: MakeFlow) -> None:
    require_sandbox("auto")
    wizard = 'for q in Name Colour; do read -p "$q? " a; said="$said $a"; done; echo got:$said'
    answers = [
        {"calls": [{"tool": "jobs", "arguments": {"action": "send", "id": "j1", "keys": keys}}]}
        for keys in ("ann\\n", "red\n")
    ]
    script = json.dumps({"replies": [{"run": wizard}, *answers, {"text": "Done."}]})
    flow = make_flow(script, approval_mode="auto", sandbox="auto")
    answer = await flow.run()
    assert flow.user is None or not flow.user.asked
    assert "[job j1 waits for input: `Name? `. jobs send types an answer]" in flow.shown[2]
    assert flow.shown[4] == "ann\nColour? \n[j1 waits for input: `Colour? `]"
    assert flow.shown[6].startswith("red\ngot: ann red\n[j1 ended, exit 0: for q in")
    assert answer.stop == "done"


async def test_arguments_that_do_not_fit_are_named(make_flow: MakeFlow) -> None:
    script = f"""
replies:
  - {call("jobs", "{action: send, id: j1}")}
  - {call("jobs", "{action: read}")}
  - {{text: Done.}}
"""
    flow = make_flow(script)
    await flow.run()
    assert "keys are required for send" in flow.shown[2]
    assert "id is missing" in flow.shown[4]


async def test_when_unattended_the_model_is_told(make_flow: MakeFlow) -> None:
    script = f"""
replies:
  - {call("ask_user", '{question: "Which one?", answers: [left, right]}')}
  - {{text: I chose left.}}
"""
    flow = make_flow(script)
    answer = await flow.run()
    assert "No user is present to answer" in flow.shown[2]
    assert answer.text == "I chose left."
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert "Which one?" in str(answer.reason)
    assert flow.of(events.ActionEnded)[0].failed


async def test_remembering_rests_on_the_users_own_words(make_flow: MakeFlow) -> None:
    day = '{text: "They deploy on Mondays", quote: "we deploy on Mondays"}'
    shell = '{text: "They use fish", quote: "I use fish"}'
    script = f"""
replies:
  - {{run: "echo we deploy on Mondays"}}
  - {call("remember", day)}
  - {{text: Noted.}}
  - {call("remember", day)}
  - {{text: Noted.}}
  - {call("remember", shell)}
  - {{text: Noted.}}
  - {call("recall", '{question: "which shell"}')}
  - {{text: Fish.}}
"""
    flow = make_flow(script, decisions=[yes])
    await flow.run("look at the file")
    assert "Not stored" in "\n".join(flow.shown)
    await flow.run("For later, we deploy on Mondays.")
    memory = flow.session.memory.context.memory
    assert [fact.text for fact in memory.facts("pending")] == ["They deploy on Mondays"]
    assert memory.facts("active") == []
    await flow.run("Please remember that I use fish.")
    assert "They use fish" in [fact.text for fact in memory.facts("active")]
    await flow.run("what do I use?")
    assert "They use fish" in flow.shown[-2]


async def test_a_whole_output_is_read_and_searched_unasked_and_replayed(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow("replies: [{run: seq 90000}, {text: Done.}]", decisions=[yes])
    await flow.run()
    path = flow.results[0].readable_path
    assert f"bytes left out; read_file or grep {path}]" in flow.shown[2]
    elsewhere = flow.folder.parent / "notes.txt"
    elsewhere.write_text("not an output\n")
    flow.close()

    script = f"""
replies:
  - {call("read_file", f"{{path: {path}, start: -2}}")}
  - {call("read_file", f"{{path: {path}, start: 4000, lines: 1}}")}
  - {call("search_text", f"{{path: {path}, pattern: '^8999[89]$'}}")}
  - {call("read_file", f"{{path: {elsewhere}}}")}
  - {{text: Done.}}
"""
    again = make_flow(script, decisions=[no("not that")])
    again.open("last")
    await again.run()
    said = again.shown[-9:]
    assert said[1] == "89999\n90000"
    assert said[3] == "4000\n[more from line 4001]"
    assert said[5] == "89998:89998\n89999:89999"
    assert [one[0].command for one in again.user.asked] == [f"read {elsewhere}"]
    again.close()
    Path(path).unlink()
    status, report = replayed(forge, again)
    assert (status, report["divergence"], report["turns"]) == (0, None, 2)
