"""The arguments of a program: words after expansion, and the options among them.

Options are read the GNU way: clusters, attached values, abbreviations, `--`.

A program's rules are one line of a table (see `tables/`): what its operands are, and what each
option that matters does.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.approval.analysis.paths_and_variables import HOLE, names, table_lines

if TYPE_CHECKING:
    from kogniterm.approval.parser.tree import Substitution


_NUMBER = re.compile(r"-?[0-9]+\Z")


class CallWord(NamedTuple):
    """A word of a program's call after expansion.

    `glob`: it has unquoted glob characters; `split`: it may become none or several words;
    `tainted`: its holes are filled with data the command reads, so they may be anything;
    `names`: variables of the environment its holes are filled from;
    `number`: its holes are filled with digits.
    """

    value: str
    glob: bool = False
    split: bool = False
    tainted: bool = False
    names: tuple[str, ...] = ()
    inner: tuple[Substitution, ...] = ()
    number: bool = False

    @property
    def known(self) -> bool:
        """Return whether `value` is exactly what the program gets."""
        return HOLE not in self.value and not self.glob

    @property
    def counts(self) -> bool:
        filled = self.value.replace(HOLE, "0") if self.number else self.value
        return not self.tainted and bool(_NUMBER.match(filled))

    @property
    def brings_words(self) -> bool:
        """Return whether data may bring further words with it, for want of quotes."""
        return self.split and HOLE in self.value and not self.number

    @property
    def maybe_option(self) -> bool:
        """Return whether it may turn out to be an option though it does not look like one."""
        if self.glob and self.value[:1] in "*?[":
            return True
        # Without quotes it may bring further words with it.
        return self.tainted and (self.value[:1] == HOLE or (self.split and HOLE in self.value))


TAINTED = CallWord(HOLE, split=True, tainted=True)
NUMBER = CallWord(HOLE, number=True)


class ShellValues(NamedTuple):
    """The shell's variables whose content is known between two commands: others hold data.

    `literal` are names with the text they hold, a `HOLE` for digits; `evaluating` are variables
    whose attributes make the shell evaluate, refuse or redirect what they get, and names of
    programs that now mean something else.
    """

    literal: frozenset[tuple[str, str]] = frozenset()
    evaluating: frozenset[str] = frozenset()

    def both(self, other: ShellValues) -> ShellValues:
        """Return the argument that is true of either of two shells."""
        return ShellValues(self.literal & other.literal, self.evaluating | other.evaluating)


HARMLESS = frozenset({"value", "text", "pattern", "read", "recursive", "warn", "folder", "plain"})
"""Actions that can only read or shape the output."""

ANY_OTHER = "*"
"""The name of every option that a line of a table does not name."""

READING = names("""
    read list pattern text none media binutils pager uniq xxd jq yq fd xargs wrap env date readvar
    sed printenv test verbs
""")
"""The bases of programs that only read with the options that their lines name."""
_COMMON = frozenset({"help", "version"})

VALUED = frozenset({"value", "write", "read", "run", "folder", "pattern", "text"})
"""Actions of options that take a value; with a trailing `=`, others do too."""


class Rules(NamedTuple):
    """A program's line: its base rule with a detail, and option name to action."""

    base: str
    detail: str = ""
    options: Mapping[str, str] = MappingProxyType({})

    @property
    def hazards(self) -> bool:
        """Return whether any option can do more than shape the output."""
        return not HARMLESS.issuperset(self.options.values())

    def action(self, name: str) -> str:
        """Return the action of the option `name`; unknown ones of a program that only reads ask."""
        default = "ask" if self.base in READING and name not in _COMMON else ""
        default = "" if name.isdigit() or name == HOLE else self.options.get(ANY_OTHER, default)
        return self.options.get(name, default).rstrip("=")

    def takes_value(self, name: str) -> bool:
        """Return whether the option `name` takes a value."""
        action = self.options.get(name, "")
        return action.endswith("=") or action in VALUED


NO_RULES = Rules("")


class CommandOption(NamedTuple):
    """One option as given: its name without dashes, and its value if it has one."""

    name: str
    value: CallWord | None = None


