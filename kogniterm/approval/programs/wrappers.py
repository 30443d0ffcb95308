"""Programs that run other programs: looked through, so that what they start is judged itself."""

from __future__ import annotations

import re
from collections.abc import Callable

from kogniterm.approval.call import Call
from kogniterm.approval.options import Rules, parse_options
from kogniterm.approval.places import HOLE
from kogniterm.approval.programs.plain import apply_options
from kogniterm.approval.scope import TAINTED, Argument

SHELLS = frozenset(["bash", "sh", "dash", "zsh", "ksh", "ash", "rbash", "fish", "csh", "tcsh"])

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
    leading = _LEADING.get(call.name, 0)
    own, inner = parsed.operands[:leading], parsed.operands[leading:]
    if call.name == "flock" and own and not own[0].value.isdigit():
        call.writes(own[0], append=True)
    if any(not argument.known for argument in own):
        call.ask("An argument of {program} is only known when it runs.")
    if parsed.has("c", "command") and call.name == "flock":
        call.shell(" ".join(arg.value for arg in inner), call.scope)
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
        "S": "ask",
        "split-string": "ask",
    }
    parsed = parse_options(call.args, Rules("env", options=options), operands_end=True)
    if parsed.has("S", "split-string", "s"):
        call.ask("Option -S of {program} hides what it runs.")
    operands = list(parsed.operands)
    while operands and "=" in operands[0].value:
        _environment(call, operands.pop(0).value.partition("=")[0])
    if not operands:
        shows_environment(call)
        return
    scope = call.scope
    for folder in parsed.values("C", "chdir"):
        scope = scope.branch()
        scope.cwd = call.scope.ground.resolve(folder.value, call.scope.cwd).path
    call.with_scope(scope).inner(tuple(operands), piped=call.piped)
    del rules


def _environment(call: Call, name: str) -> None:
    if not harmless_variable(name):
        call.ask(
            "It runs a program with the variable {name} changed.", name=name.replace(HOLE, "…")
        )


_HARMLESS_VARIABLE = re.compile(
    r"(?:LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR(?:_FORCE)?|COLORTERM"
    r"|GREP_COLORS?|LS_COLORS|BLOCKSIZE|BLOCK_SIZE|TIME_STYLE|PYTHONUNBUFFERED|SYSTEMD_COLORS|JQ_COLORS"
    r"|GIT_PAGER_IN_USE|PS_FORMAT|TIMEFORMAT|CI)\Z"
)


def harmless_variable(name: str) -> bool:
    """Whether setting this variable for one program cannot make it do something else."""
    return bool(_HARMLESS_VARIABLE.match(name))


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
            _text(call, text)
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


def _text(call: Call, text: Argument) -> None:
    """Judge a shell text given as an argument."""
    if HOLE not in text.value:
        call.shell(text.value, call.scope)
        return
    call.ask("{program} runs a text that is only known when it runs.")
    remote(call, text)
    # A hole may be anything, but what stands round it can already be too much.
    call.shell(text.value.replace(HOLE, "$UNKNOWN"), call.scope)


def remote(call: Call, *texts: Argument) -> None:
    """Code that comes from the network through a substitution."""
    if any(text.inner for text in texts) and call.findings.has("network"):
        call.danger("{program} runs code that comes from the network.")


def shell(call: Call, rules: Rules) -> None:
    """bash and its kin: `-c TEXT` is judged as shell text, a script file or a pipe is not."""
    args = list(call.args)
    options = ""
    while args and re.match(r"[-+][A-Za-z]", args[0].value):
        word = args.pop(0).value
        if word in {"--norc", "--noprofile", "--login", "--posix"}:
            continue
        if word.startswith("--"):
            break
        options += word[1:]
        if word[-1] in "oO" and args:
            args.pop(0)
    if args and args[0].value == "--":
        args.pop(0)
    if "c" in options and args:
        if "i" in options or call.name in {"zsh", "fish", "csh", "tcsh", "ksh"}:
            call.ask("{program} reads its own start files before the command.")
        if any(arg.inner for arg in args[1:]):
            remote(call, *args)
        _text(call, args[0])
        return
    if not args and call.args and call.args[0].value in {"--version", "--help"}:
        return
    call.findings.effect("execute", args[0].value if args else call.name)
    if call.stdin is not None and not args:
        _text(call, Argument(call.stdin))
        return
    if args and not args[0].value.startswith("/dev/"):
        call.ask("{program} runs the script {path}.", path=args[0].value.replace(HOLE, "…"))
        remote(call, *args)
        return
    if args:
        remote(call, *args)
    if call.piped or args:
        runs_pipe(call)
    call.ask("{program} starts a shell of its own.")


