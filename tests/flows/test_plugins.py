"""A folder in the form of a Claude Code plugin: trusted as one, read as its parts are."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from kogniterm.errors import ToolError, UsageError
from kogniterm.paths import resolve
from kogniterm.runtime.inputs.agent_turn import address_agent
from kogniterm.runtime.inputs.custom_commands import command_input, custom_commands_of
from kogniterm.runtime.operations import trust_actions
from kogniterm.runtime.session import LiveSession
from kogniterm.runtime.trust.trust_store import TrustStore, trust_files, trust_store
from kogniterm.types import UserInput
from tests.flows.conftest import Flow, MakeFlow
from tests.support.programs import require_sandbox
from tests.ui.commands.commanded import Commanded

SAYS = "echo $CLAUDE_PLUGIN_ROOT"
HOOKS = {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": SAYS}]}]}
FILES = {
    "commands/check.md": "Check with ${CLAUDE_PLUGIN_ROOT}/scripts/check.sh: $ARGUMENTS",
    "agents/checker.md": "---\ndescription: Checks.\nskills: tidy\n---\nCheck.",
    "skills/tidy/SKILL.md": "---\ndescription: Tidies.\n---\nSee ${CLAUDE_PLUGIN_ROOT}/scripts.",
    "hooks/hooks.json": json.dumps({"hooks": HOOKS}),
    ".mcp.json": json.dumps({"files": {"command": "./serve", "args": ["${CLAUDE_PLUGIN_ROOT}"]}}),
    "scripts/check.sh": "echo checked",
}


def install(place: Path, at: str = "review", **manifest: object) -> Path:
    """Write a plugin with a part of each kind."""
    folder = place / at
    said = json.dumps({"name": "review", **manifest})
    for file, text in {".claude-plugin/plugin.json": said, **FILES}.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def of_project(flow: Flow) -> Path:
    return flow.folder / ".agents" / "plugins"


def of_user(flow: Flow) -> Path:
    return Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "plugins"


def trust(flow: Flow, folder: Path) -> trust_actions.FolderTrust:
    """Trust a folder as `kogniterm trust -C FOLDER` does."""
    paths = resolve(flow.environ)
    found = trust_actions.compare(paths, folder)
    trust_files(paths, folder, found.files)
    return found


def parts(session: LiveSession) -> set[str]:
    """Return the parts of plugins that are in force."""
    extensions = session.extensions
    return {
        *(f"/{one.name}" for one in custom_commands_of(session, ())[0]),
        *(f"@{name}" for name in session.extensions.agents.named),
        *(one.name for one in extensions.skills.look() if one.usable),
        *extensions.servers.servers,
        *(one.command for one in extensions.hook_service.all.hooks),
    }


ALL = {"/review:check", "@review:checker", "review:tidy", "plugin_review_files", SAYS}


def test_trust_of_an_own_plugin_records_no_project(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: []")
    folder = install(of_user(flow))
    (folder / ".mcp.json").unlink()  # a file of projects, too
    assert not trust(flow, folder).finding.known
    assert trust_actions.compare(resolve(flow.environ), folder).finding.trusted
    assert not trust_store(resolve(flow.environ)).revoke(folder)
    assert trust_store(resolve(flow.environ), plugins=True).revoke(folder)


async def test_a_plugin_of_a_project_is_trusted_as_one_and_shows_all_its_parts(
    make_flow: MakeFlow,
) -> None:
    require_sandbox("auto")
    flow = make_flow("replies: [{text: Hello., repeat: forever}]")
    folder = install(of_project(flow))
    session = flow.open()
    assert parts(session) == set()
    (told,) = [str(one) for one in session.notices if "Not used" in str(one)]
    assert told.endswith(": .agents/plugins/review.")
    await flow.run("hi")
    assert not any(str(folder) in text for text in flow.shown)  # its hook did not run
    repl = Commanded(flow.session, answers=["yes"])
    shown = " ".join((await repl.type("/trust")).split())
    for part in (
        "review/commands/check.md custom command", "review/agents/checker.md sub-agent",
        "review/skills/tidy skill", "review/hooks/hooks.json hooks", "review/.mcp.json MCP servers",
        "plugins/review other files of a plugin",
    ):  # fmt: skip
        assert part in shown
    flow.close()
    session = flow.open()
    assert parts(session) == ALL
    begins = session.extensions.agents.named["review:checker"].instructions
    assert f"See {folder}/scripts." in begins
    await flow.run("hi")
    assert any(f"\n{folder}\n" in text for text in flow.shown)  # its hook ran, and knows where
    given, _names = command_input(session, "/review:check now", ())
    assert given is not None
    assert given.text == f"Check with {folder}/scripts/check.sh: now"
    assert f"See {folder}/scripts." in session.extensions.skills.template("review:tidy")
    server = session.extensions.servers.servers["plugin_review_files"].config
    assert (server.command, server.args) == (f"{folder}/serve", (str(folder),))
    flow.close()
    (folder / "scripts/check.sh").write_text("echo owned")
    session = flow.open()
    assert parts(session) == set()
    assert any("check.sh" in str(one) for one in session.notices)


async def test_a_plugin_of_the_user_is_in_force_in_every_folder_once_trusted(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("replies: [{text: Hello., repeat: forever}]")
    folder = install(of_user(flow))
    session = flow.open()
    assert parts(session) == set()
    (told,) = [str(one) for one in session.notices if "Plugin" in str(one)]
    assert told.endswith(f"/trust review or kogniterm trust -C {folder}")
    with pytest.raises(UsageError, match="trust -C"):
        session.extensions.skills.template("review:tidy")
    flow.close()
    trust(flow, folder)
    session = flow.open()
    assert parts(session) == ALL
    assert session.extensions.skills.may_read(folder / "scripts/check.sh")
    # Trust of the workspace is another one: neither giving nor revoking it touches the plugin.
    (flow.folder / "AGENTS.md").write_text("Use tabs.")
    repl = Commanded(session, answers=["yes"])
    await repl.type("/trust")
    assert parts(session) == ALL
    await repl.type("/trust revoke")
    assert parts(session) == ALL
    flow.close()
    (folder / "hooks/new.sh").write_text("")
    assert parts(flow.open()) == set()
    flow.close()
    trust(flow, folder)
    assert parts(flow.open()) == ALL
    flow.close()
    folder.rename(flow.folder / "elsewhere")
    assert parts(flow.open()) == set()


async def test_own_plugin_is_trusted_by_name(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("replies: [{text: Hello., repeat: forever}]")
    folder = install(of_user(flow))
    install(of_user(flow), "second", name="second")
    rules = flow.folder / ".kogniterm/policy.toml"
    rules.parent.mkdir()
    rules.write_text('[[rule]]\ndecision = "deny"\ntool = "web_fetch"\n')
    (flow.folder / "AGENTS.md").write_text("Use tabs.")
    trust(flow, flow.folder)
    session = flow.open()
    repl = Commanded(session, answers=["no", *["yes"] * 3])
    with pytest.raises(UsageError, match="nothing is none of them"):
        await repl.type("/trust nothing")
    assert "Nothing changed." in await repl.type("/trust review")
    assert parts(session) == set()
    await repl.type("/trust review")
    in_use = ALL - {"@review:checker", "plugin_review_files"}  # the next session has them
    assert parts(session) >= in_use
    assert not any("second:" in part for part in parts(session))
    assert "to revoke this, use /trust revoke review." in await repl.type("/trust review")
    # The trust of the session's folder, and its rules, are others.
    assert session.policy.project.rules
    assert trust_store(resolve(flow.environ)).knows(flow.folder)
    await repl.type("/trust second")
    await repl.type("/trust revoke review")
    assert not any("review" in part for part in parts(session))
    assert "/second:check" in parts(session)
    assert session.policy.project.rules
    with pytest.raises(UsageError, match="not trusted"):
        await repl.type("/trust revoke review")
    # Files of a project in a plugin's folder are none of this session.
    (folder / ".kogniterm").mkdir()
    (folder / ".kogniterm/policy.toml").write_text('[[rule]]\ndecision="deny"\ntool="*"\n')
    before = session.policy.project
    await repl.type("/trust review")
    assert session.policy.project == before


async def test_of_two_plugins_of_one_name_the_first_is_used_whole(make_flow: MakeFlow) -> None:
    flow = make_flow()
    install(flow.folder / ".agents" / "plugins")
    other = install(flow.folder / ".claude" / "plugins", "again")
    (other / "commands/more.md").write_text("More")
    trust(flow, flow.folder)
    session = flow.open()
    assert parts(session) == ALL
    problem = "Plugin .claude/plugins/again not used: another plugin has its name."
    assert problem in map(str, session.notices)
    flow.close()
    mine = install(of_user(flow))
    (mine / "commands/mine.md").write_text("Mine")
    trust(flow, mine)
    assert parts(flow.open()) == {*ALL, "/review:mine"}


async def test_a_wrong_part_is_one_notice_and_the_others_work(make_flow: MakeFlow) -> None:
    flow = make_flow()
    (flow.folder / "outside.md").write_text("Outside")
    wrong = ["../../../outside.md", "/etc", "./missing"]
    folder = install(of_project(flow), commands=[*wrong, "./more"], mcpServers=3)
    (folder / "more").mkdir()
    (folder / "more/extra.md").write_text("Extra")
    (folder / "hooks/hooks.json").write_text("{")
    trust(flow, flow.folder)
    session = flow.open()
    assert parts(session) == {*ALL - {SAYS}, "/review:extra"}
    told = "\n".join(map(str, session.notices))
    for path in wrong:
        assert f"commands names {path}, which is not in its folder." in told
    assert "mcpServers is not a path." in told
    assert "hooks/hooks.json" in told


async def test_hooks_and_servers_in_the_manifest_are_shown_and_kept_apart(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow()
    servers = {"more": {"command": "python3"}}
    install(of_project(flow), hooks=HOOKS, mcpServers=servers)
    twin = install(of_project(flow), "twin", name="twin")
    found = trust(flow, flow.folder)
    manifest = {str(kind) for name, kind in found.rows if "review/.claude-plugin/plugin" in name}
    assert manifest == {"hooks", "MCP servers"}
    session = flow.open()
    assert "plugin_review_more" in session.extensions.servers.servers
    # The same command of another plugin is another hook.
    hooks = session.extensions.hook_service.all.matching("UserPromptSubmit")
    assert str(twin) in {one.root for one in hooks}
    assert len({one.root for one in hooks}) == 2


async def test_a_plugin_that_changes_in_a_session_runs_nothing_before_it_is_trusted_again(
    make_flow: MakeFlow,
) -> None:
    require_sandbox("auto")
    flow = make_flow("replies: [{text: Hello., repeat: forever}]")
    folder = install(of_project(flow))
    trust(flow, flow.folder)
    session = flow.open()
    servers = session.extensions.servers
    (folder / "scripts/check.sh").write_text("echo other")
    assert (await flow.run("hi")).stop == "refused"
    assert not any(f"\n{folder}\n" in text for text in flow.shown)
    with pytest.raises(ToolError, match="changed since it was trusted"):
        await servers.list_anew(servers.find("plugin_review_files"))
    await Commanded(session, answers=["yes"]).type("/trust")
    await flow.run("hi")
    assert any(f"\n{folder}\n" in text for text in flow.shown)
    with pytest.raises(ToolError) as started:
        await servers.list_anew(servers.find("plugin_review_files"))
    assert "changed" not in str(started.value)  # its program is missing, as that of `FILES` is


async def test_servers_of_files_that_are_no_longer_trusted_are_ended(make_flow: MakeFlow) -> None:
    flow = make_flow()
    folder = install(of_project(flow))
    (flow.folder / ".mcp.json").write_text('{"mcpServers": {"alone": {"command": "python3"}}}')
    mine = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "mcp.json"
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text('{"mcpServers": {"mine": {"command": "python3"}}}')
    trust(flow, flow.folder)
    session = flow.open()
    servers, repl = session.extensions.servers, Commanded(session, answers=["yes"] * 2)
    assert set(servers.servers) == {"mine", "alone", "plugin_review_files"}
    await repl.type("/trust revoke")
    assert set(servers.servers) == {"mine"}
    for name in ("alone", "plugin_review_files"):
        with pytest.raises(ToolError, match="no longer trusted"):
            await servers.call(name, "ping", {})
        with pytest.raises(UsageError, match="no MCP server"):
            await repl.type(f"/mcp trust {name}")
    shutil.rmtree(folder)
    await repl.type("/trust")
    assert set(servers.servers) == {"mine", "alone"}


async def test_the_model_reads_why_what_was_revoked_is_gone(make_flow: MakeFlow) -> None:
    flow = make_flow(
        """replies:
  - text: Hello.
  - calls:
      - {tool: mcp__plugin_review_files__ping, arguments: {}}
      - {tool: call_tool, arguments: {tool: mcp__plugin_review_files__ping, arguments: {}}}
      - {tool: use_skill, arguments: {name: "review:tidy"}}
      - {tool: delegate, arguments: {agent: "review:checker", task: look}}
  - text: I see.
