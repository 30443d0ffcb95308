"""The preview of an import: what would be added, what cannot be, and what the user has to do."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from kogniterm.text.visible import render_words
from kogniterm.ui.locale import _, plural, translate

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kogniterm.addons.import_agents.foreign.foreign_agents import ForeignAgent
    from kogniterm.addons.import_agents.foreign.found import Found, Kind, Place
    from kogniterm.addons.import_agents.foreign.server_secrets import ServerSecret
    from kogniterm.addons.import_agents.import_settings import Change, ImportPlan, State

_SIGNS: dict[State, str] = {
    "new": "+", "update": "~", "replace": "~", "different": "!", "same": "=",
}  # fmt: skip
MOST_LISTED = 100
"""Entries of a kind that are listed by name; of servers and hooks, which run by themselves, all."""
MOST_LINES = 2_000
"""Lines of the differences of one kind."""
_WHOLE: frozenset[Kind] = frozenset({"mcp", "hooks"})


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


def counted_words(found: Found) -> str:
    """Return how much an agent would bring, in words."""
    names = titles()
    counts = (f"{names[kind]}: {count}" for kind, count in found.counts.items())
    return ", ".join(counts) or _("nothing to import")


class ImportPreview:
    """Writes the preview: painted by `paint`, or else as plain lines to `stream`."""

    def __init__(
        self,
        paint: Callable[[RenderableType], object] | None,
        columns: int,
        stream: TextIO | None = None,
    ) -> None:
        self._paint = paint
        self._columns = columns
        self._stream = stream

    def show(self, agent: ForeignAgent, found: Found, plan: ImportPlan, place: Place) -> None:
        """Write what would be imported, what cannot be, and what the user has to do."""
        sources = ", ".join(found.sources)
        self.line(f"{agent.name}: {sources}" if sources else agent.name, "heading")
        for kind, title in titles().items():
            changes = [one for one in plan.changes if one.kind == kind]
            if changes:
                whole = kind in _WHOLE
                self._section(title, changes, whole=whole)
        if found.left_out:
            self.line("")
            self.line(_("Not imported:"), "heading")
            for told in found.left_out:
                self.line(f"- {translate(told)}")
        about = [*_about(found, agent, place), *_variables(plan.secrets)]
        about += _limits(found, plan)
        if about:
            self.line("")
        for line in about:
            self.line(line)
        self.line("")

    def _section(self, title: str, changes: Sequence[Change], *, whole: bool) -> None:
        held = Counter(one.state for one in changes)
        counts = ", ".join(_count_words(state, held[state]) for state in _SIGNS if held[state])
        self.line("")
        self.line(f"{title[:1].upper()}{title[1:]}: {counts}", "heading")
        listed = changes if whole else changes[:MOST_LISTED]
        for change in listed:
            told = "" if change.state == "new" else f" ({_state(change.state)})"
            self.line(f"{_SIGNS[change.state]} {change.name}{told}")
        more = len(changes) - len(listed)
        if more:
            self.line(plural("and {count} more", "and {count} more", more))
        shown, hidden = (list(changes), 0) if whole else _limit_changes(changes)
        for change in shown:
            self._difference(change.difference)
        if hidden:
            self.line(
                plural(
                    "The content of {count} more entry is not shown.",
                    "The content of {count} more entries is not shown.",
                    hidden,
                )
            )
        if held["different"]:
            self.line(_("To replace what differs: --replace"))

    def _difference(self, unified: str) -> None:
        if not unified:
            return
        if self._paint is not None:
            from kogniterm.ui.screen.diffs import diff

            self._paint(diff(unified, columns=self._columns))
        elif self._stream is not None:
            self._stream.write(f"{unified}\n")

    def line(self, text: str, style: str = "") -> None:
        """Write a sentence."""
        from rich.text import Text

        from kogniterm.ui.screen.paint import PROSE_COLUMNS, Readable

        text = render_words(text)
        if self._paint is None:
            if self._stream is not None:
                self._stream.write(text + "\n")
            return
        if text.startswith("- "):
            width = min(self._columns, PROSE_COLUMNS)
            text = textwrap.fill(text, width, subsequent_indent="  ")
        self._paint(Readable(Text(text, style)))


def _limit_changes(changes: Sequence[Change]) -> tuple[list[Change], int]:
    """Return the changes whose differences fit on the screen, and how many others have one."""
    shown: list[Change] = []
    lines = hidden = 0
    for change in changes:
        count = change.difference.count("\n") + 1 if change.difference else 0
        if count and lines + count > MOST_LINES:
            hidden += 1
        else:
            lines += count
            shown.append(change)
    return shown, hidden


def _count_words(state: State, count: int) -> str:
    if state == "new":
        return plural("{count} new", "{count} new", count)
    if state == "same":
        return plural("{count} already there", "{count} already there", count)
    return f"{count} {_state(state)}"


def _state(state: State) -> str:
    words = {
        "update": _("changed since the last import"),
        "replace": _("replaced"),
        "different": _("differs, kept"),
        "same": _("already there"),
    }
    return words.get(state, "")


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


def _limits(found: Found, plan: ImportPlan) -> Iterator[str]:
    """Yield what may not work as it did there: too many skills, and what runs in the sandbox."""
    from kogniterm.runtime.trust.project_places import MOST_SKILLS

    names = {(one.kind, one.name) for one in plan.changes if one.written}
    if sum(one.kind == "skills" for one in plan.changes) > MOST_SKILLS:
        yield _("Of the skills in a folder, the first {count} by name are used.").format(
            count=MOST_SKILLS
        )
    if any(("mcp", one) in names and "command" in entry for one, entry in found.servers.items()):
        yield _(
            "MCP servers of this machine run in the sandbox, without network: "
            'add "network": true to those that need it.'
        )
    if any(kind == "hooks" for kind, _name in names):
        yield _(
            "Hooks run in the sandbox, without network. Try them with kogniterm hooks test EVENT; "
            'add "sandbox": false to those that need more.'
        )


def _variables(secrets: Sequence[ServerSecret]) -> Iterator[str]:
    """Yield what the servers need of the user's environment, a line for each case."""
    for text, chosen in (
        (
            _("Taken from your environment: {names}."),
            [one for one in secrets if one.same],
        ),
        (
            _("Taken from your environment, where the value is another than there: {names}."),
            [one for one in secrets if one.set and not one.same],
        ),
        (
            _("Set before you start KogniTerm: {names}."),
            [one for one in secrets if not one.set],
        ),
    ):
        if chosen:
            yield text.format(names=", ".join(f"{one.variable} ({one.server})" for one in chosen))
