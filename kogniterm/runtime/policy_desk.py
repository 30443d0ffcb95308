"""Policy in a session: where the pure rules of `approval` meet settings, leases and sandbox."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import approval
from kogniterm.approval import Circumstances, Lease, Offer, RuleSet, SandboxFailure
from kogniterm.approval.leases import LeaseKind
from kogniterm.errors import UsageError, why
from kogniterm.execution.repository import hooks_that_run, settings_that_run
from kogniterm.execution.sandbox import Sandbox, probe
from kogniterm.types import (
    ActionRequest,
    ApprovalMode,
    CommandResult,
    Decision,
    Effect,
    ModelInfo,
    RiskReport,
    Text,
    Verdict,
)

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.settings import Settings


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What a person set about policy. `unboxed_ok`: they typed `--no-sandbox`."""

    always_boxed: bool = False
    unboxed_ok: bool = False
    allow_reads: bool = False
    small_model_forced: bool = False


@dataclass(slots=True)
class PolicyDesk:
    """Judges every request of a session. `box` is None when commands run without a sandbox."""

    workspace: str
    box: Sandbox | None
    settings: PolicySettings
    rules: RuleSet
    now: Callable[[], float]
    project: RuleSet = field(default_factory=RuleSet)
    leases: list[Lease] = field(default_factory=list)
    stopped: dict[str, SandboxFailure] = field(default_factory=dict)
    filled: frozenset[str] = frozenset()
    """Variables that commands outside a sandbox filled with data: they may turn out to be code."""
    filled_inside: frozenset[str] = frozenset()
    """The same for sandboxed commands, which get those of both sides."""
    _granted: int = 0

    def assess(self, request: ActionRequest, cwd: str) -> RiskReport:
        """Facts about a request. Edits and reads are judged as the commands they amount to."""
        if request.effect == "network":
            reason = Text("It uses the network.")
            effect = Effect("network", request.command, outside=True)
            return RiskReport(request.command, "needs_approval", (reason,), (effect,))
        if request.effect == "person":
            return RiskReport(request.command, "safe_readonly", (Text("It asks you something."),))
        if request.effect == "keystrokes":
            reason = Text("It reaches into a command that is running.")
            effect = Effect("process", str(request.arguments.get("id", "")))
            return RiskReport(request.command, "needs_approval", (reason,), (effect,))
        text = request.command
        if request.effect != "command":
            path = shlex.quote(str(request.arguments.get("path", "")))
            text = f"cat -- {path}" if request.effect == "read" else f"echo x > {path}"
        # Where it will run is not decided yet.
        suspect = self.filled | self.filled_inside
        report = approval.classify(text, cwd=cwd, workspace=self.workspace, filled=suspect)
        return replace(_with_repository(report, cwd), command=request.command)

    def judge(
        self,
        request: ActionRequest,
        report: RiskReport,
        mode: ApprovalMode,
        model: ModelInfo,
        *,
        unknown_outcome: bool = False,
    ) -> Verdict:
        """Policy's word on a request; a lease that allowed it is used once.

        With `unknown_outcome` the same was started before and nobody knows how it ended.
        """
        if request.effect == "person":
            # The question is its own approval: nothing happens but that a person reads it.
            return Verdict("allow", report.reasons)
        circumstances = Circumstances(
            mode=mode,
            sandboxed=self.box is not None and request.effect == "command",
            unsandboxed_ok=self.settings.unboxed_ok,
            safe_unasked=self.settings.allow_reads,
            small_model=model.one_command,
            small_model_forced=self.settings.small_model_forced,
            unknown_outcome=unknown_outcome,
            folder=self.workspace,
            now=self.now(),
        )
        verdict = approval.judge(
            report,
            request,
            rules=self.rules + self.project,
            leases=self.leases,
            circumstances=circumstances,
        )
        if verdict.lease_id is not None:
            self.leases = [
                lease.taken() if lease.id == verdict.lease_id else lease for lease in self.leases
            ]
        failure = self.stopped.get(request.command)
        if failure is not None and verdict.kind == "allow":
            wider = Text("The sandbox stopped it before; approved, it runs outside.")
            return Verdict("ask", (failure.text, wider, *report.reasons), verdict.trace)
        return verdict

    def box_for(self, decision: Decision) -> Sandbox | None:
        """The sandbox an approved command runs in.

        What a person approved with its effects in view runs as they would run it; what policy
        approved by itself runs confined.
        """
        if self.box is None or (decision.by == "person" and not self.settings.always_boxed):
            return None
        return self.box

    def after_run(self, command: str, result: CommandResult, box: Sandbox | None) -> str:
        """What the model must know when the sandbox was in the way; remembered for asking."""
        if box is None:
            before, self.filled = self.filled, self._fills(command, self.filled)
            # What it changed is carried into the sandbox too.
            self.filled_inside = (self.filled_inside - (before - self.filled)) | self.filled
            return ""
        self.filled_inside = self._fills(command, self.filled_inside)
        failure = approval.sandbox_failure(result.text, result.exit_code)
        if failure is None:
            return ""
        self.stopped[command] = failure
        return (
            f"[sandbox: {failure.text} If it is needed, propose the same command again; "
            "a person will be asked to let it run outside.]"
        )

    def _fills(self, command: str, filled: frozenset[str]) -> frozenset[str]:
        return approval.fills(command, cwd=self.workspace, filled=filled)

    def use_project_rules(self, texts: Mapping[str, str]) -> None:
        """Judge by the rules of a trusted project, text by file name, from now on.

        Raises `SettingsError` for a rule that is wrong or loosens; then nothing changes.
        """
        self.project = _project_rules(texts)

    # --- leases ---------------------------------------------------------------------------------

    def offers(self, report: RiskReport) -> tuple[Offer, ...]:
        """What may be granted together with an approval."""
        return approval.offers(report)

    def grant(
        self,
        report: RiskReport,
        kind: LeaseKind,
        *,
        uses: int | None = None,
        seconds: float | None = None,
    ) -> Lease:
        """Grant a lease in this workspace: for the session, `uses` times, or `seconds` long."""
        self._granted += 1
        lease = approval.grant(
            report,
            kind,
            id=f"l{self._granted}",
            folder=self.workspace,
            expires=self.now() + seconds if seconds is not None else None,
            uses=uses,
        )
        self.leases.append(lease)
        return lease

    def revoke(self, lease_id: str) -> Lease:
        """Take a lease back. Raises `UsageError` when there is none of this id."""
        for lease in self.leases:
            if lease.id == lease_id:
                self.leases.remove(lease)
                return lease
        raise UsageError("There is no lease {lease}; /leases lists them.", lease=lease_id)


