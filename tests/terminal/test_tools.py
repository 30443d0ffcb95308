"""The list of tools at a real terminal: what switches them off, and tools of other packages."""

from __future__ import annotations

from tests.support.real_terminal import User
from tests.support.tool_package import install
from tests.support.typing_user import (
    answer,
    flat,
    leave,
    open_prompt,
    put,
    say,
    say_task,
    scripted,
)
from tests.terminal.conftest import OpenTerminal


def test_a_tool_of_a_package_is_asked_for_until_a_rule_allows_it(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100, rows=40)
    packages = install(terminal.home.parent / "packages", {"count_words": "acme.tools:count_words"})
    for path in (packages, *packages.rglob("*")):
        path.chmod(0o755)
    terminal.run(f"export PYTHONPATH={packages}")
    assert "count_words" not in terminal.run("kogniterm tools")[1]
    put(terminal.home, ".config/kogniterm/config.toml", 'tool_packages = ["acme-tools"]\n')
    assert "package acme-tools 1.2" in flat(terminal.run("kogniterm tools show count_words")[1])
    reply = "{calls: [{tool: count_words, arguments: {text: one two}}]}"
    model = scripted(terminal, f"replies: [{reply}, {{text: Counted.}}, {reply}, {{text: Again.}}]")
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "count", "Runs code of the package acme-tools 1.2")
    assert "count_words(text='one two', least=1)" in flat(terminal.text)
    answer(terminal, "acme-tools", "y")
    terminal.until("Counted.")
    assert leave(terminal) == 0
    put(
        terminal.home,
        ".config/kogniterm/policy.toml",
        '[[rule]]\ndecision = "allow"\ntool = "count_words"\n',
    )
    model = scripted(terminal, f"replies: [{reply}, {{text: Unasked.}}]")
    open_prompt(terminal, f"kogniterm --model {model}")
    say_task(terminal, "count", "Unasked.")
    assert leave(terminal) == 0
    # A mistake in a package is one sentence, and the session works.
    put(terminal.home, ".config/kogniterm/config.toml", 'tool_packages = ["acme-tolls"]\n')
    model = scripted(terminal, "replies: [{text: Works.}]")
    status, shown = terminal.run(f"kogniterm run --model {model} hi")
    assert (status, "acme-tolls, which is not installed" in flat(shown)) == (0, True), shown
