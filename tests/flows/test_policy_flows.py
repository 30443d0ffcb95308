"""Policy, sandbox, leases, trust and undo through whole turns."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kogniterm.runtime.trust.project_places import walk
from kogniterm.runtime.trust.trust_store import TrustStore
from kogniterm.types import ActionRequest, events
from tests.flows.conftest import MakeFlow, change_to, yes
from tests.support.programs import needs, require_sandbox


async def test_what_can_be_undone_is_named_as_it_ran(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{run: touch a}, {text: Done.}]", [change_to("touch b"), yes])
    session = flow.open()
    await flow.run()
    assert session.undo.latest().images[0].what == "touch b"


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


async def _asked(flow):  # type: ignore[no-untyped-def]
    await flow.run()
    return flow.user.asked[0]


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
    session.policy.grant(
        report, next(o for o in offered if o.kind == "exact" and o.anywhere), session.executor.cwd
    )
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
        session.policy.grant(report, offer, session.executor.cwd)

    def judged() -> str:
        now = session.policy.assess(request, session.executor.cwd)
        return session.policy.judge(request, now, session.modes, session.executor.cwd).kind

    assert judged() == "allow"
    git("config", "url.https://evil.example/.insteadOf", "https://me:secret@example.org/")
    assert judged() == "ask"
    git("config", "--unset-all", "url.https://evil.example/.insteadOf")
    git("remote", "set-url", "--push", "origin", "https://evil.example/x.git")
    assert judged() == "ask"
    git("remote", "set-url", "--push", "origin", "https://me:secret@example.org/me/x.git")
    assert judged() == "allow"


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
    store = TrustStore(flow.data / "trust.json")
    store.trust(flow.folder, walk(flow.folder).files)
    session = flow.open()
    assert '<project_instructions file="AGENTS.md">' in session.context.system.text
    assert session.notices == ()


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
    script = "model: {one_command: true}\nreplies: [{run: bash clean.sh}, {text: Done.}]"
    flow = make_flow(script, sandbox="auto")
    (flow.folder / "clean.sh").write_text("rm kept.txt; echo new > other.txt")
    (flow.folder / "kept.txt").write_text("words")
    assert (await flow.run("run clean.sh")).exit_code == 0
    assert not (flow.folder / "kept.txt").exists()
    undo = flow.session.undo
    undo.store.restore(undo.latest())
    assert (flow.folder / "kept.txt").read_text() == "words"
    script = script.replace("bash clean.sh", "rm kept.txt")
    flow = make_flow(script, sandbox="auto")
    (flow.folder / "kept.txt").write_text("words")
    assert (await flow.run("delete kept.txt")).exit_code == 3
    for command in (
        "mv one.txt kept.txt",
        "sed -i s/o/x/ ./*.txt",
        "find . -name 'o*.txt' -exec mv {} kept.txt ';'",
        'for f in one.*; do mv "$f" "kept.${f##*.}"; done',
        "gzip kept.txt && mv one.txt kept.txt",
        "gzip -k one.txt && gunzip -c one.txt.gz > kept.txt",
    ):
        flow = make_flow(script.replace("rm kept.txt", json.dumps(command)), sandbox="auto")
        (flow.folder / "one.txt").write_text("one")
        (flow.folder / "kept.txt").write_text("words")
        assert (await flow.run("change them")).exit_code == 0, command
        assert (flow.folder / "kept.txt").read_text() != "words", command
        undo = flow.session.undo
        undo.store.restore(undo.latest())
        assert (flow.folder / "kept.txt").read_text() == "words", command
        assert (flow.folder / "one.txt").read_text() == "one", command
        assert not list(flow.folder.glob("*.gz")), command


@pytest.mark.parametrize("command", ["echo new > kept.txt", "bash write.sh"])
async def test_a_small_model_asks_before_it_changes_a_file_with_a_name_outside(
    make_flow: MakeFlow, tmp_path: Path, command: str
) -> None:
    require_sandbox("auto")
    script = f"model: {{one_command: true}}\nreplies: [{{run: {command}}}, {{text: Done.}}]"
    flow = make_flow(script, sandbox="auto")
    (flow.folder / "write.sh").write_text("echo new > kept.txt")
    (outside := tmp_path / "outside.txt").write_text("words")
    (flow.folder / "kept.txt").hardlink_to(outside)
    assert (await flow.run("write new into it")).exit_code == 3
    assert outside.read_text() == "words"


async def test_a_small_model_only_reads_without_a_sandbox(make_flow: MakeFlow) -> None:
    script = "model: {one_command: true}\nreplies: [{run: 'echo in > made'}, {text: Done.}]"
    flow = make_flow(script, sandbox="off")
    answer = await flow.run("put in into made")
    assert (answer.stop, answer.exit_code) == ("refused", 3)
    assert "Without a sandbox, a small local model can only read" in str(answer.reason)
