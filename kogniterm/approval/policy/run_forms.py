"""Calls of one program with a fixed subcommand or target, whose other options are listed.

`pytest -q` and `pytest -x tests` have the same form, `pytest -p plugin` has none.

Such programs run code of the project, so a permission for them holds inside a sandbox only. What
it covers is a table of options (`tables/run_forms.txt`); any other option or word is not covered.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kogniterm.approval.analysis.arguments import CallWord, parse_options, rule_table
from kogniterm.approval.policy.rules import program_name

_DEPTH = 4
"""The words of the longest name in the table."""
_NAME_OR_FILE = re.compile(r"(?![-/~@=]|$)[\w@+:,./-]*(?:::[\w\[\]., -]*)*")
"""A name, a number, or a file that is no option, no absolute path and no file of options."""


class RunForm(NamedTuple):
    """A call by its listed form: what is fixed of it, and whether other arguments are `free`.

    With `script` the first of them is one, which is judged with each call.
    """

    fixed: tuple[str, ...]
    free: bool
    script: bool

    @property
    def title(self) -> str:
        """The program with its subcommand and targets."""
        return " ".join(self.fixed)


def run_form(argv: tuple[str, ...]) -> RunForm | None:
    """Return the listed form of a call; None for one that is not listed, or has another option."""
    if not argv or any("…" in word for word in argv):
        return None
    words, table = (program_name(argv[0]), *argv[1:]), rule_table("run_forms")
    depth = next((n for n in range(_DEPTH, 0, -1) if ":".join(words[:n]) in table), 0)
    if not depth or any(":" in word or not word for word in words[:depth]):
        return None
    rules = table[":".join(words[:depth])]
    rest = [CallWord(word) for word in words[depth:]]
    parsed = parse_options(rest, rules, single=rules.detail == "single")
    for option in parsed.options:
        action, value = rules.options.get(option.name), option.value
        if action is None or (action == "plain") != (value is None):
            return None
        if value is not None and action == "value" and not _is_tame(value.value):
            return None
    operands = tuple(operand.value for operand in parsed.operands)
    free, script = rules.base != "same", rules.base == "script"
    if not all(map(_is_tame, operands[script:])):
        return None
    return RunForm(words[:depth] if free else (*words[:depth], *operands), free, script)


def _is_tame(word: str) -> bool:
    return bool(_NAME_OR_FILE.fullmatch(word)) and ".." not in word.split("::")[0].split("/")
