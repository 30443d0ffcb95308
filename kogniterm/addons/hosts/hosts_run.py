"""`kogniterm hosts run`: one task for many machines, with the options of `kogniterm run`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kogniterm.addons.hosts.host_passwords import (
    ASK_BECOME,
    VAULTS,
    PasswordOptions,
    secrets_of,
    vault_files,
)
from kogniterm.cli.options import HOSTS, TASK, CallOptions, RunRequest
from kogniterm.cli.run import (
    OUTPUT,
    PARK,
    PLAN_ONLY,
    SESSION_ID,
    RunFront,
    Sink,
    do_task,
    with_front,
)
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import UsageError
from kogniterm.runtime.operations.action import Action, Argument

if TYPE_CHECKING:
    from kogniterm.addons.hosts.host_values import HostSecrets
    from kogniterm.runtime.session import LiveSession
    from kogniterm.types import UserInput


def _run(
    call: CallOptions,
    ask_become_pass: bool,
    ask_vault_pass: bool,
    vault_password_file: str | None,
    **given: Any,
) -> int:
    request = RunRequest(call, **given)
    asked = PasswordOptions(ask_vault_pass, vault_password_file, ask_become_pass)
    return with_front(request, partial(_do, request, asked))


def _do(request: RunRequest, asked: PasswordOptions, front: RunFront, sink: Sink) -> int:
    """Find the hosts, then do the task; a wrong inventory leaves no session behind."""
    files = vault_files(asked, request.call.folder())
    secrets = asyncio.run(secrets_of(asked))
    hosts = asyncio.run(_hosts(request.call, secrets, files))
    passwords = partial(_give_passwords, secrets, files)
    return do_task(request, front, sink, partial(_with_hosts, hosts), passwords)


async def _hosts(
    call: CallOptions, secrets: HostSecrets, vault_files: tuple[str, ...]
) -> tuple[str, ...]:
    from kogniterm.addons.hosts.ansible_hosts import AnsibleHosts
    from kogniterm.addons.hosts.host_inventory import session_inventory

    known = call.load_settings()
    if known.hosts_inventory is None:
        raise UsageError("Name the hosts with --inventory, a file or names with commas.")
    trust = paths_in_use().trust_file
    inventory = session_inventory(known.hosts_inventory, call.folder(), trust)
    inventory = replace(inventory, vault_files=vault_files)
    return await AnsibleHosts(secrets=secrets).resolve(inventory, known.hosts_limit)


def _give_passwords(
    secrets: HostSecrets, vault_files: tuple[str, ...], session: LiveSession
) -> None:
    from kogniterm.addons.hosts.host_commands import HostCommands

    for one in session.extensions.port.extensions:
        if isinstance(one, HostCommands):
            one.give_passwords(secrets, vault_files)


def _with_hosts(hosts: tuple[str, ...], user_input: UserInput) -> UserInput:
    """Return the task with its hosts; the user typed it without."""
    from kogniterm import prompts

    told = prompts.text("hosts.task", hosts=", ".join(hosts))
    return replace(
        user_input, text=f"{user_input.text}\n\n{told}", line=user_input.line or user_input.text
    )


RUN = Action(
    "run",
    "Do one task on many machines and exit",
    _run,
    (
        Argument(TASK, "What to do", "TASK", nargs="*"),
        *HOSTS,
        ASK_BECOME,
        *VAULTS,
        OUTPUT,
        SESSION_ID,
        PARK,
        PLAN_ONLY,
    ),
    (
        'kogniterm hosts run "which of them need a restart?" --inventory hosts.ini',
        'kogniterm hosts run "set the clock to UTC" --inventory web1,web2',
    ),
    session_options=True,
)
