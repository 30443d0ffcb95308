"""`kogniterm recipe` as a user types it, in this process."""

from __future__ import annotations

import json
from pathlib import Path

from docs.completion_scripts import places
from tests.addons.recipes.test_recipe_threads import TALK
from tests.cli.test_typed_commands import user
from tests.support.typist import Typist

__all__ = ["user"]


RECIPE = "name: other\nnodes:\n  - {id: files, command: ls}\n"


def test_a_recipe_is_replaced_only_on_request_and_its_schema_is_shown(user: Typist) -> None:
    file = user.project / "count.yaml"
    file.write_text(RECIPE)
    save = ("recipe", "save", "count", "--file", str(file))
    assert user.type(*save) == 0
    saved = Path(user.shown.strip())
    assert "name: count" in saved.read_text()
    file.write_text(RECIPE.replace("ls", "pwd"))
    assert user.type(*save) == 2
    assert "--replace" in user.flat
    assert "pwd" not in saved.read_text()
    assert user.type(*save, "--replace") == 0
    assert "pwd" in saved.read_text()
    assert user.type("recipe", "list", "--json") == 0
    assert "count" in json.dumps(json.loads(user.shown))
    assert user.type("recipe", "show", "--schema") == 0
    assert "nodes" in json.loads(user.shown)["properties"]


REMEMBERING = """replies:
  - {when: {last_contains: Which, any_contains: I have apple}, text: Apple., repeat: forever}
  - {when: {last_contains: Which}, text: No apple., repeat: forever}
  - {when: {last_contains: Remember apple}, text: I have apple., repeat: forever}
  - {text: Fine., repeat: forever}
"""


def test_a_thread_that_was_deleted_begins_anew(user: Typist) -> None:
    (user.project / "talk.yaml").write_text(TALK)
    run = ("recipe", "run", "./talk.yaml", "--model", user.script(REMEMBERING))
    for word in ("apple", "pear"):
        assert user.type(*run, f"word={word}") == 0
        assert "No apple." not in user.flat
    assert user.type("sessions", "delete", "thread memo", "--yes") == 0
    assert user.type(*run, "word=pear") == 0
    assert "No apple." in user.flat


def test_saved_recipes_are_completed() -> None:
    found = {place.path: place for place in places()}
    assert found["/recipe/run"].kind == "recipes"
