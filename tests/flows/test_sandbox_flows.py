"""Reports of sandboxed commands to the user and to the model, through whole turns."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from kogniterm.sessions.records import Intent, Noted
from kogniterm.storage.user_key import read_key
from kogniterm.types import ActionRequest, Decision, events
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.support.executing import first_processes
from tests.support.forge import until
from tests.support.programs import require, require_sandbox

IN_A_SANDBOX = "runs in a sandbox"


def script(*commands: str) -> str:
    quoted = (command.replace("'", "''") for command in commands)
    runs = ", ".join(f"{{run: '{command}'}}" for command in quoted)
    return f"replies: [{runs}, {{text: Done.}}]"


@pytest.fixture(params=["namespaces", "bubblewrap", "container", "landlock"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return a kind of sandbox that works here."""
    return require_sandbox(request.param).kind


def told(flow: Flow) -> list[str]:
    """Return the result of each command as the model received it."""
    return [text for text in flow.shown if "[exit " in text]


async def test_what_other_tools_act_on_is_shown_and_recorded(
    make_flow: MakeFlow, kind: str
) -> None:
    plant = (
        "python3 -c \"import os; os.mkdir('.vs' + 'code');"
        " open('.vs' + 'code/tasks.json', 'w')\""
    )  # policy does not see this
    flow = make_flow(script(plant, "python3 -c 'print(1)' > harmless"), sandbox=kind)
    await flow.run()
    notices = [str(event.text) for event in flow.of(events.Notice)]
    assert [".vscode/tasks.json (new)" in notice for notice in notices] == [True]
    first, second = told(flow)
    assert "[sandbox: the command changed files that other programs read or run: " in first
    assert ".vscode" not in second
    bodies = [record.body for record in flow.session.journal.records()]
    kept = [body for body in bodies if isinstance(body, Noted) and body.kind == "steering_files"]
    assert len(kept) == 1


async def test_one_line_names_eight_of_what_other_tools_read(
    make_flow: MakeFlow, kind: str
) -> None:
    many = "mkdir -p .cargo .helix sub; touch .cargo/a .cargo/b .cargo/c Makefile sub/conftest.py"
    flow = make_flow(
        script(f"python3 -c 1; {many}; for n in 1 2 3 4 5 6 7 8; do touch .x$n; done"),
        sandbox=kind,
    )
    await flow.run()
    (notice,) = [str(event.text) for event in flow.of(events.Notice)]
    assert "run or read: Makefile (new); sub/conftest.py (new); .cargo/ (3) (new); .x1" in notice
    assert ".x5 (new) and 3 more. Review them" in notice


async def test_the_model_is_told_once_that_it_is_in_a_sandbox(
    make_flow: MakeFlow, kind: str
) -> None:
    flow = make_flow(script("python3 -c 1", "python3 -c 2"), sandbox=kind)
    await flow.run()
    assert [IN_A_SANDBOX in text for text in told(flow)] == [True, False]
    session_id = flow.session.id
    flow.close()
    again = make_flow(script("python3 -c 3"), sandbox=kind)
    again.folder = flow.folder
    again.open(session_id)
    await again.run()
    assert [IN_A_SANDBOX in text for text in told(again)] == [True, False, False]


@pytest.mark.parametrize(("setting", "inside"), [("namespaces", True), ("auto", False)])
async def test_a_sandbox_is_built_while_the_user_is_asked_if_the_command_is_to_run_in_it(
    make_flow: MakeFlow, setting: str, inside: bool
) -> None:
    require_sandbox("namespaces")

    def approve(request: ActionRequest) -> Decision:
        if inside:
            until(first_processes)
        return yes(request)

    flow = make_flow(script("echo x > .envrc"), [approve], sandbox=setting)
    await flow.run()
    until(lambda: len(first_processes()) == inside)
    assert told(flow)


async def test_a_command_that_is_misled_says_so_and_may_run_again(make_flow: MakeFlow) -> None:
    require_sandbox("namespaces")
    command = "systemctl status x > units.txt; python3 -c 1"
    flow = make_flow(script(command, command), sandbox="namespaces")
    answer = await flow.run()
    for text in told(flow):
        assert "systemctl saw the sandbox, not this machine" in text
    assert len(told(flow)) == 2
    assert answer.exit_code == 0


