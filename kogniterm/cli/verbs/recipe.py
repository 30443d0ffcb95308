"""`kogniterm recipe`: keep what worked as a graph of nodes, and run it again with other inputs."""

from __future__ import annotations

import argparse
import asyncio
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm.cli import run as task
from kogniterm.cli.options import (
    JSON,
    Action,
    Argument,
    Subparsers,
    add_actions,
    folder_of,
    settings_of,
)
from kogniterm.cli.verb_helpers import (
    Report,
    open_sessions,
    recipe_store,
    write_json,
    write_report,
)
from kogniterm.errors import UsageError, why

if TYPE_CHECKING:
    from kogniterm.agent.recipe_schema import Recipe
    from kogniterm.runtime.session import LiveSession
    from kogniterm.runtime.unattended.parked_turn import Parking
    from kogniterm.runtime.use_cases.recipe_store import RecipeStore
    from kogniterm.types import Answer


def add_parser(subparsers: Subparsers) -> None:
    """Add `recipe` and its actions."""
    add_actions(subparsers, "recipe", ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the action; returns the exit status."""
    return write_report(args, args.perform(args, recipe_store()))


def _save(args: argparse.Namespace, store: RecipeStore) -> Report:
    from kogniterm.runtime.use_cases.recipe_store import read_file, recipe_of_plan, value_pairs
    from kogniterm.sessions.journal.codec import stored_records

    values = value_pairs(args.values)
    store.path(args.name)
    if args.file is not None:
        if values:
            raise UsageError(
                "INPUT=VALUE cannot be combined with --file. Give values when you run the recipe."
            )
        recipe = read_file(Path(args.file)).model_copy(update={"name": args.name})
    else:
        with open_sessions(args) as sessions:
            info = sessions.find(args.session)
            records = (row.record() for row in stored_records(sessions.database, info.id))
            recipe = recipe_of_plan(args.name, records, values)
    return Report(lines=[str(store.save(recipe, replace=args.replace))])


def _list(args: argparse.Namespace, store: RecipeStore) -> Report:
    recipes = [(name, store.load(name)) for name in store.names()]
    return Report(
        [
            {"name": name, "inputs": list(one.inputs), "description": one.description}
            for name, one in recipes
        ],
        rows=[(name, " ".join(one.inputs), one.description) for name, one in recipes],
    )


def _show(args: argparse.Namespace, store: RecipeStore) -> Report:
    from kogniterm.agent.recipe_schema import recipe_schema, recipe_text

    if args.schema:
        write_json(recipe_schema())
        return Report(printed=True)
    if args.name is None:
        raise UsageError("Name the recipe to show; kogniterm recipe list lists them.")
    recipe = store.load(args.name)
    data = recipe.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return Report(data, recipe_text(recipe).splitlines())


def _run(args: argparse.Namespace, store: RecipeStore) -> Report:
    from kogniterm.runtime.build import open_session
    from kogniterm.runtime.unattended.parked_turn import Parking
    from kogniterm.runtime.use_cases.recipe_store import value_pairs

    values = {**_inputs_in(args.inputs), **value_pairs(args.values)}
    recipe = store.named(args.name)
    wanted = task.named_session(args)
    settings, folder = settings_of(args), folder_of(args)

    def start(watched: task.RunFront, sink: task.Sink) -> int:
        session = open_session(
            settings, folder=folder, session_id=wanted, create=wanted is not None
        )
        try:
            parking = Parking(session) if args.park else None
            running = _turn(session, recipe, values, watched, sink, parking)
            left_open = partial(getattr, parking, "answer", None)
            return asyncio.run(task.drive(session, running, sink, left_open))
        finally:
            session.close()

    return Report(status=task.with_front(args, start), printed=True)


async def _turn(
    session: LiveSession,
    recipe: Recipe,
    values: dict[str, Any],
    watched: task.RunFront,
    sink: task.Sink,
    parking: Parking | None,
) -> Answer:
    """Run the recipe, or go on with it; the answer of a run that has ended is repeated."""
    from kogniterm.approval import Unattended
    from kogniterm.runtime.turn_ports import TurnIO
    from kogniterm.runtime.unattended.named_session import given_before, repeat_answer
    from kogniterm.runtime.use_cases.run_recipe import recipe_input, run_in_session

    asked = parking or (watched.approver(session) if watched.approver else Unattended())
    recover = parking.recover if parking is not None else watched.recover
    park = parking.ask if parking is not None else None
    before = given_before(session.journal, recipe_input(recipe, values))
    if before is not None and before.ended is not None:
        return repeat_answer(session, before, sink)
    if before is not None:
        return await session.run(
            None, approver=asked, sink=sink, terminal=watched.terminal, recover=recover,
            ask=watched.ask, park=park, at_prompt=parking is not None,
        )  # fmt: skip
    session.asker.ask_now, session.asker.park = watched.ask, park
    front = TurnIO(asked, sink, watched.terminal, recover, at_prompt=parking is not None)
    return await run_in_session(session, recipe, values, front)


def _inputs_in(file: str | None) -> dict[str, Any]:
    """Return the inputs in a JSON file. Raises `UsageError`."""
    if file is None:
        return {}
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeError) as error:
        raise UsageError("{file} cannot be read: {why}.", file=file, why=why(error)) from error
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError("{file} is no JSON object with the inputs of a recipe.", file=file)
    return found


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
