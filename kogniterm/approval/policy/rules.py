"""The user's own rules, in TOML: read, checked with their examples, and matched.

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
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from kogniterm.approval.analysis.analyser import classify
from kogniterm.approval.analysis.paths_and_variables import SYSTEM_FOLDERS
from kogniterm.approval.analysis.program_call import UNREAD
from kogniterm.approval.programs.git import from_verb
from kogniterm.errors import SettingsError
from kogniterm.types import CHANGING_KINDS, ApprovalMode, Effect, Phrase, RiskReport

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
        """Return whether the rule speaks about this command.

        An allow must cover every program and file of the command; a deny or ask, any.
        """
        if tool != self.tool or (self.mode is not None and mode != self.mode):
            return False
        every = self.decision == "allow"
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
        forms = [argv[1:]] if every else [argv[1:], from_verb(argv)]
        pattern = self.arguments
        return pattern is None or any(pattern.fullmatch(" ".join(form)) for form in forms)

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


class _RuleError(Exception):
    """A mistake in a rule, and the key where it stands."""

    def __init__(self, key: str, wrong: Phrase) -> None:
        super().__init__(key)
        self.key = key
        self.wrong = wrong


def load_rules(text: str, *, origin: str, tighten_only: bool = False) -> RuleSet:
    """Return the rules of one file's `text`.

    Raises `SettingsError` naming `origin` and the line: not TOML, an unknown key or value, an
    example that a rule judges wrongly, or (with `tighten_only`) a rule that allows.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            "{origin} is not valid TOML: {error}.", origin=origin, error=error
        ) from None
    index = 0
    loaded = []
    try:
        for index, item in enumerate(_tables(data)):
            rule = _rule(item, f"{origin}:{_line(text, index, None)}")
            if tighten_only and rule.decision == "allow":
                only = Phrase("project rules cannot use allow; use ask or deny")
                raise _RuleError("decision", only)
            _check_examples(rule, item)
            loaded.append(rule)
    except _RuleError as found:
        line = _line(text, index, found.key)
        raise SettingsError(
            "{origin}, line {line}: {wrong}.", origin=origin, line=line, wrong=found.wrong
        ) from None
    return RuleSet(tuple(loaded))


def _tables(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    for key in data:
        if key != "rule":
            unknown = Phrase("unknown key {key!r}; write rules as [[rule]] tables", {"key": key})
            raise _RuleError(key, unknown)
    tables = data.get("rule", [])
    if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
        raise _RuleError("rule", Phrase("rules must be written as [[rule]] tables"))
    return tables


def _rule(item: Mapping[str, Any], origin: str) -> Rule:
    for key in item:
        if key not in _KEYS:
            raise _RuleError(key, Phrase("unknown key {key!r}", {"key": key}))
    if item.get("decision") not in ("allow", "ask", "deny"):
        raise _RuleError("decision", Phrase("decision must be allow, ask or deny"))
    if item.get("mode") not in (None, "manual", "auto"):
        raise _RuleError("mode", Phrase("mode must be manual or auto"))
    programs = _strings(item, "program")
    for key in ("tool", "arguments", "path", "reason"):
        if not isinstance(item.get(key, ""), str):
            raise _RuleError(key, Phrase("{key} must be a string", {"key": key}))
    if not (programs or "arguments" in item or "path" in item or "tool" in item):
        raise _RuleError(
            "decision", Phrase("a rule needs at least one of: program, arguments, path, tool")
        )
    try:
        arguments = item.get("arguments")
        pattern = None if arguments is None else re.compile(arguments, re.DOTALL)
    except re.error as error:
        wrong = Phrase("arguments is not a valid regular expression: {why}", {"why": error})
        raise _RuleError("arguments", wrong) from None
    return Rule(
        decision=cast(Choice, item["decision"]),
        origin=origin,
        tool=item.get("tool", "execute_command"),
        programs=programs,
        arguments=pattern,
        path=item.get("path"),
        mode=cast("ApprovalMode | None", item.get("mode")),
        reason=item.get("reason", ""),
    )


def _strings(item: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = item.get(key, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(entry, str) for entry in values):
        raise _RuleError(key, Phrase("{key} must be a string or a list of strings", {"key": key}))
    return tuple(values)


def _check_examples(rule: Rule, item: Mapping[str, Any]) -> None:
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
            raise _RuleError(key, wrong)


def _line(text: str, index: int, key: str | None) -> int:
    """Return the line (from 1) of `key` in the table number `index`, or of the table's head."""
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
