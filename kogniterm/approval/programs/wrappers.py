"""Programs that run other programs: looked through, so that what they start is judged itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from kogniterm.approval.call import Call
from kogniterm.approval.options import Rules, parse_options
from kogniterm.approval.places import HOLE
from kogniterm.approval.programs.plain import apply_options
from kogniterm.approval.programs.shells import SHELLS, judge_text, runs_pipe
from kogniterm.approval.scope import TAINTED, Argument
from kogniterm.approval.variables import is_harmless

_WRAPPER_OPTIONS: dict[str, Rules] = {
    "nohup": Rules("wrap"),
    "chronic": Rules("wrap"),
    "unbuffer": Rules("wrap"),
    "setsid": Rules("wrap"),
    "time": Rules(
        "wrap", options={"o": "write", "f": "value", "output": "write", "format": "value"}
    ),
    "stdbuf": Rules(
        "wrap", options=dict.fromkeys(("i", "o", "e", "input", "output", "error"), "value")
    ),
    "nice": Rules("wrap", options={"n": "value", "adjustment": "value"}),
    "ionice": Rules(
        "wrap",
        options=dict.fromkeys(("c", "n", "class", "classdata"), "value")
        | {"p": "ask", "P": "ask", "u": "ask"},
    ),
    "chrt": Rules("wrap", options={"p": "ask", "T": "value", "P": "value", "D": "value"}),
    "taskset": Rules("wrap", options={"p": "ask"}),
    "timeout": Rules("wrap", options=dict.fromkeys(("k", "s", "kill-after", "signal"), "value")),
    "watch": Rules("wrap", options=dict.fromkeys(("n", "interval", "q", "equexit"), "value")),
    "flock": Rules(
        "wrap", options=dict.fromkeys(("w", "timeout", "E", "conflict-exit-code"), "value")
    ),
}

_LEADING = {"timeout": 1, "flock": 1, "chrt": 1, "taskset": 1}


def wrap(call: Call, rules: Rules) -> None:
    """nohup, timeout, nice… and the call behind their own options."""
    rules = _WRAPPER_OPTIONS[call.name]
    parsed = parse_options(call.args, rules, operands_end=True)
    apply_options(call, rules, parsed)
    if call.name == "nohup":
        call.findings.note("workspace_write", "{program} may write nohup.out.", program="nohup")
    if call.name in {"nohup", "setsid"}:
        call.findings.note(
            "workspace_write",
            "{program} lets it run on when KogniTerm ends (not in a sandbox).",
            program=call.name,
        )
    leading = _LEADING.get(call.name, 0)
    own, inner = parsed.operands[:leading], parsed.operands[leading:]
    if call.name == "flock" and own and not own[0].value.isdigit():
        call.writes(own[0], append=True)
    if any(not argument.known for argument in own):
        call.ask("An argument of {program} is only known when it runs.")
    if call.name == "flock" and inner and inner[0].value in {"-c", "--command"}:
        call.shell(" ".join(arg.value for arg in inner[1:]), call.scope)
    elif call.name == "watch":
        _watch(call, inner, exact=parsed.has("x", "exec"))
    elif inner:
        call.inner(inner, piped=call.piped)
    elif not parsed.options or call.name != "nice":
        call.findings.note("safe_readonly", "{program} starts nothing.", program=call.name)


def _watch(call: Call, inner: tuple[Argument, ...], *, exact: bool) -> None:
    """watch joins its arguments and gives them to a shell."""
    if exact or all(re.fullmatch(r"[\w./:,@%+=-]+", arg.value) for arg in inner):
        call.inner(inner)
    elif all(arg.known for arg in inner):
        call.shell(" ".join(arg.value for arg in inner), call.scope)
    else:
        call.ask("{program} runs a text that is only known when it runs.")


def time(call: Call, rules: Rules) -> None:
    """time: the keyword (-p only) or the program."""
    wrap(call, rules)


def env(call: Call, rules: Rules) -> None:
    """env: alone it shows everything; else it changes the environment of another call."""
    options = {
        "u": "value",
        "unset": "value",
        "C": "value",
        "chdir": "value",
        "S": "value",
        "split-string": "value",
    }
    parsed = parse_options(call.args, Rules("env", options=options), operands_end=True)
    if parsed.has("S", "split-string", "s"):
        call.ask("Option -S of {program} hides what it runs.")
        more = " ".join(operand.value for operand in parsed.operands)
        for text in parsed.values("S", "split-string"):
            call.starts(f"{text.value} {more}")
        return
    operands = list(parsed.operands)
    while operands and "=" in operands[0].value:
        _environment(call, *operands.pop(0).value.split("=", 1))
    if not operands:
        shows_environment(call)
        return
    scope = call.scope
    for folder in parsed.values("C", "chdir"):
        scope = scope.branch()
        scope.cwd = call.scope.ground.resolve(folder.value, call.scope.cwd).path
    call.with_scope(scope).inner(tuple(operands), piped=call.piped)
    del rules


def _environment(call: Call, name: str, value: str) -> None:
    if not is_harmless(name, value):
        call.ask(
            "It runs a program with the variable {name} changed.", name=name.replace(HOLE, "…")
        )
        call.findings.program((f"{name}=…".replace(HOLE, "…"),))


def shows_environment(call: Call) -> None:
    """All variables, keys among them, unless a filter behind it only lets harmless ones pass."""
    call.findings.effect("secret", "environment")
    call.ask("It shows all variables of the environment, keys among them.")


def command(call: Call, rules: Rules) -> None:
    """command, builtin: the call behind it, or with -v where it is."""
    args = call.args
    while args and re.fullmatch(r"-[pvV]+", args[0].value):
        if set(args[0].value) & set("vV"):
            return
        args = args[1:]
    if args and args[0].value == "--":
        args = args[1:]
    if args:
        call.inner(args, piped=call.piped)
    del rules


def busybox(call: Call, rules: Rules) -> None:
    """busybox APPLET: the applet."""
    if call.args:
        call.inner(call.args, piped=call.piped)
    del rules


def coproc(call: Call, rules: Rules) -> None:
    """coproc: a call in the background, connected to the shell."""
    call.ask("{program} runs a program in the background.")
    if call.args:
        call.inner(call.args, piped=True)
    del rules


def exec_(call: Call, rules: Rules) -> None:
    """exec: replaces the shell, so nothing later runs; its redirects were judged already."""
    if call.args:
        call.ask("{program} replaces the shell.")
        call.inner(tuple(a for a in call.args if not re.fullmatch(r"-[cl]+", a.value)))
    else:
        call.ask("{program} redirects the shell's own input or output.")
    del rules


def sudo(call: Call, rules: Rules) -> None:
    """sudo and its kin: never less than approval; what they start may make it worse."""
    call.findings.effect("privilege", call.name, outside=True)
    call.ask("It runs with other rights ({program}).")
    value = (
        "u",
        "g",
        "h",
        "p",
        "C",
        "T",
        "r",
        "t",
        "D",
        "R",
        "U",
        "user",
        "group",
        "chdir",
        "host",
        "s",
        "c",
    )
    valued = {"sudo": value[:-2], "doas": ("u", "C"), "su": value, "runuser": value}
    options = dict.fromkeys(valued.get(call.name, ()), "value")
    parsed = parse_options(
        call.args, Rules("sudo", options=options), operands_end=call.name != "su"
    )
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
        call.danger("Text from a pipe reaches {program}.")
    del rules


_LONGEST_INPUT = 2000
_XARGS = Rules(
    "xargs",
    options={
        **dict.fromkeys(
            (
                "n",
                "L",
                "P",
                "s",
                "d",
                "E",
                "I",
                "max-args",
                "max-procs",
                "delimiter",
                "max-chars",
                "max-lines",
            ),
            "value",
        ),
        **dict.fromkeys(("a", "arg-file"), "read"),
        **dict.fromkeys(("o", "open-tty", "process-slot-var"), "ask"),
    },
)


def xargs(call: Call, rules: Rules) -> None:
    """xargs: the call behind it, with operands nobody knows yet."""
    parsed = parse_options(call.args, _XARGS, operands_end=True)
    apply_options(call, _XARGS, parsed)
    inner = parsed.operands or (Argument("echo"),)
    item = call.scope.items or TAINTED
    if parsed.has("0", "null", "d", "delimiter", "I", "replace", "i"):
        item = replace(item, split=False)  # No blank in a name makes two words of it.
    marks = [value.value for value in parsed.values("I", "replace")] or (
        ["{}"] if parsed.has("i", "replace") else []
    )
    given = call.stdin if call.stdin is not None and len(call.stdin) < _LONGEST_INPUT else None
    if marks and marks[0]:
        line = given.strip() if given is not None else ""
        item = Argument(line) if line and "\n" not in line else item
        inner = tuple(_replaced(arg, marks[0], item) for arg in inner)
    elif given is not None and parsed.has("0", "null"):
        inner = (*inner, *(Argument(word) for word in given.rstrip("\n").split("\0")))
    elif given is not None and not parsed.has("d", "delimiter", "E"):
        inner = (*inner, *(Argument(word) for word in given.split()))
    else:
        inner = (*inner, item)
    if inner[0].value in SHELLS and any(
        a.value.startswith("-") and "c" in a.value for a in inner[1:3]
    ):
        _shell_over_items(call, inner)
    else:
        call.inner(inner)
    del rules


def _shell_over_items(call: Call, inner: tuple[Argument, ...]) -> None:
    """`xargs sh -c 'TEXT' _`: the items are positional parameters, unless put into the text."""
    text = next((a for a in inner[1:] if not a.value.startswith("-")), None)
    if text is None or text.value.startswith(HOLE):
        runs_pipe(call.with_args(inner[1:]))
    if text is None or HOLE in text.value:
        call.ask("{program} makes commands out of what it reads.")
        if text is not None:
            call.shell(text.value.replace(HOLE, "$UNKNOWN"), call.scope)
        return
    call.shell(text.value, call.scope)


def _replaced(arg: Argument, mark: str, item: Argument) -> Argument:
    if mark not in arg.value:
        return arg
    return Argument(arg.value.replace(mark, item.value), tainted=item.tainted)


def parallel(call: Call, rules: Rules) -> None:
    """parallel makes shell text out of its input: always asked, its command judged too."""
    call.ask("{program} makes commands out of what it reads.")
    operands = [arg for arg in call.args if not arg.value.startswith("-")]
    stop = next((i for i, arg in enumerate(operands) if arg.value.startswith(":::")), len(operands))
    if operands[:stop] and all(HOLE not in a.value for a in operands[:stop]):
        text = " ".join(a.value for a in operands[:stop])
        text = text if "{" in text else text + " {}"
        for item in ["$UNKNOWN", *(a.value for a in operands[stop + 1 :] if a.known)]:
            call.shell(item.join(re.split(r"\{[#%./\d]*\}", text)), call.scope)
    del rules


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {
    "wrap": wrap, "time": time, "env": env, "command": command, "busybox": busybox,
    "coproc": coproc, "exec": exec_,
    "sudo": sudo, "xargs": xargs,
    "parallel": parallel, }  # fmt: skip
