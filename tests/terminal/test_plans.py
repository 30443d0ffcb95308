"""Plans and recipes: approved, changed, completed with evidence, saved and run again."""

from __future__ import annotations

import os
import signal

from tests.support.real_terminal import User
from tests.support.typing_user import (
    anew,
    answer,
    asked,
    leave,
    open_prompt,
    put,
    result_of,
    say,
    scripted,
    turn_end,
)
from tests.terminal.conftest import OpenTerminal

PLANNED = """replies:
  - when: {last_contains: greet}
    plan:
      goal: Greet somebody
      steps:
        - what: Write the greeting
          check: {kind: pattern, value: written}
        - what: Read it
        - what: Tell the team
  - when: {last_contains: too long}
    plan:
      goal: Greet somebody
      reason: You wanted it shorter.
      steps:
        - what: Write the greeting
          check: {kind: command, value: grep -q Ann greeting.txt}
        - what: Read it
  - run: "echo 'hello Ann' > greeting.txt; echo written"
    purpose: Write the greeting
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - run: cat greeting.txt
  - calls: [{tool: complete_step, arguments: {step: s2}}]
  - text: Ann is greeted.
"""


def test_a_plan_waits_for_approval_and_each_of_its_commands_too(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120, rows=50)
    terminal.run(f"export KOGNITERM_MODEL={scripted(terminal, PLANNED)}")
    open_prompt(terminal, "kogniterm")
    say(terminal, "greet Ann")
    terminal.until("[d] drop")
    assert "1. Write the greeting" in terminal.text
    assert not (terminal.folder / "greeting.txt").exists()
    terminal.look()
    terminal.send("\x1b[B\x1b[B")
    terminal.pause(0.3)
    terminal.send("d")
    terminal.until(lambda: "Tell the team" not in "\n".join(terminal.shown[-8:]))
    terminal.until(lambda: "[a] add" in "\n".join(terminal.shown[-3:]))
    terminal.send("a")
    terminal.until("New step after the selected one.")
    terminal.send("Tell Bob\r")
    terminal.until(lambda: "Tell Bob" in "\n".join(terminal.shown[-8:]))
    terminal.until(lambda: "[n] reject" in "\n".join(terminal.shown[-3:]))
    terminal.send("n")
    terminal.until("What should change?")
    terminal.send("it is too long\r")
    terminal.until("You wanted it shorter.")
    terminal.until(lambda: "[d] drop" in "\n".join(terminal.shown[-3:]))
    terminal.look()
    terminal.send("y")
    answer(terminal, "echo 'hello Ann'", "y")
    answer(terminal, "grep -q Ann", "y")
    answer(terminal, "cat greeting.txt", "y")
    terminal.until("Ann is greeted.")
    terminal.until("Verified")
    say(terminal, "/plan", "Read it")
    say(terminal, "/plan always", "lways")
    assert leave(terminal) == 0
    # A plan whose steps are all done becomes a recipe, and another name is its input.
    recipe = "kogniterm recipe"
    status, shown = terminal.run(f"{recipe} save greet who=Ann && {recipe} list")
    assert status == 0, shown
    assert "greet" in shown
    assert "{{inputs.who}}" in terminal.run(f"{recipe} show greet")[1]
    terminal.start(f"{recipe} run greet who='Bob; touch owned'")
    answer(terminal, "Bob", "y")
    answer(terminal, "grep -q", "y")
    answer(terminal, "cat greeting.txt", "y")
    assert terminal.status() == 0
    assert "Bob; touch owned" in (terminal.folder / "greeting.txt").read_text()
    assert not (terminal.folder / "owned").exists()


