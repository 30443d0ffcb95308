"""The text that is judged, that of the intent's digest and the one that hosts run are equal."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kogniterm.addons.hosts.host_values import HostRequest, Inventory
from kogniterm.types import RUN_ON_HOSTS
from kogniterm.types.command_results import HostAnswer
from tests.addons.hosts.test_host_commands import hosts_of
from tests.flows.test_same_bytes import Heard, commands, heard, says, take

__all__ = ["heard"]


@dataclass
class Hosts:
    """Hosts that only note what they are to run. Implements `host_values.HostRunner`."""

    heard: Heard

    async def resolve(self, inventory: Inventory, limit: str = "") -> tuple[str, ...]:
        return ("h0", "h1")

    async def run(self, request: HostRequest) -> AsyncIterator[HostAnswer]:
        self.heard.ran.append(request.command)
        for host in request.hosts:
            yield HostAnswer(host, "answered", 0, "")

    async def find(self, request: HostRequest, hosts: object = (), *, wait: int = 0) -> tuple[()]:
        return ()

    async def discard(self, request: HostRequest, hosts: object = ()) -> None:
        return None


async def test_what_hosts_run_is_what_was_judged(heard: Heard, tmp_path: Path) -> None:
    pytest.importorskip("ansible_runner", reason="the tool is offered where Ansible is installed")
    hosts = hosts_of(heard.session)
    hosts.open_runner = lambda _secrets: Hosts(heard)
    made, free = commands(heard, 18, 40)
    calls = [{"command": one, "hosts": ["all"], "purpose": "Look."} for one in made]
    says(heard, tmp_path, *({"calls": [{"tool": RUN_ON_HOSTS, "arguments": one}]} for one in calls))
    await take(heard)
    assert heard.ran == free
    judged = {json.loads(text)[0]: text for text in heard.judged}
    assert set(free) <= set(judged)
    assert heard.intents() == [heard.session.journal.digest(judged[one]) for one in free]
