"""git: readers are judged safe, with a stated reason; everything else asks.

A repository's own config can name programs (pager, fsmonitor, textconv, external diff). Reads
are still called safe because (1) `.git/config` is written by nobody without approval (it is a
steering file, and read-only in the sandbox), (2) git refuses repositories of other owners, and
(3) commands run with GIT_PAGER=cat. What a command line itself could add to that (`-c`,
`--exec-path`, `--ext-diff`, `--textconv`, `--output`, aliases) is never safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType

from kogniterm.approval.call import Call
from kogniterm.approval.naming import names
from kogniterm.approval.options import Parsed, Rules, parse_options
from kogniterm.approval.places import HOLE
from kogniterm.approval.programs.common import mentions
from kogniterm.approval.programs.gitforms import DESTROYS, READING_FORMS
from kogniterm.approval.programs.plain import apply_options
from kogniterm.approval.scope import Argument
from kogniterm.git_settings import names_program

_DIFF = {
    **dict.fromkeys(("output",), "write"),
    **dict.fromkeys(("ext-diff", "textconv", "show-signature"), "ask"),
    "contents": "read",
    **dict.fromkeys(
        names(
            """
            n S G U L since until after before author committer grep format pretty date max-count
            skip diff-filter unified encoding inter-hunk-context word-diff-regex glob exclude
            src-prefix dst-prefix
            """
        ),
        "text",
    ),
}
_GREP = {
    "O": "run",
    "open-files-in-pager": "run",
    "textconv": "ask",
    "ext-grep": "ask",
    "f": "read",
}
_PLAIN_READERS = names(
    """
    status describe rev-parse ls-files ls-tree name-rev merge-base cherry show-ref
    for-each-ref show-branch count-objects version check-ignore check-attr check-mailmap diff-pairs
    verify-pack get-tar-commit-id patch-id check-ref-format stripspace column
    """
)
_DIFF_READERS = names(
    """
    log diff show whatchanged diff-tree diff-index diff-files range-diff blame annotate shortlog
    rev-list
    """
)
_READERS: dict[str, Mapping[str, str]] = {
    **dict.fromkeys(_DIFF_READERS, _DIFF),
    **{verb: MappingProxyType({}) for verb in _PLAIN_READERS},
    "ls-files": {
        **dict.fromkeys(("X", "exclude-from"), "read"),
        **dict.fromkeys(("x", "exclude", "exclude-per-directory", "with-tree", "format"), "text"),
    },
    "grep": _GREP,
    "cat-file": {"textconv": "ask", "filters": "ask"},
}
_REMOTE = frozenset(
    names(
        """
    fetch pull push clone ls-remote fetch-pack send-pack send-email request-pull p4 svn lfs
    """
    )
)
_WRITERS = frozenset(
    names(
        """
    add commit mv init notes switch tag branch stash
    """
    )
)
_IRREVERSIBLE = frozenset(
    ["filter-branch", "filter-repo", "prune", "update-ref", "replace", "fast-import"]
)
_SAFE_CONFIG = re.compile(
    r"(?:color\.[\w.]+|core\.quotepath|log\.date|diff\.noprefix|core\.pager=cat"
    r"|advice\.\w+)(?:=[\w-]*)?\Z",
    re.IGNORECASE,
)
_HARMLESS_GLOBAL = names(
    """
    --no-pager -P --no-optional-locks --no-replace-objects --literal-pathspecs --glob-pathspecs
    --icase-pathspecs --no-lazy-fetch --bare
    """
)


_GLOBAL_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"})


def from_verb(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments of a git call from its verb on, without the options of git itself."""
    rest = list(argv[1:])
    while argv[0].rpartition("/")[2] == "git" and rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in _GLOBAL_VALUED else 1]
    return tuple(rest)


_ENDS = frozenset({"--version", "--help", "-v", "-h", "--html-path", "--man-path", "--info-path"})


def git(call: Call, rules: Rules) -> None:
    """git: global options, then the verb."""
    args = list(call.args)
    scope = call.scope.branch()
    folders: list[str | None] = []
    while args and args[0].value.startswith("-"):
        word = args.pop(0).value
        if word == "-C" and args:
            scope.cwd = call.with_scope(scope).place(args.pop(0)).path
        elif word in {"-c", "--config-env"} or word.startswith("-c"):
            value = args.pop(0).value if word in {"-c", "--config-env"} and args else word[2:]
            if not _SAFE_CONFIG.match(value):
                call.ask("Option -c of {program} can make it run other programs.")
                _setting(call, value.partition("=")[2])
        elif word in _ENDS:
            return
        elif word not in _HARMLESS_GLOBAL:
            name, attached, value = word.partition("=")
            if name in {"--git-dir", "--work-tree", "--namespace", "--exec-path"}:
                value = value if attached or not args else args.pop(0).value
            # Where `-C` follows, a relative path still counts from where git then stands.
            folders.append(_folder_named(call.with_scope(scope), name, value))
            call.ask(
                "Option {option} of {program} can make it run other programs.",
                option=word.replace(HOLE, "…"),
            )
    call = call.with_scope(scope)
    if not args:
        return
    verb, *rest = args
    for folder in (scope.cwd, *folders):
        call.findings.git_call(folder, verb.value, *(arg.value for arg in rest))
    if not verb.known:
        call.ask("What {program} is to do is only known when it runs.")
        return
    _verb(call, verb.value, tuple(rest))
    del rules


def _folder_named(call: Call, option: str, value: str) -> str | None:
    """The folder that a global option sets; None for one that could steer git otherwise."""
    if option not in {"--git-dir", "--work-tree"}:
        return None
    return call.place(Argument(value)).path


