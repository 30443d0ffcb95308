"""The sub-agents of a session: read when it opens, and the same in each of its requests.

They are noted in the journal, so that a replay has them too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from kogniterm.agent.graph_state import NamedAgent
from kogniterm.protocols import Model
from kogniterm.runtime.extensions.agent_files import (
    MOST_AGENTS,
    AgentFile,
    agents_of_files,
    agents_of_folder,
)
from kogniterm.runtime.extensions.extension_port import Extension, Moment, Right
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.sessions.history import notes
from kogniterm.sessions.records import Noted, Record
from kogniterm.text.visible import with_texts
from kogniterm.types import Phrase

AGENTS = "agents"
"""The kind of the note."""
Preloaded = Callable[[Collection[str], str], tuple[str, tuple[Phrase, ...]]]
"""Returns the instructions of skills by their names, or those in a plugin; and why some lack."""
NOT_TRUSTED = Phrase("its file is no longer trusted")


class SessionAgents(Extension):
    """The sub-agents with a name; `files` say where each is from."""

    name = "agents"
    moments: ClassVar[Mapping[Moment, Right]] = {"offer_tools": "add"}

    def __init__(
        self,
        named: Mapping[str, NamedAgent],
        files: Mapping[str, AgentFile] | None = None,
        notices: tuple[Phrase, ...] = (),
    ) -> None:
        self.named = named
        self.files = files or {}
        self.notices = notices

    def agents(self) -> Mapping[str, NamedAgent]:
        return self.named

    def use_project(self, files: Iterable[ProjectFile]) -> None:
        """Let those that need trust be used whose file is among the trusted `files`.

        Requests list them all.
        """
        sources = {one.name for one in files if one.kind == "agent"}
        self.named = {
            name: replace(agent, off=None if self.files[name].source in sources else NOT_TRUSTED)
            if self.files[name].needs_trust
            else agent
            for name, agent in self.named.items()
        }

    def missing(self, files: Iterable[ProjectFile]) -> tuple[str, ...]:
        """Return the sub-agents among `files` that another session will have, and this one not."""
        found = agents_of_files(files, ())
        mine = {name: file.instructions for name, file in self.files.items()}
        return tuple(
            one.name
            for one in found
            if isinstance(one, AgentFile) and mine.get(one.name) != one.instructions
        )

    def note(self, redact: Callable[[str], str]) -> Noted:
        """Return the note of them."""
        told = [
            {
                "name": one.name,
                "description": one.description,
                "instructions": one.instructions,
                "tools": list(one.tools),
                "tokens": one.tokens,
                "rounds": one.rounds,
            }
            for one in self.named.values()
        ]
        return Noted(AGENTS, with_texts({AGENTS: told}, redact))


def session_agents(
    folder: Path,
    project: Iterable[ProjectFile],
    known: Collection[str],
    open_model: Callable[[str], Model],
    preloaded: Preloaded,
) -> SessionAgents:
    """Return the sub-agents of the user's `folder`, and in trusted files of a project or plugins.

    The first of a name wins. `known` are the tools there are, `preloaded` gives texts of skills.
    """
    found: dict[str, AgentFile] = {}
    texts: dict[str, str] = {}
    notices: list[Phrase] = []
    for file in (*agents_of_folder(folder, known), *agents_of_files(project, known)):
        if isinstance(file, Phrase):
            notices.append(file)
            continue
        if file.name in found or len(found) == MOST_AGENTS:
            values = {"name": file.name, "file": file.source}
            notices.append(
                Phrase("Sub-agent {name} ({file}) ignored: the name is already in use.", values)
                if file.name in found
                else Phrase("Sub-agent {name} ({file}) ignored: there are too many.", values)
            )
            continue
        found[file.name] = file
        texts[file.name], lacking = preloaded(file.skills, file.name.rpartition(":")[0])
        values = {"name": file.name, "file": file.source}
        notices += file.notices
        for why in lacking:
            said = {**values, "why": why}
            lacks = Phrase("Sub-agent {name} ({file}) begins without a skill: {why}", said)
            notices.append(lacks)
    named = {
        name: NamedAgent(
            name,
            file.description,
            "\n\n".join(filter(None, (file.instructions, texts[name]))),
            file.tools,
            file.tokens,
            file.rounds,
            partial(open_model, file.model) if file.model else None,
        )
        for name, file in found.items()
    }
    return SessionAgents(named, found, tuple(notices))


def recorded_agents(records: Iterable[Record]) -> Mapping[str, NamedAgent]:
    """Return the sub-agents that a recorded session had last."""
    noted = list(notes(records, AGENTS))
    found = noted[-1].value or () if noted else ()
    return {one["name"]: NamedAgent(**{**one, "tools": tuple(one["tools"])}) for one in found}
