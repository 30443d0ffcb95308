"""The verbs and options of the command line as data, and the way from options to settings.

The table of verbs feeds dispatch, help, completion and docs. A verb's module offers
`add_parser(subparsers)` and `run(args) -> int` and is imported only when its verb is asked for.

Options are kept out of the namespace unless given, so that an option means the same before and
after the verb, and so that settings can tell what came from a flag.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from kogniterm.errors import UsageError
from kogniterm.storage.folders import named
from kogniterm.types import Phrase
from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from kogniterm.settings import Settings


@dataclass(frozen=True, slots=True)
class Argument:
    """A word (`session`) or an option (`--limit`, `-C`) of the command line.

    An option without metavar, choices and `const` is a switch. `field` is the setting it sets.
    """

    name: str
    help: str = ""
    metavar: str = ""
    field: str = ""
    nargs: str | None = None
    default: Any = None
    choices: Sequence[str] | None = None
    type: Callable[[str], Any] | None = None
    const: object = None
    short: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names it is typed as, the long one first."""
        return (self.name, self.short) if self.short else (self.name,)

    @property
    def dest(self) -> str:
        """Name in the parsed namespace."""
        return self.field or self.name.lstrip("-").replace("-", "_")

    @property
    def takes_value(self) -> bool:
        """Return whether another word belongs to it."""
        return not self.name.startswith("-") or bool(self.metavar or self.choices)

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add it to a parser."""
        how: dict[str, Any] = {"help": _(self.help) if self.help else None}
        if self.name.startswith("-"):
            how["dest"] = self.dest
        if self.takes_value:
            how |= {"default": self.default, "metavar": _(self.metavar) if self.metavar else None}
            given = {"nargs": self.nargs, "choices": self.choices, "type": self.type}
            how |= {key: value for key, value in given.items() if value is not None}
        else:
            default = False if self.default is None else self.default
            how |= {"action": "store_const", "const": self.const or True, "default": default}
        parser.add_argument(*sorted(self.names, key=len), **how)


GENERAL = (
    Argument("--lang", "language of the screens: auto, en or es", "LANG", "language"),
    Argument("--env-file", "read keys and settings from FILE instead of the usual .env", "FILE"),
    Argument("--debug", "log everything, to the screen too; show tracebacks"),
)
SESSION = (
    Argument("--model", "model to use, such as google_genai:NAME or local", "NAME", "model"),
    Argument("--plan", "when to plan: auto, always or never; run also takes a plan's file",
             "WHEN", "plan"),
    Argument("--plan-approval", "ask before a plan is worked on: auto, always or never",
             "WHEN", "plan_approval"),
    Argument("--auto-approve", "run what policy does not deny, without asking",
             field="approval_mode", const="auto", short="-y"),
    Argument("--allow-reads", "run read-only commands without asking", field="allow_reads"),
    Argument("--no-sandbox", "run commands without a sandbox", field="sandbox", const="off"),
    Argument("--cwd", "folder to work in", "FOLDER", short="-C"),
    Argument("--resume", "go on with a session: its id, or last", "ID"),
    Argument("--continue", "go on with the last session", field="resume_last", short="-c"),
    Argument("--memory", "what is remembered: off, session or full", "KIND", "memory"),
    Argument("--timeout", "most seconds the task may take", "SECONDS", "max_seconds"),
    Argument("--command-timeout", "most seconds a command may take", "SECONDS", "command_timeout"),
    Argument("--end-jobs", "end everything that commands left running, what was detached too",
             field="end_jobs"),
    Argument("--max-steps", "most steps a task may take", "N", "max_steps"),
    Argument("--max-tokens", "most tokens a task may use", "N", "max_tokens"),
    Argument("--max-cost", "most US dollars a task may cost", "USD", "max_cost_usd"),
    Argument("--max-session-tokens", "most tokens all tasks of a session may use",
             "N", "max_session_tokens"),
    Argument("--max-session-cost", "most US dollars all tasks of a session may cost",
             "USD", "max_session_cost_usd"),
    Argument("--max-commands", "most commands a task may run", "N", "max_commands"),
    Argument("--max-output", "most megabytes of output a task may make", "MB", "max_output_mb"),
)  # fmt: skip
"""The options of a session. Each that sets a setting names it last."""


_MISTAKES: tuple[tuple[str, Phrase], ...] = (
    (
        r"unrecognized arguments: (?P<words>.*)",
        Phrase("Unexpected argument {words}; see {program} --help."),
    ),
    (
        r"argument (?P<option>.*): expected (?:one|at least one) argument",
        Phrase("{option} needs a value; see {program} --help."),
    ),
    (
        r"argument (?P<option>.*): ignored explicit argument .*",
        Phrase("{option} takes no value; see {program} --help."),
    ),
    (
        r"the following arguments are required: (?P<names>.*)",
        Phrase("{names} is missing; see {program} --help."),
    ),
    (
        r"argument (?P<option>.*): invalid choice: '?(?P<value>.*?)'? "
        r"\(choose from (?P<choices>.*)\)",
        Phrase("{option} cannot be {value}; choose from {choices}."),
    ),
)
"""Patterns of argparse's own messages, which are English, with our sentence for each."""


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

        unknown = re.fullmatch(r"unrecognized arguments: (-\S*).*", message)
        if unknown:
            raise self._unknown_option(unknown[1])
        for pattern, text in _MISTAKES:
            match = re.fullmatch(pattern, message)
            if match:
                raise UsageError(text.template, program=self.prog, **match.groupdict())
        raise UsageError("{message}; see {program} --help.", message=message, program=self.prog)

    def check_options(self, words: Iterable[str]) -> None:
        """Raise `UsageError` for an option that does not exist: its value is no command."""
        known = {*self._known(), "--"}
        for word in words:
            if word.startswith("-") and word.partition("=")[0] not in known:
                raise self._unknown_option(word)

    def _known(self) -> set[str]:
        """Return the options of this parser and of the verbs and actions below it."""
        known = set(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for below in action.choices.values():
                    known |= below._known()
        return known

    def _unknown_option(self, word: str) -> UsageError:
        from difflib import get_close_matches

        option = word.partition("=")[0]
        near = get_close_matches(option, list(self._known()), n=1, cutoff=0.7)
        if near:
            return UsageError(
                "Unknown option {option}. Did you mean {near}?", option=option, near=near[0]
            )
        return UsageError(
            "Unknown option {option}; see {program} --help.", option=option, program=self.prog
        )


def add_options(parser: argparse._ActionsContainer, options: Iterable[Argument]) -> None:
    """Add options that are in the namespace only when they were given."""
    for option in options:
        replace(option, default=argparse.SUPPRESS).add_to(parser)


def flags_of(args: argparse.Namespace) -> dict[str, object]:
    """Return the settings among the options that were given, by setting name."""
    fields = {option.field for option in (*GENERAL, *SESSION)} - {"", "resume_last"}
    return {name: value for name, value in vars(args).items() if name in fields}


def settings_of(args: argparse.Namespace) -> Settings:
    """Return the checked settings for these options, with the log set up by them.

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
    """Return the session to go on with: an id, "last", or None for a new one."""
    if getattr(args, "resume_last", False):
        return "last"
    return getattr(args, "resume", None)


def here() -> Path:
    """Return the folder we are in. Raises `UsageError` when somebody removed it."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            "The working folder no longer exists; go to another, or give one with --cwd."
        ) from error


