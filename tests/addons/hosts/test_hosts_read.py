"""`kogniterm hosts diff` with sshd: what a user sees, without any model."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm.text.visible import without_style
from tests.support.ssh_hosts import NAMES, SshHosts, ssh_hosts
from tests.support.typing_user import put
from tests.terminal.conftest import OpenTerminal, open_terminal, place

__all__ = ["open_terminal", "place"]


@pytest.fixture
def hosts(place: Path) -> Iterator[SshHosts]:
    with ssh_hosts(place / "hosts") as started:
        yield started


def test_one_command_compares_hosts(open_terminal: OpenTerminal, hosts: SshHosts) -> None:
    terminal = open_terminal(columns=80, rows=40)
    for host in NAMES:
        debug = "1" if host == "h2" else "0"
        put(hosts.home(host), "conf", f"port=80\ndebug={debug}\n\x1b]0;owned\x07")
    ask = f"kogniterm hosts diff --inventory {hosts.inventory}"
    status, shown = terminal.run(f"{ask} 'cat ~/conf'")
    assert status == 1
    assert "answered, exit 0: h0, h1, h3" in shown
    assert "answered, exit 0: h2" in shown
    assert "-debug=0" in shown.replace("- debug", "-debug")
    assert "not reachable: dead" in shown
    assert "owned" not in terminal.text
    assert [hosts.jobs(host) for host in NAMES] == [[], [], [], []]

    status, _ = terminal.run(f"{ask} --limit 'web:&h1' 'cat ~/conf' --output json > out.json")
    assert status == 0
    (group,) = json.loads((terminal.folder / "out.json").read_text())["groups"]
    assert (group["hosts"], group["state"], group["exit_code"]) == (["h1"], "answered", 0)
    assert group["output"].startswith("port=80\n")

    status, shown = terminal.run(f"{ask} 'touch ~/changed'")
    assert status == 3
    assert "usekognitermhostsrun" in "".join(shown.split())
    assert not (hosts.home("h0") / "changed").exists()
    assert "no inventory" in terminal.run("kogniterm hosts diff uptime --inventory web1")[1]


def test_answers_fit_a_narrow_terminal_and_a_vault_is_opened_by_a_hidden_password(
    open_terminal: OpenTerminal, hosts: SshHosts
) -> None:
    terminal = open_terminal(columns=40, rows=60)
    inventory = terminal.folder / "inventory"
    (inventory / "group_vars").mkdir(parents=True)
    lines = "\n".join(hosts.line(host) for host in ("h0", "h1"))
    put(inventory, "hosts.ini", f"[web]\n{lines}\n")
    put(terminal.folder, "word", "opens it\n")
    encrypt = [str(Path(sys.executable).with_name("ansible-vault")), "encrypt"]
    encrypt += ["--vault-password-file", str(terminal.folder / "word"), "--output"]
    secret = inventory / "group_vars" / "web.yml"
    subprocess.run([*encrypt, str(secret)], input=b"{}", capture_output=True, check=True)

    ask = "kogniterm hosts diff uname --inventory inventory"
    terminal.start(f"{ask} --ask-vault-pass")
    terminal.until("Password of the vault:")
    terminal.send("opens it\r")
    assert terminal.status() == 0
    assert "opens it" not in terminal.text
    shown = without_style(terminal.text)
    assert "answered, exit 0: h0, h1" in shown
    assert "Linux" in shown

    status, _ = terminal.run(f"{ask} --vault-password-file word | cat > out.txt")
    assert "\x1b" not in (terminal.folder / "out.txt").read_text()
    status, shown = terminal.run(f"{ask} < /dev/null")
    assert status == 2
    assert "vault" in shown.lower()

    put(terminal.folder, "ansible.cfg", "[defaults]\ninventory = inventory\n")
    status, shown = terminal.run("kogniterm hosts diff uname")
    assert status == 2
    assert "kognitermtrust" in "".join(shown.split())
