"""Searches for files, find and fd: what they read, delete and run on what they find."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from kogniterm.approval.analysis.arguments import CallWord
from kogniterm.approval.analysis.expansion import Scope, expand
from kogniterm.approval.analysis.paths_and_variables import (
    HOLE,
    is_secret,
    names,
    secret_sought,
)
from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.parser.tree import Node, Simple
from kogniterm.approval.programs.basic_rules import ask_unclear, options, reads_below
from kogniterm.approval.programs.scripts import SHELLS

_TESTS_WITH_VALUE = re.compile(
    r"-(?:i?name|i?path|i?wholename|i?regex|x?type|size|[amc]time|[amc]min|[ac]?newer|samefile|user"
    r"|group|uid|gid|perm|maxdepth|mindepth|links|inum|fstype|i?lname|used|context|regextype|printf"
    r"|newer[aBcmt][aBcmt])"
)
_PLAIN_TESTS = re.compile(
    r"-(?:print0?|ls|prune|quit|o|a|or|and|not|empty|readable|writable|executable|follow|depth|d"
    r"|mount|xdev|daystart|noleaf|true|false|nouser|nogroup|[HLPsEXx]|(?:no)?ignore_readdir_race"
    r"|(?:no)?warn|help|version)|--(?:help|version)|[()!,]"
)
_CONTENT_READERS = names("""
    cat head tail grep egrep fgrep less more strings xxd od base64 sed awk nl tac cp tar zip curl
