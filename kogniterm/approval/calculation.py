"""Shell arithmetic as text: what it calculates with, and what could make it run commands."""

from __future__ import annotations

import re

from kogniterm.approval.wordparts import Spans, Substitution, Unknown

HIDDEN_CODE = re.compile(r"\$\(|`|[<>]\(|\$\[")
"""What begins code inside a text that is otherwise read as a whole."""

_ARITHMETIC = re.compile(r"[\w\s+\-*/%<>=!&|^~?:(),$#.{}]*\Z", re.ASCII)


def arithmetic(text: str, start: int, end: int, spans: Spans, *, quoted: bool = True) -> Unknown:
    """The arithmetic `text[start:end]`; array subscripts can run commands, so they are opaque.

    What the substitutions in it print is taken for an expression too: they are in `inner`.
    """
    nested: list[Substitution] = []
    pieces: list[str] = []
    at = start
    for place, (stop, found) in sorted(spans.substitutions.items()):
        if not at <= place < end:
            continue
        # A number stands for what it prints, and only where it is an operand by itself.
        operand = found.kind == "command" and not re.match(r"[\w$}]", text[place - 1])
        pieces.append(text[at:place] + ("0" if operand else "["))
        nested.append(found)
        at = stop
    inner = "".join((*pieces, text[at:end])).replace(";", ",")
    plain = re.sub(r"\$\{#?\w+\}", "", inner)
    if not _ARITHMETIC.match(inner) or HIDDEN_CODE.search(inner) or "{" in plain:
        return Unknown(quoted, opaque="arithmetic that may run commands (subscripts)")
    names, targets = calculated_names(inner)
    assigns = re.search(r"([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--", inner, re.ASCII)
    return Unknown(
        quoted,
        tuple(nested),
        digits=True,
        names=names,
        assigns=assigns[1] if assigns else None,
        targets=targets,
    )


def calculated_names(inner: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables whose value an arithmetic text takes, and those it first gives one."""
    text = re.sub(r"\b(?:0[xX][0-9a-fA-F]+|\d+#\w+)", "0", inner)
    # Positional parameters have no names; they may be anything.
    found: dict[str, bool] = {"@": True} if re.search(r"\$\{?[0-9@*]", text) else {}
    for match in re.finditer(r"([A-Za-z_]\w*)(\s*=(?!=))?", text, re.ASCII):
        found.setdefault(match[1], not match[2])
    used = tuple(name for name, taken in found.items() if taken)
    return used, tuple(name for name, taken in found.items() if not taken)
