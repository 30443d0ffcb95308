"""`kogniterm import`: take over what the user set up for another terminal agent."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm.addons.import_agents.import_preview import counted_words
from kogniterm.cli.options import JSON, YES, CallOptions, Example, Subparsers, add_verb
from kogniterm.cli.verb_helpers import ask_agreement, confirm, paths_in_use
from kogniterm.errors import (
    EXIT_DONE,
    EXIT_NOT_DONE,
    KognitermError,
    UnusableValueError,
    UsageError,
)
from kogniterm.runtime.operations.action import Argument, Report
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, mark, plural, translate

if TYPE_CHECKING:
    from kogniterm.addons.import_agents.foreign.foreign_agents import ForeignAgent
    from kogniterm.addons.import_agents.foreign.found import Found, Kind, Place
    from kogniterm.addons.import_agents.foreign.server_secrets import ServerSecret
    from kogniterm.addons.import_agents.import_preview import ImportPreview
    from kogniterm.addons.import_agents.import_settings import ImportPlan, Target

WHOLE = 1_000
"""Columns for a file or a pipe."""


def _kinds(text: str) -> tuple[str, ...]:
    """Read the kinds of `--only`. Raises `UnusableValueError`."""
    from kogniterm.addons.import_agents.foreign.found import KINDS

    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words or not set(words) <= set(KINDS):
        raise UnusableValueError("one or more of {names}", names=", ".join(KINDS))
    return words


def add_parser(subparsers: Subparsers) -> None:
    """Add `import` with its options."""
    from kogniterm.addons.import_agents.foreign.foreign_agents import AGENTS

    parser = add_verb(
        subparsers,
        "import",
        (
            Argument("agent", "claude, codex, gemini, opencode or deepagents; by default, "
                              "what is found of each is listed", "AGENT", nargs="?",
                     choices=tuple(one.word for one in AGENTS)),
            Argument("--only", "Import only these, separated by commas: mcp, hooks, skills, "
                               "commands, agents, instructions, rules", "KINDS", type=_kinds),
            Argument("--replace", "Replace what is there already under the same name"),
            Argument("--project", "Import the files of a project into the project, not your own"),
            Argument("--dry-run", "Show what would be imported; write nothing"),
            Argument("--cwd", "Folder of the project, instead of the current one",
                     "FOLDER", short="-C"),
            YES,
            JSON,
        ),
        description=mark(
            "Import the MCP servers, hooks, skills, custom commands, sub-agents and instructions "
            "that you set up for another terminal agent. Everything is shown first, and nothing "
            "of yours is overwritten. Keys are not copied."
        ),
        examples=(
            Example("kogniterm import"),
            Example("kogniterm import claude --dry-run"),
            Example("kogniterm import codex --only mcp,skills"),
            Example("kogniterm import gemini --project"),
        ),
    )  # fmt: skip
    parser.set_defaults(only=())


class ImportRequest(NamedTuple):
    """A call of `kogniterm import`: the agent, and what is taken from it."""

    call: CallOptions
    agent: str | None
    only: Sequence[Kind]
    replace: bool
    project: bool
    dry_run: bool
    yes: bool

    @property
    def place(self) -> Place:
        """The place to read: the user's own files, or those of a project."""
        from kogniterm.addons.import_agents.foreign.foreign_agents import place_of
        from kogniterm.settings import environment

        return place_of(environment(), Path(self.call.folder()) if self.project else None)


def run(call: CallOptions, **given: Any) -> Report:
    """List what is found, or import from one agent."""
    request = ImportRequest(call, **given)
    if call.cwd and not request.project:
        raise UsageError("{option} needs {other}.", option="--cwd", other="--project")
    return _overview(request.place) if request.agent is None else _import(request, request.agent)


def _overview(place: Place) -> Report:
    """Return which agents are set up here, and how much each would bring."""
    from kogniterm.addons.import_agents.foreign.foreign_agents import AGENTS

    lines: list[str] = []
    data: list[dict[str, object]] = []
    notes: list[str] = []
    for agent in AGENTS:
        found = agent.read(place)
        notes += map(translate, found.problems)
        data.append({"agent": agent.word, "name": agent.name, "found": {**found.counts}})
        if not found.nothing:
            lines += _paragraph(f"{agent.word}  {agent.name}", counted_words(found))
    if not lines:
        return Report(data, [_("No other agent is set up here.")], notes=notes)
    head = _("Found here; kogniterm import NAME shows what it would bring, and asks:")
    return Report(data, [head, "", *lines], notes=notes)