""")


def find(call: Call) -> None:
    """Judge find: its tests are harmless but for -delete, -exec and those that write files."""
    args = list(call.args)
    roots = _roots(args)
    while args and re.match(r"-[HLP]\Z|-O\d|-D", args[0].value):
        if args.pop(0).value == "-D" and args:
            args.pop(0)
        roots += _roots(args)
    roots = roots or [CallWord(".")]
    for root in roots:
        # A further word only known when it runs may be -delete as well as a folder.
        if root.maybe_option or (root is not roots[0] and root.value.startswith(HOLE)):
            ask_unclear(call)
        resolved = call.resolve(root)
        call.reads(CallWord(resolved.path, glob=resolved.glob) if resolved.known else CallWord("."))
    wanted = _sought([arg.value for arg in args])
    while args:
        _find_term(call, args, roots, wanted)
    for name in wanted:
        last = name.rpartition("/")[2]
        # A name between wildcards, or any dotted name, is not a search for secrets.
        vague = not last.strip("*?.") or re.fullmatch(r"\*.*\*", last)
        if not vague and is_secret("/" + last, glob=True):
            call.findings.effect("secret", name)
            call.ask("Searches for {path}, which may contain secrets.", path=name)


def _roots(args: list[CallWord]) -> list[CallWord]:
    """Take the folders in front of the first test."""
    roots: list[CallWord] = []
    while args and not re.match(r"-[A-Za-z]|[(!,)]", args[0].value):
        roots.append(args.pop(0))
    return roots


def _find_term(
    call: Call, args: list[CallWord], roots: list[CallWord], wanted: tuple[str, ...]
) -> None:
    term = args.pop(0)
    word = term.value
    if _TESTS_WITH_VALUE.fullmatch(word):
        value = args.pop(0) if args else term
        if value.tainted and (not term.known or value.brings_words):
            call.ask("A test of {program} is known only at run time.")
    elif word == "-files0-from" and args:
        call.reads(args.pop(0))
    elif word in {"-fprint", "-fprint0", "-fprintf", "-fls"}:
        if args:
            call.writes(args.pop(0))
        call.ask("Test {option} of {program} writes a file.", option=word)
        if word == "-fprintf" and args:
            args.pop(0)
    elif word in {"-exec", "-execdir", "-ok", "-okdir"}:
        if word.endswith("dir"):  # It runs in the folder of each file that is found.
            call = replace(call, scope=replace(call.scope.branch(), cwd=None))
        _find_exec(call, args, roots, wanted)
    elif word == "-delete":
        for root in roots:
            if wanted:
                call.deletes(CallWord(root.value.rstrip("/") + "/" + HOLE), recursive=True)
            if not wanted or call.resolve(root).path == "/":
                call.deletes(root, recursive=True, forced=True)
    elif not _PLAIN_TESTS.fullmatch(word):
        call.ask("Unknown test of {program}: {word}.", word=word)


def _find_exec(
    call: Call, args: list[CallWord], roots: list[CallWord], wanted: tuple[str, ...]
) -> None:
    inner: list[CallWord] = []
    while args:
        arg = args.pop(0)
        if arg.value == ";" or (arg.value == "+" and inner and inner[-1].value == "{}"):
            break
        inner.append(arg)
    if not inner:
        call.ask("{program} runs a command that could not be parsed.")
        return
    shell = inner[0].value.rpartition("/")[2] in SHELLS
    if shell and len(inner) > 2 and inner[1].value.startswith("-"):
        if "{}" in inner[2].value:
            call.ask("{program} builds commands from the names it finds.")
        call.runs(inner[2].value.replace("{}", HOLE))
        return
    for root in roots if not wanted else ():
        if inner[0].value in {"rm", "shred", "unlink"}:
            call.deletes(root, recursive=True, forced=True)
        if inner[0].value in _CONTENT_READERS:
            reads_below(call, root)
    prefix = roots[0].value.rstrip("/") if roots[0].known else ""
    start = prefix if prefix or roots[0].value == "/" else "."
    found = _found_below(start, wanted)._replace(split=False)
    call.inner(
        tuple(
            found._replace(value=arg.value.replace("{}", found.value)) if "{}" in arg.value else arg
            for arg in inner
        )
    )


def fd(call: Call) -> None:
    """Judge fd: -x and -X run a program on what is found."""
    for index, arg in enumerate(call.args):
        if arg.value in {"-x", "-X", "--exec", "--exec-batch"} and call.args[index + 1 :]:
            operands = replace(call, args=call.args[:index]).parse().operands
            pattern = operands[0].value.replace("\\.", ".").strip("^$.*") if operands else ""
            dotted = [f".{pattern.lstrip('.')}", pattern] if pattern else []
            telling = tuple(name for name in dotted if secret_sought(name))
            for root in operands[1:] or (CallWord("."),):
                item = _found_below(root.value, telling or (pattern,) * bool(pattern))
                call.inner((*call.args[index + 1 :], item._replace(split=False)))
            return
    for operand in options(call).operands[1:]:
        call.reads(operand)


_PASSES_LINES = names("grep egrep fgrep sort uniq head tail tac shuf")


_NAME_TESTS = re.compile(r"-i?(?:name|path|regex)|-i?wholename")


def _sought(words: list[str]) -> tuple[str, ...]:
    """Return the patterns that narrow a find, as globs; wildcards alone do not count."""
    found = []
    for before, word, pattern in zip(["", *words], words, words[1:], strict=False):
        if not _NAME_TESTS.fullmatch(word) or before in {"!", "-not"}:
            continue
        if word.endswith("regex"):
            pattern = pattern.replace(".*", "*").replace("\\.", ".").strip("^$")
        if pattern.strip("*?/[]") not in {"", "."} or re.match(r"\.[^/]", pattern):
            found.append(pattern)
    return tuple(found)


def _found_below(root: str, patterns: tuple[str, ...]) -> CallWord:
    """Return the most sensitive path that a find from `root` by these patterns may pass on."""
    telling = filter(None, map(secret_sought, patterns))
    name = next(iter((*telling, *patterns)), "")
    name = f"{HOLE}/{name}" if name else HOLE
    return CallWord(f"{root.rstrip('/')}/{name}", bool(patterns), split=True, tainted=True)


def piped_items(part: Node, scope: Scope, before: CallWord | None) -> CallWord | None:
    """Return the paths that the output of `part` gives xargs, None where it is not known."""
    if not isinstance(part, Simple) or not part.words:
        return None
    words = [expand(word, scope) for word in part.words]
    flat = [argument.value for group in words for argument in group]
    if flat[0] == "grep" and any(re.fullmatch(r"-\w*(?:r\w*l|l\w*r)\w*", word) for word in flat):
        below = flat[-1]
        known = below == "." or below.startswith(("./", "/"))
        return CallWord(f"{below.rstrip('/')}/{HOLE}", split=True, tainted=True) if known else None
    if flat[0] in _PASSES_LINES:
        return before
    if flat[0] == "ls" and len(words) == len(flat):
        named = [group[0] for group in words[1:] if not group[0].value.startswith("-")]
        telling = (one for one in named if one.glob and secret_sought(one.value))
        return next(telling, None)
    if flat[0] != "find" or "-printf" in flat or "-fprintf" in flat:
        return None
    root = flat[1] if len(flat) > 1 and flat[1][:1] not in {"-", "(", "!"} else "."
    if root.startswith(HOLE):
        return None
    return _found_below(root, _sought(flat))


HANDLERS: Mapping[str, Callable[[Call], None]] = {"find": find, "fd": fd}
