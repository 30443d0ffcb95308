"""Policy in a session: the pure rules of `approval` with its settings, permissions and sandbox."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kogniterm import approval
from kogniterm.agent.plan.plan_tools import COMPLETE_STEP
from kogniterm.approval import Circumstances, RuleSet, SecretUse, ShellValues
from kogniterm.approval.analysis.arguments import CallWord, Rules, parse_options
from kogniterm.approval.analysis.paths_and_variables import HOME, is_secret
from kogniterm.approval.analysis.secret_use import HARMLESS
from kogniterm.approval.analysis.shared_findings import DELETES_FILE, DELETES_OWN_FILE
from kogniterm.approval.policy.rules import Rule
from kogniterm.approval.policy.verdict import (
    HOOKS_RUN,
    SETTINGS_RUN,
    UNKNOWN_REPOSITORY,
    VARIABLES_STEER,
)
from kogniterm.errors import ToolError, UsageError
from kogniterm.execution.effect_preview import (
    on_disk,
    plain_paths,
)
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.execution.sandbox_probe import probe
from kogniterm.host.safe_git import (
    find_started,
    remote_addresses,
    repository_outside,
)
from kogniterm.protocols import Tool
from kogniterm.runtime.services.permission_store import PermissionStore, not_found
from kogniterm.runtime.services.sandbox_service import SandboxService, runs_unasked
from kogniterm.runtime.services.script_hashes import changed_file, file_states
from kogniterm.runtime.turn_ports import SandboxFindings, SessionModes
from kogniterm.runtime.user_secrets import UserSecrets, describe_receivers
from kogniterm.sessions.records import Noted
from kogniterm.settings import environment
from kogniterm.settings.user_files import read_if_there, read_text, toml_values
from kogniterm.storage.folders import expand_path, private_folder, seen_from
from kogniterm.tools.plugins import Plugin
from kogniterm.types import (
    CHANGING_KINDS,
    ActionRequest,
    ApprovalMode,
    CommandResult,
    Decision,
    Effect,
    Phrase,
    RiskLabel,
    RiskReport,
    RuleTrace,
    ShellChange,
    UserAnswers,
    Verdict,
)

if TYPE_CHECKING:
    from kogniterm.approval import Lease, Offer
    from kogniterm.approval.policy.permission_file import Permission
    from kogniterm.paths import Paths
    from kogniterm.settings import Settings

GRANTED = "--allow-secret"
"""The origin of the rule for a program that a secret was granted to."""
_EXPORTING = frozenset({"export", "declare", "typeset", "readonly", "set"})
"""Builtins that make a variable one of the programs that later commands start."""


class Assessor(Protocol):
    """An extension that judges requests of its own."""

    def assess(self, request: ActionRequest) -> RiskReport: ...


@dataclass(slots=True)
class PolicyService:
    """Judges every request of a session."""

    workspace: str
    sandbox: SandboxService
    circumstances: Circumstances
    """Those that the settings decide; a request adds its own."""
    rules: RuleSet
    now: Callable[[], float]
    project: RuleSet = field(default_factory=RuleSet)
    session_leases: list[Lease] = field(default_factory=list)
    permissions: PermissionStore | None = None
    """The permissions of projects; None without a user's own files."""
    values: ShellValues = field(default_factory=ShellValues)
    """Variables as commands outside a sandbox left them in the shell; all others hold data."""
    values_inside: ShellValues | None = None
    """The same for sandboxed commands, which get those of both sides; None before the first."""
    git_variable: str = ""
    """A variable that git obeys and a command of the session exported."""
    executor: CommandExecutor | None = None
    """Gets the sandbox of the next command."""
    bounds: Sandbox | None = None
    """The limits of edits, which hold where no sandbox works too."""
    answered_from: Path | None = None
    """The file that answers commands, where none runs."""
    plugin_of: Callable[[str], Plugin | None] = lambda name: None
    """Finds a tool of another package or of an MCP server by its name."""
    tool_of: Callable[[str], Tool | None] = lambda name: None
    """Finds a tool of the session by its name."""
    acting_for: Callable[[ActionRequest], Assessor | None] = lambda request: None
    """Finds the extension that judges and runs a request itself."""
    secrets: UserSecrets = field(default_factory=UserSecrets)
    """The secrets that the user gave."""
    created: Callable[[Path], bool] = lambda path: False
    """Tells whether a file is the session's own: made by it, and changed by nobody else."""
    undo_covers: Callable[[RiskReport], bool] = lambda report: False
    """The check by undo that it would keep all that an action may change in the workspace."""
    note: Callable[[Noted], object] = lambda body: None
    """Journals what is granted and revoked."""
    _granted: int = 0

    @property
    def in_force(self) -> RuleSet:
        """Return the rules that apply now: the user's, then the trusted project's."""
        return self.rules + self.project

    @property
    def sandboxed(self) -> bool:
        """Return whether commands that run without approval run in a sandbox."""
        return self.sandbox.box is not None

    @property
    def auto_works(self) -> bool:
        """Return whether auto mode can run commands: in a sandbox, or with it switched off."""
        nothing_runs = self.answered_from is not None
        return self.sandboxed or self.circumstances.unsandboxed_ok or nothing_runs

    def assess(self, request: ActionRequest, cwd: str) -> RiskReport:
        """Return the facts about a request. Edits and reads are judged as equivalent commands."""
        own = self.acting_for(request)
        if own is not None:
            return own.assess(request)
        if request.effect == "network":
            reason = Phrase("Uses the network.")
            targets = request.hosts or (request.command,)
            effects = tuple(Effect("network", target, outside=True) for target in targets)
            return RiskReport(request.command, "needs_approval", (reason,), effects)
        if request.effect == "person":
            return RiskReport(request.command, "safe_readonly", (Phrase("Asks you a question."),))
        if request.effect == "keystrokes":
            reason = (
                Phrase("Lets a command keep running after KogniTerm ends.")
                if request.arguments.get("action") == "keep"
                else Phrase("Controls a running command.")
            )
            effect = Effect("process", str(request.arguments.get("id", "")))
            inside = request.arguments.get("sandboxed") is True
            label: RiskLabel = "workspace_write" if inside else "needs_approval"
            return RiskReport(request.command, label, (reason,), (effect,))
        if request.effect == "external":
            return self._assess_external(request, cwd)
        if request.effect == "hosts":
            nothing = Phrase("Nothing here runs commands on hosts.")
            return RiskReport(request.command, "dangerous", (nothing,))
        if request.effect == "read" and "path" not in request.arguments:
            return RiskReport(request.command, "safe_readonly", (Phrase("Only reads."),))
        if request.effect != "command":
            return self._assess_path(request, cwd)
        # Inside or outside the sandbox is not decided yet.
        values = self.values.both(self.values_inside or self.values)
        report = approval.classify(
            request.command, cwd=cwd, workspace=self.workspace, values=values
        )
        report = with_remotes(on_disk(self._with_own_files(report), self.workspace))
        if self.answered_from is not None:
            told = Phrase("Nothing runs: {file} answers.", {"file": self.answered_from.name})
            report = replace(report, reasons=(told, *report.reasons))
        if report.label != "dangerous" and self.secrets.use_in(report)[0].names:
            report = replace(report, label="needs_approval")
        return _with_repository(report, self.git_variable, self.workspace, cwd)

    def _with_own_files(self, report: RiskReport) -> RiskReport:
        """Return `report`, which says so if all that it deletes are the session's own files."""
        gone = [one for one in report.effects if one.kind == "delete"]
        if any(one.outside or re.search(r"[*?\[…]", one.target) for one in gone):
            return report
        if not all(self.created(expand_path(self.workspace, one.target)) for one in gone):
            return report
        own = {DELETES_FILE: DELETES_OWN_FILE}
        told = (replace(r, template=own.get(r.template, r.template)) for r in report.reasons)
        return replace(report, reasons=tuple(told))

    def may_follow(
        self, request: ActionRequest, failed: Sequence[Mapping[str, Any]], cwd: str
    ) -> bool:
        """Return whether a request may run behind failed calls; see `PolicyPort.may_follow`."""
        if request.effect == "command":
            return self.assess(request, cwd).label == "safe_readonly"
        if request.effect == "edit":
            path = str(request.arguments.get("path"))  # resolved; a call may name it by a link
            said = [one["args"] for one in failed]
            given = (str(one.get("path")).replace("\0", "") for one in said)
            meant = (os.path.realpath(expand_path(cwd, one)) for one in given)
            return path not in meant and Path(path).name not in str(said)
        return request.effect in ("none", "read", "person")

    def _assess_external(self, request: ActionRequest, cwd: str) -> RiskReport:
        """Return the facts about a tool of another package: what it declares proves nothing."""
        plugin = self.plugin_of(request.tool)
        package = plugin.source if plugin is not None else request.tool
        server = plugin.server if plugin is not None else ""
        reasons = [Phrase(EXTERNAL.template, {"package": package})]
        if server:
            reasons = [Phrase(OF_SERVER.template, {"server": server})]
        effects = [Effect("execute", f"{request.tool} ({package})")]
        declared = plugin.effect if plugin is not None else "none"
        label: RiskLabel = "needs_approval"
        if declared == "network" or request.hosts:
            targets = request.hosts or (request.tool,)
            effects += [Effect("network", target, outside=True) for target in targets]
            reasons.append(Phrase("Uses the network."))
        if declared == "edit":
            edit = self._assess_path(replace(request, effect="edit"), cwd)
            effects += edit.effects
            reasons += edit.reasons
            label = "dangerous" if edit.label == "dangerous" else label
        return RiskReport(request.command, label, tuple(reasons), tuple(effects))

    def _assess_path(self, request: ActionRequest, cwd: str) -> RiskReport:
        """Return the facts about an edit or a read, by its resolved path."""
        path = os.path.realpath(expand_path(cwd, str(request.arguments.get("path", ""))))
        quoted = shlex.quote(path)
        text = f"cat -- {quoted}" if request.effect == "read" else f"echo x > {quoted}"
        workspace = os.path.realpath(self.workspace)
        report = on_disk(approval.classify(text, cwd=workspace, workspace=workspace), workspace)
        if request.effect == "edit" and report.label == "workspace_write":
            report = self._with_protection(report, path)
        return replace(report, command=request.command)

    def _with_protection(self, report: RiskReport, path: str) -> RiskReport:
        """Return the report on an edit of the workspace, which some files there need approval for.

        No sandbox confines a tool, so what a sandbox keeps from commands is found out here.
        """
        shown = approval.render(os.path.relpath(path, os.path.realpath(self.workspace)))
        if is_secret(path):
            reason = Phrase("Writes {path}, which may contain secrets.", {"path": shown})
        elif self.bounds is not None and self.bounds.protects(path):
            reason = Phrase(PROTECTED.template, {"path": shown})
        else:
            return report
        return replace(report, label="needs_approval", reasons=(reason,))

    def judge(
        self,
        request: ActionRequest,
        report: RiskReport,
        modes: SessionModes,
        cwd: str,
        *,
        unknown_outcome: bool = False,
        at_prompt: bool = False,
        allowing: RuleTrace | None = None,
    ) -> Verdict:
        """Return policy's verdict on a request, and note the use of a lease that allowed it.

        With `unknown_outcome` an earlier run of the same has no known end; `at_prompt` is whether a
        user sits at the prompt. `allowing` counts like an allow rule of the user about it.
        """
        verdict, lease = self._verdict(
            request, report, modes, cwd, unknown_outcome=unknown_outcome, at_prompt=at_prompt,
            allowing=allowing,
        )  # fmt: skip
        if lease in self.session_leases:
            self.session_leases[self.session_leases.index(lease)] = lease.use(self.now())
        elif lease is not None and self.permissions is not None:
            self.permissions.note_use(lease.id, self.now())
        return verdict

    def footprint_alone(
        self,
        request: ActionRequest,
        modes: SessionModes,
        cwd: str,
        *,
        at_prompt: bool,
        declared: bool = False,
    ) -> approval.Footprint | None:
        """Return what a request reads and changes, if it would run without a question.

        None if it would not, or if that is not known for certain: then it runs alone. One
        `declared` to mind no others counts with what it is known to write, also before a question,
        unless it is dangerous.
        """
        report = self.assess(request, cwd)
        rules = (rule for rule in self.rules.rules if rule.side_by_side)
        by_rule = any(one.matches(report, tool=request.tool, mode=modes.approval) for one in rules)
        named = approval.footprint(request, report, declared=by_rule)
        found = None if named is None else plain_paths(named.reads, named.writes, self.workspace)
        verdict, _ = self._verdict(request, report, modes, cwd, at_prompt=at_prompt)
        if self.secrets.use_in(report)[0].names:
            return None
        if declared and report.label != "dangerous":
            return approval.Footprint(*found) if found is not None else approval.Footprint()
        if named is None or found is None or verdict.kind != "allow":
            return None
        return named._replace(reads=found[0], writes=found[1])

    def _verdict(
        self,
        request: ActionRequest,
        report: RiskReport,
        modes: SessionModes,
        cwd: str,
        *,
        unknown_outcome: bool = False,
        at_prompt: bool = False,
        allowing: RuleTrace | None = None,
    ) -> tuple[Verdict, Lease | None]:
        """Return the verdict on a request, and the lease that allowed it."""
        if request.effect == "person":
            # A question needs no approval: nothing happens but that the user reads it.
            denying = self._deciding(request, report, modes.approval, ("deny",))
            reasons = tuple(rule.text for rule in denying) or report.reasons
            return Verdict("deny" if denying else "allow", reasons), None
        if request.effect == "hosts" and self.acting_for(request) is None:
            return Verdict("deny", report.reasons), None
        if self.runs_inside(request) and not self._deciding(
            request, report, modes.approval, ("deny", "ask")
        ):
            reads = Phrase("Only reads.")
            return Verdict("allow", (reads,), (RuleTrace("tool", "allow", True, reads),)), None
        use, refusal = SecretUse(), None
        if request.effect in ("command", "hosts"):
            use, refusal = self.secrets.use_in(report, on_hosts=request.effect == "hosts")
        nothing_runs = self.answered_from is not None and request.effect == "command"
        now = self.secrets.answers == "now"
        secret = describe_receivers(use)
        check = request.tool == COMPLETE_STEP.name and request.command in modes.checks
        check = check and not modes.in_plan_mode
        circumstances = self.circumstances._replace(
            # What the user granted with the plan runs as in auto mode: in the sandbox alone.
            mode="auto" if check and self.sandbox.box is not None else modes.approval,
            sandboxed=self.sandbox.box is not None and request.effect == "command",
            unsandboxed_ok=self.circumstances.unsandboxed_ok or nothing_runs,
            small_model=modes.model.info.one_command,
            unknown_outcome=unknown_outcome,
            guarded=_is_protected(report),
            at_prompt=at_prompt,
            folder=os.path.realpath(cwd),
            secret=secret if now else None,
        )
        if circumstances.small_model and circumstances.mode == "auto":
            # Git's own folder, and one opened beside the workspace, lie where undo keeps nothing.
            anywhere = report.git_calls or report.label == "needs_approval"
            box = self.sandbox.box
            beyond = box is not None and bool(anywhere and (box.repository or box.writable))
            undoable = not beyond and self.undo_covers(report)
            circumstances = circumstances._replace(undoable=undoable)
        rules = self.in_force
        if allowing is not None:
            # What a hook of the user allows is a rule that reaches as far as one of theirs.
            words = str(allowing.reason)
            rules += RuleSet((Rule("allow", allowing.origin, tool=request.tool, reason=words),))
        if use.names and not now:
            # Without the grant it is refused below, whatever allows it.
            rules += RuleSet((Rule("allow", GRANTED, programs=(*use.programs, *HARMLESS)),))
        leases = () if use.names else self._usable_leases()
        verdict, lease = self._judge_rules(request, report, cwd, rules, leases, circumstances)
        if verdict.kind == "ask" and self.secrets.answers == "later":
            refusal = refusal or secret  # an answer that was stored allows no secret
        if refusal is not None and verdict.kind != "deny":
            trace = (*verdict.trace, RuleTrace("secret", "deny", True, refusal))
            return Verdict("deny", (refusal,), trace), None
        return verdict, lease

    def _judge_rules(
        self,
        request: ActionRequest,
        report: RiskReport,
        cwd: str,
        rules: RuleSet,
        leases: Sequence[Lease],
        circumstances: Circumstances,
    ) -> tuple[Verdict, Lease | None]:
        """Return the verdict of the rules, which asks where the sandbox is in the way."""
        verdict = approval.judge(
            report, request, rules=rules, leases=leases, circumstances=circumstances
        )
        lease = next((one for one in leases if one.id == verdict.lease_id), None)
        outside = lease is not None and lease.outside
        if verdict.kind == "allow" and not outside:
            obstacle = self._obstacle(request, cwd)
            confined = circumstances.mode == "auto" and not circumstances.small_model
            by_label = lease is None and verdict.trace[-1].origin.startswith("mode ")
            if obstacle is None and circumstances.sandboxed and by_label and not confined:
                obstacle = self._lasting(report)
            if obstacle is not None:
                wider = Phrase("Runs outside the sandbox if you approve it.")
                told = self.sandbox.always or request.refusal is not None
                known = (obstacle,) if told else (obstacle, wider)
                trace = (*verdict.trace, RuleTrace("sandbox", "ask", True, obstacle))
                return Verdict("ask", (*known, *report.reasons), trace), lease
        return verdict, lease

    def runs_inside(self, request: ActionRequest) -> bool:
        """Return whether only a rule or a hook took this call out of the graph."""
        tool = self.tool_of(request.tool)
        if request.effect != "read" or tool is None:
            return False
        try:
            return tool.effect_of(tool.check(request.arguments)) == "none"
        except ToolError:
            return False

    def restricts(self, request: ActionRequest, cwd: str, mode: ApprovalMode) -> bool:
        """Return whether a rule denies a request or asks for it."""
        return bool(self._deciding(request, self.assess(request, cwd), mode, ("deny", "ask")))

    def _deciding(
        self, request: ActionRequest, report: RiskReport, mode: ApprovalMode, kinds: Sequence[str]
    ) -> list[Rule]:
        about = (rule for rule in self.in_force.rules if rule.decision in kinds)
        return [rule for rule in about if rule.matches(report, tool=request.tool, mode=mode)]

    def _obstacle(self, request: ActionRequest, cwd: str) -> Phrase | None:
        """Return why the sandbox is known to stop a command; None when nothing is known."""
        if request.refusal is not None:
            return request.refusal.reason
        if self.sandbox.box is None or request.effect != "command":
            return None
        return self.sandbox.in_the_way(request.command, cwd)

    def _lasting(self, report: RiskReport) -> Phrase | None:
        """Return why a command that only reads needs approval: its state would be dropped."""
        if report.label != "safe_readonly":
            return None
        from kogniterm.approval.analysis.shell_changes import sets_in_shell

        sets = sets_in_shell(report.command)
        if not sets or self._changes(report):
            return None
        names = ", ".join(approval.render(name) for name in sets[:5])
        return Phrase(SETS_STATE.template, {"names": names})

    def _changes(self, report: RiskReport) -> Sequence[ShellChange]:
        """Return the changes of the shell that a command consists of, where they are certain."""
        if self.executor is None or report.label != "safe_readonly":
            return ()
        from kogniterm.approval.analysis.shell_changes import literal_changes

        changes = literal_changes(report.command)
        return changes if changes and self.executor.can_apply(changes) else ()

    def file_states(self, request: ActionRequest, report: RiskReport) -> Mapping[str, str]:
        """Return the state of every file that decides what the request runs, by name."""
        if request.effect not in ("command", "hosts"):
            return {}
        search = environment().get("PATH", "") if request.effect == "command" else ""
        return file_states(report, self.workspace, search)

    def changed_file(self, states: Mapping[str, str]) -> str | None:
        """Return the first of these files that changed since it was judged, or None."""
        return changed_file(states, self.workspace)

    def confine(
        self, decision: Decision, report: RiskReport, *, ahead: bool = False
    ) -> Sandbox | None:
        """Set the executor's sandbox for the next command, as its decision requires.

        One that only sets shell state by literal text is applied there without a process. With
        `ahead` it is not decided yet: that sandbox is built, and nothing else is done.
        """
        outside = {f"lease {lease.id}" for lease in self._usable_leases() if lease.outside}
        box = self.sandbox.choose(decision, report, outside=decision.by in outside)
        if ahead:
            if self.executor is not None and box is not None:
                self.executor.prepare(box)
            return box
        if self.executor is not None:
            self.executor.sandbox, self.executor.literal = box, None
            self.executor.beside = self.sandbox.of_machine(box, decision, report)
            if box is not None and runs_unasked(decision) and (changes := self._changes(report)):
                self.executor.literal = (decision.command, changes)
        self.sandbox.begin(box)
        return box

    def after_run(
        self,
        command: str,
        result: CommandResult,
        box: Sandbox | None,
        *,
        can_ask: bool = False,
        answers: UserAnswers = "now",
    ) -> SandboxFindings:
        """Return what to report about a command that ran; see `PolicyPort.after_run`."""
        ran = approval.classify(command, cwd=self.workspace, workspace=self.workspace)
        if (box is None or not box.reads_only) and not self.secrets.use_in(ran)[0].names:
            # Of others, nothing that they set is carried over.
            if box is not None:
                before = self.values_inside or self.values
                self.values_inside = self._values_after(command, before, result)
            else:
                self.values = self._values_after(command, self.values, result)
                if self.values_inside is not None:
                    # Only what it changed is restored in the sandbox too.
                    self.values_inside = self.values_inside.both(self.values)
            sets = [argv[0] for argv in ran.programs]
            if any(name in _EXPORTING for name in sets) or all(
                name.endswith("=…") for name in sets
            ):
                self.git_variable = next(_git_variables(ran), self.git_variable)
        return self.sandbox.end(command, result, box, ran, can_ask=can_ask, answers=answers)

    def _values_after(
        self, command: str, values: ShellValues, result: CommandResult
    ) -> ShellValues:
        completed = result.exit_code == 0
        return approval.values_after(
            command, cwd=self.workspace, values=values, completed=completed
        )

    def use_project_rules(self, texts: Mapping[str, str]) -> None:
        """Judge by the rules of a trusted project, text by file name, from now on.

        Raises `SettingsError` for a rule that is wrong or loosens; then nothing changes.
        """
        self.project = project_rules_of(texts)

    # --- permissions ----------------------------------------------------------------------------

    @property
    def leases(self) -> tuple[Lease, ...]:
        """The permissions of the session, and those of its project.

        Raises `UsageError` when the file of the latter cannot be used.
        """
        saved = self.permissions.leases(self.workspace) if self.permissions is not None else ()
        return (*self.session_leases, *saved)

    def _usable_leases(self) -> tuple[Lease, ...]:
        """Return the permissions; only those of the session while the file cannot be used."""
        try:
            return self.leases
        except UsageError:
            return tuple(self.session_leases)

    def offers(self, request: ActionRequest, report: RiskReport, cwd: str) -> tuple[Offer, ...]:
        """Return what may be granted together with an approval in `cwd`."""
        from kogniterm.approval.policy.leases import call_offers, edit_offers

        folder, workspace = os.path.realpath(cwd), os.path.realpath(self.workspace)
        if request.effect == "edit":
            return () if _is_protected(report) else edit_offers(report, workspace=workspace)
        if request.effect == "external":
            return call_offers(report)
        if request.effect != "command" or self.secrets.use_in(report)[0].names:
            return ()
        outside = self._can_leave(report, refused=self._obstacle(request, cwd) is not None)
        found = approval.offers(report, folder=folder, workspace=workspace)
        inside = self.sandbox.box is not None and not outside
        usable = (offer for offer in found if offer.kind != "runs" or inside)
        return tuple(offer._replace(outside=outside) for offer in usable)

    def _can_leave(self, report: RiskReport, *, refused: bool) -> bool:
        """Return whether a permission for such a command has to let it run outside the sandbox."""
        if self.sandbox.box is None or self.sandbox.always:
            return False
        return refused or any(_needs_no_sandbox(effect) for effect in report.effects)

    def can_be_saved(self, report: RiskReport, offer: Offer, cwd: str) -> bool:
        """Return whether what is offered can also be granted for the project."""
        from kogniterm.approval.policy.permission_file import can_be_saved

        lease = self._lease(report, offer, cwd, "p1")
        return self.permissions is not None and can_be_saved(lease, toml_values)

    def _lease(self, report: RiskReport, offer: Offer, cwd: str, lease_id: str) -> Lease:
        return approval.grant(
            report,
            offer.kind,
            id=lease_id,
            folder=os.path.realpath(cwd),
            workspace=os.path.realpath(self.workspace),
            outside=offer.outside,
            anywhere=offer.anywhere,
        )

    def grant(self, report: RiskReport, offer: Offer, cwd: str) -> Lease:
        """Grant what was offered in `cwd` until this process ends the session."""
        self._granted += 1
        lease = self._lease(report, offer, cwd, f"s{self._granted}")
        self.session_leases.append(lease)
        self._note_granted(lease)
        return lease

    def save(self, report: RiskReport, offer: Offer, cwd: str) -> Permission:
        """Grant what was offered in `cwd` for the project, in this and later sessions.

        Raises `KognitermError` when it cannot be saved.
        """
        assert self.permissions is not None
        today = datetime.fromtimestamp(self.now(), tz=UTC).date()
        permission = self.permissions.add(self._lease(report, offer, cwd, "p1"), today)
        self._note_granted(permission.lease)
        return permission

    def _note_granted(self, lease: Lease) -> None:
        self.note(Noted("lease", {"granted": lease.id, "text": str(lease.text)}))

    def revoke(self, lease_id: str) -> Lease:
        """Revoke a permission of the session or the project.

        Raises `UsageError` when there is none of this id.
        """
        found = next((lease for lease in self.leases if lease.id == lease_id), None)
        if found is None:
            raise not_found(lease_id)
        if found in self.session_leases:
            self.session_leases.remove(found)
        elif self.permissions is not None:
            self.permissions.revoke(lease_id)
        self.note(Noted("lease", {"revoked": found.id}))
        return found


