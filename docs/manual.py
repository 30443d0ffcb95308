"""Write pages from the program's own tables: docs/commands.md, docs/keys.md and docs/kogniterm.1.

`make docs` writes them with the others (docs/generate.py); a test fails when they differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from docs.completion_scripts import Flag, Place, places
from kogniterm.cli import options
from kogniterm.cli.main import DESCRIPTION, EXAMPLES
from kogniterm.cli.options import GENERAL, SESSION
from kogniterm.runtime.operations.action import Argument
from kogniterm.ui.commands.command_table import COMMANDS
from kogniterm.ui.commands.help_topics import TOPICS
from kogniterm.ui.slash_commands import Command
from kogniterm.ui.words.key_table import Where, table

EXIT_STATUS = (
    ("0", "done, as the model stated or without an open plan, even if a command failed"),
    ("1", "not done, or blocked by something other than approval; an unexpected error"),
    ("2", "wrong usage or settings"),
    ("3", "blocked: an action was refused, or needed approval without a user"),
    ("4", "a limit was reached: steps, time, tokens or money"),
    ("5", "the model or its provider failed"),
    ("130", "interrupted by Ctrl-C; 128 + n for another signal n"),
)
FILES = (
    ("~/.config/kogniterm/config.toml", "settings; kogniterm config path shows the file in use"),
    ("~/.config/kogniterm/.env", "keys and settings as NAME=value"),
    ("~/.config/kogniterm/policy.toml", "your approval rules"),
    ("~/.config/kogniterm/commands/NAME.md", "your slash commands"),
    ("~/.config/kogniterm/agents/NAME.md", "your sub-agents"),
    ("~/.local/share/kogniterm/", "sessions, memory, command outputs, copies for undo"),
    ("AGENTS.md, KOGNITERM.md", "a project's instructions, once its folder is trusted"),
)
HEAD = """# Slash commands

<!-- Generated from the table of commands by `make docs`; do not edit by hand. -->

`/help undo` explains a command, and `/help approvals` a [topic](cli.md#help-topics). A name can be
shortened as long as it is unique (`/he` is `/help`). Commands marked with † wait until no turn is
running.
"""
OWN = """
## Custom commands

To add a command `/review`, write the file `review.md` in the folder `commands` of your
configuration folder (`kogniterm config path`):

```markdown
---
description: Review a branch against main
arguments: BRANCH
---
Look at `git diff main...$1` and list what could go wrong.
```

The text is sent to the model as your input, with the files that it names as `@FILE`.

- **The block at the top** is optional: `description` and `arguments` (or `argument-hint`) for
  `/help`, and a `model` that answers the turn.
- **Arguments:** `$ARGUMENTS` is replaced by everything after the name, `$1` to `$9` by its words.
  If the text contains none of these, the arguments are added at the end.
- **Commands in the text:** the output of `` !`git diff` `` takes its place, with arguments quoted
  for the shell. Each is approved like any other; if one is refused or fails, nothing is sent.
- **Permissions:** what `allowed-tools` names is offered to you for this session.
- **Names:** `frontend/component.md` is `/frontend:component`, and `/component` where that name is
  free. Built-in names cannot be replaced.

The files of gemini-cli (`NAME.toml`) work too, and so does `kogniterm run "/review BRANCH"`. A
project can have commands in `.kogniterm/commands`, `.claude/commands` and `.gemini/commands`; they
work only while you trust the folder, and attach only files of the project.
"""
KEYS_HEAD = """# Keys

<!-- Generated from the tables that bind the keys by `make docs`; do not edit by hand. -->

`/keys` shows the keys at the prompt, and `/keys vi` switches to vi keys.
"""
APPROVAL_KEYS = """\
Press the key alone, on an empty line: it answers after 0.35 seconds without another key, or at once
with Enter. In Spanish, an English letter without another meaning works too. A key in the first 0.3
seconds of a question is dropped. No key answers while the line has a text, or within half a second
after a key that came before the question. A command longer than the screen must be scrolled to its
end first. A dangerous command needs the whole word (`yes` or `sí`, in every language).

Any other key starts a text. Enter rejects the command with it as the reason, or runs a slash
command; Esc sets the text aside until the question is answered. With `TERM=dumb`, in screen-reader
mode and in `kogniterm run`, type the letters or whole words on a line.
"""
MODEL_QUESTION = """\
Answer with a number, with the arrows, or with a text. If KogniTerm is killed at the question, you
are asked again when the session is resumed. If no user is available, the model is informed, and
`kogniterm run` ends with status 3.
"""
TAKEN_OVER = """\
While you type into a running command (vim, ssh, a password prompt), it gets every key except these:

- Ctrl-]: leave it running as a background job
- Ctrl-G Ctrl-G Ctrl-D within 1.5 seconds: the same, for keyboards where `]` needs AltGr
"""
INPUT_LINE = """## On the input line

