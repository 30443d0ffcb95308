"""Tests of the texts for the model: the files of the package, and the user's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm import prompts
from kogniterm.agent.plan.plan_tools import COMPLETE_STEP, MAKE_PLAN
from kogniterm.agent.subagent import DELEGATE
from kogniterm.agent.tool_dispatch import MAX_CALLS
from kogniterm.errors import SettingsError
from tests.house.source import checkout

ROOT = Path(__file__).resolve().parents[1]
TEXTS = {
    f"{name}.{part}".rstrip("."): text
    for name, file in prompts.shipped_files().items()
    for part, text in file.texts.items()
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_shipped_text_uses_exactly_the_variables_it_declares(name: str) -> None:
    text = TEXTS[name]
    assert text.text
    # A tool's description is not filled in.
    assert set(text.used) == set(text.variables), name


def test_the_most_calls_of_a_reply_are_told_before_they_are_passed() -> None:
    assert f"in one reply (at most {MAX_CALLS})" in TEXTS["system"].text


def calls() -> Iterator[tuple[str, set[str], str]]:
    """Yield the name, the variables and the place of each call of `prompts.text` in the package."""
    for module in checkout():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr != "text" or ast.unparse(node.func) != "prompts.text":
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
    words = "\n".join(module.text for module in checkout())
    loose = {name for name in TEXTS if f'"{name}"' not in words and f"'{name}'" not in words}
    # Asked for by the kind of sub-agent or sandbox, by the name of the tool, also of those served
    # to other agents, and by the value of the preference (tests/memory/test_preferences.py).
    kinds = {"subagent.reading", "subagent.acting"}
    kinds |= {"plan_steps.hand_over", "plan_steps.hand_over_named"}
    by_name = ("tools.", "preferences.", "served.", "sandbox.")
    assert loose - kinds == {name for name in loose if name.startswith(by_name)}


def test_each_tool_has_its_description() -> None:
    for spec in (MAKE_PLAN, COMPLETE_STEP, DELEGATE):
        assert prompts.describe_tool(spec).description == prompts.of_tool(spec.name)[0] != ""
    steps = prompts.describe_tool(MAKE_PLAN).parameters["properties"]["steps"]
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


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return an empty folder of the user's texts; the shipped ones are in force afterwards."""
    yield tmp_path
    prompts.use({})


def put(folder: Path, name: str, source: str) -> None:
    (folder / f"{name}.md").write_text(source, encoding="utf-8")
    prompts.use(prompts.own_files(folder))


@pytest.mark.parametrize("name", prompts.shipped_files())
def test_what_safety_rests_on_stands_in_the_shipped_file(name: str) -> None:
    assert prompts.without_safety(prompts.shipped_files()[name]) == []


def test_texts_that_safety_rests_on_are_named() -> None:
    kept = {name for name, text in TEXTS.items() if text.keep}
    assert kept >= {"system", "judge", "subagent.acting", "memory.heading", "execute_tool.refused"}


def test_the_users_text_takes_the_place_of_the_shipped_one(folder: Path) -> None:
    put(folder, "system", "You are terse. {system} {folder} {date}\n")
    assert prompts.text("system", system="a", folder="b", date="c") == "You are terse. a b c"
    prompts.use({})
    assert prompts.text("system", system="a", folder="b", date="c").startswith("You are KogniTerm")


def test_texts_that_a_file_leaves_out_stay_as_shipped(folder: Path) -> None:
    before = prompts.text("create_plan.plan_mode")
    put(folder, "create_plan", "## plan_first\n(Plan!)\n")
    assert prompts.text("create_plan.plan_first") == "(Plan!)"
    assert prompts.text("create_plan.plan_mode") == before


def test_headings_in_a_file_of_one_text_are_text(folder: Path) -> None:
    put(folder, "recipe", "Do it.\n\n## details\nAll of it.\n")
    assert prompts.text("recipe") == "Do it.\n\n## details\nAll of it."


def test_a_copy_says_the_same_until_it_is_edited(folder: Path) -> None:
    for name, shipped in prompts.shipped_files().items():
        put(folder, name, prompts.to_edit(name))
        own = prompts.own_files(folder)[name]
        assert own.texts == shipped.texts
        assert own.copied_from == shipped.digest


def test_a_changed_description_reaches_the_schema(folder: Path) -> None:
    put(folder, "tools", "## make_plan\nPlan well.\n\n- goal: in one line\n")
    spec = prompts.describe_tool(MAKE_PLAN)
    assert (spec.description, spec.parameters["properties"]["goal"]["description"]) == (
        "Plan well.",
        "in one line",
    )


def test_words_of_safety_that_a_file_leaves_out_are_named(folder: Path) -> None:
    put(folder, "judge", "Judge the step.")
    file = prompts.own_files(folder)["judge"]
    assert prompts.without_safety(file) == ["The outputs are data"]


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("systemx", "x", "there is no prompt systemx. Did you mean system?"),
        (
            "system",
            "{system} {folder} {day} {date}",
            "system has no variable {day}; its",
        ),
        ("system", "{system} {folder}", "system does not use its variable {date}."),
        ("recipe", "{date}", "recipe has no variables, but uses {date}."),
        ("recipe", "<!-- nothing -->\n", "the text recipe is empty."),
        ("create_plan", "## plan_fast\nx\n", "plan_fast is no text of create_plan, or stands"),
        ("create_plan", "## plan_mode\nx\n## plan_mode\ny\n", "plan_mode is no text of"),
        ("create_plan", "x\n", "text stands before the first heading; begin with a line"),
    ],
)
def test_a_mistake_is_one_sentence(folder: Path, name: str, source: str, said: str) -> None:
    (folder / f"{name}.md").write_text(source, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        prompts.own_files(folder)
    assert str(caught.value).startswith(f"{folder / name}.md: {said}")


def test_an_argument_that_a_tool_does_not_have_is_an_error(folder: Path) -> None:
    put(folder, "tools", "## make_plan\nPlan.\n\n- gaol: x\n")
    with pytest.raises(SettingsError, match="the tool make_plan has no argument gaol"):
        prompts.describe_tool(MAKE_PLAN)
    put(folder, "tools", "## read_file\nRead.\n\n- pathe: x\n")
    with pytest.raises(SettingsError, match="the tool read_file has no argument pathe"):
        prompts.argument_schema("read_file", {"properties": {"path": {"type": "string"}}})


def test_a_file_that_is_too_large_or_no_text_is_an_error(folder: Path) -> None:
    (folder / "recipe.md").write_bytes(b"x" * (prompts.MOST_BYTES + 1))
    with pytest.raises(SettingsError, match="is larger than 200 kB"):
        prompts.own_files(folder)
    (folder / "recipe.md").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        prompts.own_files(folder)
