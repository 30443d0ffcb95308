"""Writes two pages from the program's own tables: docs/commands.md and docs/kogniterm.1.

`make docs` writes them with the others (docs/generate.py); a test fails when they differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from kogniterm.cli import verbs
from kogniterm.cli.completion_places import Flag, Place, places
from kogniterm.cli.main import DESCRIPTION
from kogniterm.cli.options import GENERAL, SESSION, Option
from kogniterm.ui.commands.basic import basic_registry
from kogniterm.ui.commands.registry import Command

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


def slash_commands() -> str:
    """The text of docs/commands.md."""
    rows = [_row(command) for command in basic_registry().commands]
    table = "\n".join(["| command | what it does |", "|---|---|", *rows])
    return f"{HEAD}\n{table}\n{OWN}"


def _row(command: Command) -> str:
    shown = f"/{command.name} {command.arguments}".strip().replace("|", "\\|")
    names = ", ".join([f"`{shown}`", *(f"`/{alias}`" for alias in command.aliases)])
    mark = "" if command.while_running else " †"
    return f"| {names}{mark} | {command.help} |"


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
    for command in basic_registry().commands:
        yield from _man_item(f"/{command.name} {command.arguments}".strip(), str(command.help))
    yield ".SH EXIT STATUS"
    for status, meaning in EXIT_STATUS:
        yield from _man_item(status, meaning)
    yield ".SH FILES"
    for name, meaning in FILES:
        yield from _man_item(name, meaning)
    yield ".SH SEE ALSO"
    yield ".BR bash (1),\n.BR bwrap (1)"


def _man_option(option: Option) -> Iterator[str]:
    names = [name for name in (option.short, option.flag) if name]
    yield from _man_item(" ".join([", ".join(names), option.metavar]).strip(), option.help)


def _man_place(place: Place) -> Iterator[str]:
    words = place.path.strip("/").split("/")
    yield f".SS {_roff(' '.join(['kogniterm', *words]))}"
    if len(words) == 1:
        yield _roff(next(verb.help for verb in verbs.VERBS if verb.name == words[0]) + ".")
    shared = {name for one in (*GENERAL, *SESSION) for name in (one.flag, one.short)}
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
