"""The command line's outermost frame: parse, dispatch, and turn every failure into a sentence.

The parser groups its help, with examples, and tells mistakes as sentences. The one broad `except`
of the command line lives here. `--help` costs the standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from kogniterm.cli import options
from kogniterm.cli.options import (
    GENERAL,
    SESSION,
    TASK,
    VERB_GROUPS,
    Example,
    VerbGroup,
    add_options,
    add_session_options,
)
from kogniterm.cli.streams_and_signals import (
    complain,
    end_on_signals,
    flush_output,
    hold_standard_streams,
    is_of_output,
    status_of_signal,
    write_what_the_encoding_lacks,
)
from kogniterm.errors import (
    EXIT_NOT_DONE,
    KognitermError,
    UnusableValueError,
    UsageError,
    of_system,
)
from kogniterm.host.checkout import running_version
from kogniterm.text.spelling import closest_word
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, use_language

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


DESCRIPTION = (
    "A terminal agent: it plans a task, asks before it acts, runs commands in a real terminal and "
    "answers. Without a command, KogniTerm opens the prompt; TASK is then its first input."
)
USAGE = "kogniterm [OPTIONS] [TASK]\n       kogniterm [OPTIONS] COMMAND ..."
MORE = (
    "Read more: kogniterm COMMAND --help, and kogniterm help for the topics, such as kogniterm "
    "help approvals."
)
EXAMPLES = (
    Example("kogniterm", "Open the prompt"),
    Example('kogniterm "fix the failing test"', "Open it with a first task"),
    Example('kogniterm run "why does the build fail?"', "Do one task and exit"),
    Example('git diff | kogniterm run "review this"', "Pass data through a pipe"),
    Example('kogniterm run -y --max-cost 0.50 "…"', "Do not ask; limit the cost"),
    Example("kogniterm --continue", "Resume the last session"),
)


def main(argv: Sequence[str]) -> int:
    """Run `kogniterm ARGV`; returns the exit status, and never lets a traceback out unasked."""
    try:
        status = flush_output(_run_guarded(argv))
    except (KeyboardInterrupt, SystemExit):  # one more, while the first failure was told
        status = EXIT_NOT_DONE
    return status_of_signal() or status


def _run_guarded(argv: Sequence[str]) -> int:
    hold_standard_streams()
    write_what_the_encoding_lacks()
    try:
        end_on_signals()
        status = _attempt(argv)
    except KognitermError as error:
        complain(error.text)
        status = error.exit_code
        _tell_reader(argv, error)
        _trace(argv)
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except BrokenPipeError:
        status = 128 + signal.SIGPIPE
    except Exception as error:  # noqa: BLE001  # the outermost border of the program
        # What a signal broke off, some code may have taken for a failure of its own.
        told = status_of_signal() is not None or is_of_output(error)
        status = EXIT_NOT_DONE if told else _report_bug(error)
        _trace(argv)
    return status


def _tell_reader(argv: Sequence[str], error: KognitermError) -> None:
    """Write the failure as JSON for a reader of standard output alone, if asked for.

    `run` has its own form for this, and asks for it otherwise.
    """
    if "--json" in argv:
        import json

        failure = {"error": str(error), "exit_code": error.exit_code}
        # What cannot be written is told when everything is flushed.
        with contextlib.suppress(OSError):
            sys.stdout.write(json.dumps(failure) + "\n")


def _trace(argv: Sequence[str]) -> None:
    """Print the traceback of the exception being handled, if asked for."""
    if "--debug" in argv:
        import traceback

        traceback.print_exc()


def _attempt(argv: Sequence[str]) -> int:
    _choose_language(argv)
    try:
        return dispatch(argv)
    except SystemExit as leaving:  # --help, or a signal
        return leaving.code if isinstance(leaving.code, int) else 0


def build_parser(asked: options.Verb | None = None) -> Parser:
    """Return the parser: every verb by name, and the options of the verb that was `asked` for."""
    parser = Parser(
        prog="kogniterm",
        usage=_(USAGE),
        description=_(DESCRIPTION),
        epilog=_(MORE),
        examples=EXAMPLES,
        command_groups=VERB_GROUPS,
    )
    parser.general.add_argument(
        "-V",
        "--version",
        action="version",
        version=f"kogniterm {running_version()}",
        help=_("Show the version"),
    )
    parser.add_argument(
        "-p",
        "--prompt",
        metavar=_("TASK"),
        help=_("Do one task and exit, like run TASK"),
        default=argparse.SUPPRESS,  # it is read as `run` before
    )
    add_session_options(parser)
    subparsers = parser.add_subparsers(title=_("Commands"), prog="kogniterm", metavar=_("COMMAND"))
    listed = Parser(add_help=False)
    for verb in options.VERBS:
        if verb is asked:
            load_verb(verb).add_parser(subparsers)
        else:
            list_verb(subparsers, verb.name, _(verb.help), listed)
    return parser


def load_verb(verb: options.Verb) -> ModuleType:
    """Import the module behind `verb`."""
    return importlib.import_module(verb.module)


def dispatch(argv: Sequence[str]) -> int:
    """Run the verb, or the prompt; raises `KognitermError` for what is to be told."""
    argv = _as_verb(argv)
    at = _first_word(argv)
    word = argv[at] if at is not None else None
    verb = options.find(word) if word else None
    task = None
    if at is not None and word is not None and verb is None:
        build_parser().check_options(argv[:at])
        if len(word.split()) < 2:
            _unknown_verb(word)
        task = word
        argv = [*argv[:at], *argv[at + 1 :]]
    words = [each for each in argv if each != "--"] if task else argv
    call, arguments = options.read_call(build_parser(verb).parse_args(words))
    if verb is None:
        from kogniterm.cli import open_prompt

        return open_prompt.run(call, task)
    module = load_verb(verb)
    run = module.run if hasattr(module, "run") else arguments.pop("perform")
    done = run(call, **arguments)
    if isinstance(done, int):
        return done
    from kogniterm.cli.verb_helpers import write_report

    return write_report(call, done)


def _as_verb(argv: Sequence[str]) -> list[str]:
    """Return `argv` with `-p TASK` as `run TASK`, as other agents spell it."""
    before = list(argv[: _first_word(argv)])
    for at, option in enumerate(before):
        name, given, task = option.partition("=")
        if name in ("-p", "--prompt"):
            return ["run", *before[:at], *([task] if given else []), *argv[at + 1 :]]
    return list(argv)


def _first_word(argv: Sequence[str]) -> int | None:
    """Return the index of the first word that is neither an option nor an option's value."""
    takes_value = {
        name for option in (*GENERAL, *SESSION) if option.takes_value for name in option.names
    }
    words = enumerate(argv)
    for at, word in words:
        if word == "--":
            return at + 1 if at + 1 < len(argv) else None
        if word in takes_value:
            next(words, None)
        elif not word.startswith("-"):
            return at
    return None


