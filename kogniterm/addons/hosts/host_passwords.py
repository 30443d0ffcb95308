"""The passwords that Ansible needs for hosts and vaults: typed without an echo, in no file."""

from __future__ import annotations

import sys
from typing import NamedTuple

from kogniterm.addons.hosts.host_values import HostSecrets
from kogniterm.errors import TurnInterruptedError, UsageError
from kogniterm.runtime.operations.action import Argument
from kogniterm.storage.folders import expand_path
from kogniterm.ui.locale import _

ASK_BECOME = Argument("--ask-become-pass", "Ask for the password that this needs")
VAULTS = (
    Argument("--vault-password-file", "File or program with the password of vaults", "FILE"),
    Argument("--ask-vault-pass", "Ask for the password of vaults"),
)
"""Options for the vaults of an inventory, in the words of Ansible."""


class PasswordOptions(NamedTuple):
    """The passwords to ask for, and the file with that of the vaults."""

    ask_vault_pass: bool
    vault_password_file: str | None
    ask_become_pass: bool = False


async def secrets_of(asked: PasswordOptions) -> HostSecrets:
    """Ask for the passwords that the options announce.

    Raises `UsageError` without a terminal, and `TurnInterruptedError` for none.
    """
    question = _("Password to become another user: ")
    become = await _password(question) if asked.ask_become_pass else ""
    vault = await _password(_("Password of the vault: ")) if asked.ask_vault_pass else ""
    return HostSecrets(become, vault)


def vault_files(asked: PasswordOptions, folder: str) -> tuple[str, ...]:
    file = asked.vault_password_file
    return (str(expand_path(folder, file)),) if file else ()


async def _password(prompt: str) -> str:
    from kogniterm.ui.terminal.user_terminal import hidden_line

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "A password is typed at a terminal; without one, use --vault-password-file, or sudo "
            "without a password."
        )
    typed = await hidden_line(sys.stdin.fileno(), sys.stderr.fileno(), prompt)
    if not typed:
        raise TurnInterruptedError("No password was typed.")
    return typed