def open_policy(
    settings: Settings,
    paths: Paths,
    workspace: str,
    *,
    now: Callable[[], float],
    project_rules: Mapping[str, str],
    answered_from: Path | None = None,
) -> PolicyService:
    """Open the policy of a session: the user's rules, a trusted project's, and the sandbox.

    `project_rules` maps file names to their text; `answered_from` is the file that answers
    commands, where none runs and none needs a sandbox. Raises `SettingsError` for a rule that is
    wrong, and `UsageError` when auto mode would run without a sandbox unasked.
    """
    bounds, reasons = open_sandbox(settings, paths, workspace)
    box = None if bounds.kind == "none" or answered_from is not None else bounds
    if (
        box is None
        and answered_from is None
        and settings.sandbox != "off"
        and settings.approval_mode == "auto"
    ):
        raise UsageError(
            "No sandbox works here ({why}). Run `kogniterm doctor` to see "
            "how to fix it, or use --no-sandbox to run without one.",
            why=reasons,
        )
    chosen = Circumstances(
        unsandboxed_ok=settings.sandbox == "off",
        safe_unasked=settings.allow_reads,
    )
    own = rules_of(paths.policy_file)
    sandbox = SandboxService(box, always=settings.sandbox not in ("auto", "off"))
    permissions = PermissionStore(paths.permissions_file, paths.permission_uses)
    permissions.permissions()  # its mistakes are reported before a session begins
    project = project_rules_of(project_rules)
    return PolicyService(
        workspace, sandbox, chosen, own, now, project, permissions=permissions, bounds=bounds,
        answered_from=answered_from,
    )  # fmt: skip


