"""Runs commands on many hosts by Ansible, and reads what each host knows about them.

The controller (`controller.py`, with everything it starts) runs outside of the sandbox, as a local
command does that needs the user's keys: it reads `~/.ssh` and speaks to the SSH agent. It ends with
this process, however that ends. Its files are in a private folder that is removed; those of a
killed process are removed by the next start.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kogniterm.addons.hosts import playbooks
from kogniterm.addons.hosts.answer_groups import stops
from kogniterm.addons.hosts.host_values import (
    HostRequest,
    HostRunner,
    HostSecrets,
    Inventory,
)
from kogniterm.addons.hosts.playbooks import JobReport, report_in
from kogniterm.errors import ExecutionError, UsageError
from kogniterm.execution.command_output import clip
from kogniterm.execution.process.confined_program import ConfinedProgram
from kogniterm.execution.screen import render
from kogniterm.host.installation import install_command
from kogniterm.host.programs import host_environment
from kogniterm.settings import environment
from kogniterm.storage.folders import try_lock, write_private
from kogniterm.text.redact import redact
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import whole
from kogniterm.types import Phrase
from kogniterm.types.command_results import HostAnswer, HostState

MAX_OUTPUT = 16_000
"""Characters kept of one host's output, as of a local command."""
if TYPE_CHECKING:
    from kogniterm.runtime.operations.health_checks import Finding
_CONTROLLER = Path(__file__).resolve().with_name("controller.py")
_FOLDER = "kogniterm-hosts-"
_PIECE = 1 << 16
_LONGEST_LINE = 8 << 20
"""Bytes; a host's output has up to 256 KiB, of which JSON can make six times as many."""
_FORKS = 25
"""Hosts that are spoken to at once; Ansible's own default is 5."""
_LONGEST_SOCKET = 60
"""Characters of a folder for SSH's sockets, whose addresses have 107 bytes at most."""
_GRACE = 15
"""Seconds beyond a command's own limit, in which its host notes that it ended the command."""
_TAKEN_BACK = ("ANSIBLE_HOST_KEY_CHECKING", "ANSIBLE_CACHE_PLUGIN")
"""Variables that ansible-runner sets; only the user's own values of them count."""
_REASONS = ("stderr", "msg", "module_stderr", "module_stdout")
_BEGINNINGS = ("Task failed: ", "Failed to connect to the host via ssh: ", "ssh: ")
"""Words of Ansible and SSH before a reason, which say nothing more."""


