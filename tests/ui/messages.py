"""Every sentence of the package that a user can read, found in the syntax trees.

Counted are: the argument of `_()`, both forms of `plural()`, the template of a `Phrase`, and the
template of a `KognitermError` (the first argument of a call of one of its kinds). A constant of the
module counts where it is passed to `_()`, and so do the words that stand in the command line's
tables and whatever is given to `mark()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import kogniterm
from tests.house.source import parsed

PACKAGE = Path(kogniterm.__file__).parent


@cache
def _errors(package: Path) -> frozenset[str]:
    """Return the names of all errors with a message for the user, wherever they are defined."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for file in package.rglob("*.py")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.ClassDef)
    }
    known = {"KognitermError", "UnusableValueError"}
    while more := {name for name, above in bases.items() if above & known} - known:
        known |= more
    return frozenset(known)


TEMPLATES = {
    "approval/analysis/program_call.py",
    "approval/analysis/shared_findings.py",
    "approval/programs/basic_rules.py",
    "storage/drivers.py",
    "execution/effect_preview.py",
    "runtime/budgets.py",
    "settings/schema.py",
}
"""Modules that choose a template from a table: every string with a placeholder counts, and so
do the values of a table called _KINDS."""

FINDINGS = {
    "note": 1, "ask": 0, "danger": 0, "_give_up": 0, "UnreadError": 0, "_opaque": 0, "Opaque": 1,
    "_ask": 1, "_danger": 1, "notes": 0, "scan": 1,
}  # fmt: skip
"""Position of the sentence in the calls that make a finding, in kogniterm/approval only."""

ADD_ONS = PACKAGE / "addons" / "table.py"
"""Its rows are plain tuples."""
TABLES = {"Verb": (2,), "Action": (1,), "Argument": (1, 2), "Example": (1,)}
"""Arguments of a table's rows that a user reads."""


@dataclass(frozen=True)
class Message:
    """A sentence; `many` is its plural form. `where` is file:line."""

    text: str
    where: str
    many: str | None = None


@cache
def messages() -> tuple[Message, ...]:
    """Return all messages, in the order of the files."""
    return tuple(_messages(PACKAGE))


def _messages(package: Path) -> Iterator[Message]:
    for file in sorted(package.rglob("*.py")):
        tree = parsed(file)
        names, constants = _local_names(tree), _constants(tree)
        if str(file.relative_to(package)) in TEMPLATES:
            yield from _templates(tree, str(file.relative_to(package)))
        if file == ADD_ONS:
            yield from _helps(tree, str(file.relative_to(package)))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                where = f"{file.relative_to(package)}:{node.lineno}"
                yield from _of_call(node, names, constants, where)


def _helps(tree: ast.Module, where: str) -> Iterator[Message]:
    """Yield the helps of the verbs: the last element of each row with four."""
    for node in ast.walk(tree):
        words = _literal(node.elts[3]) if isinstance(node, ast.Tuple) and node.elts[3:4] else None
        if words:
            yield Message(words, f"{where}:{node.lineno}")


def dynamic(package: Path = PACKAGE) -> Iterator[str]:
    """Yield places where `_` is given something that is not a literal: it cannot be translated."""
    for file in sorted(package.rglob("*.py")):
        if file.parent.name == "locale":
            continue
        tree = parsed(file)
        for node in ast.walk(tree):
            translated = isinstance(node, ast.Call) and _name(node.func) in ("_", "plural")
            if (
                translated
                and node.args
                and any(_literal(argument) is None for argument in node.args[:1])
            ):
                yield f"{file.relative_to(package)}:{node.lineno}"


def _of_call(
    node: ast.Call, names: dict[str, str], constants: dict[str, str], where: str
) -> Iterator[Message]:
    name = _name(node.func)
    name = names.get(name, name)
    for argument in TABLES.get(name, ()):
        words = _literal(node.args[argument]) if len(node.args) > argument else None
        if words:
            yield Message(words, where)
    found = where.startswith("approval/") and name in FINDINGS
    if found and len(node.args) > FINDINGS[name]:
        words = _literal(node.args[FINDINGS[name]])
        if words:
            yield Message(words, where)
    if name == "_" and node.args and _name(node.args[0]) in constants:
        yield Message(constants[_name(node.args[0])], where)
    first = _literal(node.args[0]) if node.args else None
    if not first:
        return
    if name == "plural":
        yield Message(first, where, _literal(node.args[1]))
    elif name in ("_", "mark", "Phrase") or name in _errors(PACKAGE):
        yield Message(first, where)


def _local_names(tree: ast.Module) -> dict[str, str]:
    """Return the original names of imported ones; a Text of another package counts as foreign."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                local = alias.asname or alias.name
                foreign = alias.name == "Text" and not (node.module or "").endswith("types")
                found[local] = "foreign" if foreign else alias.name
    return found


def _templates(tree: ast.Module, where: str) -> Iterator[Message]:
    for node in ast.walk(tree):
        text = _literal(node) if isinstance(node, ast.expr) else None
        if text and "{" in text and " " in text:
            yield Message(text, f"{where}:{getattr(node, 'lineno', 0)}")
        kinds = isinstance(node, ast.Assign) and _name(node.targets[0]) == "_KINDS"
        if kinds and isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            for value in node.value.values:
                yield Message(_literal(value) or "", f"{where}:{value.lineno}")


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the module's own constant strings by name."""
    return {
        target.id: value
        for node in tree.body
        if isinstance(node, ast.Assign) and (value := _literal(node.value)) is not None
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