EXTERNAL = Phrase("Runs code of the package {package}, which KogniTerm cannot inspect.")
OF_SERVER = Phrase("Calls the MCP server {server}, which KogniTerm cannot inspect.")
SETS_STATE = Phrase(
    "Sets {names} in the shell for later commands. In ( … ) it would set nothing and only read."
)
PROTECTED = Phrase("Changes {path}, which the sandbox protects from commands.")


def _is_protected(report: RiskReport) -> bool:
    """Return whether an edit changes a file that other tools run or read by themselves."""
    return any(reason.template == PROTECTED.template for reason in report.reasons)


def _needs_no_sandbox(effect: Effect) -> bool:
    """Return whether a sandbox refuses what a command is known to do."""
    if effect.kind in ("network", "privilege", "process", "secret"):
        return True
    return effect.outside and effect.kind in CHANGING_KINDS


def open_sandbox(
    settings: Settings, paths: Paths, workspace: str
) -> tuple[Sandbox, tuple[Phrase, ...]]:
    """Return the sandbox of a session's commands, and why no kind works where it is of none."""
    found = probe(paths.data / "probe", settings.sandbox)
    reasons = [Phrase("{kind}: {reason}", {"kind": kind, "reason": reason})
               for kind, reason in found.reasons.items()]  # fmt: skip
    environ = environment()
    programs = [folder for folder in environ.get("PATH", "").split(":") if folder.startswith("/")]
    at_home = [folder for folder in programs if Path(folder).is_relative_to(Path.home())]
    above_home = Path.home().is_relative_to(workspace)
    own = (str(paths.config), str(paths.data))
    for folder in (paths.config, paths.data, paths.cache) if found.kind != "none" else ():
        with suppress(OSError):  # one that nobody can make needs no protection
            private_folder(folder)  # the sandbox can only protect a folder that exists
    box = Sandbox(
        found.kind,
        workspace,
        str(Path.home()),
        hidden=own,
        program=found.program,
        # The user's own shell finds these programs through PATH.
        closed=(*own, str(paths.cache), *(at_home if above_home else ())),
        # Scripts of the user's own skills are run there, in a folder that is hidden otherwise.
        shown=(
            *filter(None, [environ.get("VIRTUAL_ENV")]),
            str(paths.extensions.skills),
            str(paths.extensions.plugins),
        ),
        own_sockets=found.own_sockets,
        repository=repository_outside(Path(workspace)),
    )
    return box, tuple(reasons)


