"""Warm sessions in the control groups of their calls: a desktop puts each window into one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.forge import until
from tests.support.warm import ANCESTORS, KOGNITERM, end, runtime_folder, until_found, variables

ROOT = Path("/sys/fs/cgroup")
MANAGER = f"user@{os.getuid()}.service"
NOTED = f"cut -d: -f1,3 /proc/self/cgroup | grep ^0: >noted; {ANCESTORS} >>noted"
IN_GROUP = 'echo $$ >"$0/cgroup.procs" && exec "$@"'

Call = Callable[[str], "tuple[str, bool]"]


def mounted() -> str | None:
    """Return where the control groups of version 2 are mounted, if they are."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return before.split()[4]
    return None


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Call]:
    """Yield what makes a call in a group and tells the session's group, and if it was warm.

    All of it is in a mount namespace in which the groups are where a system without those of
    version 1 has them.
    """
    found = mounted()
    if os.geteuid() != 0 or found is None or not shutil.which("nsenter"):
        pytest.skip("making control groups needs root, util-linux and cgroup2")
    top = Path(found, f"kogniterm-test-{os.getpid()}")
    groups = [top / MANAGER / "one.scope", top / MANAGER / "two.scope", top / "other.scope"]
    try:
        for group in groups:
            group.mkdir(parents=True)
    except OSError:
        pytest.skip("control groups cannot be made here")
    runtime = runtime_folder(tmp_path)
    keep = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", f'mount --bind "$0" {ROOT} && echo ready && cat', found],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert keep.stdin is not None
    assert keep.stdout is not None
    try:
        if keep.stdout.readline() != b"ready\n":
            pytest.skip("mount namespaces cannot be made here")
        yield _caller(tmp_path, runtime, top.name, ["nsenter", "--mount", f"--target={keep.pid}"])
    finally:
        for lock in runtime.glob("kogniterm/*.lock"):
            end(int(lock.read_text()))
        keep.stdin.close()
        keep.wait()
        keep.stdout.close()
        for group in (*groups, top / MANAGER, top):
            until(lambda group=group: _removed(group))


def _removed(group: Path) -> bool:
    with suppress(OSError):  # its last process is not gone yet
        group.rmdir()
    return not group.exists()


def _caller(home: Path, runtime: Path, top: str, entering: Sequence[str]) -> Call:
    script = home / "script.json"
    script.write_text(json.dumps({"replies": [{"run": NOTED}, {"text": "Done."}]}))
    run = [KOGNITERM, "run", "-y", "--no-sandbox", "--model", f"scripted:{script}", "go"]

    def call(group: str) -> tuple[str, bool]:
        within = ["sh", "-c", IN_GROUP, str(ROOT / top / group)]
        subprocess.run(
            [*entering, f"--wd={home}", *within, *run],
            env=variables(home, runtime),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        first, *ancestors = (home / "noted").read_text().splitlines()
        return first.removeprefix(f"0:/{top}/"), any("warm_server" in one for one in ancestors)

    return call


def test_a_session_is_in_the_control_group_of_its_call(call: Call, tmp_path: Path) -> None:
    one, two = f"{MANAGER}/one.scope", f"{MANAGER}/two.scope"
    assert call(one) == (one, False)
    until_found(tmp_path / "run" / "kogniterm")
    # On a busy machine a call may not wait for the server, but its group is right even then.
    for group in (two, one, two):
        seen: list[tuple[str, bool]] = []
        until(lambda group=group, seen=seen: seen.append(call(group)) or seen[-1][1])
        assert {where for where, _warm in seen} == {group}


def test_a_call_outside_of_the_users_manager_starts_plain(call: Call, tmp_path: Path) -> None:
    call(f"{MANAGER}/one.scope")
    until_found(tmp_path / "run" / "kogniterm")
    assert call("other.scope") == ("other.scope", False)
