"""Commands on other machines: from an approved request to what each host answered.

An intent for every host is on disk before the first one starts, and each answer is recorded as it
comes. After any loss of this process the hosts themselves are asked, so that an unknown outcome
becomes a fact; nothing starts again by itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.errors import ExecutionError, KognitermError, ToolError, UsageError
from kogniterm.execution.hosts.answer_groups import group_answers, host_groups, stops
from kogniterm.host.safe_files import resolve_path
from kogniterm.host.walk import WalkLimits, walk_folder
from kogniterm.protocols import EventSink, HostRunner
from kogniterm.runtime.trust.trust_store import TrustStore
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.sessions.records import HostIntent, HostOutcome
from kogniterm.storage.folders import expand_path
from kogniterm.text.visible import clean
from kogniterm.types import CHANGING_KINDS, ActionRequest, Phrase, RiskReport, events
from kogniterm.types.hosts import (
    AnswerGroup,
    HostAnswer,
    HostRequest,
    HostSecrets,
    HostState,
    Inventory,
)

ALL = "all"
"""The name that stands for every host of the inventory, for the model as for Ansible."""
DEFAULT_TIMEOUT = 600
_VARIABLE_FOLDERS = ("group_vars", "host_vars")
_MOST_FILES = 500
_MOST_CHANGED = 20
_PATTERN = re.compile(r"[*?\[\]{}$`\n]")
"""Signs in a path that the shell of a host would replace."""
_LISTED = 40
"""Hosts that an error names."""
_STOP_SECONDS = 30.0
"""Seconds for hosts to end a command after Ctrl-C."""
_PARTED = Phrase("KogniTerm stopped before the host answered")
_STOPPED = Phrase("you stopped KogniTerm before the host answered")


def inventory_at(value: str, folder: str) -> Inventory:
    """Return the inventory that a setting or an option names, seen from `folder`.

    A name with a comma is a list of hosts, as Ansible reads it.
    """
    source = value if "," in value else str(expand_path(folder, value))
    return Inventory((source,), folder)


def session_inventory(value: str, workspace: str, trust_file: Path) -> Inventory:
    """Return the inventory of a session in `workspace`.

    The `ansible.cfg` of the folder counts where the user trusts it: it can run programs.
    """
    trusted = TrustStore(trust_file).knows(Path(workspace))
    place = workspace if trusted else str(Path.home())
    return replace(inventory_at(value, workspace), folder=place)


def inventory_files(inventory: Inventory) -> tuple[str, ...]:
    """Return the files that decide where a command on hosts runs, and how, as far as known."""
    sources = [Path(one) for one in inventory.sources if "," not in one]
    folders = [one if one.is_dir() else one.parent for one in sources]
    found = [str(one) for one in sources if not one.is_dir()]
    found += [str(Path(inventory.folder) / "ansible.cfg"), *inventory.vault_files]
    for folder, source in zip(folders, sources, strict=True):
        inside = [folder] if source.is_dir() else []
        for place in (*inside, *(folder / name for name in _VARIABLE_FOLDERS)):
            below = walk_folder(resolve_path(place), None, WalkLimits(_MOST_FILES))
            found += [str(place / one.path) for one in below]
    return tuple(dict.fromkeys(found))


class HostsEnd(NamedTuple):
    """The end of a command on hosts, as the model reads it.

    `failed` unless every host answered with exit code 0; `lost` where that of a host is unknown.
    """

    text: str
    failed: bool
    lost: bool


class HostCommands:
    """The hosts of a session; implements the port of `run_on_hosts`.

    `open_runner` is called, with the user's passwords, once a host is needed. `limit` is a pattern
    of Ansible that the hosts of the session have to match; `timeout` is in seconds for each host.
    """

    def __init__(
        self,
        journal: TurnJournal,
        known: Inventory | None,
        open_runner: Callable[[HostSecrets], HostRunner],
        limit: str = ALL,
        timeout: int = DEFAULT_TIMEOUT,
    ) -> None:
        self.journal = journal
        self.known = known
        self.open_runner = open_runner
        self.limit = limit
        self.timeout = timeout
        self._secrets = HostSecrets()
        self._runner: HostRunner | None = None
        self._selected: dict[tuple[str, ...], tuple[str, ...]] = {}

    @property
    def runner(self) -> HostRunner:
        if self._runner is None:
            self._runner = self.open_runner(self._secrets)
        return self._runner

    def give_passwords(self, secrets: HostSecrets, vault_files: tuple[str, ...]) -> None:
        """Use these passwords of the user, and files with passwords of vaults, from now on."""
        self._secrets, self._runner = secrets, None
        if self.known is not None:
            self.known = replace(self.known, vault_files=vault_files)

    # --- the port of the tool -------------------------------------------------------------------

    @property
    def inventory(self) -> Inventory:
        if self.known is None:
            raise ToolError("No inventory of hosts is configured in this session.")
        return self.known

    def select(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the hosts that `names` stand for, in the inventory's order. Raises `ToolError`.

        A name is that of a host or a group, never a pattern: it reaches the inventory as it is.
        """
        every = self._hosts_of(self.limit)
        wanted: set[str] = set()
        for name in names:
            if name == ALL:
                wanted.update(every)
            elif name in every:
                wanted.add(name)
            else:
                wanted.update(self._members(name, every))
        return tuple(host for host in every if host in wanted)

    def _members(self, name: str, every: Sequence[str]) -> tuple[str, ...]:
        """Return the hosts of the group called `name` that the session may use."""
        plain = name.replace("_", "").replace("-", "").replace(".", "")
        group: tuple[str, ...] = ()
        if plain.isalnum() and name[0] not in "-.":
            try:
                group = self._hosts_of(name)
            except ToolError:
                group = ()
        inside = tuple(host for host in group if host in every)
        if not inside:
            raise ToolError(
                "{name!r} is no host or group of the inventory; its hosts are: {hosts}.",
                name=clean(name)[:100],
                hosts=_listed(every),
            )
        return inside

    def _hosts_of(self, pattern: str) -> tuple[str, ...]:
        """Return the hosts of a pattern; the inventory is read again where its files changed."""
        key = (pattern, *_stamps(self.inventory))
        if key not in self._selected:
            self._selected[key] = _in_thread(self.runner, self.inventory, pattern)
        return self._selected[key]

    # --- arrows 10 and 11 -----------------------------------------------------------------------

    def request_of(
        self, request: ActionRequest, command: str, report: RiskReport | None = None
    ) -> HostRequest:
        """Return what is asked of the hosts.

        The `report` on it tells in which groups they are asked, and which files may change.

        The ID is the same in every process, and unique among sessions: hosts keep the outcome
        under it.
        """
        given = request.arguments
        session = hashlib.sha256(self.journal.state.session_id.encode()).hexdigest()[:12]
        return HostRequest(
            f"{session}-{request.id}",
            command,
            inventory_of(request),
            host_groups(request.hosts, report.label if report is not None else "needs_approval"),
            self.timeout,
            bool(given.get("become")),
            changed_files(report) if report is not None else (),
        )

    def intend(self, request: ActionRequest) -> None:
        """Write an intent for every host to disk; that of the whole request is there."""
        for host in request.hosts:
            self.journal.record(HostIntent(request.id, host), durable=host == request.hosts[-1])

    async def act(
        self, request: ActionRequest, asked: HostRequest, sink: EventSink
    ) -> tuple[HostsEnd, bool]:
        """Run the command and record each answer; return the end, and whether it was cancelled.

        When cancelled, the hosts end the command, which takes up to `_STOP_SECONDS`; another
        cancel ends the waiting.
        """
        shown = self.journal.redact_command(request.command)
        sink(events.HostsStarted(request.id, shown, asked.groups))
        cancelled, why = False, _PARTED
        try:
            await self._run(request, asked, sink)
        except asyncio.CancelledError:
            cancelled, why = True, _STOPPED
            await self._stop(request, asked, sink)
        except (ExecutionError, UsageError) as error:
            why = error.text
        begun = set(_begun(asked, self._recorded(request)))
        for host in self._missing(request):
            state: HostState = "unknown" if host in begun else "not_started"
            self._record(request, HostAnswer(host, state, reason=why), sink)
        return self._end(request, sink), cancelled

    def facts(self, request: ActionRequest) -> tuple[str, ...]:
        """Return the hosts whose outcome is recorded, so that they need not keep it."""
        kept = ("unknown", "running", "unreachable", "not_started")
        known = self._recorded(request).items()
        return tuple(host for host, one in known if one.state not in kept)

    async def forget(self, asked: HostRequest, hosts: tuple[str, ...]) -> None:
        """Let `hosts` remove what they keep about a request, now that it is recorded here."""
        if hosts:
            await self.runner.discard(asked, hosts)

    async def _run(self, request: ActionRequest, asked: HostRequest, sink: EventSink) -> None:
        try:
            async for answer in self.runner.run(asked):
                self._record(request, answer, sink)
        except ExecutionError:
            # The program that speaks to the hosts was lost; they know what they did.
            if not self._recorded(request):
                raise
        if missing := self._missing(request):
            for answer in await self.runner.find(asked, missing, wait=self.timeout):
                self._record(request, answer, sink)

    async def _stop(self, request: ActionRequest, asked: HostRequest, sink: EventSink) -> None:
        """Have the hosts end the command where it may run, and record what they say."""
        missing = self._missing(request)
        begun = tuple(host for host in _begun(asked, self._recorded(request)) if host in missing)
        if not begun:
            return
        sink(events.Notice(Phrase("Ending the command on {hosts}", {"hosts": _listed(begun)})))
        with suppress(asyncio.CancelledError, TimeoutError, ExecutionError, UsageError):
            async with asyncio.timeout(_STOP_SECONDS):
                for answer in await self.runner.stop(asked, begun):
                    self._record(request, answer, sink)
                await self.forget(asked, self.facts(request))

    def _record(self, request: ActionRequest, answer: HostAnswer, sink: EventSink) -> None:
        if answer.host not in request.hosts:
            return
        output, changes = (
            self.journal.redact(clean(text)) for text in (answer.output, answer.changes)
        )
        answer = replace(answer, output=output, changes=changes)
        self.journal.record(HostOutcome(request.id, answer), durable=True)
        sink(events.HostAnswered(request.id, answer))

    def _recorded(self, request: ActionRequest) -> dict[str, HostAnswer]:
        known = self.journal.state.on_hosts.get(request.id, {})
        return {host: answer for host, answer in known.items() if answer is not None}

    def _missing(self, request: ActionRequest) -> tuple[str, ...]:
        known = self._recorded(request)
        return tuple(host for host in request.hosts if host not in known)

    def _end(self, request: ActionRequest, sink: EventSink) -> HostsEnd:
        groups = group_answers(self._recorded(request).values())
        states = {group.state for group in groups}
        end = HostsEnd(
            answers_text(groups), bool(states - {"answered"}), bool(states & {"unknown", "running"})
        )
        sink(events.HostsEnded(request.id, self.journal.redact_command(request.command), groups))
        return end

    # --- after a crash --------------------------------------------------------------------------

    async def recover(self, request: ActionRequest, sink: EventSink) -> HostsEnd:
        """Ask the hosts what they did of a request that a crash cut off; record and report it."""
        asked = self.request_of(request, request.command)
        intended = self.journal.state.on_hosts.get(request.id, {})
        missing = self._missing(request)
        if missing:
            asks = {"count": len(missing)}
            sink(events.Notice(Phrase("Asking {count} hosts what they did", asks)))
        if set(intended) != set(request.hosts):
            # Every intent is on disk before the first start.
            found = tuple(HostAnswer(host, "not_started", reason=_PARTED) for host in missing)
        else:
            try:
                found = await self.runner.find(asked, missing, wait=self.timeout) if missing else ()
            except (ExecutionError, UsageError) as error:
                found = tuple(HostAnswer(host, "unknown", reason=error.text) for host in missing)
        for answer in found:
            self._record(request, answer, sink)
        end = self._end(request, sink)
        if not end.lost:
            await self.forget(asked, self.facts(request))
        return end


