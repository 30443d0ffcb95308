"""Tools are switched off by rule, setting and mode; tools of other packages are asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm.errors import SettingsError, UsageError
from kogniterm.runtime.inputs.agent_turn import address_agent
from kogniterm.runtime.operations import trust_actions
from kogniterm.runtime.operations.tool_actions import ToolEntry, tools_of_session
from kogniterm.runtime.trust.project_places import walk
from kogniterm.runtime.trust.trust_store import TrustStore
from kogniterm.tools.file_tools import mode_of
from kogniterm.types import UserInput, events
from tests.flows.conftest import Flow, MakeFlow, yes
from tests.flows.program import replayed
from tests.support.forge import Forge
from tests.support.tool_package import install


def call(tool: str, arguments: str) -> str:
    return f"{{calls: [{{tool: {tool}, arguments: {arguments}}}]}}"


def script(*calls: str) -> str:
    return "\n  - ".join(["replies:", *calls, "{text: Done.}"])


READ = call("read_file", "{path: notes}")
COUNT = call("count_words", "{text: one two}")


def with_rules(flow: Flow, rules: str) -> None:
    config = Path(flow.environ["KOGNITERM_CONFIG_DIR"])
    config.mkdir(exist_ok=True)
    (config / "policy.toml").write_text(rules)


def offered(flow: Flow) -> set[str]:
    return {spec.name for spec in flow.session.context.offered_tools()}


def entry(flow: Flow, name: str) -> ToolEntry:
    return tools_of_session(flow.session).find(name)


@pytest.mark.parametrize("name", ["read_file", "web_fetch", "ask_user", "delegate", "make_plan"])
async def test_a_rule_takes_a_tool_out_of_a_new_session(make_flow: MakeFlow, name: str) -> None:
    flow = make_flow(script(call(name, "{}")))
    with_rules(flow, f'[[rule]]\ndecision = "deny"\ntool = "{name}"\nreason = "not here"\n')
    flow.open()
    assert name not in offered(flow)
    assert len(offered(flow)) == 18
    await flow.run()
    assert f"The tool {name} is switched off: rule " in flow.shown[2]
    assert "not here" in flow.shown[2]
    told = entry(flow, name)
    assert told.off is not None
    assert "policy.toml:1: not here" in str(told.off)


async def test_a_setting_switches_tools_off(make_flow: MakeFlow) -> None:
    flow = make_flow(script(READ))
    flow.environ["KOGNITERM_TOOLS_OFF"] = "read_file, complete_step"
    flow.open()
    assert {"read_file", "complete_step"}.isdisjoint(offered(flow))
    await flow.run()
    assert "The tool read_file is switched off: setting tools_off" in flow.shown[2]
    assert str(entry(flow, "complete_step").off) == "setting tools_off"
    assert entry(flow, "search_text").off is None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("web_fech", r"There is no tool web_fech .*KOGNITERM_TOOLS_OFF.*; did you mean web_fetch"),
        ("quite other", "`kogniterm tools` lists"),
    ],
)
def test_a_wrong_name_is_answered_with_the_one_that_was_meant(
    make_flow: MakeFlow, value: str, why: str
) -> None:
    flow = make_flow()
    flow.environ["KOGNITERM_TOOLS_OFF"] = value
    with pytest.raises(SettingsError, match=why):
        flow.open()


def test_a_rule_for_a_tool_that_there_is_not_is_reported(make_flow: MakeFlow) -> None:
    flow = make_flow()
    with_rules(flow, '[[rule]]\ndecision = "deny"\ntool = "web_fech"\n')
    (notice,) = [one for one in flow.open().notices if "web_fech" in str(one)]
    assert str(notice).endswith("policy.toml:1: there is no tool web_fech; did you mean web_fetch?")


async def test_a_rule_that_comes_later_refuses_and_keeps_the_list(make_flow: MakeFlow) -> None:
    calls = [READ, call("ask_user", "{question: Why}"), call("delegate", "{task: look}")]
    flow = make_flow(script(*calls), decisions=[])
    (flow.folder / "notes").write_text("secret plan\n")
    rules = flow.folder / ".kogniterm"
    rules.mkdir()
    (rules / "policy.toml").write_text(
        "".join(
            f'[[rule]]\ndecision = "deny"\ntool = "{name}"\n'
            for name in ("read_file", "ask_user", "delegate")
        )
    )
    session = flow.open()
    before = session.context.offered_tools()
    found = walk(flow.folder).files
    assert [one.kind for one in found] == ["policy"]
    TrustStore(session.archive.paths.trust_file).trust(flow.folder, found)
    await trust_actions.trust(session, flow.folder, found)
    answer = await flow.run()
    assert session.context.offered_tools() == before
    assert not any("secret plan" in text for text in flow.shown)
    refused = [one for one in flow.of(events.ActionDecided) if one.decision.kind == "reject"]
    assert [one.request.tool for one in refused] == ["read_file", "ask_user"]
    assert "The tool delegate is switched off: rule " in flow.shown[-2]
    assert answer.stop == "refused"
    assert str(entry(flow, "read_file").off).startswith("rule ")


async def test_a_rule_about_some_files_holds_for_reading_tools_too(
    make_flow: MakeFlow, forge: Forge
) -> None:
    calls = (READ, call("read_file", "{path: private/diary}"), call("read_file", "{path: asked}"))
    flow = make_flow(script(*calls), decisions=[yes])
    rule = '[[rule]]\ndecision = "{}"\ntool = "read_file"\npath = "{}"\n'
    with_rules(flow, rule.format("deny", "private/*") + rule.format("ask", "asked"))
    (flow.folder / "private").mkdir()
    for name in ("notes", "private/diary", "asked"):
        (flow.folder / name).write_text(f"text of {name}\n")
    await flow.run()
    assert "read_file" in offered(flow)
    seen = "\n".join(flow.shown)
    assert "text of notes" in seen
    assert "text of asked" in seen
    assert "text of private" not in seen
    ((request, _report, _verdict),) = flow.user.asked
    assert request.effect == "read"
    flow.close()
    status, report = replayed(forge, flow)
    assert (status, report["divergence"]) == (0, None)


def test_plan_mode_needs_the_tool_that_makes_plans(make_flow: MakeFlow) -> None:
    flow = make_flow()
    flow.environ["KOGNITERM_TOOLS_OFF"] = "make_plan"
    with pytest.raises(UsageError, match="make_plan is switched off: setting tools_off"):
        flow.open().use_mode("plan")


async def test_plan_mode_shows_what_it_refuses(make_flow: MakeFlow) -> None:
    flow = make_flow(decisions=[])
    flow.open().use_mode("plan")
    assert str(entry(flow, "edit_file").off) == "plan mode"
    assert str(entry(flow, "web_fetch").off) == "plan mode"
    assert entry(flow, "read_file").off is None
    assert "only read" in str(entry(flow, "execute_command").note)


async def test_without_plans_and_memory_their_tools_are_off(make_flow: MakeFlow) -> None:
    flow = make_flow(plan="never", memory="off")
    flow.open()
    for name in ("make_plan", "complete_step"):
        assert str(entry(flow, name).off) == "setting plan = never"
    for name in ("recall", "remember", "forget"):
        assert str(entry(flow, name).off) == "setting memory = off"
    off = {one.name for one in tools_of_session(flow.session).entries if one.off is not None}  # type: ignore[arg-type]
    assert offered(flow).isdisjoint(off)


# --- tools of other packages ----------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(install(tmp_path / "packages")))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme"]:
        del sys.modules[name]


def plugged(make_flow: MakeFlow, *calls: str, **how: object) -> Flow:
    flow = make_flow(script(*calls), **how)
    config = Path(flow.environ["KOGNITERM_CONFIG_DIR"])
    config.mkdir(exist_ok=True)
    (config / "config.toml").write_text('tool_packages = ["acme-tools"]\n')
    return flow


@pytest.mark.usefixtures("package")
async def test_a_tool_of_another_package_is_asked_for_and_redacted(
    make_flow: MakeFlow, forge: Forge
) -> None:
    """It claims to have no effect; nobody can know."""
    flow = plugged(make_flow, COUNT, decisions=[yes])
    flow.open()
    assert "count_words" in offered(flow)
    await flow.run()
    ((request, report, verdict),) = flow.user.asked
    assert (request.effect, report.label, verdict.kind) == ("external", "needs_approval", "ask")
    assert request.command == "count_words(text='one two', least=1)"
    assert "Runs code of the package acme-tools 1.2, which KogniTerm cannot inspect." in [
        str(reason) for reason in report.reasons
    ]
    assert flow.shown[2].startswith("2 words")
    assert "AKIA" not in flow.shown[2]
    flow.close()
    # A replay loads nothing of the package.
    status, told = replayed(forge, flow)
    assert (status, told["divergence"]) == (0, None)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("flags", [{}, {"approval_mode": "auto", "sandbox": "auto"}])
async def test_a_rule_of_the_user_is_what_trusts_it(
    make_flow: MakeFlow, flags: dict[str, object]
) -> None:
    flow = plugged(make_flow, COUNT, decisions=[], **flags)
    with_rules(flow, '[[rule]]\ndecision = "allow"\ntool = "count_words"\n')
    await flow.run()
    assert flow.user.asked == []
    assert flow.shown[2].startswith("2 words")


@pytest.mark.usefixtures("package")
async def test_an_edit_of_it_can_be_undone(make_flow: MakeFlow) -> None:
    flow = plugged(make_flow, "{text: Hello.}", decisions=[yes])
    path = flow.folder / "letter"
    path.write_text("dear\n")
    Path(str(flow.flags["model"]).partition(":")[2]).write_text(
        script(call("stamp", f"{{path: {path}}}"))
    )
    session = flow.open()
    await flow.run()
    assert path.read_text() == "stamped"
    ((_request, report, _verdict),) = flow.user.asked
    assert "letter" in [effect.target for effect in report.effects]
    session.undo.store.restore(session.undo.latest())
    assert path.read_text() == "dear\n"


@pytest.mark.usefixtures("package")
async def test_its_hosts_and_its_failures_are_shown(make_flow: MakeFlow) -> None:
    flow = plugged(make_flow, call("send_stamp", "{to: Ana}"), decisions=[yes])
    await flow.run()
    ((_request, report, _verdict),) = flow.user.asked
    assert "stamps.example.org" in [effect.target for effect in report.effects]
    assert "Ana has no post office." in flow.shown[2]


@pytest.mark.usefixtures("package")
async def test_a_missing_program_switches_it_off(make_flow: MakeFlow, tmp_path: Path) -> None:
    install(tmp_path / "packages", {"needs_program": "acme.tools:needs_program"})
    flow = plugged(make_flow, decisions=[])
    flow.open()
    assert "needs_program" not in offered(flow)
    assert str(entry(flow, "needs_program").off) == "no-such-program-here is not installed"


@pytest.mark.usefixtures("package")
async def test_a_broken_package_costs_the_session_nothing(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    install(tmp_path / "packages", {"fails": "acme.fails:run"})
    flow = plugged(make_flow, READ, decisions=[])
    flow.environ["KOGNITERM_TOOLS_OFF"] = "a_tool_of_that_package"
    (flow.folder / "notes").write_text("text\n")
    notices = [str(one) for one in flow.open().notices]
    assert "The tool fails of acme-tools was not loaded: RuntimeError: no licence." in notices
    answer = await flow.run()
    assert answer.text == "Done."


@pytest.mark.usefixtures("package")
async def test_a_sub_agent_gets_the_tools_of_packages_that_its_file_names(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    agents = tmp_path / "config" / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    (agents / "counter.md").write_text("---\ntools: count_words\n---\nCount.")
    (agents / "other.md").write_text("Count.")
    flow = plugged(make_flow, COUNT, decisions=[yes])
    session = flow.open()
    named = session.extensions.agents.named
    assert "count_words" not in named["other"].tools
    answer = await flow.run(address_agent(UserInput("@counter count"), named))
    assert answer.text == "Done."
    ((request, _report, _verdict),) = flow.user.asked
    assert (request.tool, request.effect, request.agent_name) == (
        "count_words", "external", "counter",
    )  # fmt: skip


@pytest.mark.usefixtures("package")
async def test_a_project_cannot_have_a_package_loaded(make_flow: MakeFlow) -> None:
    flow = make_flow(script(COUNT), decisions=[])
    (flow.folder / ".env").write_text("KOGNITERM_TOOL_PACKAGES=acme-tools\n")
    (flow.folder / "config.toml").write_text('tool_packages = ["acme-tools"]\n')
    flow.open()
    assert "count_words" not in offered(flow)
    assert "acme" not in sys.modules


@pytest.mark.parametrize("rules", ["", '[[rule]]\ndecision = "ask"\ntool = "search_text"\n'])
async def test_a_folder_that_is_replaced_under_a_call_fails_the_call(
    make_flow: MakeFlow, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = make_flow(script(call("search_text", "{pattern: x, path: sub}")), decisions=[yes])
    folder = flow.folder / "sub"
    folder.mkdir()

    def looked_at(path: Path) -> int | None:
        mode = mode_of(path)
        if (folder / "seen").exists():
            (folder / "seen").unlink()
            folder.rmdir()
            folder.touch()
        elif folder.is_dir():
            (folder / "seen").touch()
        return mode

    monkeypatch.setattr("kogniterm.tools.search_files.mode_of", looked_at)
    with_rules(flow, rules)
    answer = await flow.run()
    assert folder.is_file()
    assert (answer.stop, answer.text) == ("done", "Done.")
    assert "search_text failed: " in "\n".join(flow.shown)
