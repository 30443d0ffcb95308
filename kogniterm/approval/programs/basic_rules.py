"""The rules that programs share: their options, their operands and the variables they show."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from kogniterm.approval.analysis.arguments import (
    ANY_OTHER,
    READING,
    TAINTED,
    CallWord,
    CommandOption,
    Parsed,
)
from kogniterm.approval.analysis.expansion import evaluates, only_numbers
from kogniterm.approval.analysis.paths_and_variables import (
    HOLE,
    holds_secret_folder,
    is_secret_variable,
    names,
    secret_sought,
    steers,
    within,
)
from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.analysis.shared_findings import DESTROYS_DISK

ASK_KINDS = {
    "code": "{program} runs code KogniTerm cannot inspect.",
    "compile": "{program} compiles or links programs.",
    "permissions": "{program} changes file permissions.",
    "edit": "{program} edits files in ways KogniTerm cannot inspect.",
    "editor": "{program} needs a terminal; it opens for you to use.",
    "archive": "{program} packs or unpacks files.",
    "system": "{program} changes system settings.",
    "later": "{program} schedules commands that later run without approval.",
    "containers": "{program} starts, stops or changes containers.",
    "keys": "{program} creates or uses cryptographic keys.",
    "mail": "{program} sends messages.",
    "namespace": "{program} runs programs in another environment.",
    "records": "{program} starts a shell and records it.",
    "opens": "{program} opens something in another program.",
    "notifies": "{program} shows a message to users.",
    "clipboard": "{program} reads or changes the clipboard.",
    "process": "{program} changes running processes.",
    "builtin": "{program} changes the shell for later commands.",
    "stays": "{program} keeps a process running after KogniTerm exits (not in a sandbox).",
    "alias": "{program} changes what later commands mean.",
}
DANGER_KINDS = {
    "disk": DESTROYS_DISK,
    "power": "{program} stops or restarts the machine.",
    "kernel": "{program} changes the running kernel.",
    "accounts": "{program} changes user accounts or groups.",
    "protection": "{program} disables or changes a security protection.",
}


def asks(call: Call) -> None:
    """Apply `ask KIND`: code in its arguments or its input is searched for dangerous patterns."""
    call.findings.effect("execute", call.name)
    call.ask(ASK_KINDS[call.rules.detail])
    code = " ".join((*(arg.value for arg in call.args), call.stdin or ""))
    call.findings.scan(code.replace(HOLE, " "), "Contains code that {what}.")


def dangers(call: Call) -> None:
    """Apply `danger KIND`."""
    call.findings.effect("privilege", call.name, outside=True)
    call.danger(DANGER_KINDS[call.rules.detail])


# --- options ------------------------------------------------------------------------------------


def options(call: Call, *, single: bool = False) -> Parsed:
    """Return the parsed arguments of `call`; judge its options by the table."""
    parsed = call.parse(single=single)
    apply_options(call, parsed)
    return parsed


def apply_options(call: Call, parsed: Parsed) -> None:
    """Judge the options by the table, and arguments that may be options."""
    rules = call.rules
    if parsed.unclear and rules.hazards:
        ask_unclear(call)
    for option in parsed.options:
        if HOLE in option.name and rules.hazards:
            call.ask("An option of {program} is known only at run time.")
        _apply(call, rules.action(option.name), option)
        lacks = option.value is None and rules.options.get(option.name) in _NEEDS_VALUE
        if lacks and rules.base in READING and ANY_OTHER not in rules.options:
            call.ask("An option of {program} lacks its value.")


_NEEDS_VALUE = frozenset({"value", "pattern", "read", "folder"})
"""Without a value the next word may be one after all, and the words behind it other than judged."""


def ask_unlisted(call: Call, parsed: Parsed) -> None:
    """Ask about options that the line of a program does not name, where it would only read."""
    for option in parsed.options:
        if option.name not in call.rules.options and option.name != HOLE:
            _apply(call, "" if option.name.isdigit() else "ask", option)


def ask_unclear(call: Call) -> None:
    """Ask because an argument may turn out to be an option."""
    call.ask("Some arguments of {program} may be taken as options; write them as ./name.")


def _apply(call: Call, action: str, option: CommandOption) -> None:
    name = f"--{option.name}" if len(option.name) > 1 else f"-{option.name}"
    value = option.value
    if action == "write":
        if value is not None:
            call.writes(value)
        call.ask("Option {option} of {program} writes files.", option=name)
    elif action in {"read", "folder"} and value is not None:
        call.reads(value)
    elif action == "run":
        call.findings.effect("execute", value.value if value else name)
        call.ask("Option {option} of {program} runs another program.", option=name)
        if value is not None:
            call.starts(value.value.removeprefix("exec="))
    elif action == "network":
        call.network()
    elif action == "danger":
        call.danger("Option {option} of {program} destroys data.", option=name)
    elif action in {"ask", "code", "warn"}:
        call.ask("Option {option} of {program} may do more than read.", option=name)


# --- operands -----------------------------------------------------------------------------------


def reads(call: Call) -> None:
    """Apply `read`: every operand is a file whose content is read."""
    parsed = options(call)
    for operand in parsed.operands:
        call.reads(operand)
        if parsed.does("recursive"):
            reads_below(call, operand)


def lists(call: Call) -> None:
    """Apply `list`: operands are listed and their content is not read; secret folders ask."""
    for operand in options(call).operands:
        call.reads(operand, content=False)


def text(call: Call) -> None:
    """Apply `text`: operands are neither files nor settings."""
    options(call)


def none(call: Call) -> None:
    """Apply `none`: an operand would change something."""
    if options(call).operands:
        call.ask("{program} with an argument changes a setting.")


def writes(call: Call) -> None:
    """Apply `write`: operands are created or changed."""
    for operand in options(call).operands:
        call.writes(operand, "create" if call.name == "mkdir" else "write")


def media(call: Call) -> None:
    """Apply `media`: long options of one dash; `scheme:rest` is an address or a filter."""
    parsed = options(call, single=True)
    for operand in (*parsed.operands, *parsed.values("i")):
        call.reads(operand)
        if ":" in operand.value:
            call.network(operand.value)
        elif operand.value.startswith("@"):
            call.ask("{program} reads more arguments from a file.")


def binutils(call: Call) -> None:
    """Apply `binutils`: readers that take options from `@file`, such as a plugin."""
    reads(call)
    if any(arg.value.startswith("@") for arg in call.args):
        call.ask("{program} reads more arguments from a file.")


def date(call: Call) -> None:
    """Judge date: -s and an operand without `+` set the clock."""
    shape = re.compile(r"-u?I(?:date|hours|minutes|seconds|ns)?")
    args = tuple(arg for arg in call.args if not shape.fullmatch(arg.value))
    parsed = replace(call, args=args).parse()
    if parsed.has("s", "se", "set"):
        call.danger("{program} sets the system clock.")
    for value in parsed.values("f", "file"):
        call.reads(value)
    for operand in parsed.operands:
        if not operand.value.startswith("+"):
            call.ask("{program} with this argument sets the system clock.")
    apply_options(call, parsed)


def pattern(call: Call) -> None:
    """Apply `pattern`: grep and similar programs."""
    parsed = options(call)
    given = parsed.does("pattern") or parsed.has("f", "file", "from-file", "files")
    files = parsed.operands if given else parsed.operands[1:]
    for operand in files:
        call.reads(operand)
    if call.name not in {"rg", "ag", "ack"} and not parsed.does("recursive"):
        return
    globs = [value.value for value in parsed.values("include", "g", "glob", "G", "iglob")]
    for glob in globs:
        if not glob.startswith("!") and secret_sought(glob):
            call.secret(call.resolve(CallWord(glob, glob=True)))
    narrowed = any(glob.strip("*?./[]") and not glob.startswith("!") for glob in globs)
    if not narrowed and not parsed.has("t", "type"):
        for operand in files or (CallWord("."),):
            reads_below(call, operand)


def reads_below(call: Call, operand: CallWord) -> None:
    """Record that all files below `operand` are read: home folders and / hold secrets."""
    resolved = call.resolve(operand)
    roots = call.scope.roots
    if (
        within(roots.home, resolved.path)
        or holds_secret_folder(resolved.path, roots)
        or re.fullmatch(r"/home/[^/]+|/Users/[^/]+|/proc(?:/[^/]+)?|/etc|/run|/root", resolved.path)
    ):
        call.secret(resolved)


_FETCHES = names("install add update upgrade publish push pull get i ci download")


def verbs(call: Call) -> None:
    """Apply `verbs WORD…`: reads only with one of these as the first word."""
    options(call)
    verb = call.args[0].value if call.args else ""
    if not verb and call.name.endswith("ctl"):
        return
    if verb not in call.rules.detail.split() or not call.args[0].known:
        _may_install(call, verb, network=verb in _FETCHES)


def subcommands(call: Call) -> None:
    """Apply `subcommands WORD…`: reads only without operands, or with one of these first."""
    parsed = call.parse()
    verb = parsed.operands[0].value if parsed.operands else ""
    if parsed.unclear:
        ask_unclear(call)
    for value in parsed.values_of("read"):
        call.reads(value)
    if not parsed.names <= set(call.rules.options) or verb not in ("", *call.rules.detail.split()):
        _may_install(call, verb, network=verb in {"install", "download", "wheel", "index", "list"})


def _may_install(call: Call, verb: str, *, network: bool) -> None:
    verb = verb.replace(HOLE, "…")
    call.findings.effect("execute", f"{call.name} {verb}".strip())
    if verb:
        call.ask("{program} {verb} may install, change or run software.", verb=verb)
    else:
        call.ask("{program} may install, change or run software.")
    if network:
        call.network()


# --- variables ----------------------------------------------------------------------------------


def set_by_data(call: Call, name: str) -> None:
    """Record that a variable gets a value that is only known when it runs."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        call.ask("{program} sets a variable with an unusual name.")
        return
    if steers(name):
        call.ask("Sets {name}, which changes how programs behave.", name=name)
    gives(call, name, TAINTED)


