"""Footprint: what an action reads and changes, where its text tells all of it; for actions at once.

A command has one only when it leaves the shell as it was and every program in it is listed here.
Whatever is in doubt has none, and runs alone. Paths are those of the risk report: the caller
resolves them on the disk before it compares two.
"""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple

from kogniterm.approval.analysis.shared_findings import BUILTINS_WITH_STATE, UNREAD
from kogniterm.approval.parser.parse import parse
from kogniterm.approval.parser.tree import (
    Literal,
    Node,
    Pipeline,
    Redirect,
    Sequence,
    Simple,
    Word,
    simple_commands,
)
from kogniterm.types import CHANGING_KINDS, ActionRequest, RiskReport

NETWORK_TOOLS = frozenset({"web_fetch", "web_search", "github"})
"""Tools that only read, and only from the network."""
_NAMED = frozenset({
    "base64", "basename", "cat", "cksum", "cmp", "cp", "cut", "date", "dirname", "echo", "false",
    "head", "md5sum", "mkdir", "mv", "nl", "od", "printf", "rev", "seq", "sha1sum", "sha256sum",
    "sha512sum", "sort", "tac", "tail", "tee", "touch", "tr", "true", "uniq", "wc",
})  # fmt: skip
"""Programs that read and change nothing but the files that a report names."""
_ANYWHERE = frozenset({
    "[", "awk", "column", "comm", "df", "diff", "du", "egrep", "fd", "fgrep", "file", "find",
    "fold", "gawk", "git", "grep", "id", "join", "jq", "ls", "mawk", "nproc", "paste", "pwd",
    "readlink", "realpath", "rg", "sed", "stat", "strings", "test", "tree", "uname",
    "which", "whoami", "xxd",
})  # fmt: skip
"""Programs that only read, of files that a report need not name."""
_OPTIONS = {
    "cp": re.compile(r"-[afnprRv]+"),
    "mv": re.compile(r"-[fnv]+"),
    "touch": re.compile(r"-[acm]+"),
    "date": re.compile(r"-[uIR][a-z]*"),
    "printf": re.compile("(?!)"),
    "sort": re.compile(r"-[bcdfghiMnrRsuVz]+|-[kt].*"),
}
_USUAL_OPTIONS = re.compile(r"-[A-Za-z0-9]*")
"""Options that name no further file, as those for backups, references and lists of files do."""
_PATTERN = frozenset("*?[")
_SEPARATORS = frozenset({"", ";", "\n", "&&", "||"})


class Footprint(NamedTuple):
    """Files and folders that an action reads and changes; with `anywhere` it may read any file."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    anywhere: bool = False


def footprint(
    request: ActionRequest, report: RiskReport, *, declared: bool = False
) -> Footprint | None:
    """Return the paths that an action reads and changes, or None where they are not certain.

    `declared` is whether the user's rules say that the command does not mind others beside it: then
    its own changes do not count, and it may read anything.
    """
    if request.refusal is not None:
        return None  # the user is asked about it
    if request.effect == "network":
        return Footprint() if request.tool in NETWORK_TOOLS else None
    if request.effect not in ("command", "read", "edit"):
        return None
    if request.effect != "command":
        return _named_paths(report)
    if not leaves_shell(request.command):
        return None
    if declared:
        return Footprint(anywhere=True) if _only_programs(report) else None
    names = {argv[0] for argv in report.programs}
    safe = report.label in ("safe_readonly", "workspace_write") and bool(names)
    if not safe or not names <= _NAMED | _ANYWHERE:
        return None
    vague = bool(names & _ANYWHERE) or _has_pattern(parse(report.command))
    found = _named_paths(report, anywhere=vague)
    if found is not None and found.writes:
        exact = names <= _NAMED and all(map(_names_all, report.programs))
        return found if exact and not any(_PATTERN & set(name) for name in found.writes) else None
    return found if all(map(_names_all, report.programs)) else None


def _only_programs(report: RiskReport) -> bool:
    """Return whether all that a command runs is known by name, and is no part of the shell."""
    names = {argv[0] for argv in report.programs}
    printf = all(map(_names_all, (argv for argv in report.programs if argv[0] == "printf")))
    return (
        bool(names) and UNREAD not in report.programs and not names & BUILTINS_WITH_STATE and printf
    )


def _names_all(argv: tuple[str, ...]) -> bool:
    """Return whether no option of a program leads to files beside those in its report."""
    if argv[0] in _ANYWHERE:
        return True
    allowed = _OPTIONS.get(argv[0], _USUAL_OPTIONS)
    return all(word == "--" or allowed.fullmatch(word) for word in argv[1:] if word[:1] == "-")


def _named_paths(report: RiskReport, *, anywhere: bool = False) -> Footprint | None:
    """Return the files that a report names; None when it names anything else."""
    reads, writes = set(report.deciding) if not anywhere else set(), set()
    for effect in report.effects:
        if effect.kind in ("read", "secret"):
            if "…" in effect.target and not anywhere:
                return None
            reads.add(effect.target)
        elif effect.kind in CHANGING_KINDS and not effect.outside and "…" not in effect.target:
            writes.add(effect.target)
        else:
            return None
    known = frozenset(name for name in reads if "…" not in name)
    return Footprint(known, frozenset(writes), anywhere)


def leaves_shell(command: str) -> bool:
    """Return whether the text of a command can only run programs one after the other.

    It then has no expansions, assignments, functions, background processes or compound commands;
    that its programs are no builtins that change the shell is up to the list of programs.
    """
    return _plain(parse(command))


def _plain(node: Node) -> bool:
    if isinstance(node, Sequence):
        return bool(node.items) and all(op in _SEPARATORS and _plain(one) for op, one in node.items)
    if isinstance(node, Pipeline):
        return all(map(_plain, node.parts))
    if not isinstance(node, Simple) or node.assignments or not node.words:
        return False
    words = (*node.words, *(one.target for one in node.redirects))
    return all(map(_leads_to_file, node.redirects)) and all(map(_literal, words))


def _leads_to_file(redirect: Redirect) -> bool:
    """Return whether a redirection opens a file, or joins output and error."""
    if redirect.body is not None or redirect.target is None:
        return False
    return "&" not in redirect.op or redirect.op == "&>" or redirect.target.raw in ("1", "2")


def _literal(word: Word | None) -> bool:
    return word is not None and all(isinstance(part, Literal) for part in word.parts)


def _has_pattern(node: Node) -> bool:
    """Return whether a word stands for names that only the shell finds."""
    return any(
        isinstance(part, Literal) and not part.quoted and _PATTERN & set(part.text)
        for simple in simple_commands(node)
        for word in simple.words
        for part in word.parts
    )


def disjoint(one: Footprint, other: Footprint) -> bool:
    """Return whether neither action can notice the other: nothing written is shared.

    Paths must be absolute and without links; a folder stands for all that is below it.
    """
    return not (_disturbs(one, other) or _disturbs(other, one))


def _disturbs(one: Footprint, other: Footprint) -> bool:
    """Return whether `one` writes what `other` reads or writes."""
    if not one.writes:
        return False
    if other.anywhere:
        return True
    return any(
        _below(path, touched) or _below(touched, path)
        for path in one.writes
        for touched in other.reads | other.writes
    )


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(posixpath.join(folder, ""))