- `/NAME` runs a [slash command](commands.md).
- `!COMMAND` runs a command of your own. The model sees it and its output at its next turn.
- `@FILE` adds a file's text, without secrets and shortened in the middle if it is long. Tab
  completes the name, but of no file that git ignores.
- `@IMAGE` adds a PNG, JPEG, GIF or WebP image, for [models that take images](models.md). You can
  also drop the file on the terminal.
- `@jobs` adds the output of all background jobs, `@job:ID` that of one job.
"""


def slash_commands() -> str:
    """Return the text of docs/commands.md."""
    rows = [_row(command) for command in COMMANDS]
    return "\n".join([HEAD, *rows, OWN])


def _row(command: Command) -> str:
    shown = f"/{command.name} {command.arguments}".strip()
    names = ", ".join([f"`{shown}`", *(f"`/{alias}`" for alias in command.aliases)])
    mark = "" if command.while_running else " †"
    return f"- {names}{mark}: {command.help}"


def keys_page() -> str:
    """Return the text of docs/keys.md."""
    approving = "[Plans](plans.md) explains when a plan waits for you.\n"
    others = "Each question shows its own keys.\n"
    parts = [KEYS_HEAD, "## At the prompt\n", _keys("prompt"), INPUT_LINE]
    parts += ["## At an approval\n", _keys("question"), APPROVAL_KEYS]
    parts += ["## At a plan\n", approving, _keys("plan")]
    parts += ["## At other questions\n", others, _keys("choice")]
    parts += ["## At a question from the model\n", MODEL_QUESTION, _keys("answer")]
    parts += ["## In a running command\n", TAKEN_OVER]
    return "\n".join(parts).rstrip("\n") + "\n"


def _keys(where: Where) -> str:
    return "\n".join([*(f"- {shown}: {help_}" for shown, help_ in table(where)), ""])


def man_page() -> str:
    """Return the text of docs/kogniterm.1, in the macros of man(7)."""
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
    of_session = {name for option in SESSION for name in option.names}
    for flag in next(places()).flags:
        if not of_session & set(flag.names):
            yield from _man_item(_names(flag), flag.help)
    yield ".SH SESSION OPTIONS"
    yield "The prompt, \\fBrun\\fR, \\fBresume\\fR and \\fBrecipe run\\fR take these options."
    for title, group in options.SESSION_GROUPS:
        yield f".SS {_roff(title)}"
        for option in group:
            yield from _man_option(option)
    yield ".SH COMMANDS"
    for place in places():
        if place.path:
            yield from _man_place(place)
    yield ".SH HELP TOPICS"
    for topic in TOPICS:
        yield from _man_item(f"kogniterm help {topic.name}", str(topic.title))
    yield ".SH SLASH COMMANDS"
    for command in COMMANDS:
        yield from _man_item(f"/{command.name} {command.arguments}".strip(), str(command.help))
    yield ".SH EXAMPLES"
    for example in EXAMPLES:
        yield from _man_item(example.line, example.help)
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
    yield from _man_item(
        " ".join([", ".join(names), option.metavar]).strip(), options.explain(option)
    )


def _man_place(place: Place) -> Iterator[str]:
    words = place.path.strip("/").split("/")
    yield f".SS {_roff(' '.join(['kogniterm', *words]))}"
    yield _roff(place.description)
    shared = {name for one in (*GENERAL, *SESSION) for name in one.names}
    for word, meaning in place.words.items():
        yield from _man_item(word, meaning)
    for flag in place.flags:
        if not shared & set(flag.names) and "--help" not in flag.names:
            yield from _man_item(_names(flag), flag.help)
    for number, example in enumerate(place.examples):
        yield ".br" if number else ".PP\nExamples:\n.br"
        yield f".B {_roff(example)}"


def _names(flag: Flag) -> str:
    return f"{', '.join(flag.names)} {flag.metavar}".strip()


def _man_item(term: str, meaning: str) -> Iterator[str]:
    yield ".TP"
    yield f".B {_roff(term)}"
    yield _roff(meaning) or "\\&"


def _roff(text: str) -> str:
    """Return `text` in a form that roff takes literally."""
    plain = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    plain = plain.replace("…", "...").replace("“", '"').replace("”", '"').replace("’", "'")
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
