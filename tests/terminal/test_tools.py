"""The list of tools at a real terminal: what switches them off, and tools of other packages."""

from __future__ import annotations

import json

import pytest

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

RULES = '[[rule]]\ndecision = "deny"\ntool = "github"\nreason = "no public code"\n'


@pytest.mark.parametrize(
    ("columns", "language", "words"),
    [
        (60, "en", ("github", "off", "uses the network", "built in", "16 on, 6 off")),
        (100, "en", ("github", "off", "uses the network", "built in", "16 on, 6 off")),
        (60, "es", ("github", "desactivada", "usa la red", "integrada", "16 activas, 6")),
        (100, "es", ("github", "desactivada", "usa la red", "integrada", "16 activas, 6")),
    ],
)
def test_the_tools_are_listed_with_what_switches_them_off(
    open_terminal: OpenTerminal, user: User, columns: int, language: str, words: tuple[str, ...]
) -> None:
    terminal = open_terminal(user=user, columns=columns, rows=45)
    put(terminal.home, ".config/kogniterm/policy.toml", RULES)
    put(terminal.home, ".config/kogniterm/config.toml", 'tools_off = ["web_search", "jobs"]\n')
    status, shown = terminal.run(f"kogniterm tools --lang {language}")
    assert status == 0, shown
    open_prompt(
        terminal,
        f"kogniterm --lang {language} --model {scripted(terminal, 'replies: [{text: Hi.}]')}",
    )
    listed = say(terminal, "/tools", words[-1])
    # The list is the same at the shell and at the prompt.
    for text in (shown, listed):
        told = flat(text)
        for word in (*words, "no public code", "tools_off"):
            assert word in told
    assert max(map(len, terminal.text.splitlines())) <= columns
    one = say(terminal, "/tools show web_fetch", "start")
    for word in ("web_fetch", "url*", "select", "boolean"):
        assert word in one
    assert leave(terminal) == 0


def test_a_list_for_programs_and_wrong_names(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=140)
    assert terminal.run("kogniterm tools --json > tools.json")[0] == 0
    tools = {one["name"]: one for one in json.loads((terminal.folder / "tools.json").read_text())}
    assert tools["execute_command"] == {
        "name": "execute_command", "effect": "command", "source": "built_in", "package": None,
        "state": "on", "reason": None, "note": None,
    }  # fmt: skip
    assert {"delegate", "make_plan", "complete_step", "forget"} <= set(tools)
    status, shown = terminal.run("kogniterm tools show web_fech")
    assert (status, "did you mean web_fetch?" in flat(shown)) == (2, True)
    status, shown = terminal.run("KOGNITERM_TOOLS_OFF=web_fech kogniterm tools")
    assert (status, "did you mean web_fetch?" in flat(shown)) == (2, True)
    assert terminal.run("kogniterm tools show read_file --json > one.json")[0] == 0
    one = json.loads((terminal.folder / "one.json").read_text())
    assert one["arguments"]["required"] == ["path"]
    assert one["rules"] == []


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
