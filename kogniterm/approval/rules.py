"""The person's own rules, in TOML: read, checked with their examples, and matched.

    [[rule]]
    decision = "allow"            # allow, ask or deny; deny beats ask beats allow
    program = "npm"               # or a list; the name without its folder
    arguments = "test|run lint"   # regular expression over all arguments, joined by blanks
    reason = "the test suite"
    match = ["npm test"]          # examples that must match, checked when the file is loaded
    not_match = ["npm publish"]   # examples that must not

Further keys: `tool` (default `execute_command`), `path` (a glob: for deny and ask any file the
command touches, for allow all of them), `mode` ("manual" or "auto"). A project's file may
tighten only: an `allow` in it is an error.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, cast

from kogniterm.approval.coverage import uncovered_program, unnamed_changes
from kogniterm.approval.places import SYSTEM_FOLDERS
from kogniterm.approval.programs.git import from_verb
from kogniterm.approval.risk import classify
from kogniterm.errors import SettingsError
from kogniterm.types import CHANGING_KINDS, ApprovalMode, RiskReport, Text

Choice = Literal["allow", "ask", "deny"]
_KEYS = {
    "decision", "tool", "program", "arguments", "path", "mode", "reason", "match", "not_match",
}  # fmt: skip
_FILE_EFFECTS = CHANGING_KINDS | {"read", "secret"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `origin` names file and line for the trace."""

    decision: Choice
    origin: str
    tool: str = "execute_command"
    programs: tuple[str, ...] = ()
    arguments: re.Pattern[str] | None = None
    path: str | None = None
    mode: ApprovalMode | None = None
    reason: str = ""

    def matches(self, report: RiskReport, *, tool: str, mode: ApprovalMode) -> bool:
        """Whether the rule speaks about this command.

        An allow must cover every program and file of the command; a deny or ask, any.
        """
        if tool != self.tool or (self.mode is not None and mode != self.mode):
            return False
        every = self.decision == "allow"
        if every and not self._covers_redirections(report):
            return False
        quantify: Callable[[list[bool]], bool] = (lambda t: all(t) and bool(t)) if every else any
        speaks = self.programs or self.arguments is not None
        if (
            every
            and uncovered_program(report, self._covers if speaks else _any_program) is not None
        ):
            return False
        if speaks and not quantify([self._covers(argv) for argv in report.programs]):
            return False
        if self.path is not None:
            files = [e.target for e in report.effects if e.kind in _FILE_EFFECTS]
            reaches = _is_below if every else _may_reach
            if not quantify([reaches(name, self.path) for name in files]):
                return False
        return True

    def _covers_redirections(self, report: RiskReport) -> bool:
        """Whether no file outside is changed but by a program's own arguments, or by its path."""
        outside = (effect for effect in unnamed_changes(report, report.programs) if effect.outside)
        return self.path is not None or not any(outside)

    def _covers(self, argv: tuple[str, ...]) -> bool:
        if not argv:
            return False
        every = self.decision == "allow"
        name = called(argv[0]) if every else posixpath.basename(argv[0])
        if self.programs and name not in self.programs:
            return False
        forms = [argv[1:]] if every else [argv[1:], from_verb(argv)]
        pattern = self.arguments
        return pattern is None or any(pattern.fullmatch(" ".join(form)) for form in forms)

    @property
    def text(self) -> Text:
        """The rule's reason for people."""
        return Text("{reason}", {"reason": self.reason or f"rule {self.origin}"})


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules in force, the user's first."""

    rules: tuple[Rule, ...] = ()

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(self.rules + other.rules)


def called(program: str) -> str:
    """The name `program` goes by: bare where it is the system's, a path for any other file.

    Whoever allows a program by its name means the one on the PATH.
    """
    folder, _, base = program.rpartition("/")
    return base if folder in SYSTEM_FOLDERS else program


def _any_program(argv: tuple[str, ...]) -> bool:
    del argv
    return True