class AnsibleHosts(HostRunner):
    """The hosts of Ansible's inventories (`HostRunner`).

    `redacted` hides secrets in what hosts write. `secrets` are the passwords that Ansible may ask
    for.
    """

    def __init__(
        self, redacted: Callable[[str], str] = redact, secrets: HostSecrets | None = None
    ) -> None:
        self.redacted, self.secrets = redacted, secrets or HostSecrets()

    async def resolve(self, inventory: Inventory, limit: str = "") -> tuple[str, ...]:
        """Return the hosts that an inventory and a limit leave. Raises `UsageError`."""
        _check(inventory)
        text = playbooks.hosts_playbook()
        async with aclosing(self._play(text, inventory, limit)) as results:
            async for result in results:
                if result.get("task") == playbooks.HOSTS:
                    return tuple(json.loads(str(result["msg"])))
        raise UsageError("The inventory has no hosts; give one that has with --inventory.")

    async def run(self, request: HostRequest) -> AsyncGenerator[HostAnswer]:
        """Run the command on one group after the other; see `HostRunner`."""
        _check(request.inventory)
        if len(request.command.encode("utf-8", "replace")) > playbooks.LONGEST_COMMAND:
            raise UsageError("The command is too long for other hosts: 100 KB are the most.")
        answers: list[HostAnswer] = []
        for group in request.groups:
            if answers and stops(answers):
                break
            async with aclosing(self._run_group(request, group)) as coming:
                async for answer in coming:
                    answers.append(answer)
                    yield answer
        for host in request.hosts[len(answers) :]:
            yield HostAnswer(host, "not_started", reason=_NOT_REACHED)

    async def find(
        self, request: HostRequest, hosts: tuple[str, ...] = (), *, wait: int = 0
    ) -> tuple[HostAnswer, ...]:
        """Return the answers of hosts to a request; see `HostRunner`."""
        return await self._reports(request, hosts or request.hosts, "find", wait)

    async def stop(
        self, request: HostRequest, hosts: tuple[str, ...] = ()
    ) -> tuple[HostAnswer, ...]:
        """End the command where it runs; see `HostRunner`."""
        return await self._reports(request, hosts or request.hosts, "stop", 5)

    async def discard(self, request: HostRequest, hosts: tuple[str, ...] = ()) -> None:
        """Remove what hosts keep about a request; see `HostRunner`."""
        text, limit = playbooks.discard_playbook(request), hosts or request.hosts
        with suppress(ExecutionError, UsageError):
            async with aclosing(self._play(text, request.inventory, ",".join(limit))) as results:
                async for _ in results:
                    pass

    async def _run_group(
        self, request: HostRequest, group: tuple[str, ...]
    ) -> AsyncGenerator[HostAnswer]:
        """Yield the answers of one group; where the connection was lost, the host's job file is."""
        deadline = time.monotonic() + request.timeout
        doubtful = dict.fromkeys(group, None)  # type: dict[str, Phrase | None]
        text = playbooks.run_playbook(request)
        async with aclosing(self._play(text, request.inventory, ",".join(group))) as results:
            async for result in results:
                host, answer = str(result["host"]), self._answer(request, result)
                if host not in doubtful:
                    continue
                if answer is None:
                    doubtful[host] = self._failure(result)
                elif answer.state != "running":
                    del doubtful[host]
                    yield answer
        if doubtful:
            wait = max(0, int(deadline - time.monotonic())) + _GRACE
            for answer in await self.find(request, tuple(doubtful), wait=wait):
                failure = doubtful[answer.host]
                if answer.state == "not_started" and failure is not None:
                    answer = replace(answer, state="failed", reason=failure)
                yield answer

    def _answer(self, request: HostRequest, result: Mapping[str, Any]) -> HostAnswer | None:
        """Return the answer in a result; None where only the host's job file can tell."""
        host = str(result["host"])
        if result.get("task") == playbooks.PREPARE and result["result"] != "ok":
            return HostAnswer(host, _state(result), reason=self._failure(result))
        if result.get("task") != playbooks.REPORT:
            return None
        report = report_in(str(result.get("stdout", "")))
        return None if report is None else self._job_answer(request, host, report)

    def _job_answer(self, request: HostRequest, host: str, report: JobReport) -> HostAnswer:
        """Return the answer that a host's job file stands for."""
        if report.moment == "running":
            return HostAnswer(host, "running")
        if report.moment == "absent":
            return HostAnswer(host, "not_started", reason=_NEVER_BEGAN)
        if report.moment == "stopped":
            return HostAnswer(host, "failed", reason=_STOPPED)
        if report.moment == "lost":
            return HostAnswer(host, "unknown", reason=_LOST)
        content, seconds = report.content, report.seconds
        printed, diff = playbooks.output_and_changes(request, str(content.get("stdout", "")))
        output, clipped = self._output(printed)
        changes, _ = self._output(diff)
        code = content.get("rc")
        if isinstance(code, int) and not isinstance(code, bool):
            return HostAnswer(
                host, "failed" if code else "answered", code, output, None, seconds, clipped,
                changes,
            )  # fmt: skip
        words = str(content.get("msg", ""))
        reason = self._words(words)
        if words == "Timeout exceeded":
            reason = Phrase("it ran longer than {seconds} s", {"seconds": request.timeout})
        return HostAnswer(host, "failed", None, output, reason, seconds, clipped)

    def _output(self, text: str) -> tuple[str, bool]:
        """Return output as it is shown: as local output, by the same emulator and the same clip."""
        data = text.replace("\n", "\r\n").encode("utf-8", "replace")
        shown, omitted = clip(self.redacted(render(data)), MAX_OUTPUT)
        return shown, bool(omitted) or len(data) >= playbooks.OUTPUT_BYTES

    def _failure(self, result: Mapping[str, Any]) -> Phrase | None:
        """Return why a task failed on a host; None if it did not."""
        if result["result"] == "ok":
            return None
        texts = [str(result.get(name, "")) for name in _REASONS]
        if result["result"] == "failed" and _lacks_python(" ".join(texts)):
            return _NO_PYTHON
        return self._words(next((text for text in texts if text), ""))

    def _words(self, text: str) -> Phrase:
        for beginning in _BEGINNINGS:
            text = text.removeprefix(beginning)
        words = one_line(self.redacted(whole(text)), 300)
        return Phrase("{words}", {"words": words}) if words else _NO_REASON

    async def _reports(
        self, request: HostRequest, hosts: tuple[str, ...], mode: Literal["find", "stop"], wait: int
    ) -> tuple[HostAnswer, ...]:
        _check(request.inventory)
        found: dict[str, HostAnswer] = {}
        text = playbooks.report_playbook(request, mode, wait)
        async with aclosing(self._play(text, request.inventory, ",".join(hosts))) as results:
            async for result in results:
                host = str(result["host"])
                answer = self._answer(request, result)
                reason = self._failure(result)
                found[host] = answer or HostAnswer(host, "unknown", reason=reason or _NO_REASON)
        silent = {host: HostAnswer(host, "unknown", reason=_NO_REASON) for host in hosts}
        return tuple((silent | found)[host] for host in hosts)

    async def _play(
        self, text: str, inventory: Inventory, limit: str
    ) -> AsyncGenerator[Mapping[str, Any]]:
        """Run a playbook; yield the results of its tasks.

        Raises `UsageError` with Ansible's words if it refuses the inventory, and `ExecutionError`
        where it cannot work.
        """
        if not ansible_installed():
            raise UsageError(
                "Commands on other hosts need Ansible; install it with: {command}",
                command=install_command("ansible-core", "ansible-runner"),
            )
        with _private_folder() as folder:
            playbook = folder / "project" / "play.yml"
            playbook.parent.mkdir(mode=0o700)
            write_private(playbook, text.encode())
            job = self._job(folder, inventory, limit)
            program = await ConfinedProgram.start(
                [sys.executable, "-I", str(_CONTROLLER)],
                env=_environment(folder),
                cwd=inventory.folder,
                sandbox=None,
                temporary=str(folder),
            )
            seen = False
            try:
                await program.write(job)
                async for line in _lines(program):
                    if "end" not in line:
                        seen = True
                        yield line
                    elif not seen and line["end"] != 0:
                        raise self._refusal(str(line["words"]))
                    else:
                        return
                if not seen:
                    complaints = program.complaints.decode("utf-8", "replace")
                    why = one_line(self.redacted(complaints.strip().rpartition("\n")[2]), 300)
                    raise ExecutionError("Ansible could not be started: {why}", why=why)
            finally:
                await program.end()

    def _job(self, folder: Path, inventory: Inventory, limit: str) -> bytes:
        secrets = {"become": self.secrets.become, "vault": self.secrets.vault}
        job = {
            "private": str(folder),
            "playbook": str(folder / "project" / "play.yml"),
            "folder": inventory.folder,
            "inventory": list(inventory.sources),
            "limit": limit,
            "forks": _FORKS,
            "taken_back": [name for name in _TAKEN_BACK if name not in environment()],
            "vault_files": list(inventory.vault_files),
            "passwords": {name: word for name, word in secrets.items() if word},
        }
        return json.dumps(job).encode()

    def _refusal(self, words: str) -> UsageError:
        lines = [line for line in render(words.encode("utf-8", "replace")).splitlines() if line]
        errors = [line for line in lines if "ERROR" in line or "error:" in line] or lines[-1:]
        found = one_line(self.redacted(" ".join(errors)), 400).removeprefix("[ERROR]: ")
        return UsageError("Ansible refused to start: {words}", words=found)


