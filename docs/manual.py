"""Writes pages from the program's own tables: docs/commands.md, docs/keys.md and docs/kogniterm.1.

`make docs` writes them with the others (docs/generate.py); a test fails when they differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from kogniterm.cli import verb_table
from kogniterm.cli.command_tree import Flag, Place, places
from kogniterm.cli.main import DESCRIPTION
from kogniterm.cli.options import GENERAL, SESSION, Argument
from kogniterm.ui.commands.command_table import COMMANDS
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.prompt.key_table import Where, table

EXIT_STATUS = (
    ("0", "done"),
    ("1", "not done, or something unexpected went wrong"),
    ("2", "wrong use or settings"),
    ("3", "an action was refused, or needed a person and there was none"),
    ("4", "a budget ran out: steps, time, tokens, money, commands or output"),
    ("5", "the model or its provider failed"),
    ("128+n", "ended by signal n; 130 is Ctrl-C"),
)
FILES = (
    ("~/.config/kogniterm/config.toml", "settings; the command config path names it"),
    ("~/.config/kogniterm/.env", "keys and settings as NAME=value"),
    ("~/.config/kogniterm/policy.toml", "the person's own approval rules"),
    ("~/.config/kogniterm/commands/NAME.md", "own slash commands"),
    ("~/.local/share/kogniterm/", "sessions, memory, command outputs, copies for undo"),
    ("KOGNITERM.md, AGENTS.md", "a project's instructions, once its folder is trusted"),
)
HEAD = """# Slash commands

Generated from the table that dispatches and completes them by `make docs`.

A command is typed at the prompt; a unique beginning is enough (`/he` is `/help`), and Tab
completes names and arguments. Commands marked with † wait until no turn is running.
"""
OWN = """
## Own commands

A file `NAME.md` in the folder `commands` of the configuration folder (`kogniterm config path`)
becomes `/NAME`; so does one in `.kogniterm/commands` of a project whose folder is trusted
(`/trust`). Its text goes to the model as if it had been typed. `$ARGUMENTS` stands for
everything after the name, `$1` to `$9` for its words; a text without either gets the arguments
as a last paragraph. A block at the top describes it in `/help` and in completion:

```markdown
---
description: Review a branch against main
arguments: BRANCH
---
Look at `git diff main...$1` and name what could go wrong.
```

Names are small letters, digits, `-` and `_`; built-in names cannot be taken. A project's
commands are read when a session opens and when `/trust` is given, and only if the folder is
trusted as it is then.
"""
KEYS_HEAD = """# Keys and commands

<!-- Generated from the tables that bind the keys by `make docs`; do not edit by hand. -->

KogniTerm keeps its prompt alive while a turn runs: Enter queues what you type, Ctrl-S says it
to the running turn before its next step, Ctrl-T stops the turn and sends it at once. `/keys vi`
switches to vi keys; the table holds in both.
"""


def slash_commands() -> str:
    """The text of docs/commands.md."""
    rows = [_row(command) for command in COMMANDS]
    table = "\n".join(["| command | what it does |", "|---|---|", *rows])
    return f"{HEAD}\n{table}\n{OWN}"


def _row(command: Command) -> str:
    shown = f"/{command.name} {command.arguments}".strip().replace("|", "\\|")
    names = ", ".join([f"`{shown}`", *(f"`/{alias}`" for alias in command.aliases)])
    mark = "" if command.while_running else " †"
    return f"| {names}{mark} | {command.help} |"


def keys_page() -> str:
    """The text of docs/keys.md."""
    parts = [KEYS_HEAD, "## At the prompt\n", _keys("prompt"), "## At a question of approval\n"]
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
    parts += [_keys("answer"), "## Slash commands\n", _command_rows()]
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


def _command_rows() -> str:
    rows = []
    for command in COMMANDS:
        words = f"`/{command.name} {command.arguments}`".replace(" `", "`").replace("|", "\\|")
        names = ", ".join([words, *(f"`/{alias}`" for alias in command.aliases)])
        rows.append(f"| {names} | {command.help} |")
    return "\n".join(["| command | what it does |", "|---|---|", *rows, ""])


def man_page() -> str:
    """The text of docs/kogniterm.1, in the macros of man(7)."""
    return "\n".join(_man()) + "\n"


def _man() -> Iterator[str]:
    yield '.\\" Generated from the tables of the command line by make docs.'
    yield ".TH KOGNITERM 1"
    yield ".SH NAME"
    yield "kogniterm \\- a terminal agent that plans, asks before it acts, and runs commands"
    yield ".SH SYNOPSIS"
    yield ".B kogniterm\n[\\fIOPTION\\fR]...\n.br"
    yield ".B kogniterm\n\\fICOMMAND\\fR [\\fIOPTION\\fR]..."
    yield ".SH DESCRIPTION"
    yield _roff(DESCRIPTION)
    yield ".SH GENERAL OPTIONS"
    for option in GENERAL:
        yield from _man_option(option)
    yield ".SH SESSION OPTIONS"
    yield "For the prompt and for \\fBrun\\fR."
    for option in SESSION:
        yield from _man_option(option)
    yield ".SH COMMANDS"
    for place in places():
        if place.path:
            yield from _man_place(place)
    yield ".SH SLASH COMMANDS"
    for command in COMMANDS:
        yield from _man_item(f"/{command.name} {command.arguments}".strip(), str(command.help))
    yield ".SH EXIT STATUS"
    for status, meaning in EXIT_STATUS:
        yield from _man_item(status, meaning)
    yield ".SH FILES"
    for name, meaning in FILES:
        yield from _man_item(name, meaning)
    yield ".SH SEE ALSO"
    yield ".BR bash (1),\n.BR bwrap (1)"


def _man_option(option: Argument) -> Iterator[str]:
    names = [name for name in (option.short, option.name) if name]
    yield from _man_item(" ".join([", ".join(names), option.metavar]).strip(), option.help)


def _man_place(place: Place) -> Iterator[str]:
    words = place.path.strip("/").split("/")
    yield f".SS {_roff(' '.join(['kogniterm', *words]))}"
    if len(words) == 1:
        yield _roff(next(verb.help for verb in verb_table.VERBS if verb.name == words[0]) + ".")
    shared = {name for one in (*GENERAL, *SESSION) for name in one.names}
    for word, meaning in place.words.items():
        yield from _man_item(word, meaning)
    for flag in place.flags:
        if not shared & set(flag.names) and "--help" not in flag.names:
            yield from _man_item(_names(flag), flag.help)


def _names(flag: Flag) -> str:
    value = "|".join(flag.values) if flag.values else "VALUE" if flag.takes_value else ""
    return f"{', '.join(flag.names)} {value}".strip()


def _man_item(term: str, meaning: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {_roff(term)}"
    yield _roff(meaning) or "\\&"


def _roff(text: str) -> str:
    """`text` as roff takes it literally."""
    plain = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    plain = plain.replace("…", "...").replace("“", '"').replace("”", '"').replace("’", "'")
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
