"""Limits of a provider over worker processes: what a server really received."""

from __future__ import annotations

import signal
import time
from contextlib import closing

from kogniterm.host.identity import account_name
from kogniterm.models.rate_limits import RATES
from kogniterm.storage.database import Database
from tests.addons.fleet.conftest import Fleet
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
    # Other sessions of the user took the whole minute, fifty seconds ago.
    with closing(
        Database(fleet.location, RATES, user=account_name(), heads=fleet.data)
    ) as database:
        for number in range(MOST):
            database.run(
                "INSERT INTO provider_calls (id, provider, moment, tokens) VALUES (?, ?, ?, ?)",
                (f"earlier-{number}", "google_genai", database.clock() - 50, 10),
            )
    names = [f"t{number}" for number in range(MOST)]
    lines = [f'{{"task": "hello", "id": "{n}", "folder": "{fleet.folder(n)}"}}' for n in names]
    (fleet.base / "tasks.jsonl").write_text("\n".join(lines))
    words = ["queue", "add", "--file", "tasks.jsonl", "--batch", "b", "--effort", "default"]
    words += ["--model", "google_genai:gemini-2.5-flash", "--memory", "off", "--plan", "never"]
    fleet.run(*words)
    workers = [fleet.worker("--slots", str(MOST)) for _ in range(2)]

    def waiting() -> int:
        """Return how many tasks run by now."""
        with fleet.queue() as queue:
            return queue.counts("b").states.get("running", 0)

    until(lambda: waiting() == MOST)
    assert not received
    until(lambda: len(received) == MOST)
    turns = _turns(fleet)
    assert len(turns) == 2 * MOST
    assert all(later - turns[0] > MINUTE for later in (*turns[MOST:], *received))
    for worker in workers:  # twice: what waits for its turn is handed over
        worker.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGTERM)
        worker.wait()


def _turns(fleet: Fleet) -> list[float]:
    with fleet.queue() as queue:
        rows = queue.patches.database.execute("SELECT moment FROM provider_calls ORDER BY moment")
    return [moment for (moment,) in rows]
