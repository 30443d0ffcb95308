"""The tools a session offers, in an order that never changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kogniterm.installed import parts_of, rows
from kogniterm.protocols import Tool, WebSearcher
from kogniterm.tools.file_tools import (
    MAX_CHARS,
    Carry,
    Outputs,
    as_given,
    edit_file,
    read_file,
    write_file,
)
from kogniterm.tools.mcp.server_tools import ServersPort, call_tool, find_tools
from kogniterm.tools.net import NetClient
from kogniterm.tools.search_files import find_files, search_text
from kogniterm.tools.session_tools import (
    NO_SKILLS,
    ForgetPort,
    HistoryPort,
    JobsPort,
    MemoryPort,
    SkillPort,
    UserPort,
    ask_user,
    execute_command,
    forget,
    job_tool,
    recall,
    recall_history,
    remember,
    use_skill,
)
from kogniterm.tools.web import (
    BraveSearch,
    OpenSearch,
    ProviderSearch,
    SearchSource,
    github,
    web_fetch,
    web_search,
)
from kogniterm.types import Job


class ToolPorts(NamedTuple):
    """The ports of the tools: folder, outputs, jobs, user, past, web, MCP servers, add-ons."""

    cwd: Callable[[], str]
    workspace: str
    outputs: Outputs
    is_secret: Callable[[str], bool]
    jobs: JobsPort
    user: UserPort
    memory: MemoryPort | None = None
    history: HistoryPort | None = None
    forgetting: ForgetPort | None = None
    searcher: WebSearcher | None = None
    skills: SkillPort | None = None
    servers: ServersPort | None = None
    added: Mapping[str, Any] = {}
    """Those of the tools of add-ons, by tool."""
    carry: Carry = as_given
    room: Callable[[], int] = lambda: MAX_CHARS
    """The most characters of an observation."""
    of_job: Callable[[Job, str], str] = lambda job, output: ""
    """Return the sandbox note about an ended job's output, or ""."""


def session_tools(
    ports: ToolPorts, *, brave_key: str | None = None, github_token: str | None = None
) -> Mapping[str, Tool]:
    client = NetClient()
    looking = (ports.cwd, ports.workspace, ports.is_secret, ports.outputs)
    # In the order in which they are preferred.
    sources: list[SearchSource] = [BraveSearch(client, brave_key)] if brave_key else []
    if ports.searcher is not None:
        sources.append(ProviderSearch(ports.searcher))
    tools: list[Tool] = [
        execute_command(),
        read_file(
            *looking,
            ports.skills.may_read if ports.skills is not None else lambda path: False,
            ports.room,
        ),
        search_text(*looking, ports.room),
        find_files(ports.cwd, ports.workspace, ports.room),
        edit_file(ports.cwd, ports.workspace, ports.carry),
        write_file(ports.cwd, ports.carry),
        job_tool(ports.jobs, ports.of_job),
        ask_user(ports.user),
        web_fetch(client),
        web_search([*sources, OpenSearch(client)]),
        github(client, github_token),
    ]
    if ports.history is not None:
        tools.append(recall_history(ports.history))
    if ports.memory is not None:
        tools += [recall(ports.memory), remember(ports.memory)]
    if ports.forgetting is not None:
        tools.append(forget(ports.forgetting))
    if ports.skills is not None:
        tools.append(use_skill(ports.skills))
    if ports.servers is not None:
        tools += [find_tools(ports.servers), call_tool()]
    for name, port in ports.added.items():
        tools += [make(port) for make in parts_of("TOOLS", name)]
    return {tool.spec.name: tool for tool in tools}


def listed_tools() -> Mapping[str, Tool]:
    """Return the tools to be listed where no session is open: none of them can run."""
    nothing: Any = _NoSession()
    ports = ToolPorts(
        lambda: "/", "/", nothing, lambda path: False, nothing, nothing, nothing, nothing, nothing,
        skills=NO_SKILLS,
        servers=nothing,
        added={name: nothing for name, _make in rows("TOOLS")},
    )  # fmt: skip
    return session_tools(ports)


class _NoSession:
    """Stands for the ports of a session."""
