"""The few facts about a host that people compare, out of the many that Ansible gathers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kogniterm.text.redact import redact
from kogniterm.text.shorten import one_line
from kogniterm.types import Phrase
from kogniterm.types.hosts import HostFacts, HostState


@dataclass(frozen=True, slots=True)
class HostOverview:
    """A host in a few facts. Sizes are in bytes, `uptime` in seconds; None is not known.

    The disk is that of the root folder, else the largest.
    """

    host: str
    state: HostState
    reason: Phrase | None = None
    os: str = ""
    architecture: str = ""
    kernel: str = ""
    cpus: int | None = None
    memory: int | None = None
    memory_free: int | None = None
    disk: int | None = None
    disk_free: int | None = None
    uptime: int | None = None
    python: str = ""


def overview(facts: HostFacts) -> HostOverview:
    """Return the overview of one host's facts, which are foreign text."""
    values = facts.values
    disk = _disk(values)
    return HostOverview(
        facts.host,
        facts.state,
        facts.reason,
        os=_text(values, "distribution", "distribution_version") or _text(values, "system"),
        architecture=_text(values, "architecture"),
        kernel=_text(values, "kernel"),
        cpus=_number(values, "ansible_processor_vcpus"),
        memory=_number(values, "ansible_memtotal_mb", 1 << 20),
        memory_free=_free_memory(values),
        disk=_number(disk, "size_total"),
        disk_free=_number(disk, "size_available"),
        uptime=_number(values, "ansible_uptime_seconds"),
        python=_text(values, "python_version"),
    )


def _text(values: Mapping[str, Any], *names: str) -> str:
    found = (str(values.get(f"ansible_{name}") or "") for name in names)
    return one_line(redact(" ".join(one for one in found if one)), 80)


def _number(values: Mapping[str, Any], name: str, unit: int = 1) -> int | None:
    found = values.get(name)
    return found * unit if isinstance(found, int) and not isinstance(found, bool) else None


def _free_memory(values: Mapping[str, Any]) -> int | None:
    """Return what programs could use: memory that only caches hold is free."""
    memory = values.get("ansible_memory_mb")
    caches = memory.get("nocache") if isinstance(memory, dict) else None
    if isinstance(caches, dict) and (free := _number(caches, "free", 1 << 20)) is not None:
        return free
    return _number(values, "ansible_memfree_mb", 1 << 20)


def _disk(values: Mapping[str, Any]) -> Mapping[str, Any]:
    mounts = values.get("ansible_mounts")
    found = [one for one in mounts if isinstance(one, dict)] if isinstance(mounts, list) else []
    sized = [one for one in found if _number(one, "size_total")]
    root = next((one for one in sized if one.get("mount") == "/"), None)
    return root or max(sized, key=lambda one: int(one["size_total"]), default={})