def _unknown_verb(word: str) -> NoReturn:
    if not word.strip():
        raise UsageError("The task is empty; describe what to do.")
    near = nearest(word, [*(verb.name for verb in options.VERBS), "--version"])
    if near:
        raise UsageError("Unknown command {word}. Did you mean {near}?", word=word, near=near)
    raise UsageError(
        'Unknown command {word}. To give a task, put it in quotes: kogniterm "{word} …".',
        word=word,
    )


def _choose_language(argv: Sequence[str]) -> None:
    """Set the language before anything is said, from `--lang` or the tolerant settings."""
    from kogniterm.settings import environment, quick

    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    finder.add_argument("--lang", dest="language")
    with contextlib.suppress(argparse.ArgumentError, SystemExit, KognitermError):
        given, _rest = finder.parse_known_args(list(argv))
        use_language(quick(environment(), {"language": given.language}).language)


def _report_bug(error: Exception) -> int:
    import logging

    from kogniterm.text.redact import redact

    if logging.getLogger().handlers:
        logging.getLogger(__name__).error("unexpected failure", exc_info=error)
    told = of_system(error)
    if told is not None:
        complain(told)
        return EXIT_NOT_DONE
    what = redact(" ".join(str(error).split())[:200])
    complain(
        Phrase(
            "unexpected error ({kind}: {what}). Run it again with --debug for the traceback.",
            {"kind": type(error).__name__, "what": what},
        )
    )
    return EXIT_NOT_DONE


