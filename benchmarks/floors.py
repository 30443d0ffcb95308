"""Programs that KogniTerm is measured against: the least that does the same.

Each is code for a bare interpreter. They have no policy, no rendering and no journal.
"""

from __future__ import annotations

PROMPT = "from prompt_toolkit import PromptSession; PromptSession('floor> ').prompt()"
"""A bare prompt_toolkit prompt."""

LOOP = """
import asyncio, json, operator, os, pty, sys, time
from typing import Annotated, TypedDict
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph

steps = int(sys.argv[1])
marks = []

class State(TypedDict, total=False):
    messages: Annotated[list, operator.add]

def model(state):
    marks.append(time.perf_counter())
    n = len(marks)
    if n == 1:
        print('"model_called"', flush=True)
    if n > steps:
        return {"messages": [AIMessage("done")]}
    call = {"name": "execute_command", "args": {"command": f"true # {n}"}, "id": f"c{n}"}
    return {"messages": [AIMessage("", tool_calls=[call])]}

def act(state):
    call = state["messages"][-1].tool_calls[0]
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("bash", ["bash", "-c", call["args"]["command"]])
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return {"messages": [ToolMessage(f"[exit {status}]", tool_call_id=call["id"])]}

graph = StateGraph(State)
graph.add_node("model", model)
graph.add_node("act", act)
graph.add_edge(START, "model")
graph.add_conditional_edges("model", lambda s: "act" if s["messages"][-1].tool_calls else END)
graph.add_edge("act", "model")
app = graph.compile()

async def main():
    await app.ainvoke({"messages": [HumanMessage("go")]}, {"recursion_limit": 10_000})

asyncio.run(main())
print(json.dumps([b - a for a, b in zip(marks, marks[1:])]))
"""
"""A bare LangGraph loop: N steps of a model that answers at once and of `true` in a terminal."""

PROMPT_AND_LOOP = """
from prompt_toolkit import PromptSession
task = PromptSession('floor> ').prompt()
import sys
sys.argv = ["-c", "0"]
""" + LOOP.replace("asyncio.run(main())", "asyncio.run(main()); print('Hello from the model')")
"""A bare prompt_toolkit prompt whose input goes to a bare LangGraph loop."""

SHELL_STEPS = "i=0; while [ $i -lt {steps} ]; do bash -c 'true'; i=$((i+1)); done"
"""The same steps by bash."""

LIST = """
import sqlite3, sys
rows = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True).execute(
    "SELECT id, updated, turns, title, folder FROM sessions ORDER BY updated DESC LIMIT 2000")
sys.stdout.write("".join("  ".join(map(str, row)) + chr(10) for row in rows))
"""
"""The rows of a list of sessions, read and printed by sqlite3 alone."""
