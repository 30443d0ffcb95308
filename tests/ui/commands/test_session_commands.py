"""Copies of a session, its permissions and budget, jobs, the project file, custom commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kogniterm.errors import UsageError
from kogniterm.runtime.inputs.custom_commands import CustomCommand, parse_command
from kogniterm.runtime.trust.project_places import walk
from kogniterm.runtime.trust.trust_store import TrustStore
from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.store import SessionInfo
from kogniterm.types import Decision
from kogniterm.ui.commands.command_table import COMMANDS
from kogniterm.ui.commands.sessions import resume_choices
from kogniterm.ui.slash_commands import custom_commands
from tests.flows.conftest import MakeFlow, make_flow, yes
from tests.support.language import in_spanish
from tests.ui.commands.commanded import Commanded

__all__ = ["make_flow"]

SMALL = "model: {one_command: true}\nreplies: [{text: Done.}]"
HELLO = "replies: [{run: 'echo hello', purpose: Greet}, {text: Done.}, {text: Again.}]"


# --- copies -----------------------------------------------------------------------------------


async def test_a_session_is_exported_renamed_and_reported(make_flow: MakeFlow) -> None:
    flow = make_flow(HELLO, decisions=[yes])
    await flow.run("greet me; my key is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789")
    session = flow.session
    assert session is not None
    repl = Commanded(session)
    assert "Session renamed: Greetings" in await repl.type("/rename Greetings")
    await repl.type("/export out.md")
    assert "echo hello" in (flow.folder / "out.md").read_text()
    await repl.type("/export jsonl copy.jsonl")
    assert json.loads((flow.folder / "copy.jsonl").read_text().splitlines()[0])
    with pytest.raises(UsageError, match="already exists"):
        await repl.type("/export out.md")
    session.archive.paths.log_file.parent.mkdir(parents=True, exist_ok=True)
    session.archive.paths.log_file.write_text("INFO opened\n")
    told = await repl.type("/bug")
    name = f"kogniterm-report-{session.id[:8]}.jsonl"
    assert name in told
    _header, about, *tagged = map(json.loads, (flow.folder / name).read_text().splitlines()[:-1])
    assert [one["line"] for one in tagged if one["section"] == "log"] == ["INFO opened"]
    assert (about["section"], about["model"]) == ("about", session.model.name)
    for file in flow.folder.iterdir():
        assert "sk-ant-api03" not in file.read_text()
        assert file.stat().st_mode & 0o077 == 0


async def test_a_fork_is_opened_and_holds_what_was_said(make_flow: MakeFlow) -> None:
    flow = make_flow(HELLO, decisions=[yes])
    await flow.run("greet me")
    assert flow.session is not None
    repl = Commanded(flow.session)
    # Reopening closes the session in the program; this test checks only which one is requested.
    await repl.type("/fork 1")
    (made,) = repl.reopened
    info = flow.session.archive.store.find(str(made))
    assert info.parent == flow.session.id
    assert verify(flow.session.archive.store.database, info.id).intact
    with pytest.raises(UsageError, match="number of the last turn"):
        await repl.type("/fork one")


async def test_resume_finds_a_session_by_words_of_its_title(make_flow: MakeFlow) -> None:
    made: list[SessionInfo] = []
    for task in ("Mend the Árbol parser", "mend the lexer", "write the manual"):
        flow = make_flow("replies: [{text: Done.}]")
        await flow.run(task)
        assert flow.session is not None
        made.append(flow.session.archive.store.find(flow.session.id))
        flow.close()
    session = make_flow().open()
    repl = Commanded(session, answers=[made[1].id])
    await repl.type("/resume arbol PARSER")
    assert repl.reopened == [made[0].id]
    # Several matches are asked about; the answer given above selects the second one.
    await repl.type("/resume mend")
    assert repl.reopened == [made[0].id, made[1].id]
    with pytest.raises(UsageError, match="Session not found"):
        await repl.type("/resume nothing like it")
    offered = list(resume_choices(repl))
    assert {info.title for info in made} | {info.id[:8] for info in made} <= set(offered)


async def test_compacting_makes_the_history_smaller(make_flow: MakeFlow) -> None:
    script = "replies: [{text: One.}, {text: Two.}, {text: Three.}, {text: Four.}, {text: Five.}]"
    flow = make_flow(script)
    for n in range(4):
        await flow.run(f"question {n} " + "with many words " * 2000)
    assert flow.session is not None
    before = sum(map(len, flow.shown))
    assert "History compacted" in await Commanded(flow.session).type("/compact")
    assert sum(map(len, flow.shown)) < before


async def test_compacting_an_empty_session_says_that_it_freed_nothing(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: Hello.}]")
    assert "freed no space" in await Commanded(flow.open()).type("/compact")


# --- permissions, budget and cost --------------------------------------------------------------


async def test_leases_are_listed_taken_back_and_explained(make_flow: MakeFlow) -> None:
    script = "replies: [{run: touch a}, {run: touch b}, {text: Done.}]"
    flow = make_flow(script, decisions=[yes, yes])
    session = flow.open()
    repl = Commanded(session)
    assert "No permissions. You grant them at approvals." in await repl.type("/permissions")
    assert "You have no permissions to revoke." in await repl.type("/permissions revoke all")
    user = flow.user
    assert user is not None

    def granting(request: object) -> Decision:
        asked, report, _verdict = user.asked[-1]
        session.policy.grant(
            report,
            session.policy.offers(asked, report, session.executor.cwd)[0],
            session.executor.cwd,
        )
        return Decision("approve", report.command, "person")

    user.decisions[0] = granting
    await flow.run()
    told = await repl.type("/permissions")
    assert "exactly this command: touch a" in told
    assert "You were asked about touch b; permission s1 did not apply" in told
    assert "not used yet" in told
    assert "Permission s1 revoked: exactly" in await repl.type("/permissions revoke all")
    assert not session.policy.leases
    with pytest.raises(UsageError, match="Permission s7 not found"):
        await repl.type("/permissions revoke s7")


async def test_a_budget_is_set_shown_and_holds_for_the_next_turn(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{run: echo 1}, {run: echo 2}, {run: echo 3}, {text: Done.}]")
    repl = Commanded(flow.open())
    shown = await repl.type("/budget tokens off")
    assert re.search(r"tokens +0 +no limit +0 +no limit(\n|$)", shown)
    assert "NAME VALUE" not in shown
    for line in ("/budget seconds 15min", "/budget tokens 1.5k"):
        await repl.type(line)
    assert flow.session is not None
    limits = flow.session.services.budget.limits
    assert (limits.seconds, limits.tokens) == (900, 1500)
    await repl.type("/budget tokens off")
    assert re.search(r"steps +0 +2 +0 +no limit\n", await repl.type("/budget steps 2"))
    assert re.search(
        r"dollars .* no limit .* \$5.00(\n|$)", await repl.type("/budget session dollars 5")
    )
    assert flow.session.services.budget.session.dollars == 5
    answer = await flow.run()
    assert answer.stop == "budget"
    shown = await repl.type("/budget")
    assert re.search(r"steps +2 +2 +2 +no limit\n", shown)
    assert "/budget NAME VALUE: limit each turn" in shown
    assert "/budget session NAME VALUE: limit the whole session" in shown
    for line in ("/budget steps -1", "/budget steps nan", "/budget dollars inf",
                 "/budget seconds 3 weeks", "/budget steps 0.4"):  # fmt: skip
        with pytest.raises(UsageError, match="above 0"):
            await repl.type(line)
    with pytest.raises(UsageError, match=r"Unknown value: hope\. Use one of: steps"):
        await repl.type("/budget hope 3")
    with pytest.raises(UsageError, match=r"Unknown value: dollar\. Did you mean dollars\?"):
        await repl.type("/budget dollar 3")
    with pytest.raises(UsageError, match=r"for example dollars 2, or dollars off"):
        await repl.type("/budget dollars")
    with pytest.raises(UsageError, match=r"commands\. Use one of: steps, tokens, dollars"):
        await repl.type("/budget session commands 3")
    with pytest.raises(UsageError, match=r"^Specify one of: steps, tokens, dollars\.$"):
        await repl.type("/budget session")


# --- jobs and the project file -------------------------------------------------------------------


async def test_init_proposes_a_file_keeps_ones_own_words_and_can_be_undone(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(SMALL)
    (flow.folder / "package.json").write_text('{"scripts": {"test": "vitest", "lint": "x"}}')
    (flow.folder / "main.py").write_text("print(1)\n")
    repl = Commanded(flow.open(), answers=["no", "yes", "yes", "yes", "no"])
    file = flow.folder / "AGENTS.md"
    told = await repl.type("/init")
    assert "Python" in told
    assert not file.exists()
    await repl.type("/init")
    assert "## Test\n\n- `npm test`\n\n## Lint\n\n- `npm run lint`\n" in file.read_text()
    assert "is already up to date" in await repl.type("/init")
    file.write_text(f"{file.read_text()}\nNever deploy on Fridays.\n")
    (flow.folder / "lib.rs").write_text("fn main() {}\n")
    await repl.type("/init Prefer small commits.")
    assert "Rust" in file.read_text()
    assert "Never deploy on Fridays." in file.read_text()
    assert "\n- Prefer small commits.\n" in file.read_text()
    assert repl.inputs == []
    await repl.type("/undo")
    assert "Rust" not in file.read_text()
    with in_spanish():
        await repl.type("/undo")
    assert repl.asked[-1][1][0].startswith("deshacer: ")


async def test_init_hands_the_model_what_was_found_and_what_you_typed(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: Written.}]")
    (flow.folder / "Cargo.toml").write_text("[dependencies]\nserde = '1'\n")
    (flow.folder / ".kogniterm").mkdir()
    (flow.folder / ".kogniterm" / "notes.py").write_text("x\n")
    session = flow.open()
    repl = Commanded(session)
    await repl.type("/init Always say {yes}; look at @Cargo.toml")
    (first,) = repl.inputs
    assert first.text.startswith("Write AGENTS.md in this folder")
    for found in ("build with: cargo build", "lint with: cargo clippy", "depends on: serde"):
        assert found in first.text
    assert ".kogniterm" not in first.text
    assert first.text.endswith("The user asks besides: Always say {yes}; look at @Cargo.toml")
    assert first.attachments == ("Cargo.toml",)
    await flow.run(first)
    assert session.state.title == "/init Always say {yes}; look at @Cargo.toml"
    assert "Nothing is remembered here yet." in await repl.type("/memory")
    (flow.folder / "AGENTS.md").symlink_to("CLAUDE.md")
    await repl.type("/init")
    assert repl.inputs[1].text.startswith("Improve AGENTS.md in this folder")
    assert repl.inputs[1].line == "/init"


# --- custom commands ------------------------------------------------------------------------------


def test_front_matter_describes_and_is_not_sent() -> None:
    command = parse_command(
        "review", "---\ndescription: Review a branch\narguments: BRANCH\n---\nLook: $1\n"
    )
    assert isinstance(command, CustomCommand)
    assert (command.description, command.arguments) == ("Review a branch", "BRANCH")
    given = command.make_input("main", "/", lambda text: ())
    assert (given.text, given.line) == ("Look: main", "/review main")
    for path, text, why in (
        ("No Name", "x", "its name cannot be typed as a command"),
        ("a.toml", "description = 'x'", "it has no prompt"),
        ("a.toml", "prompt = [", "a, line 1: "),
    ):
        assert str(parse_command(path, text)).startswith(f"Custom command {path} ignored: {why}")
    plain = parse_command("plain", "# A heading\nText\x1b[2J")
    assert isinstance(plain, CustomCommand)
    assert plain.description == "A heading"
    assert "\x1b" not in plain.template.body


async def test_own_commands_come_from_the_user_and_from_a_trusted_project(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow()
    mine = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "commands"
    mine.mkdir(parents=True)
    (mine / "review.md").write_text("Review $ARGUMENTS")
    (mine / "help.md").write_text("Mine")
    theirs = flow.folder / ".kogniterm" / "commands"
    theirs.mkdir(parents=True)
    (theirs / "deploy.md").write_text("Deploy")
    session = flow.open()
    made, told = custom_commands(session, COMMANDS)
    assert [one.name for one in made] == ["review"]
    assert [str(one) for one in told] == [
        f"Custom command /help ({mine / 'help.md'}) ignored: the name is already in use."
    ]
    store = TrustStore(session.archive.paths.trust_file)
    store.trust(flow.folder, walk(flow.folder).files)
    made, _told = custom_commands(session, COMMANDS)
    assert [one.name for one in made] == ["review", "deploy"]
    repl = Commanded(session)
    made[0].run(repl, "the diff")
    assert [one.text for one in repl.inputs] == ["Review the diff"]


async def test_own_commands_are_listed_completed_and_sent() -> None:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from kogniterm.ui.prompt.input_line import LineCompleter
    from kogniterm.ui.repl import Opened
    from tests.ui.face import PlayedSession
    from tests.ui.live import keyboard, live_repl

    async def play(*_given: object) -> None:
        return None

    text = "---\ndescription: Review a branch\narguments: BRANCH\n---\nReview $1."

    def opened(played: PlayedSession) -> Opened:
        played.archive.commands = ((".kogniterm/commands/review.md", text),)
        return Opened(played)  # type: ignore[arg-type]  # its face

    with keyboard() as keys:
        live, session = live_repl(keys, play, rows=60, opened=opened)
        await live.until("· ask ·")
        live.press("/help\r")
        await live.until("/review BRANCH")
        await live.until("Review a branch")
        completer = LineCompleter(live.repl)
        offered = completer.get_completions(Document("/rev"), CompleteEvent())
        assert [one.text for one in offered] == ["/review"]
        live.press("/review main\r")
        await live.until(lambda: bool(session.inputs))
        assert [one.text for one in session.inputs if one] == ["Review main."]
        await live.leave()
