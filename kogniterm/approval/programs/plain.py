"""The base rules of the tables: readers, listers, writers, and the plain kinds of asking."""

from __future__ import annotations

import re

from kogniterm.approval.call import Call
from kogniterm.approval.naming import names
from kogniterm.approval.options import ANY_OTHER, Option, Parsed, Rules, parse_options
from kogniterm.approval.places import (
    HOLE,
    holds_secret_folder,
    is_secret,
    is_secret_variable,
    secret_sought,
    within,
)
from kogniterm.approval.scope import Argument
from kogniterm.approval.variables import steers
from kogniterm.approval.worst import worst_of_text

ASK_REASONS = {
    "code": "{program} runs code that is not judged.",
    "compile": "{program} builds programs from files.",
    "permissions": "{program} changes who may do what with files.",
    "edit": "{program} edits files in ways that are not judged.",
    "editor": "{program} is an editor that needs a person.",
    "archive": "{program} packs or unpacks files.",
    "system": "{program} changes the system's settings.",
    "later": "{program} runs commands later, unseen.",
    "containers": "{program} starts, stops or changes containers.",
    "keys": "{program} makes or uses keys.",
    "mail": "{program} sends messages.",
    "namespace": "{program} runs programs in another environment.",
    "records": "{program} starts a recorded shell.",
    "opens": "{program} opens something in another program.",
    "notifies": "{program} shows something to people.",
    "clipboard": "{program} reads or changes the clipboard.",
    "process": "{program} changes running processes.",
    "builtin": "{program} changes the shell for later commands.",
    "stays": "{program} lets it run on when KogniTerm ends (not in a sandbox).",
    "alias": "{program} changes what later commands mean.",
}
DANGER_REASONS = {
    "disk": "{program} destroys what is on a disk.",
    "power": "{program} stops or restarts the machine.",
    "kernel": "{program} changes the running kernel.",
    "accounts": "{program} changes the machine's accounts.",
    "protection": "{program} switches protection off.",
}


def asks(call: Call, rules: Rules) -> None:
    """`ask KIND`."""
    call.findings.effect("execute", call.name)
    call.ask(ASK_REASONS[rules.detail])
    worst_in_arguments(call)


def worst_in_arguments(call: Call) -> None:
    """Code in the arguments or the input of a program that can run it: the last net."""
    code = " ".join((*(arg.value for arg in call.args), call.stdin or ""))
    what = worst_of_text(code.replace(HOLE, " "))
    if what:
        call.danger("Its code {what}.", what=what)


def dangers(call: Call, rules: Rules) -> None:
    """`danger KIND`."""
    call.findings.effect("privilege", call.name, outside=True)
    call.danger(DANGER_REASONS[rules.detail])


def networks(call: Call, rules: Rules) -> None:
    """Programs that exist to talk to the network."""
    parsed = parse_options(call.args, rules)
    call.network(parsed.operands[0].value if parsed.operands else "")


def apply_options(call: Call, rules: Rules, parsed: Parsed) -> None:
    """What the options given do, by the table; and what cannot be told from an option."""
    if parsed.unclear and rules.hazards:
        call.ask("Some arguments of {program} could turn out to be options; write them as ./name.")
    for option in parsed.options:
        if HOLE in option.name and rules.hazards:
            call.ask("An option of {program} is only known when it runs.")
        unnamed = rules.options.get(ANY_OTHER, "")
        _apply(call, rules.options.get(option.name, unnamed).rstrip("="), option)


def _apply(call: Call, action: str, option: Option) -> None:
    name = f"--{option.name}" if len(option.name) > 1 else f"-{option.name}"
    value = option.value
    if action == "write" and value is not None:
        call.writes(value)
        call.ask("Option {option} of {program} writes files.", option=name)
    elif action == "write":
        call.ask("Option {option} of {program} writes files.", option=name)
    elif action in {"read", "folder"} and value is not None:
        call.reads(value)
    elif action == "run":
        call.findings.effect("execute", value.value if value else name)
        call.ask("Option {option} of {program} runs another program.", option=name)
        if value is not None:
            call.starts(value.value)
    elif action == "network":
        call.network()
    elif action == "danger":
        call.danger("Option {option} of {program} destroys data.", option=name)
    elif action in {"ask", "code", "warn"}:
        call.ask("Option {option} of {program} does more than read.", option=name)


