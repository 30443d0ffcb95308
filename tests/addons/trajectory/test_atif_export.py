"""The ATIF export holds what the journal holds, in the form that Harbor reads.

test_harbor.py has Harbor's own validator read the same session.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kogniterm.addons.trajectory.atif_export import trajectory
from kogniterm.errors import UsageError
from kogniterm.models.catalog import cost_of
from kogniterm.runtime.operations.stored_data import export_parts
from kogniterm.sessions.records import SessionOpened
from kogniterm.sessions.session_transfer import fork
from kogniterm.sessions.store import SessionStore
from tests.sessions.conftest import database, open_database, store
from tests.sessions.on_file import in_file
from tests.support.conversation import SECRET, command_turn, eventful_session, write

__all__ = ["database", "in_file", "open_database", "store"]
Json = dict[str, Any]
MODEL = "openai:gpt-4o"


def exported(store: SessionStore, session: str) -> Json:
    found: Json = json.loads("".join(trajectory(store, session)))
    return found


@pytest.fixture
def session(store: SessionStore) -> str:
    """Return the ID of a session in which everything happens."""
    journal = store.create(folder="/home/ana/project", model=MODEL)
    eventful_session(journal)
    journal.close()
    return journal.state.session_id


def steps(document: Json, source: str) -> list[Json]:
    return [step for step in document["steps"] if step["source"] == source]


def calling(document: Json, call_id: str) -> Json:
    """Return the first step that makes this call."""
    for step in document["steps"]:
        if call_id in [call["tool_call_id"] for call in step.get("tool_calls", ())]:
            return step  # type: ignore[no-any-return]
    raise AssertionError(call_id)


def every(document: Json) -> Iterator[Json]:
    yield document
    yield from document.get("subagent_trajectories", ())


def test_a_turn_is_its_input_its_calls_and_what_they_showed(
    store: SessionStore, session: str
) -> None:
    document = exported(store, session)
    assert document["schema_version"] == "ATIF-v1.8"
    assert document["session_id"] == session
    assert document["agent"] == {"name": "kogniterm", "version": "1.0", "model_name": MODEL}
    first, second, answer = document["steps"][:3]
    assert (first["source"], first["message"]) == ("user", "How many files are here?")
    assert second["reasoning_content"] == "A listing shows it."
    (call,) = second["tool_calls"]
    assert (call["function_name"], call["arguments"]) == (
        "execute_command", {"command": "ls | wc -l"},
    )  # fmt: skip
    (request,) = call["extra"]["requests"]
    assert request["verdict"]["kind"] == "allow"
    assert request["decision"] == {"kind": "approve", "by": "policy"}
    assert (request["status"], request["exit_code"]) == ("finished", 0)
    assert second["observation"]["results"] == [{"source_call_id": "c1", "content": "7\n"}]
    assert second["extra"]["plan"]["goal"] == "Count"
    assert answer["message"] == "There are seven."
    assert second["timestamp"].endswith("+00:00")


def test_the_sums_of_the_steps_are_what_the_session_used(store: SessionStore, session: str) -> None:
    document = exported(store, session)
    second = document["steps"][1]
    assert second["metrics"] == {
        "prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 0,
        "cost_usd": pytest.approx(0.000075),
    }  # fmt: skip
    assert second["llm_call_count"] == 1
    for one in every(document):
        metrics = [step["metrics"] for step in one["steps"] if "metrics" in step]
        totals = one["final_metrics"]
        assert totals["total_prompt_tokens"] == sum(each["prompt_tokens"] for each in metrics)
        assert totals["total_steps"] == len(one["steps"])
    used = store.open(session).state.usage
    totals = document["final_metrics"]
    assert totals["extra"]["total_prompt_tokens_with_subagents"] == used.input
    assert totals["extra"]["total_completion_tokens_with_subagents"] == used.output
    assert totals["total_cost_usd"] == pytest.approx(cost_of(MODEL, used))
    (cached,) = [s for s in document["steps"] if s.get("metrics", {}).get("cached_tokens") == 40]
    assert cached["metrics"]["extra"] == {"cache_write_tokens": 20}


def test_a_sub_agent_has_a_trajectory_of_its_own(store: SessionStore, session: str) -> None:
    document = exported(store, session)
    (sub,) = document["subagent_trajectories"]
    (result,) = calling(document, "d2")["observation"]["results"]
    assert result["content"] == "Seven."
    assert [one["trajectory_id"] for one in result["subagent_trajectory_ref"]] == [
        sub["trajectory_id"]
    ]
    assert [step["source"] for step in sub["steps"]] == ["user", "agent", "agent", "agent"]
    assert sub["steps"][0]["message"] == "Count the files"
    assert [step["step_id"] for step in sub["steps"]] == [1, 2, 3, 4]


def test_refusals_and_unusable_calls_say_what_became_of_them(
    store: SessionStore, session: str
) -> None:
    document = exported(store, session)
    step = calling(document, "c3")
    refused, unknown, cut = step["tool_calls"]
    (request,) = refused["extra"]["requests"]
    assert request["decision"] == {"kind": "reject", "by": "person", "reason": "not this"}
    assert (request["label"], request["status"]) == ("dangerous", "refused")
    assert request["verdict"] == {"kind": "ask", "reasons": ["Deletes."]}
    assert cut["extra"] == {"raw_arguments": '{"path"', "problem": "cut"}
    results = {one["source_call_id"]: one for one in step["observation"]["results"]}
    assert results["c4"]["extra"] == {"error": True, "malformed": True}
    assert results["c5"]["extra"] == {"status": "no result recorded"}
    assert unknown["function_name"] == "plan_it"
    (hint,) = [one for one in steps(document, "system") if one["message"] == "Reply again."]
    assert "metrics" not in hint
    assert document["extra"]["decisions"]["reject by person"] == 1
    assert {"turn": 3, "stop": "refused", "exit_code": 3} in document["extra"]["turns"]


def test_a_compaction_a_step_back_and_a_broken_off_command_are_told(
    store: SessionStore, session: str
) -> None:
    document = exported(store, session)
    (summary,) = [s for s in document["steps"] if s.get("extra", {}).get("kind") == "compaction"]
    assert (summary["source"], summary["message"]) == ("agent", "So far: files")
    assert summary["metrics"]["prompt_tokens"] == 500
    gone = [step["message"] for step in document["steps"] if step.get("extra", {}).get("rewound")]
    assert gone == ["Delete them", "", "There are seven."]
    (back,) = [s for s in document["steps"] if s.get("extra", {}).get("kind") == "rewind"]
    assert back["source"] == "system"
    open_call = document["steps"][-1]
    assert open_call["tool_calls"][0]["extra"]["requests"][0]["status"] == "unknown"
    assert open_call["observation"]["results"][0]["extra"] == {"status": "no result recorded"}


def test_no_secret_leaves(store: SessionStore, session: str) -> None:
    text = json.dumps(exported(store, session))
    assert SECRET not in text
    assert "I list them with" in text


def test_no_control_sequence_leaves(store: SessionStore) -> None:
    hostile = "a\x1b]0;t\x07b\x9b2J\u202e"
    journal = store.create(folder="/home/ana", model=MODEL)
    write(journal, command_turn(1, hostile, f"echo {hostile}", hostile, hostile))
    journal.close()
    text = "".join(export_parts(store, journal.state.session_id, "atif", str))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "u0007b" in text


def test_a_fork_marks_what_it_copied(store: SessionStore, session: str) -> None:
    copy = fork(store, session, turn=1)
    journal = store.open(copy.id)
    write(journal, command_turn(6, "And now?"))
    journal.close()
    document = exported(store, copy.id)
    marks = [step.get("is_copied_context", False) for step in document["steps"]]
    assert marks == [True, True, True, False, False, False]
    assert document["extra"]["parent_session"] == session


def test_the_model_of_each_step_stays_with_it(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model=MODEL)
    write(journal, command_turn(1))
    opened = SessionOpened(journal.state.session_id, "/home/ana", "1.0", "acme:unpriced")
    write(journal, [opened, *command_turn(2)])
    journal.close()
    document = exported(store, journal.state.session_id)
    models = [step.get("model_name") for step in document["steps"] if step["source"] == "agent"]
    assert models == [MODEL, MODEL, None, None]
    assert document["agent"]["model_name"] == "acme:unpriced"
    assert "total_cost_usd" not in document["final_metrics"]


def test_a_session_without_a_turn_cannot_be_exported(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model=MODEL)
    journal.close()
    with pytest.raises(UsageError, match="has no turn yet"):
        exported(store, journal.state.session_id)
