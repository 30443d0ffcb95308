"""Commands on other machines: from a call of the tool to what each host answered.

An intent for every host is on disk before the first one starts, and each answer is recorded as it
comes. After any loss of this process the hosts themselves are asked, so that an unknown outcome
becomes a fact; nothing starts again by itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from pydantic import Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from kogniterm.addons.hosts.host_values import HostRequest, HostRunner, HostSecrets, Inventory
from kogniterm.approval.analysis.exit_status import with_exit_facts
from kogniterm.errors import ExecutionError, KognitermError, ToolError, UsageError
from kogniterm.protocols import EventSink
from kogniterm.runtime.extensions.extension_port import ActingExtension, SessionBasis
from kogniterm.runtime.services.script_hashes import file_states
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import ToolEnd
from kogniterm.sessions.records import HostIntent, HostOutcome
from kogniterm.settings import Settings
from kogniterm.text.visible import clean
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.session_tools import usable_command
from kogniterm.types import RUN_ON_HOSTS, ActionRequest, CommandResult, Phrase, RiskReport, events
from kogniterm.types.command_results import AnswerGroup, HostAnswer, HostState

ALL = "all"
"""The name that stands for every host of the inventory, for the model as for Ansible."""
DEFAULT_TIMEOUT = 600
_LISTED = 40
"""Hosts that an error names."""
_STOP_SECONDS = 30.0
"""Seconds for hosts to end a command after Ctrl-C."""
_PARTED = Phrase("KogniTerm stopped before the host answered")
_STOPPED = Phrase("you stopped KogniTerm before the host answered")


class HostCommands(ActingExtension):
    """The hosts of a session, and the commands on them.

    `open_runner` is called, with the user's passwords, once a host is needed. The hosts of the
    session have to match `limit`, a pattern of Ansible; `timeout` is in seconds for each host.
    """

    name = "hosts"
    moments: ClassVar = {}
    tool, effect = RUN_ON_HOSTS, "hosts"

    def __init__(self, journal: TurnJournal, settings: Settings, known: Inventory | None) -> None:
        self.journal = journal
        self.open_runner: Callable[[HostSecrets], HostRunner] = self._ansible
        self.limit = settings.hosts_limit
        self.timeout = int(settings.command_timeout) or DEFAULT_TIMEOUT
        self._secrets = HostSecrets()
        self._runner: HostRunner | None = None
        self._selected: dict[tuple[str, frozenset[tuple[str, str]]], tuple[str, ...]] = {}
        self._unreleased: dict[str, tuple[HostRequest, tuple[str, ...]]] = {}
        """Requests whose outcome is not on disk, and the hosts that keep theirs until it is."""
        self._first: Mapping[str, str] = {}
        """The files of the inventory, each as it was when it first became one."""
        self.use(known)

    @classmethod
    def open(cls, basis: SessionBasis) -> HostCommands:
        """Return the hosts that the settings name, of which there may be none."""
        named, folder = basis.settings.hosts_inventory, basis.journal.state.folder
        known = None
        if named:
            from kogniterm.addons.hosts.host_inventory import session_inventory

            known = session_inventory(named, folder, basis.paths.trust_file)
        return cls(basis.journal, basis.settings, known)

    def _ansible(self, secrets: HostSecrets) -> HostRunner:
        from kogniterm.addons.hosts.ansible_hosts import AnsibleHosts

        return AnsibleHosts(self.journal.redact, secrets)

    @classmethod
    def switched_off(cls, settings: Settings) -> Mapping[str, Phrase]:
        """Return why no command can run on hosts."""
        if settings.hosts_inventory is None:
            return {cls.tool: Phrase("setting {name}", {"name": "hosts_inventory"})}
        from kogniterm.addons.hosts.ansible_hosts import ansible_installed

        if not ansible_installed():
            return {cls.tool: Phrase("{program} is not installed", {"program": "Ansible"})}
        if settings.executor is not None:
            return {cls.tool: Phrase("no command runs in this session")}
        return {}

    @property
    def runner(self) -> HostRunner:
        if self._runner is None:
            self._runner = self.open_runner(self._secrets)
        return self._runner

    def give_passwords(self, secrets: HostSecrets, vault_files: tuple[str, ...]) -> None:
        """Use these passwords of the user, and files with passwords of vaults, from now on."""
        self._secrets, self._runner = secrets, None
        if self.known is not None:
            self.use(replace(self.known, vault_files=vault_files))

    def use(self, known: Inventory | None) -> None:
        """Use this inventory from now on. A file that was in use before stays as it was then."""
        self.known = known
        self._first = {**self._states(), **self._first}

    def _states(self) -> Mapping[str, str]:
        """Return the files of the inventory as they are now."""
        if self.known is None:
            return {}
        from kogniterm.addons.hosts.host_inventory import inventory_files

        files = RiskReport("", "safe_readonly", deciding=inventory_files(self.known))
        return file_states(files, self.journal.state.folder, search_path="")

    # --- the hosts of a call --------------------------------------------------------------------

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
                hosts=_host_list(every),
            )
        return inside

    def _hosts_of(self, pattern: str) -> tuple[str, ...]:
        """Return the hosts of a pattern; the inventory is read again where its files changed."""
        inventory, key = self.inventory, (pattern, frozenset(self._states().items()))
        if key not in self._selected:
            self._selected[key] = _in_thread(self.runner, inventory, pattern)
        return self._selected[key]

    # --- arrow 8 --------------------------------------------------------------------------------

    def assess(self, request: ActionRequest) -> RiskReport:
        from kogniterm.addons.hosts.host_risk import assess_on_hosts

        return assess_on_hosts(request, self._first, self.journal.state.folder)

    # --- arrows 10 and 11 -----------------------------------------------------------------------

    def request_of(self, request: ActionRequest, report: RiskReport | None = None) -> HostRequest:
        """Return what is asked of the hosts.

        The `report` on it tells in which groups they are asked, and which files may change.

        The ID is the same in every process, and unique among sessions: hosts keep the outcome
        under it.
        """
        from kogniterm.addons.hosts.host_inventory import inventory_of
        from kogniterm.addons.hosts.host_risk import changed_files

        given = request.arguments
        session = hashlib.sha256(self.journal.state.session_id.encode()).hexdigest()[:12]
        return HostRequest(
            f"{session}-{request.id}",
            request.command,
            inventory_of(request),
            report.groups if report is not None else (request.hosts,),
            self.timeout,
            bool(given.get("become")),
            changed_files(report) if report is not None else (),
        )

    async def act(self, request: ActionRequest, report: RiskReport, sink: EventSink) -> ToolEnd:
        """Run the command and record each answer, behind an intent for every host on disk.

        When cancelled, the hosts end the command, which takes up to `_STOP_SECONDS`; another
        cancel ends the waiting.
        """
        asked = self.request_of(request, report)
        for host in request.hosts:
            self.journal.record(HostIntent(request.id, host), durable=host == request.hosts[-1])
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
        begun = set(_begun(asked, self._recorded_answers(request)))
        for host in self._missing(request):
            state: HostState = "unknown" if host in begun else "not_started"
            self._record(request, HostAnswer(host, state, reason=why), sink)
        if not cancelled:
            self._unreleased[request.id] = asked, self._facts(request)
        return self._end(request, sink)._replace(cancelled=cancelled)

    async def recorded(self, request: ActionRequest) -> None:
        await self._forget(*self._unreleased.pop(request.id))

    def _facts(self, request: ActionRequest) -> tuple[str, ...]:
        """Return the hosts whose outcome is recorded, so that they need not keep it."""
        kept = ("unknown", "running", "unreachable", "not_started")
        known = self._recorded_answers(request).items()
        return tuple(host for host, one in known if one.state not in kept)

    async def _forget(self, asked: HostRequest, hosts: tuple[str, ...]) -> None:
        """Let `hosts` remove what they keep about a request, now that it is recorded here."""
        if hosts:
            await self.runner.discard(asked, hosts)

    async def _run(self, request: ActionRequest, asked: HostRequest, sink: EventSink) -> None:
        try:
            async for answer in self.runner.run(asked):
                self._record(request, answer, sink)
        except ExecutionError:
            # The program that speaks to the hosts was lost; they know what they did.
            if not self._recorded_answers(request):
                raise
        if missing := self._missing(request):
            for answer in await self.runner.find(asked, missing, wait=self.timeout):
                self._record(request, answer, sink)

    async def _stop(self, request: ActionRequest, asked: HostRequest, sink: EventSink) -> None:
        """Have the hosts end the command where it may run, and record what they say."""
        missing = self._missing(request)
        begun = tuple(
            host for host in _begun(asked, self._recorded_answers(request)) if host in missing
        )
        if not begun:
            return
        sink(events.Notice(Phrase("Ending the command on {hosts}", {"hosts": _host_list(begun)})))
        with suppress(asyncio.CancelledError, TimeoutError, ExecutionError, UsageError):
            async with asyncio.timeout(_STOP_SECONDS):
                for answer in await self.runner.stop(asked, begun):
                    self._record(request, answer, sink)
                await self._forget(asked, self._facts(request))

    def _record(self, request: ActionRequest, answer: HostAnswer, sink: EventSink) -> None:
        if answer.host not in request.hosts:
            return
        output, changes = (
            self.journal.redact(clean(text)) for text in (answer.output, answer.changes)
        )
        answer = replace(answer, output=output, changes=changes)
        self.journal.record(HostOutcome(request.id, answer), durable=True)
        sink(events.HostAnswered(request.id, answer))

    def _recorded_answers(self, request: ActionRequest) -> dict[str, HostAnswer]:
        known = self.journal.state.on_hosts.get(request.id, {})
        return {host: answer for host, answer in known.items() if answer is not None}

    def _missing(self, request: ActionRequest) -> tuple[str, ...]:
        known = self._recorded_answers(request)
        return tuple(host for host in request.hosts if host not in known)

    def _end(self, request: ActionRequest, sink: EventSink) -> ToolEnd:
        """Return the end; failed unless all is known, and every host answered with exit code 0."""
        from kogniterm.addons.hosts.answer_groups import group_answers

        groups = group_answers(self._recorded_answers(request).values())
        states = {group.state for group in groups}
        # Where success is no evidence on this machine, it is none on another.
        well = CommandResult(request.command, "exited", 0, "", 0.0, "")
        sink(events.HostsEnded(request.id, self.journal.redact_command(request.command), groups))
        return ToolEnd(
            answers_text(groups),
            failed=bool(states - {"answered"}),
            lost=bool(states & {"unknown", "running"}),
            masked=with_exit_facts(request.command, well).masked,
        )

    # --- after a crash --------------------------------------------------------------------------

    async def recover(self, request: ActionRequest, sink: EventSink) -> ToolEnd:
        """Ask the hosts what they did of a request that a crash cut off; record and report it."""
        asked = self.request_of(request)
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
            await self._forget(asked, self._facts(request))
        return end


def _host_list(hosts: Sequence[str]) -> str:
    """Return the first hosts in one line."""
    return ", ".join(hosts[:_LISTED]) + (", …" if len(hosts) > _LISTED else "")


def _begun(asked: HostRequest, answers: Mapping[str, HostAnswer]) -> Iterator[str]:
    """Yield the hosts where the command may have begun: no group begins before those ahead end."""
    from kogniterm.addons.hosts.answer_groups import stops

    ahead: list[HostAnswer] = []
    for group in asked.groups:
        yield from group
        ahead += [answers[host] for host in group if host in answers]
        if any(host not in answers for host in group) or stops(ahead):
            return


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


class HostArguments(Arguments):
    """One command and its hosts; the tool sets `inventory`, whatever the model gives."""

    command: str
    hosts: tuple[str, ...] = Field(min_length=1)
    become: bool = False
    purpose: str = ""
    inventory: SkipJsonSchema[Inventory | None] = None

    @field_validator("command")
    @classmethod
    def _usable(cls, value: str) -> str:
        return usable_command(value)

    @field_validator("hosts", mode="before")
    @classmethod
    def _one_name(cls, value: object) -> object:
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


async def _run_by_extension(arguments: HostArguments) -> str:
    raise ToolError("Commands are run by the runtime.")


def run_on_hosts(port: HostCommands) -> SchemaTool[HostArguments]:
    """Return the tool; its checked arguments hold every host by name, and the inventory."""

    def settle(arguments: HostArguments) -> HostArguments:
        found = {"hosts": port.select(arguments.hosts), "inventory": port.inventory}
        return arguments.model_copy(update=found)

    return SchemaTool(
        RUN_ON_HOSTS,
        HostArguments,
        _run_by_extension,
        effect="hosts",
        settle=settle,
        describe=lambda arguments: (arguments.command, arguments.purpose),
        hosts=lambda arguments: arguments.hosts,
    )
