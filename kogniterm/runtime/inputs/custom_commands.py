"""Custom commands: files of the user and of trusted projects that become slash commands.

`NAME.md` (as Claude Code has it) or `NAME.toml` (as gemini-cli has it) becomes `/NAME`, and
`FOLDER/NAME.md` becomes `/FOLDER:NAME`, or `/NAME` too where nothing else has that name. Its text
goes to the model as if it had been typed, with the user's arguments put in; see `command_template`.
Commands in it are run before, by `command_lines`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.errors import SettingsError, UsageError
from kogniterm.host.safe_files import resolve_path
from kogniterm.runtime.extensions.front_matter import read_document, texts_of_folder
from kogniterm.runtime.inputs.command_template import Template
from kogniterm.runtime.named_files import mentions
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.settings.user_files import toml_values
from kogniterm.storage.folders import expand_path
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.types import Phrase, UserInput

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession

MOST_COMMANDS = 200
MOST_LINES = 20
"""Commands that one custom command may run."""
ENDINGS = (".md", ".toml")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,40}(?::[a-z0-9][a-z0-9_.-]{0,40}){0,4}")

FindFiles = Callable[[str], Sequence[str]]
"""Return the files that a text names with @ and that exist."""


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A custom command as its file describes it; `alias` is a shorter name, if it has one.

    `source` is the file, for the user; `allowed_tools` are permissions that it asks for; `root` is
    the folder of its plugin.
    """

    name: str
    template: Template
    description: str = ""
    arguments: str = ""
    source: str = ""
    project: bool = False
    model: str = ""
    allowed_tools: tuple[str, ...] = ()
    alias: str = ""
    root: str = ""

    @property
    def help(self) -> Phrase:
        """Return the description, with whose command it is."""
        words = {"words": self.description}
        if self.root:
            return Phrase("{words} (plugin)", words)
        return Phrase("{words} (project)", words) if self.project else Phrase("{words}", words)

    def make_input(self, argument: str, folder: str, find: FindFiles) -> UserInput:
        """Return the input that the command and the user's arguments make.

        Raises `UsageError` when it is empty or cannot be used.
        """
        try:
            parts = self.template.fill(argument)
        except UsageError as error:
            raise UsageError(
                "Custom command /{name} cannot be used: {why}", name=self.name, why=error.text
            ) from error
        texts = [part.text for part in parts]
        count = len(texts) // 2
        if count > MOST_LINES:
            raise UsageError(
                "Custom command /{name} has {count} commands; at most {most} are allowed.",
                name=self.name,
                count=count,
                most=MOST_LINES,
            )
        texts[0], texts[-1] = texts[0].lstrip(), texts[-1].rstrip()
        if not any(text.strip() for text in texts):
            raise UsageError(
                "Custom command /{name} produced no text; check its file and arguments.",
                name=self.name,
            )
        line = f"/{self.name} {argument}".rstrip()
        files = self._files(texts[::2], argument, folder, find)
        given = UserInput(
            line if count else texts[0].strip(),
            attachments=files,
            line=line,
            model=self.model,
            permissions=self.allowed_tools,
        )
        return replace(given, parts=tuple(texts)) if count else given

    def _files(
        self, texts: Sequence[str], argument: str, folder: str, find: FindFiles
    ) -> tuple[str, ...]:
        """Return the files to attach: a project names no files but its own, and no secrets."""
        asked = set(find(argument))
        names = dict.fromkeys(name for text in texts for name in find(text))
        given = (
            self._own_file(name, folder) if self.project and name not in asked else name
            for name in names
        )
        return tuple(dict.fromkeys(given))

    def _own_file(self, name: str, folder: str) -> str:
        """Return the real path of a file that the command names, as seen from `folder`."""
        places = (Path(one) for one in (folder, self.root) if one)
        try:
            path = resolve_path(expand_path(folder, name))
            own = any(path.is_relative_to(resolve_path(place)) for place in places)
        except (OSError, ValueError):
            own = False
        if not own or is_secret(str(path)):
            raise UsageError(
                "Custom command /{name} of this project names {file}, which is outside of its "
                "folder or may hold secrets. To attach it, name it yourself.",
                name=self.name,
                file=name,
            )
        return str(path)


def parse_command(
    path: str, text: str, *, source: str = "", project: bool = False, root: str = ""
) -> CustomCommand | Phrase:
    """Return the command in a file, or why it has none.

    `path` is the file's name below the folder of commands, `root` the folder of its plugin.
    """
    relative = PurePosixPath(path)
    name = ":".join((*relative.parent.parts, relative.stem)).lower()
    source = source or path
    if not _NAME.fullmatch(name):
        return _left_out(source, Phrase("its name cannot be typed as a command"))
    read = _from_toml if relative.suffix == ".toml" else _from_markdown
    found = read(name, text)
    if isinstance(found, Phrase):
        return _left_out(source, found)
    return replace(found, source=source, project=project, root=root)


def _left_out(source: str, why: Phrase) -> Phrase:
    return Phrase("Custom command {file} ignored: {why}", {"file": source, "why": why})


