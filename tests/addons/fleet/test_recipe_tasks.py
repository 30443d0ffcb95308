"""Recipes as tasks: one for each item, checked before anything is added, parked and continued."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.addons.fleet.conftest import Fleet
from tests.support.fake_gemini import FakeGemini
from tests.support.forge import until

RECIPE = """name: greet
inputs: {who: {type: string}, times: {type: integer, default: 1}}
nodes:
  - {id: write, command: "echo {{inputs.who}} >>greeted"}
  - {id: say, model: "Greet {{inputs.who}} {{inputs.times}} times{{nodes.write.text}}"}
outputs: {text: "{{nodes.say.text}}"}
"""
RUN = ("--no-sandbox", "--memory", "off")


def recipe(fleet: Fleet, text: str = RECIPE) -> str:
    (fleet.base / "greet.yaml").write_text(text)
    return "greet.yaml"


def items(fleet: Fleet, *lines: object) -> str:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (fleet.base / "items.jsonl").write_text("\n".join(texts) + "\n")
    return "items.jsonl"


def test_each_item_is_a_task_or_nothing_is_added(fleet: Fleet) -> None:
    add = ["queue", "add", "--recipe", recipe(fleet), "--items"]
    for wrong, why in (
        ({"who": "Ben", "when": 1}, "items.jsonl:3: "),
        ({"times": 2}, "items.jsonl:3: "),
        ("{", "items.jsonl:3: it is no JSON. Nothing was added."),
        ("[1]", "items.jsonl:3: it is no object of inputs. Nothing was added."),
    ):
        told = fleet.run(*add, items(fleet, {"who": "Ana"}, "", wrong), status=2)
        assert why in told
        assert "Nothing was added." in told
    assert "No tasks." in fleet.run("queue", "list")
    model = fleet.script("greets", 'replies: [{text: "Hello.", repeat: forever}]\n')
    for name in ("a", "b"):
        fleet.folder(name)
    file = items(fleet, {"who": "Ana"}, {"who": "Ben", "times": 2})
    fleet.run(*add, file, "--batch", "greet", "-C", str(fleet.folder("a")), "-y", *RUN, "--model",
              model)  # fmt: skip
    (fleet.base / "greet.yaml").unlink()  # what was added is what runs
    fleet.run("worker", "--until-empty", "--slots", "2")
    found = [json.loads(line) for line in fleet.run("queue", "results").splitlines() if line]
    told = [(one["task"], one["state"], one["answer"]) for one in found]
    assert told == [
        ("greet who=Ana", "done", "Hello."),
        ("greet who=Ben times=2", "done", "Hello."),
    ]
    assert (Path(fleet.folder("a")) / "greeted").read_text() == "Ana\nBen\n"


def test_a_recipe_waits_for_you_and_for_its_provider_and_goes_on(
    fleet: Fleet, fake_gemini: FakeGemini
) -> None:
    """Answer and refuse in the middle: nothing that was done before is done again."""
    fleet.gemini(fake_gemini.url, "KOGNITERM_MODEL_RETRIES=0")
    fake_gemini.fail(429, "quota")  # without a time
    words = ["queue", "add", "--recipe", recipe(fleet), "who=Ana", "--id", "greet", "--model"]
    fleet.run(*words, "google_genai:gemini-2.5-flash", "--effort", "default", *RUN)
    first = fleet.worker()
    assert fleet.until_state("greet", "parked").stop == "parked"
    first.send_signal(signal.SIGTERM)
    assert first.wait() == 0
    (question,) = json.loads(fleet.run("queue", "inbox", "--json"))
    assert question["command"] == "echo Ana >>greeted"
    # It is answered while no worker lives, and another one goes on.
    fleet.run("queue", "answer", "greet", "approve", "--digest", question["digest"])
    second = fleet.worker()
    until(lambda: fleet.task("greet").task.due > 0)
    task = fleet.task("greet")
    assert (task.state, task.turn, task.lost, task.waits) == ("queued", 1, 0, 1)
    assert 30 < task.task.due - task.updated <= 60
    fake_gemini.say("Hello.")
    with fleet.queue() as queue:
        queue.patches.database.execute("UPDATE queue_tasks SET due = 0")
    assert fleet.until_state("greet", "done", "failed").answer == "Hello."
    assert (fleet.base / "greeted").read_text() == "Ana\n"
    second.send_signal(signal.SIGTERM)
    assert second.wait() == 0
