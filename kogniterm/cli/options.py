"""The verbs and options of the command line as data, and the way from options to settings.

The table of verbs feeds dispatch, help, completion and docs. A verb's module offers
`add_parser(subparsers)` and `run(args) -> int` and is imported only when its verb is asked for.

Options are kept out of the namespace unless given, so that an option means the same before and
after the verb, and so that settings can tell what came from a flag.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kogniterm.errors import UnusableValueError, UsageError
from kogniterm.storage.folders import expand_path
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, mark

if TYPE_CHECKING:
    from kogniterm.settings import Settings


class Argument(NamedTuple):
    """A word (`session`) or an option (`--limit`, `-C`) of the command line.

    An option without metavar, choices and `const` is a switch. `field` is the setting it sets. One
    with `many` may be given several times.
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
    many: bool = False

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

    @property
    def explained(self) -> str:
        """Its help, with its default where it has one, in the language in use."""
        if not self.help or self.default in (None, False, argparse.SUPPRESS):
            return _(self.help) if self.help else ""
        return f"{_(self.help)} {_('(default: {value})').format(value=self.default)}"

    def add_to(self, parser: argparse._ActionsContainer, *, only_if_given: bool = False) -> None:
        """Add it to a parser, with no value of its own in the namespace if `only_if_given`."""
        how: dict[str, Any] = {"help": self.explained}
        if self.name.startswith("-"):
            how["dest"] = self.dest
        if self.takes_value:
            how |= {"default": self.default, "metavar": _(self.metavar) if self.metavar else None}
            given = {"nargs": self.nargs, "choices": self.choices, "type": self.type}
            how |= {key: value for key, value in given.items() if value is not None}
            how |= {"action": "append"} if self.many else {}
        else:
            default = False if self.default is None else self.default
            how |= {
                "action": "store_const",
                "const": True if self.const is None else self.const,
                "default": default,
            }
        if only_if_given:
            how["default"] = argparse.SUPPRESS
        parser.add_argument(*sorted(self.names, key=len), **how)


class Example(NamedTuple):
    """A command line to copy, and what it does where that is not plain from the command."""

    line: str
    help: str = ""


GENERAL = (
    Argument("--lang", "Language: auto, en or es", "LANG", "language", default="auto"),
    Argument("--env-file", "Read settings from FILE instead of your .env", "FILE"),
    Argument("--debug", "Show tracebacks; log everything, on screen too"),
)
SESSION_GROUPS: tuple[tuple[str, tuple[Argument, ...]], ...] = (
    (mark("Model"), (
        Argument("--model", "Model to use, for example google_genai:NAME", "NAME", "model"),
        Argument("--effort", "Reasoning effort, for example low, medium or high",
                 "EFFORT", "effort", default="default"),
        Argument("--memory", "Memory: off, session or full", "KIND", "memory", default="full"),
    )),
    (mark("Plan"), (
        Argument("--plan", "When to plan: auto, always or never; with run, also a plan file",
                 "WHEN", "plan", default="auto"),
        Argument("--plan-approval", "Ask before starting a plan: auto, always or never",
                 "WHEN", "plan_approval", default="auto"),
    )),
    (mark("Approval and safety"), (
        Argument("--auto-approve", "Run commands in the sandbox without asking",
                 field="approval_mode", const="auto", short="-y"),
        Argument("--mode", "Approval mode: ask, accept-edits, auto or plan",
                 "MODE", "approval_mode", default="ask"),
        Argument("--allow-reads", "Run read-only commands without asking", field="allow_reads"),
        Argument("--no-sandbox", "Run commands without a sandbox (dangerous with -y)",
                 field="sandbox", const="off"),
        Argument("--no-hooks", "Run no hooks, neither yours nor a project's",
                 field="hooks", const=False),
        Argument("--executor", "Answer commands from a file instead of running them: scripted:FILE",
                 "EXECUTOR", "executor"),
    )),
    (mark("Session"), (
        Argument("--cwd", "Folder to work in, instead of the current one", "FOLDER", short="-C"),
        Argument("--continue", "Resume the most recent session of this folder",
                 field="resume_last", short="-c"),
        Argument("--resume", "Resume the session with this ID", "ID"),
        Argument("--end-jobs", "End background jobs on exit, detached ones too",
                 field="end_jobs"),
    )),
    (mark("Limits"), (
        Argument("--timeout", "Maximum time per task, in seconds", "SECONDS", "max_seconds"),
        Argument("--command-timeout", "Maximum time per command, in seconds; 0 for no limit",
                 "SECONDS", "command_timeout", default=600),
        Argument("--max-steps", "Maximum model calls per task", "N", "max_steps", default=1000),
        Argument("--max-tokens", "Maximum tokens per task, input and output", "N", "max_tokens"),
        Argument("--max-cost", "Maximum cost per task, in US dollars", "USD", "max_cost_usd"),
        Argument("--max-session-tokens", "Maximum tokens for the whole session",
                 "N", "max_session_tokens"),
        Argument("--max-session-cost", "Maximum cost of the whole session, in US dollars",
                 "USD", "max_session_cost_usd"),
    )),
)  # fmt: skip
"""The options of a session. Each that sets a setting names it; `default` is that setting's."""
HOSTS = (
    Argument("--inventory", "Inventory of Ansible: a file, a folder, or names with commas",
             "INVENTORY", "hosts_inventory"),
    Argument("--limit", "Only these hosts of it, as a pattern of Ansible", "PATTERN",
             "hosts_limit", default="all"),
)  # fmt: skip
"""The options that name hosts."""
SESSION = tuple(option for _title, options in SESSION_GROUPS for option in options)


