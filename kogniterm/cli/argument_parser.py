"""The parser of the command line: help in groups with examples, and mistakes as sentences."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from kogniterm.cli.options import GENERAL, Example, VerbGroup, add_options
from kogniterm.errors import UsageError
from kogniterm.types import Phrase
from kogniterm.ui.locale import _

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
        r"argument (?P<option>.*): invalid choice: '?(?P<value>.*?)'? "
        r"\(choose from (?P<choices>.*)\)",
        Phrase("Invalid value {value} for {option}; choose from {choices}."),
    ),
)
"""Patterns of argparse's own messages, which are English, with our sentence for each."""


class _HelpFormatter(argparse.HelpFormatter):
    """Help as wide as the terminal, with the value of an option named once."""

    def __init__(self, prog: str, **how: Any) -> None:
        super().__init__(prog, max_help_position=HELP_COLUMN, **how)

    @property
    def columns(self) -> int:
        """The columns that help may use."""
        return self._width

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class Parser(argparse.ArgumentParser):
    """A parser that raises `UsageError` instead of printing, and knows the general options.

    Its help lists commands below the titles of `command_groups`, and `examples` at the end.
    """

    def __init__(
        self,
        *,
        examples: Sequence[Example] = (),
        command_groups: Sequence[VerbGroup] = (),
        add_help: bool = True,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("conflict_handler", "resolve")
        super().__init__(**kwargs, add_help=False)
        self.examples = examples
        self._command_groups = command_groups
        self._positionals.title = _("Arguments")
        self._optionals.title = _("Options")
        self.general = self.add_argument_group(_("General"))
        if add_help:
            self.general.add_argument("-h", "--help", action="help", help=_("Show this help"))
        add_options(self.general, GENERAL)

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
        for group in self._command_groups:
            yield _(group.title), [by_name[verb.name] for verb in group.verbs]

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

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as one sentence."""
        import re

        unknown = re.fullmatch(r"unrecognized arguments: (-\S*).*", message)
        if unknown:
            raise self._unknown_option(unknown[1])
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
