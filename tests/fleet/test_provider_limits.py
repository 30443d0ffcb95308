"""Limits of a provider over worker processes: what a server really received."""

from __future__ import annotations

import signal
import time

from tests.fleet.conftest import Fleet
from tests.support.fake_gemini import Answer, FakeGemini, text_answer
from tests.support.forge import until

MOST = 3
MINUTE = 60.0


def test_all_workers_together_keep_to_the_requests_of_a_minute(
    fleet: Fleet, fake_gemini: FakeGemini
) -> None:
    received: list[float] = []

    def answer(_body: object) -> Answer:
        received.append(time.time())
        return text_answer("Done.")

    fake_gemini.answer_with(answer)
    fleet.gemini(fake_gemini.url, f"KOGNITERM_REQUESTS_PER_MINUTE=google_genai={MOST}")
    names = [f"t{number}" for number in range(2 * MOST)]
    lines = [f'{{"task": "hello", "id": "{n}", "folder": "{fleet.folder(n)}"}}' for n in names]
    (fleet.base / "tasks.jsonl").write_text("\n".join(lines))
    words = ["queue", "add", "--file", "tasks.jsonl", "--batch", "b", "--effort", "default"]
    words += ["--model", "google_genai:gemini-2.5-flash", "--memory", "off", "--plan", "never"]
    fleet.run(*words)
    workers = [fleet.worker("--slots", str(MOST)) for _ in range(2)]

    def waiting() -> int:
        """Return how many tasks run by now, where the first ones have ended."""
        with fleet.queue() as queue:
            states = queue.counts("b").states
        return states.get("running", 0) if states.get("done", 0) >= MOST else 0

    until(lambda: waiting() == MOST)  # each of the others has its turn in the next minute
    until(lambda: len(_turns(fleet)) >= 2 * MOST)
    for first in received:
        assert sum(first <= one < first + MINUTE for one in received) <= MOST
    turns = _turns(fleet)
    assert all(later - turns[0] > MINUTE for later in turns[MOST:])
    for worker in workers:  # twice: what waits for its turn is handed over
        worker.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGTERM)
        worker.wait()


def _turns(fleet: Fleet) -> list[float]:
    with fleet.queue() as queue:
        rows = queue.budgets.database.execute("SELECT moment FROM provider_calls ORDER BY moment")
    return [moment for (moment,) in rows]
