"""The sandbox of a session: which command runs in which one, and what is reported about it.

User and model learn of files that a sandboxed command left and other tools act on by themselves.
The model also learns what the command could not see, so that it does not mistake the sandbox for
the machine.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from kogniterm import approval, prompts
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.execution.sandbox.planted import MOST_ENTRIES, How, State, find_planted
from kogniterm.runtime.turn_ports import SandboxFindings
from kogniterm.types import CommandResult, Decision, Job, Phrase, RiskReport, UserAnswers, events

_ON_MACHINE = {
    "lists": "ps pgrep pidof pstree top htop ss netstat ip ifconfig route arp lsns w",
    "owners": "lsof fuser",
    "signals": "kill pkill killall skill renice",
    "services": "systemctl service journalctl loginctl busctl docker podman nerdctl ssh-add "
    "gpg-connect-agent",
    "sockets": "tmux screen",
}
MACHINE_PROGRAMS = {name: kind for kind, names in _ON_MACHINE.items() for name in names.split()}
"""Programs about processes, sockets and services: those of the session's sandbox, where it has any.

Those that list read the process and network tables; those of owners also look into processes, and
signals reach them. Services are the machine's, and never reached. Others need local sockets.
"""
_OF_THE_SESSION = frozenset({"lists", "owners", "signals"})
_FILTERS = frozenset({
    "awk", "cat", "column", "cut", "echo", "egrep", "fgrep", "grep", "head", "nl", "sed", "sort",
    "tac", "tail", "tr", "uniq", "wc",
})  # fmt: skip
"""Programs that a list is passed on to."""
_MOST_NAMED = 8
_MOST_RECORDED = 200
_TOGETHER = 2
"""Most files of one folder that are named one by one."""
_MARK = "[sandbox: "


@dataclass(slots=True)
class SandboxService:
    """Chooses the sandbox of each command and looks at what it did. `box` is None without one.

    With `always` approved commands run inside too. `stopped` are commands that failed because of
    the sandbox; the user is asked about them at once, or when they are proposed again.
    """

    box: Sandbox | None
    always: bool = False
    stopped: dict[str, approval.SandboxFailure] = field(default_factory=dict)
    told: bool = False
    answers: UserAnswers = "now"
    temporary: str = ""
    """The private /tmp of the session, which the executor makes."""
    _told_of_stop: bool = False
    _both: bool = False
    _before: Mapping[str, State] = field(default_factory=dict)
    _still_runs: bool = False

    def choose(
        self, decision: Decision, report: RiskReport, *, outside: bool = False
    ) -> Sandbox | None:
        """Return the sandbox an approved command runs in.

        What the user approved with its effects in view, or by a permission to run `outside`, runs
        as the user would run it; what policy approved by itself runs confined. What only reads can
        write nothing there, and sees nothing of other commands; what only lists processes and
        sockets is one of the session's, whose processes it is to show. So is a command that sets
        shell state for later ones.
        """
        unasked = runs_unasked(decision)
        if self.box is None or ((outside or not unasked) and not self.always):
            return None
        from kogniterm.approval.analysis.shell_changes import sets_in_shell

        reads = report.label == "safe_readonly" and unasked and not _lists_processes(report)
        if reads and not sets_in_shell(report.command):
            return self.box.reading()
        return self.box

    def of_machine(
        self, box: Sandbox | None, decision: Decision, report: RiskReport
    ) -> Sandbox | None:
        """Return a sandbox that shows the machine's processes, for an unasked list of them.

        It only reads. `box` shows those of the session.
        """
        lists = {MACHINE_PROGRAMS.get(name) for name in _programs(report)} & _OF_THE_SESSION
        listed = lists == {"lists"} and _lists_processes(report) and runs_unasked(decision)
        self._both = listed and box is not None and box.gives.own_processes
        return replace(box.reading(), kind="landlock") if box is not None and self._both else None

    def in_the_way(self, command: str, cwd: str) -> Phrase | None:
        """Return why `command` would not work inside in `cwd`, or None when nothing is known."""
        if failure := self.stopped.get(command):
            return Phrase("{failure} It has already run in part.", {"failure": failure.said})
        if self.box is None or self.always or self.box.can_start_in(cwd, self.temporary):
            return None
        return Phrase(
            "The current folder {path} is not visible in the sandbox.",
            {"path": approval.render(cwd)},
        )

    def begin(self, box: Sandbox | None) -> None:
        """Record the state before a command, or before the last one of several at once."""
        if box is None:
            return
        if not self._still_runs:  # else the state recorded before counts
            self._before = box.search().states

    def end(
        self,
        command: str,
        result: CommandResult,
        box: Sandbox | None,
        report: RiskReport,
        *,
        can_ask: bool = False,
        answers: UserAnswers = "now",
    ) -> SandboxFindings:
        """Return what to report about a command that ran; see `PolicyPort.after_run`."""
        if box is None:
            return SandboxFindings()
        named, notices = self._restore_planted(result, box)
        known, asks = command in self.stopped, can_ask and result.exit_code not in {0, None}
        self.answers = answers
        notes = [
            *self._possible_errors(command, box, report),
            *self._describe_stopped(command, result, box),
            *([] if self._both else _seen_in(box, report)),
        ]
        if named:
            more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
            notes.append(
                "the command changed files that other programs read or run: "
                f"{', '.join(map(str, named[:_MOST_NAMED]))}{more}. The user has been notified."
            )
        if not asks and (not self.told or command in self.stopped):
            notes += filter(None, [self._outside()])
        if not self.told:
            self.told = True
            notes.insert(0, _first_note(box))
        note = "\n".join(f"{_MARK}{text}]" for text in notes)
        changed = tuple(map(str, named[:_MOST_RECORDED]))
        failure = self.stopped.get(command) if asks and not known and not self.always else None
        if answers == "never":  # it may be repeated, for it can only run inside
            self.stopped.clear()
        return SandboxFindings(note, tuple(notices), changed, failure.said if failure else None)

    def _restore_planted(
        self, result: CommandResult, box: Sandbox
    ) -> tuple[list[Phrase], list[Phrase]]:
        """Return what became of files that other tools read or run, and what the user is told."""
        if box.reads_only and not self._still_runs:
            return [], []
        after = box.search()
        named = _describe_changes(find_planted(self._before, after.states), box.workspace)
        self._before = after.states
        self._still_runs = any(job.state == "running" for job in result.jobs)
        notices = [_notice(named)] if named else []
        if after.stopped and (named or not self._told_of_stop):
            self._told_of_stop = True
            place = _on_one_line(os.path.relpath(after.stopped, box.workspace))
            notices.append(
                Phrase(
                    "The search for files that other tools read stopped after {count} entries, "
                    "at {path}; what a command changes further down is not shown.",
                    {"count": MOST_ENTRIES, "path": place},
                )
            )
        return named, notices

    def was_told(self, texts: Iterable[str]) -> None:
        """Find in the history of a resumed session that the model was told."""
        mark = _MARK + prompts.text("sandbox.opening")[:40]
        self.told = any(mark in one for one in texts)

    def of_job(self, job: Job, output: str) -> str:
        """Return the note on a job that the sandbox seems to have stopped, or ""."""
        failure = approval.sandbox_failure(output, job.exit_code, job.command)
        if failure is None or job.fate != "sandbox" or job.state != "ended":
            return ""
        if self.answers != "never" and job.exit_code:
            self.stopped[job.command] = failure
        return f"{_MARK}{' '.join(filter(None, (str(failure.said), self._outside())))}]"

    def _outside(self) -> str:
        """Return what can be done about what the sandbox does not let a command do, or "".

        That nothing can be done, because nobody can approve, is told once.
        """
        if self.told and self.answers == "never":
            return ""
        return prompts.text(f"sandbox.outside_{self.answers}")

    def _possible_errors(self, command: str, box: Sandbox, report: RiskReport) -> list[str]:
        """Return what a command may have got wrong."""
        shown = _OF_THE_SESSION if box.gives.own_processes else {"lists"}
        shown |= {"sockets"} if box.local_sockets else set()
        kinds = {name: MACHINE_PROGRAMS.get(name) for name in _programs(report)}
        blind = [name for name, kind in kinds.items() if kind is not None and kind not in shown]
        if not blind:
            return []
        names = ", ".join(sorted(blind))
        why = Phrase(
            "Needs processes or services of this machine, which the sandbox does not show."
        )
        self.stopped[command] = approval.SandboxFailure("process", names, why)
        return [
            f"{names} saw the sandbox, not this machine: its processes, network and services are "
            "not visible inside."
        ]

    def _describe_stopped(self, command: str, result: CommandResult, box: Sandbox) -> list[str]:
        code = next((one.code for one in result.pipe if one.code), result.exit_code)
        failure = approval.sandbox_failure(result.text, code, command)
        shown = box.reads_only and not code  # files may hold such messages
        if failure is None or shown or command in self.stopped:
            return []
        failure = failure._replace(read_only=box.reads_only)
        if code:  # else it may have done its work, and is not asked about again
            self.stopped[command] = failure
        return [str(failure.said)]


def _first_note(box: Sandbox) -> str:
    """Return the sentence that tells the model of the sandbox, by what its kind gives."""
    gives = box.gives
    texts = {
        "private_tmp": gives.private_tmp,
        "hides_names": gives.hides_names,
        "own_network": gives.own_network,
        "own_processes": gives.own_processes,
        "own_terminals": gives.own_terminals and gives.shared_memory,
        "own_sockets": box.local_sockets,
    }
    names = ("opening", *(name if has else f"no_{name}" for name, has in texts.items()), "closing")
    return " ".join(prompts.text(f"sandbox.{name}") for name in names if name != "own_terminals")


def runs_unasked(decision: Decision) -> bool:
    """Return whether policy, and nobody else, decided that a command runs."""
    return decision.by not in ("person", events.BY_PROGRAM)


def _lists_processes(report: RiskReport) -> bool:
    """Return whether a command is only a list of processes and sockets, word for word."""
    others = {n for n in _programs(report) if MACHINE_PROGRAMS.get(n) not in _OF_THE_SESSION}
    if report.label != "safe_readonly" or not others < _programs(report) or others - _FILTERS:
        return False
    from kogniterm.approval.analysis.footprint import leaves_shell

    return leaves_shell(report.command)


def _seen_in(box: Sandbox, report: RiskReport) -> list[str]:
    """Return whose processes and open files were looked at, where the result has no label."""
    listed = {
        name for name in _programs(report) if MACHINE_PROGRAMS.get(name) in ("lists", "owners")
    }
    if not listed or not box.gives.own_processes:
        return []
    return [f"{', '.join(sorted(listed))} saw what this session's commands run, not the machine"]


def _programs(report: RiskReport) -> set[str]:
    return {PurePath(argv[0]).name for argv in report.programs if argv}


def _describe_changes(different: Sequence[tuple[str, How]], workspace: str) -> list[Phrase]:
    """Return what became of the files, by their paths from the workspace as they may be shown.

    Several of one folder, in which the same became of them, are one entry.
    """
    counts = Counter((path.rpartition("/")[0], how) for path, how in different)
    found: dict[tuple[str, str], Phrase] = {}
    for path, how in different:
        folder = path.rpartition("/")[0]
        count = counts[folder, how] if folder != workspace else 1
        if count > _TOGETHER:
            path = folder
        shown = _on_one_line(os.path.relpath(path, workspace))
        text = f"{shown}/ ({count})" if count > _TOGETHER else shown
        found.setdefault((path, how), Phrase(_BECAME[how].template, {"path": text}))
    return list(found.values())


def _on_one_line(path: str) -> str:
    """Return a path on one line: a command chose it, so it must not imitate KogniTerm's text."""
    text = path.encode("utf-8", "backslashreplace").decode("utf-8")
    return approval.render(text).replace("\n", "\\n")


_BECAME = {
    "appeared": Phrase("{path} (new)"),
    "changed": Phrase("{path} (changed)"),
    "removed": Phrase("{path} (deleted)"),
}


def _notice(named: Sequence[Phrase]) -> Phrase:
    rest = len(named) - _MOST_NAMED
    return Phrase(
        "A sandboxed command changed files that other tools run or read: {paths}{more}. Review "
        "them before you use this folder outside the sandbox, and delete unwanted ones with rm.",
        {
            "paths": tuple(named[:_MOST_NAMED]),
            "more": Phrase(" and {count} more", {"count": rest}) if rest > 0 else "",
        },
    )
