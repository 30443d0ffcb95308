"""The ways of doing a task that are compared, each from a request to its answer.

`plain`: the usual loop on the same weights, without anything of KogniTerm: a system prompt, one
JSON object per step (a command or the answer), at most four steps, observations as messages.
`direct`: KogniTerm's local model on the bare protocol, its commands run in the sandbox.
`kogniterm`: the product, `kogniterm run` as a person would start it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.eval.scratch import Done, Scratch
from benchmarks.eval.table import Task
from kogniterm.errors import KognitermError
from kogniterm.models.local import LocalModel
from kogniterm.models.local.chat import chat_text
from kogniterm.models.local.runtime import Finished, Prompt, Runtime

PLAIN_STEPS = 4
PLAIN_SYSTEM = (
    "You are an assistant with a Linux bash shell. To do the task, reply with a JSON object: "
    '{"command": "..."} runs a bash command and shows you its output; '
    '{"answer": "..."} ends the task with your answer to the person.'
)
PLAIN_SCHEMA: Mapping[str, Any] = {
    "anyOf": [
        {
            "type": "object",
            "properties": {name: {"type": "string", "maxLength": 500}},
            "required": [name],
            "additionalProperties": False,
        }
        for name in ("command", "answer")
    ]
}
CLIPPED = 1500


@dataclass(slots=True)
class Attempt:
    """What a set-up made of a task."""

    answer: str = ""
    commands: list[str] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""


SetUp = Callable[[Task, Scratch], Attempt]


def _timed(work: Callable[[Task, Scratch], Coroutine[Any, Any, Attempt]]) -> SetUp:
    def attempt(task: Task, scratch: Scratch) -> Attempt:
        began = time.monotonic()
        try:
            result = asyncio.run(work(task, scratch))
        except KognitermError as error:
            result = Attempt(error=str(error))
        result.seconds = time.monotonic() - began
        return result

    return attempt


def plain(runtime: Runtime) -> SetUp:
    """The plain loop on `runtime`."""

    async def ask(chat: list[tuple[str, str]]) -> str:
        prompt = Prompt(chat_text(chat), 300, schema=PLAIN_SCHEMA)
        pieces = [e async for e in runtime.complete(prompt) if not isinstance(e, Finished)]
        return "".join(str(piece) for piece in pieces)

    async def work(task: Task, scratch: Scratch) -> Attempt:
        attempt = Attempt()
        chat = [("system", PLAIN_SYSTEM), ("user", task.request)]
        for _ in range(PLAIN_STEPS):
            said = await ask(chat)
            chat.append(("assistant", said))
            try:
                reply = json.loads(said)
            except ValueError:
                attempt.error = f"not JSON: {said[:80]}"
                break
            if "answer" in reply:
                attempt.answer = reply["answer"]
                break
            attempt.commands.append(reply["command"])
            done = scratch.run(reply["command"])
            shown = f"{done.output[:CLIPPED]}[exit {done.code}]"
            chat.append(("user", f"Output:\n{shown}"))
        return attempt

    return _timed(work)


def direct(model: LocalModel) -> SetUp:
    """KogniTerm's local model alone, each command run in the sandbox."""
    from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

    from kogniterm.types import ModelRequest, Reply, ToolSpec

    tool = ToolSpec("execute_command", "Run a command.", {"type": "object"}, "command")

    def observed(done: Done, call_id: str) -> ToolMessage:
        text = "\n".join([*([done.output.rstrip("\n")] if done.output else []), ""])
        return ToolMessage(f"{text}[exit {done.code}]", tool_call_id=call_id)

    async def work(task: Task, scratch: Scratch) -> Attempt:
        attempt = Attempt()
        messages: list[BaseMessage] = [HumanMessage(task.request)]
        while True:
            async for event in model.stream(ModelRequest(tuple(messages), (tool,))):
                if isinstance(event, Reply):
                    message = event.message
            messages.append(message)
            if not message.tool_calls:
                attempt.answer = str(message.text)
                return attempt
            call = message.tool_calls[0]
            attempt.commands.append(call["args"]["command"])
            messages.append(observed(scratch.run(call["args"]["command"]), str(call["id"])))

    return _timed(work)


def product(name: str, weights: Path, state: Path) -> SetUp:
    """`kogniterm run`, approving what policy does not deny, with a state folder of its own."""
    environment = {
        **os.environ,
        "KOGNITERM_CONFIG_DIR": str(state / "config"),
        "KOGNITERM_DATA_DIR": str(state / "data"),
        "KOGNITERM_CACHE_DIR": str(weights.parent),
        "KOGNITERM_LOCAL_UNRESTRICTED": "true",
        "LC_ALL": "C.UTF-8",
    }

    def attempt(task: Task, scratch: Scratch) -> Attempt:
        began = time.monotonic()
        command = [sys.executable, "-m", "kogniterm", "run", "--auto-approve", "--output", "json"]
        command += ["--model", f"local:{name}", "--cwd", str(scratch.folder), task.request]
        done = subprocess.run(
            command,
            cwd=scratch.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        result = Attempt(seconds=time.monotonic() - began)
        try:
            printed = json.loads(done.stdout)
            result.answer = printed.get("answer") or ""
            result.commands = [str(ran["command"]) for ran in printed.get("commands", ())]
            result.error = str(printed.get("reason") or "")
        except ValueError:
            result.error = (done.stderr or done.stdout).strip()[-200:]
        return result

    return attempt
