"""Commands that run because they only read: where they run, and what their shell keeps."""

from __future__ import annotations

import pytest

from kogniterm.runtime.questions.approval_facts import ActionFacts
from kogniterm.sessions.records import Intent
from kogniterm.types import events
from tests.flows.conftest import Flow, MakeFlow, no, yes
from tests.flows.test_sandbox_flows import script, told
from tests.flows.test_side_by_side import script as at_once
from tests.support.programs import require_sandbox


@pytest.fixture(params=["namespaces", "bubblewrap", "container", "landlock"])
def kind(request: pytest.FixtureRequest) -> str:
    return require_sandbox(request.param).kind


def misjudged(flow: Flow) -> Flow:
    """Put a program first on PATH that has the name of one that only reads, and writes."""
    folder = flow.folder.parent / "bin"
    folder.mkdir()
    (folder / "tree").write_text("#!/bin/sh\necho begun\necho x > made || exit 1\n")
    (folder / "tree").chmod(0o755)
    flow.environ["PATH"] = f"{folder}:{flow.environ['PATH']}"
    return flow


def intents(flow: Flow) -> int:
    return sum(isinstance(record.body, Intent) for record in flow.session.journal.records())


def reasons(flow: Flow) -> list[str]:
    return [" ".join(map(str, verdict.reasons)) for _, _, verdict in flow.user.asked]


async def test_what_wanted_to_write_asks_and_runs_a_second_time_as_its_own(
    make_flow: MakeFlow,
) -> None:
    require_sandbox("auto")
    flow = misjudged(make_flow(script("tree"), [yes], sandbox="auto", allow_reads=True))
    await flow.run()
    ((request, report, verdict),) = flow.user.asked
    said = [str(text) for text in ActionFacts(request, report, verdict).refusal]
    assert "The sandbox was read-only: the command was expected to only read." in said[0]
    assert said[1] == "It has already run in part."
    assert [result.exit_code for result in flow.results] == [1, 0]
    assert intents(flow) == 2
    assert (flow.folder / "made").exists()


@pytest.mark.parametrize("mode", ["manual", "auto"])
async def test_without_a_user_it_runs_inside_alone_and_the_model_is_told(
    make_flow: MakeFlow, kind: str, mode: str
) -> None:
    flow = misjudged(
        make_flow(
            script("tree", "tree"), sandbox=kind, approval_mode=mode, allow_reads=mode == "manual"
        )
    )
    await flow.run()
    assert "The sandbox was read-only: the command was expected to only read." in told(flow)[0]
    assert "nobody can approve" in told(flow)[0]
    assert intents(flow) == 2
    assert not (flow.folder / "made").exists()


async def test_commands_at_once_are_confined_as_well(make_flow: MakeFlow, kind: str) -> None:
    flow = misjudged(make_flow(at_once("tree", "tree -L 1"), sandbox=kind))
    await flow.run()
    assert [result.exit_code for result in flow.results] == [1, 1]
    assert not (flow.folder / "made").exists()


async def test_state_that_lasts_is_asked_about_and_loops_are_not(make_flow: MakeFlow) -> None:
    require_sandbox("auto")
    commands = ("cd sub && pwd", "for f in *; do n=$f; echo $n; done", "(x=$(ls); echo $x)",
                "ls | while read -r f; do echo $f; done", "x=$(ls); echo $x")  # fmt: skip
    flow = make_flow(script(*commands), [no("no")], sandbox="auto", allow_reads=True)
    (flow.folder / "sub").mkdir()
    (flow.folder / "sub" / "file").touch()
    await flow.run()
    assert [reason[:46] for reason in reasons(flow)] == [
        "Sets x in the shell for later commands. In ( …"
    ]
    assert [result.text.strip() for result in flow.results] == [
        str(flow.folder / "sub"), "file", "file", "file",
    ]  # fmt: skip


async def test_literal_state_is_set_without_a_process(make_flow: MakeFlow, kind: str) -> None:
    commands = ("export WORD='a b'; LEVEL=2", "set -o pipefail", "greet() { echo hi; }",
                'echo "$WORD $LEVEL"', "env | grep -c WORD=; false | true")  # fmt: skip
    flow = make_flow(script(*commands, "python3 -c 1; greet"), sandbox=kind, approval_mode="auto")
    await flow.run()
    applied = ["without a process" in " ".join(result.notes) for result in flow.results]
    assert applied == [True, True, True, False, False, False]
    assert [result.exit_code for result in flow.results] == [0, 0, 0, 0, 1, 0]
    assert [result.text.strip() for result in flow.results[3:]] == ["a b 2", "1", "hi"]


async def test_what_a_shell_would_make_something_else_of_is_asked_about(
    make_flow: MakeFlow,
) -> None:
    require_sandbox("auto")
    refused = [no("no"), no("no")]
    flow = make_flow(script("x=~", "WORD=1"), refused, sandbox="auto", allow_reads=True)
    session = flow.open()
    session.executor.sandbox = session.policy.sandbox.box
    session.executor.run("readonly WORD=0")
    await flow.run()
    assert [reason.split()[1] for reason in reasons(flow)] == ["x", "WORD"]
    assert flow.results == []


async def test_in_auto_mode_state_from_data_is_kept_in_the_sandbox(
    make_flow: MakeFlow, kind: str
) -> None:
    flow = make_flow(script("x=$(echo word)", "echo $x"), sandbox=kind, approval_mode="auto")
    await flow.run()
    assert [result.text.strip() for result in flow.results] == ["", "word"]
    assert not flow.of(events.ApprovalAsked)