def _paragraph(title: str, text: str) -> list[str]:
    from kogniterm.ui.screen.surface import stream_size

    columns = stream_size(sys.stdout)[1] - 1 if sys.stdout.isatty() else WHOLE
    indent = "    "
    return [title, *textwrap.wrap(text, columns, initial_indent=indent, subsequent_indent=indent)]


def _target(place: Place) -> Target:
    from kogniterm.addons.import_agents.import_settings import project_target, user_target

    if place.project is not None:
        return project_target(place.project)
    paths = paths_in_use()
    return user_target(paths.extensions, paths.policy_file)


def _import(request: ImportRequest, name: str) -> Report:
    from kogniterm.addons.import_agents.foreign.foreign_agents import find_agent
    from kogniterm.addons.import_agents.import_settings import carry_out, plan_import

    agent = find_agent(name)
    place = request.place
    found = agent.read(place)
    if found.nothing:
        raise KognitermError("No settings of {name} were found here.", name=agent.name)
    target = _target(place)
    plan = plan_import(found, target, place.environ, only=request.only, replace=request.replace)
    screen = _preview(request.call)
    screen.show(agent, found, plan, place)
    notes = [translate(one) for one in (*found.problems, *plan.problems)]
    status = EXIT_NOT_DONE if notes else EXIT_DONE
    written = False
    if not request.dry_run and not plan.empty:
        for note in notes:
            screen.line(note)
        notes = []
        _require_consent(request, plan)
        if not request.yes and place.project is None and _asks_for_secrets(screen, plan.secrets):
            plan = plan_import(
                found, target, place.environ, only=request.only, replace=request.replace,
                literal=True,
            )  # fmt: skip
        carry_out(plan, target)
        written = True
    data = _data(agent, found, plan, written=written)
    return Report(data, _closing(plan, place, written=written), notes=notes, status=status)


def _preview(call: CallOptions) -> ImportPreview:
    from kogniterm.addons.import_agents.import_preview import ImportPreview
    from kogniterm.settings import environment, quick
    from kogniterm.ui.display import Display
    from kogniterm.ui.screen.screen_preferences import from_quick
    from kogniterm.ui.screen.surface import stream_size

    stream = sys.stderr if call.json else sys.stdout
    first = quick(environment(), call.settings)
    preferences = from_quick(first, call.folder(), tty=stream.isatty())
    if not stream.isatty():
        return ImportPreview(None, WHOLE, stream)
    painter, columns = Display(preferences).painter, max(stream_size(stream)[1] - 1, 20)
    return ImportPreview(lambda one: stream.write(painter.paint(one, columns)), columns)


def _require_consent(request: ImportRequest, plan: ImportPlan) -> None:
    """Ask whether to write the plan. Raises `UsageError` unless the user agrees."""
    if request.yes:
        return
    count = sum(one.written for one in plan.changes)
    confirm(
        plural("Import {count} entry?", "Import {count} entries?", count),
        (),
        without_terminal=Phrase("Importing needs your confirmation at a terminal, or --yes."),
        no=Phrase("Nothing was imported."),
    )


def _asks_for_secrets(screen: ImportPreview, secrets: Iterable[ServerSecret]) -> bool:
    """Return whether the user wants the secrets copied, which no variable has."""
    missing = sum(not one.same for one in secrets)
    if not missing:
        return False
    screen.line(
        plural(
            "{count} secret is not in your environment; it can be copied into mcp.json, where it "
            "is not encrypted.",
            "{count} secrets are not in your environment; they can be copied into mcp.json, where "
            "they are not encrypted.",
            missing,
        )
    )
    return ask_agreement(_("Copy the secrets?"))


def _closing(plan: ImportPlan, place: Place, *, written: bool) -> list[str]:
    if plan.empty:
        return [_("There is nothing to add.")]
    if not written:
        return [_("Nothing was written.")]
    count = sum(one.written for one in plan.changes)
    lines = [plural("{count} entry imported.", "{count} entries imported.", count)]
    if place.project is not None:
        lines.append(_("The files take effect once you trust the folder: kogniterm trust"))
    return lines


def _data(
    agent: ForeignAgent, found: Found, plan: ImportPlan, *, written: bool
) -> dict[str, object]:
    return {
        "agent": agent.word,
        "sources": list(found.sources),
        "written": written,
        "entries": [
            {
                "kind": one.kind,
                "name": one.name,
                "state": one.state,
                "file": str(one.file),
                "diff": one.difference,
            }
            for one in plan.changes
        ],
        "variables": [
            {"server": one.server, "name": one.variable, "set": one.set} for one in plan.secrets
        ],
        "keys": list(found.keys),
        "model": found.model,
        "not_imported": [str(one) for one in found.left_out],
        "problems": [str(one) for one in (*found.problems, *plan.problems)],
    }
