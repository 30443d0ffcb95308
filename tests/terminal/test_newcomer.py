"""Journeys of a newcomer: every command block of the pages is typed as it stands, and works.

Registries and services are stand-ins: programs of the same name, first on PATH, which note how they
were called. The model is scripted. A line that cannot be typed here is named with the reason.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.test_pages import PAGES, ROOT
from tests.support.fake_gemini import FakeGemini
from tests.support.images import png
from tests.support.other_agents import HOMES
from tests.support.real_terminal import RealTerminal
from tests.support.typing_user import below, flat, leave, open_prompt, put, say
from tests.terminal.conftest import OpenTerminal

DEMO_SERVER = ROOT / "tests" / "support" / "mcp_demo" / "demo_server.py"
REPLIES = """replies:
  - {when: {tool: complete_step}, text: Upgraded., repeat: forever}
  - when: {any_contains: "s1", purpose: decide_action}
    calls: [{tool: complete_step, arguments: {step: s1}}]
  - when: {last_matches: "upgrade the site", purpose: create_plan}
    plan: {goal: Upgrade, steps: [{id: s1, what: Look, check: {kind: file, value: notes.md}}]}
  - {text: Hello from the model., repeat: forever}
"""
PLANNED = """replies:
  - plan:
      goal: Greet in a file
      steps: [{id: s1, what: Write it, check: {kind: command, value: grep -q Ann greeting.txt}}]
  - {run: "echo Ann > greeting.txt", purpose: Write the greeting}
  - {calls: [{tool: complete_step, arguments: {step: s1}}]}
  - {text: Written.}