def rules_of(file: Path, *, must_exist: bool = False) -> RuleSet:
    """Return the rules in `file`; none when the file does not exist and need not.

    Raises `UsageError` for an unreadable file: what it forbids would be allowed otherwise.
    """
    text = read_text(file) if must_exist else read_if_there(file) or ""
    return approval.load_rules(toml_values(file, text))


def project_rules_of(texts: Mapping[str, str]) -> RuleSet:
    """Return a project's rules, text by file name; they may only ask or deny.

    Raises `SettingsError` for a rule that is wrong or allows.
    """
    rules = RuleSet()
    for name, text in texts.items():
        rules += approval.load_rules(toml_values(name, text), tighten_only=True)
    return rules


def _with_repository(report: RiskReport, exported: str, workspace: str, cwd: str) -> RiskReport:
    """Return `report`, asking where a repository's settings or hooks make git run something.

    `exported` is a variable that git obeys and an earlier command set, or empty. The files of the
    settings decide what runs.
    """
    if not report.git_calls or report.label == "dangerous":
        return report
    known = [call for call in report.git_calls if call.folder]
    folders = [*(_folder(call.folder) for call in known), *_git_folders(report, cwd)]
    verbs = frozenset(call.verb for call in report.git_calls)
    reading = report.label == "safe_readonly"
    started = find_started(folders, verbs, reading=reading, workspace=workspace)
    files = (seen_from(os.path.realpath(workspace), file) for file in started.files)
    report = replace(report, deciding=tuple(dict.fromkeys((*report.deciding, *files))))
    is_known = len(known) == len(report.git_calls) and len(folders) < _MOST_FOLDERS
    unknown = _not_there(report, verbs) if is_known else "…"
    found = [
        (SETTINGS_RUN, "name", ", ".join(started.settings[:5])),
        (HOOKS_RUN, "name", ", ".join(started.hooks[:5])),
        (UNKNOWN_REPOSITORY, "path", unknown),
        (VARIABLES_STEER, "name", exported or next(iter(_git_variables(report)), "")),
    ]
    reasons = [
        Phrase(reason.template, {name: approval.render(value)})
        for reason, name, value in found
        if value
    ]
    if not reasons:
        return report
    return replace(report, label="needs_approval", reasons=(*reasons, *report.reasons))


