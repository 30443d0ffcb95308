"""Whole outputs of a session that its later commands in the sandbox may read, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.test_tool_flows import call
from tests.support.programs import require_sandbox

PASSWORD = "hunter2-Zq9xLw"
LONG = "for n in {1..4000}; do echo line $n; done"
SAYS = f"echo the password is {PASSWORD}"


@pytest.fixture(params=["namespaces", "bubblewrap", "container", "landlock"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return a kind of sandbox that works here."""
    return require_sandbox(request.param).kind


def script(*commands: str, more: Sequence[str] = ()) -> str:
    quoted = (command.replace("'", "''") for command in commands)
    replies = [*(f"{{run: '{command}'}}" for command in quoted), *more, "{text: Done.}"]
    return f"replies: [{', '.join(replies)}]"


async def told(flow: Flow) -> list[str]:
    """Run the script; return the results of its commands as the model received them."""
    before = len(flow.shown) if flow.session is not None else 0
    await flow.run()
    return [text for text in flow.shown[before:] if "[exit " in text]


def path_in(text: str) -> str:
    """Return the path that a result names for its whole output."""
    return text.partition("read_file or grep ")[2].partition("]")[0]


async def test_a_later_command_reads_the_whole_output_also_after_a_resume(
    make_flow: MakeFlow, kind: str
) -> None:
    flow = make_flow(script(LONG), sandbox=kind)
    (first,) = await told(flow)
    path = path_in(first)
    session_id = flow.session.id
    flow.close()
    plant = (
        "import os, sys; os.chdir(sys.argv[1]); os.system('cp /etc/hostname x; ln -s /etc y; rm *')"
    )
    again = make_flow(
        script(
            f"grep -n 'line 3999' {path}",
            f"python3 -c 1; tail -n 2 {path}",
            f'python3 -c "{plant}" {Path(path).parent}',
            more=[call("search_text", f"{{path: {path}, pattern: 'line 3999$'}}")],
        ),
        sandbox=kind,
    )
    again.open(session_id)
    results = await told(again)
    assert results[-3].startswith("3999:line 3999\n")
    assert results[-2].startswith("line 3999\nline 4000\n")
    assert "cannot create" in results[-1] or "Permission denied" in results[-1], results[-1]
    assert [one.name for one in Path(path).parent.iterdir()] == [Path(path).name]
    assert again.shown[-2] == "3999:line 3999"


async def test_no_other_session_and_no_raw_output_is_read(make_flow: MakeFlow, kind: str) -> None:
    other = make_flow(script(LONG), sandbox=kind)
    await told(other)
    raw = str(other.results[0].output_path)
    copy = path_in(other.shown[2])
    other.close()
    flow = make_flow(script(LONG, f"python3 -c 1; tail -n 1 {raw} {copy}"), sandbox=kind)
    _, looked = await told(flow)
    assert "line 4000" not in looked
    own = str(flow.results[0].output_path)
    again = make_flow(script(f"python3 -c 1; tail -n 1 {own}"), sandbox=kind)
    session_id = flow.session.id
    flow.close()
    again.open(session_id)
    assert "line 4000" not in (await told(again))[-1].partition("tail")[2]


@pytest.mark.parametrize(
    "printed",
    [
        f"{SAYS}; {LONG}",
        f"{LONG}; printf 'password: hunter2-\\033[31mZq9xLw\\033[m\\n'; {LONG}",
        # Of a line of more than 64 KB, in two of the pieces in which output is searched.
        f"{LONG}; printf '%065500d password: {PASSWORD}\\n' 0; {LONG}",
    ],
)
async def test_of_what_ran_outside_no_secret_is_read(make_flow: MakeFlow, printed: str) -> None:
    box = require_sandbox("auto").kind
    flow = make_flow(script(printed), [yes], sandbox=box)
    (first,) = await told(flow)
    path = path_in(first)
    assert path
    assert PASSWORD not in Path(path).read_text()
    assert "[secret]" in Path(path).read_text()


async def test_a_secret_that_is_known_later_is_taken_out(make_flow: MakeFlow) -> None:
    box = require_sandbox("auto").kind
    flow = make_flow(script(f"echo {PASSWORD}; {LONG}", SAYS, "python3 -c 1"), sandbox=box)
    results = await told(flow)
    copy = Path(path_in(results[0])).read_text()
    assert PASSWORD not in copy
    assert copy.endswith("line 4000\n")


async def test_forgetting_reaches_the_copies(make_flow: MakeFlow) -> None:
    flow = make_flow(script(f"echo Aunt Gertrude; {LONG}"), sandbox="off")
    (first,) = await told(flow)
    copy = Path(path_in(first))
    assert "Gertrude" in copy.read_text()

    async def agrees(*_: object) -> bool:
        return True

    await flow.session.forgetting.command(agrees, "Gertrude")
    assert "Gertrude" not in copy.read_text()


async def test_an_output_full_of_secrets_is_not_copied(make_flow: MakeFlow) -> None:
    many = "for n in {1..900}; do echo password: hunter2-Zq9xL$n; done"
    flow = make_flow(script(many), sandbox="off")
    (first,) = await told(flow)
    assert f"left out; read_file {flow.results[0].output_path}]" in first
