"""The programs whose failure the exit status of a command shows: only those give evidence.

The parsed text decides, with the options and names that the shell carried and the statuses of the
last pipeline. A construct that is not accounted for gives no evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import dropwhile, takewhile
from typing import NamedTuple

from kogniterm.approval.analysis.arguments import NO_RULES, CallWord, parse_options, rules_for
from kogniterm.approval.analysis.paths_and_variables import HOLE, names
from kogniterm.approval.parser import tree
from kogniterm.approval.parser.parse import parse
from kogniterm.approval.parser.tree import Node, Word
from kogniterm.types import CommandResult, Phrase, PipeStatus
from kogniterm.types.command_results import ALWAYS_SUCCEEDS

_QUIET = names("""
    echo printf true : false sleep declare typeset local readonly unset set shopt umask ulimit read
    mapfile readarray shift wait exit return break continue date clear jobs disown
""")
_PREPARES = names("cd pushd popd source . mkdir export")
"""The command that follows shows their failure."""
_ANSWERS = names("grep egrep fgrep zgrep rg ag ack diff cmp test [ expr pgrep pidof which type")
"""Exit status 1 is their answer, not a failure."""
_READS = names("read list pattern text uniq find sed awk jq pager binutils media printenv man")
"""Bases in the table of programs, of those whose result is what they print."""
_HARMLESS = frozenset({"quiet", "prepares", "reads", "answers"})
_PASSES = dict.fromkeys(names("""
    env nice nohup stdbuf ionice time sudo doas command builtin exec chronic unbuffer xargs
