"""Measure a long task on a small window: completion, size of requests, and cacheable share.

    python -m benchmarks.context [STEPS] [WINDOW]

A scripted model runs STEPS real commands (300 unless given) whose outputs together are many
times its window of WINDOW tokens (32,768). Reported for each request: its size and how much of
it is word for word the beginning of the request before, which is what a provider's cache serves.
Sizes are estimates on the safe side, as the program itself uses them.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median

from langchain_core.messages import BaseMessage

from kogniterm import settings
from kogniterm.agent.compaction import estimate_tokens, tools_tokens
from kogniterm.approval import Unattended
from kogniterm.protocols import Model
from kogniterm.runtime.build import open_session
from kogniterm.types import Answer, ModelEvent, ModelInfo, ModelRequest, UserInput

STEPS = 300
WINDOW = 32_768
MAX_OUTPUT = 2_000
LINES = 150
"""Number of lines that each command prints."""


@dataclass
class Watched:
    """A model that records the size of each conversation request and its cached share."""

    model: Model
    sizes: list[int] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    _before: tuple[BaseMessage, ...] = ()

    @property
    def info(self) -> ModelInfo:
        return self.model.info

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        size = estimate_tokens(request.messages) + tools_tokens(request.tools)
        self.sizes.append(size)
        if request.purpose != "compact":
            same = 0
            for old, new in zip(self._before, request.messages, strict=False):
                if old.text != new.text or old.type != new.type:
                    break
                same += 1
            prefix = estimate_tokens(request.messages[:same]) + tools_tokens(request.tools)
            if self._before:
                self.shares.append(prefix / size)
            self._before = request.messages
        return self.model.stream(request)


async def measure(folder: Path, steps: int, window: int) -> tuple[Answer, Watched, int]:
    """Run the task in `folder`; return the answer, the requests and the number of commands run."""
    work = folder / "work"
    work.mkdir()
    script = folder / "script.yaml"
    script.write_text(_script(steps, window))
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environ |= {f"KOGNITERM_{k}_DIR": str(folder / k.lower()) for k in ("CONFIG", "DATA", "CACHE")}
    flags = {
        "model": f"scripted:{script}",
        "approval_mode": "auto",
        "sandbox": "off",
        "max_steps": steps * 2 + 10,
        "memory": "off",
    }
    loaded = settings.load(flags, environ=environ)
    session = open_session(loaded, folder=str(work), environ=environ)
    try:
        watched = Watched(session.modes.model)
        session.modes.model = watched
        ran: list[object] = []
        answer = await session.run(
            UserInput("Count to the end. Never touch prod.db."),
            approver=Unattended(),
            sink=lambda event: ran.append(event) if _is_end(event) else None,
        )
        return answer, watched, len(ran)
    finally:
        session.close()


def _is_end(event: object) -> bool:
    return type(event).__name__ == "CommandEnded"


def _script(steps: int, window: int) -> str:
    runs = "".join(f"  - run: 'seq -f \"line %g of step {n}\" {LINES}'\n" for n in range(steps))
    return (
        f"model: {{context_window: {window}, max_output: {MAX_OUTPUT}}}\n"
        "replies:\n"
        "  - {when: {purpose: compact}, text: It counted up to here., repeat: forever}\n"
        f"{runs}"
        "  - {when: {any_contains: Never touch prod.db.}, text: Counted.}\n"
    )


def main() -> None:
    """Measure and write the figures."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    window = int(sys.argv[2]) if len(sys.argv) > 2 else WINDOW
    with tempfile.TemporaryDirectory() as folder:
        answer, watched, ran = asyncio.run(measure(Path(folder), steps, window))
    shares = watched.shares
    full = sum(1 for share in shares if share > 0.5)
    lines = [
        f"answer: {answer.text!r} ({answer.stop}); {ran} of {steps} commands ran",
        f"requests: {len(watched.sizes)}; largest {max(watched.sizes)} of {window} tokens "
        f"({window - MAX_OUTPUT} beside the reply)",
        f"unchanged prefix: mean {mean(shares):.1%}, median {median(shares):.1%}, "
        f"least {min(shares):.1%}; more than half in {full} of {len(shares)} requests",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    if answer.stop != "done" or ran != steps or max(watched.sizes) > window - MAX_OUTPUT:
        sys.exit(1)


if __name__ == "__main__":
    main()
