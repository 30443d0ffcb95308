"""Commands of the shell that show or change its variables, folder, options and history."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from itertools import pairwise

from kogniterm.approval.analysis.arguments import NUMBER, TAINTED, CallWord
from kogniterm.approval.analysis.expansion import (
    evaluates,
    only_numbers,
    prints_number,
    variable,
)
from kogniterm.approval.analysis.paths_and_variables import (
    HOLE,
    hides_tracks,
    injects,
    is_harmless,
    is_secret_variable,
    names,
    steers,
)
from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.parser.lexer import calculated_names
from kogniterm.approval.parser.tree import Assignment, Substitution
from kogniterm.approval.programs.basic_rules import (
    apply_options,
    ask_unclear,
    gives,
    set_by_data,
    shows_environment,
    shows_variables,
)
from kogniterm.types import Phrase


def sets(call: Call, name: str) -> None:
    """Judge that the variable `name` is set."""
    if injects(name):
        call.danger("Sets {name}, which makes other programs load code.", name=name)
    elif hides_tracks(name):
        call.danger("Tampers with the shell history ({name}).", name=name)
    elif steers(name):
        call.scope.evaluating.update({"IFS"} & {name})
        call.ask("Sets {name}, which changes how programs behave.", name=name)
        call.findings.program((f"{name}=…",))
    elif not (name.islower() or is_harmless(name)):
        call.findings.beside[name] = Phrase("Sets the variable {name}.", {"name": name})


_HOLDS_COMMAND = re.compile(
    r"\w*(?:PAGER|EDITOR)|VISUAL|BROWSER|PROMPT_COMMAND|PS[0-4]|LESSOPEN|LESSCLOSE|GIT_SSH_COMMAND"
    r"|GIT_EXTERNAL_DIFF|GIT_PROXY_COMMAND|(?:GIT|SSH|SUDO)_ASKPASS|GIT_EDITOR|GIT_SEQUENCE_EDITOR"
)


def assigns(call: Call, name: str, value: CallWord) -> None:
    """Judge that the variable `name` gets `value`."""
    if _HOLDS_COMMAND.fullmatch(name):
        call.starts(value.value.lstrip("| "))
    if not (name == "IFS" and value.known and not value.value.strip("\n\t ")):
        sets(call, name)
    # A calculation takes the value of a variable as an expression, subscripts and all.
    if "[" in value.value and re.search(r"\$\(|`", value.value):
        call.ask("Stores a command in the variable {name}, where arithmetic may run it.", name=name)
        for code in re.findall(r"\$\(([^()]*)\)|`([^`]*)`", value.value):
            call.starts("".join(code))
    if re.search(r"(?:^|\s)(?!-\d+(?:\s|\Z))-\w", value.value) or value.value.startswith("--"):
        call.ask("Stores an option in the variable {name}.", name=name)
    if not value.glob:
        for piece in value.value.split():
            if "/" in piece or piece.startswith("."):
                call.read_later([value._replace(value=piece)])
    gives(call, name, value)


DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
"""Builtins that take assignments among their words."""


def judge_declaration(
    call: Call, assignment: Assignment, value: CallWord, *, in_function: bool
) -> bool:
    """Judge an assignment of a declaration, and return whether it is surely made.

    The text in brackets that an array gets runs like a command. Some options make no assignment.
    """
    name = assignment.name
    flags = set("".join(arg.value[1:] for arg in call.args))
    opens = value.tainted or value.value[:1] in {"(", HOLE}
    opens = opens and (assignment.adds or not assignment.array)
    # The variable may be an array already, unless a function makes its own.
    scalar = in_function or name in call.scope.variables
    maybe = call.name not in {"export", "readonly"}
    is_array = flags & set("aA") or (maybe and (name in call.scope.arrays or not scalar))
    if opens and not value.counts and is_array:
        call.ask(
            "{program} takes the value of {name} for an array, which may run commands.", name=name
        )
    if flags & set("aA"):
        call.scope.arrays.add(name)
    if call.name == "readonly" or flags & set("rinulc"):
        call.scope.evaluating.add(name)
    surely = all(arg.known for arg in call.args) and flags <= set("xrgaA")
    return surely and (call.name != "local" or in_function)


def declare(call: Call) -> None:
    """Judge the options and names of export and declare; assignments were judged already."""
    words = [arg.value for arg in call.args]
    flags = "".join(word[1:] for word in words if word.startswith("-"))
    names = [word for word in words if not word.startswith(("-", "+"))]
    shows = not names and not set(flags) & set("fF") and call.name != "local"
    if shows:
        shows_environment(call)
    if set(flags) & set("inulc"):
        call.scope.evaluating.update(names)
    if set(flags) & set("inulc") or ("f" in flags and call.name == "export"):
        call.ask(
            "{program} {flags} gives variables attributes that may run commands.", flags="-" + flags
        )
    if set(flags) & set("aA"):
        call.scope.arrays.update(names)
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            call.ask("{program} sets a variable with an unusual name.")
        elif call.name == "readonly" or "r" in flags:
            call.scope.evaluating.add(name)
        elif "p" in flags and is_secret_variable(name):
            call.ask("Shows the variable {name}, which may contain a secret.", name=name)


def read_variable(call: Call) -> None:
    """Judge read, mapfile and getopts, which fill variables with data."""
    parsed = call.parse(operands_end=True)
    apply_options(call, parsed)
    named = parsed.operands[1:2] if call.name == "getopts" else parsed.operands
    if call.name != "getopts":
        call.scope.arrays.update(operand.value for operand in (*named, *parsed.values("a")))
    for operand in (*named, *parsed.values("a")):
        set_by_data(call, operand.value)
        if call.stdin is not None:
            call.read_later([CallWord(call.stdin.strip())])


def cd(call: Call) -> None:
    """Follow cd, pushd and popd."""
    words = [arg for arg in call.args if not re.fullmatch(r"-[LPe@n]+|--", arg.value)]
    call.scope.variables.pop("PWD", None)
    if call.name == "popd" or (call.name == "pushd" and not words):
        call.scope.cwd = None
    elif not words:
        call.scope.cwd = call.scope.roots.home
    elif not words[0].known or words[0].value == "-" or words[0].value.startswith("+"):
        call.scope.cwd = None
    elif ".." in words[0].value and any("P" in word for word in call.words[:-1]):
        call.scope.cwd = None  # it leads out of where links lead
    else:
        call.scope.cwd = call.resolve(words[0]).path
        call.findings.enters(words[0].value)


_SAFE_SHOPT = names("nullglob globstar failglob nocasematch lastpipe inherit_errexit checkwinsize")


def shopt(call: Call) -> None:
    """Judge shopt: options that change how text is parsed ask."""
    names = [arg.value for arg in call.args if not arg.value.startswith("-")]
    changing = any(re.match(r"-[a-z]*[su]", arg.value) for arg in call.args)
    if changing and not _SAFE_SHOPT.issuperset(names):
        call.ask("{program} changes how the shell reads commands.")


_SAFE_SET = names("""
    errexit nounset pipefail xtrace verbose noclobber noglob nolog notify ignoreeof allexport
    errtrace functrace
