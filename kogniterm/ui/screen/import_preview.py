"""The preview of an import: what would be added, what cannot be, and what the user has to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from kogniterm.text.visible import render_line, render_words
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, translate
from kogniterm.ui.screen.surface import stream_size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kogniterm.runtime.extensions.foreign.foreign_agents import ForeignAgent
    from kogniterm.runtime.extensions.foreign.found import Found, Kind, Place
    from kogniterm.runtime.extensions.foreign.server_secrets import ServerSecret
    from kogniterm.runtime.use_cases.import_settings import Change, ImportPlan
    from kogniterm.ui.screen.paint import Painter

_SIGNS = {"new": "+", "update": "~", "replace": "~", "same": "=", "different": "!"}


def titles() -> dict[Kind, str]:
    """Return the kinds of entries, as users read them."""
    return {
        "mcp": _("MCP servers"),
        "hooks": _("Hooks"),
        "skills": _("Skills"),
        "commands": _("Custom commands"),
        "agents": _("Sub-agents"),
        "instructions": _("Instructions"),
        "rules": _("Proposed rules (as comments)"),
    }


class ImportPreview:
    """Writes the preview: in colour and as wide as the terminal, or as plain lines."""

    def __init__(self, stream: TextIO, painter: Painter) -> None:
        self._stream = stream
        self._painter = painter
        self._tty = stream.isatty()
        self._columns = max(stream_size(stream)[1] - 1, 20)

    def show(self, agent: ForeignAgent, found: Found, plan: ImportPlan, place: Place) -> None:
        """Write what would be imported, what cannot be, and what the user has to do."""
        sources = ", ".join(found.sources)
        self.line(f"{agent.name}: {sources}" if sources else agent.name, "heading")
        for kind, title in titles().items():
            changes = [one for one in plan.changes if one.kind == kind]
            if changes:
                self._section(title, changes)
        if found.left_out:
            self.line("")
            self.line(_("Not imported:"), "heading")
            for told in found.left_out:
                self.line(f"- {translate(told)}")
        about = [*_about(found, agent, place), *map(translate, _variables(plan.secrets))]
        names = {one.name for one in plan.changes if one.kind == "mcp" and one.written}
        if any(one.name in names and "command" in one.entry for one in found.servers):
            about.append(
                _(
                    "MCP servers of this machine run in the sandbox, without network: "
                    'add "network": true to those that need it.'
                )
            )
        if about:
            self.line("")
        for line in about:
            self.line(line)
        self.line("")

    def _section(self, title: str, changes: Sequence[Change]) -> None:
        states = _states()
        counts = [
            f"{sum(one.state == state for one in changes)} {words}"
            for state, words in states.items()
            if any(one.state == state for one in changes)
        ]
        self.line("")
        self.line(f"{title}: {', '.join(counts)}", "heading")
        for change in changes:
            told = "" if change.state == "new" else f" ({states[change.state]})"
            self.line(f"{_SIGNS[change.state]} {change.name}{told}")
        for change in changes:
            self._difference(change.difference)
        if any(one.state == "different" for one in changes):
            self.line(_("To replace what differs: --replace"))

    def _difference(self, unified: str) -> None:
        if not unified:
            return
        if self._tty:
            from kogniterm.ui.screen.diffs import diff

            self._paint(diff(unified, columns=self._columns))
            return
        for line in unified.split("\n"):
            self._stream.write("\t".join(map(render_line, line.split("\t"))) + "\n")

    def line(self, text: str, style: str = "") -> None:
        """Write a sentence."""
        from rich.text import Text

        from kogniterm.ui.screen.paint import Readable

        text = render_words(text)
        if not self._tty:
            self._stream.write(text + "\n")
        else:
            self._paint(Readable(Text(text, style)))

    def _paint(self, renderable: RenderableType) -> None:
        self._stream.write(self._painter.paint(renderable, self._columns))


def _states() -> dict[str, str]:
    return {
        "new": _("new"),
        "update": _("changed since the last import"),
        "replace": _("replaced"),
        "different": _("differs, kept"),
        "same": _("already there"),
    }


def _about(found: Found, agent: ForeignAgent, place: Place) -> Iterator[str]:
    """Yield what is said about the model, the keys, and files that need no import."""
    if found.model:
        yield _("Model there: {model}. Choose one here with /model or --model.").format(
            model=found.model
        )
    if found.keys:
        told = _("Keys are not copied ({names}); save a provider's key with kogniterm login.")
        yield told.format(names=", ".join(found.keys))
    if place.project is not None and agent.in_place:
        yield _("Read without an import once you trust the folder: {names}.").format(
            names=agent.in_place
        )


def _variables(secrets: Iterable[ServerSecret]) -> Iterator[Phrase]:
    """Yield what each server needs of the user's environment."""
    for one in secrets:
        values = {"server": one.server, "name": one.variable}
        if one.same:
            yield Phrase("MCP server {server} uses {name} of your environment.", values)
        elif one.set:
            yield Phrase(
                "MCP server {server} uses {name} of your environment, which has another value "
                "than there.",
                values,
            )
        else:
            yield Phrase(
                "MCP server {server} needs the variable {name}: set it before you start KogniTerm.",
                values,
            )
