"""Commands on real sshd programs: groups, lost connections, killed controllers, odd hosts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm.addons.hosts.ansible_hosts import MAX_OUTPUT, AnsibleHosts
from kogniterm.addons.hosts.answer_groups import group_answers
from kogniterm.addons.hosts.host_values import HostRequest, HostSecrets, Inventory
from kogniterm.errors import UsageError
from kogniterm.host.processes import descendants
from kogniterm.types.command_results import HostAnswer
from tests.support.executing import alive
from tests.support.forge import until
from tests.support.ssh_hosts import DEAD, NAMES, SshHosts, asking_sudo, ssh_hosts, vault


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("ssh") / "hosts") as started:
        yield started


@pytest.fixture
def inventory(hosts: SshHosts) -> Inventory:
    return Inventory((str(hosts.inventory),), str(hosts.folder))


def asked(
    name: str, command: str, inventory: Inventory, *groups: tuple[str, ...], timeout: int = 120
) -> HostRequest:
    return HostRequest(name, command, inventory, groups or (NAMES,), timeout)


async def answers(runner: AnsibleHosts, request: HostRequest) -> dict[str, HostAnswer]:
    return {answer.host: answer async for answer in runner.run(request)}


def leftovers() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("kogniterm-hosts-*"))


async def test_groups_follow_one_another_until_one_differs(
    hosts: SshHosts, inventory: Inventory
) -> None:
    runner = AnsibleHosts()
    found = await runner.resolve(inventory)
    assert found == (*NAMES, DEAD)
    assert await runner.resolve(inventory, "database:!h3") == ("h2", DEAD)

    # What Ansible and shells would change stays as it is.
    (hosts.home("h2") / "debug").touch()
    command = (
        "echo '{{ port }}' '$HOME' ~root \"é😀\"; echo problem >&2; "
        'test -e "$HOME/debug" && echo debug=1; exit 0'
    )
    groups = (("h0", DEAD), ("h1", "h2"), ("h3",))
    request = asked("differs", command, inventory, *groups)
    said = await answers(runner, request)
    assert {host: answer.state for host, answer in said.items()} == {
        "h0": "answered", DEAD: "unreachable", "h1": "answered", "h2": "answered",
        "h3": "not_started",
    }  # fmt: skip
    assert said["h0"].output == f"{{{{ port }}}} $HOME {Path('~root').expanduser()} é😀\nproblem"
    assert "refused" in str(said[DEAD].reason)
    largest, odd, *_ = group_answers(said.values())
    assert (largest.hosts, odd.hosts) == (("h0", "h1"), ("h2",))
    assert "+debug=1" in odd.diff

    assert hosts.jobs("h3") == []
    (kept,) = hosts.jobs("h0")
    assert kept.name == "kogniterm-differs"
    assert kept.stat().st_mode & 0o777 == 0o700
    again = await runner.find(request)
    assert {answer.host: answer.output for answer in again if answer.output} == {
        host: answer.output for host, answer in said.items() if answer.output
    }
    assert {a.host: a.state for a in again} == {
        "h0": "answered", DEAD: "unknown", "h1": "answered", "h2": "answered", "h3": "not_started",
    }  # fmt: skip
    await runner.discard(request)
    assert [hosts.jobs(host) for host in NAMES] == [[], [], [], []]
    assert leftovers() == []


_KILLED = """
import asyncio, json, sys
from kogniterm.addons.hosts.ansible_hosts import AnsibleHosts
from kogniterm.addons.hosts.host_values import HostRequest, Inventory
name, command, source, folder = sys.argv[1:]
hosts = ("h0", "h1", "h2", "h3", "dead")
request = HostRequest(name, command, Inventory((source,), folder), (hosts,), 120)
async def main():
    async for answer in AnsibleHosts().run(request):
        print(answer.host, flush=True)
