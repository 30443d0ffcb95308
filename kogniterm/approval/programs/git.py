"""git: readers are judged safe, with a stated reason; everything else asks.

A repository's own config can name programs (pager, fsmonitor, textconv, external diff). Reads
are still called safe because the session looks at the settings of every repository that git
enters, and asks where one is not known to be harmless (`host.safe_git`). Options are listed too:
what a command line itself could add (`-c`, `--exec-path`, `--ext-diff`, `--textconv`, `--output`,
`--remerge-diff`, aliases) is never safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise, starmap

from kogniterm.approval.analysis.arguments import CallWord, Parsed, rules_for
from kogniterm.approval.analysis.paths_and_variables import names
from kogniterm.approval.analysis.program_call import Call
from kogniterm.approval.programs.basic_rules import apply_options, ask_unclear
from kogniterm.host.git_settings import names_program

_Form = Callable[[Parsed, str], bool]


def _only(parsed: Parsed, text: str) -> bool:
    """Return whether no option is given but those of `text`."""
    return parsed.names <= names(text)


_LISTS = names("l list contains merged no-merged points-at no-contains")
_OF_TAG = """
    l list n sort contains no-contains merged no-merged points-at format column no-column color i
    ignore-case
"""
_OF_BRANCH = """
    a r v vv all remotes verbose show-current no-color abbrev no-abbrev q l list merged no-merged
    contains no-contains sort points-at format column no-column color i ignore-case
"""
_OF_CONFIG = """
    get get-all get-regexp list l get-urlmatch show-origin show-scope global local system z null
    name-only includes type bool int worktree
"""


def _lists(parsed: Parsed, first: str, text: str) -> bool:
    return _only(parsed, text) and (not first or parsed.has(*_LISTS))


def _config_reads(parsed: Parsed, first: str) -> bool:
    asks = parsed.has("get", "get-all", "get-regexp", "list", "l", "get-urlmatch")
    named = first in {"get", "list"} or (len(parsed.operands) == 1 and bool(first))
    return _only(parsed, _OF_CONFIG) and (asks or named)


_REFLOG_READS = re.compile(r"(?:show|list|exists|HEAD|.*[@/^~].*)?")
"""Subcommands of `git reflog` that only read, or a revision in place of one."""


_READS: Mapping[str, _Form] = {
    "branch": lambda parsed, first: _lists(parsed, first, _OF_BRANCH),
    "tag": lambda parsed, first: _lists(parsed, first, _OF_TAG),
    "stash": lambda _, first: first in {"list", "show"},
    "remote": lambda parsed, first: (
        (first == "get-url" and _only(parsed, "all push"))
        or (not first and _only(parsed, "v verbose"))
    ),
    "reflog": lambda _, first: bool(_REFLOG_READS.fullmatch(first)),
    "worktree": lambda parsed, first: first == "list" and _only(parsed, "porcelain v verbose z"),
    "notes": lambda parsed, first: first in {"", "list", "show"} and _only(parsed, "ref"),
    "bisect": lambda parsed, first: first == "log" and not parsed.names,
    "submodule": lambda parsed, first: (
        first in {"", "status"} and _only(parsed, "cached q quiet recursive")
    ),
    "config": _config_reads,
    "var": lambda _, first: first.endswith("_IDENT") or first == "GIT_DEFAULT_BRANCH",
    "symbolic-ref": lambda parsed, _: len(parsed.operands) == 1 and _only(parsed, "q quiet short"),
}
"""The forms of verbs that only read."""
_DESTROYS: Mapping[str, _Form] = {
    "push": lambda parsed, _: (
        any(re.match(r"[fd]\Z|for|del|mir|pru", name) for name in parsed.names)
        or any(re.match(r"[+:]", operand.value) for operand in parsed.operands[1:])
    ),
    "reset": lambda parsed, _: any(name.startswith("ha") for name in parsed.names),
    "clean": lambda parsed, _: not parsed.has("n", "dry-run"),
    "stash": lambda _, first: first in {"drop", "clear"},
    "reflog": lambda _, first: first in {"expire", "delete", "drop"},
    "gc": lambda parsed, _: any(name.startswith("pru") for name in parsed.names),
    "checkout": lambda parsed, first: parsed.has("f", "force") or first in {".", "*", "./"},
    "restore": lambda parsed, first: first in {".", "*", "./"} and not parsed.has("staged", "S"),
    "worktree": lambda parsed, first: first == "remove" and parsed.has("f", "force"),
    "rm": lambda parsed, _: parsed.has("f", "force") and parsed.has("r"),
}
"""The forms of verbs that lose work."""
_ASKED: Mapping[str, _Form] = {
    "branch": lambda parsed, _: parsed.has(
        *names("d D delete m M move f force C edit-description")
    ),
    "tag": lambda parsed, _: parsed.has(*names("d delete f force s sign v verify")),
    "notes": lambda parsed, first: (
        parsed.has("f", "force") or first not in {"add", "append", "copy"}
    ),
    "mv": lambda parsed, _: parsed.has("f", "force"),
    "commit": lambda parsed, _: parsed.has("amend"),
    "switch": lambda parsed, _: (
        parsed.has("f", "force", "discard-changes", "C") or not parsed.has("c", "create")
    ),
    "stash": lambda _, first: first not in {"", "push", "save"},
    "init": lambda parsed, _: not _only(parsed, "q quiet b initial-branch"),
    "add": lambda *_: False,
    "checkout": lambda parsed, _: not parsed.has("b") or parsed.has("B"),
    "restore": lambda parsed, _: not parsed.has("staged", "S") or parsed.has("worktree", "W"),
}
"""The forms of verbs that change the repository so that it asks; verbs not named always do."""
_WRITERS = names("add commit mv init notes switch tag branch stash")
_REMOTE = names("""
    fetch pull push clone ls-remote fetch-pack send-pack send-email request-pull p4 svn lfs
    submodule
