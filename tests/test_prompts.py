"""Tests of the texts for the model: the files of the package, and the user's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm import prompts
from kogniterm.agent.plan.plan_tools import COMPLETE_STEP, MAKE_PLAN
from kogniterm.agent.subagent import DELEGATE
from tests.house.source import Tree

ROOT = Path(__file__).resolve().parents[1]
TEXTS = {
    f"{name}.{part}".rstrip("."): text
    for name, file in prompts.shipped().items()
    for part, text in file.texts.items()
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_shipped_text_uses_exactly_the_variables_it_declares(name: str) -> None:
    text = TEXTS[name]
    assert text.text
    # A tool's description is not filled in.
    assert set(text.used) == set(text.variables), name


def calls() -> Iterator[tuple[str, set[str], str]]:
    """Yield the name, the variables and the place of each call of `prompts.text` in the package."""
    for module in Tree(ROOT):
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "prompts.text":
                continue
            first = node.args[0]
            if isinstance(first, ast.Constant):
                given = {str(keyword.arg) for keyword in node.keywords}
                yield str(first.value), given, module.at(node.lineno)


def test_code_fills_in_exactly_the_variables_of_each_text() -> None:
    found = list(calls())
    assert len(found) > 20
    wrong = [
        place
        for name, given, place in found
        if name not in TEXTS or given != set(TEXTS[name].variables)
    ]
    assert wrong == []


def test_every_text_is_used() -> None:
    words = "\n".join(module.text for module in Tree(ROOT))
    loose = {name for name in TEXTS if f'"{name}"' not in words and f"'{name}'" not in words}
    # Asked for by the kind of sub-agent or sandbox, and by the name of the tool.
    kinds = {"subagent.reading", "subagent.acting", "sandbox.bubblewrap", "sandbox.landlock"}
    assert loose - kinds == {name for name in loose if name.startswith("tools.")}


def test_each_tool_has_its_description() -> None:
    for spec in (MAKE_PLAN, COMPLETE_STEP, DELEGATE):
        assert prompts.described(spec).description == prompts.of_tool(spec.name)[0] != ""
    steps = prompts.described(MAKE_PLAN).parameters["properties"]["steps"]
    assert steps["items"]["properties"]["id"]["description"] == "s1, s2, …"
    assert "description" not in MAKE_PLAN.parameters["properties"]["steps"]["items"]


def test_values_are_filled_in_once_and_other_braces_stay() -> None:
    filled = prompts.text("decide_action.user_said", text="{count} and {text}")
    assert filled.endswith("{count} and {text}")
    assert '{"facts": [{"text": "",' in prompts.text("extract_facts.read", today="today")


def test_a_text_is_found_again_whatever_its_variables_were() -> None:
    said = f"before\n{prompts.text('final_response.steps_open', steps='s1, s2')}\nbehind"
    assert prompts.occurs("final_response.steps_open", said)
    assert not prompts.occurs("final_response.steps_closed", said)
