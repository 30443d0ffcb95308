"""`kogniterm help`: list the topics, explain one, or show the help of a command."""

from __future__ import annotations

import shutil

from kogniterm.cli import options
from kogniterm.cli.options import CallOptions, Example, Subparsers, add_verb
from kogniterm.cli.verb_helpers import write_lines
from kogniterm.errors import EXIT_DONE, UsageError
from kogniterm.runtime.operations.action import Argument
from kogniterm.ui.commands.help_topics import TOPICS, find, in_columns, screen
from kogniterm.ui.locale import _, mark, translate

COLUMNS = 80
"""The widest that a topic is written."""


def add_parser(subparsers: Subparsers) -> None:
    """Add `help` with a topic, or the words of a command."""
    add_verb(
        subparsers,
        "help",
        [Argument("topic", "Topic, or command with its action", "TOPIC", nargs="*")],
        description=mark(
            "Explain a topic on one screen. Without a topic, list the topics; with a command, "
            "show its options."
        ),
        examples=(
            Example("kogniterm help"),
            Example("kogniterm help approvals"),
            Example("kogniterm help sessions export", "Same as sessions export --help"),
        ),
    )


def run(_call: CallOptions, topic: list[str]) -> int:
    """Write the list, the topic or the help of the command; returns the exit status."""
    columns = min(shutil.get_terminal_size().columns, COLUMNS)
    found = find(topic[0]) if len(topic) == 1 else None
    if found is not None:
        write_lines(screen(found, columns))
    elif topic:
        _command_help(topic)
    else:
        rows = [(one.name, translate(one.title)) for one in TOPICS]
        write_lines((_("Topics:"), *in_columns(rows, columns), ""))
        write_lines((_("Read one with kogniterm help TOPIC, or /help TOPIC at the prompt."),))
    return EXIT_DONE


def _command_help(words: list[str]) -> None:
    """Show what `kogniterm WORDS --help` shows. Raises `UsageError` if there is no such command."""
    from kogniterm.cli.main import build_parser

    verb = options.find(words[0])
    if verb is None:
        raise _unknown_topic(words[0])
    build_parser(verb).parse_args([*words, "--help"])


def _unknown_topic(word: str) -> UsageError:
    from kogniterm.text.spelling import closest_word

    names = {name: topic.name for topic in TOPICS for name in (topic.name, *topic.also)}
    names |= {verb.name: verb.name for verb in options.VERBS}
    near = closest_word(word, names)
    if near:
        return UsageError(
            "Help topic {word} not found. Did you mean {near}?", word=word, near=names[near]
        )
    return UsageError("Help topic {word} not found; kogniterm help lists the topics.", word=word)