def _listed(hosts: Sequence[str]) -> str:
    """Return the first hosts in one line."""
    return ", ".join(hosts[:_LISTED]) + (", …" if len(hosts) > _LISTED else "")


def _begun(asked: HostRequest, answers: Mapping[str, HostAnswer]) -> Iterator[str]:
    """Yield the hosts where the command may have begun: no group begins before those ahead end."""
    ahead: list[HostAnswer] = []
    for group in asked.groups:
        yield from group
        ahead += [answers[host] for host in group if host in answers]
        if any(host not in answers for host in group) or stops(ahead):
            return


def changed_files(report: RiskReport) -> tuple[str, ...]:
    """Return the files that a command names as those it changes, the first `_MOST_CHANGED`.

    What is in a file with secrets must not be read on the way.
    """
    found = (
        effect.target
        for effect in report.effects
        if effect.kind in CHANGING_KINDS
        and effect.target.startswith(("/", "~/"))
        and not _PATTERN.search(effect.target)
        and not is_secret(effect.target)
    )
    return tuple(dict.fromkeys(found))[:_MOST_CHANGED]


def answers_text(groups: Sequence[AnswerGroup]) -> str:
    """Return the answers as the model reads them: equal ones once, differences as a diff."""
    return "\n\n".join(map(_group_text, groups))


