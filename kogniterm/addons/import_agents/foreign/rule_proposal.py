"""Permissions of Claude Code as rules for policy.toml, every line of them a comment.

They are a proposal only: its patterns match the beginning of a command's text, KogniTerm's rules a
program with its arguments (code.claude.com/docs/en/permissions: `Bash(git push:*)`, `Bash(make *)`,
`Bash(npm test)`; other tools have patterns of their own).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable

from kogniterm.text.redact import redact
from kogniterm.text.visible import render_line

_COMMAND = re.compile(r"Bash\((.+)\)", re.DOTALL)
_TAIL = re.compile(r"(?P<start>.*?)(?::\*| \*|\*)", re.DOTALL)
_UNSAFE = re.compile(r"[*?&|;<>()$`\\\n]")


def proposed_rules(rules: Iterable[tuple[str, str]]) -> list[str]:
    """Return decisions with their words as lines of TOML, each behind a `#`: none is in force."""
    lines: list[str] = []
    for decision, words in rules:
        made = _rule(decision, words)
        if made is None:
            shown = redact(render_line(words))
            lines.append(f"# {decision}: {shown} (no exact counterpart)")
        else:
            lines += ["#", *(f"# {line}" for line in made)]
    return lines


def _rule(decision: str, told: str) -> list[str] | None:
    """Return the lines of one rule, or None if its pattern has no exact counterpart."""
    found = _COMMAND.fullmatch(told)
    if found is None:
        return None
    tail = _TAIL.fullmatch(found[1])
    text = tail["start"].rstrip() if tail else found[1]
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if not words or _UNSAFE.search(text) or "/" in words[0]:
        return None
    lines = ["[[rule]]", f'decision = "{decision}"', f"program = {_toml_string(words[0])}"]
    arguments = re.escape(" ".join(words[1:])).replace(r"\ ", " ")
    if tail and arguments:
        arguments += "( .*)?"
    if arguments or not tail:
        lines.append(f"arguments = {_toml_string(redact(arguments))}")
    return lines


def _toml_string(text: str) -> str:
    """Return a text as a TOML string, which is written as JSON has it."""
    return json.dumps(text)
