"""`langgraph.json` leads to the same graph, which takes and gives JSON as LangGraph's tools do."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

ROOT = Path(__file__).resolve().parents[3]
NODES = {"create_plan", "decide_action", "execute_tool", "final_response"}
SCRIPT = """
replies:
  - calls: [{tool: read_file, arguments: {path: a.txt}}]
  - run: echo hi > f.txt
  - text: Done.
  - text: Again.
"""


async def factory_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load the graph as LangGraph's server does: by the file and the name that the JSON gives."""
    for kind in ("CONFIG", "DATA", "CACHE"):
        monkeypatch.setenv(f"KOGNITERM_{kind}_DIR", str(tmp_path / kind.lower()))
    # The session behind the graph lasts as long as the process.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "a.txt").write_text("content of a")
    given = json.loads((ROOT / "langgraph.json").read_text())
    file, _colon, name = given["graphs"]["kogniterm"].partition(":")
    spec = importlib.util.spec_from_file_location("named_by_json", ROOT / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    chosen = {"model": f"scripted:{tmp_path / 'script.yaml'}", "folder": str(tmp_path)}
    return await getattr(module, name)({"configurable": chosen})


async def test_the_graph_has_the_four_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = await factory_graph(tmp_path, monkeypatch)
    assert set(graph.get_graph().nodes) == {"__start__", "__end__", *NODES}


async def test_a_thread_reads_waits_for_an_action_and_continues_with_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = await factory_graph(tmp_path, monkeypatch)
    graph.checkpointer = InMemorySaver()
    thread = {"configurable": {"thread_id": "1"}}

    def said(role: str, content: str, **more: str) -> dict[str, Any]:
        return {"messages": [{"role": role, "content": content, **more}]}

    waiting = await graph.ainvoke(said("user", "go"), thread)
    [request] = waiting["pending"]
    assert request.command == "echo hi > f.txt"
    assert any("content of a" in message.text for message in waiting["messages"])
    assert not (tmp_path / "f.txt").exists()

    result = said("tool", "[exit 0]", tool_call_id=request.call_id)
    ended = await graph.ainvoke(result, thread)
    assert (ended["answer"], ended["pending"]) == ("Done.", [])

    again = await graph.ainvoke(said("user", "again"), thread)
    assert again["answer"] == "Again."
