"""The user's own rules, in TOML: read, checked with their examples, and matched.

    [[rule]]
    decision = "allow"            # allow, ask or deny; deny beats ask beats allow
    program = "npm"               # or a list; the name without its folder
    arguments = "test|run lint"   # regular expression over all arguments, joined by blanks
    reason = "the test suite"
    match = ["npm test"]          # examples that must match, checked when the file is loaded
    not_match = ["npm publish"]   # examples that must not

    side_by_side = true           # allow only: may run beside other commands that only read

Further keys: `tool` (default `execute_command`; `mcp__SERVER` names all tools of a server),
`path` (a glob: for deny and ask any file the command touches, for allow all of them), `mode`
("ask", "accept-edits", "auto" or "plan"). A project's file may tighten only: an `allow` in it is an
error.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar, cast

from kogniterm.approval.analysis.paths_and_variables import SYSTEM_FOLDERS, within
from kogniterm.approval.analysis.shared_findings import (
    BUILTINS_WITH_STATE,
    MAX_REASONS,
    ON_FILES,
    REDIRECTS,
    UNREAD,
)
from kogniterm.errors import FileValues, Place
from kogniterm.types import (
    CHANGING_KINDS,
    EXECUTE_COMMAND,
    MODE_NAMES,
    RUN_ON_HOSTS,
    ApprovalMode,
    Part,
    Phrase,
    RiskReport,
    approval_mode,
)

Choice = Literal["allow", "ask", "deny"]
_KEYS = {
    "decision", "tool", "program", "arguments", "path", "mode", "reason", "match", "not_match",
    "side_by_side",
}  # fmt: skip
Made = TypeVar("Made")
_FILE_EFFECTS = CHANGING_KINDS | {"read", "secret"}
_HOLE = "…"
_ANY_TEXT = "a b\n--c=/d;e"
"""Stands for a word that is known only at run time where a rule must allow every text."""


class Rule(NamedTuple):
    """One rule; `origin` names file and line for the trace."""

    decision: Choice
    origin: str
    tool: str = EXECUTE_COMMAND
    programs: tuple[str, ...] = ()
    arguments: re.Pattern[str] | None = None
    path: str | None = None
    mode: ApprovalMode | None = None
    reason: str = ""
    side_by_side: bool = False

    def matches(self, report: RiskReport, *, tool: str, mode: ApprovalMode) -> bool:
        """Return whether the rule speaks about this command.

        An allow must cover all of it; for a deny or ask, one program or file is enough.
        """
        if not self.applies(tool, mode):
            return False
        if self.decision == "allow":
            return self.mismatch(report, tool=tool) is None
        if self._names_programs and not any(map(self._names, report.programs)):
            return False
        files = (e.target for e in report.effects if e.kind in _FILE_EFFECTS)
        return self.path is None or any(_may_reach(name, self.path) for name in files)

    def applies(self, tool: str, mode: ApprovalMode) -> bool:
        # What is denied or asked about here is so on other machines too; what is allowed is not.
        reached = self.tool == EXECUTE_COMMAND and tool == RUN_ON_HOSTS and self.decision != "allow"
        return (self.names_tool(tool) or reached) and self.mode in (None, mode)

    def names_tool(self, tool: str) -> bool:
        """Return whether the rule names a tool: mcp__SERVER, or a pattern, names several."""
        if not self.tool.startswith("mcp__"):
            return tool == self.tool
        whole_server = "__" not in self.tool[5:] and tool.startswith(f"{self.tool}__")
        return whole_server or fnmatch.fnmatchcase(tool, self.tool)

    @property
    def _names_programs(self) -> bool:
        return bool(self.programs) or self.arguments is not None

    def mismatch(self, report: RiskReport, *, tool: str) -> Phrase | None:
        """Return why a rule that allows does not cover a command; None when it does."""
        by_path, is_command = self.path is not None, tool in (EXECUTE_COMMAND, RUN_ON_HOSTS)
        files = [e.target for e in report.effects if e.kind in _FILE_EFFECTS]
        other = next((f for f in files if not fnmatch.fnmatchcase(f, self.path or "*")), None)
        outside = any(e.outside for e in report.effects if e.kind in CHANGING_KINDS)
        unnamed = not files if by_path else outside and not is_command
        if other is not None or unnamed:
            return Phrase("it does not cover these files")
        on_files = all(reason.template in ON_FILES for reason in report.reasons)
        plain = report.label in _SEEN_THROUGH or (on_files and len(report.reasons) < MAX_REASONS)
        if by_path and is_command and not (self._names_programs or plain):
            return Phrase("it covers only reading and changing files")
        # A rule for hosts that names nothing else covers what commands do to files there.
        whole = tool == RUN_ON_HOSTS and not self._names_programs
        free = self.arguments is None or bool(self.arguments.fullmatch(_ANY_TEXT))
        moves = all(self._allows(*one) for one in programs_with_parts(report) if one[0][0] in MOVES)
        return find_uncovered(
            report, self._allows if self._names_programs else None, fed=free,
            files=by_path or whole or not is_command, below="/" if moves else None,
        )  # fmt: skip

    def _allows(self, argv: tuple[str, ...], _part: Part) -> bool:
        texts = (" ".join(argv[1:]).replace(_HOLE, text) for text in ("", _ANY_TEXT))
        named = not self.programs or program_name(argv[0]) in self.programs
        return named and (self.arguments is None or all(map(self.arguments.fullmatch, texts)))

    def _names(self, argv: tuple[str, ...]) -> bool:
        # A wildcard may stand for the program.
        name, texts = posixpath.basename(argv[0]), map(" ".join, _forms(argv))
        named = not self.programs or any(fnmatch.fnmatchcase(one, name) for one in self.programs)
        return named and (self.arguments is None or any(map(self.arguments.fullmatch, texts)))

    def may_match(self, report: RiskReport, *, tool: str, mode: ApprovalMode) -> bool:
        """Return whether a rule that denies or asks may be about what only the run will show.

        That is a program or argument known only then, and a name in text that a program runs.
        """
        if not (self.applies(tool, mode) and self._names_programs and self.path is None):
            return False
        everything = " ".join((report.command, *map(" ".join, report.programs)))
        names = "|".join(map(re.escape, self.programs)) or r"\S+"
        for argv, part in programs_with_parts(report):
            text = everything if part.fed else " ".join(argv)
            verbs = [form[0] for form in _forms(argv) if form]
            unknown = any(re.search(rf"[{_HOLE}*?\[]", verb) for verb in verbs)
            if part.label in _SEEN_THROUGH:
                text = " ".join(argv) if unknown else ""
            found = re.search(rf"(?<![\w-])(?:{names})(?![\w-])", text)
            rest = text[found.end() :] if found else ""
            pattern = self.arguments
            named = found and (not pattern or pattern.search(rest) or unknown or _HOLE in rest)
            if named or (_HOLE in argv[0] and not argv[0].endswith(f"={_HOLE}")):
                return True
        return False

    @property
    def denies_tool(self) -> bool:
        """Return whether the rule refuses every call of its tool, in every mode."""
        narrowed = (*self.programs, self.arguments, self.path, self.mode)
        return self.decision == "deny" and not any(one is not None for one in narrowed)

    @property
    def text(self) -> Phrase:
        """The rule's reason."""
        if not self.reason:
            return Phrase("rule {origin}", {"origin": self.origin})
        return Phrase("{reason}", {"reason": self.reason})


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules in force, the user's first."""

    rules: tuple[Rule, ...] = ()

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(self.rules + other.rules)

    def about(self, tool: str) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.names_tool(tool))

    def denying(self, tool: str) -> Rule | None:
        """Return the first rule that refuses every call of a tool."""
        return next((rule for rule in self.about(tool) if rule.denies_tool), None)


