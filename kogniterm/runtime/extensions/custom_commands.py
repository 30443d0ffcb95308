"""Custom commands: Markdown files that become slash commands.

`NAME.md` in the folder `commands` of the configuration, or in a trusted project's
`.kogniterm/commands`, becomes `/NAME`. Its text goes to the model as if it had been typed, with
`$ARGUMENTS` replaced by everything after the name and `$1` to `$9` by its words. A block between
two lines `---` at the top may say `description:` and `arguments:`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kogniterm.errors import UsageError
from kogniterm.runtime.extensions.front_matter import read_document
from kogniterm.text.visible import one_line

LARGEST = 64 * 1024
MOST_COMMANDS = 100
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_PLACE = re.compile(r"\$(ARGUMENTS\b|[1-9])")


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A custom command as its file describes it."""

    name: str
    body: str
    description: str = ""
    arguments: str = ""

    def expanded(self, argument: str) -> str:
        """Return the text for the model. Raises `UsageError` when it is empty."""
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
            raise UsageError(
                "Custom command /{name} produced no text; check its file and arguments.",
                name=self.name,
            )
        return text


def parse_command(name: str, text: str) -> CustomCommand | None:
    """Return the command in a file's text; None when its name cannot be typed."""
    if not _NAME.fullmatch(name):
        return None
    document = read_document(text)
    body = document.body
    described = one_line(document.text("description"), 100) or one_line(
        body.strip().partition("\n")[0].lstrip("# "), 60
    )
    default = "[WORDS]" if _PLACE.search(body) else ""
    return CustomCommand(name, body, described, document.text("arguments") or default)


def commands_of_folder(folder: Path) -> Iterator[CustomCommand]:
    """Yield the commands of the user's folder; what cannot be read is left out."""
    try:
        files = sorted(folder.glob("*.md"))[:MOST_COMMANDS]
    except OSError:
        return
    for file in files:
        try:
            if not file.is_file() or file.stat().st_size > LARGEST:
                continue
            found = parse_command(file.stem, file.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if found is not None:
            yield found


def commands_of_texts(texts: Iterable[tuple[str, str]]) -> Iterator[CustomCommand]:
    """Yield the commands of a trusted project, given as file name and text."""
    for name, text in texts:
        found = parse_command(Path(name).stem, text)
        if found is not None:
            yield found
