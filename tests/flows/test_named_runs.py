"""Permissions for the session's own files, and for programs by their target, in whole turns."""

from __future__ import annotations

import json
from pathlib import Path

from kogniterm.types import ActionRequest, Decision
from tests.flows.conftest import Flow, MakeFlow, no, yes
from tests.support.programs import require_sandbox


def script(*commands: str) -> str:
    runs = [{"run": command, "purpose": "Act"} for command in commands]
    return json.dumps({"replies": [*runs, {"text": "Done."}]})


def granting(flow: Flow, kind: str) -> None:
    """Let the user grant the offer of `kind` with the first answer; later questions are refused."""

    def grant(request: ActionRequest) -> Decision:
        policy, cwd = flow.session.policy, flow.session.executor.cwd
        report = policy.assess(request, cwd)
        offer = next(one for one in policy.offers(request, report, cwd) if one.kind == kind)
        policy.grant(report, offer, cwd)
        return yes(request)

    flow.user.decisions.append(grant)


def asked(flow: Flow) -> list[str]:
    return [request.command for request, _report, _verdict in flow.user.asked]


async def test_removing_is_granted_for_files_of_the_session_only(make_flow: MakeFlow) -> None:
    made = ("echo x > a.log", "echo x > b.log", "mv old moved.log", "ln -s notes link.log")
    kept = ("rm -f b.log", "rm moved.log", "rm link.log", "rm notes", "rm *.log", "rm -r sub")
    flow = make_flow(script(*made, "rm a.log", *kept, "rm b.log"), [yes] * len(made))
    (flow.folder / "sub").mkdir()
    for name in ("notes", "old"):
        (flow.folder / name).write_text("the user's")
    granting(flow, "program")
    flow.user.decisions += [no("no")] * len(kept)
    await flow.run()
    assert asked(flow)[len(made) :] == ["rm a.log", *kept]
    assert not (flow.folder / "a.log").exists()
    assert not (flow.folder / "b.log").exists()


async def test_a_file_that_the_user_changed_is_theirs(make_flow: MakeFlow) -> None:
    flow = make_flow(script("echo x > a.log; echo x > b.log; echo x > c.log", "rm a.log"), [yes])
    granting(flow, "program")
    await flow.run()
    (flow.folder / "b.log").write_text("the user's")
    (flow.folder / "c.log").unlink()
    (flow.folder / "c.log").write_text("the user's")
    for name in ("b.log", "c.log"):
        request = ActionRequest("a9", "c9", "execute_command", f"rm {name}")
        report = flow.session.policy.assess(request, str(flow.folder))
        verdict = flow.session.policy.judge(request, report, flow.session.modes, str(flow.folder))
        assert verdict.kind == "ask", name
        offered = flow.session.policy.offers(request, report, str(flow.folder))
        assert {one.kind for one in offered} == {"exact"}


async def test_a_program_by_its_target_runs_in_a_sandbox_only(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    require_sandbox("auto")
    outside = tmp_path / "outside"
    flow = make_flow(script("make test", "make -s test"), [], sandbox="auto")
    (flow.folder / "Makefile").write_text(f"test:\n\techo ran >> ran; echo x >> {outside}\n")
    granting(flow, "runs")
    flow.user.decisions.append(no("no"))
    await flow.run()
    # It ran unasked, in the sandbox, which refused the file outside; only for that it asks.
    assert asked(flow) == ["make test", "make -s test"]
    assert "the sandbox protects it" in " ".join(map(str, flow.user.asked[1][2].reasons))
    assert outside.read_text().count("x") == 1  # what the user approved by itself ran outside
    assert (flow.folder / "ran").read_text().count("ran") == 2
