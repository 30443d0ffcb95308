"""Own commands: Markdown files that become slash commands.

`NAME.md` in the folder `commands` of the person's configuration, or in a trusted project's
`.kogniterm/commands`, becomes `/NAME`. Its text goes to the model as if it had been typed, with
`$ARGUMENTS` replaced by everything after the name and `$1` to `$9` by its words. A block
between two lines `---` at the top may say `description:` and `arguments:`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import Text, UserInput
from kogniterm.ui.commands.registry import Command
from kogniterm.ui.context import ReplContext

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession

LARGEST = 64 * 1024
MOST = 100
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLACE = re.compile(r"\$(ARGUMENTS\b|[1-9])")


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A command as its file says it."""

    name: str
    body: str
    description: str = ""
    arguments: str = ""

    def expanded(self, argument: str) -> str:
        """The text for the model. Raises `UsageError` for a quote that is not closed."""
        try:
            words = shlex.split(argument)
        except ValueError:
            words = argument.split()

        def put(found: re.Match[str]) -> str:
            if found[1] == "ARGUMENTS":
                return argument
            number = int(found[1])
            return words[number - 1] if number <= len(words) else ""

        text = _PLACE.sub(put, self.body).strip()
        if argument and not _PLACE.search(self.body):
            text = f"{text}\n\n{argument}"
        if not text:
            raise UsageError("/{name} has no text.", name=self.name)
        return text

    def command(self) -> Command:
        """The slash command that sends it."""

        def run(context: ReplContext, argument: str) -> None:
            from kogniterm.ui.inputs import mentions

            text = self.expanded(argument)
            context.ask_model(UserInput(text, attachments=mentions(text)))

        return Command(self.name, Text("{words}", {"words": self.description}), run, self.arguments)


def parse(name: str, text: str) -> OwnCommand | None:
    """The command in a file's text; None when its name cannot be typed."""
    from kogniterm.ui.clean import clean, one_line

    if not _NAME.fullmatch(name):
        return None
    text = clean(text.removeprefix("\ufeff"))
    front = _FRONT.match(text)
    said: dict[str, str] = {}
    for line in front[1].splitlines() if front else ():
        key, colon, value = line.partition(":")
        if colon:
            said[key.strip().lower()] = one_line(value.strip().strip("\"'"), 100)
    body = text[front.end() :] if front else text
    described = said.get("description") or one_line(
        body.strip().partition("\n")[0].lstrip("# "), 60
    )
    default = "[WORDS]" if _PLACE.search(body) else ""
    return OwnCommand(name, body, described, said.get("arguments", default))


def from_folder(folder: Path) -> Iterator[OwnCommand]:
    """The commands of the person's own folder; what cannot be read is left out."""
    try:
        files = sorted(folder.glob("*.md"))[:MOST]
    except OSError:
        return
    for file in files:
        try:
            if not file.is_file() or file.stat().st_size > LARGEST:
                continue
            found = parse(file.stem, file.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if found is not None:
            yield found


def from_texts(texts: Iterable[tuple[str, str]]) -> Iterator[OwnCommand]:
    """The commands of a trusted project, given as file name and text."""
    for name, text in texts:
        found = parse(Path(name).stem, text)
        if found is not None:
            yield found


def session_commands(session: LiveSession) -> tuple[tuple[Command, ...], tuple[Text, ...]]:
    """The person's and the trusted project's own commands, and what to tell about others."""
    from kogniterm.ui.commands.basic import basic_registry

    taken = [name for one in basic_registry().commands for name in (one.name, *one.aliases)]
    cabinet = session.cabinet
    mine = from_folder(cabinet.paths.config / "commands")
    made, refused = own_commands((*mine, *from_texts(cabinet.project_commands())), taken)
    told = tuple(
        Text("An own command cannot be called /{name}: the name is taken.", {"name": name})
        for name in refused
    )
    return made, told


def own_commands(
    commands: Iterable[OwnCommand], taken: Iterable[str]
) -> tuple[tuple[Command, ...], tuple[str, ...]]:
    """Slash commands, the first of a name wins; and the names that are taken already."""
    names, made, refused = set(taken), [], []
    for one in commands:
        if one.name in names:
            refused.append(one.name)
            continue
        names.add(one.name)
        made.append(one.command())
    return tuple(made), tuple(refused)