def _is_below(target: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(target, pattern)


def _may_reach(target: str, pattern: str) -> bool:
    """Whether `target`, which may hold wildcards or what is not known, could be such a file."""
    if _is_below(target, pattern):
        return True
    if not re.search(r"[*?\[…]", target):
        return False
    parts, wanted = target.replace("…", "*").split("/"), pattern.split("/")
    pairs = zip(parts, wanted, strict=False)
    return len(parts) >= len(wanted) and all(
        fnmatch.fnmatchcase(want, part) or fnmatch.fnmatchcase(part, want) for part, want in pairs
    )


def load_rules(text: str, *, origin: str, tighten_only: bool = False) -> RuleSet:
    """The rules of one file's `text`.

    Raises `SettingsError` naming `origin` and the line: not TOML, an unknown key or value, an
    example that a rule judges wrongly, or (with `tighten_only`) a rule that allows.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            "{origin} is not valid TOML: {error}.", origin=origin, error=error
        ) from None
    for key in data:
        if key != "rule":
            unknown = Text("unknown key {key!r}; rules are written as [[rule]]", {"key": key})
            _fail(text, origin, 0, key, unknown)
    tables = data.get("rule", [])
    if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
        _fail(text, origin, 0, "rule", Text("rules are written as [[rule]]"))
    loaded = [_rule(text, origin, index, item) for index, item in enumerate(tables)]
    for index, (rule, item) in enumerate(zip(loaded, tables, strict=True)):
        if tighten_only and rule.decision == "allow":
            tighten = Text("a project's rules may only tighten: no allow")
            _fail(text, origin, index, "decision", tighten)
        _check_examples(text, origin, index, rule, item)
    return RuleSet(tuple(loaded))


def _rule(text: str, origin: str, index: int, item: Mapping[str, Any]) -> Rule:
    for key in item:
        if key not in _KEYS:
            _fail(text, origin, index, key, Text("unknown key {key!r}", {"key": key}))
    if item.get("decision") not in ("allow", "ask", "deny"):
        _fail(text, origin, index, "decision", Text("decision must be allow, ask or deny"))
    if item.get("mode") not in (None, "manual", "auto"):
        _fail(text, origin, index, "mode", Text("mode must be manual or auto"))
    programs = _strings(text, origin, index, item, "program")
    for key in ("tool", "arguments", "path", "reason"):
        if not isinstance(item.get(key, ""), str):
            _fail(text, origin, index, key, Text("{key} must be a string", {"key": key}))
    if not (programs or "arguments" in item or "path" in item or "tool" in item):
        empty = Text("a rule needs a program, arguments, path or tool")
        _fail(text, origin, index, "decision", empty)
    return Rule(
        decision=cast(Choice, item["decision"]),
        origin=f"{origin}:{_line(text, index, None)}",
        tool=item.get("tool", "execute_command"),
        programs=programs,
        arguments=_pattern(text, origin, index, item.get("arguments")),
        path=item.get("path"),
        mode=cast("ApprovalMode | None", item.get("mode")),
        reason=item.get("reason", ""),
    )


def _pattern(text: str, origin: str, index: int, value: str | None) -> re.Pattern[str] | None:
    if value is None:
        return None
    try:
        return re.compile(value, re.DOTALL)
    except re.error as error:
        wrong = Text("arguments is no regular expression: {why}", {"why": error})
        _fail(text, origin, index, "arguments", wrong)


def _strings(
    text: str, origin: str, index: int, item: Mapping[str, Any], key: str
) -> tuple[str, ...]:
    value = item.get(key, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(entry, str) for entry in values):
        wrong = Text("{key} must be a string or a list of strings", {"key": key})
        _fail(text, origin, index, key, wrong)
    return tuple(values)


def _check_examples(
    text: str, origin: str, index: int, rule: Rule, item: Mapping[str, Any]
) -> None:
    for key, wanted in (("match", True), ("not_match", False)):
        for example in _strings(text, origin, index, item, key):
            report = classify(example)
            mode: ApprovalMode = rule.mode or "manual"
            if rule.matches(report, tool=rule.tool, mode=mode) != wanted:
                values = {"key": key, "example": example}
                if wanted:
                    said = Text("the rule does not match its {key} example {example!r}", values)
                else:
                    said = Text("the rule matches its {key} example {example!r}", values)
                _fail(text, origin, index, key, said)


def _fail(text: str, origin: str, index: int, at: str, wrong: Text) -> NoReturn:
    line = _line(text, index, at)
    raise SettingsError("{origin}, line {line}: {wrong}.", origin=origin, line=line, wrong=wrong)


def _line(text: str, index: int, key: str | None) -> int:
    """The line (from 1) of `key` in the table number `index`, or of the table's head."""
    seen = -1
    head = 1
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*\[\[\s*rule\s*\]\]", line):
            seen += 1
            if seen == index:
                head = number
            continue
        here = seen in {index, -1} and key is not None
        if here and re.match(rf"\s*[\"']?{re.escape(key or '')}\b", line):
            return number
    return head


def quoted(argv: tuple[str, ...]) -> str:
    """An argv as shell text."""
    return shlex.join(argv)
