"""The documentation of models agrees with the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from kogniterm.execution import command_script
from kogniterm.execution.command_script import read_command_script
from kogniterm.models import scripted_model
from kogniterm.models.catalog import PROVIDERS, UNKNOWN_WINDOW
from kogniterm.models.scripted_model import read_script
from kogniterm.models.text_tool_calls import parse
from kogniterm.settings.yaml_parts import YamlPart

DOCS = Path(__file__).parents[2] / "docs"


def words(name: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", (DOCS / name).read_text()))


@pytest.mark.parametrize(
    "part",
    [
        scripted_model.Script,
        scripted_model.ScriptedInfo,
        scripted_model.ScriptedReply,
        scripted_model.ReplyCondition,
        scripted_model.ScriptedCall,
        scripted_model.ScriptedPlan,
        scripted_model.ScriptStep,
        scripted_model.StepCheck,
        scripted_model.TokenCounts,
        command_script.CommandScript,
        command_script.CommandAnswer,
    ],
)
def test_every_key_of_a_script_is_documented(part: type[YamlPart]) -> None:
    assert set(part.model_fields) <= words("scripted.md")


def test_every_failure_of_a_script_is_documented() -> None:
    assert set(scripted_model.ERRORS) <= words("scripted.md")


def test_the_examples_of_scripts_can_be_read(tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", (DOCS / "scripted.md").read_text(), re.DOTALL)
    assert len(examples) == 5
    for example in examples:
        (tmp_path / "example.yaml").write_text(example)
        if "replies:" in example:
            assert read_script(tmp_path / "example.yaml").replies
        else:
            assert read_command_script(tmp_path / "example.yaml").commands


def test_every_provider_is_documented_with_its_key_and_package() -> None:
    text = (DOCS / "models.md").read_text()
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    included = {re.split(r"[<>=\[]", one)[0] for one in project["dependencies"]}
    for provider in PROVIDERS:
        assert f"`{provider.name}" in text
        assert provider.key is None or provider.key in text
        package = provider.distribution
        assert package is None or package in included or f"`{package}`" in text
        assert provider.default_model in text


def test_the_documented_form_of_a_text_call_is_the_one_that_is_read() -> None:
    text = (DOCS / "models.md").read_text()
    (example,) = re.findall(r"```\n(<tool_call>.*?)```", text, re.DOTALL)
    assert parse(example).calls[0].name == "execute_command"
    assert f"{UNKNOWN_WINDOW[0]:,}" in text
