"""Which tools a session offers, in an order that never changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kogniterm.protocols import Tool
from kogniterm.tools.edit import FileVersions, edit_file, write_file
from kogniterm.tools.files import read_file
from kogniterm.tools.github import github
from kogniterm.tools.history import HistoryPort, recall_history
from kogniterm.tools.jobs import JobsPort, job_tool
from kogniterm.tools.memory import ForgetPort, MemoryPort, forget, memory_tools
from kogniterm.tools.net import NetClient
from kogniterm.tools.output import Outputs, read_output
from kogniterm.tools.person import PersonPort, ask_person
from kogniterm.tools.search import find_files, search_text
from kogniterm.tools.shell import execute_command
from kogniterm.tools.web import web_fetch, web_search


@dataclass(frozen=True, slots=True)
class ToolPlaces:
    """What the tools work on: the shell's folder, the workspace, outputs, jobs, people, past."""

    cwd: Callable[[], str]
    workspace: str
    outputs: Outputs
    is_secret: Callable[[str], bool]
    jobs: JobsPort
    person: PersonPort
    memory: MemoryPort | None = None
    history: HistoryPort | None = None
    forgetting: ForgetPort | None = None


def session_tools(
    places: ToolPlaces, *, brave_key: str | None = None, github_token: str | None = None
) -> Mapping[str, Tool]:
    """The tools by name. The web is searched only where there is a key for it."""
    versions = FileVersions()
    client = NetClient()
    tools: list[Tool] = [
        execute_command(),
        read_file(places.cwd, places.workspace, places.is_secret, versions),
        search_text(places.cwd, places.workspace, places.is_secret),
        find_files(places.cwd, places.workspace),
        edit_file(places.cwd, versions),
        write_file(places.cwd, versions),
        read_output(places.outputs),
        job_tool(places.jobs),
        ask_person(places.person),
        web_fetch(client),
        github(client, github_token),
    ]
    if places.history is not None:
        tools.append(recall_history(places.history))
    if places.memory is not None:
        tools.extend(memory_tools(places.memory))
    if places.forgetting is not None:
        tools.append(forget(places.forgetting))
    if brave_key:
        tools.append(web_search(client, brave_key))
    return {tool.spec.name: tool for tool in tools}
