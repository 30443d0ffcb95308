"""Modes at a real terminal: plan only, resumed sessions, and commands of unknown outcome."""

from __future__ import annotations

from pathlib import Path

from tests.support.real_terminal import RealTerminal, User, words
from tests.support.typing_user import answer, asked, leave, open_prompt, put, say
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
    terminal.until(" · ask")
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


WRITE = "{{calls: [{{tool: write_file, arguments: {{path: {path}, content: new}}}}]}}"


def test_accept_edits_mode_edits_files_of_the_workspace_only(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    put(terminal.folder, "notes.txt", "one\n")
    edit = "{calls: [{tool: edit_file, arguments: {path: notes.txt, old: one, new: two}}]}"
    replies = [edit, *(WRITE.format(path=path) for path in ("more.txt", ".git/hooks/x", ".env"))]
    model = script(terminal, "edits.yaml", f"replies: [{', '.join(replies)}, {ACT}]")
    open_prompt(terminal, f"kogniterm --mode accept-edits --model {model}")
    terminal.until("accept edits")
    say(terminal, "edit")
    for path in (".git/hooks/x", ".env"):
        answer(terminal, path, "n")
        terminal.until("Optional reason")
        terminal.send("\r")
    answer(terminal, "touch acted", "s")
    terminal.until("The turn was stopped.")
    terminal.send("\x03")
    assert (terminal.folder / "notes.txt").read_text("utf-8") == "two\n"
    assert (terminal.folder / "more.txt").exists()
    assert not {".git", ".env", "acted"} & {path.name for path in terminal.folder.iterdir()}
    say(terminal, "/undo", "more.txt")
    answer(terminal, "more.txt", "y")
    terminal.until("Restored:")
    assert not (terminal.folder / "more.txt").exists()
    assert leave(terminal) == 0
    # Without a user, what would have to be asked is refused.
    for path, status in (("a.txt", 0), ("../outside.txt", 3), (".git/hooks/x", 3), (".env", 3)):
        reply = WRITE.format(path=path)
        model = script(terminal, "one.yaml", f"replies: [{reply}, {{text: Done.}}]")
        run = words("kogniterm", "run", "--mode", "accept-edits", "--model", model, "edit")
        assert terminal.run(f"{run} </dev/null")[0] == status, path


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
    answer(terminal, "cat notes.txt", "y")
    terminal.until("[d] drop")
    assert not (terminal.folder / "acted").exists()
    assert "plan only" in terminal.shown[-1]
    terminal.look()
    terminal.send("y")
    terminal.until("The mode is now ask")
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