def folder_of(args: argparse.Namespace) -> str:
    """Return the folder to work in, absolute. Raises `UsageError` when it cannot be used."""
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


Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


@dataclass(frozen=True, slots=True)
class Verb:
    """A word after `kogniterm`, the module behind it, and one line of help."""

    name: str
    module: str
    help: str


VERBS: tuple[Verb, ...] = (
    Verb("run", "kogniterm.cli.run", "do one task and exit"),
    Verb("resume", "kogniterm.cli.verbs.resume", "go on with a session"),
    Verb("sessions", "kogniterm.cli.verbs.sessions", "find, read, copy and delete sessions"),
    Verb("replay", "kogniterm.cli.verbs.replay", "run a session again from its record"),
    Verb("memory", "kogniterm.cli.verbs.memory", "see, correct and forget what is remembered"),
    Verb("recipe", "kogniterm.cli.verbs.recipe", "keep, show and run recipes"),
    Verb("models", "kogniterm.cli.verbs.models", "fetch or remove the embedded local model"),
    Verb("policy", "kogniterm.cli.verbs.policy", "explain and try out the approval rules"),
    Verb("trust", "kogniterm.cli.verbs.trust", "let a project folder's files have an effect"),
    Verb("audit", "kogniterm.cli.verbs.audit", "prove and read what was decided and run"),
    Verb("storage", "kogniterm.cli.verbs.storage", "check, update and copy the database"),
    Verb("login", "kogniterm.cli.login", "set up a provider: enter its key, test and save it"),
    Verb("logout", "kogniterm.cli.verbs.logout", "remove a saved key"),
    Verb("config", "kogniterm.cli.verbs.config", "show the settings and where each came from"),
    Verb("doctor", "kogniterm.cli.verbs.doctor", "check what is configured, reachable and missing"),
    Verb("completion", "kogniterm.cli.verbs.completion", "print a completion script for a shell"),
)


