"""A word of a command after expansion, which is what a program gets as an argument."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.approval.analysis.paths_and_variables import HOLE

if TYPE_CHECKING:
    from kogniterm.approval.parser.tree import Substitution

_NUMBER = re.compile(r"-?[0-9]+\Z")


class Argument(NamedTuple):
    """One word after expansion.

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
        """Return whether it is a number."""
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


TAINTED = Argument(HOLE, split=True, tainted=True)
NUMBER = Argument(HOLE, number=True)


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
