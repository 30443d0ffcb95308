"""`kogniterm hosts`: a task on many machines, or a command that only reads, without a model."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from kogniterm.addons.hosts.answer_groups import group_answers
from kogniterm.addons.hosts.host_passwords import (
    ASK_BECOME,
    VAULTS,
    PasswordOptions,
    secrets_of,
    vault_files,
)
from kogniterm.addons.hosts.host_values import HostRequest, Inventory
from kogniterm.addons.hosts.hosts_run import RUN
from kogniterm.cli.options import HOSTS, CallOptions, Subparsers, add_actions
from kogniterm.cli.verb_helpers import paths_in_use, write_json
from kogniterm.errors import (
    EXIT_DONE,
    EXIT_NOT_DONE,
    RefusedError,
    UsageError,
)
from kogniterm.runtime.operations.action import Action, Argument
from kogniterm.settings import environment, quick
from kogniterm.types import Phrase
from kogniterm.types.command_results import AnswerGroup, HostAnswer
from kogniterm.ui.display import Display, write_drawn
from kogniterm.ui.locale import _, plural
from kogniterm.ui.screen.screen_preferences import from_quick

_LINES = 200
"""Lines of one group's output that are shown; `--output json` has all that is kept."""
_SECONDS = 60
"""Seconds that a command which only reads may take on a host."""


def add_parser(subparsers: Subparsers) -> None:
    """Add `hosts` and its actions."""
    add_actions(subparsers, "hosts", ACTIONS)


def _diff(
    call: CallOptions, command_text: list[str], become: bool, output: str, **passwords: Any
) -> int:
    command = _read_only(call, command_text)
    answers = asyncio.run(_answers(call, command, become, PasswordOptions(**passwords)))
    groups = group_answers(sorted(answers, key=lambda one: one.host))
    if output == "json":
        write_json({"command": command, "groups": [_plain(one) for one in groups]})
    else:
        from kogniterm.addons.hosts.host_lines import host_answers

        symbol = Display(from_quick(quick(environment()), "/")).painter.symbol
        write_drawn(sys.stdout, host_answers(command, groups, symbol, _LINES))
    return EXIT_DONE if [one.state for one in groups] == ["answered"] else EXIT_NOT_DONE


async def _answers(
    call: CallOptions, command: str, become: bool, asked: PasswordOptions
) -> list[HostAnswer]:
    """Return the answer of each host; a terminal shows meanwhile what goes on."""
    from kogniterm.addons.hosts.ansible_hosts import AnsibleHosts

    inventory = replace(_inventory(call), vault_files=vault_files(asked, call.folder()))
    runner = AnsibleHosts(secrets=await secrets_of(asked))
    with _note(_("Reading the inventory …")):
        hosts = await runner.resolve(inventory, call.load_settings().hosts_limit)
    request = HostRequest(uuid4().hex, command, inventory, (hosts,), _SECONDS, become)
    with _note(plural("Asking {count} host …", "Asking {count} hosts …", len(hosts))):
        try:
            return [answer async for answer in runner.run(request)]
        except asyncio.CancelledError:
            await runner.stop(request)
            raise
        finally:
            await runner.discard(request)


def _inventory(call: CallOptions) -> Inventory:
    """Return the inventory. Raises `UsageError` for a folder whose Ansible settings may not run."""
    from kogniterm.addons.hosts.host_inventory import session_inventory

    folder, named = call.folder(), call.load_settings().hosts_inventory
    inventory = session_inventory(named, folder, paths_in_use().trust_file)
    if inventory.folder != folder and Path(folder, "ansible.cfg").exists():
        raise UsageError(
            "{folder} has an ansible.cfg, which can run programs; trust the folder first with: "
            "kogniterm trust",
            folder=folder,
        )
    return inventory


def _read_only(call: CallOptions, words: list[str]) -> str:
    """Return the command. Raises `RefusedError` unless it only reads, and no rule denies it."""
    from kogniterm.cli.verbs.policy import judge_command
    from kogniterm.runtime.services.policy_service import rules_of

    command = words[0] if len(words) == 1 else shlex.join(words)
    rules = rules_of(paths_in_use().policy_file)
    report, verdict = judge_command(command, call.folder(), rules, (), "manual")
    if verdict.kind == "deny":
        raise RefusedError("Your rules deny this command; kogniterm policy check explains it.")
    if report.label != "safe_readonly":
        why = report.reasons[0] if report.reasons else Phrase("It may change something.")
        raise RefusedError(
            "hosts diff runs commands that only read; for others use kogniterm hosts run. {why}",
            why=why,
        )
    return command


def _plain(value: AnswerGroup) -> dict[str, object]:
    """Return a value as it stands in JSON; a reason is a text."""
    return {**value._asdict(), "reason": None if value.reason is None else str(value.reason)}


@contextmanager
def _note(text: str) -> Iterator[None]:
    """Show on a terminal what is being done, as long as it is."""
    shown = sys.stderr.isatty()
    if shown:
        sys.stderr.write(text)
        sys.stderr.flush()
    try:
        yield
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


ACTIONS = (
    RUN,
    Action("diff", "Run a command that only reads on many machines, and compare the answers",
           _diff, (
        Argument("command_text", "The command, with its quotes as one word", "COMMAND", nargs="+"),
        *HOSTS,
        Argument("--become", "Run it as Ansible's other user, usually root"),
        ASK_BECOME,
        *VAULTS,
        Argument("--output", "Result as text or json", choices=("text", "json"), default="text")),
        ('kogniterm hosts diff "cat /etc/os-release" --inventory hosts.ini',
         "kogniterm hosts diff uptime --inventory hosts.ini --limit web")),
)  # fmt: skip
