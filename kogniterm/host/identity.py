"""The user, the machine and the process that KogniTerm runs for, and texts that must not name them.

Each name is replaced by the same word wherever it stands, so that a path stays the same path in
every command and output.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kogniterm.host.processes import start_of, this_boot

HOME = "/home/user"
LOGIN = "user"
HOST = "host"
FULL_NAME = "User Name"
EMAIL = "user@example.com"
SHORTEST = 3
"""Shorter names are not replaced: they are parts of too many other words."""
_GENERAL = frozenset({
    "root", "user", "admin", "administrator", "guest", "test", "dev", "developer", "home", "host",
    "localhost", "ubuntu", "debian", "fedora", "arch", "vagrant", "docker", "runner", "build",
    "git", "data", "app", "work", "node", "python", "unknown", "default", "local",
})  # fmt: skip
"""Names that tell nothing about a user, and stand in texts with another meaning."""


def account_name() -> str:
    """Return the user's account on this machine, the name under which a database keeps their data.

    An account without a name, as in containers that run under any number, gives its number.
    """
    return name_of(os.getuid())


def name_of(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


class OwnNames(NamedTuple):
    """The names of a user on a machine; an unknown one is empty or missing."""

    homes: tuple[str, ...] = ()
    logins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    full_names: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()


def own_names() -> OwnNames:
    """Return the names of this process's user on this machine."""
    from kogniterm.settings import environment  # its only reader

    variables = environment()
    homes, logins, full = {variables.get("HOME", "")}, {variables.get("USER", "")}, ""
    logins.add(variables.get("LOGNAME", ""))
    try:
        account = pwd.getpwuid(os.getuid())
    except KeyError:
        pass  # a user without an account, as in a container
    else:
        homes.add(account.pw_dir)
        logins.add(account.pw_name)
        full = account.pw_gecos.partition(",")[0].strip()
    homes |= {str(Path(home).resolve()) for home in homes if home}
    logins |= {Path(home).name for home in homes if Path(home).parent.name in ("home", "Users")}
    host = socket.gethostname()
    return OwnNames(
        _known(homes),
        _known(logins),
        _known({host, host.partition(".")[0]}),
        _known({full, _of_git("user.name")}),
        _known({_of_git("user.email")}),
    )


def _known(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names - {"", "/"}))


def _of_git(setting: str) -> str:
    """Return a setting of git for all of the user's repositories; "" where there is none."""
    from kogniterm.host.safe_git import host_git

    try:
        found = host_git("/", "config", "--global", "--get", setting)
    except TimeoutError:
        return ""
    return (found or b"").decode("utf-8", "replace").strip()


def without_names(names: OwnNames) -> Callable[[str], str]:
    """Return what replaces `names` in a text. Part of a longer word is no name."""
    replaced: dict[str, str] = {}
    for home in names.homes:
        if len(home) > SHORTEST and home.startswith("/"):
            replaced[home.rstrip("/")] = HOME
    for found, word in (
        (names.emails, EMAIL),
        (names.full_names, FULL_NAME),
        (names.hosts, HOST),
        (names.logins, LOGIN),
    ):
        for name in [
            name for name in found if len(name) >= SHORTEST and name.lower() not in _GENERAL
        ]:
            replaced.setdefault(name, word)
    if not replaced:
        return lambda text: text
    longest_first = sorted(replaced, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])")
    return lambda text: pattern.sub(lambda match: replaced[match[0]], text)


class Holder(NamedTuple):
    """One process on one machine. `boot` names the boot and the process-number space."""

    host: str
    boot: str
    pid: int
    started: str

    @property
    def machine_boot(self) -> str:
        """The boot alone, without the process-number space."""
        return self.boot.partition("/")[0]

    @property
    def lives_here(self) -> bool:
        """True while the process lives, if it is of this process-number space."""
        return start_of(self.pid) == self.started

    def is_gone(self, me: Holder, *, expired: bool) -> bool:
        """Return whether it can no longer write, as far as `me` can tell.

        The same process-number space: ask the system. The same machine after a restart: gone. The
        same boot in another container, or another machine: only when it has been silent.
        """
        if (self.host, self.boot) == (me.host, me.boot):
            return not self.lives_here
        return expired or (self.host == me.host and self.machine_boot != me.machine_boot)


def this_process() -> Holder:
    pid = os.getpid()
    return Holder(socket.gethostname(), this_boot(), pid, start_of(pid) or "unknown")
