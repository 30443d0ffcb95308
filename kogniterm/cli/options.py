"""The verbs and options of the command line as data, and the way from argparse to values: a call.

The table of verbs feeds dispatch, help, completion and docs. A verb's module offers
`add_parser(subparsers)` and, unless its actions do everything, `run(call, **arguments)`, which
returns a report or an exit status. It is imported only when its verb is asked for.

Options are kept out of the namespace unless given, so that an option means the same before and
after the verb, and so that settings can tell what came from a flag.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kogniterm.errors import UnusableValueError, UsageError
from kogniterm.installed import rows
from kogniterm.runtime.operations.action import Action, Argument
from kogniterm.storage.folders import expand_path
from kogniterm.ui.locale import _, mark

if TYPE_CHECKING:
    from kogniterm.settings import Settings


def explain(argument: Argument) -> str:
    """Return the help of an argument, with its default where it has one."""
    if not argument.help or argument.default in (None, False, argparse.SUPPRESS):
        return _(argument.help) if argument.help else ""
    return f"{_(argument.help)} {_('(default: {value})').format(value=argument.default)}"


def add_argument(
    parser: argparse._ActionsContainer, argument: Argument, *, only_if_given: bool = False
) -> None:
    """Add an argument, with no value of its own in the namespace if `only_if_given`."""
    how: dict[str, Any] = {"help": explain(argument)}
    if argument.name.startswith("-"):
        how["dest"] = argument.dest
    if argument.takes_value:
        metavar = _(argument.metavar) if argument.metavar else None
        how |= {"default": argument.default, "metavar": metavar}
        given = {"nargs": argument.nargs, "choices": argument.choices, "type": argument.type}
        how |= {key: value for key, value in given.items() if value is not None}
        how |= {"action": "append"} if argument.many else {}
    else:
        default = False if argument.default is None else argument.default
        how |= {
            "action": "store_const",
            "const": True if argument.const is None else argument.const,
            "default": default,
        }
    if only_if_given:
        how["default"] = argparse.SUPPRESS
    parser.add_argument(*sorted(argument.names, key=len), **how)


class Example(NamedTuple):
    """A command line to copy, and what it does where that is not plain from the command."""

    line: str
    help: str = ""


GENERAL = (
    Argument("--lang", "Language: auto, en or es", "LANG", "language", default="auto"),
    Argument("--env-file", "Read settings from FILE instead of your .env", "FILE"),
    Argument("--debug", "Show tracebacks; log everything, and outside the prompt on screen too"),
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
"""The options for the settings of hosts; an add-on has the verb."""
SESSION = tuple(option for _title, options in SESSION_GROUPS for option in options)


def add_options(parser: argparse._ActionsContainer, options: Iterable[Argument]) -> None:
    """Add options that are in the namespace only when they were given."""
    for option in options:
        add_argument(parser, option, only_if_given=True)


def read_call(parsed: argparse.Namespace) -> tuple[CallOptions, dict[str, Any]]:
    """Return the options of a parsed call that every call may have, and its own arguments.

    Raises `UsageError` for two sessions to go on with.
    """
    own = vars(parsed)
    fields = {option.field for option in (*GENERAL, *SESSION, *HOSTS)}
    settings = {name: own.pop(name) for name in fields & own.keys() - {"resume_last"}}
    given = {name: own.pop(name) for name in ("cwd", "env_file", "debug", "json") if name in own}
    resume = own.pop("resume", None)
    if own.pop("resume_last", False):
        if resume is not None:
            raise UsageError(
                "{option} cannot be combined with {other}.", option="--continue", other="--resume"
            )
        resume = "last"
    return CallOptions(settings, resume=resume, **given), own


Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class Verb(NamedTuple):
    """A word after `kogniterm`, the module behind it, and one line of help."""

    name: str
    module: str
    help: str


VerbGroup = tuple[str, tuple[Verb, ...]]
"""A title, and the verbs that help lists below it."""
_CORE: tuple[VerbGroup, ...] = (
    (mark("Work"), (
        Verb("run", "kogniterm.cli.run", "Do one task and exit"),
        Verb("resume", "kogniterm.cli.verbs.resume", "Resume a session at the prompt"),
        Verb("sessions", "kogniterm.cli.verbs.sessions",
             "List, search, export and delete sessions"),
        Verb("replay", "kogniterm.cli.verbs.replay", "Replay a session from its record"),
    )),
    (mark("Memory and recipes"), (
        Verb("memory", "kogniterm.cli.verbs.memory", "List, add, edit and delete memories"),
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
        Verb("config", "kogniterm.cli.verbs.config", "Show the settings and their sources"),
        Verb("doctor", "kogniterm.cli.verbs.doctor", "Check the installation and the settings"),
        Verb("logs", "kogniterm.cli.verbs.log_lines", "Show the log file, and follow it"),
        Verb("models", "kogniterm.cli.verbs.models", "List models; download or remove a local one"),
        Verb("mcp", "kogniterm.cli.verbs.extensions.mcp",
             "Sign in to MCP servers; be one for other agents"),
        Verb("storage", "kogniterm.cli.verbs.storage", "Check and copy the database"),
        Verb("completion", "kogniterm.cli.verbs.completion", "Print a shell completion script"),
        Verb("help", "kogniterm.cli.verbs.help_topic", "Explain a topic or a command"),
    )),
)  # fmt: skip
VERB_GROUPS: tuple[VerbGroup, ...] = tuple(
    (title, (*verbs, *(Verb(*row) for group, *row in rows("VERBS") if group == title)))
    for title, verbs in _CORE
)
"""The verbs of the core, and behind them those of the add-ons."""
VERBS = tuple(verb for _title, verbs in VERB_GROUPS for verb in verbs)


def find(name: str) -> Verb | None:
    """Return the verb called `name`."""
    return next((verb for verb in VERBS if verb.name == name), None)


TASK = "task"
"""The argument of `run`, which says itself what an empty task lacks."""
SESSION_NAME = Argument("session", "ID or its beginning, title, or last", "SESSION")
JSON = Argument("--json", "Print the result as JSON")
YES = Argument("--yes", "Do not ask for confirmation")
TO_FILE = Argument("--to", "Write to FILE instead of standard output", "FILE")
MOST_EXAMPLES = 4
"""Examples of actions that the help of their verb repeats."""


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

    Among the arguments of a call, its function is `perform`.
    """
    first = [Example(action.examples[0]) for action in actions]
    parser = add_verb(subparsers, name, examples=first[:MOST_EXAMPLES])
    added = parser.add_subparsers(title=_("Actions"), metavar=_("ACTION"), required=True)
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
        add_argument(parser, argument, only_if_given=argument in HOSTS)
    if session_options:
        add_session_options(parser)


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a session, by group."""
    for title, options in SESSION_GROUPS:
        add_options(parser.add_argument_group(_(title)), options)


class CallOptions(NamedTuple):
    """The options that every call may have.

    `settings` are those that options set, by name. `resume` is the session to go on with: an ID,
    "last", or None for a new one. With `json`, the result is for programs. With `at_prompt`, the
    screen is the prompt's, and log lines stay in the file.
    """

    settings: Mapping[str, object]
    cwd: str | None = None
    env_file: str | None = None
    resume: str | None = None
    debug: bool = False
    json: bool = False
    at_prompt: bool = False

    def load_settings(self) -> Settings:
        """Return the checked settings of this call, with the log set up by them.

        Raises `SettingsError`.
        """
        from kogniterm import settings

        environ = settings.environment()
        env_file = Path(self.env_file) if self.env_file else None
        loaded = settings.load(self.settings, environ=environ, env_file=env_file)
        self.set_up_logs(settings.quick(environ).paths.log_file, loaded.log_level)
        return loaded

    def set_up_logs(self, file: Path, level: str) -> None:
        """Start the log; an unwritable folder only means that there is none."""
        from kogniterm import logs
        from kogniterm.text.redact import redact

        on_screen = self.debug and not self.at_prompt
        logs.set_up(file, level=level, redact=redact, debug=self.debug, on_screen=on_screen)

    def folder(self) -> str:
        """Return the folder to work in, absolute. Raises `UsageError` when it cannot be used."""
        folder = expand_path("", self.cwd) if self.cwd else current_folder()
        if not folder.is_absolute():
            folder = current_folder() / folder
        if not folder.exists():
            raise UsageError("The folder {folder} does not exist.", folder=folder)
        if not folder.is_dir():
            raise UsageError("{folder} is not a folder.", folder=folder)
        if not os.access(folder, os.X_OK | os.R_OK):
            raise UsageError("You have no permission to enter the folder {folder}.", folder=folder)
        return str(folder)


def current_folder() -> Path:
    """Return the folder we are in. Raises `UsageError` when somebody removed it."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            "The working folder no longer exists; change to another, or name one with --cwd."
        ) from error


class RunRequest(NamedTuple):
    """A task for one run, as `kogniterm run` and its relatives read it from their options."""

    call: CallOptions
    task: Sequence[str] = ()
    output: str = "text"
    session_id: str | None = None
    park: bool = False
    note: str | None = None
    secrets: Sequence[str] | None = None
    allowed_secrets: Sequence[str] | None = None
    plan_only: bool = False

    @property
    def named_session(self) -> str | None:
        """The ID that `--session` gives. Raises `UsageError`."""
        if self.session_id is None:
            return None
        from kogniterm.paths import SessionId

        if self.call.resume is not None:
            option = "--continue" if self.call.resume == "last" else "--resume"
            raise UsageError(
                "{option} cannot be combined with {other}.", option="--session", other=option
            )
        return SessionId(self.session_id)
