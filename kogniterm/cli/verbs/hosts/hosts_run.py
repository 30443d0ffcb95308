"""`kogniterm hosts run`: one task for many machines, with the options of `kogniterm run`."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kogniterm.cli.options import HOSTS, TASK, Action, Argument, folder_of, settings_of
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
from kogniterm.cli.verbs.hosts.host_passwords import (
    ASK_BECOME,
    VAULTS,
    secrets_of,
    vault_files_of,
)
from kogniterm.errors import UsageError

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession
    from kogniterm.types import UserInput
    from kogniterm.types.hosts import HostSecrets


def _run(args: argparse.Namespace) -> int:
    return with_front(args, partial(_do, args))


def _do(args: argparse.Namespace, front: RunFront, sink: Sink) -> int:
    """Find the hosts, then do the task; a wrong inventory leaves no session behind."""
    secrets = asyncio.run(secrets_of(args))
    hosts = asyncio.run(_hosts(args, secrets))
    passwords = partial(_give_passwords, secrets, vault_files_of(args))
    return do_task(args, front, sink, partial(_with_hosts, hosts), passwords)


async def _hosts(args: argparse.Namespace, secrets: HostSecrets) -> tuple[str, ...]:
    from kogniterm.execution.hosts.ansible_hosts import AnsibleHosts
    from kogniterm.runtime.services.host_commands import session_inventory

    known = settings_of(args)
    if known.hosts_inventory is None:
        raise UsageError("Name the hosts with --inventory, a file or names with commas.")
    trust = paths_in_use().trust_file
    inventory = session_inventory(known.hosts_inventory, folder_of(args), trust)
    inventory = replace(inventory, vault_files=vault_files_of(args))
    return await AnsibleHosts(secrets=secrets).resolve(inventory, known.hosts_limit)


def _give_passwords(
    secrets: HostSecrets, vault_files: tuple[str, ...], session: LiveSession
) -> None:
    hosts = session.services.runner.hosts
    if hosts is not None:
        hosts.give_passwords(secrets, vault_files)


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