_TO_REMOTES = frozenset({"fetch", "pull", "push", "clone", "ls-remote", "remote"})
_REMOTE_OPTIONS = Rules(
    "", options=dict.fromkeys(("o", "push-option", "depth", "b", "branch", "j", "refmap"), "value")
)


def with_remotes(report: RiskReport) -> RiskReport:
    """Return `report` with the configured addresses of the remotes that git would contact."""
    if Effect("network", "git") not in report.effects:
        return report
    addresses: dict[str, None] = {}
    for call in report.git_calls:
        if call.verb not in _TO_REMOTES or not call.folder:
            continue
        operands = parse_options(map(CallWord, call.words[1:]), _REMOTE_OPTIONS).operands
        remote = operands[0].value if operands and call.verb != "remote" else None
        addresses.update(dict.fromkeys(remote_addresses(_folder(call.folder), remote)))
    if not addresses:
        return report
    known = tuple(Effect("network", address) for address in addresses)
    others = tuple(effect for effect in report.effects if effect != Effect("network", "git"))
    return replace(report, effects=(*others, *known))


def _folder(name: str) -> Path:
    """Return the path of a folder in a report, where a mark stands for the home."""
    return expand_path("/", f"~{name.removeprefix(HOME)}" if name.startswith(HOME) else name)