""")
_IRREVERSIBLE = names("filter-branch filter-repo prune update-ref replace fast-import")
_SHOWS_CONTENT = names("show diff blame annotate cat-file log grep stash reflog")

# --- git's own options --------------------------------------------------------------------------

_SAFE_CONFIG = re.compile(
    r"(?:color\.[\w.]+|core\.quotepath|log\.date|diff\.noprefix|core\.pager=cat"
    r"|advice\.\w+)(?:=[\w-]*)?\Z",
    re.IGNORECASE,
)
_HARMLESS_GLOBAL = names("""
    --no-pager -P --no-optional-locks --no-replace-objects --literal-pathspecs --glob-pathspecs
    --icase-pathspecs --no-lazy-fetch
""")
GLOBAL_VALUED = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source"}
)


def git(call: Call) -> None:
    """Judge git: its global options, then the verb."""
    args = list(call.args)
    scope = call.scope.branch()
    call = replace(call, scope=scope)
    folders: list[str | None] = []
    while args and args[0].value.startswith("-"):
        word = args.pop(0).value
        if word == "-C" and args:
            call.findings.enters(args[0].value)
            scope.cwd = call.resolve(args.pop(0)).path
        elif word.startswith("-c") or word == "--config-env":
            value = args.pop(0).value if word in {"-c", "--config-env"} and args else word[2:]
            if not _SAFE_CONFIG.match(value):
                call.ask("Option -c of {program} can make it run other programs.")
                _setting(call, value.partition("=")[2])
        elif word not in _HARMLESS_GLOBAL:
            name, attached, value = word.partition("=")
            if name in {"--git-dir", "--work-tree", "--namespace", "--exec-path", "--attr-source"}:
                value = value if attached or not args else args.pop(0).value
            # Where `-C` follows, a relative path still counts from where git then stands.
            steers = name in {"--git-dir", "--work-tree"}
            folders.append(call.resolve(CallWord(value)).path if steers else None)
            call.ask("Option {option} of {program} can make it run other programs.", option=word)
    if not args:
        return
    verb, *rest = args
    for folder in (scope.cwd, *folders):
        call.findings.git_call(folder, verb.value, *(arg.value for arg in rest))
    if not verb.known:
        call.ask("{program} runs a subcommand known only at run time.")
        return
    rules = rules_for(f"git:{verb.value}") or rules_for("git:*")
    assert rules is not None
    _verb(replace(call, args=tuple(rest), rules=rules), verb.value)


# --- verbs --------------------------------------------------------------------------------------


_FORMAT = re.compile(r"--(?:fo|pr)[a-z]*(?:=|\Z)")
_SIGNATURE = re.compile(r"%G|%\(signature")


def _verb(call: Call, verb: str) -> None:
    for arg, follows in pairwise((*call.args, CallWord(""))):
        if _FORMAT.match(arg.value) and _SIGNATURE.search(f"{arg.value} {follows.value}"):
            call.ask("A format with %G makes {program} run another program.")
    parsed = call.parse()
    first = parsed.operands[0].value if parsed.operands else ""
    if verb in {"stash", "reflog"} and _READS[verb](parsed, first):
        # These show commits as `git log` does, with its options.
        call = replace(call, rules=rules_for("git:log") or call.rules)
        parsed = call.parse()
    if call.rules.base == "read":
        if parsed.unclear:
            ask_unclear(call)
        apply_options(call, parsed)
        if verb in _SHOWS_CONTENT:
            call.mentions()
        for operand in parsed.operands if parsed.has("no-index") or verb == "grep" else ():
            call.reads(operand)
        return
    if verb in _READS and _READS[verb](parsed, first):
        return
    if verb in _DESTROYS and _DESTROYS[verb](parsed, first):
        call.danger("git {verb} in this form loses work that cannot be restored.", verb=verb)
        if verb == "push":
            call.network("git")
        else:
            call.findings.effect("delete", f"git {verb} …")
    else:
        _starts(call, verb, parsed, first)
        _changes(call, verb, parsed, first)


def _setting(call: Call, value: str) -> None:
    """Judge a value of git's configuration, which may be a program or an alias that runs one."""
    if re.search(r"[!/ ]", value):
        call.starts(value.removeprefix("!"))


