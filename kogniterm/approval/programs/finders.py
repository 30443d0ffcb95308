"""find and fd: what they test, write, delete, and run on what they find."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from kogniterm.approval.call import Call
from kogniterm.approval.flow import found_below, sought
from kogniterm.approval.naming import names
from kogniterm.approval.options import Rules, parse_options
from kogniterm.approval.places import HOLE, is_secret, secret_sought
from kogniterm.approval.programs.plain import apply_options, reads_below
from kogniterm.approval.programs.shells import SHELLS
from kogniterm.approval.scope import Argument

_FIND_TESTS_WITH_VALUE = frozenset(
    names(
        """
    -name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -size -mtime
    -atime -ctime -mmin -amin -cmin -newer -anewer -cnewer -samefile -user -group -uid -gid
    -perm -maxdepth -mindepth -links -inum -fstype -lname -ilname -used -context -regextype
    -printf
    """
    )
)

_FIND_WRITES = frozenset(["-fprint", "-fprint0", "-fprintf", "-fls"])

_FIND_RUNS = frozenset(["-exec", "-execdir", "-ok", "-okdir"])

_FIND_PLAIN = frozenset(
    names(
        """
    -print -print0 -ls -prune -quit -o -a -or -and -not -empty -readable -writable -executable
    -follow -depth -d -mount -xdev -daystart -noleaf -true -false -nouser -nogroup -H -L -P -s
    -E -X -x -ignore_readdir_race -noignore_readdir_race -warn -nowarn -help -version --help
    --version
    """
    )
)


def find(call: Call, rules: Rules) -> None:
    """find: an expression language; -delete, -exec and the file writers are what matters."""
    args = list(call.args)
    roots: list[Argument] = []
    while args and not re.match(r"-[A-Za-z]|[(!,)]", args[0].value):
        roots.append(args.pop(0))
    while (args and args[0].value in {"-H", "-L", "-P"}) or (
        args and re.match(r"-O\d|-D", args[0].value)
    ):
        if args.pop(0).value == "-D" and args:
            args.pop(0)
        while args and not re.match(r"-[A-Za-z]|[(!,)]", args[0].value):
            roots.append(args.pop(0))
    roots = roots or [Argument(".")]
    for root in roots:
        # A further word only known when it runs may be -delete as well as a folder.
        if root.maybe_option or (root is not roots[0] and root.value.startswith(HOLE)):
            call.ask(
                "Some arguments of {program} could turn out to be options; write them as ./name."
            )
        place = call.place(root)
        call.reads(Argument(place.path, glob=place.glob) if place.known else Argument("."))
    names = sought([arg.value for arg in args])
    while args:
        _find_term(call, args, roots, names)
    for name in names:
        last = name.rpartition("/")[2]
        # A name with anything before and behind, or any dotted name, is not a hunt for one.
        vague = not last.strip("*?.") or re.fullmatch(r"\*.*\*", last)
        if not vague and is_secret("/" + last, glob=True):
            call.findings.effect("secret", name)
            call.ask("It looks for {path}, which may hold secrets.", path=name)
    del rules


def _find_term(
    call: Call, args: list[Argument], roots: list[Argument], names: tuple[str, ...]
) -> None:
    term = args.pop(0)
    word = term.value
    if word in _FIND_TESTS_WITH_VALUE or re.match(r"-newer[aBcmt][aBcmt]\Z", word):
        if args and args.pop(0).tainted and not term.known:
            call.ask("A test of {program} is only known when it runs.")
    elif word == "-files0-from" and args:
        call.reads(args.pop(0))
    elif word in _FIND_WRITES:
        if args:
            call.writes(args.pop(0))
        call.ask("Test {option} of {program} writes a file.", option=word)
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


def _find_exec(
    call: Call, args: list[Argument], roots: list[Argument], names: tuple[str, ...]
) -> None:
    inner: list[Argument] = []
    while args:
        arg = args.pop(0)
        if arg.value == ";" or (arg.value == "+" and inner and inner[-1].value == "{}"):
            break
        inner.append(arg)
    prefix = roots[0].value.rstrip("/") if roots[0].known else ""
    start = prefix if prefix or roots[0].value == "/" else "."
    found = replace(found_below(start, names), split=False)
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
        replace(found, value=arg.value.replace("{}", found.value)) if "{}" in arg.value else arg
        for arg in inner
    )
    if inner[0].value in {"rm", "shred", "unlink"} and not names:
        for root in roots:
            call.deletes(root, recursive=True, forced=True)
    if inner[0].value in _CONTENT_READERS:
        _find_secrets(call, roots, names)
    call.inner(replaced)


_CONTENT_READERS = frozenset(
    names(
        """
    cat head tail grep egrep fgrep less more strings xxd od base64 sed awk nl tac cp tar zip
    curl
    """
    )
)


def _find_secrets(call: Call, roots: list[Argument], names: tuple[str, ...]) -> None:
    """The content of what is found: names that are secrets, or everything below home."""
    if not names:
        for root in roots:
            reads_below(call, root)


def _fd_exec(call: Call, operands: tuple[Argument, ...], index: int) -> None:
    pattern = operands[0].value.replace("\\.", ".").strip("^$.*") if operands else ""
    dotted = [f".{pattern.lstrip('.')}", pattern] if pattern else []
    telling = tuple(name for name in dotted if secret_sought(name))
    for root in operands[1:] or (Argument("."),):
        item = replace(found_below(root.value, telling or (pattern,) * bool(pattern)), split=False)
        call.inner((*call.args[index + 1 :], item))


def fd(call: Call, rules: Rules) -> None:
    """fd: -x and -X run a program on what is found."""
    for index, arg in enumerate(call.args):
        if arg.value in {"-x", "-X", "--exec", "--exec-batch"} and call.args[index + 1 :]:
            _fd_exec(call, parse_options(call.args[:index], rules).operands, index)
            return
    parsed = parse_options(call.args, rules)
    apply_options(call, rules, parsed)
    for operand in parsed.operands[1:]:
        call.reads(operand)


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {
    "find": find,
    "fd": fd,
}