@pytest.mark.parametrize(
    "command",
    [
        'python3 -c "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"',
        "python3 -c \"open('/var/tmp/no', 'w')\"",
        "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 9))\"",
    ],
)
async def test_refusals_are_recognised(make_flow: MakeFlow, kind: str, command: str) -> None:
    flow = make_flow(script(command), sandbox=kind)
    await flow.run()
    assert "nobody can approve it" in told(flow)[0]


async def test_files_in_the_private_tmp_are_announced(make_flow: MakeFlow) -> None:
    require_sandbox("namespaces")
    name = f"/tmp/kept-{os.getpid()}"
    flow = make_flow(
        script(f"python3 -c 1 > {name}", f"cat {name} && python3 -c 'print(7)' >> {name}"),
        sandbox="namespaces",
    )
    await flow.run()
    first, second = told(flow)
    assert "a private /tmp of this session (programs outside do not see it)" in first
    assert "[exit 0" in second
    assert not Path(name).exists()


async def test_settings_below_the_workspace_cannot_be_made(make_flow: MakeFlow, kind: str) -> None:
    flow = make_flow(
        script("python3 -c \"open('mine/policy' + '.toml', 'w')\"; mkdir -p mine/recipes/x"),
        sandbox=kind,
    )
    flow.environ["KOGNITERM_CONFIG_DIR"] = str(flow.folder / "mine")
    await flow.run()
    assert list((flow.folder / "mine").iterdir()) == []


async def test_in_a_folder_that_the_sandbox_does_not_show_the_user_is_asked(
    make_flow: MakeFlow,
) -> None:
    require_sandbox("namespaces")
    folder = tempfile.mkdtemp()
    commands = [f"touch {folder}/one; cd {folder}", "ls", "ls; cd -", "ls"]
    flow = make_flow(script(*commands), [yes, yes, yes], sandbox="auto", allow_reads=True)
    await flow.run()
    reasons = [[str(reason) for reason in verdict.reasons] for _, _, verdict in flow.user.asked]
    hidden = f"The current folder {folder} is not visible in the sandbox."
    assert [hidden in asked for asked in reasons] == [False, True, True]
    assert [result.text.split("\n")[0] for result in flow.results] == ["", "one", "one", ""]


async def test_the_key_of_stored_answers_cannot_be_read_inside(
    make_flow: MakeFlow, kind: str
) -> None:
    """The folder is there from the start: a job that runs may not see it come."""
    reading = "import os; print(open(os.sep + '{}', 'rb').read().hex())"
    flow = make_flow(sandbox=kind)
    file = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "queue.key"
    assert not file.parent.exists()
    commands = [f'python3 -c "{reading.format(str(file)[1:])}"', f"cat {file}"]
    flow = make_flow(script(*commands), sandbox=kind)
    flow.open()
    assert file.parent.is_dir()
    key = read_key(file).hex()
    await flow.run()
    assert flow.results
    assert key not in "".join(flow.shown)
    assert key not in "".join(result.text for result in flow.results)


async def test_a_list_of_processes_shows_both_worlds_with_labels(make_flow: MakeFlow) -> None:
    require("ps", "ss", "lsof")
    require_sandbox("namespaces")
    require_sandbox("landlock")
    started = "python3 -m http.server 8129 --bind 127.0.0.1 &\nsleep 1"
    listed = "ps -eo pid,args | grep -e http.server -e pytest | grep -v grep"
    commands = (started, listed, "pgrep no-such-name", "lsof -i", "ss -ltn | grep :8129")
    flow = make_flow(script(*commands), sandbox="namespaces")
    await flow.run()
    _begun, both, none, owners, found = told(flow)
    inside, _mark, machine = both.partition("[this machine")
    assert inside.startswith("[the processes of this session's commands, in their sandbox, exit 0]")
    assert "http.server 8129" in inside
    assert "pytest" not in inside
    assert "pytest" in machine
    assert none.count("exit 1]") == 3
    assert "lsof saw what this session's commands run, not the machine" in owners
    intents = [one for one in flow.session.journal.records() if isinstance(one.body, Intent)]
    assert len(intents) == 5
    assert ", exit 1]" in found
    assert flow.results[-1].exit_code == 0