def _starts(call: Call, verb: str, parsed: Parsed, first: str) -> None:
    """Judge the programs that the arguments of a verb make git run, now or later."""
    words = [operand.value for operand in parsed.operands]
    if verb == "config" and any(starmap(names_program, pairwise((*words, "")))):
        call.danger("Makes git run a program later ({name}).", name=first)
    for value in parsed.values("exec", "x", "upload-pack", "receive-pack"):
        call.starts(value.value)
    for operand in parsed.operands:
        if operand.value.startswith("ext::"):
            call.danger("git runs a program to reach {address}.", address=operand.value)
        elif verb == "config":
            _setting(call, operand.value)
    if (verb, first) == ("bisect", "run"):
        call.inner(call.args[1:])
    if (verb, first) == ("submodule", "foreach"):
        call.starts(" ".join(arg.value for arg in call.args[1:] if not arg.value.startswith("-")))
    for value in parsed.values("u") if verb == "clone" else ():
        call.starts(value.value)


def _changes(call: Call, verb: str, parsed: Parsed, first: str) -> None:
    if verb in _REMOTE or (verb == "remote" and first in {"update", "prune", "show"}):
        call.network("git")
        return
    if verb in _IRREVERSIBLE:
        call.danger("git {verb} rewrites history.", verb=verb)
        return
    for value in parsed.values("F", "file", "t", "template") if verb in _WRITERS else ():
        call.reads(value)
    if verb in {"add", "mv", "stash"}:
        call.mentions(parsed.operands)
    if verb not in _ASKED or _ASKED[verb](parsed, first):
        call.findings.effect("write", f"git {verb} …")
        call.ask("git {verb} in this form changes files, history or settings.", verb=verb)
    else:
        call.findings.effect("write", ".git")
        call.findings.note("workspace_write", "git {verb} changes the repository.", verb=verb)


HANDLERS: Mapping[str, Callable[[Call], None]] = {"git": git}