_DECODERS = frozenset(
    ["base64", "base32", "basenc", "xxd", "openssl", "gunzip", "zcat", "bzcat", "xzcat", "rev", "tr", "uudecode", "gpg", "sed", "awk", "perl", "printf", "echo", "od", "hexdump"]
)


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
    remote(call, *call.args)
    text = " ".join(arg.value for arg in call.args)
    if text and HOLE not in text:
        call.shell(text, call.scope)
    elif text.strip(HOLE + " "):
        call.shell(text.replace(HOLE, "$UNKNOWN"), call.scope)
    del rules


def source(call: Call, rules: Rules) -> None:
    """source: a file's commands run in this shell."""
    call.ask("{program} runs a file's commands in the shell itself.")
    for arg in call.args[:1]:
        call.findings.effect("execute", arg.value.replace(HOLE, "…"))
        remote(call, arg)
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
    marks = [value.value for value in parsed.values("I", "replace")] or (
        ["{}"] if parsed.has("i", "replace") else []
    )
    if marks and marks[0]:
        inner = tuple(_replaced(arg, marks[0], item) for arg in inner)
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
        call.shell(" ".join(a.value.replace("{}", "$UNKNOWN") for a in operands[:stop]), call.scope)
    del rules


_FIND_TESTS_WITH_VALUE = frozenset(
    ["-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-type", "-xtype", "-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-newer", "-anewer", "-cnewer", "-samefile", "-user", "-group", "-uid", "-gid", "-perm", "-maxdepth", "-mindepth", "-links", "-inum", "-fstype", "-lname", "-ilname", "-used", "-context", "-regextype", "-printf"]
)
_FIND_WRITES = frozenset(["-fprint", "-fprint0", "-fprintf", "-fls"])
_FIND_RUNS = frozenset(["-exec", "-execdir", "-ok", "-okdir"])
_FIND_PLAIN = frozenset(
    ["-print", "-print0", "-ls", "-prune", "-quit", "-o", "-a", "-or", "-and", "-not", "-empty", "-readable", "-writable", "-executable", "-follow", "-depth", "-d", "-mount", "-xdev", "-daystart", "-noleaf", "-true", "-false", "-nouser", "-nogroup", "-H", "-L", "-P", "-s", "-E", "-X", "-x", "-ignore_readdir_race", "-noignore_readdir_race", "-warn", "-nowarn", "-help", "-version", "--help", "--version"]
)


def find(call: Call, rules: Rules) -> None:
    """find: an expression language; -delete, -exec and the file writers are what matters."""
    args = list(call.args)
    roots: list[Argument] = []
    while args and not re.match(r"-[A-Za-z]|[(!,)]", args[0].value):
        roots.append(args.pop(0))
    while (
        (args
        and args[0].value in {"-H", "-L", "-P"})
        or (args and re.match(r"-O\d|-D", args[0].value))
    ):
        if args.pop(0).value == "-D" and args:
            args.pop(0)
        while args and not re.match(r"-[A-Za-z]|[(!,)]", args[0].value):
            roots.append(args.pop(0))
    roots = roots or [Argument(".")]
    for root in roots:
        if root.maybe_option:
            call.ask(
                "Some arguments of {program} could turn out to be options; write them as ./name."
            )
        place = call.place(root)
        call.reads(Argument(place.path, glob=place.glob) if place.known else Argument("."))
    names: list[str] = []
    while args:
        _find_term(call, args, roots, names)
    del rules