_NOT_REACHED = Phrase("an earlier group differed, failed or did not answer")
_NEVER_BEGAN = Phrase("the command had not begun")
_STOPPED = Phrase("it was stopped")
_LOST = Phrase("the host lost track of the command, as after a restart")
_NO_PYTHON = Phrase("the host has no Python, which Ansible needs there")
_NO_REASON = Phrase("it gave no reason")


def ansible_installed() -> bool:
    """Return whether Ansible and its runner are installed beside KogniTerm."""
    return find_spec("ansible_runner") is not None and find_spec("ansible") is not None


def ansible_finding() -> Iterator[Finding]:
    """Yield whether Ansible is installed."""
    from kogniterm.runtime.operations.health_checks import package_finding

    yield package_finding("ansible-core", installed=ansible_installed())


def _state(result: Mapping[str, Any]) -> HostState:
    """Return the answer of a host, from the result of a task."""
    states: dict[object, HostState] = {"ok": "answered", "unreachable": "unreachable"}
    return states.get(result["result"], "failed")


def _check(inventory: Inventory) -> None:
    """Raise `UsageError` for a source that Ansible would only warn about."""
    for source in inventory.sources:
        if "," not in source and not Path(source).exists():
            raise UsageError(
                "There is no inventory {source}; name a file or a folder, or hosts with commas "
                "(web1,web2).",
                source=source,
            )


