"""A plan that worked is saved as a recipe and run again, at a terminal."""

from __future__ import annotations

from tests.support.greeting_plan import greeting_plan
from tests.support.real_terminal import User
from tests.support.typing_user import answer, scripted
from tests.terminal.conftest import OpenTerminal, open_terminal, place, pytest_generate_tests

__all__ = ["open_terminal", "place", "pytest_generate_tests"]


def test_a_plan_whose_steps_are_done_is_run_with_another_input(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120, rows=50)
    model = scripted(terminal, "replies:\n" + greeting_plan("greet"))
    terminal.run(f"export KOGNITERM_MODEL={model}")
    status, shown = terminal.run("kogniterm run -y --no-sandbox 'greet Ann'")
    assert (status, "Ann is greeted." in shown) == (0, True), shown
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