"""
COMMANDS = "commands:\n  - {matches: '.*', output: built}\n"
RECIPE = "name: count\nnodes:\n  - {id: files, command: ls}\n"
FACTS = '{"text": "The user prefers tabs.", "category": "preference"}\n'
ELSEWHERE = {
    "docs/local-model.md": "downloads 491 MB: tests/addons/local_model/test_local_model.py",
    "CONTRIBUTING.md": "for contributors, who have a checkout",
    "docs/cli.md": "generated; the examples of the verbs are parsed by tests/house/test_pages.py",
    "docs/specification.md": "typed by tests/terminal/test_specification.py",
    "docs/recipes/cron.md": "run by tests/packages/test_recipes.py",
    "docs/recipes/pre-commit.md": "run by tests/packages/test_recipes.py",
    "docs/many-machines.md": "needs PostgreSQL, ssh and hosts: addons/fleet, test_many_hosts.py",
    "docs/packages.md": "needs Docker and a built package: tests/packages",
}
"""Pages whose blocks other tests run."""
STAND_INS = ("make", "pip", "harbor", "langgraph", "asciinema", "docker", "uv", "pipx")
"""Programs of registries and services, which note how they were called."""


EARLIER = {
    "docs/memory.md": "for n in 1 2 3 4 5 6; do kogniterm memory add fact-$n; done",
    "docs/recipes.md": "kogniterm run -y --no-sandbox --model scripted:greet.yaml 'greet Ann'",
    "docs/models.md": "kogniterm run hello",
    "docs/plans.md": "kogniterm run hello",
}
"""Commands that a newcomer has run before."""
LOCAL = "--model local"
"""In the lines for the embedded model, which tests/addons/local_model/test_local_model.py types."""


class Typed(NamedTuple):
    """The answers to a line, as (text on the screen, keys), and how it ends."""

    answers: Sequence[tuple[str, str]] = ()
    status: int = 0
    shows: str = ""


AT_PROMPT = Typed([("› ", "\x04")])
LINES = {
    "kogniterm": AT_PROMPT,
    "kogniterm --model anthropic:claude-sonnet-4-6": AT_PROMPT,
    "kogniterm login": Typed([("Your decision [1-7]: ", "7\r")], status=1),
    "kogniterm mcp add files -- npx -y @modelcontextprotocol/server-filesystem .": Typed(
        [("npx needs the network. Allow it? [yes/no] ", "yes\r")], shows="added to"
    ),
    "kogniterm mcp trust files": Typed(
        [
            ("Start the MCP server files? [yes/no]", "yes\r"),
            ("Trust the tools of files? [yes/no]", "yes\r"),
        ],
        shows="MCP server files is trusted",
    ),
    "kogniterm mcp login linear": Typed(status=2, shows="no MCP server linear"),
    "kogniterm import claude": Typed(
        [("Import 10 entries? [yes/no]", "y\r"), ("Copy the secrets? [yes/no]", "n\r")]
    ),
    "kogniterm recipe run greet who=Bob": Typed(
        [("echo Bob > greeting.txt", "y\r"), ("grep -q Bob greeting.txt", "y\r")]
    ),
    "kogniterm run --plan plan.yaml": Typed([("test -e notes.md", "y\r")], shows="Upgraded."),
    "kogniterm recipe run ./r.yaml": Typed([("$ ls", "y\r")]),
    "kogniterm memory forget m8": Typed([("Forget this for good? [yes/no]", "y\r")]),
}
"""The lines that ask, or that end with a sentence here; all others end at once with status 0."""


def blocks() -> dict[str, list[list[str]]]:
    """Return the lines of the shell blocks of each page, without their comments."""
    found: dict[str, list[list[str]]] = {}
    for page in PAGES:
        text = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", page.read_text(), re.M | re.S)
        name = str(page.relative_to(ROOT))
        if text and name not in ELSEWHERE:
            lines = [[re.sub(r"(?:^|\s{2,})#.*", "", line).rstrip() for line in one.splitlines()]
                     for one in text]  # fmt: skip
            found[name] = [[line for line in one if line and LOCAL not in line] for one in lines]
    return found


def prepare(terminal: RealTerminal, stand_ins: Path) -> None:
    """Write what a newcomer has: a project with a repository, notes, a picture and other agents."""
    stand_ins.mkdir()
    for name in STAND_INS:
        put(stand_ins, name, f'#!/bin/sh\necho "{name} $*" >> {stand_ins}/calls\n').chmod(0o755)
    server = f"exec {sys.executable} {DEMO_SERVER} {terminal.folder}/calls"
    put(stand_ins, "npx", f'#!/bin/sh\necho "npx $*" >&2\n{server}\n').chmod(0o755)
    files = {
        "notes.md": "one\ntwo\n", "parse.py": "print(1)\n", "demo.yaml": REPLIES,
        "commands.yaml": COMMANDS, "r.yaml": RECIPE, "greet.yaml": PLANNED,
        "facts.jsonl": FACTS, "KEYFILE": "k" * 30,
    }  # fmt: skip
    for name, text in files.items():
        put(terminal.folder, name, text)
    put(terminal.folder, "shot.png", png())
    put(terminal.home, "replies.yaml", REPLIES)
    HOMES["claude"](terminal.home)
    status, shown = terminal.run("git init -q . && git add notes.md && echo three >> notes.md")
    assert status == 0, shown


def type_line(terminal: RealTerminal, line: str) -> None:
    """Type a line, answer what it asks, and check how it ends."""
    expected = LINES.get(line, Typed())
    if expected.answers:
        before = len(terminal.text.splitlines()) - 1
        terminal.start(line)
        for text, keys in expected.answers:
            terminal.until(lambda text=text: text in flat(below(terminal, before)) + " ")
            terminal.look()
            terminal.send(keys)
        status, shown = terminal.status(), below(terminal, before)
    else:
        status, shown = terminal.run(line)
    assert (line, status) == (line, expected.status), shown
    assert expected.shows in flat(shown)
    assert "Traceback" not in shown


@pytest.mark.parametrize("page", blocks())
def test_every_command_of_a_page_works_as_it_stands(
    open_terminal: OpenTerminal, fake_gemini: FakeGemini, page: str
) -> None:
    address = {"GOOGLE_GEMINI_BASE_URL": fake_gemini.url, "EDITOR": "true"}
    terminal = open_terminal(columns=160, environment=address)
    fake_gemini.say("ready")
    stand_ins = terminal.home.parent / "bin"
    prepare(terminal, stand_ins)
    model = f"scripted:{terminal.home}/replies.yaml"
    terminal.run(f"export PATH={stand_ins}:$PATH KOGNITERM_MODEL={model} ANTHROPIC_API_KEY=none")
    if page in EARLIER:
        status, shown = terminal.run(EARLIER[page])
        assert status == 0, shown
    for block in blocks()[page]:
        if block[0].startswith("/"):
            open_prompt(terminal, "kogniterm")
            for line in block:
                if line.startswith("/"):
                    terminal.until(lambda: "›" in [one.rstrip() for one in terminal.shown[-3:]])
                    terminal.look()
                    say(terminal, line)
            assert leave(terminal) == 0
        for line in block:
            if not line.startswith("/"):
                type_line(terminal, line)


def test_the_tables_name_only_pages_and_lines_that_there_are() -> None:
    lines = {line for page in blocks().values() for block in page for line in block}
    assert set(LINES) - lines == set()
    assert {*ELSEWHERE, *EARLIER} - {str(page.relative_to(ROOT)) for page in PAGES} == set()
