"""Trust of a folder: what `kogniterm trust`, /trust and an editor all do and say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.errors import UsageError
from kogniterm.runtime.extensions.hooks.hook_files import project_hooks
from kogniterm.runtime.operations.action import Report
from kogniterm.runtime.trust.instruction_texts import NestedInstructions, in_force
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.runtime.trust.trust_sources import (
    policy_texts,
    revoke_trust,
    sources_in,
    trust_files,
    trust_store,
    trusted_files,
)
from kogniterm.runtime.trust.trust_store import TrustFinding, joined
from kogniterm.sessions.records import Noted
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.runtime.session import LiveSession

QUESTION = Phrase("Trust this folder?")
ABOUT = (
    Phrase("Instructions are shown to the model; rules can only be stricter than yours."),
    Phrase("Hooks and MCP servers run programs, in the sandbox."),
    Phrase("Its manifests are read, to remember how it is built and tested."),
)
"""Consequences of trust, for the question."""
TRUSTED = Phrase("Folder trusted. Its files now apply.")
_KINDS: Mapping[str, Phrase] = {
    "instructions": Phrase("instructions"),
    "nested": Phrase("instructions for its folder"),
    "import": Phrase("imported by instructions"),
    "policy": Phrase("rules"),
    "command": Phrase("custom command"),
    "agent": Phrase("sub-agent"),
    "skill": Phrase("skill"),
    "hooks": Phrase("hooks"),
    "mcp": Phrase("MCP servers"),
    "plugin": Phrase("other files of a plugin"),
}


class FolderTrust(NamedTuple):
    """The files of a folder that KogniTerm would use, compared with those that are trusted.

    `changes` has a unified diff by file name.
    """

    files: tuple[ProjectFile, ...]
    finding: TrustFinding
    passed_over: tuple[Phrase, ...]
    changes: Mapping[str, str]

    @property
    def rows(self) -> list[tuple[str, Phrase]]:
        """Return the names of the files with their kinds; a skill once."""
        shown = dict.fromkeys((one.shown, one.kind) for one in self.files)
        return [(name, _KINDS[kind]) for name, kind in shown]

    @property
    def texts(self) -> tuple[Phrase, ...]:
        """Return what there is to say about them."""
        none = Phrase("This folder has no files that KogniTerm would use.")
        found = (*self.finding.texts, *self.passed_over)
        return found if self.files else (none, *found)


def compare(paths: Paths, folder: Path) -> FolderTrust:
    """Return the files of `folder`, compared with those trusted."""
    sources, changes = sources_in(paths, folder), dict[str, str]()
    for one in sources:
        changes |= trust_store(paths, plugins=one.own).changes(folder, one.files)
    return FolderTrust(
        tuple(file for one in sources for file in one.files),
        # A plugin that cannot be used has no files, and nothing that could be trusted.
        joined(one.finding for one in sources if one.files or not one.own),
        tuple(problem for one in sources for problem in one.seen.passed_over),
        changes,
    )


async def trust(session: LiveSession, files: tuple[ProjectFile, ...]) -> Report:
    """Trust exactly `files`, as the user saw them.

    Their rules apply from now on, and the model gets their instructions.

    Raises `SettingsError` for rules or hooks that are wrong; then nothing is trusted.
    """
    project_hooks(files)
    session.policy.use_project_rules(policy_texts(files))
    trust_files(session.archive.paths, Path(session.folder), files)
    journal = session.journal
    journal.record(Noted("trust", {"files": {file.name: file.digest for file in files}}))
    await _use(session)
    _look(session)
    agents = ", ".join(session.extensions.agents.missing(files))
    later = Phrase("Sub-agents from the next session on: {names}", {"names": agents})
    return Report(lines=(TRUSTED, later) if agents else (TRUSTED,))


async def revoke(session: LiveSession) -> Report:
    """Revoke the trust of the session's folder. Raises `UsageError` when it was not trusted."""
    report = revoke_folder(session.archive.paths, Path(session.folder))
    session.policy.use_project_rules({})
    session.journal.record(Noted("trust", {"files": {}}))
    await _use(session)
    _look(session)
    return report


def revoke_folder(paths: Paths, folder: Path) -> Report:
    """Revoke the trust of `folder`. Raises `UsageError` when it was not trusted."""
    if not revoke_trust(paths, folder):
        raise UsageError("{folder} is not trusted.", folder=folder)
    told = Phrase("Trust revoked. The folder's files no longer apply.")
    return Report({"folder": str(folder), "trusted": False}, [told])


async def _use(session: LiveSession) -> None:
    """Put the trusted files in force, and no others: hooks, sub-agents, servers, instructions."""
    journal, paths = session.journal, session.archive.paths
    session.archive.first_walk.take()
    files, _notices = trusted_files(paths, Path(session.folder))
    extensions = session.extensions
    extensions.hook_service.project = project_hooks(files)
    extensions.agents.use_project(files)
    await extensions.servers.use_project(files)
    text = journal.redact(in_force(paths, files))
    session.context.instruct(text)
    session.context.nested = NestedInstructions(session.context.nested.workspace, files)


def _look(session: LiveSession) -> None:
    """Scan the folder in the background where it is trusted; drop what was found where not."""
    if session.memory is not None:
        session.memory.project.look()