def test_a_plan_is_made_edited_and_given_back(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, PLANNED.replace("{last_contains: greet}", "{turn: 1}", 1))
    only = f"kogniterm run --model {model} --plan-only 'greet Ann' > plan.yaml"
    assert terminal.run(only)[0] == 0
    assert not (terminal.folder / "greeting.txt").exists()
    plan = (terminal.folder / "plan.yaml").read_text()
    assert "Tell the team" in plan
    kept = plan[: plan.index("- id: s3")]
    put(terminal.folder, "plan.yaml", kept)
    worked = scripted(terminal, "replies:\n" + PLANNED[PLANNED.index("  - run: \"echo 'hello") :])
    run = f"kogniterm run --model {worked} -y --no-sandbox --output json"
    status, shown = terminal.run(f"{run} --plan plan.yaml > out.json")
    assert status == 0, shown
    result = result_of(terminal.folder / "out.json")
    assert len(result["verified"]) == 2, result["verified"]
    assert result["not_verified"] == []
    at = kept.index("- id: s2")
    hides = "- {id: s9, what: Build, check: {kind: command, value: make | tail}}"
    wrong = f"{kept[:at]}{hides}\n{kept[kept.rindex(chr(10), 0, at) + 1 :]}"
    put(terminal.folder, "wrong.yaml", wrong.replace("what:", "waht:", 1))
    status, shown = terminal.run(f"{run} --plan wrong.yaml")
    assert status == 2
    assert "waht" in shown, shown
    assert "as: set -o pipefail; make | tail" in shown.replace("\n", ""), shown
    # In line mode the same is shown as text.
    terminal.start(f"kogniterm run --model {scripted(terminal, PLANNED)} 'greet Ann'")
    terminal.until(lambda: terminal.shown[-1].endswith(":"))
    terminal.look()
    terminal.send("d 3\r")
    terminal.until(lambda: terminal.text.count("Read it") >= 2)
    terminal.look()
    terminal.send("m 2 1\r")
    terminal.look()
    terminal.send("s\r")
    assert terminal.status() == 130