_SHOWS_CONTENT = frozenset({"show", "diff", "blame", "annotate", "cat-file", "log", "grep"})


_FORMAT = re.compile(r"--(?:fo|pr)[a-z]*(?:=|\Z)")
_SIGNATURE = re.compile(r"%G|%\(signature")


def _verb(call: Call, verb: str, args: tuple[Argument, ...]) -> None:
    if [arg.value for arg in args] == ["--help"]:
        return  # git itself turns this into `git help`.
    for arg, follows in pairwise((*args, Argument(""))):
        if _FORMAT.match(arg.value) and _SIGNATURE.search(f"{arg.value} {follows.value}"):
            call.ask("A format with %G makes {program} run another program.")
    if verb in _READERS:
        table = Rules("git", options=_READERS[verb])
        parsed = parse_options(args, table)
        if parsed.unclear:
            call.ask(
                "Some arguments of {program} could turn out to be options; write them as ./name."
            )
        apply_options(call, table, parsed)
        if verb in _SHOWS_CONTENT:
            mentions(call.with_args(args))
        if parsed.has("no-index") or verb == "grep":
            for operand in parsed.operands:
                call.reads(operand)
        return
    known = _VALUES | _DIFF if verb in {"stash", "reflog"} else _VALUES
    parsed = parse_options(args, Rules("git", options=known))
    first = parsed.operands[0].value if parsed.operands else ""
    if verb in READING_FORMS and READING_FORMS[verb](parsed, first):
        if verb in {"stash", "reflog"}:
            mentions(call.with_args(parsed.operands))
        return
    if verb in DESTROYS and DESTROYS[verb](parsed, first):
        call.findings.effect("delete", f"git {verb} …")
        call.danger("git {verb} in this form loses work that cannot be brought back.", verb=verb)
        if verb == "push":
            call.network("git")
        return
    _changes(call, verb, parsed, first, args)


_VALUES = dict.fromkeys(
    (
        "m",
        "message",
        "F",
        "file",
        "C",
        "author",
        "date",
        "sort",
        "format",
        "contains",
        "points-at",
        "u",
        "b",
        "B",
        "c",
        "get",
        "x",
        "exec",
        "upload-pack",
        "receive-pack",
        "t",
        "template",
        "initial-branch",
    ),
    "value",
)


def _setting(call: Call, value: str) -> None:
    """A value of git's configuration, which may be a program or an alias that runs one."""
    if re.search(r"[!/ ]", value):
        call.starts(value.removeprefix("!"))


def _starts(call: Call, verb: str, parsed: Parsed, first: str, args: tuple[Argument, ...]) -> None:
    """Programs that the arguments of a verb make git run, now or later."""
    if verb == "config" and any(names_program(o.value) for o in parsed.operands):
        call.danger("It makes git run a program later ({name}).", name=first)
    for value in parsed.values("exec", "x", "upload-pack", "receive-pack"):
        call.starts(value.value)
    for operand in parsed.operands:
        if operand.value.startswith("ext::"):
            call.danger("git runs a program to reach {address}.", address=operand.value)
        elif verb == "config":
            _setting(call, operand.value)
    if (verb, first) == ("bisect", "run"):
        call.inner(args[1:])
    if (verb, first) == ("submodule", "foreach"):
        call.starts(" ".join(arg.value for arg in args[1:] if not arg.value.startswith("-")))
    for value in parsed.values("u") if verb == "clone" else ():
        call.starts(value.value)


_PLAIN_INIT = frozenset({"q", "quiet", "b", "initial-branch"})


def _changes(call: Call, verb: str, parsed: Parsed, first: str, args: tuple[Argument, ...]) -> None:
    _starts(call, verb, parsed, first, args)
    remote = (
        verb in _REMOTE
        or (verb == "remote" and first in {"update", "prune", "show"})
        or (verb == "submodule")
    )
    if remote:
        call.network("git")
        return
    if verb in _IRREVERSIBLE:
        call.danger("git {verb} rewrites history.", verb=verb)
        return
    loses = {
        "branch": ("d", "D", "delete", "m", "M", "move", "f", "force", "C", "edit-description"),
        "tag": ("d", "delete", "f", "force", "s", "sign", "v", "verify"),
        "notes": ("f", "force"),
        "mv": ("f", "force"),
        "commit": ("amend",),
        "switch": ("f", "force", "discard-changes", "C"),
    }
    for value in parsed.values("F", "file", "t", "template") if verb in _WRITERS else ():
        call.reads(value)
    if verb in {"add", "mv", "stash"}:
        mentions(call.with_args(parsed.operands))
    asked = parsed.has(*loses.get(verb, ())) or (
        verb == "stash" and first not in {"", "push", "save"}
    )
    if verb == "init" and not {o.name for o in parsed.options} <= _PLAIN_INIT:
        asked = True
    if verb == "notes" and first not in {"add", "append", "copy"}:
        asked = True
    if verb == "switch" and not parsed.has("c", "create"):
        asked = True
    if (verb in {"checkout"} and parsed.has("b") and not parsed.has("f", "force", "B")) or (
        verb == "restore" and parsed.has("staged", "S") and not parsed.has("worktree", "W")
    ):
        asked = False
    elif verb not in _WRITERS:
        asked = True
    if asked:
        call.findings.effect("write", f"git {verb}")
        call.ask(
            "git {verb} in this form changes files, history or settings.",
            verb=verb.replace(HOLE, "…"),
        )
    else:
        call.findings.effect("write", ".git")
        call.findings.note("workspace_write", "git {verb} changes the repository.", verb=verb)


HANDLERS: dict[str, Callable[[Call, Rules], None]] = {"git": git}
