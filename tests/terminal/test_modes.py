"""Modes at a real terminal: plan only, resumed sessions, and commands of unknown outcome."""

from __future__ import annotations

from tests.support.real_terminal import RealTerminal, User, words
from tests.support.typing_user import answer, asked, leave, open_prompt, put, say
from tests.terminal.conftest import OpenTerminal

ACT = "{run: touch acted, purpose: Act}"


def script(terminal: RealTerminal, name: str, text: str) -> str:
    """Write a scripted model in the home, readable by the user at the terminal; return its name."""
    file = terminal.home / name
    file.write_text(text)
    file.chmod(0o644)
    return f"scripted:{file}"


def test_plan_mode_changes_nothing_until_the_plan_is_started(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100, rows=45)
    put(terminal.folder, "notes.txt", "beware of the dog\n")
    look = "{run: cat notes.txt, purpose: Look}"
    plan = "{plan: {goal: Make it, steps: [{id: s1, what: Create it}]}}"
    close = "{calls: [{tool: complete_step, arguments: {step: s1}}]}"
    replies = ", ".join([ACT, look, plan, ACT, close, "{text: It is made.}"])
    model = script(terminal, "plan.yaml", f"replies: [{replies}]")
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "/mode plan", "Mode: plan only")
    say(terminal, "make it")
    terminal.until("Refused in plan mode:")
    terminal.until("beware of the dog")  # only reads: not asked about
    terminal.until("[e] edit")
    assert not (terminal.folder / "acted").exists()
    assert "plan only" in terminal.shown[-1]
    terminal.look()
    terminal.send("y")
    terminal.until("The mode is now ask")
    asked(terminal, "touch acted")
    # A change of the mode answers no question: it is judged again, and waits.
    for key in ("accept edits: ", "auto in sandbox: "):
        terminal.send("\x1b[Z")
        terminal.until(lambda key=key: key in terminal.shown[-1])
    terminal.until("would run this without a question")
    terminal.send("\x1b[Z")
    terminal.until("The mode you chose does not allow this.")
    assert "[y] approve" not in "\n".join(terminal.shown)
    terminal.send("\x1b[Z")
    terminal.until(" ask: ")
    assert not (terminal.folder / "acted").exists()
    answer(terminal, "touch acted", "y")
    terminal.until("It is made.")
    assert (terminal.folder / "acted").exists()
    assert " · ask" in terminal.shown[-1]
    assert leave(terminal) == 0
    # Without a user, the plan is the result.
    model = script(terminal, "alone.yaml", f"replies: [{ACT}, {plan}, {ACT}]")
    terminal.run("rm acted")
    run = words("kogniterm", "run", "--mode", "plan", "--model", model, "go")
    status, said = terminal.run(f"{run} </dev/null")
    assert status == 0, said
    assert "goal: Make it" in said
    assert not (terminal.folder / "acted").exists()


def test_auto_mode_asks_about_what_is_dangerous_at_the_prompt(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100)
    danger = "{run: 'echo x > .gitmodules; touch acted', purpose: Steer git}"
    model = script(terminal, "danger.yaml", f"replies: [{danger}, {{text: Done.}}]")
    open_prompt(terminal, f"kogniterm --no-sandbox --mode auto --model {model}")
    say(terminal, "do it")
    asked(terminal, ".gitmodules")
    terminal.look()
    terminal.send("y")
    terminal.until("yes")
    assert not (terminal.folder / "acted").exists()
    terminal.look()
    terminal.send("yes\r")
    terminal.until("Done.")
    assert (terminal.folder / "acted").exists()
    assert leave(terminal) == 0


def test_a_key_stops_questions_about_commands_that_only_read(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100)
    runs = "{run: ls -la}, {run: ls -l}, {run: touch acted}, {text: Done.}"
    model = script(terminal, "reads.yaml", f"replies: [{runs}]")
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "look")
    answer(terminal, "ls -la", "r")
    terminal.until("never ask again (setting allow_reads)")
    terminal.until("[1] commands that only read")
    terminal.send("1")
    terminal.pause(0.2)
    terminal.send("\r")
    asked(terminal, "touch acted")
    assert "$ ls -l\n" in terminal.text
    terminal.send("n")
    terminal.until("Optional reason")
    terminal.send("\r")
    terminal.until("Done.")
    assert leave(terminal) == 0
    assert terminal.run("cat ~/.config/kogniterm/config.toml")[1].strip() == "allow_reads = true"
