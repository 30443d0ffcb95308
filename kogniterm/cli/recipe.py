"""`kogniterm recipe`: keep what worked as a graph of nodes, and run it again with other inputs."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.cli import run as task
from kogniterm.cli import stores
from kogniterm.cli.options import SESSION, add_options, folder_of, settings_of
from kogniterm.errors import UsageError
from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from kogniterm.agent.recipe import Recipe
    from kogniterm.runtime.recipe_store import RecipeStore


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `recipe` with what can be done with one."""
    parser = subparsers.add_parser("recipe", help=_("keep, show and run recipes"))
    actions = parser.add_subparsers(dest="action", metavar=_("ACTION"), required=True)
    save = actions.add_parser("save", help=_("keep a file, or a session's plan that worked"))
    save.add_argument("name", metavar=_("NAME"), help=_("small letters, digits, - and _"))
    save.add_argument(
        "values",
        nargs="*",
        metavar=_("INPUT=VALUE"),
        help=_("make this value, wherever the plan's commands have it, an input"),
    )
    save.add_argument("--file", metavar=_("FILE"), help=_("a recipe in YAML or JSON to keep"))
    save.add_argument(
        "--session",
        metavar=_("ID"),
        default="last",
        help=_("the session of the plan; last if unset"),
    )
    save.add_argument("--replace", action="store_true", help=_("take the place of one so named"))
    listing = actions.add_parser("list", help=_("name the recipes"))
    show = actions.add_parser("show", help=_("print a recipe"))
    show.add_argument("name", nargs="?", metavar=_("NAME"), help=_("the recipe"))
    show.add_argument("--schema", action="store_true", help=_("print the JSON schema of recipes"))
    for action in (listing, show):
        action.add_argument("--json", action="store_true", help=_("as JSON"))
    run_it = actions.add_parser("run", help=_("run a recipe"))
    run_it.add_argument("name", metavar=_("NAME"), help=_("the recipe, or the file of one"))
    run_it.add_argument(
        "values", nargs="*", metavar=_("INPUT=VALUE"), help=_("the inputs of the recipe")
    )
    run_it.add_argument(
        "--output",
        choices=task.OUTPUTS,
        default="text",
        help=_("text for people, one JSON object at the end, or one JSON event a line"),
    )
    add_options(run_it.add_argument_group(_("session options")), SESSION)


def run(args: argparse.Namespace) -> int:
    """Do what was asked; returns the exit status."""
    from kogniterm.runtime.recipe_store import RecipeStore
    from kogniterm.runtime.written import WrittenFiles

    paths = stores.paths_in_use()
    store = RecipeStore(paths.recipes, WrittenFiles(paths.written_files))
    return {"save": _save, "list": _list, "show": _show, "run": _run}[args.action](args, store)


def _save(args: argparse.Namespace, store: RecipeStore) -> int:
    from kogniterm.runtime.recipe_store import read_file, recipe_of_plan
    from kogniterm.sessions.stored import stored_records

    values = pairs(args.values)
    store.path(args.name)
    if args.file is not None:
        if values:
            raise UsageError("Inputs are named in the file; give them when you run the recipe.")
        recipe = read_file(Path(args.file)).model_copy(update={"name": args.name})
    else:
        with stores.opened(stores.location_of(args)) as sessions:
            info = sessions.find(args.session)
            records = (row.record() for row in stored_records(sessions.backend, info.id))
            recipe = recipe_of_plan(args.name, records, values)
    path = store.save(recipe, replace=args.replace)
    sys.stdout.write(f"{path}\n")
    return 0


def _list(args: argparse.Namespace, store: RecipeStore) -> int:
    recipes = [(name, store.load(name)) for name in store.names()]
    if args.json:
        stores.write_json(
            [
                {"name": name, "inputs": list(one.inputs), "description": one.description}
                for name, one in recipes
            ]
        )
    elif recipes:
        stores.write_table([(name, " ".join(one.inputs), one.description) for name, one in recipes])
    return 0


def _show(args: argparse.Namespace, store: RecipeStore) -> int:
    from kogniterm.agent.recipe import recipe_schema, recipe_text

    if args.schema:
        sys.stdout.write(json.dumps(recipe_schema(), indent=2) + "\n")
        return 0
    if args.name is None:
        raise UsageError("Say which recipe to show.")
    recipe = store.load(args.name)
    if args.json:
        stores.write_json(recipe.model_dump(mode="json", by_alias=True, exclude_defaults=True))
    else:
        stores.write_lines(recipe_text(recipe).splitlines())
    return 0


def _run(args: argparse.Namespace, store: RecipeStore) -> int:
    values = pairs(args.values)
    recipe = _named(args.name, store)
    from kogniterm.runtime.build import open_session, unattended_approver
    from kogniterm.runtime.front import Front
    from kogniterm.runtime.recipes import run_in_session

    settings, folder = settings_of(args), folder_of(args)

    def start(people: task.People, sink: task.Sink) -> int:
        session = open_session(settings, folder=folder)
        try:
            asked = people.approver(session) if people.approver else unattended_approver(settings)
            front = Front(asked, sink, people.terminal)
            session.asker.ask_now = people.ask
            return asyncio.run(
                task.drive(session, run_in_session(session, recipe, values, front), sink)
            )
        finally:
            session.close()

    return task.with_people(args, start)


def _named(name: str, store: RecipeStore) -> Recipe:
    from kogniterm.runtime.recipe_store import read_file

    path = Path(name)
    return read_file(path) if path.suffix in (".yaml", ".yml", ".json") else store.load(name)


def pairs(words: list[str]) -> dict[str, str]:
    """`NAME=VALUE` words as a dictionary. Raises `UsageError`."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError("{word} is not of the form INPUT=VALUE.", word=word)
        found[name] = value
    return found