class Parsed(NamedTuple):
    """The options and operands of a call; `unclear` holds what may be either."""

    options: tuple[CommandOption, ...]
    operands: tuple[CallWord, ...]
    unclear: tuple[CallWord, ...]
    rules: Rules

    @property
    def names(self) -> frozenset[str]:
        return frozenset(option.name for option in self.options)

    @property
    def has_unknown(self) -> bool:
        """Return whether the name of an option is only known when it runs."""
        return any(HOLE in name for name in self.names)

    def has(self, *names: str) -> bool:
        """Return whether one of `names` was given."""
        return not self.names.isdisjoint(names)

    def does(self, action: str) -> bool:
        """Return whether an option with this action was given."""
        return any(self.rules.options.get(option.name) == action for option in self.options)

    def values_of(self, action: str) -> tuple[CallWord, ...]:
        """Return the values of the options with this action."""
        acting = (
            o for o in self.options if self.rules.options.get(o.name, "").rstrip("=") == action
        )
        return tuple(option.value for option in acting if option.value is not None)

    def values(self, *names: str) -> tuple[CallWord, ...]:
        """Return the values given to any of `names`."""
        return tuple(o.value for o in self.options if o.name in names and o.value is not None)


def parse_options(
    args: Iterable[CallWord], rules: Rules, *, operands_end: bool = False, single: bool = False
) -> Parsed:
    """Split `args`; with `operands_end` the first operand ends the options (wrappers).

    `single` means long options have one dash and do not cluster (find, java, terraform).
    """
    options: list[CommandOption] = []
    operands: list[CallWord] = []
    unclear: list[CallWord] = []
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        text = arg.value
        if text == "--" and arg.known:
            operands.extend(rest)
            break
        if arg.maybe_option:
            unclear.append(arg)
        if len(text) < 2 or text[0] != "-":
            operands.append(arg)
            if operands_end:
                operands.extend(rest)
                break
        else:
            read = _long if text.startswith("--") or single else _short
            found = list(read(arg, rules, rest))
            options.extend(found)
            # A value without quotes may bring further words with it.
            values = (option.value for option in found if option.value is not None)
            unclear.extend(value for value in values if value.split and value.maybe_option)
    return Parsed(tuple(options), tuple(operands), tuple(unclear), rules)


def _long(arg: CallWord, rules: Rules, rest: list[CallWord]) -> Iterable[CommandOption]:
    given, equals, value = arg.value.lstrip("-").partition("=")
    name = given if given in rules.options else _complete_option(given, rules)
    if equals:
        return [CommandOption(name, _tail(arg, value))]
    if rules.takes_value(name) and _value_follows(rest):
        return [CommandOption(name, rest.pop(0))]
    return [CommandOption(name)]


def _value_follows(rest: list[CallWord]) -> bool:
    """Return whether the next word can be a value; what looks like an option is an option."""
    if not rest:
        return False
    text = rest[0].value
    return len(text) < 2 or text[0] != "-" or text[1:].isdigit()


def _complete_option(given: str, rules: Rules) -> str:
    """Return the long option that `given` abbreviates, if that one matters."""
    if len(given) < 2:
        return given
    candidates = (name for name in rules.options if len(name) > 1 and name.startswith(given))
    return next((one for one in candidates if rules.options[one] not in {"value", "plain"}), given)


def _short(arg: CallWord, rules: Rules, rest: list[CallWord]) -> Iterable[CommandOption]:
    text = arg.value[1:]
    for index, letter in enumerate(text):
        if letter == HOLE and not arg.number:
            yield CommandOption(HOLE)
            return
        if not rules.takes_value(letter):
            yield CommandOption(letter)
            continue
        attached = text[index + 1 :]
        if attached:
            yield CommandOption(letter, _tail(arg, attached))
        elif _value_follows(rest):
            yield CommandOption(letter, rest.pop(0))
        else:
            yield CommandOption(letter)
        return


def _tail(arg: CallWord, value: str) -> CallWord:
    return CallWord(value, arg.glob, arg.split, arg.tainted, arg.names)


@functools.cache
def rule_table(name: str) -> Mapping[str, Rules]:
    """Return a table of `names: base detail; action option option; action option` a line.

    The comments at the head of the table describe its words.
    """
    table: dict[str, Rules] = {}
    for programs, line in table_lines(name).items():
        head, *clauses = line.split(";")
        base, _, detail = head.strip().partition(" ")
        options: dict[str, str] = {}
        for clause in clauses:
            action, *given = clause.split()
            if action == "letters":
                action, given = "plain", list("".join(given))
            options.update(dict.fromkeys(given, action))
        table.update(dict.fromkeys(programs.split(), Rules(base, detail.strip(), options)))
    return table


def rules_for(program: str) -> Rules | None:
    """Return the rules of a program, or of `program:verb`; None for one that is not known."""
    return rule_table("known_programs").get(program)
