"""The facts about a command on hosts: what it does there, and where it may run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from kogniterm import approval
from kogniterm.addons.hosts.answer_groups import host_groups
from kogniterm.addons.hosts.host_inventory import inventory_files, inventory_of
from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.runtime.services.script_hashes import changed_file
from kogniterm.types import CHANGING_KINDS, ActionRequest, Phrase, RiskReport

REMOTE_HOME = "/home/user"
"""Stands for the folder in which a command on another machine starts: its user's home."""
NO_WORKSPACE = "/no/workspace"
"""Stands for the workspace of such a command, which has none."""
_MOST_CHANGED = 20
_PATTERN = re.compile(r"[*?\[\]{}$`\n]")
"""Signs in a path that the shell of a host would replace."""
_ELSEWHERE = {
    "Writes {path}, outside the workspace.": Phrase("Writes {path}."),
    "Moves {path}, outside the workspace.": Phrase("Moves {path}."),
    "Deletes {path}, which may be outside the workspace.": Phrase("Deletes {path}."),
    "Deletes a folder outside the workspace: {path}.": Phrase("Deletes a folder: {path}."),
    "Creates a link to {path}, outside the workspace.": Phrase("Creates a link to {path}."),
    "Changes the permissions of {path}, outside the workspace.": Phrase(
        "Changes the permissions of {path}."
    ),
}
"""Reasons about a workspace, as they are told of a machine that has none. No hard limit is one."""


def assess_on_hosts(request: ActionRequest, known: Mapping[str, str], workspace: str) -> RiskReport:
    """Return the facts about a command on other machines, by its text alone.

    Nothing is looked up on this machine, and nothing there is a workspace. The files of the
    inventory decide where it runs; one that changed in this session, where they were `known`,
    needs approval.
    """
    report = _at_home(approval.classify(request.command, cwd=REMOTE_HOME, workspace=NO_WORKSPACE))
    reasons, label = report.reasons, report.label
    if request.arguments.get("become"):
        label = label if label == "dangerous" else "needs_approval"
        reasons = (Phrase("Runs as another user of the hosts, usually root."), *reasons)
    deciding = inventory_files(inventory_of(request))
    new = (name for name in deciding if known and name not in known)
    changed = changed_file(known, workspace) or next(new, None)
    if changed is not None:
        label = label if label == "dangerous" else "needs_approval"
        told = Phrase(
            "{file} changed in this session, and decides where and how this runs.",
            {"file": approval.render(changed)},
        )
        reasons = (told, *reasons)
    if label == "workspace_write":
        label = "needs_approval"
    return replace(
        report, label=label, reasons=reasons, deciding=deciding,
        groups=host_groups(request.hosts, label),
    )  # fmt: skip


def _at_home(report: RiskReport) -> RiskReport:
    """Return `report` with the home of the remote user by its usual sign."""

    def short(value: object) -> object:
        text = str(value)
        here = text == REMOTE_HOME or text.startswith(f"{REMOTE_HOME}/")
        return f"~{text.removeprefix(REMOTE_HOME)}" if here else value

    reasons = tuple(
        replace(
            _ELSEWHERE.get(one.template, one),
            values={name: short(value) for name, value in one.values.items()},
        )
        for one in report.reasons
    )
    effects = tuple(replace(one, target=str(short(one.target))) for one in report.effects)
    return replace(report, reasons=reasons, effects=effects)


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
