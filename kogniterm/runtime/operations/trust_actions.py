"""Trust of a folder: what `kogniterm trust`, /trust and an editor all do and say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.errors import UsageError
from kogniterm.runtime.extensions.hooks.hook_files import project_hooks
from kogniterm.runtime.extensions.servers.mcp_servers import missing_servers
from kogniterm.runtime.operations.action import Report
from kogniterm.runtime.services.policy_service import project_rules_of
from kogniterm.runtime.trust.instruction_texts import NestedInstructions, in_force
from kogniterm.runtime.trust.plugin_folders import REVOKE
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.runtime.trust.trust_store import (
    TrustFinding,
    joined,
    own_plugins,
    policy_texts,
    revoke_trust,
    sources_in,
    trust_files,
    trust_store,
    trusted_files,
)
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
    # A plugin that cannot be used has no files, and nothing that could be trusted; nor has, as a
    # project, the folder of one that can.
    filled = [one for one in sources if one.files or (one.finding.known and not one.own)]
    return FolderTrust(
        tuple(file for one in sources for file in one.files),
        joined(one.finding for one in filled or sources if one.files or not one.own),
        tuple(problem for one in sources for problem in one.seen.passed_over),
        changes,
    )


def read_argument(session: LiveSession, argument: str) -> tuple[Path, bool]:
    """Return the folder that /trust is about, and whether to revoke its trust.

    That is the session's folder, or that of a plugin of the user. Raises `UsageError`.
    """
    word, _space, rest = argument.strip().partition(" ")
    name = rest.strip() if word == REVOKE else argument.strip()
    folder = Path(session.folder)
    if name:
        own = own_plugins(session.archive.paths, folder)
        if name not in own:
            raise UsageError(
                "/trust takes: revoke, or the name of a plugin of yours. {name} is none of them.",
                name=name,
            )
        folder = own[name]
    return folder, word == REVOKE


def trusted_already(argument: str) -> Phrase:
    """Return the answer to /trust with this argument where the folder is trusted."""
    command = f"/trust revoke {argument}".strip()
    return Phrase("This folder is trusted; to revoke this, use {command}.", {"command": command})


def trust_found(paths: Paths, folder: Path, files: tuple[ProjectFile, ...]) -> None:
    """Trust `files` of `folder`.

    Raises `SettingsError` for rules or hooks that are wrong, which would keep every session from
    opening; then nothing is trusted.
    """
    project_rules_of(policy_texts(files))
    project_hooks(files)
    trust_files(paths, folder, files)


async def trust(session: LiveSession, folder: Path, files: tuple[ProjectFile, ...]) -> Report:
    """Trust exactly `files` of `folder`, as the user saw them, and use what is for the session.

    Raises `SettingsError` for rules or hooks that are wrong; then nothing is trusted.
    """
    trust_found(session.archive.paths, folder, files)
    trusted = {file.name: file.digest for file in files}
    session.journal.record(Noted("trust", {"folder": str(folder), "files": trusted}))
    in_use = await _use(session)
    _look(session)
    # A plugin's folder can hold others that only sessions in it have.
    mine, extensions = [one for one in files if one in in_use], session.extensions
    names = ", ".join(
        (*extensions.agents.missing(mine), *missing_servers(extensions.servers, mine))
    )
    later = Phrase("Sub-agents and MCP servers from the next session on: {names}", {"names": names})
    return Report(lines=(TRUSTED, later) if names else (TRUSTED,))


async def revoke(session: LiveSession, folder: Path) -> Report:
    """Revoke the trust of `folder`. Raises `UsageError` when it was not trusted."""
    report = revoke_folder(session.archive.paths, folder)
    session.journal.record(Noted("trust", {"folder": str(folder), "files": {}}))
    await _use(session)
    _look(session)
    return report


def revoke_folder(paths: Paths, folder: Path) -> Report:
    """Revoke the trust of `folder`. Raises `UsageError` when it was not trusted."""
    if not revoke_trust(paths, folder):
        raise UsageError("{folder} is not trusted.", folder=folder)
    told = Phrase("Trust revoked. The folder's files no longer apply.")
    return Report({"folder": str(folder), "trusted": False}, [told])


async def _use(session: LiveSession) -> tuple[ProjectFile, ...]:
    """Put the trusted files in force, and no others; return them."""
    journal, paths = session.journal, session.archive.paths
    session.archive.first_walk.take()
    files, _notices = trusted_files(paths, Path(session.folder))
    session.policy.use_project_rules(policy_texts(files))
    extensions = session.extensions
    extensions.hook_service.project = project_hooks(files)
    extensions.agents.use_project(files)
    await extensions.servers.use_project(files)
    text = journal.redact(in_force(paths, files))
    session.context.instruct(text)
    session.context.nested = NestedInstructions(session.context.nested.workspace, files)
    return files


def _look(session: LiveSession) -> None:
    """Scan the folder in the background where it is trusted; drop what was found where not."""
    if session.memory is not None:
        session.memory.project.look()
