"""Hosts of a test: real sshd programs on 127.0.0.1, each with a home of its own, and a dead port.

They run as the user of the test, with keys of their own; the key that opens them, and the known
hosts, are files of the test, not of the user.
"""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.forge import until
from tests.support.programs import require

NAMES = ("h0", "h1", "h2", "h3")
DEAD = "dead"


@dataclass
class SshHosts:
    """Four hosts that answer and one that does not, as an inventory names them."""

    folder: Path
    inventory: Path
    ports: dict[str, int]
    servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def home(self, host: str) -> Path:
        """Return the home folder of a host."""
        return self.folder / host / "home"

    def jobs(self, host: str) -> list[Path]:
        """Return what a host keeps about requests."""
        kept = self.home(host) / ".ansible_async"
        return sorted(kept.iterdir()) if kept.is_dir() else []

    def line(self, host: str, **more: str) -> str:
        """Return the line of an inventory for a host."""
        options = (
            f"-F /dev/null -o UserKnownHostsFile={self.folder}/known_hosts -o IdentitiesOnly=yes"
        )
        values = {
            "ansible_host": "127.0.0.1",
            "ansible_port": str(self.ports[host]),
            "ansible_user": _user(),
            "ansible_ssh_private_key_file": f"{self.folder}/key",
            "ansible_ssh_common_args": f"'{options}'",
            "ansible_python_interpreter": sys.executable,
            **more,
        }
        return " ".join([host, *(f"{name}={value}" for name, value in values.items())])

    def stop(self, host: str) -> None:
        """End a host's sshd with its connections; what runs there goes on."""
        server = self.servers.pop(host)
        for child in _children(server.pid):
            with suppress(ProcessLookupError):
                os.kill(child, 9)
        server.kill()
        server.wait()

    def start(self, host: str) -> None:
        """Start a host's sshd, and wait until it answers."""
        log = self.folder / host / "log"
        with log.open("ab") as errors:
            self.servers[host] = subprocess.Popen(
                [_sshd(), "-D", "-e", "-f", str(self.folder / host / "sshd_config")],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )

        def answers() -> bool:
            assert self.servers[host].poll() is None, log.read_text()
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.ports[host]), 5):
                return True
            return False

        until(answers)


def asking_sudo(file: Path, password: str) -> Path:
    """Write a stand-in for sudo that asks for a password and sets `BECAME` for its command."""
    file.write_text(
        "#!/bin/sh\n"
        'while [ "$1" != -p ]; do shift; done\n'
        f'printf "%s" "$2" >&2; IFS= read -r word; [ "$word" = "{password}" ] || exit 1\n'
        'while [ "$1" != -u ]; do shift; done; shift 2\n'
        'export BECAME=root; exec "$@"\n'
    )
    file.chmod(0o755)
    return file


def vault(text: str, password: str, file: Path) -> None:
    """Write `text` to `file`, encrypted by Ansible's vault."""
    key = file.with_name("vault-password")
    key.write_text(f"{password}\n")
    program = str(Path(sys.executable).with_name("ansible-vault"))
    words = [program, "encrypt", "--vault-password-file", str(key), "--output", "-"]
    done = subprocess.run(words, input=text.encode(), capture_output=True, check=True)
    file.write_bytes(done.stdout)
    key.unlink()


@contextmanager
def ssh_hosts(folder: Path) -> Iterator[SshHosts]:
    """Start the hosts, whose files are in `folder`; skip the test where there is no sshd."""
    require("ssh", "sshd")
    pytest.importorskip("ansible_runner", reason="needs ansible-runner, not installed")
    if os.geteuid() == 0:
        # The folder that sshd locks unprivileged processes into; the service would make it.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ports = dict(zip((*NAMES, DEAD), _free_ports(len(NAMES) + 1), strict=True))
    hosts = SshHosts(folder, folder / "inventory.ini", ports)
    _make_key(folder / "key")
    with ExitStack() as ending:
        for host in NAMES:
            _prepare(hosts, host)
            hosts.start(host)
            ending.callback(lambda host=host: host in hosts.servers and hosts.stop(host))
        keys = [
            f"[127.0.0.1]:{port} {(folder / host / 'host_key.pub').read_text()}"
            for host, port in ports.items()
            if host != DEAD
        ]
        (folder / "known_hosts").write_text("".join(keys))
        web, database = NAMES[:2], (*NAMES[2:], DEAD)
        groups = [("web", web), ("database", database)]
        text = "".join(
            f"[{group}]\n" + "".join(f"{hosts.line(host)}\n" for host in members)
            for group, members in groups
        )
        hosts.inventory.write_text(text)
        yield hosts


def _prepare(hosts: SshHosts, host: str) -> None:
    place = hosts.folder / host
    hosts.home(host).mkdir(parents=True)
    _make_key(place / "host_key")
    (place / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{hosts.ports[host]}\n"
        f"HostKey {place}/host_key\n"
        f"AuthorizedKeysFile {hosts.folder}/key.pub\n"
        f"PidFile {place}/pid\n"
        f"SetEnv HOME={hosts.home(host)} KOGNITERM_TEST_HOST={host}\n"
        "PermitTTY no\n"
        "PermitRootLogin prohibit-password\n"
        "PasswordAuthentication no\n"
        "StrictModes no\n"
        "UsePAM no\n"
        "MaxStartups 100\n"
        "Subsystem sftp internal-sftp\n"
    )


def _make_key(path: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def _free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on, and that are not handed out to clients by chance."""
    with ExitStack() as held:
        ports = []
        for _ in range(count):
            one = held.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            ports.append(one.getsockname()[1])
    return ports


def _children(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are enough
        if name.isdigit():
            with suppress(OSError):
                stat = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
                if int(stat[1]) == pid:
                    found += [int(name), *_children(int(name))]
    return found


def _sshd() -> str:
    # It starts itself again for each connection, and demands an absolute path for that.
    return "/usr/sbin/sshd"


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name