def test_recipes_are_checked_and_run_without_a_plan(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    for number in (1, 2, 3):
        put(terminal.folder, f"{number}.txt", "x\n" * number)
    put(
        terminal.folder,
        "count.yaml",
        """name: count
inputs:
  ending: {type: string, default: txt}
nodes:
  - id: files
    command: printf '%s\\n' *.{{inputs.ending}}
  - id: each
    map: {over: "{{nodes.files.lines}}", do: lines}
  - id: lines
    command: wc -l < {{item}}
  - id: sum
    tool: calculate
    arguments: {formula: "6 * 7"}
  - id: large
    condition: {value: "{{nodes.sum.text}}", contains: "42"}
    then: end
outputs:
  counts: "{{nodes.each.value}}"
""",
    )
    recipe = "kogniterm recipe"
    model = scripted(terminal, "replies: [{text: unused}]")
    status, shown = terminal.run(
        f"KOGNITERM_MODEL={model} KOGNITERM_ALLOW_READS=1 {recipe} run ./count.yaml"
        " --output json > out.json"
    )
    assert status == 0, shown
    assert result_of(terminal.folder / "out.json")["answer"].split() != []
    assert terminal.run(f"{recipe} save count --file count.yaml")[0] == 0
    assert terminal.run(f"{recipe} save count --file count.yaml")[0] == 2
    assert terminal.run(f"{recipe} save count --file count.yaml --replace")[0] == 0
    put(terminal.folder, "bad.yaml", "name: bad\nnodes:\n  - {id: a, comand: ls}\n")
    status, shown = terminal.run(f"{recipe} run ./bad.yaml")
    assert (status, "comand" in shown) == (2, True)
    assert '"properties"' in terminal.run(f"{recipe} show --schema")[1]


def test_budgets_end_a_turn_and_it_goes_on_with_more(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(
        terminal,
        """replies:
  - {when: {last_matches: "^work"}, run: echo one}
  - {when: {last_contains: one}, run: echo two}
  - {when: {last_contains: two}, text: The end.}
  - {when: {last_matches: "^flood"}, run: "seq 1 9000000"}
  - {when: {last_matches: "^go on"}, run: echo two}
  - {text: "All right.", repeat: forever}
""",
    )
    once = f"kogniterm run -y --no-sandbox --model {model}"
    status, shown = terminal.run(f"{once} --max-steps 1 work")
    assert (status, "Raise the limit with --max-steps, or with /budget" in shown) == (4, True)
    status, shown = terminal.run(f"{once} --continue --max-steps 9 'go on'")
    assert (status, "The end." in shown) == (0, True)
    assert terminal.run(f"{once} --max-tokens 10 work")[0] == 4
    assert terminal.run(f"{once} --max-output 1 flood")[0] == 4
    slow = scripted(terminal, "replies: [{run: sleep 1000}, {text: Never.}]")
    assert terminal.run(f"{once.replace(model, slow)} --timeout 1 work")[0] == 4
    with anew(terminal, "[ready"):
        terminal.start(f"{once} --max-session-tokens 10 work; echo status $?")
    terminal.until("status 4")


def test_at_a_limit_the_prompt_asks_also_after_a_kill_at_the_question(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100)
    steps = "".join(
        f'  - {{when: {{last_contains: "{"go" if number == 1 else f"at {number - 1}."}"}}, '
        f'run: "echo {number} >> steps; echo at {number}."}}\n'
        for number in range(1, 31)
    )
    model = scripted(terminal, f"replies:\n{steps}  - {{text: All thirty., repeat: forever}}\n")
    options = f"--auto-approve --no-sandbox --max-steps 20 --model {model}"
    terminal.start(f"bash -c 'echo $$ > pid; exec kogniterm {options}'")
    terminal.until("auto-approve")
    say(terminal, "go")
    shown = asked(terminal, "Model call limit reached: 20. Continue?")
    assert "[a] no such limit in this session" in shown
    os.kill(int((terminal.folder / "pid").read_text()), signal.SIGKILL)
    terminal.until("Killed")
    open_prompt(terminal, f"kogniterm --resume last {options}")
    with turn_end(terminal):
        answer(terminal, "Model call limit reached: 20. Continue?", "y")
    assert "All thirty." in terminal.text
    steps_run = (terminal.folder / "steps").read_text().split()
    assert steps_run == [str(number) for number in range(1, 31)]
    assert leave(terminal) == 0


def test_a_sub_agent_asks_like_the_main_agent(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(
        terminal,
        """replies:
  - calls:
      - tool: delegate
        arguments: {task: "Find out what notes.txt says", tools: run}
  - {when: {last_contains: notes.txt says}, run: cat notes.txt}
  - {when: {last_contains: alpha}, text: "It says alpha."}
  - {when: {last_contains: "It says alpha."}, text: "The sub-agent found alpha."}
""",
    )
    put(terminal.folder, "notes.txt", "alpha\n")
    terminal.start(f"kogniterm run --model {model} 'what do the notes say?'")
    shown = answer(terminal, "cat notes.txt", "y")
    assert "Find out what notes.txt says" in shown
    assert terminal.status() == 0
    assert "The sub-agent found alpha." in terminal.text


SUBSTEPS = """goal: Publish
steps:
  - {id: s1, what: Look, tools: [find_files], inputs: [input.text, session.folder]}
  - id: s2
    what: Build
    substeps:
      - {what: Compile, check: {kind: file, value: out}}
      - {what: Try it, inputs: [steps.s2_1.output]}
"""
WORK_ON_SUBSTEPS = """replies:
  - {when: {last_contains: 'input.text: Publish'}, run: touch early}
  - when: {last_contains: 's1 allows find_files'}
    calls: [{tool: find_files, arguments: {glob: '*'}}]
  - when: {tool: find_files}
    calls: [{tool: complete_step, arguments: {step: s1}}]
  - {when: {last_contains: 'Now s2_1'}, run: echo compiled > out}
  - {calls: [{tool: complete_step, arguments: {step: s2_1}}]}
  - {when: {last_contains: 'Now s2_2'}, run: cat out}
  - {calls: [{tool: complete_step, arguments: {step: s2_2}}]}
  - {when: {last_contains: All plan steps are closed}, text: Published.}
"""


def test_substeps_references_and_the_tools_of_a_step(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120, rows=50)
    terminal.run(f"export KOGNITERM_MODEL={scripted(terminal, WORK_ON_SUBSTEPS)}")
    put(terminal.folder, "plan.yaml", SUBSTEPS)
    terminal.run("kogniterm run --auto-approve --no-sandbox --plan plan.yaml; echo ended $?")
    terminal.until("ended 0")
    proven = ("s2_1 Compile: test -e out (exit 0)", "s2_2 Try it: cat out (exit 0)")
    for line in ("Published.", *proven):
        assert line in terminal.text
    assert not (terminal.folder / "early").exists()
    wrong = SUBSTEPS.replace("steps.s2_1.output", "steps.s9.output").replace("[find_files", "[fly")
    put(terminal.folder, "plan.yaml", wrong)
    terminal.run("kogniterm run --plan plan.yaml; echo ended $?")
    terminal.until("ended 2")
    assert "inputs of s2_2 refers to s9" in terminal.text