def reads(call: Call, rules: Rules) -> None:
    """`read`: every operand is a file whose content is read."""
    parsed = parse_options(call.args, rules)
    apply_options(call, rules, parsed)
    for operand in parsed.operands:
        call.reads(operand)
    recursive = any(rules.options.get(option.name) == "recursive" for option in parsed.options)
    if recursive:
        for operand in parsed.operands:
            reads_below(call, operand)


def lists(call: Call, rules: Rules) -> None:
    """`list`: operands are paths that are looked at, not into; secret folders still ask."""
    parsed = parse_options(call.args, rules)
    apply_options(call, rules, parsed)
    for operand in parsed.operands:
        call.reads(operand, content=False)


def media(call: Call, rules: Rules) -> None:
    """`media`: readers with long options of one dash, for which `scheme:rest` is an address or
    a filter, and `@file` a list."""
    parsed = parse_options(call.args, rules, single=True)
    apply_options(call, rules, parsed)
    for operand in (*parsed.operands, *parsed.values("i")):
        call.reads(operand)
        if ":" in operand.value:
            call.network(operand.value)
        elif operand.value.startswith("@"):
            call.ask("{program} takes more arguments from a file.")


def binutils(call: Call, rules: Rules) -> None:
    """`binutils`: readers that take options from `@file`, such as the name of a plugin."""
    reads(call, rules)
    if any(arg.value.startswith("@") for arg in call.args):
        call.ask("{program} takes more arguments from a file.")


def test(call: Call, rules: Rules) -> None:
    """test, [: `-v` evaluates a subscript, which can run commands."""
    if any(arg.value in {"-v", "-R"} for arg in call.args):
        call.ask("A test of a variable's existence may run commands.")
    del rules


_JQ_PAIRS = {"--arg": None, "--argjson": None, "--slurpfile": "read", "--rawfile": "read"}


def jq(call: Call, rules: Rules) -> None:
    """jq: a filter can show the environment and load files, or be in one."""
    args = list(call.args)
    rest: list[Argument] = []
    while args:
        arg = args.pop(0)
        if arg.value not in _JQ_PAIRS:
            rest.append(arg)
            continue
        pair, args = args[:2], args[2:]
        if _JQ_PAIRS[arg.value] and len(pair) == 2:
            call.reads(pair[1])
    pattern(call.with_args(tuple(rest)), rules)
    if parse_options(rest, rules).has("f", "from-file"):
        call.ask("{program} runs a script from a file.")
    _filter_looks_further(
        call, r"(?<![.\w\"])env\b(?!\s*:)|\$ENV", r"(?<![.\w\"])(?:include|import)\b(?!\s*:)"
    )


def yq(call: Call, rules: Rules) -> None:
    """yq: an expression can show the environment and load files."""
    pattern(call, rules)
    _filter_looks_further(
        call,
        r"(?<![.\w\"])(?:str)?env\b(?!\s*:)|\$ENV|\benvsubst\b",
        r"\b(?:load(?:_\w+)?|eval|system)\s*\(",
    )


def _filter_looks_further(call: Call, environment: str, files: str) -> None:
    first = next((arg for arg in call.args if not arg.value.startswith("-")), Argument(""))
    if first.tainted and HOLE in first.value:
        call.ask("An argument of {program} is only known when it runs.")
    if any(re.search(environment, arg.value) for arg in call.args):
        call.findings.effect("secret", "environment")
        call.ask("It shows variables of the environment, keys among them.")
    if any(re.search(files, arg.value) for arg in call.args):
        call.ask("{program} runs a script from a file.")


def pattern(call: Call, rules: Rules) -> None:
    """`pattern`: grep and its kin."""
    parsed = parse_options(call.args, rules)
    apply_options(call, rules, parsed)
    given = any(
        rules.options.get(o.name) == "pattern" or o.name in {"f", "file", "from-file", "files"}
        for o in parsed.options
    )
    files = parsed.operands if given else parsed.operands[1:]
    for operand in files:
        call.reads(operand)
    recursive = call.name in {"rg", "ag", "ack"} or any(
        rules.options.get(option.name) == "recursive" for option in parsed.options
    )
    if not recursive:
        return
    globs = [value.value for value in parsed.values("include", "g", "glob", "G", "iglob")]
    for glob in globs:
        if not glob.startswith("!") and secret_sought(glob):
            call.secret(call.place(Argument(glob, glob=True)))
    narrowed = any(glob.strip("*?./[]") and not glob.startswith("!") for glob in globs)
    if not narrowed and not parsed.has("t", "type"):
        for operand in files or (Argument("."),):
            reads_below(call, operand)


