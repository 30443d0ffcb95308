"""The parser class and the options, as data; and the way from parsed options to settings.

Options are kept out of the namespace unless given, so that an option means the same before and
after the verb, and so that settings can tell what came from a flag.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from kogniterm.errors import UsageError
from kogniterm.paths import named
from kogniterm.types import Text
from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from kogniterm.settings import Settings


@dataclass(frozen=True, slots=True)
class Option:
    """A flag. `field` is the setting it sets (empty: it is no setting); `const` makes a switch."""

    flag: str
    help: str
    field: str = ""
    metavar: str = ""
    const: object = None
    choices: tuple[str, ...] = ()
    short: str = ""

    @property
    def dest(self) -> str:
        """Name in the parsed namespace."""
        return self.field or self.flag.lstrip("-").replace("-", "_")


GENERAL: tuple[Option, ...] = (
    Option("--lang", "language of the screens: auto, en or es", "language", "LANG"),
    Option("--env-file", "read keys and settings from FILE instead of the usual .env", "", "FILE"),
    Option("--debug", "log everything, to the screen too; show tracebacks", "", const=True),
)
SESSION: tuple[Option, ...] = (
    Option("--model", "model to use, such as google_genai:NAME or local", "model", "NAME"),
    Option(
        "--plan",
        "when to plan: auto, always or never; run also takes a plan's file",
        "plan",
        "WHEN",
    ),
    Option(
        "--plan-approval",
        "ask before a plan is worked on: auto, always or never",
        "plan_approval",
        "WHEN",
    ),
    Option(
        "--auto-approve",
        "run what policy does not deny, without asking",
        "approval_mode",
        const="auto",
        short="-y",
    ),
    Option("--allow-reads", "run read-only commands without asking", "allow_reads", const=True),
    Option("--no-sandbox", "run commands without a sandbox", "sandbox", const="off"),
    Option("--cwd", "folder to work in", "", "FOLDER", short="-C"),
    Option("--resume", "go on with a session: its id, or last", "", "ID"),
    Option("--continue", "go on with the last session", "resume_last", const=True, short="-c"),
    Option("--memory", "what is remembered: off, session or full", "memory", "KIND"),
    Option("--timeout", "most seconds the task may take", "max_seconds", "SECONDS"),
    Option("--command-timeout", "most seconds a command may take", "command_timeout", "SECONDS"),
    Option(
        "--end-jobs",
        "end everything that commands left running, what was detached too",
        "end_jobs",
        const=True,
    ),
    Option("--max-steps", "most steps a task may take", "max_steps", "N"),
    Option("--max-tokens", "most tokens a task may use", "max_tokens", "N"),
    Option("--max-cost", "most US dollars a task may cost", "max_cost_usd", "USD"),
    Option(
        "--max-session-tokens",
        "most tokens all tasks of a session may use",
        "max_session_tokens",
        "N",
    ),
    Option(
        "--max-session-cost",
        "most US dollars all tasks of a session may cost",
        "max_session_cost_usd",
        "USD",
    ),
    Option("--max-commands", "most commands a task may run", "max_commands", "N"),
    Option("--max-output", "most megabytes of output a task may make", "max_output_mb", "MB"),
)


_MISTAKES: tuple[tuple[str, Text], ...] = (
    (
        r"unrecognized arguments: (?P<words>.*)",
        Text("{words} means nothing here; see {program} --help."),
    ),
    (
        r"argument (?P<option>.*): expected (?:one|at least one) argument",
        Text("{option} needs a value; see {program} --help."),
    ),
    (
        r"argument (?P<option>.*): ignored explicit argument .*",
        Text("{option} takes no value; see {program} --help."),
    ),
    (
        r"the following arguments are required: (?P<names>.*)",
        Text("{names} is missing; see {program} --help."),
    ),
    (
        r"argument (?P<option>.*): invalid choice: '?(?P<value>.*?)'? "
        r"\(choose from (?P<choices>.*)\)",
        Text("{option} cannot be {value}; choose from {choices}."),
    ),
)
"""What argparse says (in English, for all versions), and our sentence for it."""


class _HelpFormatter(argparse.HelpFormatter):
    """Help whose own words are translated like everything else."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, _("usage: ") if prefix is None else prefix)


