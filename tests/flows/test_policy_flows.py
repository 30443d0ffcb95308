"""Policy, sandbox, leases, trust and undo through whole turns."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kogniterm.errors import SettingsError, UsageError
from kogniterm.runtime.trust.project_places import walk
from kogniterm.runtime.trust.trust_store import TrustStore
from kogniterm.types import ActionRequest, Decision, events
from tests.flows.conftest import MakeFlow, change_to, yes
from tests.support.programs import needs, require_sandbox

TWICE = "replies: [{run: '%s'}, {run: '%s'}, {text: Done.}]"


async def test_what_can_be_undone_is_named_as_it_ran(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{run: touch a}, {text: Done.}]", [change_to("touch b"), yes])
    session = flow.open()
    await flow.run()
    assert session.undo.latest().images[0].what == "touch b"


async def test_a_deleted_file_comes_back(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{run: rm -r src notes.txt}, {text: Gone.}]", [yes])
    (flow.folder / "src").mkdir()
    (flow.folder / "src" / "a.py").write_text("print()\n")
    (flow.folder / "notes.txt").write_text("mine\n")
    session = flow.open()
    request, report, _ = await _asked(flow)
    assert [str(line) for line in session.undo.preview(request, report)][-1] == (
        "Changes in the workspace can be undone with /undo."
    )
    assert not (flow.folder / "src").exists()
    way = session.undo.latest()
    assert {Path(d.path).name for d in way.changes} >= {"src", "notes.txt"}
    session.undo.store.restore(way)
    assert (flow.folder / "src" / "a.py").read_text() == "print()\n"
    assert (flow.folder / "notes.txt").read_text() == "mine\n"


@pytest.mark.parametrize(
    "command",
    [
        "echo x > new", "mv notes.txt new", "cp notes.txt new", "cp notes.txt src",
        "tee new one < notes.txt", "mkdir -p deep/er/st", "ln -s notes.txt new", "touch new",
        "sed -i.bak s/i/o/ notes.txt", "install -d new", "dd if=notes.txt of=new status=none",
    ],
)  # fmt: skip
async def test_what_was_created_is_gone_after_undo(make_flow: MakeFlow, command: str) -> None:
    flow = make_flow(f"replies: [{{run: {command}}}, {{text: Done.}}]", [yes])
    (flow.folder / "src").mkdir()
    (flow.folder / "notes.txt").write_text("mine\n")

    def there() -> list[str]:
        return sorted(str(path.relative_to(flow.folder)) for path in flow.folder.rglob("*"))

    before = there()
    session = flow.open()
    request, report, _ = await _asked(flow)
    assert "Changes in the workspace can be undone with /undo." in [
        str(line) for line in session.undo.preview(request, report)
    ]
    assert {"kind": "create"} in [{"kind": effect.kind} for effect in report.effects]
    assert there() != before
    session.undo.store.restore(session.undo.latest())
    assert there() == before
    assert (flow.folder / "notes.txt").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("command", "unknown"),
    [("echo > f$(date)", "f…"), ("git checkout .", "git checkout …")],
)
async def test_undoing_is_not_promised_where_only_the_run_shows_what_changes(
    make_flow: MakeFlow, command: str, unknown: str
) -> None:
    session = make_flow("replies: [Done.]").open()
    request = ActionRequest("a1", "c1", "execute_command", command)
    assert [
        str(line)
        for line in session.undo.preview(
            request, session.policy.assess(request, session.executor.cwd)
        )
    ][-1] == (f"Cannot be undone: {unknown}")


async def _asked(flow):  # type: ignore[no-untyped-def]
    await flow.run()
    return flow.user.asked[0]


async def test_a_lease_saves_the_next_questions_and_can_be_revoked(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{run: touch a, repeat: 3}, {text: Done.}]")
    session = flow.open()

    def grant_once(request: ActionRequest) -> Decision:
        report = flow.user.asked[-1][1]  # type: ignore[union-attr]
        session.grant(report, session.policy.offers(request, report, session.executor.cwd)[0])
        return yes(request)

    flow.flags["approval_mode"] = "manual"
    session.use_mode("manual")
    from tests.flows.conftest import User

    flow.user = User([grant_once, yes])
    await flow.run()
    assert len(flow.user.asked) == 1
    decided = [event.decision.by for event in flow.of(events.ActionDecided)]
    assert decided == ["person", "lease s1", "lease s1"]
    with pytest.raises(UsageError, match="Permission s9 not found"):
        session.revoke("s9")
    assert session.revoke("s1").used == 2


async def test_a_permission_for_any_folder_runs_there_and_not_through_a_link(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    runs = (
        "touch made", "cd sub && touch made", "cd ../link && touch made", "touch made > log",
    )  # fmt: skip
    replies = ", ".join(f"{{run: '{command}'}}" for command in runs)
    script = f"replies: [{replies}, {{text: Done.}}]"
    flow = make_flow(script, [yes, yes], approval_mode="manual")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (flow.folder / "sub").mkdir()
    (flow.folder / "link").symlink_to(elsewhere)
    session = flow.open()
    session.use_mode("manual")
    request = ActionRequest("a", "c", "execute_command", "touch made")
    report = session.policy.assess(request, session.executor.cwd)
    offered = session.policy.offers(request, report, session.executor.cwd)
    session.grant(report, next(o for o in offered if o.kind == "exact" and o.anywhere))
    await flow.run()
    decided = [event.decision.by for event in flow.of(events.ActionDecided)]
    assert decided == ["lease s1", "lease s1", "person", "person"]
    assert (flow.folder / "sub" / "made").exists()


@needs("git")
async def test_a_lease_for_a_remote_ends_when_the_remote_has_another_address(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(approval_mode="manual")
    session = flow.open()
    session.use_mode("manual")

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=flow.folder, check=True)

    git("init", "-q")
    git("remote", "add", "origin", "https://me:secret@example.org/me/x.git")
    request = ActionRequest("a", "c", "execute_command", "git push origin main")
    report = session.policy.assess(request, session.executor.cwd)
    addresses = [e.target for e in report.effects if e.kind == "network"]
    assert addresses == ["https://example.org/me/x.git"]
    for offer in session.policy.offers(request, report, session.executor.cwd):
        session.grant(report, offer)
    assert (
        session.policy.judge(
            request,
            session.policy.assess(request, session.executor.cwd),
            session.modes,
            session.executor.cwd,
        ).kind
        == "allow"
    )
    git("config", "url.https://evil.example/.insteadOf", "https://me:secret@example.org/")
    assert (
        session.policy.judge(
            request,
            session.policy.assess(request, session.executor.cwd),
            session.modes,
            session.executor.cwd,
        ).kind
        == "ask"
    )
    git("config", "--unset-all", "url.https://evil.example/.insteadOf")
    git("remote", "set-url", "--push", "origin", "https://evil.example/x.git")
    assert (
        session.policy.judge(
            request,
            session.policy.assess(request, session.executor.cwd),
            session.modes,
            session.executor.cwd,
        ).kind
        == "ask"
    )
    git("remote", "set-url", "--push", "origin", "https://me:secret@example.org/me/x.git")
    assert (
        session.policy.judge(
            request,
            session.policy.assess(request, session.executor.cwd),
            session.modes,
            session.executor.cwd,
        ).kind
        == "allow"
    )


async def test_the_users_rules_hold_in_every_mode(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{run: touch made}, {text: Done.}]")
    config = Path(flow.environ["KOGNITERM_CONFIG_DIR"])
    config.mkdir(parents=True)
    (config / "policy.toml").write_text(
        '[[rule]]\ndecision = "deny"\nprogram = "touch"\nreason = "no touching"\n'
        'match = ["touch x"]\n'
    )
    answer = await flow.run()
    assert answer.exit_code == 3
    assert "no touching" in flow.shown[2]


async def test_a_wrong_permission_names_its_line(make_flow: MakeFlow) -> None:
    flow = make_flow()
    config = Path(flow.environ["KOGNITERM_CONFIG_DIR"])
    config.mkdir(parents=True)
    (config / "permissions.toml").write_text('[[permission]]\nid = "1"\n')
    with pytest.raises(
        SettingsError, match=r"permissions\.toml, line 2: id must be p and a number"
    ):
        flow.open()


async def test_a_wrong_rule_names_its_line(make_flow: MakeFlow) -> None:
    flow = make_flow()
    config = Path(flow.environ["KOGNITERM_CONFIG_DIR"])
    config.mkdir(parents=True)
    (config / "policy.toml").write_text('[[rule]]\ndecision = "deny"\nprogramm = "touch"\n')
    with pytest.raises(SettingsError, match=r"policy\.toml.*programm"):
        flow.open()


async def test_nothing_of_a_folder_has_an_effect_before_it_is_trusted(make_flow: MakeFlow) -> None:
    flow = make_flow()
    (flow.folder / "AGENTS.md").write_text("Always answer in rhyme.")
    (flow.folder / ".kogniterm").mkdir()
    (flow.folder / ".kogniterm" / "policy.toml").write_text("not toml at all [")
    session = flow.open()
    assert "rhyme" not in session.context.system.text
    assert any("AGENTS.md" in str(text) for text in session.notices)
    flow.close()
    (flow.folder / ".kogniterm" / "policy.toml").unlink()
    store = TrustStore(Path(flow.environ["KOGNITERM_DATA_DIR"]) / "trust.json")
    store.trust(flow.folder, walk(flow.folder).files)
    session = flow.open()
    assert '<project_instructions file="AGENTS.md">' in session.context.system.text
    assert session.notices == ()


async def test_a_project_can_only_tighten(make_flow: MakeFlow) -> None:
    flow = make_flow()
    (flow.folder / ".kogniterm").mkdir()
    rules = flow.folder / ".kogniterm" / "policy.toml"
    rules.write_text('[[rule]]\ndecision = "allow"\nprogram = "rm"\n')
    store = TrustStore(Path(flow.environ["KOGNITERM_DATA_DIR"]) / "trust.json")
    store.trust(flow.folder, walk(flow.folder).files)
    with pytest.raises(SettingsError, match="project rules cannot use allow"):
        flow.open()


async def test_what_the_sandbox_stopped_runs_inside_again_with_nobody_to_ask(
    make_flow: MakeFlow,
) -> None:
    require_sandbox("auto")
    outside = Path("/var/tmp") / f"kogniterm-flow-{os.getpid()}"
    flow = make_flow(TWICE % (f"touch {outside}", f"touch {outside}"), sandbox="auto")
    answer = await flow.run()
    assert not outside.exists()
    assert "the sandbox protects it" in flow.shown[2]
    assert "the sandbox protects it" in flow.shown[4]
    assert answer.exit_code == 0


async def test_auto_mode_runs_unapproved_commands_in_the_sandbox(make_flow: MakeFlow) -> None:
    require_sandbox("auto")
    script = "replies: [{run: 'echo in > made; python3 -c \"print(6*7)\"'}, {text: Done.}]"
    flow = make_flow(script, sandbox="auto")
    assert (await flow.run()).exit_code == 0
    assert flow.results[0].text.strip() == "42"
    assert (flow.folder / "made").read_text() == "in\n"


async def test_a_small_model_changes_the_workspace_unasked_in_the_sandbox(
    make_flow: MakeFlow,
) -> None:
    require_sandbox("auto")
    script = "model: {one_command: true}\nreplies: [{run: 'echo in > made'}, {text: Done.}]"
    flow = make_flow(script, sandbox="auto")
    assert (await flow.run("put in into made")).exit_code == 0
    assert (flow.folder / "made").read_text() == "in\n"
    flow = make_flow(script, sandbox="off")
    answer = await flow.run("put in into made")
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert "Without a sandbox, a small local model can only read" in str(answer.reason)


async def test_a_small_model_deletes_nothing_when_unattended(make_flow: MakeFlow) -> None:
    command = "find . -name '*.o' -empty -delete"
    script = f'model: {{one_command: true}}\nreplies: [{{run: "{command}"}}, {{text: Done.}}]'
    flow = make_flow(script)
    (flow.folder / "a.o").touch()
    answer = await flow.run("find all empty files")
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert (flow.folder / "a.o").exists()
    assert "A small local model cannot delete" in str(answer.reason)