def find(name: str) -> Verb | None:
    """Return the verb called `name`."""
    return next((verb for verb in VERBS if verb.name == name), None)


@dataclass(frozen=True, slots=True)
class Action:
    """A word after a verb: its help, what does it, its arguments."""

    name: str
    help: str
    run: Callable[..., Any]
    arguments: tuple[Argument, ...] = ()
    session_options: bool = False


JSON = Argument("--json", "as JSON")
YES = Argument("--yes", "do not ask")
TO_FILE = Argument("--to", "instead of standard output", "FILE")


def limit(default: int) -> Argument:
    """Return the option that bounds how much is listed."""
    return Argument("--limit", "at most N", "N", type=count, default=default)


def count(text: str) -> int:
    """Read a number from 1 on; argparse tells what is wrong with another text."""
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(
            _("a number from 1 on is needed, not {text}").format(text=text)
        )
    return int(text)


def add_verb(
    subparsers: Subparsers,
    name: str,
    arguments: Sequence[Argument] = (),
    *,
    description: str | None = None,
    epilog: str | None = None,
    session_options: bool = False,
) -> argparse.ArgumentParser:
    """Add a verb of the table with its own arguments."""
    known = find(name)
    assert known is not None
    parser = subparsers.add_parser(
        name,
        help=_(known.help),
        description=_(description) if description else None,
        epilog=_(epilog) if epilog else None,
    )
    _add(parser, arguments, session_options)
    return parser


def add_actions(
    subparsers: Subparsers, name: str, actions: Sequence[Action], *common: Argument
) -> None:
    """Add a verb made of actions, each with the `common` arguments behind its own.

    The parsed namespace has the action's name as `action` and its function as `perform`.
    """
    parser = add_verb(subparsers, name)
    added = parser.add_subparsers(dest="action", metavar=_("ACTION"), required=True)
    for action in actions:
        inner = added.add_parser(action.name, help=_(action.help))
        _add(inner, (*action.arguments, *common), action.session_options)
        inner.set_defaults(perform=action.run)


def _add(
    parser: argparse.ArgumentParser, arguments: Sequence[Argument], session_options: bool
) -> None:
    for argument in arguments:
        argument.add_to(parser)
    if session_options:
        add_options(parser.add_argument_group(_("session options")), SESSION)
