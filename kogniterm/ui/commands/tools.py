"""/tools: every tool with its effect, source and state; also the words of `kogniterm tools`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.types import Phrase
from kogniterm.ui.commands.command_helpers import first_word
from kogniterm.ui.locale import _, translate
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from kogniterm.approval.policy.rules import Rule
    from kogniterm.runtime.operations.tool_list import Listed, ToolEntry

Line = list[tuple[str, str]]
"""A line as (text, style) pieces."""


def tools(repl: Repl, argument: str) -> None:
    """Run /tools [show NAME]."""
    from kogniterm.runtime.operations.tool_list import tools_of_session

    word, rest = first_word(argument)
    listed = tools_of_session(repl.session)
    if word == "show" and not rest:
        raise UsageError("Specify a tool: /tools show NAME")
    if word and word != "show":
        # A bare name is plain enough.
        rest = argument.strip()
    if rest:
        repl.display.write(_Drawn(entry=listed.find(rest)))
        return
    repl.display.write(_Drawn(listed=listed))
    repl.display.say(Phrase("To see one with its arguments and rules: /tools show NAME"))


def tool_choices(repl: Repl) -> Iterable[str]:
    """Return the tools that can be shown."""
    from kogniterm.runtime.operations.tool_list import tools_of_session

    return [f"show {entry.name}" for entry in tools_of_session(repl.session).entries]


class _Drawn:
    """The list of tools, or one of them, as wide as it may be."""

    def __init__(self, listed: Listed | None = None, entry: ToolEntry | None = None) -> None:
        self.listed, self.entry = listed, entry

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        width = options.max_width
        lines = list_lines(self.listed, width) if self.listed is not None else iter(())
        if self.entry is not None:
            lines = entry_lines(self.entry, width)
        for line in lines:
            yield Text.assemble(" ", *line)


def list_lines(listed: Listed, width: int) -> Iterator[Line]:
    """Yield the lines of the list, for a screen `width` columns wide."""
    from rich.cells import cell_len

    rows = [
        (entry, one_line(entry.name, 64), _state(entry), effect_words(entry.effect))
        for entry in listed.entries
    ]
    columns = ([row[1] for row in rows], [row[2] for row in rows], [row[3] for row in rows])
    sizes = [max(map(cell_len, column)) for column in columns]
    room = width - sum(sizes) - 8
    for entry, name, state, effect in rows:
        source = _source(entry)
        on = entry.off is None
        line: Line = [
            (_padded(name, sizes[0]), "accent" if on else "muted"),
            ("  " + _padded(state, sizes[1]), "good" if on else "warn"),
            ("  " + _padded(effect, sizes[2]), "" if on else "muted"),
        ]
        fits = cell_len(source) <= room
        yield [*line, ("  " + source, "muted")] if fits else line
        if not fits:
            yield from _wrapped(source, width, "muted")
        told = entry.off or entry.note
        if told is not None:
            yield from _wrapped(translate(told), width, "muted" if on else "warn")
    off = sum(entry.off is not None for entry in listed.entries)
    yield []
    counted = _("Tools: {on} on, {off} off").format(on=len(listed.entries) - off, off=off)
    yield [(counted, "muted")]


def entry_lines(entry: ToolEntry, width: int) -> Iterator[Line]:
    """Yield the lines that explain one tool."""
    from rich.cells import cell_len

    from kogniterm.runtime.operations.tool_list import arguments_of

    yield [(one_line(entry.name, 64), "accent"), (f"  {_source(entry)}", "muted")]
    yield from _wrapped(clean(entry.spec.description), width, "")
    told = [one for one in (entry.off, entry.note) if one is not None]
    facts = [
        (_("Effect"), effect_words(entry.effect)),
        (_("State"), " · ".join([_state(entry), *map(translate, told[:1])])),
        *((_("Rule"), text) for text in map(_rule, entry.rules)),
        (_("Approval") if not entry.rules else _("Otherwise"), translate(_otherwise(entry))),
    ]
    size = max(cell_len(name) for name, _text in facts)
    for name, text in facts:
        first, *others = textwrap.wrap(one_line(text, 600), max(20, width - size - 4)) or [""]
        yield [(_padded(name, size), "muted"), (f"  {first}", "")]
        for more in others:
            yield [(" " * (size + 2) + more, "")]
    found = arguments_of(entry.spec)
    if not found:
        return
    yield []
    yield [(_("Arguments"), "heading"), (f"  {_('* required')}", "muted")]
    for name, kind, text in found:
        yield [(f"  {one_line(name, 64)}", "accent"), (f"  {one_line(kind, 200)}", "muted")]
        if text:
            yield from _wrapped(clean(text), width, "")


def _wrapped(text: str, width: int, style: str) -> Iterator[Line]:
    """Yield a text below its tool, indented."""
    for line in textwrap.wrap(one_line(text, 2_000), max(20, width - 6)):
        yield [("    " + line, style)]


def _padded(text: str, size: int) -> str:
    from rich.cells import cell_len

    return text + " " * (size - cell_len(text))


def _state(entry: ToolEntry) -> str:
    return _("on") if entry.off is None else _("off")


def _source(entry: ToolEntry) -> str:
    if not entry.package:
        return _("built in")
    return _("package {name}").format(name=one_line(clean(entry.package), 80))


def effect_words(effect: str) -> str:
    """Return the effect of a tool in a few words."""
    return {
        "none": _("no effect"),
        "read": _("reads files"),
        "edit": _("edits files"),
        "network": _("uses the network"),
        "command": _("runs commands"),
        "hosts": _("runs commands on hosts"),
        "person": _("asks you"),
        "keystrokes": _("controls jobs"),
        "external": _("unknown effect"),
    }.get(effect, effect)


def _rule(rule: Rule) -> str:
    """Return a rule about a tool: its decision, what narrows it, its reason and its place."""
    from kogniterm.ui.words.approval_words import decision_text

    narrowed = [
        *(f"program {name}" for name in rule.programs),
        *([f"arguments {rule.arguments.pattern}"] if rule.arguments is not None else []),
        *([f"path {rule.path}"] if rule.path is not None else []),
        *([f"mode {rule.mode}"] if rule.mode is not None else []),
    ]
    about = f" ({', '.join(narrowed)})" if narrowed else ""
    reason = f": {rule.reason}" if rule.reason else ""
    return f"{decision_text(rule.decision)}{about}{reason} · {rule.origin}"


_BY_EFFECT = {
    "command": Phrase("Every command is checked; your rules, the mode or you decide."),
    "hosts": Phrase("Every command is checked like a local one; you decide on its hosts."),
    "edit": Phrase(
        "Asks; in accept-edits and auto mode, edits of workspace files run without a question."
    ),
    "network": Phrase("Asks, unless a rule of yours allows the tool."),
    "person": Phrase("Never asks for approval: it puts a question to you."),
    "keystrokes": Phrase("Reads without a question; asks before it types, stops or keeps a job."),
    "read": Phrase("Reads without a question; asks before it reads a file that may hold secrets."),
    "none": Phrase("Runs without a question: it changes nothing outside the session."),
}
_FOREIGN = Phrase("Asks, whatever effect it declares, unless a rule of yours allows the tool.")


def _otherwise(entry: ToolEntry) -> Phrase:
    """Return what decides where no rule does."""
    if entry.package:
        return _FOREIGN
    if entry.name == "delegate":
        return Phrase("Runs without a question; each action of the sub-agent is decided by itself.")
    return _BY_EFFECT[entry.effect]
