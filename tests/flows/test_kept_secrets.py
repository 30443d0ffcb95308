"""A secret that the model wrote is in no record, event or message, whichever way it went."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kogniterm.types import events
from tests.flows.conftest import MakeFlow, yes
from tests.flows.test_judged_is_run import SECRET, kept
from tests.flows.test_mcp import trusted

TEXT = f"log in with password={SECRET}"


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"tool": tool, "arguments": arguments}]}


STEP = {"id": "s1", "what": TEXT, "check": {"kind": "command", "value": f"echo {SECRET} > a"}}
WAYS = {
    "command": [{"run": f"echo {SECRET}; false"}],
    "purpose": [call("execute_command", command="touch a", purpose=TEXT)],
    "unknown tool": [call("no_such_tool", text=TEXT)],
    "wrong arguments": [call("read_file", pathh=TEXT)],
    "inside the graph": [call("search_text", pattern=SECRET)],
    "write": [call("write_file", path="a", content=TEXT)],
    "edit": [call("write_file", path="a", content="x\n"),
             call("edit_file", path="a", old="x", new=TEXT)],
    "question": [call("ask_user", question=TEXT)],
    "job": [call("jobs", action="send", id="job-1", keys=TEXT)],
    "page": [call("web_fetch", url=f"http://127.0.0.1:9/?token={SECRET}", purpose="Look.")],
    "plan": [{"plan": {"goal": TEXT, "steps": [STEP]}}, call("complete_step", step="s1")],
    "sub-agent": [call("delegate", task=TEXT, tools="run"), {"run": f"echo {SECRET} > a"},
                  {"text": TEXT}],
    "server": [call("call_tool", tool="mcp__demo__keep", arguments={"text": TEXT})],
    "answer": [{"text": TEXT}],
}  # fmt: skip


@pytest.mark.parametrize("attended", [True, False], ids=["asked", "unattended"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_secret_of_the_model_is_kept_nowhere(
    make_flow: MakeFlow, way: str, attended: bool
) -> None:
    script = json.dumps({"replies": [*WAYS[way], {"text": "Done.", "repeat": "forever"}]})
    decisions = [yes] * 9 if attended else None
    flow = make_flow(script, decisions, approval_mode="manual" if attended else "auto")
    if way == "server":
        await trusted(flow, "echo")
    answer = await flow.run()
    # What streams is redacted where it is kept or sent on; see the tests of JSON and editors.
    streams = (events.AnswerDelta, events.CommandOutput)
    said = [one for one in flow.events if not isinstance(one, streams)]
    assert [one for one in said if SECRET in repr(one)] == []
    assert SECRET not in repr(answer)
    assert SECRET not in repr(flow.session.state)
    flow.close()
    assert kept(flow, SECRET) == []