def _find_term(call: Call, args: list[Argument], roots: list[Argument], names: list[str]) -> None:
    term = args.pop(0)
    word = term.value
    if word in {"-name", "-iname", "-path", "-wholename", "-regex", "-iregex", "-ipath"} and args:
        names.append(args[0].value)
    if word in _FIND_TESTS_WITH_VALUE or re.match(r"-newer[aBcmt][aBcmt]\Z", word):
        if args and args.pop(0).tainted and not term.known:
            call.ask("A test of {program} is only known when it runs.")
    elif word == "-files0-from" and args:
        call.reads(args.pop(0))
    elif word in _FIND_WRITES:
        if args:
            call.writes(args.pop(0))
        if word == "-fprintf" and args:
            args.pop(0)
    elif word in _FIND_RUNS:
        _find_exec(call, args, roots, names)
    elif word == "-delete":
        _find_delete(call, roots, narrowed=bool(names))
    elif word in _FIND_PLAIN or word in {"(", ")", "!", ","}:
        return
    else:
        call.ask("{program} has a test that is not known: {word}.", word=word.replace(HOLE, "…"))


def _find_delete(call: Call, roots: list[Argument], *, narrowed: bool) -> None:
    for root in roots:
        call.deletes(
            root if not narrowed else Argument(root.value.rstrip("/") + "/" + HOLE), recursive=True
        )
        if not narrowed or call.place(root).path == "/":
            call.deletes(root, recursive=True, forced=True)


def _find_exec(call: Call, args: list[Argument], roots: list[Argument], names: list[str]) -> None:
    inner: list[Argument] = []
    while args:
        arg = args.pop(0)
        if arg.value == ";" or (arg.value == "+" and inner and inner[-1].value == "{}"):
            break
        inner.append(arg)
    prefix = roots[0].value.rstrip("/") if roots[0].known else ""
    found = Argument(
        f"{prefix}/{HOLE}" if prefix or roots[0].value == "/" else "./" + HOLE, tainted=True
    )
    if not inner:
        call.ask("{program} runs something that could not be read.")
        return
    if (
        inner[0].value.rpartition("/")[2] in SHELLS
        and len(inner) > 2
        and inner[1].value.startswith("-")
    ):
        if "{}" in inner[2].value:
            call.ask("{program} makes commands out of the names it finds.")
        call.shell(inner[2].value.replace("{}", "$UNKNOWN").replace(HOLE, "$UNKNOWN"), call.scope)
        return
    replaced = tuple(
        Argument(arg.value.replace("{}", found.value), tainted=True) if "{}" in arg.value else arg
        for arg in inner
    )
    if inner[0].value in {"rm", "shred", "unlink"} and not names:
        for root in roots:
            call.deletes(root, recursive=True, forced=True)
    if inner[0].value in _CONTENT_READERS:
        _find_secrets(call, roots, names)
    call.inner(replaced)


_CONTENT_READERS = frozenset(
    ["cat", "head", "tail", "grep", "egrep", "fgrep", "less", "more", "strings", "xxd", "od", "base64", "sed", "awk", "nl", "tac", "cp", "tar", "zip", "curl"]
)


def _find_secrets(call: Call, roots: list[Argument], names: list[str]) -> None:
    """The content of what is found: names that are secrets, or everything below home."""
    from kogniterm.approval.places import is_secret
    from kogniterm.approval.programs.plain import reads_below

    for name in names:
        if is_secret("/" + name.rpartition("/")[2], glob=True):
            call.findings.effect("secret", name)
            call.ask("It reads {path}, which may hold secrets.", path=name)
    if not names:
        for root in roots:
            reads_below(call, root)


def fd(call: Call, rules: Rules) -> None:
    """fd: -x and -X run a program on what is found."""
    for index, arg in enumerate(call.args):
        if arg.value in {"-x", "-X", "--exec", "--exec-batch"} and call.args[index + 1 :]:
            item = Argument("./" + HOLE, tainted=True)
            call.inner((*call.args[index + 1 :], item))
            return
    parsed = parse_options(call.args, rules)
    apply_options(call, rules, parsed)
    for operand in parsed.operands[1:]:
        call.reads(operand)


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {
    "wrap": wrap, "time": time, "env": env, "command": command, "busybox": busybox, "exec": exec_,
    "sudo": sudo, "shell": shell, "eval": eval_, "source": source, "trap": trap, "xargs": xargs,
    "parallel": parallel, "find": find, "fd": fd,
}  # fmt: skip