def add_options(parser: argparse._ActionsContainer, options: Iterable[Argument]) -> None:
    """Add options that are in the namespace only when they were given."""
    for option in options:
        option.add_to(parser, only_if_given=True)


def flags_of(args: argparse.Namespace) -> dict[str, object]:
    """Return the settings among the options that were given, by setting name."""
    fields = {option.field for option in (*GENERAL, *SESSION, *HOSTS)} - {"", "resume_last"}
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
    """Return the session to go on with: an id, "last", or None for a new one.

    Raises `UsageError` when both options for it were given.
    """
    resume: str | None = getattr(args, "resume", None)
    if not getattr(args, "resume_last", False):
        return resume
    if resume is not None:
        raise UsageError(
            "{option} cannot be combined with {other}.", option="--continue", other="--resume"
        )
    return "last"


def here() -> Path:
    """Return the folder we are in. Raises `UsageError` when somebody removed it."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            "The working folder no longer exists; change to another, or name one with --cwd."
        ) from error


def folder_of(args: argparse.Namespace) -> str:
    """Return the folder to work in, absolute. Raises `UsageError` when it cannot be used."""
    import os

    given: str | None = getattr(args, "cwd", None)
    folder = expand_path("", given) if given else here()
    if not folder.is_absolute():
        folder = here() / folder
    if not folder.exists():
        raise UsageError("The folder {folder} does not exist.", folder=folder)
    if not folder.is_dir():
        raise UsageError("{folder} is not a folder.", folder=folder)
    if not os.access(folder, os.X_OK | os.R_OK):
        raise UsageError("You have no permission to enter the folder {folder}.", folder=folder)
    return str(folder)


Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class Verb(NamedTuple):
    """A word after `kogniterm`, the module behind it, and one line of help."""

    name: str
    module: str
    help: str


VerbGroup = tuple[str, tuple[Verb, ...]]
"""A title, and the verbs that help lists below it."""
VERB_GROUPS: tuple[VerbGroup, ...] = (
    (mark("Work"), (
        Verb("run", "kogniterm.cli.run", "Do one task and exit"),
        Verb("resume", "kogniterm.cli.verbs.resume", "Resume a session at the prompt"),
        Verb("sessions", "kogniterm.cli.verbs.sessions",
             "List, search, export and delete sessions"),
        Verb("queue", "kogniterm.cli.verbs.fleet.queue",
             "Add tasks to the queue, watch them and answer their questions"),
        Verb("worker", "kogniterm.cli.verbs.fleet.worker_process", "Run tasks from the queue"),
        Verb("hosts", "kogniterm.cli.verbs.hosts.hosts_verb",
             "Do one task on many machines, reviewed once"),
        Verb("replay", "kogniterm.cli.verbs.replay", "Replay a session from its record"),
    )),
    (mark("Memory and recipes"), (
        Verb("memory", "kogniterm.cli.verbs.memory", "List, add, edit and delete memories"),
        Verb("recipe", "kogniterm.cli.verbs.recipe", "Save and run recipes"),
    )),
    (mark("Safety"), (
        Verb("policy", "kogniterm.cli.verbs.policy", "Explain and test the approval rules"),
        Verb("tools", "kogniterm.cli.verbs.tools", "List the tools of the model and their state"),
        Verb("skills", "kogniterm.cli.verbs.extensions.skills",
             "List, accept, add and remove skills"),
        Verb("hooks", "kogniterm.cli.verbs.extensions.hooks", "List and try hooks"),
        Verb("trust", "kogniterm.cli.verbs.trust", "Trust a project folder, or revoke its trust"),
        Verb("audit", "kogniterm.cli.verbs.audit", "Verify and show what was approved and run"),
    )),
    (mark("Set-up"), (
        Verb("tour", "kogniterm.cli.tour", "Show how KogniTerm works, with a scripted model"),
        Verb("login", "kogniterm.cli.login", "Set up a provider and save its API key"),
        Verb("logout", "kogniterm.cli.logout", "Remove a saved API key"),
        Verb("import", "kogniterm.cli.verbs.extensions.import_agent",
             "Import what you set up for another terminal agent"),
        Verb("config", "kogniterm.cli.verbs.config", "Show the settings and their sources"),
        Verb("doctor", "kogniterm.cli.verbs.doctor", "Check the installation and the settings"),
        Verb("models", "kogniterm.cli.verbs.models", "List models; download or remove a local one"),
        Verb("mcp", "kogniterm.cli.verbs.extensions.mcp",
             "Sign in to MCP servers; be one for other agents"),
        Verb("acp", "kogniterm.cli.verbs.extensions.acp", "Be an agent for an editor, such as Zed"),
        Verb("storage", "kogniterm.cli.verbs.storage", "Check, migrate and copy the database"),
        Verb("warm", "kogniterm.cli.warm.warm_verb", "Show or end the process for fast starts"),
        Verb("completion", "kogniterm.cli.verbs.completion", "Print a shell completion script"),
        Verb("help", "kogniterm.cli.verbs.help_topic", "Explain a topic or a command"),
    )),
)  # fmt: skip
VERBS = tuple(verb for _title, verbs in VERB_GROUPS for verb in verbs)


def find(name: str) -> Verb | None:
    """Return the verb called `name`."""
    return next((verb for verb in VERBS if verb.name == name), None)


class Action(NamedTuple):
    """A word after a verb: its help, what does it, its arguments, and command lines to copy.

    `unknown_option` is what to say of an option that it does not have, if not the usual.
    """

    name: str
    help: str
    run: Callable[..., Any]
    arguments: tuple[Argument, ...] = ()
    examples: tuple[str, ...] = ()
    session_options: bool = False
    unknown_option: Phrase | None = None


TASK = "task"
"""The argument of `run`, which says itself what an empty task lacks."""
SESSION_NAME = Argument("session", "ID or its beginning, title, or last", "SESSION")
JSON = Argument("--json", "Print the result as JSON")
YES = Argument("--yes", "Do not ask for confirmation")
TO_FILE = Argument("--to", "Write to FILE instead of standard output", "FILE")
MOST_EXAMPLES = 4
"""Examples of actions that the help of their verb repeats."""


def limit(default: int) -> Argument:
    """Return the option that bounds how much is listed."""
    return Argument("--limit", "Maximum number of results", "N", type=count, default=default)


def whole(text: str) -> int:
    """Read a whole number. Raises `UnusableValueError`."""
    try:
        return int(text)
    except ValueError as error:
        raise UnusableValueError("a whole number") from error


def count(text: str) -> int:
    """Read a number from 1 on. Raises `UnusableValueError`."""
    number = whole(text)
    if number < 1:
        raise UnusableValueError("greater than {limit}", limit=0)
    return number


def days(text: str) -> float:
    """Read a number of days, none or more. Raises `UnusableValueError`."""
    try:
        number = float(text)
    except ValueError as error:
        raise UnusableValueError("a number") from error
    if not number >= 0:  # neither a date to come nor NaN
        raise UnusableValueError("at least {limit}", limit=0)
    return number


def add_verb(
    subparsers: Subparsers,
    name: str,
    arguments: Sequence[Argument] = (),
    *,
    examples: Sequence[Example],
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
        description=_(description) if description else f"{_(known.help)}.",
        epilog=_(epilog) if epilog else None,
        examples=examples,
    )
    _add(parser, arguments, session_options)
    return parser


def add_actions(
    subparsers: Subparsers, name: str, actions: Sequence[Action], *common: Argument
) -> None:
    """Add a verb made of actions, each with the `common` arguments behind its own.

    The parsed namespace has the action's name as `action` and its function as `perform`.
    """
    first = [Example(action.examples[0]) for action in actions]
    parser = add_verb(subparsers, name, examples=first[:MOST_EXAMPLES])
    added = parser.add_subparsers(
        title=_("Actions"), dest="action", metavar=_("ACTION"), required=True
    )
    for action in actions:
        inner = added.add_parser(
            action.name,
            help=_(action.help),
            description=f"{_(action.help)}.",
            examples=[*map(Example, action.examples)],
            unknown_option=action.unknown_option,
        )
        _add(inner, (*action.arguments, *common), action.session_options)
        inner.set_defaults(perform=action.run)


def _add(
    parser: argparse.ArgumentParser, arguments: Sequence[Argument], session_options: bool
) -> None:
    for argument in arguments:
        # A setting is taken from its other layers unless the option is given.
        argument.add_to(parser, only_if_given=argument in HOSTS)
    if session_options:
        add_session_options(parser)


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a session, by group."""
    for title, options in SESSION_GROUPS:
        add_options(parser.add_argument_group(_(title)), options)