def open_policy(
    settings: Settings,
    paths: Paths,
    workspace: str,
    *,
    now: Callable[[], float],
    project_rules: Mapping[str, str],
) -> PolicyDesk:
    """The policy of a session: the person's rules, a trusted project's, and what sandbox works.

    `project_rules` maps file names to their text. Raises `SettingsError` for a rule that is
    wrong, and `UsageError` when auto mode would run without a sandbox unasked.
    """
    found = probe(paths.data / "probe", settings.sandbox)
    box = None
    if found.kind != "none":
        hidden = (str(paths.config), str(paths.data))
        home = str(Path.home())
        box = Sandbox(found.kind, workspace, home, hidden=hidden, program=found.program)
    elif settings.sandbox != "off" and settings.approval_mode == "auto":
        reasons = "; ".join(f"{kind}: {reason}" for kind, reason in found.reasons.items())
        raise UsageError(
            "No sandbox works here ({why}); install bubblewrap, or run without one by "
            "--no-sandbox.",
            why=reasons,
        )
    chosen = PolicySettings(
        always_boxed=settings.sandbox in ("bubblewrap", "landlock"),
        unboxed_ok=settings.sandbox == "off",
        allow_reads=settings.allow_reads,
        small_model_forced=settings.local_unrestricted,
    )
    own = rules_of(paths.policy_file)
    return PolicyDesk(workspace, box, chosen, own, now, _project_rules(project_rules))


def rules_of(file: Path, *, must_exist: bool = False) -> RuleSet:
    """The rules in `file`; none when there is no such file and none is needed.

    Raises `UsageError` for one that cannot be read: what it forbids would be allowed otherwise.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError) and not must_exist:
            return RuleSet()
        raise UsageError("{file} cannot be read: {why}.", file=file, why=why(error)) from error
    return approval.load_rules(text, origin=str(file))


def _project_rules(texts: Mapping[str, str]) -> RuleSet:
    rules = RuleSet()
    for name, text in texts.items():
        rules += approval.load_rules(text, origin=name, tighten_only=True)
    return rules


def _with_repository(report: RiskReport, cwd: str) -> RiskReport:
    """`report`, asking where a repository's own settings or hooks make git run something."""
    if report.label in ("needs_approval", "dangerous"):
        return report
    folders = _repositories(report, Path(cwd))
    reading = report.label == "safe_readonly"
    settings, hooks = settings_that_run(folders), hooks_that_run(folders, reading=reading)
    reasons: list[Text] = []
    if settings:
        named = {"name": approval.render(", ".join(settings[:5]))}
        reasons.append(
            Text("The repository's own settings make git run another program ({name}).", named)
        )
    if hooks:
        named = {"name": approval.render(", ".join(hooks[:5]))}
        reasons.append(Text("The repository's own hooks run with it ({name}).", named))
    if not reasons:
        return report
    return replace(report, label="needs_approval", reasons=(*reasons, *report.reasons))


def _repositories(report: RiskReport, folder: Path) -> list[Path]:
    """The folders in which the command runs git, as far as its text tells."""
    found: list[Path] = []
    for program, *arguments in report.programs:
        if program in ("cd", "pushd") and arguments:
            folder /= arguments[-1]
        elif program.rpartition("/")[2] == "git":
            inner = folder
            for option, value in pairwise(arguments):
                if option == "-C":
                    inner /= value
            found.append(inner)
    return found
