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


def test_doctor_reports_bytecode_that_every_start_makes_again(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=1000)  # a line has the paths of several folders
    # Images of containers often forbid Python to save what it compiled.
    python = f"PYTHONDONTWRITEBYTECODE=1 PYTHONPYCACHEPREFIX={terminal.home}/none"
    shown = terminal.run(f"{python} kogniterm doctor")[1]
    assert "each start compiles it again" in shown
    assert "-m compileall -q" in shown


def test_the_library_does_what_its_page_shows(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    put(terminal.folder, "library.md", (ROOT / "docs" / "library.md").read_text())
    status, shown = terminal.run("python3 -m doctest library.md")
    assert status == 0, shown
    example = """from kogniterm.execution import open_executor
with open_executor(".") as executor:
    executor.run("mkdir src; cd src && export MODE=test")
    result = executor.run("echo $MODE in ${PWD##*/}", timeout=600)
    print(result.exit_code, result.text)
"""
    put(terminal.folder, "example.py", example)
    assert terminal.run("python3 example.py")[1].endswith("0 test in src")


def test_an_agent_of_a_program_is_a_session_of_the_user(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, "replies: [{run: touch made.txt}, {text: Kept., repeat: forever}]")
    program = f"""import asyncio, kogniterm
async def main():
    async with kogniterm.open_agent(model="{model}", sandbox="off") as agent:
        answer = await agent.run("make a file")
        print(answer.exit_code, answer.refused_by)
asyncio.run(main())
"""
    put(terminal.folder, "program.py", program)
    assert terminal.run("python3 program.py")[1].endswith("3 unattended")
    assert terminal.run("test -e made.txt")[0] == 1
    shown = terminal.run("kogniterm sessions list")[1]
    assert "make a file" in shown


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
    steps = "kogniterm storage copy sqlite postgres && kogniterm storage check sqlite postgres"
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


def test_a_damaged_database_is_moved_aside_and_what_can_be_read_is_kept(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, "replies: [{text: Kept., repeat: forever}]")
    assert terminal.run(f"kogniterm run --model {model} 'before the damage'")[0] == 0
    data = terminal.home / ".local/share/kogniterm"
    database = data / "kogniterm.db"
    whole = bytearray(database.read_bytes())
    middle = len(whole) // 2 // 4096 * 4096
    whole[middle : middle + 4096] = b"\xa5" * 4096
    database.write_bytes(bytes(whole))
    status, shown = terminal.run("kogniterm sessions list")
    assert status == 0, shown
    assert list(data.glob("kogniterm.db.damaged-*"))
    database.write_bytes(b"this is no database at all, but text" * 200)
    terminal.run("kogniterm sessions list")
    assert len(list(data.glob("kogniterm.db.damaged-*"))) == 2
