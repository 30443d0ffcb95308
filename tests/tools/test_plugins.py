"""Tools of other packages are loaded when named, and a mistake in one costs only that one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm.errors import ToolError
from kogniterm.protocols import Tool
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.plugins import LoadedPlugins, load_plugins
from tests.support.tool_package import BAD, GOOD, MODULES, install

TAKEN = ("read_file",)


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    yield tmp_path / "packages"
    for name in [name for name in sys.modules if name.partition(".")[0] in ("acme", "other")]:
        del sys.modules[name]


def named(loaded: LoadedPlugins) -> dict[str, Tool]:
    return {plugin.tool.spec.name: plugin.tool for plugin in loaded.plugins}


async def test_functions_of_an_installed_package_become_tools(target: Path) -> None:
    install(target)
    loaded = load_plugins(["acme-tools"], TAKEN)
    assert loaded.problems == ()
    assert set(named(loaded)) == set(GOOD)
    plugins = {plugin.tool.spec.name: plugin for plugin in loaded.plugins}
    assert {name: one.effect for name, one in plugins.items()} == {
        "count_words": "none", "stamp": "edit", "send_stamp": "network", "breaks": "none",
        "gives_number": "none",
    }  # fmt: skip
    assert {(one.package, one.version) for one in loaded.plugins} == {("acme-tools", "1.2")}
    count = named(loaded)["count_words"]
    assert count.spec.description == "Count the words of a text."
    assert count.spec.parameters["required"] == ["text"]
    assert count.spec.parameters["properties"]["least"]["description"] == "letters"
    checked = count.check({"text": "one two"})
    assert checked == {"text": "one two", "least": 1}
    assert (await count.run(checked)).text.startswith("2 words")
    assert named(loaded)["send_stamp"].hosts({"to": "x"}) == ("stamps.example.org",)


def test_no_tool_of_another_package_says_that_it_has_no_effect(target: Path) -> None:
    install(target)
    for tool in named(load_plugins(["acme-tools"], TAKEN)).values():
        assert tool.spec.effect == "external"
        assert tool.effect_of({}) == "external"


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("breaks", {}, r"breaks failed: ValueError: broken"),
        ("gives_number", {}, "returned int instead of text"),
        ("send_stamp", {"to": "Ana"}, "Ana has no post office"),
    ],
)
async def test_no_error_escapes(
    target: Path, name: str, arguments: dict[str, str], why: str
) -> None:
    install(target)
    tool = named(load_plugins(["acme-tools"], TAKEN))[name]
    with pytest.raises(ToolError, match=why) as failure:
        await tool.run(tool.check(arguments))
    assert "\x1b" not in str(failure.value)


@pytest.mark.parametrize(
    "given", [{}, {"text": 5}, {"text": "a", "least": 0}, {"text": "", "x": 1}]
)
def test_arguments_are_checked_by_their_types(target: Path, given: dict[str, object]) -> None:
    install(target)
    with pytest.raises(ToolError, match="Invalid arguments for count_words"):
        named(load_plugins(["acme-tools"], TAKEN))["count_words"].check(given)


def test_each_mistake_is_one_sentence_and_the_others_are_loaded(target: Path) -> None:
    install(target, {**BAD, "count_words": "acme.tools:count_words"})
    loaded = load_plugins(["acme-tools"], TAKEN)
    assert list(named(loaded)) == ["count_words"]
    told = {str(one).split()[2]: str(one) for one in loaded.problems}
    for name, why in {
        "needs_nothing": "ModuleNotFoundError: No module named 'acme.nothing'",
        "clashes": "the name read_file is already in use",
        "untyped": "its argument text has no type",
        "edits_nothing": "a tool that edits needs an argument path",
        "magic": "its effect must be one of none, edit, network, command",
        "silent": "it has no description; write one into its docstring",
        "unmarked": "neither a function marked with kogniterm.tools.tool nor",
        "number": "neither a function marked with kogniterm.tools.tool nor",
        "missing": "AttributeError: module 'acme.tools' has no attribute 'missing'",
        "fails": "RuntimeError: no licence",
        "leaves": "SystemExit: 3",
        "bad": "its name must be a letter and up to 63 letters",
    }.items():
        assert why in told[name]
        assert told[name].startswith(f"The tool {name}")
        assert "of acme-tools was not loaded" in told[name]
    assert len(loaded.problems) == len(BAD)


def test_a_package_without_tools_or_that_is_not_there_is_named(target: Path) -> None:
    install(target, {}, name="other-tools")
    loaded = load_plugins(["other-tools", "no-such-package", ""], TAKEN)
    assert [str(one).partition(";")[0] for one in loaded.problems][:2] == [
        "The package other-tools has no entry point kogniterm.tools, so it provides no tools.",
        "tool_packages names no-such-package, which is not installed",
    ]
    assert "pip install no-such-package" in str(loaded.problems[1])


def test_only_packages_that_are_named_are_loaded(target: Path) -> None:
    install(target)
    assert load_plugins([], TAKEN) == LoadedPlugins()
    assert "acme" not in sys.modules


def test_of_two_tools_with_one_name_the_first_is_kept(target: Path) -> None:
    install(target)
    install(
        target,
        {"count_words": "other.tools:count_words"},
        name="other-tools",
        modules={"other/__init__.py": "", "other/tools.py": MODULES["acme/tools.py"]},
    )
    loaded = load_plugins(["acme-tools", "other-tools"], TAKEN)
    assert named(loaded)["count_words"] is not None
    assert [one.package for one in loaded.plugins if one.tool.spec.name == "count_words"] == [
        "acme-tools"
    ]
    assert "the name count_words is already in use" in str(loaded.problems[0])


OBJECT = """
from kogniterm.tools.base import Arguments, SchemaTool

class Word(Arguments):
    word: str

async def run(arguments):
    return arguments.word[::-1]

def describe(arguments):
    return "harmless \\x1b[2K words", "because"

turned = SchemaTool("turned", Word, run, describe=describe, description="Turn a word round.")
kind = SchemaTool
"""


async def test_an_object_of_the_protocol_is_a_tool_too(target: Path) -> None:
    """Its own words stand behind the call itself, which it cannot hide."""
    entries = {"turned": "other.tools:turned", "kind": "other.tools:kind"}
    install(
        target,
        entries,
        name="other-tools",
        modules={"other/__init__.py": "", "other/tools.py": OBJECT},
    )
    loaded = load_plugins(["other-tools"], TAKEN)
    tool = named(loaded)["turned"]
    assert (await tool.run(tool.check({"word": "abc"}))).text == "cba"
    line, purpose = tool.describe({"word": "abc"})
    assert line == "turned(word='abc')"
    assert purpose.endswith("words because")
    assert "\x1b" not in purpose
    assert "neither a function" in str(loaded.problems[0])


def test_a_tool_of_ours_is_a_tool_of_the_protocol() -> None:
    class Nothing(Arguments):
        pass

    async def run(arguments: Nothing) -> str:
        return ""

    tool: Tool = SchemaTool("nothing", Nothing, run)
    assert tool.spec.may is None
