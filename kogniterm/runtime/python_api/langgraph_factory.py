"""The agent's graph for LangGraph's own tools: `langgraph dev`, Studio, a graph of your own.

`langgraph.json` names `make_graph`. The tools read and search as in a session; what would change
something ends the graph with `pending` filled, because approval and executor are not part of it.
A caller goes on by adding the `ToolMessage` of such a call.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import Mapping
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

from kogniterm.agent.graph import graph_with
from kogniterm.runtime.python_api.open_agent import open_agent


async def make_graph(config: Mapping[str, Any] | None = None) -> Any:
    """Return the compiled graph, with its model and tools.

    `config["configurable"]` may name a `model` and a `folder`; without them they are the configured
    model and the working folder. The session behind the tools is stored in a temporary folder and
    goes with the process. Raises as `open_agent` does.
    """
    chosen = (config or {}).get("configurable") or {}
    folder, model = str(chosen.get("folder") or os.curdir), str(chosen.get("model") or "")
    # LangGraph's server refuses calls that block its loop.
    return await asyncio.to_thread(_graph, folder, model)


@cache
def _graph(folder: str, model: str) -> Any:
    storage = TemporaryDirectory(prefix="kogniterm-graph-")
    agent = open_agent(folder, model=model or None, storage=storage.name, memory="off")
    atexit.register(storage.cleanup)
    atexit.register(agent.session.close)
    return graph_with(agent.session.context.unlimited_context())
