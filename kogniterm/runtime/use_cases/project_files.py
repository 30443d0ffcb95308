"""Files for KogniTerm: custom commands, and the AGENTS.md that /init proposes.

The model writes AGENTS.md in a usual turn, whose edit is approved like any other. Where the model
is too small for that, the file gets what a scan of the folder finds, between two marks.

A custom command is a Markdown file that becomes a slash command: `NAME.md` in the folder `commands`
of the configuration, or in a trusted project's `.kogniterm/commands`, becomes `/NAME`. Its text
goes to the model as if it had been typed, with `$ARGUMENTS` replaced by everything after the name
and `$1` to `$9` by its words. A block between two lines `---` at the top may say `description:`
and `arguments:`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import prompts
from kogniterm.errors import UsageError
from kogniterm.memory.project.project_profile import TITLES, ProjectProfile
from kogniterm.memory.project.project_scan import scan
from kogniterm.runtime.context import use_instructions
from kogniterm.runtime.services.trust_store import (
    ProjectFile,
    TrustStore,
    instructions_text,
    policy_texts,
)
from kogniterm.sessions.records import Noted
from kogniterm.text.visible import clean, one_line

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession


def trust(session: LiveSession, files: tuple[ProjectFile, ...]) -> None:
    """Trust exactly `files`, as the user saw them.

    Their rules apply from now on, and the model gets their instructions.

    Raises `SettingsError` for rules that are wrong; then nothing is trusted.
    """
    session.policy.use_project_rules(policy_texts(files))
    _store(session).trust(Path(session.folder), files)
    journal = session.journal
    journal.record(Noted("trust", {"files": {file.name: file.digest for file in files}}))
    use_instructions(journal, journal.redact(instructions_text(files)))
    _look(session)


def revoke(session: LiveSession) -> bool:
    """Revoke the trust of the folder; return False when it was not trusted."""
    if not _store(session).revoke(Path(session.folder)):
        return False
    session.policy.use_project_rules({})
    session.journal.record(Noted("trust", {"files": {}}))
    use_instructions(session.journal, "")
    _look(session)
    return True


def scan_project(session: LiveSession) -> ProjectProfile:
    """Scan the workspace because the user asks for it; blocks, for a thread."""
    if session.memory is not None:
        return session.memory.project.scan_now()
    return scan(Path(session.folder), session.clock)


def _look(session: LiveSession) -> None:
    """Scan the folder in the background where it is trusted; drop what was found where not."""
    if session.memory is not None:
        session.memory.project.look()


def _store(session: LiveSession) -> TrustStore:
    return TrustStore(session.archive.paths.trust_file)


LARGEST = 64 * 1024
MOST_COMMANDS = 100
MOST_LISTED = 12
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLACE = re.compile(r"\$(ARGUMENTS\b|[1-9])")


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A custom command as its file describes it."""

    name: str
    body: str
    description: str = ""
    arguments: str = ""

    def expanded(self, argument: str) -> str:
        """Return the text for the model. Raises `UsageError` when it is empty."""
        try:
            words = shlex.split(argument)
        except ValueError:
            words = argument.split()

        def put(found: re.Match[str]) -> str:
            if found[1] == "ARGUMENTS":
                return argument
            number = int(found[1])
            return words[number - 1] if number <= len(words) else ""

        text = _PLACE.sub(put, self.body).strip()
        if argument and not _PLACE.search(self.body):
            text = f"{text}\n\n{argument}"
        if not text:
            raise UsageError(
                "Custom command /{name} produced no text; check its file and arguments.",
                name=self.name,
            )
        return text


def parse_command(name: str, text: str) -> CustomCommand | None:
    """Return the command in a file's text; None when its name cannot be typed."""
    if not _NAME.fullmatch(name):
        return None
    text = clean(text.removeprefix("\ufeff"))
    head = _FRONT.match(text)
    said: dict[str, str] = {}
    for line in head[1].splitlines() if head else ():
        key, colon, value = line.partition(":")
        if colon:
            said[key.strip().lower()] = one_line(value.strip().strip("\"'"), 100)
    body = text[head.end() :] if head else text
    described = said.get("description") or one_line(
        body.strip().partition("\n")[0].lstrip("# "), 60
    )
    default = "[WORDS]" if _PLACE.search(body) else ""
    return CustomCommand(name, body, described, said.get("arguments", default))


def commands_of_folder(folder: Path) -> Iterator[CustomCommand]:
    """Yield the commands of the user's folder; what cannot be read is left out."""
    try:
        files = sorted(folder.glob("*.md"))[:MOST_COMMANDS]
    except OSError:
        return
    for file in files:
        try:
            if not file.is_file() or file.stat().st_size > LARGEST:
                continue
            found = parse_command(file.stem, file.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if found is not None:
            yield found


def commands_of_texts(texts: Iterable[tuple[str, str]]) -> Iterator[CustomCommand]:
    """Yield the commands of a trusted project, given as file name and text."""
    for name, text in texts:
        found = parse_command(Path(name).stem, text)
        if found is not None:
            yield found


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