def program_name(program: str) -> str:
    """Return the name of `program`: bare where it is the system's, a path for any other file.

    A rule that allows a program by its name means the one on the PATH.
    """
    folder, _, base = program.rpartition("/")
    return base if folder in SYSTEM_FOLDERS else program


def _forms(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the arguments of a call, also without the options in front of a subcommand."""
    from kogniterm.approval.programs.git import GLOBAL_VALUED

    is_git, starts = posixpath.basename(argv[0]) == "git", {1}
    for index, word in enumerate(argv):
        if index in starts and word[:1] in ("-", "+"):
            # Of other programs it is not known which options have a value.
            starts |= {index + 2} if is_git and word in GLOBAL_VALUED else {index + 1}
            starts |= set() if is_git else {index + 2}
    yield from (argv[index:] for index in starts)


def _may_reach(target: str, pattern: str) -> bool:
    """Return whether `target`, which may hold wildcards or unknown parts, could be such a file."""
    if fnmatch.fnmatchcase(target, pattern):
        return True
    if not re.search(r"[*?\[…]", target):
        return False
    parts, wanted = target.replace("…", "*").split("/"), pattern.split("/")
    pairs = zip(parts, wanted, strict=False)
    return len(parts) >= len(wanted) and all(
        fnmatch.fnmatchcase(want, part) or fnmatch.fnmatchcase(part, want) for part, want in pairs
    )


class TableError(Exception):
    """A mistake in a table of a policy file, and the key where it stands."""

    def __init__(self, key: str, wrong: Phrase) -> None:
        super().__init__(key)
        self.key = key
        self.wrong = wrong


def load_rules(file: FileValues, *, tighten_only: bool = False) -> RuleSet:
    """Return the rules of one TOML file.

    Raises `SettingsError` naming the file and the line: an unknown key or value, an example that a
    rule judges wrongly, or (with `tighten_only`) a rule that allows.
    """

    def make(item: Mapping[str, Any], place: str) -> Rule:
        rule = _rule(item, place)
        if tighten_only and rule.decision == "allow":
            only = Phrase("project rules cannot use allow; use ask or deny")
            raise TableError("decision", only)
        _check_examples(rule, item)
        return rule

    return RuleSet(read_tables(file, "rule", make))


def read_tables(
    file: FileValues, name: str, make: Callable[[Mapping[str, Any], str], Made]
) -> tuple[Made, ...]:
    """Return what `make` makes of each table [[name]] of a file, given its place in the file.

    Raises `SettingsError` naming file and line when it has anything else, or `make` raises
    `TableError`.
    """
    place: Place = ()
    made = []
    try:
        for index, item in enumerate(_tables(file.data, name)):
            place = (name, index)
            made.append(make(item, f"{file.name}:{file.line(place)}"))
    except TableError as found:
        raise file.at((*place, found.key), found.wrong) from None
    return tuple(made)


def _tables(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    for key in data:
        if key != name:
            values = {"key": key, "name": name}
            only = Phrase("unknown key {key!r}; this file contains only [[{name}]] tables", values)
            raise TableError(key, only)
    tables = data.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
        raise TableError(name, Phrase("write each {name} as a [[{name}]] table", {"name": name}))
    return tables


def _rule(item: Mapping[str, Any], origin: str) -> Rule:
    for key in item:
        if key not in _KEYS:
            raise TableError(key, Phrase("unknown key {key!r}", {"key": key}))
    if item.get("decision") not in ("allow", "ask", "deny"):
        raise TableError("decision", Phrase("decision must be allow, ask or deny"))
    if item.get("mode") not in (None, "manual", *MODE_NAMES):
        raise TableError("mode", Phrase("mode must be ask, accept-edits, auto or plan"))
    programs = _strings(item, "program")
    for key in ("tool", "arguments", "path", "reason"):
        if not isinstance(item.get(key, ""), str):
            raise TableError(key, Phrase("{key} must be a string", {"key": key}))
    if item.get("side_by_side", False) not in (True, False):
        raise TableError("side_by_side", Phrase("side_by_side must be true or false"))
    if item.get("side_by_side") and (item["decision"] != "allow" or not programs):
        only = Phrase("side_by_side needs decision allow and program")
        raise TableError("side_by_side", only)
    if not (programs or "arguments" in item or "path" in item or "tool" in item):
        raise TableError(
            "decision", Phrase("a rule needs at least one of: program, arguments, path, tool")
        )
    try:
        arguments = item.get("arguments")
        pattern = None if arguments is None else re.compile(arguments, re.DOTALL)
    except re.error as error:
        wrong = Phrase("arguments is not a valid regular expression: {why}", {"why": error})
        raise TableError("arguments", wrong) from None
    return Rule(
        decision=cast(Choice, item["decision"]),
        origin=origin,
        tool=item.get("tool", EXECUTE_COMMAND),
        programs=programs,
        arguments=pattern,
        path=item.get("path"),
        mode=approval_mode(item["mode"]) if "mode" in item else None,
        reason=item.get("reason", ""),
        side_by_side=item.get("side_by_side", False),
    )


def _strings(item: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = item.get(key, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(entry, str) for entry in values):
        raise TableError(key, Phrase("{key} must be a string or a list of strings", {"key": key}))
    return tuple(values)


def _check_examples(rule: Rule, item: Mapping[str, Any]) -> None:
    from kogniterm.approval.analysis.analyser import classify

    for key, wanted in (("match", True), ("not_match", False)):
        for example in _strings(item, key):
            report = classify(example)
            if rule.matches(report, tool=rule.tool, mode=rule.mode or "manual") == wanted:
                continue
            values = {"key": key, "example": example}
            if wanted:
                wrong = Phrase("the rule does not match its {key} example {example!r}", values)
            else:
                wrong = Phrase("the rule matches its {key} example {example!r}", values)
            raise TableError(key, wrong)


Covers = Callable[[tuple[str, ...], Part], bool]
MOVES = frozenset({"cd", "pushd", "popd"})
_HARMLESS = re.compile(
    r"set -(?:[eux]+|[eux]*o pipefail)|(?:cd|pushd|popd) .*|(?:time(?: -p)?|nice(?: -n ?-?\d+)?"
    r"|timeout(?: -[ks] ?\w+| --[\w=-]+)* [\d.]+[smhd]?) [^-].*",
    re.DOTALL,
)
"""Calls that change nothing but the folder, the time and the status of what a grant covers."""
_SEEN_THROUGH = ("safe_readonly", "workspace_write")


def find_uncovered(
    report: RiskReport, covers: Covers | None, *, files: bool = False, fed: bool = False,
    below: str | None = None,
) -> Phrase | None:  # fmt: skip
    """Return why what is granted does not reach all that a command does; None where it does.

    A grant covers the programs that `covers` accepts (None: all), with their arguments. Beside
    them, a command may have programs that only read. With `files` it may have redirections, with
    `fed` programs may read what others print or the command's text, and with `below` they may run
    in folders there, and it may end there.
    """
    known = ON_FILES if files else frozenset[str]()
    beside = [one for one in report.beside if one.template not in known]
    if beside and (covers is not None or beside[0].template == REDIRECTS):
        return Phrase("it does not cover this: {reason}", {"reason": beside[0]})
    own = [one for one in programs_with_parts(report) if covers is None or covers(*one)]
    for argv, part in programs_with_parts(report):
        values = {"program": " ".join(argv[:3])}
        if part.folder and not (below and within(part.folder, below)):
            return Phrase("it does not cover other folders ({program})", values)
        if only_reads(argv, part):
            continue
        if argv == UNREAD or (argv, part) not in own:
            return Phrase("it does not cover running {program}", values)
        if part.fed and not fed:
            return Phrase("it does not cover the input of {program}", values)
    return None if own or covers is None else Phrase("it covers no program of this command")


def programs_with_parts(report: RiskReport) -> list[tuple[tuple[str, ...], Part]]:
    """Return the programs of a command with what is known of each; unknown is the worst."""
    unknown = [Part()] * (len(report.programs) - len(report.parts))
    return list(zip(report.programs, (*report.parts, *unknown), strict=True))


def only_reads(argv: tuple[str, ...], part: Part) -> bool:
    """Return whether a program may stand beside those that a grant covers.

    The programs that it starts, and those in a folder that it enters, are judged by themselves.
    """
    name, words = program_name(argv[0]), " ".join(argv[1:])
    sets = name in BUILTINS_WITH_STATE or (name == "printf" and words.startswith("-v"))
    reads = part.label == "safe_readonly" and not sets
    return reads or bool(_HARMLESS.fullmatch(f"{name} {words}"))
