"""`kogniterm recipe`: keep what worked as a graph of nodes, and run it again with other inputs."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

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
from kogniterm.cli.verb_helpers import Report, open_sessions, paths_in_use, write_json, write_report
from kogniterm.errors import UsageError

if TYPE_CHECKING:
    from kogniterm.agent.recipe_schema import Recipe
    from kogniterm.runtime.use_cases.recipe_store import RecipeStore


def add_parser(subparsers: Subparsers) -> None:
    """Add `recipe` and its actions."""
    add_actions(subparsers, "recipe", ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the action; returns the exit status."""
    from kogniterm.runtime.services.written_files import WrittenFiles
    from kogniterm.runtime.use_cases.recipe_store import RecipeStore

    paths = paths_in_use()
    store = RecipeStore(paths.recipes, WrittenFiles(paths.written_files))
    return write_report(args, args.perform(args, store))


def _save(args: argparse.Namespace, store: RecipeStore) -> Report:
    from kogniterm.runtime.use_cases.recipe_store import read_file, recipe_of_plan
    from kogniterm.sessions.journal.codec import stored_records

    values = pairs(args.values)
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
    values = pairs(args.values)
    recipe = _named(args.name, store)
    from kogniterm.approval import Unattended
    from kogniterm.runtime.build import open_session
    from kogniterm.runtime.turn_ports import TurnIO
    from kogniterm.runtime.use_cases.run_recipe import run_in_session

    settings, folder = settings_of(args), folder_of(args)

    def start(watched: task.RunFront, sink: task.Sink) -> int:
        session = open_session(settings, folder=folder)
        try:
            asked = watched.approver(session) if watched.approver else Unattended()
            front = TurnIO(asked, sink, watched.terminal)
            session.asker.ask_now = watched.ask
            return asyncio.run(
                task.drive(session, run_in_session(session, recipe, values, front), sink)
            )
        finally:
            session.close()

    return Report(status=task.with_front(args, start), printed=True)


def _named(name: str, store: RecipeStore) -> Recipe:
    from kogniterm.runtime.use_cases.recipe_store import read_file

    path = Path(name)
    return read_file(path) if path.suffix in (".yaml", ".yml", ".json") else store.load(name)


def pairs(words: list[str]) -> dict[str, str]:
    """Return `NAME=VALUE` words as a dictionary. Raises `UsageError`."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError("{word} is not of the form INPUT=VALUE.", word=word)
        found[name] = value
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
        task.OUTPUT), ("kogniterm recipe run release version=1.5.0",), session_options=True),
)  # fmt: skip
