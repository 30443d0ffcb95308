"""Files installed with the program, the examples of the library's pages, and PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from tests.support.databases import postgres_server, postgres_url  # noqa: F401 (fixtures)
from tests.support.programs import require
from tests.support.real_terminal import User
from tests.support.typing_user import (
    leave,
    open_prompt,
    put,
    say,
    say_task,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

ROOT = Path(__file__).resolve().parents[2]


def test_bash_completes_and_man_shows_the_page(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    terminal.run("bind 'set show-all-if-ambiguous on'; bind 'set bell-style none'")
    assert terminal.run('eval "$(kogniterm completion bash)"')[0] == 0
    terminal.send("kogniterm sess\t")
    terminal.until(lambda: terminal.shown[-1].endswith("kogniterm sessions"))
    terminal.send("exp\t")
    terminal.until(lambda: terminal.shown[-1].endswith("sessions export"))
    terminal.send("\x15")
    terminal.status()
    terminal.send("kogniterm run --plan-o\t")
    terminal.until(lambda: terminal.shown[-1].endswith("--plan-only"))
    terminal.send("\x15")
    terminal.status()
    for shell in ("zsh", "fish"):
        status, _ = terminal.run(f"kogniterm completion {shell} > script.{shell}")
        assert (status, "kogniterm" in (terminal.folder / f"script.{shell}").read_text()) == (
            0,
            True,
        )
    assert terminal.run("kogniterm completion --list sessions")[0] == 0
    require("man")
    put(terminal.folder, "kogniterm.1", (ROOT / "docs" / "kogniterm.1").read_text())
    status, shown = terminal.run("MANPAGER=cat man -l ./kogniterm.1 | head -60")
    assert (status, "NAME" in shown) == (0, True)


def test_a_postgresql_server_keeps_the_same(
    open_terminal: OpenTerminal,
    user: User,
    postgres_url: str,  # noqa: F811
) -> None:
    terminal = open_terminal(user=user, columns=160)
    model = scripted(terminal, "replies: [{text: Kept., repeat: forever}]")
    run = f"kogniterm run --allow-reads --model {model}"
    assert terminal.run(f"{run} 'in the file'")[0] == 0
    terminal.run(f"export KOGNITERM_DATABASE_URL='{postgres_url}'")
    assert "in the file" not in terminal.run("kogniterm sessions list")[1]
    steps = "kogniterm storage copy sqlite postgres && kogniterm storage copy sqlite postgres"
    status, shown = terminal.run(f"{steps} && kogniterm sessions list")
    assert status == 0, shown
    assert "in the file" in shown
    open_prompt(terminal, f"kogniterm --model {model}")
    say_task(terminal, "remember that the server is heron", "Kept.")
    say(terminal, "/memory list", "heron")
    say(terminal, "/forget heron")
    terminal.until("[y]")
    terminal.look()
    terminal.send("y")
    terminal.until("Proof:")
    assert leave(terminal) == 0
    status, shown = terminal.run("kogniterm audit verify && kogniterm storage check")
    assert (status, shown.count("all as they were written")) == (0, 2)
    # Unreachable: one error message, without the password.
    url = "postgresql://somebody:secretword@127.0.0.1:1/none"
    status, shown = terminal.run(f"export KOGNITERM_DATABASE_URL={url}")
    marker = len(terminal.text)
    assert terminal.run("kogniterm sessions list")[0] != 0
    assert "secretword" not in terminal.text[marker:]