HELP_COLUMN = 28
"""Column at which the explanation of an option begins."""

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
        Phrase("Missing argument {names}; see {program} --help."),
    ),
    (
        r"argument (?P<option>.*): not allowed with argument (?P<other>.*)",
        Phrase("{option} cannot be combined with {other}."),
    ),
)
"""Patterns of argparse's own messages, which are English, with our sentence for each."""
_MANY = ("*", "+")
"""Numbers of words of a list."""


_SYNONYMS = {
    "-m": "--model",
    "-v": "--version",
    "version": "--version",
    "auth": "login",
    "setup": "login",
    "demo": "tour",
    "exec": "run",
    "chat": "run",
    "settings": "config",
    "ayuda": "help",
    "ejecutar": "run",
    "recorrido": "tour",
    "memoria": "memory",
    "modelos": "models",
    "reanudar": "resume",
    "sesiones": "sessions",
    "--allow-dangerously-skip-permissions": "--auto-approve",
    "--dangerously-skip-permissions": "--auto-approve",
    "--full-auto": "--auto-approve",
    "--yes": "--auto-approve",
    "--yolo": "--auto-approve",
    "--permission-mode": "--mode",
    "--approval-mode": "--mode",
    "--ask-for-approval": "--mode",
    "--max-turns": "--max-steps",
    "--max-budget-usd": "--max-cost",
    "--print": "--prompt",
    "--verbose": "--debug",
}
"""Words of other programs, and Spanish ones, with ours."""


