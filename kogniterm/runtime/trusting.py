"""Trust given or taken back while a session runs: it holds from that moment on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.runtime.instructions import tell
from kogniterm.runtime.trust import ProjectFile, TrustStore, instructions_text, policy_texts
from kogniterm.sessions.records import Noted

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession


def trust(session: LiveSession, files: tuple[ProjectFile, ...]) -> None:
    """Trust exactly `files`, as the person saw them: their rules judge what comes, the model is
    told their instructions.

    Raises `SettingsError` for rules that are wrong; then nothing is trusted.
    """
    session.policy.use_project_rules(policy_texts(files))
    _store(session).trust(Path(session.folder), files)
    session.record(Noted("trust", {"files": {file.name: file.digest for file in files}}))
    tell(session.journal, session.record, session.redact(instructions_text(files)))


def revoke(session: LiveSession) -> bool:
    """Trust the folder no longer; False when it was not trusted."""
    if not _store(session).revoke(Path(session.folder)):
        return False
    session.policy.use_project_rules({})
    session.record(Noted("trust", {"files": {}}))
    tell(session.journal, session.record, "")
    return True


def _store(session: LiveSession) -> TrustStore:
    return TrustStore(session.cabinet.paths.trust_file)
