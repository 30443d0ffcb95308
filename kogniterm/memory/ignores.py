"""Which paths of a project are not looked at: what git ignores, and what is never source. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NEVER = frozenset(
    (
        ".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", "dist", "build", "target", ".next",
        ".gradle", ".idea", ".vscode", "vendor", ".terraform", ".cache", "coverage", ".direnv",
    )
)  # fmt: skip
"""Folders that hold no source of the project, ignored or not."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a `.gitignore` found in `base` (posix, "" for the root)."""

    base: str
    pattern: re.Pattern[str]
    keep: bool
    folders_only: bool


def parse(lines: Iterable[str], base: str) -> list[Rule]:
    """The rules of a `.gitignore` in folder `base`, in order."""
    rules = []
    for line in lines:
        line = line.rstrip("\r\n")
        line = line if line.endswith("\\ ") else line.rstrip(" ")
        if not line or line.startswith("#"):
            continue
        keep = line.startswith("!")
        line = line[1:] if keep else line.removeprefix("\\")
        folders_only = line.endswith("/")
        line = line.rstrip("/")
        if line:
            rules.append(Rule(base, re.compile(_expression(line)), keep, folders_only))
    return rules


def is_ignored(path: str, is_folder: bool, rules: Sequence[Rule]) -> bool:
    """Whether `path` (posix, from the root) is ignored; the last rule that matches decides."""
    for rule in reversed(rules):
        if rule.folders_only and not is_folder:
            continue
        if rule.base and not path.startswith(rule.base + "/"):
            continue
        inner = path[len(rule.base) + 1 :] if rule.base else path
        if rule.pattern.fullmatch(inner):
            return not rule.keep
    return False


def _expression(pattern: str) -> str:
    """A pattern of gitignore(5) as a regular expression over the path below its folder."""
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/")
    parts: list[str] = []
    index = 0
    while index < len(pattern):
        if pattern.startswith("**/", index):
            parts.append("(?:.*/)?")
            index += 3
            continue
        if pattern.startswith("/**", index) and index + 3 == len(pattern):
            parts.append("/.*")
            index += 3
            continue
        letter = pattern[index]
        closing = pattern.find("]", index + 2) if letter == "[" else -1
        if closing > 0:
            inside = pattern[index + 1 : closing].replace("\\", "\\\\")
            parts.append("[^/" + inside[1:] + "]" if inside[0] in "!^" else f"[{inside}]")
            index = closing
        elif letter == "\\" and index + 1 < len(pattern):
            index += 1
            parts.append(re.escape(pattern[index]))
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(letter) or re.escape(letter))
        index += 1
    body = "".join(parts)
    return body if anchored else f"(?:.*/)?{body}"
