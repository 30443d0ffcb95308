"""The user and the machine that KogniTerm runs for, for texts that must not name them."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kogniterm.text.own_names import OwnNames


def account_name() -> str:
    """Return the user's account on this machine, the name under which a database keeps their data.

    An account without a name, as in containers that run under any number, gives its number.
    """
    return name_of(os.getuid())


def name_of(number: int) -> str:
    """Return the name of the account with this number, or the number where there is none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def own_names() -> OwnNames:
    """Return the names of this process's user on this machine."""
    import socket

    from kogniterm.settings import environment  # its only reader
    from kogniterm.text.own_names import OwnNames

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