def _lacks_python(words: str) -> bool:
    lowered = words.lower()
    return "python" in lowered and any(
        sign in lowered for sign in ("not found", "no such file", "no python interpreters")
    )


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of the controller: of the user's, what Ansible and SSH read."""
    own = [name for name in environment() if name.startswith("ANSIBLE_")]
    found = host_environment("SSH_AUTH_SOCK", *own)
    found["PATH"] = f"{Path(sys.executable).parent}:{found['PATH']}"
    # Ansible needs a UTF-8 locale that exists; what it writes is English in every locale.
    found["LC_ALL"] = "C.UTF-8"
    # Without a terminal a question would wait for ever. The options ask for passwords before.
    asking = ("ANSIBLE_ASK_PASS", "ANSIBLE_ASK_VAULT_PASS", "ANSIBLE_BECOME_ASK_PASS")
    found |= dict.fromkeys(asking, "False")
    found["ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED"] = "True"
    found["ANSIBLE_LOCAL_TEMP"] = f"{folder}/tmp"
    if len(str(folder)) <= _LONGEST_SOCKET:
        # A connection that is shared with another run of Ansible would end with ours.
        found.setdefault("ANSIBLE_SSH_CONTROL_PATH_DIR", f"{folder}/cp")
    return found


@contextmanager
def _private_folder() -> Iterator[Path]:
    """Make a folder for one run, whose lock tells that it is in use; remove it in the end."""
    parent = Path(tempfile.gettempdir())
    # What killed processes left behind goes first.
    for leftover in parent.glob(f"{_FOLDER}*"):
        with suppress(OSError):
            left = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(left).st_uid == os.geteuid() and try_lock(left):
                    shutil.rmtree(leftover, ignore_errors=True)
            finally:
                os.close(left)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=parent))
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.exists():
            break
        os.close(descriptor)  # another start took it for a leftover
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


async def _lines(program: ConfinedProgram) -> AsyncGenerator[dict[str, Any]]:
    """Yield the lines that the controller writes. Raises `ExecutionError` for one without end."""
    pipe, kept = program.process.stdout, bytearray()
    assert pipe is not None
    while piece := await pipe.read(_PIECE):
        kept += piece
        *whole_lines, rest = kept.split(b"\n")
        for line in whole_lines:
            yield json.loads(line)
        kept = bytearray(rest)
        if len(kept) > _LONGEST_LINE:
            raise ExecutionError("Ansible wrote more than a host may answer.")
