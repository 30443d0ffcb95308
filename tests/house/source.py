"""A source tree for the gates: modules, their syntax trees, and their imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

PACKAGE = "kogniterm"


@dataclass(frozen=True)
class Import:
    """One import: the imported module, and when the import happens."""

    target: str
    line: int
    lazy: bool
    typing_only: bool

    @property
    def root(self) -> str:
        return self.target.partition(".")[0]


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    path: Path
    text: str
    tree: ast.Module
    imports: tuple[Import, ...]

    def at(self, line: int) -> str:
        return f"{self.path}:{line}"

    def within(self, *prefixes: str) -> bool:
        return any(self.name == p or self.name.startswith(p + ".") for p in prefixes)


class Tree:
    """All modules below `root`, which contains the package folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        files = sorted((root / PACKAGE).rglob("*.py"))
        names = {_module_name(root, file): file for file in files}
        self.modules = {name: _read(name, file, names) for name, file in names.items()}

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules.values())

    def home(self, target: str) -> str | None:
        """Return the module of the package that `target` names, or None for another library."""
        while target:
            if target in self.modules:
                return target
            target = target.rpartition(".")[0]
        return None

    @cached_property
    def edges(self) -> dict[str, tuple[Import, ...]]:
        """Imports that happen at run time, by importing module."""
        return {m.name: tuple(i for i in m.imports if not i.typing_only) for m in self}

    def reach(self, start: Iterable[str], *, lazy: bool) -> dict[str, str]:
        """Return every module and library reached from `start`, with the module that imports it.

        Importing `a.b.c` runs the `__init__` of `a` and `a.b` too.
        """
        found: dict[str, str] = {}
        waiting = [(name, "") for name in start]
        while waiting:
            name, importer = waiting.pop()
            if name in found:
                continue
            found[name] = importer
            home = self.home(name)
            if home is None:
                continue
            if home != name:
                waiting.append((home, importer))
            parent = home.rpartition(".")[0]
            if parent:
                waiting.append((parent, home))
            waiting.extend((i.target, home) for i in self.edges[home] if lazy or not i.lazy)
        return found


@cache
def checkout() -> Tree:
    """Return the tree of this checkout, parsed once for all tests of a process."""
    return Tree(Path(__file__).resolve().parents[2])


def _module_name(root: Path, file: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, path: Path, names: dict[str, Path]) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    found = tuple(_imports(tree, name, path, names))
    return Module(name, path, text, tree, found)


@cache
def _trees() -> dict[Path, ast.Module]:
    return {module.path: module.tree for module in checkout()}


def parsed(file: Path) -> ast.Module:
    """Return the syntax tree of a file; one of the package is parsed once in a process."""
    found = _trees().get(file)
    return found or ast.parse(file.read_text(encoding="utf-8"), str(file))


def _is_for_typing(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return bool(name == "TYPE_CHECKING")


def _imports(tree: ast.Module, name: str, path: Path, names: dict[str, Path]) -> Iterator[Import]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]

    def walk(node: ast.AST, lazy: bool, typing_only: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, child.lineno, lazy, typing_only)
            elif isinstance(child, ast.ImportFrom):
                base = _absolute(child, package)
                for alias in child.names:
                    inner = f"{base}.{alias.name}"
                    target = inner if inner in names else base
                    yield Import(target, child.lineno, lazy, typing_only)
            elif isinstance(child, ast.If) and _is_for_typing(child.test):
                for part in child.body:
                    yield from walk(ast.Module([part], []), lazy, True)
                for part in child.orelse:
                    yield from walk(ast.Module([part], []), lazy, typing_only)
            else:
                inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                yield from walk(child, lazy or inside, typing_only)

    return walk(tree, False, False)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - node.level + 1])
    return f"{base}.{node.module}" if node.module else base
