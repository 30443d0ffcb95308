"""Sub-agents that the user or a trusted project describes in Markdown files.

The format is Claude Code's: `name`, `description`, `tools`, `disallowedTools` and `model` stand
between two lines `---`, and the text below is the sub-agent's instructions. A file gives no more
than the session has: its tools are among those that are offered, what they do is approved as ever,
and a field that would loosen that is ignored with a notice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kogniterm.agent.plan.plan_parse import OWN_AGENT_NAME
from kogniterm.agent.plan.plan_steps import TOOL_SETS
from kogniterm.agent.subagent import DELEGATE, MAX_TOKENS
from kogniterm.runtime.extensions.front_matter import (
    MarkdownDocument,
    read_document,
    texts_of_folder,
)
from kogniterm.runtime.extensions.tool_names import own_tools, parse_pattern
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.text.shorten import one_line
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
