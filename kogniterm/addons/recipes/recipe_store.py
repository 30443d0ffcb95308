"""The stored recipes, one YAML file each, and recipes made from a plan that worked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kogniterm.addons.recipes.recipe_schema import (
    NAME,
    Recipe,
    open_quotes,
    read_recipe,
    recipe_text,
)
from kogniterm.agent.plan.plan_tools import COMPLETE_STEP
from kogniterm.cli.options import CallOptions
from kogniterm.cli.verb_helpers import paths_in_use
from kogniterm.errors import StorageError, UsageError, why
from kogniterm.runtime.services.written_files import WrittenFiles
from kogniterm.sessions.history import PastAction, SessionHistory
from kogniterm.sessions.records import Record
from kogniterm.settings.user_files import read_text, yaml_text
from kogniterm.storage.folders import write_private
from kogniterm.types import ActionRequest, Phrase, Plan
from kogniterm.ui.locale import _

MAX_BYTES = 500_000


class RecipeStore:
    """The user's recipes, in a folder of their own; each file is registered in `written`."""

    def __init__(self, folder: Path, written: WrittenFiles) -> None:
        self._folder = folder
        self._written = written

    def names(self) -> tuple[str, ...]:
        """Return every recipe's name, sorted."""
        return tuple(sorted(file.stem for file in self._folder.glob("*.yaml")))

    def path(self, name: str) -> Path:
        """Return the file of the recipe called `name`. Raises `UsageError` for an invalid name."""
        if not re.match(NAME, name):
            raise UsageError(
                "{name} is not a valid recipe name; use up to 40 lower-case "
                "letters, digits, - and _, starting with a letter.",
                name=name,
            )
        return self._folder / f"{name}.yaml"

    def load(self, name: str) -> Recipe:
        """Return the recipe called `name`. Raises `UsageError`."""
        path = self.path(name)
        if not path.is_file():
            raise UsageError(
                "Recipe {name} not found. Available recipes: {names}.",
                name=name,
                names=", ".join(self.names()) or Phrase("none"),
            )
        return read_file(path)

    def named(self, name: str) -> Recipe:
        """Return the recipe called `name`, or the one in the file of that name.

        Raises `UsageError`.
        """
        path = Path(name)
        return read_file(path) if path.suffix in (".yaml", ".yml", ".json") else self.load(name)

    def save(self, recipe: Recipe, *, replace: bool = False) -> Path:
        """Store `recipe`. Raises `UsageError` when there is one of its name already."""
        path = self.path(recipe.name)
        if path.exists() and not replace:
            raise UsageError(
                "Recipe {name} already exists; use --replace to overwrite it.", name=recipe.name
            )
        try:
            write_private(path, recipe_text(recipe).encode())
        except OSError as error:
            raise StorageError(
                "The recipe {path} cannot be written ({detail}).", path=path, detail=why(error)
            ) from error
        self._written.add(path, "recipe")
        return path


def user_recipes() -> RecipeStore:
    """Return the user's recipes."""
    paths = paths_in_use()
    return RecipeStore(paths.extensions.recipes, WrittenFiles(paths.written_files))


def listed_names(_call: CallOptions) -> Iterator[tuple[str, str]]:
    """Yield each recipe's name for the completion scripts."""
    for name in user_recipes().names():
        yield name, _("recipe")