def _from_markdown(name: str, text: str) -> CustomCommand:
    document = read_document(text)
    template = Template(document.body)
    hint = document.fields.get("argument-hint", document.fields.get("arguments"))
    # YAML reads [WORD] as a list.
    shown = f"[{', '.join(map(str, hint))}]" if isinstance(hint, list) else str(hint or "")
    model = document.text("model")
    return CustomCommand(
        name,
        template,
        _describe_input(document.text("description"), template),
        _hint(shown, template),
        model=model if model != "inherit" else "",
        allowed_tools=document.words("allowed-tools"),
    )


def _from_toml(name: str, text: str) -> CustomCommand | Phrase:
    try:
        fields = toml_values(name, text).data
    except SettingsError as error:
        return error.text
    prompt, described = fields.get("prompt"), fields.get("description")
    if not isinstance(prompt, str):
        return Phrase("it has no prompt")
    template = Template(clean(prompt), "gemini")
    words = described if isinstance(described, str) else ""
    return CustomCommand(name, template, _describe_input(words, template), _hint("", template))


def _describe_input(given: str, template: Template) -> str:
    first = template.body.strip().partition("\n")[0].lstrip("# ")
    return one_line(given, 100) or one_line(first, 60)


def _hint(given: str, template: Template) -> str:
    return one_line(given, 60) or ("[WORDS]" if template.takes_arguments else "")


def commands_of_folder(folder: Path) -> Iterator[CustomCommand | Phrase]:
    """Yield the commands of the user's folder, and why a file has none."""
    for file, text in texts_of_folder(folder, ENDINGS, MOST_COMMANDS):
        if isinstance(text, Phrase):
            yield _left_out(str(file), text)
        else:
            yield parse_command(file.relative_to(folder).as_posix(), text, source=str(file))


def commands_of_files(files: Iterable[ProjectFile]) -> Iterator[CustomCommand | Phrase]:
    """Yield the commands in trusted files of a project or a plugin."""
    for one in files:
        below, root = one.name.partition("/commands/")[2] or one.name, ""
        if one.plugin is not None:
            below, root = f"{one.plugin.name}/{one.below}", one.plugin.root
        yield parse_command(below, one.filled, source=one.name, project=True, root=root)


def custom_commands_of(
    session: LiveSession, built_in: Collection[str]
) -> tuple[tuple[CustomCommand, ...], tuple[Phrase, ...]]:
    """Return the user's and the trusted project's commands, and notices about others.

    The first of a name wins; the `built_in` names are taken.
    """
    mine = commands_of_folder(session.archive.paths.extensions.commands)
    made: dict[str, CustomCommand] = {}
    refused: list[Phrase] = []
    for one in (*mine, *commands_of_files(session.archive.project_commands())):
        if isinstance(one, Phrase):
            refused.append(one)
            continue
        if one.name in built_in or one.name in made:
            values = {"name": one.name, "file": one.source}
            refused.append(
                Phrase("Custom command /{name} ({file}) ignored: the name is already in use.",
                       values)
            )  # fmt: skip
            continue
        made[one.name] = one
    short = Counter(name.rpartition(":")[2] for name in made)
    free = {name for name, count in short.items() if count == 1} - set(built_in)
    return tuple(_with_alias(one, free) for one in made.values()), tuple(refused)


def _with_alias(command: CustomCommand, free: Collection[str]) -> CustomCommand:
    _folder, colon, short = command.name.rpartition(":")
    return replace(command, alias=short) if colon and short in free else command


def command_input(
    session: LiveSession, line: str, built_in: Collection[str]
) -> tuple[UserInput | None, tuple[str, ...]]:
    """Return what a line that begins with /NAME makes, and the names of commands and skills.

    The input is None where it names neither. Raises `UsageError` for one that cannot be used.
    """
    known, _refused = custom_commands_of(session, built_in)
    custom, argument = typed_command(known, line)
    find = partial(mentions, folder=session.folder)
    taken = {*built_in, *(word for one in known for word in (one.name, one.alias))}
    skills = [skill for skill, _description in session.extensions.skills.commands(taken)]
    names = (*(one.name for one in known), *skills)
    if custom is not None:
        return custom.make_input(argument, session.folder, find), names
    name = line.strip().removeprefix("/").partition(" ")[0].lower()
    if name not in skills:
        return None, names
    return skill_input(session, name, argument.strip(), find), names


def skill_input(
    session: LiveSession, name: str, argument: str, find: FindFiles = lambda text: ()
) -> UserInput:
    """Return the input that runs a skill for the user. Raises `UsageError`."""
    template = Template(session.extensions.skills.template(name), "skill")
    named = find(argument)  # the files that only the skill names are not attached
    return CustomCommand(name, template).make_input(argument, session.folder, lambda _text: named)


def typed_command(commands: Iterable[CustomCommand], line: str) -> tuple[CustomCommand | None, str]:
    """Return the command that a line calls by its whole name, and the arguments behind it."""
    name, _space, argument = line.strip().removeprefix("/").partition(" ")
    called = name.lower()
    return next((one for one in commands if called in (one.name, one.alias)), None), argument
