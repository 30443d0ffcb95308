"""Recipes whose nodes run side by side, and threads that go on in the next run."""

from __future__ import annotations

from tests.support.real_terminal import User
from tests.support.typing_user import answer, put, scripted
from tests.terminal.conftest import OpenTerminal

CHECK = """name: check
nodes:
  - {id: build, command: echo built > out}
  - {id: lint, command: "cat out; exit 1", parallel: true, may_fail: true}
  - {id: test, command: "echo tested", parallel: true}
  - {id: pack, command: "echo {{nodes.lint.exit_code}} {{nodes.test.text}}"}
  - {id: each, map: {over: "a\\nb\\nc", do: name, parallel: 2}}
  - {id: name, model: "Name {{item}}"}
outputs: {packed: "{{nodes.pack.text}}", names: "{{nodes.each.value}}"}
"""
NAMES = """replies:
  - {when: {last_contains: Name a}, text: Ann}
  - {when: {last_contains: Name b}, text: Bob}
  - {when: {last_contains: Name c}, text: Cem}
"""


def test_a_wrong_order_is_refused_and_a_right_one_runs(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    put(terminal.folder, "wrong.yaml", CHECK.replace("parallel: true}", "after: [pack]}"))
    status, shown = terminal.run("kogniterm recipe run ./wrong.yaml")
    assert status == 2
    assert "node test cannot run after pack" in " ".join(shown.split())
    put(terminal.folder, "check.yaml", CHECK)
    model = scripted(terminal, NAMES)
    terminal.start(f"kogniterm recipe run ./check.yaml --model {model} --no-sandbox")
    for line in ("echo built", "cat out", "echo tested", "echo 1 tested"):
        answer(terminal, line, "y")
    assert terminal.status() == 0
    assert "packed: 1 tested" in terminal.text
    assert 'names: ["Ann", "Bob", "Cem"]' in terminal.text


TALK = """name: talk
inputs: {word: {}}
nodes:
  - {id: tell, model: "Remember {{inputs.word}}.", thread: memo}
"""
TALKING = """replies:
  - {when: {last_contains: pear, any_contains: apple}, text: Apple and pear.}
  - {when: {last_contains: apple}, text: Apple.}
  - {when: {last_contains: pear}, text: Only pear.}
"""


def test_a_thread_goes_on_in_the_next_run_until_it_is_deleted(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    put(terminal.folder, "talk.yaml", TALK)
    recipe = f"kogniterm recipe run ./talk.yaml --model {scripted(terminal, TALKING)}"
    assert "Apple." in terminal.run(f"{recipe} word=apple")[1]
    assert "Apple and pear." in terminal.run(f"{recipe} word=pear")[1]
    status, shown = terminal.run('kogniterm sessions show "thread memo"')
    assert status == 0
    assert "Remember apple." in shown
    assert "Apple and pear." in shown
    assert terminal.run('kogniterm sessions delete "thread memo" --yes')[0] == 0
    assert "Only pear." in terminal.run(f"{recipe} word=pear")[1]
