"""The command line's outermost frame: parse, dispatch, and turn every failure into a sentence.

The one broad `except` of the command line lives here. `--help` costs the standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from kogniterm import __version__
from kogniterm.cli import signals, verbs
from kogniterm.cli.options import GENERAL, SESSION, Option, Parser, add_options
from kogniterm.errors import EXIT_NOT_DONE, KognitermError, UsageError, of_system, why
from kogniterm.types import Text
from kogniterm.ui.locale import _, translate, use_language

DESCRIPTION = (
    "A terminal agent: it plans, asks before it acts, runs commands in a real terminal, reads "
    "what they print, and answers. Without a command it opens the prompt."
)


def main(argv: Sequence[str]) -> int:
    """Run `kogniterm ARGV`; returns the exit status, and never lets a traceback out unasked."""
    try:
        status = _flushed(_guarded(argv))
    except (KeyboardInterrupt, SystemExit):  # one more, while the first failure was told
        status = EXIT_NOT_DONE
    return signals.status_of_signal() or status


def _guarded(argv: Sequence[str]) -> int:
    _hold_standard_streams()
    _write_what_the_encoding_lacks()
    try:
        signals.end_on_signals()
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
        told = signals.status_of_signal() is not None
        status = EXIT_NOT_DONE if told else _unexpected(error)
        _trace(argv)
    return status


def _tell_reader(argv: Sequence[str], error: KognitermError) -> None:
    """The failure as JSON for who asked for JSON, who may read standard output alone.

    `run` has its own form for this, and asks for it otherwise.
    """
    if "--json" in argv:
        import json

        failure = {"error": str(error), "exit_code": error.exit_code}
        # What cannot be written is told when everything is flushed.
        with contextlib.suppress(OSError):
            sys.stdout.write(json.dumps(failure) + "\n")


def _trace(argv: Sequence[str]) -> None:
    """The traceback of the exception being handled, for who asked for it."""
    if "--debug" in argv:
        import traceback

        traceback.print_exc()


def _hold_standard_streams() -> None:
    """Let no other file take the place of a standard stream that was closed at the start.

    With `>&-` the database could become descriptor 1 or 2, and the next message corrupt it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _write_what_the_encoding_lacks() -> None:
    """Write characters that the output's encoding has not, or half ones, as backslashes and hex.

    An answer with one of them would be lost whole otherwise.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _attempt(argv: Sequence[str]) -> int:
    _choose_language(argv)
    try:
        return _dispatch(argv)
    except SystemExit as leaving:  # --help, or a signal
        return leaving.code if isinstance(leaving.code, int) else 0


def complain(text: Text) -> None:
    """One sentence for the person, on standard error, without control characters."""
    line = "".join(c if c.isprintable() or c == "\n" else "�" for c in translate(text))
    with contextlib.suppress(OSError):
        sys.stderr.write(f"kogniterm: {line}\n")
        sys.stderr.flush()


def build_parser(asked: verbs.Verb | None = None) -> Parser:
    """The parser: every verb by name, and the options of the verb that was `asked` for."""
    parser = Parser(prog="kogniterm", description=_(DESCRIPTION))
    parser.add_argument(
        "-V",
        "--version",
        action="version",
        version=f"kogniterm {__version__}",
        help=_("show the version"),
    )
    add_options(parser.add_argument_group(_("session options")), SESSION)
    subparsers = parser.add_subparsers(
        title=_("commands"), metavar=_("COMMAND"), dest="verb", required=False
    )
    for verb in verbs.VERBS:
        if verb is asked:
            load_verb(verb).add_parser(subparsers)
        else:
            subparsers.add_parser(verb.name, help=_(verb.help), add_help=False)
    return parser


def load_verb(verb: verbs.Verb) -> ModuleType:
    """Import the module behind `verb`."""
    return importlib.import_module(verb.module)


def _dispatch(argv: Sequence[str]) -> int:
    word = _first_word(argv)
    verb = verbs.find(word) if word else None
    if word and verb is None:
        _unknown_verb(word)
    args = build_parser(verb).parse_args(argv)
    if verb is not None:
        return int(load_verb(verb).run(args))
    from kogniterm.cli import prompt

    return prompt.run(args)


def _first_word(argv: Sequence[str]) -> str | None:
    """The first word that is neither an option nor an option's value."""
    takes_value = {
        name for option in (*GENERAL, *SESSION) if option.const is None for name in _names(option)
    }
    words = iter(argv)
    for word in words:
        if word == "--":
            return next(words, None)
        if word in takes_value:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def _names(option: Option) -> tuple[str, ...]:
    return (option.flag, option.short) if option.short else (option.flag,)


def _unknown_verb(word: str) -> NoReturn:
    from difflib import get_close_matches

    near = get_close_matches(word, [verb.name for verb in verbs.VERBS], n=1)
    if near and " " not in word:
        raise UsageError(
            "There is no command {word}; did you mean {near}?", word=word, near=near[0]
        )
    raise UsageError(
        'There is no command {word}; to give a task: kogniterm run "…".', word=repr(word)
    )


def _choose_language(argv: Sequence[str]) -> None:
    """Set the language before anything is said, from `--lang` or the tolerant settings."""
    from kogniterm.settings import environment, quick

    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    finder.add_argument("--lang", dest="language")
    with contextlib.suppress(argparse.ArgumentError, SystemExit, KognitermError):
        given, _rest = finder.parse_known_args(list(argv))
        use_language(quick(environment(), {"language": given.language}).language)


def _flushed(status: int) -> int:
    """`status`, once standard output has taken everything; what it cannot take is said here.

    A reader that has left is not worth a word: other programs of a pipe end quietly too.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = status or 128 + signal.SIGPIPE
    except OSError as error:
        complain(Text("Standard output cannot be written: {why}.", {"why": why(error)}))
        status = status or EXIT_NOT_DONE
    else:
        return status
    # Python flushes once more when it ends, and would complain in its own way.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return status


def _unexpected(error: Exception) -> int:
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
        Text(
            "something unexpected went wrong ({kind}: {what}); --debug shows where.",
            {"kind": type(error).__name__, "what": what},
        )
    )
    return EXIT_NOT_DONE
