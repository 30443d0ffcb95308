"""The AGENTS.md that /init proposes for a project.

The model writes AGENTS.md in a usual turn, whose edit is approved like any other. Where the model
is too small for that, the file gets what a scan of the folder finds, between two marks.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import prompts
from kogniterm.memory.project import TITLES, ProjectProfile, scan

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession


def scan_project(session: LiveSession) -> ProjectProfile:
    """Scan the workspace because the user asks for it; blocks, for a thread."""
    if session.memory is not None:
        return session.memory.project.scan_now()
    return scan(Path(session.folder), session.journal.clock)


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