class Parser(argparse.ArgumentParser):
    """A parser that raises `UsageError` instead of printing, and knows the general options."""

    def __init__(self, **kwargs: Any) -> None:
        wants_help = kwargs.pop("add_help", True)
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("conflict_handler", "resolve")
        kwargs.setdefault("formatter_class", _HelpFormatter)
        super().__init__(**kwargs, add_help=False)
        self._positionals.title = _("arguments")
        self._optionals.title = _("options")
        if wants_help:
            self.add_argument("-h", "--help", action="help", help=_("show this help"))
        add_options(self.add_argument_group(_("general options")), GENERAL)

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as one sentence."""
        import re

        for pattern, text in _MISTAKES:
            match = re.fullmatch(pattern, message)
            if match:
                raise UsageError(text.template, program=self.prog, **match.groupdict())
        raise UsageError("{message}; see {program} --help.", message=message, program=self.prog)


def add_options(parser: argparse._ActionsContainer, options: tuple[Option, ...]) -> None:
    """Add `options` to a parser or a group of one."""
    for option in options:
        names = [name for name in (option.short, option.flag) if name]
        how: dict[str, Any] = {
            "dest": option.dest,
            "default": argparse.SUPPRESS,
            "help": _(option.help),
        }
        if option.const is not None:
            how |= {"action": "store_const", "const": option.const}
        else:
            how |= {"metavar": _(option.metavar)}
        parser.add_argument(*names, **how)


def flags_of(args: argparse.Namespace) -> dict[str, object]:
    """The settings among the options that were given, by setting name."""
    fields = {option.field for option in (*GENERAL, *SESSION)} - {"", "resume_last"}
    return {name: value for name, value in vars(args).items() if name in fields}


def settings_of(args: argparse.Namespace) -> Settings:
    """The checked settings for these options, with the log set up by them.

    Raises `SettingsError`.
    """
    from kogniterm import settings

    environ = settings.environment()
    env_file: str | None = getattr(args, "env_file", None)
    loaded = settings.load(
        flags_of(args), environ=environ, env_file=Path(env_file) if env_file else None
    )
    set_up_logs(args, settings.quick(environ).paths.log_file, loaded.log_level)
    return loaded


def set_up_logs(args: argparse.Namespace, file: Path, level: str) -> None:
    """Start the log; an unwritable folder only means that there is none."""
    from kogniterm import logs
    from kogniterm.text.redact import redact

    logs.set_up(file, level=level, redact=redact, debug=getattr(args, "debug", False))


def session_wanted(args: argparse.Namespace) -> str | None:
    """The session to go on with: an id, "last", or None for a new one."""
    if getattr(args, "resume_last", False):
        return "last"
    return getattr(args, "resume", None)


def here() -> Path:
    """The folder we are in. Raises `UsageError` when somebody removed it."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            "The working folder no longer exists; go to another, or give one with --cwd."
        ) from error


def folder_of(args: argparse.Namespace) -> str:
    """The folder to work in, absolute. Raises `UsageError` when it cannot be used."""
    import os

    given: str | None = getattr(args, "cwd", None)
    folder = named("", given) if given else here()
    if not folder.is_absolute():
        folder = here() / folder
    if not folder.exists():
        raise UsageError("The folder {folder} does not exist.", folder=folder)
    if not folder.is_dir():
        raise UsageError("{folder} is not a folder.", folder=folder)
    if not os.access(folder, os.X_OK | os.R_OK):
        raise UsageError("The folder {folder} may not be entered.", folder=folder)
    return str(folder)