""")


def set_(call: Call) -> None:
    """Judge set: shell options and positional parameters; alone it shows every variable."""
    words = [arg.value for arg in call.args]
    if not words:
        shows_environment(call)
    text = " ".join(words)
    if re.search(r"\+o history|-o history", text):
        call.danger("Tampers with the shell history.")
    elif any(re.match(r"[-+][A-Za-z]*[Bkpbhm]", word) for word in words):
        call.ask("{program} changes how the shell reads commands.")
    named = [after.value for word, after in pairwise(call.args) if word.value in {"-o", "+o"}]
    if not _SAFE_SET.issuperset(named):
        call.ask("{program} changes how the shell reads commands.")
    rest = list(call.args)
    while rest and re.fullmatch(r"[-+][A-Za-z]+", rest[0].value):
        del rest[: 2 if rest[0].value.endswith("o") else 1]
    if rest:
        given = rest[1:] if rest[0].value in {"-", "--"} else rest
        call.scope.set_arguments(given)
        call.read_later(given)


def shift(call: Call) -> None:
    """Judge shift: the numbers of the arguments are no longer known."""
    call.scope.forget_arguments()


def unset(call: Call) -> None:
    """Judge unset: subscripts can run commands, some variables affect other programs."""
    for arg in call.bare:
        call.scope.functions.pop(arg.value, None)
        if evaluates(arg.value, call.scope):
            call.ask("Removes {name}, which changes how programs behave.", name=arg.value)
        if not re.fullmatch(r"[A-Za-z_]\w*", arg.value):
            call.ask("{program} is given an argument that is not a plain name.")
        elif hides_tracks(arg.value):
            call.danger("Tampers with the shell history ({name}).", name=arg.value)
        elif steers(arg.value):
            call.ask("Removes {name}, which changes how programs behave.", name=arg.value)
        else:
            call.scope.variables.pop(arg.value, None)


def calculates(
    call: Call, used: Iterable[str], targets: Iterable[str] = (), settles: Iterable[str] = ()
) -> None:
    """Judge arithmetic that takes the values of `used` and sets `targets`, some in any case."""
    scope = call.scope
    if not only_numbers([variable(name, scope) for name in used], scope):
        call.ask("Arithmetic on input data may run commands.")
    for name in targets:
        sets(call, name)
        counts = name in settles or variable(name, scope).counts
        scope.variables[name] = NUMBER if counts else TAINTED


def calculates_printed(call: Call, printed: Substitution) -> None:
    """Judge arithmetic with the output of a substitution."""
    if not prints_number(printed.node, call.scope):
        call.ask("Arithmetic on input data may run commands.")


def let(call: Call) -> None:
    """Judge let: arithmetic on plain names."""
    for arg in call.args:
        used, targets, settles = calculated_names(arg.value)
        if not only_numbers(
            [arg._replace(value=re.sub(r"[A-Za-z_]\w*", "0", arg.value))], scope=call.scope
        ):
            call.ask("{program} evaluates an expression that may run commands.")
        calculates(call, used, targets, settles)


def test(call: Call) -> None:
    """Judge test and [: -v evaluates its operand, and data may be -v with an operand of its own."""
    data = [HOLE in arg.value and not arg.number for arg in call.args]
    reached = [is_data or "[" in arg.value for is_data, arg in zip(data, call.args, strict=True)]
    if any(
        arg.value in {"-v", "-R"} or (arg.glob and fnmatchcase("-v", arg.value))
        for arg in call.args
    ):
        call.ask("Testing whether a variable exists may run commands.")
    if any(arg.brings_words for arg in call.args) or any(
        one and other for one, other in zip(data, reached[1:], strict=False)
    ):
        call.ask("{program} may take data for an operator; put it in quotes, beside a known one.")


def history(call: Call) -> None:
    """Judge history: its entries may hold secrets, and clearing it hides earlier commands."""
    if any(re.match(r"-[a-z]*[cdw]", arg.value) for arg in call.args):
        call.danger("Tampers with the shell history.")
    else:
        for arg in call.bare:
            if not arg.value.isdigit():
                call.writes(arg, "write")
        call.findings.effect("secret", "history")
        call.ask("Shows earlier commands, which may contain secrets.")


def alias(call: Call) -> None:
    """Judge alias: defining one changes later commands."""
    if any("=" in arg.value or HOLE in arg.value for arg in call.args):
        call.ask("{program} changes what later commands mean.")
        call.scope.evaluating.update(arg.value.partition("=")[0] for arg in call.args)
    for arg in call.args:
        if "=" in arg.value:
            call.starts(arg.value.partition("=")[2])


def echo(call: Call) -> None:
    """Judge echo and printf: the model sees their output, and a later program may read it."""
    if call.name == "printf":
        parsed = call.parse(operands_end=True)
        if parsed.unclear or parsed.has_unknown:
            ask_unclear(call)
        for target in parsed.values("v"):
            set_by_data(call, target.value)
            call.read_later(parsed.operands)
    for arg in call.args:
        shows_variables(call, arg)
        if arg.glob or ("/" in arg.value and HOLE not in arg.value and " " not in arg.value):
            call.read_later([arg])


def printenv(call: Call) -> None:
    """Judge printenv: it shows all variables, or those named."""
    if not call.bare:
        shows_environment(call)
    for arg in call.bare:
        if is_secret_variable(arg.value) or not arg.known:
            name = arg.value.replace(HOLE, "…")
            call.findings.effect("secret", "$" + name)
            call.ask("Shows the variable {name}, which may contain a secret.", name=name)


HANDLERS: Mapping[str, Callable[[Call], None]] = {
    "declare": declare, "readvar": read_variable, "cd": cd, "shopt": shopt, "set": set_,
    "unset": unset, "shift": shift, "let": let, "history": history, "alias": alias,
    "echo": echo, "printenv": printenv, "test": test,
}  # fmt: skip
