"""Modes at a real terminal: plan only, resumed sessions, and commands of unknown outcome."""

from __future__ import annotations

from pathlib import Path

from tests.support.real_terminal import RealTerminal, User, words
from tests.terminal.conftest import OpenTerminal

ACT = "{run: touch acted, purpose: Act}"
COUNT = "{run: 'echo ran >>count', purpose: Count}"


def script(terminal: RealTerminal, name: str, text: str) -> str:
    """Write a scripted model in the home, readable by the user at the terminal; return its name."""
    file = terminal.home / name
    file.write_text(text)
    file.chmod(0o644)
    return f"scripted:{file}"


def one_line(terminal: RealTerminal) -> str:
    """Return the screen without line breaks."""
    return " ".join(terminal.text.split())


def test_plan_only_never_acts(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user)
    plan = "{plan: {goal: Make it, steps: [{id: s1, what: Create it}]}}"
    model = script(terminal, "plans.yaml", f"replies: [{ACT}, {plan}]")
    command = words("kogniterm", "run", "-y", "--no-sandbox", "--plan-only", "--model", model, "go")
    status, said = terminal.run(command)
    assert status == 0, said
    assert "goal: Make it" in said
    model = script(
        terminal, "acts.yaml", f"replies: [{ACT}, {{text: did it}}]\nat_end: repeat_last"
    )
    command = words("kogniterm", "run", "-y", "--no-sandbox", "--plan-only", "--model", model, "go")
    status, said = terminal.run(command)
    assert status == 5, said
    assert "Nothing was run" in " ".join(said.split())
    assert not (terminal.folder / "acted").exists()


def test_a_prompt_behind_a_one_shot_asks(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user)
    model = script(terminal, "hello.yaml", "replies: [{text: Hello.}]")
    status, said = terminal.run(
        words("kogniterm", "run", "-y", "--no-sandbox", "--model", model, "hi")
    )
    assert status == 0, said
    model = script(terminal, "act.yaml", f"replies: [{ACT}, {{text: Done.}}]")
    terminal.start(words("kogniterm", "-c", "--model", model))
    terminal.until(lambda: "It now asks before commands again" in one_line(terminal))
    terminal.until("manual")
    terminal.send("act\r")
    terminal.until("touch acted")
    terminal.until("reject")
    assert not (terminal.folder / "acted").exists()


def test_what_is_unknown_stays_unknown(
    open_terminal: OpenTerminal, user: User, place: Path
) -> None:
    terminal = open_terminal(user=user)
    model = script(terminal, "count.yaml", f"replies: [{COUNT}, {{text: Done.}}]")
    run = ["kogniterm", "run", "-y", "--no-sandbox", "--model", model]
    killed = f"KOGNITERM_FAULTS=kill:before-outcome {words(*run, 'count')}"
    assert terminal.run(killed)[0] == 137
    for _ in range(2):
        # Unattended: a pipe that ends at once.
        again = f"KOGNITERM_FAULTS=kill:after-outcome {words(*run, '-c')} </dev/null"
        assert terminal.run(again)[0] == 137
    status, said = terminal.run(f"{words(*run, '-c')} </dev/null")
    assert status == 3, said
    assert "May already have run" in " ".join(said.split())
    assert (place / "project" / "count").read_text() == "ran\n"
