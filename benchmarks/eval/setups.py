"""The two set-ups that are compared, each from a request to its answer.

`plain`: the usual loop on the same weights, without anything of KogniTerm: a system prompt, one
JSON object per step (a command or the answer), at most four steps, observations as messages.
`kogniterm`: the product, `kogniterm run` as a user would start it, with its own approval,
sandbox and executor. Both start afresh for every task, so that no task can help or hurt another.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.eval.scratch import Scratch
from benchmarks.eval.table import Task
from kogniterm.addons.local_model.runtime import FinishedReply, LocalPrompt, Runtime, chat_text
from kogniterm.errors import KognitermError

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
PRODUCT_SECONDS = 300


@dataclass(slots=True)
class Attempt:
    """Answer and commands of one task under a set-up; `broken` when the set-up did not start."""

    answer: str = ""
    commands: list[str] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""
    broken: bool = False


SetUp = Callable[[Task, Scratch], Attempt]


def plain(weights: Path) -> SetUp:
    """Return the set-up that runs the plain loop on the weights in the file."""

    def attempt(task: Task, scratch: Scratch) -> Attempt:
        began = time.monotonic()
        runtime = Runtime(weights, context=4096, threads=1)
        try:
            result = asyncio.run(_plain_loop(runtime, task, scratch))
        except KognitermError as error:
            result = Attempt(error=str(error))
        finally:
            runtime.close()
        result.seconds = time.monotonic() - began
        return result

    return attempt


async def _plain_loop(runtime: Runtime, task: Task, scratch: Scratch) -> Attempt:
    attempt = Attempt()
    chat = [("system", PLAIN_SYSTEM), ("user", task.request)]
    for _ in range(PLAIN_STEPS):
        prompt = LocalPrompt(chat_text(chat), 300, schema=PLAIN_SCHEMA)
        pieces = [e async for e in runtime.complete(prompt) if not isinstance(e, FinishedReply)]
        said = "".join(str(piece) for piece in pieces)
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
        chat.append(("user", f"Output:\n{done.output[:CLIPPED]}[exit {done.code}]"))
    return attempt


def product(name: str, weights: Path, *, approved: bool = True) -> SetUp:
    """Return the set-up that runs `kogniterm run --auto-approve`, with an empty state each time.

    A rule stands in for a user who approves every command, unless not `approved`.
    """

    def attempt(task: Task, scratch: Scratch) -> Attempt:
        began = time.monotonic()
        command = [sys.executable, "-P", "-m", "kogniterm", "run", "--auto-approve"]
        command += ["--output", "json", "--model", f"local:{name}"]
        command += ["--cwd", str(scratch.folder), task.request]
        with tempfile.TemporaryDirectory(prefix="kogniterm-state-") as state:
            try:
                done = subprocess.run(
                    command,
                    cwd=state,
                    env=_environment(Path(state), weights, APPROVES if approved else ""),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=PRODUCT_SECONDS,
                    check=False,
                )
                result = _printed(done)
            except subprocess.TimeoutExpired:
                result = Attempt(error=f"not done after {PRODUCT_SECONDS} s")
        result.seconds = time.monotonic() - began
        return result

    return attempt


APPROVES = """
[[rule]]
decision = "allow"
arguments = ".*"
match = ["rm x"]
"""
"""Rule in place of a user who approves every command; it allows nothing that is dangerous."""


def _environment(state: Path, weights: Path, policy: str) -> dict[str, str]:
    """Return an environment without the caller's KogniTerm settings and with a fixed locale."""
    (state / "config").mkdir()
    (state / "config" / "policy.toml").write_text(policy)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KOGNITERM_")}
    return {
        **kept,
        "KOGNITERM_CONFIG_DIR": str(state / "config"),
        "KOGNITERM_DATA_DIR": str(state / "data"),
        "KOGNITERM_CACHE_DIR": str(weights.parent.parent),
        "LC_ALL": "C.UTF-8",
    }


def _printed(done: subprocess.CompletedProcess[str]) -> Attempt:
    try:
        printed = json.loads(done.stdout)
    except ValueError:
        return Attempt(error=(done.stderr or done.stdout).strip()[-200:], broken=True)
    return Attempt(
        answer=printed.get("answer") or "",
        commands=[str(ran["command"]) for ran in printed.get("commands", ())],
        error=str(printed.get("reason") or ""),
    )
