"""The sub-agents that the user or a trusted project describes in Markdown files.

The format is Claude Code's: `name`, `description`, `tools`, `disallowedTools` and `model` stand
between two lines `---`, and the text below is the sub-agent's instructions. A file gives no more
than the session has: its tools are among those that are offered, what they do is approved as ever,
and a field that would loosen that is ignored with a notice. They are read when a session opens,
are the same in each of its requests, and are noted in the journal, so that a replay has them too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import ClassVar

from kogniterm.agent.graph_state import NamedAgent
from kogniterm.agent.plan.plan_parse import OWN_AGENT_NAME
from kogniterm.agent.plan.plan_steps import TOOL_SETS
from kogniterm.agent.subagent import DELEGATE, MAX_TOKENS
from kogniterm.protocols import Model
from kogniterm.runtime.extensions.extension_port import Extension, Moment, Right
from kogniterm.runtime.extensions.front_matter import (
    MarkdownDocument,
    read_document,
    texts_of_folder,
)
from kogniterm.runtime.extensions.tool_names import own_tools, parse_pattern
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.sessions.history import notes
from kogniterm.sessions.records import Noted, Record
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import with_texts
from kogniterm.types import Phrase

MOST_AGENTS = 40
DESCRIBED = 400
"""Characters of a description: it is in every request."""
INSTRUCTIONS = 30_000
MOST_SKILLS = 20
FOREIGN_MODELS = ("sonnet", "opus", "haiku")
"""Names of other agents for models, which say nothing here."""
LOOSENING = ("permissionMode", "hooks", "mcpServers")
NEVER = (DELEGATE.name,)
"""A sub-agent has no sub-agents."""
RESERVED = frozenset((*TOOL_SETS, "jobs", "job", "any"))


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A sub-agent as its file describes it; `source` is the file, `notices` are for the user.

    Without `tools` it has those of the kind "run"; without a `model` that of the session. It begins
    with the instructions of its `skills`. With `needs_trust` it is in a project or a plugin.
    """

    name: str
    description: str
    instructions: str
    tools: tuple[str, ...]
    model: str = ""
    tokens: int | None = None
    rounds: int | None = None
    skills: tuple[str, ...] = ()
    source: str = ""
    needs_trust: bool = False
    notices: tuple[Phrase, ...] = ()


def parse_agent(
    path: str,
    text: str,
    known: Collection[str],
    *,
    source: str = "",
    needs_trust: bool = False,
    plugin: str = "",
) -> AgentFile | Phrase:
    """Return the sub-agent in a file, with tools among `known`, or why it has none.

    The name of a `plugin` is put before its own.
    """
    document = read_document(text)
    name = (document.text("name") or PurePosixPath(path).stem).lower()
    source = source or path
    if not OWN_AGENT_NAME.match(name) or name in RESERVED:
        values = {"name": one_line(name, 60), "file": source}
        return Phrase("Sub-agent {name} ({file}) ignored: the name cannot be used.", values)
    name = f"{plugin}:{name}" if plugin else name
    notices: list[Phrase] = []
    values = {"name": name, "file": source}
    tools = _tools(document, known, values, notices)
    model = document.text("model")
    if model.lower() in FOREIGN_MODELS:
        notices.append(
            Phrase(
                "Sub-agent {name} ({file}) names the model {model} of another agent; it uses the "
                "session's model.",
                {**values, "model": model},
            )
        )
    ignored = [field for field in LOOSENING if document.fields.get(field.lower())]
    if ignored:
        notices.append(
            Phrase(
                "Sub-agent {name} ({file}): {fields} is ignored; your approval applies.",
                {**values, "fields": ", ".join(ignored)},
            )
        )
    own = "" if model.lower() in ("", "inherit", *FOREIGN_MODELS) else model
    body = document.body.strip()[:INSTRUCTIONS]
    described = one_line(document.text("description"), DESCRIBED)
    first = one_line(body.partition("\n")[0].lstrip("# "), 100)
    return AgentFile(
        name,
        described or first,
        body,
        tools,
        own,
        _number(document, ("tokens",), MAX_TOKENS),
        _number(document, ("max_turns", "maxturns"), 10_000),
        document.words("skills")[:MOST_SKILLS],
        source,
        needs_trust,
        tuple(notices),
    )


def _number(document: MarkdownDocument, names: Iterable[str], most: int) -> int | None:
    for name in names:
        value = document.text(name).replace("_", "")
        if value.isascii() and value.isdigit() and int(value) > 0:
            return min(int(value), most)
    return None


def _tools(
    document: MarkdownDocument,
    known: Collection[str],
    values: dict[str, str],
    notices: list[Phrase],
) -> tuple[str, ...]:
    """Return the tools that a file gives its sub-agent; a name that no tool has is told of."""
    wanted = document.words("tools")
    forbidden = {
        tool for one in document.words("disallowedtools") for tool in _tools_behind(one, known)
    }
    unknown = [one for one in wanted if one != "*" and not _tools_behind(one, known)]
    if unknown:
        notices.append(
            Phrase(
                "Sub-agent {name} ({file}): there is no tool {tools}.",
                {**values, "tools": ", ".join(one_line(one, 40) for one in unknown[:5])},
            )
        )
    given = [tool for one in wanted for tool in _tools_behind(one, known)]
    if "tools" not in document.fields or "*" in wanted:
        given = [*TOOL_SETS["run"], *given]
    return tuple(one for one in dict.fromkeys(given) if one not in forbidden and one not in NEVER)


def _tools_behind(text: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the tools behind a name of any agent; what a pattern narrows is left to approval."""
    if text in known:
        return (text,)
    pattern = parse_pattern(text)
    return own_tools(pattern.name, known) if pattern is not None else ()


def agents_of_files(
    files: Iterable[ProjectFile], known: Collection[str]
) -> Iterator[AgentFile | Phrase]:
    """Yield the sub-agents in trusted files of a project or of plugins, and why a file has none."""
    for one in files:
        if one.kind == "agent":
            plugin = one.plugin.name if one.plugin is not None else ""
            yield parse_agent(one.name, one.filled, known, needs_trust=True, plugin=plugin)


def agents_of_folder(folder: Path, known: Collection[str]) -> Iterator[AgentFile | Phrase]:
    """Yield the sub-agents of the user's folder, and why a file has none."""
    for file, text in texts_of_folder(folder, (".md",), 10 * MOST_AGENTS):
        if isinstance(text, Phrase):
            values = {"name": file.stem, "file": file, "why": text}
            yield Phrase("Sub-agent {name} ({file}) ignored: {why}", values)
        else:
            yield parse_agent(file.name, text, known, source=str(file))


# --- in a session ---------------------------------------------------------------------------------

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