asyncio.run(main())
"""


def started(*words: str) -> subprocess.Popen[bytes]:
    """Start a request from a process of its own that can be killed."""
    return subprocess.Popen(
        [sys.executable, "-c", _KILLED, *words],
        cwd=Path(__file__).parents[3],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )


async def test_after_kill_9_every_host_tells_what_it_did(
    hosts: SshHosts, inventory: Inventory
) -> None:
    go = hosts.folder / "go"
    command = (
        f'echo ran >>"$HOME/ran"; until test -e {go}; do sleep 0.1; done; '
        'echo "done on $KOGNITERM_TEST_HOST"; test $KOGNITERM_TEST_HOST != h1'
    )
    request = asked("killed", command, inventory, (*NAMES, DEAD))
    words = ["killed", command, *inventory.sources, inventory.folder]
    child = started(*words)
    ran = [hosts.home(host) / "ran" for host in NAMES]
    until(lambda: all(file.exists() for file in ran))
    assert len(leftovers()) == 1
    controllers = [state.pid for state in descendants(child.pid)]
    assert controllers
    child.kill()
    child.wait()
    until(lambda: not any(alive(pid) for pid in controllers))

    runner = AnsibleHosts()
    before = await runner.find(request)
    assert {a.host: a.state for a in before} == {**dict.fromkeys(NAMES, "running"), DEAD: "unknown"}
    assert leftovers() == []
    go.touch()
    after = {answer.host: answer for answer in await runner.find(request, wait=60)}
    assert {host: after[host].exit_code for host in NAMES} == {"h0": 0, "h1": 1, "h2": 0, "h3": 0}
    assert after["h1"].state == "failed"
    assert after["h3"].output == "done on h3"
    assert [file.read_text() for file in ran] == ["ran\n"] * 4
    await runner.discard(request)


async def test_a_lost_connection_does_not_lose_the_outcome(
    hosts: SshHosts, inventory: Inventory
) -> None:
    go = hosts.folder / "reconnected"
    command = f'echo >>"$HOME/waits"; until test -e {go}; do sleep 0.1; done; echo made it'
    request = asked("lost", command, inventory, ("h0", "h1"))
    running = asyncio.create_task(answers(AnsibleHosts(), request))
    places = [hosts.home(host) / "waits" for host in ("h0", "h1")]
    await asyncio.to_thread(until, lambda: all(place.exists() for place in places))
    await asyncio.to_thread(hosts.stop, "h1")
    await asyncio.to_thread(hosts.start, "h1")
    go.touch()
    said = await running
    assert {host: answer.output for host, answer in said.items()} == {
        "h0": "made it", "h1": "made it",
    }  # fmt: skip
    assert places[1].read_text() == "\n"


async def test_stop_ends_what_runs_and_bars_what_has_not_begun(
    hosts: SshHosts, inventory: Inventory
) -> None:
    runner = AnsibleHosts()
    endless = 'echo $$ >"$HOME/pid"; sleep 1000; echo never'
    request = asked("endless", endless, inventory, ("h0",), ("h1",))
    running = asyncio.create_task(answers(runner, request))
    mark = hosts.home("h0") / "pid"
    await asyncio.to_thread(until, lambda: mark.exists() and mark.read_text().endswith("\n"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert leftovers() == []
    pid = int(mark.read_text())
    assert alive(pid)
    stopped, never = await runner.stop(request)
    assert (stopped.state, str(stopped.reason)) == ("failed", "it was stopped")
    assert not alive(pid)
    assert never.state == "not_started"
    # A start that was on its way to the host when everything was lost comes too late.
    late = await answers(runner, asked("endless", "touch $HOME/late", inventory, ("h1",)))
    assert late["h1"].state == "failed"
    assert not (hosts.home("h1") / "late").exists()


async def test_a_command_ends_at_its_limit(inventory: Inventory) -> None:
    request = asked("slow", "sleep 1000", inventory, ("h3",), timeout=1)
    said = await answers(AnsibleHosts(), request)
    assert said["h3"].state == "failed"
    assert str(said["h3"].reason) == "it ran longer than 1 s"


async def test_output_is_bounded_redacted_and_harmless(inventory: Inventory) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    command = (
        "yes 'much of it' | head -c 3000000; "
        "printf '\\033]0;title\\007\\033[31mred\\033[0m\\r\\n'; "
        f"echo token={secret}; sh -c 'exit 7'"
    )
    said = await answers(AnsibleHosts(), asked("much", command, inventory, ("h2",)))
    answer = said["h2"]
    assert (answer.exit_code, answer.clipped) == (7, True)
    assert len(answer.output) < MAX_OUTPUT + 200
    assert "left out" in answer.output
    assert "\x1b" not in answer.output
    assert "red" in answer.output.splitlines()[-2]
    assert "title" not in answer.output
    assert secret[:12] not in answer.output


async def test_hosts_that_cannot_work_say_why(hosts: SshHosts) -> None:
    """A host without Python, and one whose key is not known: checking stays as SSH has it."""
    strange = "-F /dev/null -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes"
    odd = hosts.folder / "odd.ini"
    odd.write_text(
        hosts.line("h0", ansible_python_interpreter="/nonexistent/python3").replace(
            "h0 ", "bare ", 1
        )
        + "\n"
        + hosts.line("h1", ansible_ssh_common_args=f"'{strange}'").replace("h1 ", "stranger ", 1)
        + "\n"
    )
    inventory = Inventory((str(odd),), str(hosts.folder))
    runner = AnsibleHosts()
    said = await answers(runner, asked("odd", "true", inventory, ("bare", "stranger")))
    assert {host: answer.state for host, answer in said.items()} == {
        "bare": "failed", "stranger": "unreachable",
    }  # fmt: skip
    assert "no Python" in str(said["bare"].reason)
    assert "key verification failed" in str(said["stranger"].reason)


async def test_vaults_passwords_and_settings_of_ansible_count(hosts: SshHosts) -> None:
    place = hosts.folder / "project"
    (place / "inventory" / "group_vars").mkdir(parents=True)
    (place / "inventory" / "hosts.ini").write_text(
        f"[web]\n{hosts.line('h0')}\n{hosts.line('h1')}\n"
    )
    asking = asking_sudo(place / "sudo", "become secret")
    (place / "password").write_text("vault secret\n")
    (place / "ansible.cfg").write_text(
        "[defaults]\ninventory = inventory\n"
        # Who runs the tests may be root already, whom Ansible would make nobody else.
        "[privilege_escalation]\nbecome_allow_same_user = True\n"
    )
    variables = json.dumps({"ansible_become_exe": str(asking)})
    variables_file = place / "inventory" / "group_vars" / "web.yml"
    await asyncio.to_thread(vault, variables, "vault secret", variables_file)

    typed = AnsibleHosts(secrets=HostSecrets("become secret", "vault secret"))
    configured = Inventory((), str(place))
    assert await typed.resolve(configured) == ("h0", "h1")
    request = HostRequest("became", 'echo "$BECAME"', configured, (("h0",),), 60, become=True)
    said = await answers(typed, request)
    assert (said["h0"].state, said["h0"].output) == ("answered", "root")
    await typed.discard(request)

    with_file = Inventory((), str(place), (str(place / "password"),))
    assert await AnsibleHosts().resolve(with_file, "h1") == ("h1",)
    with pytest.raises(UsageError, match="vault"):
        await AnsibleHosts(secrets=HostSecrets(vault="wrong")).resolve(configured)
    kept = [path for path in hosts.folder.rglob("*") if path.is_file() and path.name != "sudo"]
    assert not any(b"become secret" in path.read_bytes() for path in kept)


@pytest.mark.parametrize(
    ("source", "limit", "complaint"),
    [
        ("/nonexistent/hosts", "", "no inventory"),
        ("web1", "", "commas"),
        ("broken.yml", "", "refused to start"),
        ("127.0.0.1,", "elsewhere", "no hosts|match"),
    ],
)
async def test_a_wrong_inventory_is_one_sentence(
    hosts: SshHosts, source: str, limit: str, complaint: str
) -> None:
    (hosts.folder / "broken.yml").write_text("all: [unclosed\n")
    if source == "broken.yml":
        source = str(hosts.folder / source)
    with pytest.raises(UsageError, match=complaint) as caught:
        await AnsibleHosts().resolve(Inventory((source,), str(hosts.folder)), limit)
    assert "\n" not in str(caught.value)


def test_signals_of_the_terminal_do_not_reach_the_controller(hosts: SshHosts) -> None:
    """Ctrl-C is KogniTerm's to answer; the controller has a process group of its own."""
    go = hosts.folder / "interrupted"
    words = ["ctrl-c", f"until test -e {go}; do sleep 0.1; done", str(hosts.inventory)]
    child = started(*words, str(hosts.folder))
    until(lambda: len(descendants(child.pid)) > 2)
    groups = {os.getpgid(state.pid) for state in descendants(child.pid)}
    assert child.pid not in groups
    child.send_signal(signal.SIGINT)
    child.wait()
    assert leftovers() == []
    go.touch()