def nearest(word: str, names: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the name that `word` was probably meant to be."""
    known = list(names)
    if _SYNONYMS.get(word) in known:
        return _SYNONYMS[word]
    return closest_word(word, known, cutoff=cutoff)


def list_verb(
    subparsers: argparse._SubParsersAction[Parser], name: str, told: str, parser: Parser
) -> None:
    """Add a verb to the help with a `parser` that others share; one for each would be slow."""
    subparsers._choices_actions.append(subparsers._ChoicesPseudoAction(name, [], told))
    subparsers._name_parser_map[name] = parser


def _name_of(action: argparse.Action) -> str:
    """Return the option as it is typed in full, or the word as the help calls it."""
    return max(action.option_strings, key=len, default="") or str(action.metavar or action.dest)


class _HelpFormatter(argparse.HelpFormatter):
    """Help as wide as the terminal, with the value of an option named once."""

    def __init__(self, prog: str, **how: Any) -> None:
        super().__init__(prog, max_help_position=HELP_COLUMN, **how)

    @property
    def columns(self) -> int:
        return self._width

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class Parser(argparse.ArgumentParser):
    """A parser that raises `UsageError` instead of printing, and knows the general options.

    Its help lists commands below the titles of `command_groups`, and `examples` at the end.
    `unknown_option` is what to say of an option without a near one, if not the usual.
    """

    def __init__(
        self,
        *,
        examples: Sequence[Example] = (),
        command_groups: Sequence[VerbGroup] = (),
        unknown_option: Phrase | None = None,
        add_help: bool = True,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("conflict_handler", "resolve")
        super().__init__(**kwargs, add_help=False)
        self.examples = examples
        self._unknown_hint = unknown_option
        self._command_groups = command_groups
        self._positionals.title = _("Arguments")
        self._optionals.title = _("Options")
        self.general = self.add_argument_group(_("General"))
        if add_help:
            self.general.add_argument("-h", "--help", action="help", help=_("Show this help"))
        add_options(self.general, GENERAL)

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Write the help; unlike argparse's, raises `OSError` where it cannot be written."""
        (file or sys.stdout).write(self.format_help())

    def format_help(self) -> str:
        """Return the help: usage, commands, arguments, options by group, examples."""
        formatter = _HelpFormatter(f"{self.prog} {_('[OPTIONS]')}")
        words = [action for action in self._actions if not action.option_strings]
        formatter.add_usage(self.usage, words, [], _("Usage: "))
        formatter.add_text(self.description)
        for title, actions in self._sections():
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        closing = _HelpFormatter(self.prog)
        closing.add_text(self.epilog)
        examples = "".join(f"{line}\n" for line in self._example_lines(formatter.columns))
        parts = (formatter.format_help(), examples, closing.format_help())
        return "\n".join(part for part in parts if part)

    def _sections(self) -> Iterator[tuple[str | None, Sequence[argparse.Action]]]:
        """Yield the titles of the help with their rows: commands first, general options last."""
        groups = [group for group in self._action_groups if group is not self.general]
        for group in groups:
            for action in group._group_actions:
                if isinstance(action, argparse._SubParsersAction):
                    yield from self._commands(group.title, action._choices_actions)
        for group in (*groups, self.general):
            rows = group._group_actions
            yield (
                group.title,
                [row for row in rows if not isinstance(row, argparse._SubParsersAction)],
            )

    def _commands(
        self, title: str | None, rows: Sequence[argparse.Action]
    ) -> Iterator[tuple[str | None, Sequence[argparse.Action]]]:
        """Yield the commands by group, or all below `title` where there are no groups."""
        if not self._command_groups:
            yield title, rows
        by_name = {row.dest: row for row in rows}
        for title, verbs in self._command_groups:
            yield _(title), [by_name[verb.name] for verb in verbs]

    def _example_lines(self, columns: int) -> Iterator[str]:
        if self.examples:
            yield f"{_('Examples')}:"
        width = max((len(example.line) for example in self.examples), default=0)
        for example in self.examples:
            told = _(example.help) if example.help else ""
            beside = f"  {example.line:{width}}  {told}".rstrip()
            if not told or len(beside) <= columns:
                yield beside
            else:
                yield from (f"  {example.line}", f"      {told}")

    def parse_known_args(  # type: ignore[override]  # as argparse calls it, for a verb too
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse `args`; words behind options belong to the list of words before the options.

        Raises `UsageError` for what is left, so that the parser of the verb names itself.
        """
        parsed, extra = super().parse_known_args(args, namespace)
        extra = [word for word in extra if word != "--"]
        unknown = next((word for word in extra if word.startswith("-")), None)
        if unknown is not None:
            raise self._unknown_option(unknown)
        if extra:
            lists = [action for action in self._positionals._group_actions if action.nargs in _MANY]
            if not lists:
                self.error(f"unrecognized arguments: {' '.join(extra)}")
            getattr(parsed, lists[-1].dest).extend(extra)
        return parsed, []

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Return the value of an option or word. Raises `UsageError` for one that is empty."""
        # What follows a command is for the parser of that command.
        command = isinstance(action, argparse._SubParsersAction)
        own = arg_strings[:1] if command else arg_strings
        if action.dest != TASK and not all(map(str.strip, own)):
            raise UsageError(
                "{name} has an empty value; see {program} --help.",
                name=_name_of(action),
                program=self.prog,
            )
        return super()._get_values(action, arg_strings)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        convert = self._registry_get("type", action.type, action.type)
        try:
            return convert(arg_string)
        except UnusableValueError as error:
            raise UsageError(
                "{name} is {value}, but must be {wanted}.",
                name=_name_of(action),
                value=arg_string,
                wanted=error.text,
            ) from error

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = ", ".join(map(str, action.choices))
        if not isinstance(action, argparse._SubParsersAction):
            raise UsageError(
                "Invalid value {value} for {option}; choose from {choices}.",
                value=value,
                option=_name_of(action),
                choices=choices,
            )
        verb = self.prog.partition(" ")[2]
        word, near = f"{verb} {value}", nearest(value, action.choices)
        if near:
            raise UsageError(
                "Unknown command {word}. Did you mean {near}?", word=word, near=f"{verb} {near}"
            )
        raise UsageError(
            "Unknown command {word}; choose from {choices}.", word=word, choices=choices
        )

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as one sentence."""
        import re

        for pattern, text in _MISTAKES:
            match = re.fullmatch(pattern, message)
            if match:
                found = {name: said.replace("'", "") for name, said in match.groupdict().items()}
                raise UsageError(text.template, program=self.prog, **found)
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
        option = word.partition("=")[0]
        near = nearest(option, self._known(), cutoff=0.7)
        if near:
            return UsageError(
                "Unknown option {option}. Did you mean {near}?", option=option, near=near
            )
        if self._unknown_hint is not None:
            return UsageError(self._unknown_hint.template, option=option, program=self.prog)
        return UsageError(
            "Unknown option {option}; see {program} --help.", option=option, program=self.prog
        )
