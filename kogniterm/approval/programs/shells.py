"""Shells, and the builtins that run text: the text is judged where it is known."""

from __future__ import annotations

import re
from collections.abc import Callable

from kogniterm.approval.call import Call
from kogniterm.approval.flow import programs_in
from kogniterm.approval.naming import names
from kogniterm.approval.options import Rules
from kogniterm.approval.places import HOLE
from kogniterm.approval.scope import Argument, said
from kogniterm.approval.worst import worst_of_text

SHELLS = frozenset(
    names(
        """
    bash sh dash zsh ksh ash rbash fish csh tcsh
    """
    )
)


def judge_text(call: Call, text: Argument) -> None:
    """Judge a shell text given as an argument."""
    if HOLE not in text.value:
        call.shell(text.value, call.scope)
        return
    call.ask("{program} runs a text that is only known when it runs.")
    comes_from_network(call, text)
    # A hole may be anything, but what stands round it can already be too much.
    call.shell(text.value.replace(HOLE, "$UNKNOWN"), call.scope)


def comes_from_network(call: Call, *texts: Argument) -> None:
    """Code that comes out of a substitution: known text, the network, or a decoder."""
    if any(text.inner for text in texts) and call.findings.has("network"):
        call.danger("{program} runs code that comes from the network.")
    for substitution in (item for text in texts for item in text.inner):
        spoken = said(substitution.node, call.scope)
        if spoken is not None:
            call.starts(spoken)
        if _HIDING & set(programs_in(substitution.node)):
            call.danger("{program} runs text that was put together or decoded out of sight.")


def runs_fetched(call: Call, script: Argument) -> None:
    """A script that this same command got from the network."""
    shown = call.shown(call.place(script))
    name = shown.rpartition("/")[2]
    effects = call.findings.report("").effects
    fetched = any(
        effect.target == shown
        if effect.kind in {"write", "overwrite"}
        else effect.kind == "network" and effect.target.rpartition("/")[2] == name
        for effect in effects
    )
    if fetched and call.findings.has("network"):
        call.danger("{program} runs code that comes from the network.")


def shell_options(given: tuple[Argument, ...]) -> tuple[str, list[Argument]]:
    """The letters of a shell's own options, and what follows them."""
    args = list(given)
    letters = ""
    while args and re.match(r"[-+][A-Za-z]", args[0].value):
        word = args.pop(0).value
        letters += word[1:]
        if word[-1] in "oO" and args:
            args.pop(0)
    while args and args[0].value in {"--norc", "--noprofile", "--login", "--posix"}:
        more, args = shell_options(tuple(args[1:]))
        letters += more
    if args and args[0].value == "--":
        args.pop(0)
    return letters, args


def shell(call: Call, rules: Rules) -> None:
    """bash and its kin: `-c TEXT` is judged as shell text, a script file or a pipe is not."""
    options, args = shell_options(call.args)
    if "s" in options and "c" not in options:
        args.clear()
    if "c" in options and args:
        if set(options) & set("il") or call.name in {"zsh", "fish", "csh", "tcsh", "ksh"}:
            call.ask("{program} reads its own start files before the command.")
        if any(arg.inner for arg in args[1:]):
            comes_from_network(call, *args)
        for arg in args[1:]:
            what = worst_of_text(arg.value)
            if what:
                call.danger("Its code {what}.", what=what)
        inner = call.scope.branch()
        inner.set_arguments(args[2:])
        call.read_later(args[1:])
        inner.variables["0"] = args[1] if args[1:] else Argument(call.name)
        judge_text(call.with_scope(inner), args[0])
        return
    if not args and call.args and call.args[0].value in {"--version", "--help"}:
        return
    call.findings.effect("execute", args[0].value if args else call.name)
    if call.stdin is not None and not args:
        call.ask("{program} runs what it is given to read.")
        judge_text(call, Argument(call.stdin))
        return
    if args and not args[0].value.startswith("/dev/"):
        call.ask("{program} runs the script {path}.", path=args[0].value.replace(HOLE, "…"))
        comes_from_network(call, *args)
        runs_fetched(call, args[0])
        return
    if args:
        comes_from_network(call, *args)
    if call.piped or args:
        runs_pipe(call)
    call.ask("{program} starts a shell of its own.")


_HIDING = frozenset(
    names("base64 base32 basenc xxd gunzip zcat bzcat xzcat rev uudecode od hexdump")
)
_DECODERS = _HIDING | frozenset(names("openssl tr gpg sed awk perl printf echo"))


def runs_pipe(call: Call) -> None:
    """A shell or interpreter that runs what a pipe brings."""
    if call.findings.has("network"):
        call.danger("{program} runs code that comes from the network.")
    elif _DECODERS & set(call.scope.upstream):
        call.danger("{program} runs text that was put together or decoded out of sight.")
    else:
        call.ask("{program} runs what the pipe brings.")


def eval_(call: Call, rules: Rules) -> None:
    """eval: its text is judged, and asked about in any case."""
    call.ask("{program} runs text as a command.")
    comes_from_network(call, *call.args)
    text = " ".join(arg.value for arg in call.args)
    if text and HOLE not in text:
        call.shell(text, call.scope)
    elif text.strip(HOLE + " "):
        call.shell(text.replace(HOLE, "$UNKNOWN"), call.scope)
    del rules


def source(call: Call, rules: Rules) -> None:
    """source: a file's commands run in this shell."""
    call.ask("{program} runs a file's commands in the shell itself.")
    if call.stdin is not None and call.args and call.args[0].value.startswith("/dev/"):
        call.starts(call.stdin)
    for arg in call.args[:1]:
        call.findings.effect("execute", arg.value.replace(HOLE, "…"))
        comes_from_network(call, arg)
    del rules


def trap(call: Call, rules: Rules) -> None:
    """trap: a command for later."""
    args = [arg for arg in call.args if arg.value not in {"--"}]
    if not args or args[0].value in {"-l", "-p", "-"} or (len(args) > 1 and not args[0].value):
        return
    call.ask("{program} lets a command run later.")
    if HOLE not in args[0].value:
        call.shell(args[0].value, call.scope)
    del rules


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {
    "shell": shell,
    "eval": eval_,
    "source": source,
    "trap": trap,
}