"""
    )
    install(of_project(flow))
    trust(flow, flow.folder)
    session = flow.open()
    await flow.run("hi")
    await Commanded(session, answers=["yes"]).type("/trust revoke")
    await flow.run("go on")
    *before, skill, agent, _end = flow.shown[-5:]
    assert all("no longer trusted" in text for text in (*before, agent))
    assert "not trusted; /trust" in skill


async def test_programs_of_a_plugin_leave_no_cache_in_it(make_flow: MakeFlow) -> None:
    flow = make_flow()
    folder = install(of_project(flow))
    shutil.rmtree(folder / "skills")
    (of_project(flow) / "linked").symlink_to(install(flow.folder, "src", name="linked"))
    trust(flow, flow.folder)
    session = flow.open()
    runs_from = session.extensions.skills.runs_from
    for command in ("review/scripts/x.py", "linked/scripts/x.py"):
        assert runs_from(f"python3 .agents/plugins/{command}", str(flow.folder))
    assert runs_from("python3 x.py", str(folder / "scripts"))
    assert not runs_from("python3 x.py", str(flow.folder))
    assert session.extensions.hook_service.place().env["PYTHONDONTWRITEBYTECODE"] == "1"


@pytest.mark.parametrize("link", ["/etc/passwd", "nowhere"])
async def test_a_plugin_that_cannot_be_pinned_has_no_effect(make_flow: MakeFlow, link: str) -> None:
    flow = make_flow()
    folder = install(of_project(flow))
    os.symlink(link, folder / "commands/link.md")  # noqa: PTH211 - it may lead nowhere
    trust(flow, flow.folder)
    session = flow.open()
    assert parts(session) == set()
    assert any("commands/link.md is a link" in str(one) for one in session.notices)
    outside = install(flow.folder.parent / "outside", name="far")
    (of_project(flow) / "far").symlink_to(outside)
    assert not any(
        "far" in one.name for one in trust_actions.compare(resolve(flow.environ), flow.folder).files
    )


async def test_objects_in_lists_of_the_manifest_are_parts_of_their_own(make_flow: MakeFlow) -> None:
    flow = make_flow()

    def says(word: str) -> dict[str, object]:
        return {"Stop": [{"hooks": [{"type": "command", "command": f"echo {word}"}]}]}

    servers = [{"one": {"command": "a"}}, {"mcpServers": {"two": {"command": "b"}}}]
    hooks = ["./more.json", says("one"), {"hooks": says("two")}, 3]
    folder = install(of_project(flow), hooks=hooks, mcpServers=servers, commands=[{}])
    (folder / "more.json").write_text(json.dumps({"hooks": says("file")}))
    trust(flow, flow.folder)
    session = flow.open()
    found = {"plugin_review_one", "plugin_review_two", "echo one", "echo two", "echo file"}
    assert parts(session) == ALL | found
    told = [str(one) for one in session.notices]
    assert [one for one in told if "is not a path" in one] == [
        "Plugin .agents/plugins/review: commands is not a path.",
        "Plugin .agents/plugins/review: hooks is not a path.",
    ]
    assert not any("is not an object" in one for one in told)
    flow.close()
    install(of_project(flow), hooks=[says("one"), {"hooks": says("three")}], mcpServers=servers)
    changes = trust_actions.compare(resolve(flow.environ), flow.folder).changes
    (diff,) = [text for name, text in changes.items() if "+" in text and "hooks[1]" in name]
    assert "echo three" in diff


async def test_a_sub_agent_of_a_plugin_is_called_by_both_names(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: Found it., repeat: forever}]")
    folder = install(of_project(flow))
    (folder / "agents/two.md").write_text("---\nname: foo:bar\n---\nCheck.")
    mine = flow.folder / ".kogniterm" / "agents" / "mine.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("---\nname: review:mine\n---\nCheck.")
    trust(flow, flow.folder)
    session = flow.open()
    names = session.extensions.port.agents()
    assert set(names) == {"review:checker"}
    told = "\n".join(map(str, session.notices))
    for name in ("foo:bar", "review:mine"):  # only a plugin's name stands before a colon
        assert f"Sub-agent {name} (" in told
    given = address_agent(UserInput("@Review:Checker look"), names)
    assert given.agent == "review:checker"
    answer = await flow.run(given)
    assert (answer.stop, answer.text) == ("done", "Found it.")


@pytest.mark.parametrize("name", ["up/../../diary.txt", "notes.txt", "key"])
async def test_a_command_of_a_plugin_attaches_no_file_from_outside(
    make_flow: MakeFlow, name: str
) -> None:
    flow = make_flow("replies: [{text: Hello., repeat: forever}]")
    folder = install(of_project(flow))
    (flow.folder / "up").mkdir()
    (folder / "a/b").mkdir(parents=True)
    for inside in ("a/b/f", "notes.txt", "key"):
        (folder / inside).write_text("Inside")
    (folder / "up").symlink_to("a/b/f")
    diary = flow.folder.parent / "diary.txt"
    diary.write_text("OUTSIDE")
    (flow.folder / "notes.txt").symlink_to(diary)
    (flow.folder / ".env").write_text("KEY=1")
    (flow.folder / "key").symlink_to(".env")
    (folder / "commands/leak.md").write_text(f"Look at @{name} please")
    (folder / "commands/own.md").write_text("Look at @${CLAUDE_PLUGIN_ROOT}/notes.txt please")
    trust(flow, flow.folder)
    session = flow.open()
    with pytest.raises(UsageError, match="outside of its folder"):
        command_input(session, "/review:leak", ())
    given, _names = command_input(session, "/review:own", ())
    assert given is not None
    assert given.attachments == (str(folder / "notes.txt"),)


@pytest.mark.parametrize("linked", [True, False])
async def test_a_plugin_is_also_a_project_in_its_own_folder(
    make_flow: MakeFlow, linked: bool
) -> None:
    flow = make_flow("replies: [{text: Hello., repeat: forever}]")
    folder = install(flow.folder.parent if linked else of_user(flow), "src")
    if linked:
        of_user(flow).mkdir(parents=True)
        for name in ("dev", "twice"):
            (of_user(flow) / name).symlink_to(folder)
    elsewhere, flow.folder = flow.folder, folder
    paths = resolve(flow.environ)
    found = trust_actions.compare(paths, folder)
    TrustStore(paths.trust_file).trust(folder, found.files)
    assert parts(flow.open()) == set()  # trust of a project is none of a plugin
    flow.close()
    TrustStore(paths.trust_file).revoke(folder)
    (folder / "AGENTS.md").write_text("USE-TABS")
    session = flow.open()
    said = await Commanded(session, answers=["yes"]).type("/trust")
    assert "AGENTS.md" in said
    assert "Its files now apply" in said
    flow.close()
    session = flow.open()
    assert parts(session) >= ALL
    assert not any("No longer present" in str(one) for one in session.notices)
    assert "USE-TABS" in session.context.system.text
    assert TrustStore(paths.trust_file).folders() == (str(folder),)
    await Commanded(session).type("/trust revoke")
    assert session.extensions.agents.named["review:checker"].off is not None
    assert parts(session) & {"/review:check", SAYS, "review:tidy"} == set()
    flow.close()
    flow.folder = elsewhere
    session = flow.open()
    assert parts(session) == set()
    assert trust_actions.compare(paths, folder).finding.known is False