"""), 0) | {"timeout": 1, "flock": 1, "ssh": 1}  # fmt: skip
"""Programs that end like the one they start, with the number of operands of their own."""
_STARTS = names("coproc setsid at batch systemd-run screen tmux watch su runuser script")
"""Programs of which that is not certain."""
_SHELLS = names("bash sh dash zsh ksh ash")
_CHANGES = names("eval trap alias unalias enable hash fg bg !")
"""Words after which other words mean something else."""
_IGNORES = names("--exit-zero --ignore-errors --if-present --collect-only --co")
"""Options with which a program ends with 0 though something failed, or was not tried."""


class _UnknownError(Exception):
    """The text does not tell whose failure its exit status shows."""


class _Program(NamedTuple):
    """A program in the text, the worth of its exit status, and what hides that: "" if nothing.

    `judge` is the kind of the program that decides in its place, if that reads or tests something.
    """

    name: str
    kind: str = "acts"
    by: str = ""
    judge: str = ""


@dataclass(slots=True)
class _Shell:
    """A shell that follows the text; `pipes` has the programs of each pipeline that it ran."""

    errexit: bool = False
    pipefail: bool = False
    defined: set[str] = field(default_factory=set)
    pipes: list[tuple[str, ...]] = field(default_factory=list)


def check_problem(command: str) -> tuple[Phrase, str] | None:
    """Return why the exit status of `command` cannot prove a step, and what hides it; or None."""
    try:
        found = _masking_program(_node(parse(command), _Shell()), checks=True)
    except (_UnknownError, RecursionError):
        return Phrase("its exit status does not tell which program failed"), ""
    if found is None:
        return None
    values = {"program": found.name, "where": found.by}
    if not found.by:
        return Phrase("it cannot fail, because {program} always succeeds", values), ""
    return Phrase("it passes even if {program} fails ({where})", values), found.by


def with_exit_facts(command: str, result: CommandResult) -> CommandResult:
    """Return `result` with its pipe named, and `masked` where its exit status is no evidence."""
    shell = _Shell("errexit" in result.shell, "pipefail" in result.shell)
    shell.defined |= {name.removesuffix("()") for name in result.shell if name.endswith("()")}
    masked, pipe = "", result.pipe
    try:
        programs = _node(parse(command), shell)
        named = [one for one in shell.pipes if len(one) == len(pipe)]
        if len(named) == 1:
            broken = "broken pipe" in result.text.lower()
            pipe = tuple(
                PipeStatus(
                    one.code, name, one.code == 141 or (broken and one.code != 0),
                    name in _ANSWERS and one.code == 1,
                )
                for one, name in zip(pipe, named[0], strict=True)
            )  # fmt: skip
        known = len(named) == len(shell.pipes) < 2 and not any(one.code for one in pipe[:-1])
        found = _masking_program(programs, known=known)
        if found is not None:
            hidden = f"a failure of {found.name} would not change it ({found.by})"
            masked = hidden if found.by else f"{found.name} {ALWAYS_SUCCEEDS}"
    except (_UnknownError, RecursionError):
        masked = "the text does not tell which program it is of"
    for one in pipe[:-1]:
        if one.failed:
            masked = f"{one.program or 'a program'} in the pipe ended with exit {one.code}"
    if {"traps", "unknown"} & set(result.shell):
        masked = masked or "a trap, or exec, may have changed it"
    return replace(result, pipe=pipe, masked=masked)


def _masking_program(
    programs: list[_Program], *, checks: bool = False, known: bool = True
) -> _Program | None:
    """Return the program that takes the evidence from the exit status; None when there is some.

    What `checks` a step hides no answer, and is no filter. With `known` all programs of the pipe
    ended well, which counts where another program judges what they wrote.
    """
    for one in programs:
        free = one.kind in _HARMLESS and not (
            checks and (one.kind == "answers" or one.judge == "reads")
        )
        if one.by and not free and not (known and one.judge == "answers"):
            return one
    if any(not one.by and one.kind != "quiet" for one in programs):
        return None
    return next((one for one in programs if one.by), programs[-1] if programs else _Program("it"))


def _hidden(programs: Iterable[_Program], by: str, judge: str = "") -> list[_Program]:
    return [one if one.by else one._replace(by=by.strip(), judge=judge) for one in programs]


def _last(programs: list[_Program]) -> _Program:
    return next((one for one in reversed(programs) if not one.by), _Program(""))


def _node(node: Node, shell: _Shell) -> list[_Program]:
    """Return the programs of a statement; raises _UnknownError."""
    match node:
        case tree.Simple():
            return _simple(node, shell)
        case tree.Sequence():
            return _sequence(node, shell)
        case tree.Pipeline():
            parts = [_node(part, replace(shell)) for part in node.parts]
            shell.pipes.append(tuple(_last(part).name for part in parts))
            left, last = [one for part in parts[:-1] for one in part], _last(parts[-1])
            if not shell.pipefail:
                left = _hidden(left, f"| {last.name}", last.kind)
            first = node.parts[0]
            negated = isinstance(first, tree.Group) and first.negated
            return _hidden([*left, *parts[-1]], "!") if negated else [*left, *parts[-1]]
        case tree.Group():
            own = replace(shell) if node.subshell or node.negated else shell
            words = [word for one in node.redirects for word in (one.target, one.body) if word]
            inner = [*_substituted_programs(words, shell), *_node(node.body, own)]
            return _hidden(inner, "!") if node.negated else inner
        case tree.Test():
            return [*_substituted_programs(node.words, shell), _Program("[[", "answers")]
        case tree.Function():
            shell.defined.add(node.name)
            return []
        case tree.Branch():
            return _compound((node.always, *node.parts), node.words, "if or case", shell)
        case tree.Loop():
            head = (node.head,) if node.head is not None else ()
            return _compound((*head, node.body), node.words or (), "a loop", shell)
    raise _UnknownError


def _compound(
    nodes: Iterable[Node], words: Iterable[Word], by: str, shell: _Shell
) -> list[_Program]:
    inner = [one for node in nodes for one in _node(node, replace(shell, errexit=False))]
    return _hidden([*_substituted_programs(words, shell), *inner], by)


def _sequence(node: tree.Sequence, shell: _Shell) -> list[_Program]:
    """Return lists: of `a; b` the last decides, with `set -e` each; of `a && b` both."""
    done: list[_Program] = []
    now: list[_Program] = []
    ops = [*(op for op, _ in node.items), ""]
    for index, (op, item) in enumerate(node.items):
        ends, single = shell.errexit, not {"&&", "||"} & set(ops[index : index + 2])
        found = _node(item, shell if single else replace(shell, errexit=False))
        if op == "&&":
            now += found
        elif op != "||":
            stays = ends and op != "&" and ops[index - 1] not in ("&&", "||")
            done += now if stays else _hidden(now, op if op == "&" else f"{op} {_last(found).name}")
            now = found
        elif not _fails(item):
            asks = all(one.kind == "answers" for one in now if not one.by)
            judge = "answers" if asks and _last(found).kind != "quiet" else ""
            now = [*_hidden(now, f"|| {_last(found).name}", judge), *found]
    return [*done, *now]


def _fails(node: Node) -> bool:
    """Return whether this never succeeds: `exit 1`, or a group that ends so."""
    while isinstance(node, tree.Group | tree.Sequence):
        if isinstance(node, tree.Group):
            node = tree.Sequence(()) if node.negated else node.body
        elif not node.items or node.items[-1][0] != ";":
            return False
        else:
            node = node.items[-1][1]
    words = _texts(node.words) if isinstance(node, tree.Simple) else []
    return bool(re.fullmatch(r"false|(?:exit|return) 0*[1-9]\d?", " ".join(words)))


def _simple(node: tree.Simple, shell: _Shell) -> list[_Program]:
    bodies = [one.body for one in node.redirects if one.body is not None]
    targets = [one.target for one in node.redirects if one.target is not None]
    values = [value for one in node.assignments for value in one.values]
    if node.words:
        inner = _substituted_programs((*node.words, *values, *targets, *bodies), shell)
        called = _call(_texts(node.words), bodies, shell)
        written = [one.target for one in node.redirects if one.target and one.op.strip("&>|") == ""]
        if any(one[:5] != "/dev/" and not one.isdigit() for one in _texts(written)):
            called = [one._replace(kind="prepares") if one.kind == "quiet" else one
                      for one in called]  # fmt: skip
        return [*inner, *called]
    parts = [part for value in values for part in value.parts]
    if len(parts) == 1 and isinstance(parts[0], tree.Substitution):
        return _node(parts[0].node, replace(shell))  # `x=$(…)` ends like what is in it
    return [*_substituted_programs((*values, *targets, *bodies), shell), _Program("=", "quiet")]


def _call(texts: list[str], bodies: list[Word], shell: _Shell) -> list[_Program]:
    """Return the program of a call, or those that it starts."""
    name = texts[0].rpartition("/")[2] if texts else ""
    if not name or HOLE in name or name in shell.defined or name in _CHANGES:
        raise _UnknownError
    if name in _STARTS:
        return [_Program((*texts[1:], name)[0], by=name)]
    for index, text in enumerate(texts):
        given = any(re.fullmatch(r"-[A-Za-z]*c", one) for one in texts[index + 1 :])
        if text.rpartition("/")[2] in _SHELLS and (not index or given or bodies):
            return _shell_call(texts[index:], bodies, shell)
    if name in _PASSES:
        arguments = map(CallWord, texts[1:])
        parsed = parse_options(arguments, rules_for(name) or NO_RULES, operands_end=True)
        rest = [one.value for one in parsed.operands[_PASSES[name] :]]
        rest = [*dropwhile(lambda one: "=" in one, rest)]
        if name == "ssh" or parsed.has("S", "split-string"):
            return _text(" ".join(rest), _Shell(pipes=shell.pipes))
        if rest and not (name == "command" and parsed.has("v", "V")):
            return _call(rest, bodies, shell)
        return [_Program(name, {"command": "answers", "env": "reads"}.get(name, "quiet"))]
    if name == "set":
        # Only what makes failures show is followed.
        options = "".join(f" {text}" for text in texts[1:])
        known = r"(?: -[euxv]+| -[euxv]*o (?:pipefail|errexit|nounset|xtrace))+"
        if not re.fullmatch(known, options):
            raise _UnknownError
        shell.errexit |= "errexit" in options or bool(re.search(r" -[uxv]*e", options))
        shell.pipefail |= "pipefail" in options
    return [_Program(name, _kind(texts), _ignoring(texts))]


def _text(text: str, shell: _Shell) -> list[_Program]:
    if not text or HOLE in text:
        raise _UnknownError
    return _node(parse(text), shell)


def _shell_call(texts: list[str], bodies: list[Word], shell: _Shell) -> list[_Program]:
    """Return the programs of the text that a shell gets by `-c` or as a here-document."""
    options = [*takewhile(lambda one: one[:1] in "-+" or one == "pipefail", texts[1:])]
    inner = replace(shell, errexit=any(re.match("-[a-z]*e", one) for one in options))
    inner.pipefail, rest = "pipefail" in options, texts[len(options) + 1 :]
    if any(re.fullmatch("-[a-z]*c", one) for one in options):
        return _text("".join(rest[:1]), inner)
    # A file has an exit status of its own.
    return [_Program(rest[0])] if rest else _text("".join(_texts(bodies[:1])), inner)


def _ignoring(texts: list[str]) -> str:
    """Return the option with which a program ends with 0 whatever failed."""
    makes = texts[0].endswith("make") and not texts[0].endswith("cmake")
    if texts[0] == "find" and ";" in texts:
        return "-exec"
    found = (one for one in texts[1:] if one in _IGNORES or (makes and re.match(r"-\w*[int]", one)))
    return next(found, "")


def _kind(texts: list[str]) -> str:
    """Return the worth of a program's exit status."""
    name, options = texts[0].rpartition("/")[2], {one for one in texts[1:] if one[:1] == "-"}
    if name in _QUIET:
        return "quiet" if name != "wait" or len(texts) < 2 else "acts"
    if name in _PREPARES:
        return "prepares"
    if name in _ANSWERS or (name == "jq" and options & {"-e", "--exit-status"}):
        return "answers"
    verb = next((text for text in texts[1:] if text[:1] != "-"), "")
    rules = rules_for(f"git:{verb}" if name == "git" else name)
    changes = {"sed": ("-i", "--in"), "find": ("-exec", "-ok", "-delete"), "curl": ("-o", "-O")}
    if any(one.startswith(changes.get(name, ("\0",))) for one in options):
        return "acts"
    return "reads" if name in ("curl", "ps") or (rules and rules.base in _READS) else "acts"


def _substituted_programs(words: Iterable[Word], shell: _Shell) -> list[_Program]:
    """Return what substitutions in `words` run, which the exit status says nothing of."""
    found: list[_Program] = []
    for part in (part for word in words for part in word.parts):
        if isinstance(part, tree.Unknown) and part.opaque is not None:
            raise _UnknownError
        inner = part.inner if isinstance(part, tree.Unknown) else ()
        for one in (part,) if isinstance(part, tree.Substitution) else inner:
            found += _node(one.node, replace(shell, errexit=False))
    return _hidden(found, "$( )")


def _texts(words: Iterable[Word]) -> list[str]:
    return [
        "".join(part.text if isinstance(part, tree.Literal) else HOLE for part in word.parts)
        for word in words
    ]
