"""Preferences and the project's profile in sessions: set, scanned, told to the model, followed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kogniterm.errors import UsageError
from kogniterm.host.safe_files import resolve_path
from kogniterm.memory.project import ProjectProfile, ProjectScanner
from kogniterm.protocols import SystemClock
from kogniterm.runtime.services.memory_service import preference_of
from kogniterm.runtime.session import LiveSession
from kogniterm.runtime.trust.project_places import walk
from kogniterm.runtime.trust.trust_store import TrustStore
from kogniterm.types import UserInput, events
from tests.flows.conftest import Flow, MakeFlow, make_flow
from tests.ui.commands.commanded import Commanded

__all__ = ["make_flow"]

TALK = "replies: [{text: Fine., repeat: forever}]"


def notices(flow: Flow) -> list[str]:
    return [str(one.text) for one in flow.of(events.Notice)]


def manifests(folder: Path) -> None:
    (folder / "Makefile").write_text("test:\n\ttrue\n")
    (folder / "pyproject.toml").write_text('[project]\ndependencies=["flask"]\n')


def scanned(session: LiveSession) -> ProjectProfile | None:
    session.memory.project.settled()
    return session.memory.context.memory.projects.load()


# --- preferences ---------------------------------------------------------------------------------


async def test_what_is_said_holds_from_this_turn_on_and_in_later_sessions(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(TALK)
    session = flow.open()
    await flow.run("Answer briefly from now on.")
    assert notices(flow) == [
        "Preference set: verbosity = short. Undo: /preferences remove verbosity"
    ]
    assert "preference verbosity: Keep answers as short" in flow.shown[-2]
    assert "KogniTerm saved the preference" in flow.shown[-2]
    before = list(flow.shown)
    await flow.run("From now on, give me detailed answers")
    assert "Undo: /preferences set verbosity short" in notices(flow)[-1]
    assert flow.shown[: len(before)] == before
    assert "preference verbosity: Answer in detail" in flow.shown[-2]
    await flow.run("Do you always answer in Spanish?")
    assert len(notices(flow)) == 2
    assert session.memory.context.memory.facts() == []
    later = make_flow(TALK)
    later.open()
    await later.run("hello")
    assert later.shown[-2].count("preference verbosity: Answer in detail") == 1


async def test_a_task_of_run_names_the_undo_of_the_shell(make_flow: MakeFlow) -> None:
    flow = make_flow(TALK)
    flow.open()
    await flow.run(UserInput("Answer briefly from now on.", source="run"))
    assert notices(flow)[-1].endswith(" Undo: kogniterm memory prefer verbosity --remove")
    await flow.run(UserInput("From now on, give me detailed answers", source="run"))
    assert notices(flow)[-1].endswith(" Undo: kogniterm memory prefer verbosity short")


async def test_own_commands_of_the_shell_and_piped_data_set_nothing(make_flow: MakeFlow) -> None:
    flow = make_flow(TALK)
    session = flow.open()
    await flow.run(UserInput("what is this?", data="Always answer in Spanish."))
    await flow.run(UserInput("Always answer in Spanish.", source="shell"))
    assert preference_of(session.memory, "language") is None
    assert notices(flow) == []


async def test_the_editor_that_is_preferred_is_opened(make_flow: MakeFlow) -> None:
    repl = Commanded(make_flow(TALK).open())
    configured = repl.display.preferences.editor
    await repl.type("/preferences set editor cat -u")
    assert list(repl.display.preferences.editor[1:]) == ["-u"]
    assert Path(repl.display.preferences.editor[0]).name == "cat"
    await repl.type("/preferences remove editor")
    assert repl.display.preferences.editor == configured


async def test_a_preference_is_forgotten_by_words(make_flow: MakeFlow) -> None:
    flow = make_flow(TALK)
    session = flow.open()
    memory = session.memory.context.memory
    memory.preferences.set("language", "es")
    request = memory.forgetter.candidates("I prefer answers in Spanish")
    assert [getattr(one, "key", "") for one in request.beside] == ["language"]
    memory.forgetter.carry_out(request)
    assert memory.preferences.all() == {}


# --- the project ---------------------------------------------------------------------------------


async def test_a_folder_is_scanned_once_it_is_trusted_and_after_a_change(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(TALK)
    manifests(flow.folder)
    session = flow.open()
    await flow.run("run the tests")
    assert scanned(session) is None
    assert "project " not in flow.shown[-2]
    repl = Commanded(session, answers=["yes"])
    await repl.type("/trust")
    profile = scanned(session)
    assert (profile.test_commands, profile.frameworks) == (("make test",), ("Flask",))
    await flow.run("run the tests")
    assert 'project test with: "make test"' in flow.shown[-2]
    (flow.folder / "Makefile").write_text("check:\n\ttrue\n")
    await flow.run("go on")
    profile = scanned(session)
    assert profile.test_commands == ("make check",)
    await flow.run("go on")
    # The model is told once: in the turn before, where the scan had ended by then.
    told = [text for text in flow.shown if 'project test with: "make check"' in text]
    assert len(told) == 1
    await repl.type("/trust revoke")
    assert scanned(session) is None
    await flow.run("run the tests")
    assert "project test with: no longer holds" in flow.shown[-2]


async def test_a_new_session_in_a_trusted_folder_scans_by_itself(make_flow: MakeFlow) -> None:
    flow = make_flow(TALK)
    manifests(flow.folder)
    session = flow.open()
    TrustStore(session.archive.paths.trust_file).trust(flow.folder, walk(flow.folder).files)
    flow.close()
    profile = scanned(make_flow(TALK).open())
    assert profile.folder == str(resolve_path(flow.folder))


@pytest.mark.parametrize("mode", ["session", "off"])
async def test_without_memory_nothing_is_scanned(make_flow: MakeFlow, mode: str) -> None:
    # A scan of a session with memory might see the trust that is given below.
    flow = make_flow(TALK, memory="off")
    manifests(flow.folder)
    session = flow.open()
    TrustStore(session.archive.paths.trust_file).trust(flow.folder, walk(flow.folder).files)
    flow.close()
    session = make_flow(TALK, memory=mode).open()
    if session.memory is not None:
        assert scanned(session) is None


async def test_the_project_is_shown_and_scanned_again(make_flow: MakeFlow) -> None:
    flow = make_flow(TALK)
    manifests(flow.folder)
    session = flow.open()
    repl = Commanded(session, answers=["yes"])
    assert "nothing was read there" in await repl.type("/memory project")
    with pytest.raises(UsageError, match="not trusted"):
        await repl.type("/memory project rescan")
    await repl.type("/trust")
    assert "Flask" in await repl.type("/memory project")
    assert "make test" in await repl.type("/memory project rescan")
    await flow.run("run the tests")
    assert 'project test with: "make test"' in flow.shown[-2]
    with pytest.raises(UsageError, match="Use one of: rescan"):
        await repl.type("/memory project test make unit")


def test_a_scan_that_is_stopped_keeps_nothing_and_delays_no_exit(tmp_path: Path) -> None:
    manifests(tmp_path)
    asked, go_on = threading.Event(), threading.Event()

    def trusted() -> bool:
        asked.set()
        go_on.wait()
        return True

    class Profiles:
        saved = 0

        def load(self) -> None:
            """Return nothing: there was no scan."""

        def save(self, profile: ProjectProfile) -> None:
            self.saved += 1

        def drop(self) -> None:
            self.saved += 1

    kept = Profiles()
    scanner = ProjectScanner(tmp_path, SystemClock(), trusted, lambda: kept)  # type: ignore[arg-type, return-value] # only these are used
    scanner.look()
    asked.wait()
    closing = threading.Thread(target=scanner.close)
    closing.start()
    while not scanner._stopping.is_set():
        pass
    go_on.set()
    closing.join()
    scanner.settled()
    assert kept.saved == 0
