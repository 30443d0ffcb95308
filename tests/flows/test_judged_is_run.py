"""Redaction changes what is shown and kept, and decides nothing: what is judged runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from kogniterm.models.scripted_model import ScriptedModel, read_script
from kogniterm.sessions.records import Intent
from kogniterm.text.redact import session_label
from kogniterm.types import events
from kogniterm.types.turn_values import LEFT_OPEN
from tests.flows.conftest import Flow, MakeFlow, change_to, no, yes
from tests.flows.test_hooks import hook, own
from tests.support.programs import require_sandbox
from tests.support.typing_user import holding

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
NOTHING = "replies: [{text: Hello.}]"
HIDING = (
    'echo "password: "; rm -rf src; echo "x"',
    'grep -rn "password:" . | head; rm -rf src; echo "y"',
    "echo cookie: a=bcdefgh; rm -rf src; echo done",
    '"password=`rm -rf src`"',
    'my_secret_key="xx$(rm -rf src)"; ls',
    "pwd=x rm -rf src",
    "echo 'api_key: abcdef' ; rm -rf src ; echo 'x'",
    'echo "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n$(rm -rf src)\n'
    'MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"',
    f'token="{SECRET}"; rm -rf src',
    f"curl -H 'Authorization: Bearer {SECRET}'; rm -rf src; echo 'password: x'",
)
"""Commands in which something that runs looks like a part of a secret."""


def script(replies: Sequence[object]) -> str:
    return yaml.safe_dump({"replies": list(replies)}, allow_unicode=True)


def runs(*commands: str) -> list[object]:
    return [*({"run": command} for command in commands), {"text": "Done.", "repeat": "forever"}]


def says(flow: Flow, *replies: object) -> None:
    """Let the model of the open session make these replies from now on."""
    file = flow.folder.parent / "next.yaml"
    file.write_text(script([*replies, {"text": "Done.", "repeat": "forever"}]))
    flow.session.modes.model = ScriptedModel(read_script(file))


def mark(flow: Flow, number: int) -> str:
    return f"[secret:{session_label(flow.session.id)}-{number}]"


def kept(flow: Flow, words: str) -> list[Path]:
    """Return the files of the database that contain `words`; there must be one."""
    assert (flow.data / "kogniterm.db").stat().st_size
    found = holding(flow.data, words.encode())
    return [path for path in found if path.name.startswith("kogniterm.db")]


async def restart_at_the_question(flow: Flow) -> None:
    """Run the first turn until it asks, and open the session again as another process would."""

    class Leaves:
        async def decide(self, request: object, report: object, verdict: object) -> object:
            raise asyncio.CancelledError(LEFT_OPEN)

    user, flow.user = flow.user, Leaves()
    with pytest.raises(asyncio.CancelledError):
        await flow.run()
    flow.close()
    flow.user = user
    flow.open("last")


def with_source(flow: Flow) -> Path:
    (flow.folder / "src").mkdir()
    (flow.folder / "src" / "a").write_text("kept")
    return flow.folder / "src" / "a"


@pytest.mark.parametrize("command", HIDING)
async def test_what_hides_in_a_secret_never_runs_unasked(make_flow: MakeFlow, command: str) -> None:
    flow = make_flow(script(runs(command)), approval_mode="manual", allow_reads=True)
    kept = with_source(flow)
    await flow.run()
    assert kept.exists()
    (proposed,) = flow.of(events.ActionProposed)
    assert proposed.verdict.kind == "ask"
    assert "rm -rf src" in proposed.request.command


@pytest.mark.parametrize("command", HIDING)
async def test_a_question_a_rule_and_a_hook_see_what_runs(
    make_flow: MakeFlow, command: str
) -> None:
    require_sandbox("auto")
    flow = make_flow(script(runs(command)), [no("no")])
    seen = flow.folder / "seen"
    own(flow, {"PreToolUse": [hook(f"cat > {seen}", "Bash")]})
    await flow.run()
    ((request, report, _),) = flow.user.asked
    assert request.command == report.command == command
    assert json.loads(seen.read_text())["tool_input"]["command"] == command


async def test_a_deny_rule_meets_what_runs(make_flow: MakeFlow) -> None:
    flow = make_flow(script([*({"run": one} for one in HIDING), {"text": "Done."}]))
    folder = Path(flow.environ["KOGNITERM_CONFIG_DIR"])
    folder.mkdir(exist_ok=True)
    (folder / "policy.toml").write_text('[[rule]]\ndecision = "deny"\nprogram = "rm"\n')
    kept = with_source(flow)
    await flow.run()
    assert kept.exists()
    assert flow.results == []


async def test_the_keys_of_the_settings_are_never_filled_in(make_flow: MakeFlow) -> None:
    flow = make_flow(NOTHING, [yes] * 9, google_api_key="AIzaSyA-1234567890abcdefghijklmnopqrstu")
    flow.open()
    says(
        flow,
        {"run": f"echo {mark(flow, 1)} | tr a-z A-Z"},
        {"run": "echo '[secret:1]' | tr a-z A-Z"},
        {"calls": [{"tool": "write_file", "arguments": {"path": "k", "content": mark(flow, 1)}}]},
    )
    await flow.run()
    assert [result.text.strip() for result in flow.results] == ["[SECRET:1]"]
    assert not (flow.folder / "k").exists()
    assert any("nothing is filled in" in text for text in flow.shown)


async def test_code_of_a_file_never_runs_through_a_placeholder(make_flow: MakeFlow) -> None:
    flow = make_flow(NOTHING, [yes] * 9)
    flow.open()
    (flow.folder / "conf").write_text('db: password: "ab;touch PWN;cd"\n')
    says(
        flow,
        {"run": "cat conf"},
        {"run": f"echo {mark(flow, 1)} | wc -c"},
        {"run": f'export PGPASSWORD="{mark(flow, 1)}"'},
    )
    await flow.run()
    assert mark(flow, 1) in flow.results[0].text
    assert len(flow.results) == 1
    assert not (flow.folder / "PWN").exists()


async def test_a_known_value_hides_no_path(make_flow: MakeFlow) -> None:
    flow = make_flow(NOTHING, [yes, no("no"), no("no")])
    flow.open()
    (flow.folder / "conf").write_text(
        'db_password = "~/.ssh/id_rsa #"\nother_password = id_rsa99\n'
    )
    (flow.folder / "id_rsa99").write_text("x")
    says(flow, {"run": "cat conf"}, {"run": "cat ~/.ssh/id_rsa #"})
    await flow.run()
    proposed = flow.of(events.ActionProposed)[1]
    assert proposed.request.command == "cat ~/.ssh/id_rsa #"
    assert proposed.report.label == "needs_approval"
    says(flow, {"run": "cat id_rsa99"})
    await flow.run()
    assert flow.of(events.ActionProposed)[2].request.command == "cat id_rsa99"


async def test_what_is_shown_hides_the_value_and_nothing_else(make_flow: MakeFlow) -> None:
    command = f"printf %s https://user:s3cr3tPASSw0rd@host.example/{SECRET[4:8]} > out"
    flow = make_flow(script(runs(command)), [yes])
    await flow.run()
    assert (flow.folder / "out").read_text() == command.split()[2]
    hidden = command.replace("s3cr3tPASSw0rd", mark(flow, 1))
    assert flow.of(events.ActionProposed)[0].request.command == hidden
    assert flow.of(events.CommandStarted)[0].command == hidden
    assert flow.results[0].command == hidden
    flow.close()
    assert holding(flow.data, b"s3cr3tPASSw0rd") == []


async def test_a_file_gets_what_the_model_wrote(make_flow: MakeFlow) -> None:
    content = f"API_TOKEN={SECRET}\nPORT=1\n"
    call = {"tool": "write_file", "arguments": {"path": ".env", "content": content}}
    flow = make_flow(script([{"calls": [call]}, {"text": "Done."}]), [yes])
    await flow.run()
    assert (flow.folder / ".env").read_text() == content
    assert SECRET not in flow.of(events.ActionProposed)[0].request.detail
    flow.close()
    assert kept(flow, SECRET) == []


async def test_the_model_gets_its_own_words_back_unchanged(make_flow: MakeFlow) -> None:
    flow = make_flow(script(runs(f"printf %s {SECRET} | wc -c")), [yes])
    flow.open()
    sent: list[str] = []
    model = flow.session.modes.model

    class Watched:
        info = model.info

        def stream(self, request):  # type: ignore[no-untyped-def]
            sent.append(repr(request.messages))
            return model.stream(request)

    flow.session.modes.model = Watched()
    await flow.run()
    assert SECRET in sent[1]
    assert not any(SECRET in text for text in flow.shown)


async def test_an_edit_keeps_a_value_where_it_stands(make_flow: MakeFlow) -> None:
    flow = make_flow(NOTHING, [yes] * 9)
    flow.open()
    env = flow.folder / "settings.ini"
    env.write_text(f"token = {SECRET}\nport = 1\n")

    def edit(old: str, new: str) -> object:
        arguments = {"path": "settings.ini", "old": old, "new": new}
        return {"calls": [{"tool": "edit_file", "arguments": arguments}]}

    says(flow, {"run": "cat settings.ini"})
    await flow.run()
    line = f"token = {mark(flow, 1)}"
    says(flow, edit(f"{line}\nport = 1", f"{line}\nport = 2"))
    await flow.run()
    assert env.read_text() == f"token = {SECRET}\nport = 2\n"
    says(flow, edit(line, f"echo {mark(flow, 1)}"), edit("port = 2", f"port = {mark(flow, 1)}"))
    await flow.run()
    assert env.read_text() == f"token = {SECRET}\nport = 2\n"
    assert sum("nothing is filled in for a [secret:…] mark" in text for text in flow.shown) == 2
    flow.close()
    assert kept(flow, SECRET) == []


async def test_a_file_with_the_text_of_a_placeholder_stays_editable(make_flow: MakeFlow) -> None:
    arguments = {"path": "doc", "old": "see [secret:1]", "new": "use [secret:1]"}
    call = {"tool": "edit_file", "arguments": arguments}
    flow = make_flow(script([{"calls": [call]}, {"text": "Done."}]), [yes])
    (flow.folder / "doc").write_text("see [secret:1]")
    await flow.run()
    assert (flow.folder / "doc").read_text() == "use [secret:1]"


async def test_after_a_restart_redacted_text_does_not_run(make_flow: MakeFlow) -> None:
    flow = make_flow(script(runs(f"echo {SECRET} > out")), [yes], approval_mode="manual")
    await restart_at_the_question(flow)
    says(flow)
    answer = await flow.run(None)
    assert flow.user.asked == []
    assert not (flow.folder / "out").exists()
    assert any("held a secret that is not kept" in text for text in flow.shown)
    assert answer.text == "Done."


async def test_after_a_restart_the_same_text_is_asked_about_again(make_flow: MakeFlow) -> None:
    flow = make_flow(script(runs("echo plain > out")), [yes], approval_mode="manual")
    await restart_at_the_question(flow)
    says(flow)
    await flow.run(None)
    assert (flow.folder / "out").read_text() == "plain\n"


async def test_an_edit_at_the_question_runs_as_typed(make_flow: MakeFlow) -> None:
    typed = f"printf %s {SECRET} > out"
    flow = make_flow(script(runs("echo start")), [change_to(typed), yes])
    await flow.run()
    assert (flow.folder / "out").read_text() == SECRET
    journal = flow.session.journal
    intents = [one.body for one in journal.records() if isinstance(one.body, Intent)]
    assert intents[-1].digest == journal.digest(typed)
    flow.close()
    assert kept(flow, SECRET) == []


async def test_an_edit_cannot_bring_a_placeholder_back(make_flow: MakeFlow) -> None:
    flow = make_flow(NOTHING, [yes])
    flow.open()
    (flow.folder / "conf").write_text(f"token = {SECRET}\n")
    says(flow, {"run": "cat conf"}, {"run": "echo start"})
    flow.user.decisions.append(change_to(f"echo {mark(flow, 1)} | tr a-z A-Z"))
    answer = await flow.run()
    assert len(flow.results) == 1
    assert answer.exit_code == 3


async def test_the_input_that_a_hook_gives_is_judged_run_and_kept_redacted(
    make_flow: MakeFlow,
) -> None:
    require_sandbox("auto")
    flow = make_flow(script(runs("echo start")), [yes])
    changed = f"printf %s {SECRET} > out"
    said = {"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "updatedInput": {"command": changed}}}  # fmt: skip
    (flow.folder / "said.json").write_text(json.dumps(said))
    own(flow, {"PreToolUse": [hook(f"cat {flow.folder / 'said.json'}", "Bash")]})
    await flow.run()
    assert [request.command for request, _, _ in flow.user.asked] == [changed]
    assert (flow.folder / "out").read_text() == SECRET
    flow.close()
    assert kept(flow, SECRET) == []


async def test_a_huge_number_breaks_no_later_placeholder(make_flow: MakeFlow) -> None:
    flow = make_flow(NOTHING, [yes] * 9)
    flow.open()
    huge = mark(flow, 999_999_999_999)
    (flow.folder / "conf").write_text(f"see {huge}\ntoken = {SECRET}\n")
    says(flow, {"run": "cat conf"})
    await flow.run()
    assert mark(flow, 1) in flow.results[0].text
    flow.close()
    flow.open("last")
    (flow.folder / "conf").write_text(f"token = {SECRET[::-1]}\nghp_{SECRET[4:][::-1]}\n")
    says(flow, {"run": "cat conf"}, {"run": f"echo {huge}"})
    await flow.run()
    assert mark(flow, 2) in flow.results[1].text
    assert len(flow.results) == 2