_MAKE_NO_REPOSITORY = frozenset(
    {"cd", "pushd", "mkdir", "git", "echo", "printf", "touch", "true", "ls", "cat", "pwd", "test"}
)
_MAKE_FOLDERS = frozenset({"init", "clone", "submodule", "worktree"})
_MOST_FOLDERS = 64


def _git_folders(report: RiskReport, cwd: str) -> Sequence[Path]:
    """Return the folders in which git may work, if changes of the folder fail or follow links."""
    found = {cwd: None}
    for step in report.git_calls[0].entered:
        name = str(_folder(step)) if step.startswith(HOME) else step
        for path in [os.path.join(folder, name) for folder in found]:  # noqa: PTH118 - keeps `..`
            for place in (os.path.normpath(path), os.path.realpath(path)):
                if os.path.isdir(place) and len(found) < _MOST_FOLDERS:  # noqa: PTH112 - a string
                    found[place] = None
    return [Path(folder) for folder in found]


def _not_there(report: RiskReport, verbs: frozenset[str]) -> str:
    """Return a missing folder that neither mkdir nor git makes, or in which others may put files.

    It is empty where there is none. A change to a missing folder fails, and git works elsewhere.
    """
    programs = {argv[0] for argv in report.programs}
    if programs <= _MAKE_NO_REPOSITORY and ("mkdir" in programs or verbs & _MAKE_FOLDERS):
        return ""
    using = (call for call in report.git_calls if call.verb not in ("init", "clone"))
    missing = (folder for folder in map(_folder, (call.folder for call in using)))
    return next((str(folder) for folder in missing if not folder.is_dir()), "")


def _git_variables(report: RiskReport) -> Iterator[str]:
    """Yield the variables that git obeys and the command sets."""
    for argv in report.programs:
        name, steers, _ = argv[0].partition("=…")
        if steers and (name.startswith("GIT_") or name in ("HOME", "XDG_CONFIG_HOME")):
            yield name
