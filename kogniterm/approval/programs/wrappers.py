"""Programs that run other programs: the commands they start are judged themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from kogniterm.approval.analysis.arguments import TAINTED, CallWord
from kogniterm.approval.analysis.paths_and_variables import (
    HOLE,
    is_harmless,
)
from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.programs.basic_rules import (
    apply_options,
    ask_unclear,
    options,
    shows_environment,
)
from kogniterm.approval.programs.scripts import SHELLS, judge_text, runs_pipe

_LEADING = {"timeout": 1, "flock": 1, "chrt": 1, "taskset": 1}
"""The number of operands that are the wrapper's own."""


def wrap(call: Call) -> None:
    """Judge nohup, timeout, nice…: the call behind their own options."""
    parsed = call.parse(operands_end=True)
    apply_options(call, parsed)
    if parsed.unclear:
        ask_unclear(call)
    if call.name == "nohup":
        call.notes("{program} may write nohup.out.")
    if call.name in {"nohup", "setsid"}:
        call.notes("{program} keeps a process running after KogniTerm exits (not in a sandbox).")
    leading = _LEADING.get(call.name, 0)
    own, inner = parsed.operands[:leading], parsed.operands[leading:]
    if call.name == "flock" and own and not own[0].value.isdigit():
        call.writes(own[0], "write")
    if any(not argument.known for argument in own):
        call.ask("An argument of {program} is known only at run time.")
    if not inner:
        return
    if call.name == "flock" and inner[0].value in {"-c", "--command"}:
        call.shell(" ".join(arg.value for arg in inner[1:]), call.scope)
    elif call.name == "watch" and not parsed.has("x", "exec"):
        # It joins its arguments and gives them to a shell.
        if all(arg.known for arg in inner):
            call.runs(" ".join(arg.value for arg in inner))
        else:
            call.ask("{program} runs text known only at run time.")
    else:
        call.inner(inner, piped=call.piped and call.name != "watch")


def env(call: Call) -> None:
    """Judge env: alone it shows all variables; else it changes those of another call."""
    parsed = call.parse(operands_end=True)
    apply_options(call, parsed)
    if parsed.unclear:
        ask_unclear(call)
    if parsed.has("S", "split-string", "s"):
        call.ask("Option -S of {program} hides what it runs.")
        words = " ".join(arg.value for arg in call.args)
        for text in re.findall(r"(?:^| )-(?:\w*[Ss]|-s[a-z-]*=?) ?(.*)", words, re.DOTALL):
            call.starts(text)
        return
    operands = list(parsed.operands)
    if operands and operands[0].value == "-":
        del operands[0]
    while operands and "=" in operands[0].value:
        name, _, value = operands.pop(0).value.partition("=")
        if not is_harmless(name, value):
            call.ask("Runs a program with the variable {name} changed.", name=name)
            call.findings.program((f"{name}=…",))
    if not operands:
        shows_environment(call)
        return
    scope = call.scope
    for folder in parsed.values("C", "chdir"):
        scope = scope.branch()
        scope.cwd = call.scope.roots.resolve(folder.value, call.scope.cwd).path
        call.findings.enters(folder.value)
    replace(call, scope=scope).inner(tuple(operands), piped=call.piped)


def command(call: Call) -> None:
    """Judge command and builtin: the call behind them, unless -v only shows its path."""
    args = call.args
    while args and re.fullmatch(r"-[pvV]+", args[0].value):
        if set(args[0].value) & set("vV"):
            return
        args = args[1:]
    if args and args[0].value == "--":
        args = args[1:]
    if args:
        call.inner(args, piped=call.piped)


def busybox(call: Call) -> None:
    if call.args:
        call.inner(call.args, piped=call.piped)


def coproc(call: Call) -> None:
    """Judge coproc: a call in the background, connected to the shell."""
    call.ask("{program} runs a program in the background.")
    if call.args:
        call.inner(call.args, piped=True)


def exec_(call: Call) -> None:
    """Judge exec, which replaces the shell; its redirects were judged already."""
    if call.args:
        call.ask("{program} replaces the shell.")
        args = call.args
        while args and re.fullmatch(r"-[cl]*a?|--", args[0].value):
            args = args[2 if args[0].value.endswith("a") else 1 :]
        call.inner(args)
    else:
        call.ask("{program} redirects the shell's input or output.")


def sudo(call: Call) -> None:
    """Judge sudo and similar programs, which always ask, and the call they start."""
    call.findings.effect("privilege", call.name, outside=True)
    call.ask("Runs as another user or with elevated privileges ({program}).")
    parsed = call.parse(operands_end=call.name != "su")
    inner = parsed.operands
    if call.name in {"su", "runuser", "sg"}:
        for text in parsed.values("c", "command"):
            judge_text(call, text)
        return
    if call.name in {"gosu", "capsh", "setpriv", "newgrp"}:
        inner = inner[1:]
    while inner and "=" in inner[0].value:
        inner = inner[1:]
    if inner:
        call.inner(inner, piped=call.piped)
    elif call.piped:
        call.danger("{program} receives text from a pipe.")