async def test_each_host_shows_what_became_of_the_files(
    hosts: SshHosts, inventory: Inventory
) -> None:
    for host in ("h0", "h1", "h2"):
        home = hosts.home(host)
        (home / "conf").write_text("one\ntwo\n" if host != "h2" else "two\n")
        (home / "gone").write_text("old\n")
        (home / "big").write_bytes(b"x" * 200_000)
        (home / "same").write_text("same\n")
        (home / "it's here").mkdir()
    command = (
        'sed -i s/two/2/ ~/conf; rm ~/gone; echo new > "$HOME/it\'s here/new"; '
        "echo more >> ~/big; echo done"
    )
    files = ("~/conf", "~/gone", "~/it's here/new", "~/big", "~/same", "~/it's here", "~/none")
    request = HostRequest("files", command, inventory, (("h0", "h1", "h2"),), 60, files=files)
    runner = AnsibleHosts()
    found = await answers(runner, request)
    assert {answer.output.strip() for answer in found.values()} == {"done"}
    alike = found["h0"].changes.splitlines()
    assert found["h1"].changes.splitlines() == alike
    assert [line for line in alike if not line.startswith("@@")] == [
        "--- ~/conf", "+++ ~/conf", " one", "-two", "+2",
        "--- ~/gone", "+++ ~/gone", "-old",
        "--- ~/it's here/new", "+++ ~/it's here/new", "+new",
    ]  # fmt: skip
    (both, other) = group_answers(found.values())
    assert (sorted(both.hosts), other.hosts) == (["h0", "h1"], ("h2",))
    assert "-two" in other.changes
    await runner.discard(request)
    kept = [job.name for host in ("h0", "h1", "h2") for job in hosts.jobs(host)]
    assert "kogniterm-files" not in kept


async def test_output_that_looks_like_changes_is_output(
    hosts: SshHosts, inventory: Inventory
) -> None:
    mark = "kogniterm-changes-looks:"
    command = f"echo before; echo {mark}; echo '-no change'"
    runner = AnsibleHosts()
    request = HostRequest("looks", command, inventory, (("h0",),), 60, files=("~/none",))
    said = (await answers(runner, request))["h0"]
    assert (said.output.split(), said.changes) == (["before", mark, "-no", "change"], "")
    await runner.discard(request)