def gives(call: Call, name: str, value: CallWord) -> None:
    """Give the variable `name` a value, which the shell evaluates for some."""
    if evaluates(name, call.scope) and not only_numbers([value], call.scope):
        call.ask("Setting {name} may run commands in its value.", name=name)
    call.scope.variables[name] = value


def shows_variables(call: Call, text: CallWord) -> None:
    """Ask about the variables in `text`, which is printed, that usually hold secrets."""
    for name in text.names:
        if is_secret_variable(name):
            call.findings.effect("secret", "$" + name)
            call.ask("Shows the variable {name}, which may contain a secret.", name=name)


def shows_environment(call: Call) -> None:
    """Record that all variables are printed, keys among them."""
    call.findings.effect("secret", "environment")
    call.ask("Shows all environment variables, which may include secrets.")


_REPEATING = names(
    "read list pattern text uniq xxd awk sed jq yq find fd date media binutils pager"
)
_SILENT = frozenset({":", "true", "false", "sleep"})


def shows_arguments(call: Call) -> None:
    """Judge the arguments of a reader, which it prints at least in its error messages."""
    if call.rules.base in _REPEATING and call.name not in _SILENT:
        for arg in call.args:
            shows_variables(call, arg)


HANDLERS: Mapping[str, Callable[[Call], None]] = {
    "read": reads, "list": lists, "pattern": pattern, "text": text, "none": none, "write": writes,
    "media": media, "binutils": binutils, "verbs": verbs, "subcommands": subcommands,
    "patterns": text, "ask": asks, "danger": dangers,
    "date": date,
}  # fmt: skip
