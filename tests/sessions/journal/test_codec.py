"""Record bodies survive encoding and decoding; the bytes are canonical; the hash covers all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.journal.codec import (
    KINDS,
    decode,
    encode,
    kind_of,
    payload_digest,
    record_hash,
)
from kogniterm.sessions.records import (
    Compacted,
    Decided,
    HostIntent,
    HostOutcome,
    InputReceived,
    Intent,
    Judged,
    NodeRan,
    Noted,
    Outcome,
    RecordBody,
    Requested,
    Rewound,
    SessionOpened,
    TurnClosed,
)
from kogniterm.types import (
    ActionRequest,
    AgentState,
    Check,
    CommandResult,
    Decision,
    Effect,
    Evidence,
    Job,
    NodeUpdate,
    Phrase,
    Plan,
    PlanStep,
    RiskReport,
    RuleTrace,
    Usage,
    UserInput,
    Verdict,
    Waiting,
)
from kogniterm.types.command_results import HostAnswer

STORED_RECORDS = Path(__file__).parents[2] / "data" / "stored_records.txt"
REQUEST = ActionRequest("r1", "c1", "execute_command", "ls\x00\udcff ñ", "look", {"n": [1, None]})
PLAN = Plan(
    "goal",
    (
        PlanStep(
            "1",
            "do",
            check=Check("exit_code", "0"),
            evidence=(Evidence("r1", 0, "ok"),),
            substeps=(PlanStep("1.1", "a part", status="done"),),
        ),
    ),
    revision=3,
)
AI = AIMessage(
    "thinking about ñandúes",
    id="run-1",
    tool_calls=[{"name": "execute_command", "args": {"command": "ls"}, "id": "c1"}],
    additional_kwargs={"__gemini_function_call_thought_signatures__": {"c1": "AbC+/=="}},
    usage_metadata={"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
)
BODIES: list[RecordBody] = [
    SessionOpened("s", "/home/me", "0.1.0", "scripted:a", "parent", 7),
    InputReceived(1, UserInput("do it", "piped\n", "run", ("a.png",)), HumanMessage("do it")),
    NodeRan(NodeUpdate("decide_action", (AI,), PLAN, (REQUEST,), None, Usage(5, 2, 1, 1))),
    NodeRan(NodeUpdate("create_plan", failure=Phrase("No {thing}", {"thing": "luck"}))),
    NodeRan(NodeUpdate("delegate", (HumanMessage("look"),), agent="c1")),
    NodeRan(NodeUpdate("execute_tool", pending=(replace(REQUEST, agent="c1", agent_task="look"),))),
    Outcome("r9", "refused", ToolMessage("no", tool_call_id="c9"), agent="c1"),
    Requested(REQUEST, "/home/me", "e" * 64, {"build.sh": "f" * 64}),
    Judged(
        "r1",
        RiskReport(
            "ls", "safe_readonly", (Phrase("reads"),), (Effect("read", "."),), (("ls", "-l"),)
        ),
        Verdict(
            "ask", (Phrase("why {x}", {"x": 1}),), (RuleTrace("a", "ask", True, Phrase("b")),), "l"
        ),
    ),
    Decided("r1", Decision("reject", "ls", "person", "not now")),
    Intent("r1", "ls", "/home/me", "e" * 64, "/out/1"),
    Outcome(
        "r1",
        "finished",
        ToolMessage("a\nb", tool_call_id="c1", artifact={"raw": b"\x00\xff"}),
        CommandResult(
            "ls",
            "detached",
            None,
            "a\nb",
            0.25,
            "/home/me",
            jobs=(Job("j", "sleep", "running", (1, 2), 3.5),),
            waiting=Waiting("terminal", 2.0, "cat", "reads"),
            notes=("note",),
        ),
    ),
    HostIntent("r1", "h1"),
    HostOutcome(
        "r1", HostAnswer("h1", "failed", 2, "a\nb", Phrase("{words}", {"words": "no"}), 0.5)
    ),
    Compacted((HumanMessage("so far"), AI), PLAN, (REQUEST,), 4),
    Rewound(2, 17, (HumanMessage("so far"), AI), PLAN, 3),
    Compacted(
        (AI,),
        None,
        agents={"c1": AgentState((HumanMessage("look"), AI), Usage(9, 1, 0, 1), Phrase("Gone."))},
        summary="It counted.",
        usage=Usage(5, 2, 1, 1),
        window=12_000,
    ),
    TurnClosed(1, "done", 0, "answer"),
    Noted(
        "lease", {"text": Phrase("a {b}", {"b": "c"}), "bytes": b"\x01", "list": [1, {"a": None}]}
    ),
]


def test_every_kind_is_covered() -> None:
    assert {kind_of(body) for body in BODIES} == set(KINDS)


def test_what_is_stored_keeps_its_bytes_and_its_hash() -> None:
    """The file was written before values became dataclasses of the standard library."""
    stored = STORED_RECORDS.read_text("utf-8").splitlines()
    written = [f"{kind_of(body)} {encode(body)}" for body in BODIES]
    assert written == stored[:-1]
    assert payload_digest("salt", "\n".join(written)) == stored[-1]
    for line in stored[:-1]:
        kind, payload = line.split(" ", 1)
        assert encode(decode(kind, payload)) == payload


def test_what_older_versions_wrote_belongs_to_the_main_agent() -> None:
    """The bytes are those of journals from before there were sub-agents."""
    request = '{"arguments":{},"call_id":"c1","command":"ls","id":"r1","tool":"execute_command"}'
    node = decode("node", f'{{"update":{{"node":"execute_tool","pending":[{request}]}}}}')
    assert isinstance(node, NodeRan)
    assert (node.update.agent, node.update.pending[0].agent) == ("", "")
    message = '{"data":{"content":"x","tool_call_id":"c1"},"type":"tool"}'
    outcome = decode("outcome", f'{{"message":{message},"request_id":"r1","status":"finished"}}')
    assert isinstance(outcome, Outcome)
    assert outcome.agent == ""
    compacted = decode("compacted", '{"messages":[],"plan":null,"turn":4}')
    assert isinstance(compacted, Compacted)
    assert (dict(compacted.agents), compacted.summary, compacted.window) == ({}, None, 0)


def test_equal_bodies_have_equal_bytes_whatever_the_order_of_their_keys() -> None:
    first = Noted("note", {"a": 1, "b": {"c": 2, "d": 3}})
    second = Noted("note", {"b": {"d": 3, "c": 2}, "a": 1})
    assert encode(first) == encode(second)


def test_what_a_provider_hangs_on_a_message_is_reduced_to_json() -> None:
    message = AIMessage("hi", response_metadata={"model": "m", "raw": object(), "n": {"x": [1]}})
    again = decode("node", encode(NodeRan(NodeUpdate("decide_action", (message,)))))
    assert isinstance(again, NodeRan)
    assert again.update.messages[0].response_metadata == {"model": "m", "n": {"x": [1]}}


def test_a_kind_from_a_newer_version_is_kept_as_a_note() -> None:
    body = decode("hologram", '{"shape":"cube"}')
    assert body == Noted("unknown.hologram", {"shape": "cube"})


def test_a_field_from_a_newer_version_is_passed_over() -> None:
    body = next(body for body in BODIES if isinstance(body, Decided))
    plain = json.loads(encode(body)) | {"mood": "good"}
    assert decode("decision", json.dumps(plain)) == body


@pytest.mark.parametrize("payload", ["", "{", "[]", "{}", '{"turn":1,"input":3}'])
def test_a_payload_that_makes_no_record_is_called_damaged(payload: str) -> None:
    with pytest.raises(StorageCorruptError, match="cannot be read"):
        decode("input", payload)


@pytest.mark.parametrize("tag", ["__bytes__", "__text__", "__as_is__"])
def test_arguments_that_look_like_our_own_tags_stay_what_they_are(tag: str) -> None:
    arguments = {tag: {tag: "not base64"}}
    request = ActionRequest("r", "c", "tool", "x", arguments=arguments)
    body = NodeRan(NodeUpdate("execute_tool", (), pending=(request,)))
    assert decode("node", encode(body)) == body


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.text())
def test_any_arguments_and_text_survive(arguments: dict[str, Any], text: str) -> None:
    request = ActionRequest("r", "c", "tool", text, arguments=arguments)
    body = NodeRan(NodeUpdate("execute_tool", (HumanMessage(text),), pending=(request,)))
    assert decode("node", encode(body)) == body


def test_a_renamed_tool_has_its_present_name_wherever_a_record_names_it() -> None:
    call = {"name": "ask_person", "args": {"name": "ask_person"}, "id": "c1", "type": "tool_call"}
    content = [{"type": "tool_use", "name": "ask_person", "input": {}, "id": "c1"}]
    request = ActionRequest("r1", "c1", "ask_person", "Which?", arguments={"tool": "ask_person"})
    plan = Plan("goal", (PlanStep("s1", "Ask", tools=("ask_person", "read_file")),))
    messages = (
        AIMessage(content, tool_calls=[call]),
        ToolMessage("b", tool_call_id="c1", name="ask_person"),
    )
    stored = encode(NodeRan(NodeUpdate("execute_tool", messages, plan, (request,))))
    body = decode("node", stored)
    assert isinstance(body, NodeRan)
    asked, answered = body.update.messages
    assert isinstance(asked, AIMessage)
    assert asked.tool_calls == [{**call, "name": "ask_user"}]  # the reply of the model stays
    assert asked.content == [{**content[0], "name": "ask_user"}]
    assert answered.name == "ask_user"
    assert body.update.pending == (replace(request, tool="ask_user"),)
    assert body.update.plan is not None
    assert body.update.plan.steps[0].tools == ("ask_user", "read_file")
    assert decode("node", encode(body)) == body


def test_the_hash_covers_each_part() -> None:
    digest = payload_digest("salt", "payload")
    base = (1, 2.5, "input", digest, "0" * 64)
    changed = [
        (2, *base[1:]),
        (1, 2.6, *base[2:]),
        (*base[:2], "node", *base[3:]),
        (*base[:3], payload_digest("salt", "payloae"), base[4]),
        (*base[:4], "1" * 64),
    ]
    hashes = {record_hash(*values) for values in [base, *changed]}
    assert len(hashes) == 6
