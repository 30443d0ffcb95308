"""Files of a project: what the user trusts of them, and the AGENTS.md that /init proposes.

The model writes AGENTS.md in a usual turn, whose edit is approved like any other. Where the model
is too small for that, the file gets what a scan of the folder finds, between two marks.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import prompts
from kogniterm.memory.project.project_profile import TITLES, ProjectProfile
from kogniterm.memory.project.project_scan import scan
from kogniterm.runtime.extensions.hooks.hook_files import HookSet, project_hooks
from kogniterm.runtime.trust.instruction_texts import NestedInstructions, in_force
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.runtime.trust.trust_store import TrustStore, policy_texts
from kogniterm.sessions.records import Noted

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession


def trust(session: LiveSession, files: tuple[ProjectFile, ...]) -> None:
    """Trust exactly `files`, as the user saw them.

    Their rules apply from now on, and the model gets their instructions.

    Raises `SettingsError` for rules or hooks that are wrong; then nothing is trusted.
    """
    hooks = project_hooks(files)
    session.policy.use_project_rules(policy_texts(files))
    session.extensions.hook_service.project = hooks
    _store(session).trust(Path(session.folder), files)
    journal = session.journal
    journal.record(Noted("trust", {"files": {file.name: file.digest for file in files}}))
    _use(session, files)
    _look(session)


def revoke(session: LiveSession) -> bool:
    """Revoke the trust of the folder; return False when it was not trusted."""
    if not _store(session).revoke(Path(session.folder)):
        return False
    session.policy.use_project_rules({})
    session.extensions.hook_service.project = HookSet()
    session.journal.record(Noted("trust", {"files": {}}))
    _use(session, ())
    session.context.agents.revoke_project()
    _look(session)
    return True


def _use(session: LiveSession, files: tuple[ProjectFile, ...]) -> None:
    """Give the model the user's instructions and those of trusted `files`, and their skills."""
    journal = session.journal
    session.archive.first_walk.take()
    text = journal.redact(in_force(session.archive.paths, files))
    session.context.instruct(text, skills=session.extensions.skills.catalogue())
    session.context.nested = NestedInstructions(session.context.nested.workspace, files)


def scan_project(session: LiveSession) -> ProjectProfile:
    """Scan the workspace because the user asks for it; blocks, for a thread."""
    if session.memory is not None:
        return session.memory.project.scan_now()
    return scan(Path(session.folder), session.journal.clock)


def _look(session: LiveSession) -> None:
    """Scan the folder in the background where it is trusted; drop what was found where not."""
    if session.memory is not None:
        session.memory.project.look()


def _store(session: LiveSession) -> TrustStore:
    return TrustStore(session.archive.paths.trust_file)


MOST_LISTED = 12
START, END = "<!-- found by /init -->", "<!-- end of what /init found -->"


def init_request(profile: ProjectProfile, wanted: str, *, exists: bool) -> str:
    """Return the task by which the model writes AGENTS.md, or improves the one that `exists`."""
    text = prompts.text(
        "init.task",
        task="Improve" if exists else "Write",
        facts=profile.summary() or "nothing: the folder holds no files that are known",
        how=prompts.text("init.improve") if exists else prompts.text("init.write"),
    )
    return f"{text}\n\n{prompts.text('init.besides', wanted=wanted)}" if wanted else text


def project_file(before: str, profile: ProjectProfile, name: str, wanted: str = "") -> str:
    """Return the file's new text: what users wrote stays, what was found is between two marks.

    `wanted` is added to what users wrote.
    """
    found = "\n".join([START, *_sections(profile), END])
    own = f"- {wanted}\n\n" if wanted else ""
    if not before.strip():
        notes = (
            "Instructions for all who work on this project. Add your own here; /init keeps them."
        )
        return f"# {name}\n\n{notes}\n\n{own}{found}\n"
    first, last = before.find(START), before.find(END)
    if 0 <= first < last:
        return before[:first] + own + found + before[last + len(END) :]
    return f"{before.rstrip()}\n\n{own}{found}\n"


_RULES = ("formatter", "line_length", "indent", "commits")


def _sections(profile: ProjectProfile) -> list[str]:
    sections = (
        ("Build", [f"`{command}`" for command in profile.values("build")]),
        ("Test", [f"`{command}`" for command in profile.values("test")]),
        ("Lint", [f"`{command}`" for command in profile.values("lint")]),
        ("Conventions", [f"{TITLES[n]}: {profile.line(n)}" for n in _RULES if profile.values(n)]),
        ("Layout", [f"`{folder}`" for folder in profile.values("folders")]),
        ("Languages", list(profile.values("languages"))),
        ("Frameworks", list(profile.values("frameworks"))),
        ("Dependencies", list(profile.values("dependencies"))),
    )
    lines: list[str] = []
    for title, items in sections:
        if items:
            lines += ["", f"## {title}", "", *(f"- {item}" for item in items[:MOST_LISTED])]
    return lines or ["", "Nothing was found here yet."]
