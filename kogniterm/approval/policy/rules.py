"""The user's own rules, in TOML: read, checked with their examples, and matched.

    [[rule]]
    decision = "allow"            # allow, ask or deny; deny beats ask beats allow
    program = "npm"               # or a list; the name without its folder
    arguments = "test|run lint"   # regular expression over all arguments, joined by blanks
    reason = "the test suite"
    match = ["npm test"]          # examples that must match, checked when the file is loaded
    not_match = ["npm publish"]   # examples that must not

    side_by_side = true           # allow only: may run beside other commands that only read

Further keys: `tool` (default `execute_command`), `path` (a glob: for deny and ask any file the
command touches, for allow all of them), `mode` ("ask", "accept-edits", "auto" or "plan"). A
project's file may tighten only: an `allow` in it is an error.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, cast

from kogniterm.approval.analysis.paths_and_variables import SYSTEM_FOLDERS
from kogniterm.approval.analysis.shared_findings import UNREAD
from kogniterm.errors import SettingsError
from kogniterm.lazy_dataclasses import dataclass
from kogniterm.types import (
    CHANGING_KINDS,
    EXECUTE_COMMAND,
    MODE_NAMES,
    RUN_ON_HOSTS,
    ApprovalMode,
    Effect,
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


@dataclass(frozen=True, slots=True)
class Rule:
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

        An allow must cover every program and file of the command; a deny or ask, any.
        """
        every = self.decision == "allow"
        # What is denied or asked about here is so on other machines too; what is allowed is not.
        reached = self.tool == EXECUTE_COMMAND and tool == RUN_ON_HOSTS and not every
        if not (tool == self.tool or reached) or (self.mode is not None and mode != self.mode):
            return False
        if every and not self._covers_redirections(report):
            return False
        quantify: Callable[[list[bool]], bool] = (lambda t: all(t) and bool(t)) if every else any
        speaks = bool(self.programs) or self.arguments is not None
        if every and uncovered_program(report, lambda a: not speaks or self._covers(a)) is not None:
            return False
        if speaks and not quantify([self._covers(argv) for argv in report.programs]):
            return False
        if self.path is None:
            return True
        reaches = fnmatch.fnmatchcase if every else _may_reach
        files = (e.target for e in report.effects if e.kind in _FILE_EFFECTS)
        return quantify([reaches(name, self.path) for name in files])

    def _covers_redirections(self, report: RiskReport) -> bool:
        """Return whether each file changed outside is named by an argument or the rule's path."""
        outside = (effect for effect in unnamed_changes(report, report.programs) if effect.outside)
        return self.path is not None or not any(outside)

    def _covers(self, argv: tuple[str, ...]) -> bool:
        if not argv:
            return False
        every = self.decision == "allow"
        name = called(argv[0]) if every else posixpath.basename(argv[0])
        if self.programs and name not in self.programs:
            return False
        from kogniterm.approval.programs.git import from_verb

        forms = [argv[1:]] if every else [argv[1:], from_verb(argv)]
        pattern = self.arguments
        return pattern is None or any(pattern.fullmatch(" ".join(form)) for form in forms)

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
        """Return the rules about a tool."""
        return tuple(rule for rule in self.rules if rule.tool == tool)

    def denying(self, tool: str) -> Rule | None:
        """Return the first rule that refuses every call of a tool."""
        return next((rule for rule in self.about(tool) if rule.denies_tool), None)


def called(program: str) -> str:
    """Return the name of `program`: bare where it is the system's, a path for any other file.

    A rule that allows a program by its name means the one on the PATH.
    """
    folder, _, base = program.rpartition("/")
    return base if folder in SYSTEM_FOLDERS else program


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


def load_rules(text: str, *, origin: str, tighten_only: bool = False) -> RuleSet:
    """Return the rules of one file's `text`.

    Raises `SettingsError` naming `origin` and the line: not TOML, an unknown key or value, an
    example that a rule judges wrongly, or (with `tighten_only`) a rule that allows.
    """

    def make(item: Mapping[str, Any], place: str) -> Rule:
        rule = _rule(item, place)
        if tighten_only and rule.decision == "allow":
            only = Phrase("project rules cannot use allow; use ask or deny")
            raise TableError("decision", only)
        _check_examples(rule, item)
        return rule

    return RuleSet(read_tables(text, "rule", make, origin=origin))


def read_tables(
    text: str, name: str, make: Callable[[Mapping[str, Any], str], Made], *, origin: str
) -> tuple[Made, ...]:
    """Return what `make` makes of each table [[name]] of a file, given its place in the file.

    Raises `SettingsError` naming `origin` and the line when it is not TOML, has anything else, or
    `make` raises `TableError`.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            "{origin} is not valid TOML: {error}.", origin=origin, error=error
        ) from None
    index = 0
    made = []
    try:
        for index, item in enumerate(_tables(data, name)):
            made.append(make(item, f"{origin}:{_line(text, name, index, None)}"))
    except TableError as found:
        line = _line(text, name, index, found.key)
        raise SettingsError(
            "{origin}, line {line}: {wrong}.", origin=origin, line=line, wrong=found.wrong
        ) from None
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


def _line(text: str, name: str, index: int, key: str | None) -> int:
    """Return the line (from 1) of `key` in the table number `index`, or of the table's head."""
    seen = -1
    head = 1
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"\s*\[\[\s*{name}\s*\]\]", line):
            seen += 1
            if seen == index:
                head = number
            continue
        here = seen in {index, -1} and key is not None
        if here and re.match(rf"\s*[\"']?{re.escape(key or '')}\b", line):
            return number
    return head


def uncovered_program(
    report: RiskReport, covers: Callable[[tuple[str, ...]], bool]
) -> tuple[str, ...] | None:
    """Return the first program that `covers` does not speak of, or None.

    Commands that could not be read are never covered.
    """
    return next((argv for argv in report.programs if argv == UNREAD or not covers(argv)), None)


def unnamed_changes(report: RiskReport, programs: Iterable[tuple[str, ...]]) -> tuple[Effect, ...]:
    """Return the changes of files that no argument of `programs` names, as redirections make."""
    words = [word.rstrip("/") for argv in programs for word in argv[1:]]
    named = {posixpath.basename(part) for word in words for part in (word, word.rpartition("=")[2])}
    return tuple(
        effect
        for effect in report.effects
        if effect.kind in CHANGING_KINDS and posixpath.basename(effect.target) not in named
    )
