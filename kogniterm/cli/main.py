"""The command line's outermost frame: parse, dispatch, and turn every failure into a sentence.

The one broad `except` of the command line lives here. `--help` costs the standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import signal
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from kogniterm.cli import options
from kogniterm.cli.argument_parser import Parser, list_verb, nearest
from kogniterm.cli.options import GENERAL, SESSION, VERB_GROUPS, Example, add_session_options
from kogniterm.cli.streams_and_signals import (
    complain,
    end_on_signals,
    flush_output,
    hold_standard_streams,
    is_of_output,
    status_of_signal,
    write_what_the_encoding_lacks,
)
from kogniterm.errors import EXIT_NOT_DONE, KognitermError, UsageError, of_system
from kogniterm.host.checkout import running_version
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, use_language

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
