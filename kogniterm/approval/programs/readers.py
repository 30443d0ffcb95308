"""Readers that need code of their own: what they show, and what their options run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from kogniterm.approval.analysis.expansion import Argument
from kogniterm.approval.analysis.path_kinds import HOLE, is_secret_variable
from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.programs.basic_rules import (
    options,
    pattern,
    set_by_data,
    shows_environment,
    shows_variables,
)


def echo(call: Call) -> None:
    """echo, printf: what they say is seen by the model, and may feed a later program."""
    if call.name == "printf" and call.args and call.args[0].value.startswith("-v"):
        target = call.args[1].value if len(call.args) > 1 else call.args[0].value[2:]
        set_by_data(call, target)
        call.read_later(call.args[1:])
    for arg in call.args:
        shows_variables(call, arg)
        if arg.glob or ("/" in arg.value and HOLE not in arg.value and " " not in arg.value):
            call.read_later([arg])


def printenv(call: Call) -> None:
    """printenv: everything, or the named variables."""
    if not call.bare:
        shows_environment(call)
    for arg in call.bare:
        if is_secret_variable(arg.value) or not arg.known:
            name = arg.value.replace(HOLE, "…")
            call.findings.effect("secret", "$" + name)
            call.ask("It shows the variable {name}, which may hold a secret.", name=name)


def jq(call: Call) -> None:
    """jq: a filter can show the environment and load files, or be in one."""
    pairs = {"--arg": False, "--argjson": False, "--slurpfile": True, "--rawfile": True}
    args = list(call.args)
    rest: list[Argument] = []
    while args:
        arg = args.pop(0)
        if arg.value not in pairs:
            rest.append(arg)
            continue
        pair, args = args[:2], args[2:]
        if pairs[arg.value] and len(pair) == 2:
            call.reads(pair[1])
    inner = replace(call, args=tuple(rest))
    pattern(inner)
    if inner.parse().has("f", "from-file"):
        call.ask("{program} runs a script from a file.")
    _filter_looks_further(
        call, r"(?<![.\w\"])env\b(?!\s*:)|\$ENV", r"(?<![.\w\"])(?:include|import)\b(?!\s*:)"
    )


def yq(call: Call) -> None:
    """yq: an expression can show the environment and load files."""
    pattern(call)
    _filter_looks_further(
        call,
        r"(?<![.\w\"])(?:str)?env\b(?!\s*:)|\$ENV|\benvsubst\b",
        r"\b(?:load(?:_\w+)?|eval|system)\s*\(",
    )


def _filter_looks_further(call: Call, environment: str, files: str) -> None:
    first = next(iter(call.bare), Argument(""))
    if first.tainted and HOLE in first.value:
        call.ask("An argument of {program} is only known when it runs.")
    if any(re.search(environment, arg.value) for arg in call.args):
        call.findings.effect("secret", "environment")
        call.ask("It shows variables of the environment, keys among them.")
    if any(re.search(files, arg.value) for arg in call.args):
        call.ask("{program} runs a script from a file.")


def date(call: Call) -> None:
    """date: a format reads; -s or digits set the clock."""
    shape = re.compile(r"-u?I(?:date|hours|minutes|seconds|ns)?")
    args = tuple(arg for arg in call.args if not shape.fullmatch(arg.value))
    parsed = replace(call, args=args).parse()
    if any(option.name in {"s", "se", "set"} for option in parsed.options):
        call.danger("{program} sets the machine's clock.")
    for value in parsed.values("f", "file"):
        call.reads(value)
    for operand in parsed.operands:
        if not operand.value.startswith("+"):
            call.ask("{program} with this argument sets the machine's clock.")
    if any(HOLE in option.name for option in parsed.options) or parsed.unclear:
        call.ask("An argument of {program} is only known when it runs.")


def ps(call: Call) -> None:
    """ps: the BSD letter `e` shows the environment of processes."""
    before = ""
    for word in [arg.value for arg in call.args]:
        valued = re.fullmatch(r"-\w*[opuUCGgtp]|--\w+", before)
        letters = re.fullmatch(r"[a-zA-Z]*e[a-zA-Z]*", word)
        if re.search(r"\benviron\b|\A-\w*E", word) or (letters and not valued):
            call.findings.effect("secret", "environment")
            call.ask("It shows the environment of processes, keys among it.")
        before = word


def pager(call: Call) -> None:
    """less, more: readers, but LESSOPEN, logs and +commands are not."""
    for arg in call.args:
        if arg.value.startswith("+") and not re.fullmatch(r"\+(?:\d+|G|F|/[^!|]*)", arg.value):
            call.ask("{program} is given commands to run.")
            call.starts(arg.value.lstrip("+!"))
    args = tuple(arg for arg in call.args if not arg.value.startswith("+"))
    for operand in options(replace(call, args=args)).operands:
        call.reads(operand)


_MAN_RUNS = re.compile(
    r"-\w*[PHlCMTXZRpo]|--(?:pager|html|local|config|preproc|troff|browser|recode|gx|dither|output"
    r"|restore|dribble)"
)


def man(call: Call) -> None:
    """man: options can name programs (-P, -H) and files (-l, -C)."""
    for arg in call.args:
        if _MAN_RUNS.match(arg.value) or arg.maybe_option:
            call.ask("An option of {program} can make it run another program.")
            call.starts(re.sub(r"-[PH]|--\w+=", "", arg.value, count=1))
        elif " " in arg.value:
            call.starts(arg.value)
        elif "/" in arg.value:
            call.ask("{program} formats a file with its own programs.")


HANDLERS: Mapping[str, Callable[[Call], None]] = {
    "echo": echo, "printenv": printenv, "jq": jq, "yq": yq, "date": date, "ps": ps, "pager": pager,
    "man": man,
}  # fmt: skip
