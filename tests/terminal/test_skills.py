"""Skills at a real terminal: installed, accepted, used, changed, switched off; and attacks."""

from __future__ import annotations

from pathlib import Path

from tests.support.programs import needs
from tests.support.real_terminal import User
from tests.support.typing_user import (
    answer,
    asked,
    choose,
    leave,
    open_prompt,
    put,
    say,
    say_task,
    scripted,
    turn_end,
)
from tests.terminal.conftest import OpenTerminal

SKILLS = Path(__file__).parents[1] / "data" / "skills"


def install(folder: Path, place: str, name: str = "release-notes") -> Path:
    """Put a skill below a folder, with its owner; return the skill's folder."""
    source = SKILLS / name
    for file in sorted(source.rglob("*")):
        if file.is_file():
            put(folder, f"{place}/{name}/{file.relative_to(source)}", file.read_bytes())
    return folder / place / name


SCRIPT = """replies:
  - {when: {last_contains: "besides: version 2"}, text: "Notes for two."}
  - when: {last_contains: "write the notes"}
    calls: [{tool: use_skill, arguments: {name: release-notes}}]
    repeat: forever
  - when: {last_contains: "Sort them by the headings"}
    run: "sh FOLDER/scripts/commits.sh"
    repeat: forever
  - {when: {last_contains: "exit 0"}, text: "The notes are written.", repeat: forever}
  - {when: {last_contains: "changed after"}, text: "The script was exchanged."}
  - {text: "I have no such skill.", repeat: forever}
"""


@needs("git")
def test_a_skill_of_another_agent_is_accepted_used_and_pinned(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100, rows=40)
    folder = install(terminal.home, ".claude/skills")
    put(terminal.folder, "README.md", "x\n")
    terminal.run(
        "git init -q . && git add . && git -c user.name=a -c user.email=b commit -qm 'Add x'"
    )
    model = scripted(terminal, SCRIPT.replace("FOLDER", str(folder)))
    open_prompt(terminal, f"kogniterm --model {model}")
    say_task(terminal, "write the notes", "I have no such skill.")
    say(terminal, "/skills", "To accept one:")
    assert "not accepted" in terminal.text
    say(terminal, "/skills trust release-notes", "git describe --tags")
    choose(terminal, "Accept this skill as it is now?")
    terminal.until("Skill release-notes accepted.")
    with turn_end(terminal):
        say(terminal, "write the notes")
        terminal.until("commands that begin with git log")
        terminal.look()
        terminal.send("2\r")  # no; it is not asked again
        answer(terminal, "commits.sh", "y")
        terminal.until("The notes are written.")
    say(terminal, "/skills")
    terminal.until("in use")
    with turn_end(terminal):
        say(terminal, "/release-notes version 2", "Notes for two.")
    # The script is exchanged while the question about it is open.
    with turn_end(terminal):
        say(terminal, "write the notes")
        asked(terminal, "commits.sh")
        put(terminal.home, ".claude/skills/release-notes/scripts/commits.sh", "touch /tmp/owned\n")
        terminal.send("y")
        terminal.until("changed after the command was checked")
    say(terminal, "/skills", "To accept one:")
    say(terminal, "/release-notes now", "changed since it was accepted")
    say(terminal, "/skills trust release-notes", "touch /tmp/owned")
    choose(terminal, "Accept this skill as it is now?", "n")
    say(terminal, "/skills off release-notes", "is off, in every folder.")
    assert leave(terminal) == 0


def test_skills_are_added_listed_shown_and_removed_by_commands(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100)
    install(terminal.home, "downloads")
    install(terminal.home, ".agents/skills", "table-check")
    status, shown = terminal.run("kogniterm skills add ~/downloads/release-notes")
    assert (status, "Skill release-notes added" in shown) == (0, True)
    status, shown = terminal.run("kogniterm skills list")
    assert "release-notes  offered       yours" in shown
    assert "table-check    not accepted  ~/.agents/skills" in shown
    assert terminal.run("kogniterm skills trust table-check < /dev/null")[0] == 2
    status, shown = terminal.run("kogniterm skills trust table-check --yes")
    assert (status, "count the cells of each row" in shown) == (0, True)
    status, shown = terminal.run("kogniterm skills show release-notes")
    assert "Bash(git log:*)" in shown
    assert "1. Run `scripts/commits.sh`" in shown
    assert '"state": "ready"' in terminal.run("kogniterm skills list --json")[1]
    notes = scripted(terminal, 'replies: [{when: {last_contains: "besides: v2"}, text: For two.}]')
    assert "For two." in terminal.run(f"kogniterm run --model {notes} '/release-notes v2'")[1]
    status, shown = terminal.run(f"kogniterm run --model {notes} '/release-note v2'")
    assert (status, "Did you mean /release-notes?" in shown) == (2, True)
    # A script of the user's own skill runs in the sandbox, which cannot change it.
    script = terminal.home / ".config/kogniterm/skills/release-notes/scripts/commits.sh"
    model = scripted(
        terminal,
        f"""replies:
  - run: "sh {script} 2>&1; echo x >> {script} || echo kept"
  - {{text: "Done.", repeat: forever}}
""",
    )
    _, shown = terminal.run(f"kogniterm run --model {model} -y go")
    assert "kept" in shown or "No sandbox works here" in shown
    assert script.read_bytes() == (SKILLS / "release-notes/scripts/commits.sh").read_bytes()
    status, shown = terminal.run("kogniterm skills remove release-notes --yes")
    assert (status, "Skill release-notes removed." in shown) == (0, True)
    assert not script.exists()
    assert terminal.run("kogniterm skills show release-notes")[0] == 2
