"""Every function, constant, option, fixture and file of test data has a user.

Settings without a reader are found by `test_pages`, prompts by `tests/test_prompts.py`, entries of
the catalogue by `tests/ui/test_locale.py`, and rows of the table of marks by `test_markers`.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from kogniterm.settings import Settings
from tests.house.gates import HEAVY, OWNERS

ROOT = Path(__file__).parents[2]
CALLED_BY_NAME = {
    *("on_connect", "new_session", "resume_session", "list_sessions", "close_session"),
    *("set_session_mode", "set_config_option", "session_update", "create_elicitation"),  # acp
    *("get_tokens", "get_client_info", "set_tokens", "set_client_info", "verify_token"),  # mcp
    *("_map", "_condition"),  # by the kind of a recipe's step
}
"""Methods that a library calls, or code that puts their names together."""
Functions = ast.FunctionDef | ast.AsyncFunctionDef


def sources(*folders: str) -> dict[str, str]:
    """Return the texts of the Python files below these folders of the repository."""
    files = sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in files}


def words(texts: Iterable[str]) -> Counter[str]:
    """Return how often each word stands in the texts."""
    return Counter(word for text in texts for word in re.findall(r"\w+", text))


def definitions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions, classes and constants that a file alone gives their names.

    What a decorator registers has a user, and so have methods that a foreign base class calls.
    """
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((one.id, node) for one in targets if isinstance(one, ast.Name))
        elif isinstance(node, Functions | ast.ClassDef):
            yield node.name, node
        if isinstance(node, ast.ClassDef) and not node.bases:
            yield from ((one.name, one) for one in node.body if isinstance(one, Functions))


def unused(texts: Mapping[str, str], elsewhere: Iterable[str] = ()) -> list[str]:
    """Return what the files define and neither they nor the texts `elsewhere` name again."""
    found = [
        (name, file)
        for file, text in texts.items()
        for name, node in definitions(ast.parse(text))
        if not name.startswith("__") and not getattr(node, "decorator_list", [])
    ]
    defined = Counter(name for name, _file in found)
    named = words([*texts.values(), *elsewhere, *CALLED_BY_NAME])
    return [f"{file}: {name}" for name, file in found if named[name] <= defined[name]]


def fixtures_without_a_test(texts: Mapping[str, str]) -> list[str]:
    """Return the fixtures whose names stand nowhere but in their definition."""
    named, found = words(texts.values()), []
    for file, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, Functions) and any(map(_is_asked_for, node.decorator_list)):
                found += [f"{file}: {node.name}"] if named[node.name] < 2 else []
    return found


def _is_asked_for(decorator: ast.expr) -> bool:
    text = ast.unparse(decorator)
    return text.startswith("pytest.fixture") and "autouse=True" not in text and "name=" not in text


def test_everything_in_the_package_is_used() -> None:
    pages = [(ROOT / "docs" / "generate.py").read_text("utf-8")]
    assert unused(sources("kogniterm"), pages) == []


def test_every_helper_of_the_tests_is_used() -> None:
    texts = sources("tests", "benchmarks", "docs", "packaging")
    texts.pop("tests/house/test_dead_ends.py")
    every = unused(texts, sources("kogniterm").values())  # fakes have the methods of our protocols
    ours = [one for one in every if not re.search(r": (test_|pytest_|Test|main$)", one)]
    assert ours == []
    assert fixtures_without_a_test(texts) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def used(): pass\nused()", []),
        ("def left_over(): pass", ["a.py: left_over"]),
        ("LEFT = 1\nclass Kept:\n    def left(self): pass\nKept()", ["a.py: LEFT", "a.py: left"]),
        ("class Kept(Foreign):\n    def called_by_it(self): pass\nKept()", []),
        ("@registered\ndef kept(): pass", []),
    ],
)
def test_what_is_left_over_is_found(text: str, found: list[str]) -> None:
    assert unused({"a.py": text}) == found


def test_a_fixture_without_a_test_is_found() -> None:
    text = "@pytest.fixture\ndef {name}(): ...\ndef test_it(folder): ..."
    assert fixtures_without_a_test({"a.py": text.format(name="folder")}) == []
    assert fixtures_without_a_test({"a.py": text.format(name="other")}) == ["a.py: other"]


def test_every_file_of_test_data_is_read() -> None:
    data = ROOT / "tests" / "data"
    readers = "\n".join(sources("tests", "benchmarks", "docs").values())
    assert [one.name for one in data.iterdir() if one.stem not in readers] == []


def options(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the options and arguments of the command line, and the names of their values."""
    for text in texts.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Argument"):
                given = dict(zip(("name", "help", "metavar", "field"), node.args, strict=False))
                given |= {one.arg or "": one.value for one in node.keywords}
                if isinstance(name := given["name"], ast.Constant):
                    field = ast.literal_eval(given.get("field", ast.Constant("")))
                    yield name.value, field or name.value.lstrip("-").replace("-", "_")


def read_parameters(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the parameters of functions that their bodies read."""
    for text in texts.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                within = [name for line in node.body for name in ast.walk(line)]
                read = {name.id for name in within if isinstance(name, ast.Name)}
                yield from read & {one.arg for one in node.args.args + node.args.kwonlyargs}


def test_every_option_is_read() -> None:
    readers = "\n".join(sources("kogniterm").values())
    found = list(options(sources("kogniterm/cli")))
    known = {*Settings.model_fields, *read_parameters(sources("kogniterm/cli"))}
    unread = [
        option
        for option, name in found
        if name not in known and not re.search(rf'\.{name}\b|"{name}"', readers)
    ]
    assert len(found) > 100
    assert unread == []


def test_every_gate_has_its_object() -> None:
    text = (ROOT / "tests" / "house" / "gates.py").read_text("utf-8")
    modules = {one for one in re.findall(r'"(kogniterm[\w.]*)"', text) if not one.endswith(".")}
    libraries = {*OWNERS, *HEAVY}
    missing = [one for one in sorted(modules | libraries) if importlib.util.find_spec(one) is None]
    assert missing == []
