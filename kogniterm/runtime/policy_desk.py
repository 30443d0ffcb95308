"""Policy in a session: where the pure rules of `approval` meet its settings and its sandbox."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import approval
from kogniterm.errors import UsageError
from kogniterm.execution.sandbox import Sandbox, probe
from kogniterm.types import (
    ActionRequest,
    ApprovalMode,
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


@dataclass(slots=True)
class PolicyDesk:
    """Judges every request of a session. `box` is None when commands run without a sandbox."""

    workspace: str
    box: Sandbox | None
    always_boxed: bool = False
    unboxed_ok: bool = False
    allow_reads: bool = False
    local_unrestricted: bool = False

    @classmethod
    def from_settings(cls, settings: Settings, paths: Paths, workspace: str) -> PolicyDesk:
        """Find the sandbox. Raises `UsageError` when auto mode would run without one unasked."""
        found = probe(paths.data / "probe", settings.sandbox)
        box = None
        if found.kind != "none":
            home = str(Path.home())
            box = Sandbox(
                found.kind,
                workspace,
                home,
                hidden=(str(paths.config), str(paths.data)),
                program=found.program,
            )
        elif settings.sandbox != "off" and settings.approval_mode == "auto":
            why = "; ".join(f"{kind}: {reason}" for kind, reason in found.reasons.items())
            raise UsageError(
                "No sandbox works here ({why}); install bubblewrap, or run without one by "
                "--no-sandbox.",
                why=why,
            )
        return cls(
            workspace=workspace,
            box=box,
            always_boxed=settings.sandbox in ("bubblewrap", "landlock"),
            unboxed_ok=settings.sandbox == "off",
            allow_reads=settings.allow_reads,
            local_unrestricted=settings.local_unrestricted,
        )

    def assess(self, request: ActionRequest, cwd: str) -> RiskReport:
        """Facts about a request. Edits and reads are judged as the commands they amount to."""
        if request.effect == "network":
            reason = Text("It uses the network.")
            effect = Effect("network", request.command, outside=True)
            return RiskReport(request.command, "needs_approval", (reason,), (effect,))
        text = request.command
        if request.effect != "command":
            path = shlex.quote(str(request.arguments.get("path", "")))
            text = f"cat -- {path}" if request.effect == "read" else f"echo x > {path}"
        report = approval.classify(text, cwd=cwd, workspace=self.workspace)
        return replace(report, command=request.command)

    def judge(
        self, request: ActionRequest, report: RiskReport, mode: ApprovalMode, model: ModelInfo
    ) -> Verdict:
        """Policy's word on a request."""
        if report.label == "dangerous":
            return (
                Verdict("deny", report.reasons)
                if mode == "auto"
                else Verdict("ask", report.reasons)
            )
        if mode == "manual":
            free = self.allow_reads and report.label == "safe_readonly"
            return Verdict("allow" if free else "ask", report.reasons)
        if model.local and not self.local_unrestricted and report.label != "safe_readonly":
            return Verdict("ask", (Text("The local model may only read by itself."),))
        if report.label != "needs_approval" or self.box is not None or self.unboxed_ok:
            return Verdict("allow", report.reasons)
        return Verdict("ask", report.reasons)

    def box_for(self, decision: Decision, report: RiskReport) -> Sandbox | None:
        """The sandbox an approved command runs in.

        What a person approved with its effects in view runs as they would run it; what policy
        approved by itself runs confined.
        """
        if self.box is None or (decision.by == "person" and not self.always_boxed):
            return None
        return self.box


class NobodyToAsk:
    """The approver of unattended runs: what policy does not allow is refused."""

    def __init__(self, mode: ApprovalMode) -> None:
        self._mode = mode

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        """Refuse, and say what would have allowed it."""
        hint = "" if self._mode == "auto" else "; run with --auto-approve to allow what is harmless"
        reason = f"nobody is there to approve it{hint}"
        return Decision("reject", request.command, "policy", reason)
