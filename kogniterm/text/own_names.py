"""Replacing what names a user in a text that goes to others: home folder, login, host, git name.

Each is replaced by the same word wherever it stands, so that a path stays the same path in every
command and output.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class OwnNames:
    """The names of a user on a machine; an unknown one is empty or missing."""

    homes: tuple[str, ...] = ()
    logins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    full_names: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()


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