def reads_below(call: Call, operand: Argument) -> None:
    """The content of everything below `operand` is read: home folders and / hold secrets."""
    place = call.place(operand)
    ground = call.scope.ground
    broad = within(ground.home, place.path) or place.path in {"/etc", "/proc", "/run", "/root"}
    if (
        broad
        or holds_secret_folder(place.path, ground)
        or re.fullmatch(r"/home/[^/]+|/Users/[^/]+|/proc/[^/]+", place.path)
    ):
        call.secret(place)


def text(call: Call, rules: Rules) -> None:
    """`text`: operands mean nothing to the machine."""
    parsed = parse_options(call.args, rules)
    apply_options(call, rules, parsed)


def echo(call: Call, rules: Rules) -> None:
    """echo, printf: what they say is seen by the model, and may feed a later program."""
    if call.name == "printf" and call.args and call.args[0].value.startswith("-v"):
        target = call.args[1].value if len(call.args) > 1 else call.args[0].value[2:]
        set_by_data(call, target)
        call.read_later(call.args[1:])
    for arg in call.args:
        shows_variables(call, arg)
        if arg.glob or ("/" in arg.value and HOLE not in arg.value and " " not in arg.value):
            place = call.place(arg)
            if is_secret(place.path, glob=arg.glob):
                call.secret(place)
    del rules


def shows_variables(call: Call, text: Argument) -> None:
    """`text` is seen: variables in it that usually hold secrets are asked about."""
    for name in text.names:
        if is_secret_variable(name):
            call.findings.effect("secret", "$" + name)
            call.ask("It shows the variable {name}, which may hold a secret.", name=name)


_REPEATING = frozenset(
    names(
        """
    read list pattern text uniq xxd awk sed jq yq find fd date media binutils pager
    """
    )
)
_SILENT = frozenset({":", "true", "false", "sleep"})


def shows_arguments(call: Call, rules: Rules) -> None:
    """What readers are given stands in what they print, if only in a complaint."""
    if rules.base in _REPEATING and call.name not in _SILENT:
        for arg in call.args:
            shows_variables(call, arg)


def none(call: Call, rules: Rules) -> None:
    """`none`: an operand would change something."""
    parsed = parse_options(call.args, rules)
    apply_options(call, rules, parsed)
    if parsed.operands:
        call.ask("{program} with an argument changes a setting.")


def writes(call: Call, rules: Rules) -> None:
    """`write`: operands are created or changed."""
    parsed = parse_options(call.args, rules)
    apply_options(call, rules, parsed)
    for operand in parsed.operands:
        if call.name == "mkdir":
            call.creates(operand)
        else:
            call.writes(operand, append=True)


def verbs(call: Call, rules: Rules) -> None:
    """Only the listed first words are readers."""
    apply_options(call, rules, parse_options(call.args, rules))
    verb = call.args[0].value if call.args else ""
    if not verb and call.name.endswith("ctl"):
        return
    if verb not in rules.detail.split() or not call.args[0].known:
        call.findings.effect("execute", f"{call.name} {verb}".replace(HOLE, "…"))
        call.ask(
            "{program} {verb} may install, change or run things.", verb=verb.replace(HOLE, "…")
        )
        remote = {
            "install",
            "add",
            "update",
            "upgrade",
            "publish",
            "push",
            "pull",
            "get",
            "i",
            "ci",
        }
        if verb in remote or verb == "download":
            call.network()


def set_by_data(call: Call, name: str) -> None:
    """A variable gets a value that is only known when it runs."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        call.ask("{program} sets a variable of an unusual name.")
        return
    if steers(name):
        call.ask("It sets {name}, which changes what programs do.", name=name)
    call.scope.variables[name] = Argument(HOLE, split=True, tainted=True)
