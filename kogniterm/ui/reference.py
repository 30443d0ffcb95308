"""Writes docs/keys.md: the keys and slash commands, from the tables that bind them.

`python -m kogniterm.ui.reference > docs/keys.md`
"""

from __future__ import annotations

import sys

from kogniterm.ui.commands.basic import basic_registry
from kogniterm.ui.keys import Where, table

HEAD = """# Keys and commands

<!-- Written by `python -m kogniterm.ui.reference`; do not edit by hand. -->

KogniTerm keeps its prompt alive while a turn runs: Enter queues what you type, Ctrl-S says it
to the running turn before its next step, Ctrl-T stops the turn and sends it at once. `/keys vi`
switches to vi keys; the table holds in both.
"""


def reference() -> str:
    """The whole page."""
    parts = [HEAD, "## At the prompt\n", _keys("prompt"), "## At a question of approval\n"]
    parts.append(
        "A key answers only when it is pressed alone: half a second after the question was drawn "
        "and after the last key, and followed by half a second in which no other key comes. Until "
        "then it is marked in the row of keys; the row has brackets while keys work. Every other "
        "key begins a text on the input line: Enter rejects with this text as the reason, Esc "
        "puts it aside until the question is answered, and a slash command runs. Words never "
        "approve; only `n` or `no` with Enter rejects. The same holds at every question of "
        "KogniTerm. A command longer than the screen has to be read to its end first, and a "
        "dangerous one takes the whole word (`yes` or `sí`, in every language) on an empty line. "
        "With `TERM=dumb`, in screen-reader mode and in `kogniterm run` the same letters, or "
        "their whole words, are typed on a line of their own.\n"
    )
    parts += [_keys("question"), "## At a plan\n"]
    parts.append(
        "Approving a plan runs nothing by itself: its commands are asked for one by one. See "
        "[plans](plans.md).\n"
    )
    parts += [_keys("plan"), "## At other questions\n"]
    parts.append("Trust, undo, what to forget, and commands whose outcome is unknown.\n")
    parts += [_keys("choice"), "## At a question of the model's\n"]
    parts.append(
        "What only you can decide, the model may ask: answer with a number, with the arrows or in "
        "your own words on the input line. Nothing is sent before you could see the question; it "
        "is asked again when KogniTerm was killed while it stood there. Where nobody can be "
        "asked, the model is told so, and `kogniterm run` ends with status 3.\n"
    )
    parts += [_keys("answer"), "## Slash commands\n", _commands()]
    parts.append("`!COMMAND` runs a command of your own; the model sees it at its next turn.\n")
    parts.append(
        "`@FILE` names a file, with completion: the model gets its text, without secrets and "
        "shortened in the middle when it is long. An image (PNG, JPEG, GIF, WebP) goes to models "
        "that take images as it is; drop its file on the terminal, or add the one on the "
        "clipboard with Ctrl-V. `@jobs` gives it what the background jobs printed, `@job:ID` "
        "what one of them did.\n"
    )
    return "\n".join(parts)


def _keys(where: Where) -> str:
    rows = [f"| {shown} | {help_} |" for shown, help_ in table(where)]
    return "\n".join(["| key | what it does |", "|---|---|", *rows, ""])


def _commands() -> str:
    rows = []
    for command in basic_registry().commands:
        words = f"`/{command.name} {command.arguments}`".replace(" `", "`").replace("|", "\\|")
        names = ", ".join([words, *(f"`/{alias}`" for alias in command.aliases)])
        rows.append(f"| {names} | {command.help} |")
    return "\n".join(["| command | what it does |", "|---|---|", *rows, ""])


if __name__ == "__main__":
    sys.stdout.write(reference())
