"""Measure the requests to the model: first size, growth per step, and unchanged prefix.

The real Gemini client talks to a server on 127.0.0.1 that answers with commands; every request
body is kept and compared with the one before it. Also the agent's own time a step with that
client, at the start and at the end.

    python -m benchmarks.traffic [--steps 100] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from kogniterm import settings
from kogniterm.approval import Unattended
from kogniterm.runtime.build import open_session
from kogniterm.types import UserInput
from tests.support.fake_gemini import FakeGemini


def common(before: bytes, after: bytes) -> int:
    """Return the number of leading bytes that are the same."""
    for index, (a, b) in enumerate(zip(before, after, strict=False)):
        if a != b:
            return index
    return min(len(before), len(after))


async def drive(fake: FakeGemini, steps: int, folder: str) -> list[float]:
    """Run `steps` commands; return the times between requests in seconds."""
    environ = {"PATH": os.environ["PATH"], "HOME": folder}
    for kind in ("CONFIG", "DATA", "CACHE"):
        environ[f"KOGNITERM_{kind}_DIR"] = str(Path(folder, kind.lower()))
    flags = {
        "model": "google_genai:gemini-2.5-flash",
        "google_api_key": "key",
        "google_base_url": fake.url,
        "approval_mode": "auto",
        "sandbox": "off",
        "max_steps": steps + 10,
    }
    loaded = settings.load(flags, environ=environ)
    for n in range(steps):
        fake.call(("execute_command", {"command": f"true # {n}", "purpose": "Nothing"}))
    fake.say("done")
    session = open_session(loaded, folder=folder, environ=environ)
    marks: list[float] = []

    def sink(event: object) -> None:
        if type(event).__name__ == "ModelCalled":
            marks.append(time.perf_counter())

    try:
        answer = await session.run(UserInput("go"), approver=Unattended(), sink=sink)
    finally:
        session.close()
    assert answer.exit_code == 0, answer
    return [b - a for a, b in itertools.pairwise(marks)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    steps = asked.steps
    with tempfile.TemporaryDirectory() as name, FakeGemini() as fake:
        times = asyncio.run(drive(fake, steps, name))
        bodies = [seen.raw for seen in fake.requests]
    # The brackets that close the contents move with every message; only what precedes them counts.
    kept = [common(a, b) / len(a) for a, b in itertools.pairwise(bodies)]
    growth = (len(bodies[-1]) - len(bodies[0])) / steps
    if asked.json:
        print(json.dumps({"first": len(bodies[0]), "growth": growth, "kept": min(kept)}))
        return
    first, last = statistics.median(times[:10]), statistics.median(times[-10:])
    print(f"requests                     {len(bodies)} for {steps} steps")
    print(f"first request                {len(bodies[0]) / 1000:.1f} kB")
    print(f"growth a step                {growth / 1000:.2f} kB")
    print(
        f"prefix kept                  {min(kept):.3f} at least, {statistics.mean(kept):.3f} mean"
    )
    print(f"first ten steps              {first * 1000:.1f} ms each")
    print(f"last ten steps               {last * 1000:.1f} ms each, growth {last / first:.2f}")


if __name__ == "__main__":
    main()
