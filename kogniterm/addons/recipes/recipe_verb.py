"""`kogniterm recipe`: keep what worked as a graph of nodes, and run it again with other inputs."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm.cli import run as task
from kogniterm.cli.options import JSON, CallOptions, RunRequest, Subparsers, add_actions
from kogniterm.cli.verb_helpers import open_sessions, write_json
from kogniterm.errors import UsageError
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.settings.user_files import json_values, read_text

if TYPE_CHECKING:
    from kogniterm.addons.recipes.recipe_schema import Recipe
    from kogniterm.runtime.session import LiveSession
    from kogniterm.runtime.unattended.parked_turn import Parking
    from kogniterm.types import Answer


def add_parser(subparsers: Subparsers) -> None:
    """Add `recipe` and its actions."""
    add_actions(subparsers, "recipe", ACTIONS)


def _save(
    call: CallOptions, name: str, values: list[str], file: str | None, session: str, replace: bool
) -> Report:
    from kogniterm.addons.recipes.recipe_store import (
        read_file,
        recipe_of_plan,
        user_recipes,
        value_pairs,
    )
    from kogniterm.sessions.journal.codec import stored_records

    inputs = value_pairs(values)
    store = user_recipes()
    store.path(name)
    if file is not None:
        if inputs:
            raise UsageError(
                "INPUT=VALUE cannot be combined with --file. Give values when you run the recipe."
            )
        recipe = read_file(Path(file)).model_copy(update={"name": name})
    else:
        with open_sessions(call) as sessions:
            info = sessions.find(session)
            records = (row.record() for row in stored_records(sessions.database, info.id))
            recipe = recipe_of_plan(name, records, inputs)
    return Report(lines=[str(store.save(recipe, replace=replace))])


def _list(call: CallOptions) -> Report:
    from kogniterm.addons.recipes.recipe_store import user_recipes

    store = user_recipes()
    recipes = [(name, store.load(name)) for name in store.names()]
    return Report(
        [
            {"name": name, "inputs": list(one.inputs), "description": one.description}
            for name, one in recipes
        ],
        rows=[(name, " ".join(one.inputs), one.description) for name, one in recipes],
    )


def _show(call: CallOptions, name: str | None, schema: bool) -> Report:
    from kogniterm.addons.recipes.recipe_schema import recipe_schema, recipe_text
    from kogniterm.addons.recipes.recipe_store import user_recipes

    if schema:
        write_json(recipe_schema())
        return Report(printed=True)
    if name is None:
        raise UsageError("Name the recipe to show; kogniterm recipe list lists them.")
    recipe = user_recipes().load(name)
    data = recipe.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return Report(data, recipe_text(recipe).splitlines())


def _run(call: CallOptions, name: str, values: list[str], inputs: str | None, **given: Any) -> int:
    from kogniterm.addons.recipes.recipe_store import user_recipes, value_pairs
    from kogniterm.runtime.build import open_session
    from kogniterm.runtime.unattended.parked_turn import Parking

    request = RunRequest(call, **given)
    in_file = {} if inputs is None else json_values(inputs, read_text(Path(inputs))).data
    chosen = {**in_file, **value_pairs(values)}
    recipe = user_recipes().named(name)
    wanted = request.named_session
    settings, folder = call.load_settings(), call.folder()

    def start(watched: task.RunFront, sink: task.Sink) -> int:
        session = open_session(
            settings, folder=folder, session_id=wanted, create=wanted is not None
        )
        try:
            parking = Parking(session) if request.park else None
            running = _turn(session, recipe, chosen, watched, sink, parking)
            left_open = partial(getattr, parking, "answer", None)
            return asyncio.run(task.drive(session, running, sink, left_open))
        finally:
            session.close()

    return task.with_front(request, start)


async def _turn(
    session: LiveSession,
    recipe: Recipe,
    values: dict[str, Any],
    watched: task.RunFront,
    sink: task.Sink,
    parking: Parking | None,
) -> Answer:
    """Run the recipe, or go on with it; the answer of a run that has ended is repeated."""
    from kogniterm.addons.recipes.run_recipe import recipe_input, run_in_session
    from kogniterm.approval import Unattended
    from kogniterm.runtime.unattended.named_session import given_before, repeat_answer

    asked = parking or (watched.approver(session) if watched.approver else Unattended())
    driver: dict[str, Any] = {
        "approver": asked,
        "sink": sink,
        "terminal": watched.terminal,
        "recover": parking.recover if parking is not None else watched.recover,
        "ask": watched.ask,
        "park": parking.ask if parking is not None else None,
        "at_prompt": parking is not None,
    }
    before = given_before(session.journal, recipe_input(recipe, values))
    if before is not None and before.end is not None:
        return repeat_answer(session, before, sink)
    if before is not None:
        return await session.run(None, **driver)
    return await run_in_session(session, recipe, values, **driver)


ACTIONS = (
    Action("save", "Save a recipe from a file, or from the plan of a session", _save, (
        Argument("name", "Name: small letters, digits, - and _", "NAME"),
        Argument("values", "Value in the plan's commands that becomes an input",
                 "INPUT=VALUE", nargs="*"),
        Argument("--file", "Recipe to save, in YAML or JSON", "FILE"),
        Argument("--session", "Session whose plan is saved", "ID", default="last"),
        Argument("--replace", "Replace a recipe of the same name")),
        ("kogniterm recipe save release version=1.4.0",
         "kogniterm recipe save deploy --file deploy.yaml")),
    Action("list", "List the recipes", _list, (JSON,), ("kogniterm recipe list",)),
    Action("show", "Show a recipe", _show, (
        Argument("name", "Recipe to show", "NAME", nargs="?"),
        Argument("--schema", "Print the JSON schema of recipes"),
        JSON), ("kogniterm recipe show release",)),
    Action("run", "Run a recipe", _run, (
        Argument("name", "Recipe, or the file of one", "NAME"),
        Argument("values", "Inputs of the recipe", "INPUT=VALUE", nargs="*"),
        Argument("--inputs", "File with the inputs as a JSON object", "FILE"),
        task.OUTPUT, task.SESSION_ID, task.PARK),
        ("kogniterm recipe run release version=1.5.0",), session_options=True),
)  # fmt: skip