class TaskRecipe:
    """A recipe for tasks of the queue, which share the inputs in `words`."""

    def __init__(self, name: str, words: Iterable[str]) -> None:
        self._recipe = user_recipes().named(name)
        self._shared = value_pairs(words)
        self.name, self.text = self._recipe.name, recipe_text(self._recipe)

    def inputs(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a task with inputs of its `own`. Raises `UsageError`."""
        from kogniterm.addons.recipes.recipe_graph import checked_inputs

        values = {**self._shared, **own}
        checked_inputs(self._recipe, values)
        return values


def value_pairs(words: Iterable[str]) -> dict[str, str]:
    """Return `NAME=VALUE` words as a dictionary. Raises `UsageError`."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError("{word} is not of the form INPUT=VALUE.", word=word)
        found[name] = value
    return found


def read_file(path: Path) -> Recipe:
    """Read the recipe in the file `path`, YAML or JSON. Raises `UsageError`."""
    return read_recipe(read_text(path, MAX_BYTES), path)


def recipe_of_plan(name: str, records: Iterable[Record], parameters: Mapping[str, str]) -> Recipe:
    """Return a recipe of each command and edit that succeeded for the last plan, in order.

    Where there was none, the last turn with actions counts. Each value of `parameters` that occurs
    in them becomes the input of its name, with the value as default. Raises `UsageError` when
    there is a plan that did not work, or nothing to save.
    """
    plan, goal, actions = _last_success(SessionHistory(records))
    if any(step.status != "done" for step in plan.steps) if plan else not actions:
        raise UsageError("This session has no plan with all steps done.")
    nodes: list[dict[str, Any]] = []
    for number, action in enumerate(actions, 1):
        if "[secret:" in action.command + str(action.arguments):
            raise UsageError(
                "The command {command} contains a secret and cannot be saved in a recipe.",
                command=action.command,
            )
        node: dict[str, Any] = {"id": f"n{number}"}
        if action.purpose:
            node["purpose"] = action.purpose
        if action.effect == "command":
            node["command"] = open_quotes(_with_inputs(action.command, parameters))
        else:
            node["tool"] = action.tool
            node["arguments"] = {
                key: _with_inputs(value, parameters) if isinstance(value, str) else value
                for key, value in action.arguments.items()
                if value is not None
            }
        nodes.append(node)
    unused = [key for key in parameters if not any(f"inputs.{key}" in str(n) for n in nodes)]
    if unused:
        raise UsageError(
            "{value} does not occur in any command of the plan, so the input "
            "{name} would have no effect.",
            value=parameters[unused[0]],
            name=unused[0],
        )
    inputs = {key: {"default": value} for key, value in parameters.items()}
    data = {"name": name, "description": goal, "inputs": inputs, "nodes": nodes}
    return read_recipe(yaml_text(data))


def _with_inputs(text: str, parameters: Mapping[str, str]) -> str:
    """Return `text` with each value, in its quotes, replaced by its reference, longest first."""
    values = sorted(parameters.items(), key=lambda item: -len(item[1]))
    ways = [
        f"(?P<{key}>'{re.escape(value)}'|\"{re.escape(value)}\"|(?<!\\w){re.escape(value)}(?!\\w))"
        for key, value in values
    ]
    if not ways:
        return text
    return re.sub("|".join(ways), lambda found: f"{{{{inputs.{found.lastgroup}}}}}", text)


def _last_success(history: SessionHistory) -> tuple[Plan | None, str, list[ActionRequest]]:
    """Return the last plan as it ended, its goal, and the actions since then that succeeded."""
    plan: Plan | None = None
    made = 0
    turns = [history.before, *history.conversation]
    for seq, changed in (one for turn in turns for one in turn.plans):
        if _is_another(changed, plan):
            made = seq
        plan = changed
    goal = plan.goal if plan is not None else ""
    found: list[ActionRequest] = []
    for turn in turns:
        done = [one for one in turn.ended if one.ended_seq >= made and _took_effect(one)]
        if plan is None and done:
            goal, found = turn.input.typed, []
        found += [one.request for one in done if one.request is not None]
    return plan, goal, found


def _is_another(plan: Plan, before: Plan | None) -> bool:
    """Return whether `plan` is a new one and does not continue `before`."""
    if before is None or plan.revision > 1 or not _all_open(plan):
        return before is None
    same = [step.id for step in plan.walk()] == [step.id for step in before.walk()]
    return not (same and plan.goal == before.goal and _all_open(before))


def _all_open(plan: Plan) -> bool:
    return all(step.open for step in plan.walk())


def _took_effect(action: PastAction) -> bool:
    """Return whether it succeeded, and as a check of a step also changed the plan."""
    checks = action.request is not None and action.request.tool == COMPLETE_STEP.name
    changed = action.outcome is not None and action.outcome.plan is not None
    return action.succeeded and (changed or not checks or action.result is None)
