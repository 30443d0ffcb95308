"""/agents: the sub-agents of the user and of the project, and what one of them may do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.text.visible import clean
from kogniterm.types import Phrase
from kogniterm.ui.commands.command_helpers import first_word
from kogniterm.ui.locale import _, translate
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from kogniterm.runtime.extensions.agent_files import AgentFile

MOST_LINES = 40
"""Lines of instructions that are shown."""


def agents(repl: Repl, argument: str) -> None:
    """Run /agents [show NAME]."""
    word, rest = first_word(argument)
    name = (rest if word == "show" else argument).removeprefix("@").lower()
    files = repl.session.context.agents.files
    if name or word == "show":
        _show(repl, files.get(name), name)
        return
    if not files:
        folder = repl.session.archive.paths.extensions.agents
        repl.display.say(
            Phrase(
                "There are no sub-agents. To add one, write a Markdown file in {folder}, or in "
                ".kogniterm/agents of a trusted project.",
                {"folder": folder},
            )
        )
        return
    for file in files.values():
        _write(repl, file)
    example = next(iter(files))
    repl.display.say(
        Phrase("To call one: @{name} TASK. To see its instructions: /agents show {name}",
               {"name": example})
    )  # fmt: skip


def choices(repl: Repl) -> Iterable[str]:
    """Return the sub-agents that can be shown."""
    return [f"show {name}" for name in repl.session.context.agents.files]


def _write(repl: Repl, file: AgentFile) -> None:
    """Write a sub-agent with what it is given."""
    from rich.padding import Padding
    from rich.text import Text

    line = Text(f" @{file.name}", "accent")
    line.append(f"  {file.description}", "")
    repl.display.write(line)
    offered = repl.session.extensions.tools.offered
    tools = [name for name in file.tools if name in offered]
    facts = [
        (_("Tools"), ", ".join(tools) or _("none")),
        (_("Model"), file.model or _("the session's")),
        (_("From"), file.source),
    ]
    off = repl.session.context.agents.named[file.name].off
    if off is not None:
        facts.insert(0, (_("State"), _("off: {why}").format(why=translate(off))))
    for name, text in facts:
        repl.display.write(Padding(Text(f"{name}: {text}", "muted"), (0, 0, 0, 4)))


def _show(repl: Repl, file: AgentFile | None, name: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    if file is None:
        raise UsageError("There is no sub-agent {name}; /agents lists them.", name=name or "–")
    _write(repl, file)
    limits = [
        *([_("{count} tokens").format(count=file.tokens)] if file.tokens else []),
        *([_("{count} rounds").format(count=file.rounds)] if file.rounds else []),
    ]
    if limits:
        told = _("Limits: {limits}").format(limits=", ".join(limits))
        repl.display.write(Padding(Text(told, "muted"), (0, 0, 0, 4)))
    lines = clean(file.instructions).splitlines()
    for line in lines[:MOST_LINES]:
        repl.display.write(Padding(Text(line), (0, 0, 0, 4)))
    if len(lines) > MOST_LINES:
        left = len(lines) - MOST_LINES
        repl.display.say(Phrase("{count} more lines are in the file.", {"count": left}))
