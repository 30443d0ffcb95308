"""One command on many machines with sshd: the question, the answers, and what a kill leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_terminal import RealTerminal
from tests.support.ssh_hosts import SshHosts, asking_sudo, ssh_hosts, vault
from tests.support.typing_user import (
    anew,
    answer,
    holding,
    open_prompt,
    put,
    result_of,
    say,
    screen,
    scripted,
)
from tests.terminal.conftest import OpenTerminal


@pytest.fixture
def hosts(place: Path) -> Iterator[SshHosts]:
    with ssh_hosts(place / "hosts") as started:
        yield started


def model(terminal: RealTerminal, *calls: dict[str, Any]) -> str:
    """Return a scripted model that makes these calls, one a reply."""
    made = [{"calls": [{"tool": "run_on_hosts", "arguments": one}]} for one in calls]
    return scripted(terminal, json.dumps({"replies": [*made, {"text": "All done."}]}))


def call(command: str, *hosts: str) -> dict[str, Any]:
    return {"command": command, "hosts": list(hosts or ("all",)), "purpose": "For the test."}


def test_what_reads_runs_at_once_and_dangerous_commands_take_the_number_of_hosts(
    open_terminal: OpenTerminal, hosts: SshHosts
) -> None:
    terminal = open_terminal(columns=120, rows=50)
    for host in ("h0", "h1", "h2", "h3"):
        (hosts.home(host) / "old").mkdir()
    (hosts.home("h2") / "conf").write_text("debug=1\x1b]0;owned\x07\n")
    look = call("cat ~/conf 2>/dev/null; echo port=80")
    delete = call("rm -rf ~/old", "web", "h2")
    run = f"kogniterm hosts run --inventory {hosts.inventory} --allow-reads"
    terminal.start(f"{run} --model {model(terminal, look, delete)} 'tidy up'")
    terminal.until("3 = approve")
    shown = screen(terminal)
    # Equal answers are shown once, and what differs as a difference.
    assert "answered, exit 0: h0, h1, h3" in shown
    assert "debug=1" in shown, shown
    assert "not reachable: dead" in shown
    assert "owned" not in terminal.text
    assert "Run this on 3 hosts?" in shown
    assert "First: h0" in shown
    assert "Then: h2" in shown
    assert "dangerous" in shown
    assert "this session" not in shown
    for wrong in ("y", "yes", "4"):
        terminal.look()
        with anew(terminal, "Your decision"):
            terminal.send(f"{wrong}\r")
    assert "Type the number of hosts (3) to run it." in terminal.text
    assert (hosts.home("h0") / "old").exists()
    terminal.look()
    terminal.send("3\r")
    assert terminal.status() == 0
    assert "All done." in terminal.text
    left = [host for host in ("h0", "h1", "h2", "h3") if (hosts.home(host) / "old").exists()]
    assert left == ["h3"]
    assert not any(hosts.jobs(host) for host in left)


def test_after_a_kill_in_the_middle_the_hosts_tell_what_they_did(
    open_terminal: OpenTerminal, hosts: SshHosts
) -> None:
    terminal = open_terminal(columns=120, rows=50)
    # The fourth host is asked last; h1 waits until the test lets it go on.
    command = (
        "echo x >> ~/begun; [ $KOGNITERM_TEST_HOST != h1 ] || "
        "while ! [ -e ~/go ]; do sleep 0.1; done; echo same"
    )
    settings = f"KOGNITERM_HOSTS_INVENTORY={hosts.inventory}"
    chosen = model(terminal, call(command, "h0", "h1", "h2", "h3"))
    open_prompt(terminal, f"{settings} bash -c 'echo $$ > pid; exec kogniterm --model {chosen}'")
    say(terminal, "do it", then="Run this on 4 hosts?")
    answer(terminal, "First: h0", "y")
    begun = hosts.home("h1") / "begun"
    terminal.until(begun.exists)
    other = open_terminal()
    other.run("kill -9 $(cat pid)")
    terminal.until("Killed")
    terminal.run("stty sane")
    put(hosts.home("h1"), "go", "")
    told = "replies: [{when: {any_contains: exit 0 on 2 hosts}, text: They told me.}]"
    resume = f"kogniterm run --resume last --model {scripted(terminal, told)} --output json"
    status, shown = terminal.run(f"{resume} < /dev/null > out.json")
    assert status == 0, shown + (terminal.folder / "out.json").read_text()
    result = result_of(terminal.folder / "out.json")
    assert result["answer"] == "They told me."
    (action,) = result["actions"]
    states = {host: group["state"] for group in action["hosts"] for host in group["hosts"]}
    assert states == {"h0": "answered", "h1": "answered", "h2": "not_started", "h3": "not_started"}
    assert begun.read_text() == "x\n"
    assert not (hosts.home("h2") / "begun").exists()


def test_ctrl_c_ends_the_command_on_the_hosts(open_terminal: OpenTerminal, hosts: SshHosts) -> None:
    terminal = open_terminal(columns=120, rows=50)
    command = "echo $$ > ~/pid; [ $KOGNITERM_TEST_HOST != h1 ] || sleep 1000; echo same"
    chosen = model(terminal, call(command, "h0", "h1", "h2"))
    open_prompt(terminal, f"KOGNITERM_HOSTS_INVENTORY={hosts.inventory} kogniterm --model {chosen}")
    say(terminal, "do it", then="Run this on 3 hosts?")
    answer(terminal, "First: h0", "y")
    mark = hosts.home("h1") / "pid"
    terminal.until(lambda: mark.exists() and mark.read_text().endswith("\n"))
    with anew(terminal, "it was stopped"):
        terminal.send("\x03")
    assert "Ending the command on h1" in terminal.text
    shown = screen(terminal)
    assert "answered, exit 0: h0" in shown, shown
    assert "not started: h2" in shown, shown
    assert not Path(f"/proc/{mark.read_text().strip()}").exists()
    assert not any(hosts.jobs(host) for host in ("h0", "h1", "h2"))


def test_changes_of_files_are_shown_before_and_after_by_group(
    open_terminal: OpenTerminal, hosts: SshHosts
) -> None:
    terminal = open_terminal(columns=120, rows=60)
    for host in ("h0", "h1", "h2", "h3"):
        port = 80 if host != "h3" else 81
        (hosts.home(host) / "conf").write_text(f"port={port}\n")
        (hosts.home(host) / ".netrc").write_text("password hunter2\n")
    change = call("sed -i 's/=8./=443/' ~/conf; sed -i s/p/q/ ~/.netrc", "h0", "h1", "h2", "h3")
    told = {"when": {"any_contains": "-port=81"}, "text": "Two kinds of hosts."}
    replies = [{"calls": [{"tool": "run_on_hosts", "arguments": change}]}, told]
    chosen = scripted(terminal, json.dumps({"replies": replies}))
    terminal.start(f"kogniterm hosts run --inventory {hosts.inventory} --model {chosen} 'change'")
    terminal.until("Your decision")
    terminal.look()
    terminal.send("4\r")
    assert terminal.status() == 0
    shown = screen(terminal)
    assert "answered, exit 0: h0, h1, h2" in shown
    assert "Two kinds of hosts." in shown
    for line in ("port=80", "port=81", "port=443"):
        assert line in shown
    # A file with secrets is not read for it.
    assert "hunter2" not in terminal.text
    assert not any(hosts.jobs(host) for host in ("h0", "h1", "h2", "h3"))


def test_passwords_of_hosts_and_vaults_are_typed_and_in_no_file(
    open_terminal: OpenTerminal, hosts: SshHosts
) -> None:
    terminal = open_terminal(columns=120, rows=50)
    sudo = asking_sudo(hosts.folder / "sudo", "become-secret")
    (hosts.folder / "group_vars").mkdir()
    variables = json.dumps({"ansible_become_exe": str(sudo)})
    vault(variables, "vault-secret", hosts.folder / "group_vars" / "web.yml")
    terminal.run(f"export ANSIBLE_BECOME_ALLOW_SAME_USER=True INVENTORY={hosts.inventory}")
    asked = {**call('echo "I am $BECAME"', "web"), "become": True}
    run = "kogniterm hosts run --inventory $INVENTORY --limit web --ask-become-pass"
    terminal.start(f"{run} --ask-vault-pass --model {model(terminal, asked)} 'who are you'")
    terminal.until("Password to become another user:")
    terminal.send("become-secret\r")
    terminal.until("Password of the vault:")
    terminal.send("vault-secret\r")
    terminal.until("Your decision")
    terminal.look()
    terminal.send("y\r")
    assert terminal.status() == 0
    assert "I am root" in screen(terminal)
    for secret in ("become-secret", "vault-secret"):
        assert secret not in terminal.text
        assert holding(terminal.home, secret.encode()) == []