def _group_text(group: AnswerGroup) -> str:
    names = ", ".join(group.hosts)
    count = f"{len(group.hosts)} hosts" if len(group.hosts) > 1 else "1 host"
    code = "" if group.exit_code is None else f", exit {group.exit_code}"
    reason = f": {group.reason}" if group.reason is not None else ""
    head = f"[{group.state.replace('_', ' ')}{code} on {count}{reason}]\n{names}"
    body = group.output.rstrip("\n")
    if group.diff:
        body = f"[differs from the largest group:]\n{group.diff}"
    changes = f"[changed files:]\n{group.changes.rstrip()}" if group.changes.strip() else ""
    return "\n".join(filter(None, (head, body, changes)))


def inventory_of(request: ActionRequest) -> Inventory:
    """Return the inventory that the tool put into the arguments of a request."""
    told: Mapping[str, Any] = request.arguments["inventory"]
    return Inventory(
        tuple(told["sources"]), str(told["folder"]), tuple(told.get("vault_files", ()))
    )


def _stamps(inventory: Inventory) -> Iterator[str]:
    for name in inventory_files(inventory):
        try:
            found = os.stat(name)  # noqa: PTH116 - a plain string
        except OSError:
            continue
        yield f"{name}:{found.st_mtime_ns}:{found.st_size}"


def _in_thread(runner: HostRunner, inventory: Inventory, pattern: str) -> tuple[str, ...]:
    """Return the hosts of a pattern, from within the loop that a tool is checked in.

    Raises `ToolError`.
    """
    found: list[tuple[str, ...]] = []
    failed: list[KognitermError] = []

    def resolve() -> None:
        try:
            found.append(asyncio.run(runner.resolve(inventory, pattern)))
        except KognitermError as error:
            failed.append(error)

    thread = threading.Thread(target=resolve, name="inventory")
    thread.start()
    thread.join()
    if failed:
        raise ToolError("{why}", why=failed[0].text)
    return found[0]