# --- commands made of what is read --------------------------------------------------------------

_LONGEST_INPUT = 2000


def xargs(call: Call) -> None:
    """Judge xargs: the call behind it, with operands known only when it runs."""
    parsed = call.parse(operands_end=True)
    apply_options(call, parsed)
    inner = parsed.operands or (CallWord("echo"),)
    item = call.scope.items or TAINTED
    if parsed.has("0", "null", "d", "delimiter", "I", "replace", "i"):
        item = item._replace(split=False)  # No blank in a name makes two words of it.
    marks = [value.value for value in parsed.values("I", "replace")]
    if not marks and parsed.has("i", "replace"):
        marks = ["{}"]
    given = call.stdin if call.stdin is not None and len(call.stdin) < _LONGEST_INPUT else None
    if marks and marks[0]:
        line = given.strip() if given is not None else ""
        item = CallWord(line) if line and "\n" not in line else item
        inner = tuple(_fill_argument(arg, marks[0], item) for arg in inner)
    elif given is not None and parsed.has("0", "null"):
        inner = (*inner, *map(CallWord, given.rstrip("\n").split("\0")))
    elif given is not None and not parsed.has("d", "delimiter", "E"):
        inner = (*inner, *map(CallWord, given.split()))
    else:
        inner = (*inner, item)
    has_text = any(a.value.startswith("-") and "c" in a.value for a in inner[1:3])
    if inner[0].value in SHELLS and has_text:
        _shell_over_items(call, inner)
    else:
        call.inner(inner)


def _shell_over_items(call: Call, inner: tuple[CallWord, ...]) -> None:
    """Judge `xargs sh -c 'TEXT' _`: the items are arguments, unless put into the text."""
    text = next((a for a in inner[1:] if not a.value.startswith("-")), None)
    if text is None or text.value.startswith(HOLE):
        runs_pipe(call)
    if text is None or HOLE in text.value:
        call.ask("{program} builds commands from its input.")
    if text is not None:
        call.runs(text.value)


def _fill_argument(arg: CallWord, mark: str, item: CallWord) -> CallWord:
    if mark not in arg.value:
        return arg
    return CallWord(arg.value.replace(mark, item.value), tainted=item.tainted)


def parallel(call: Call) -> None:
    """Judge parallel, which makes shell text out of its input: always asked, and judged too."""
    call.ask("{program} builds commands from its input.")
    words = [arg.value for arg in call.bare]
    stop = next((i for i, word in enumerate(words) if word.startswith(":::")), len(words))
    text = " ".join(words[:stop])
    if text and HOLE not in text:
        text = text if "{" in text else text + " {}"
        for item in [HOLE, *(a.value for a in call.bare[stop + 1 :] if a.known)]:
            call.runs(item.join(re.split(r"\{[#%./\d]*\}", text)))


def pager(call: Call) -> None:
    """Judge less and more: readers, but for logs and +commands."""
    for arg in call.args:
        if arg.value.startswith("+") and not re.fullmatch(r"\+(?:\d+|G|F|/[^!|]*)", arg.value):
            call.ask("{program} receives commands to run.")
            call.starts(arg.value.lstrip("+!"))
    args = tuple(arg for arg in call.args if not arg.value.startswith("+"))
    for operand in options(replace(call, args=args)).operands:
        call.reads(operand)


_MAN_PLAIN = re.compile(
    r"-[kfawWIi]+|--(?:whatis|apropos|all|path|where|where-cat|ignore-case|match-case|regex|wildcard"
    r"|names-only|help|version|usage|no-hyphenation|no-justification)|--?[sSLm](?:\w*)?"
    r"|--(?:sections|locale|subnodes)(?:=\w+)?"
)


def man(call: Call) -> None:
    """Judge man and info: options that are not listed can name programs (-P, -H) and files."""
    for arg in call.args:
        if (arg.value.startswith("-") and not _MAN_PLAIN.fullmatch(arg.value)) or arg.maybe_option:
            call.ask("An option of {program} can make it run another program.")
            call.starts(re.sub(r"-[PH]|--\w+=", "", arg.value, count=1))
        elif " " in arg.value:
            call.starts(arg.value)
        elif "/" in arg.value:
            call.ask("{program} formats a file with helper programs.")


HANDLERS: Mapping[str, Callable[[Call], None]] = {
    "wrap": wrap, "env": env, "command": command, "busybox": busybox, "coproc": coproc, "exec":
    exec_, "sudo": sudo, "xargs": xargs, "parallel": parallel,
    "pager": pager, "man": man,
}  # fmt: skip
