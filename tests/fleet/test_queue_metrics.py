"""The numbers of a queue, as a collector receives them from a worker."""

from __future__ import annotations

from typing import Any

from kogniterm.runtime.telemetry import conventions as names
from tests.fleet.conftest import Fleet
from tests.fleet.test_worker import add
from tests.support.otlp_receiver import Receiver, receiving


def by_state(receiver: Receiver, name: str) -> dict[str, Any]:
    return {told[names.TASK_STATE]: point for told, point in receiver.metrics[name]}


def test_a_worker_sends_the_numbers_of_its_queue(either_fleet: Fleet) -> None:
    fleet = either_fleet
    with receiving() as receiver:
        add(fleet, "first", "echo first", "-y")
        add(fleet, "second", "rm -r second")
        add(fleet, "later", "echo later", "-y", "--queue", "night")
        fleet.variables["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"] = f"{receiver.url}/v1/metrics"
        worker = fleet.worker("--slots", "2")
        fleet.until_state("first", "done")
        fleet.until_state("second", "parked")
        worker.terminate()
        assert worker.wait(120) == 0
        assert {
            state: point.as_int for state, point in by_state(receiver, names.QUEUE_TASKS).items()
        } == {"done": 1, "parked": 1, "queued": 1}
        durations = by_state(receiver, names.TASK_DURATION)
        assert {state: point.count for state, point in durations.items()} == {
            "done": 1,
            "parked": 1,
        }
        ((told, waited),) = receiver.metrics[names.QUEUE_WAIT]
        assert (told, waited.count) == ({names.QUEUE: "default"}, 2)
        # What the tasks are is nobody's business.
        for secret in (b"echo first", b"second", str(fleet.base).encode()):
            assert not any(secret in body for body in receiver.bodies)


def test_a_collector_that_is_away_ends_no_worker(fleet: Fleet) -> None:
    add(fleet, "first", "echo first", "-y")
    fleet.variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
    worker = fleet.worker("--until-empty")
    assert worker.wait(240) == 0
    assert fleet.task("first").state == "done"
    assert "127.0.0.1" in fleet.log(0)
