"""Instruction files of folders below and above the workspace, in whole turns."""

from __future__ import annotations

from pathlib import Path

from kogniterm.runtime.operations.trust_actions import revoke, trust
from kogniterm.runtime.trust.project_places import walk
from tests.flows.conftest import MakeFlow
from tests.flows.program import replayed
from tests.support.forge import Forge

WORK = """replies:
  - calls: [{tool: read_file, arguments: {path: api/x.py}}]
  - text: Read it.
  - calls: [{tool: read_file, arguments: {path: api/y.py}}]
  - text: Read that too.
  - {when: {purpose: compact}, text: A summary.}
  - {run: cat api/x.py}
  - {text: Done., repeat: forever}
"""


def project(folder: Path) -> None:
    (folder / "api").mkdir()
    for name in ("x.py", "y.py"):
        (folder / "api" / name).write_text("pass\n")
    (folder / "api" / "AGENTS.md").write_text("Name every endpoint after a tree.\n")
    (folder / "CLAUDE.md").write_text("Use tabs.\n")


async def test_instructions_of_a_folder_come_once_and_again_after_a_compaction(
    make_flow: MakeFlow, forge: Forge
) -> None:
    flow = make_flow(WORK)
    project(flow.folder)
    session = flow.open()
    await flow.run("hi")
    assert not any("after a tree" in text for text in flow.shown)
    flow.close()
    flow = make_flow(WORK)
    await trust(flow.open(), flow.folder, walk(flow.folder).files)
    flow.close()
    session = flow.open()
    assert "Use tabs." in session.context.system.text
    assert "after a tree" not in session.context.system.text
    await flow.run("look at api/x.py")
    given = [at for at, text in enumerate(flow.shown) if "after a tree" in text]
    assert flow.shown[given[0]].startswith("(Instructions for work in api and below")
    assert flow.shown[given[0] + 1] == "Read it."
    await flow.run("and y")
    assert [at for at, text in enumerate(flow.shown) if "after a tree" in text] == given
    await session.context.compact_now(asked=True)
    await flow.run("again")
    assert sum("after a tree" in text for text in flow.shown) == 1
    flow.close()
    status, report = replayed(forge, flow)
    assert (status, report["divergence"]) == (0, None)


async def test_the_users_own_instructions_are_in_force_without_trust(make_flow: MakeFlow) -> None:
    flow = make_flow()
    own = Path(flow.environ["KOGNITERM_CONFIG_DIR"]) / "AGENTS.md"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("Answer in Latin.\n")
    project(flow.folder)
    session = flow.open()
    assert "Answer in Latin." in session.context.system.text
    assert "Use tabs." not in session.context.system.text
    await trust(session, flow.folder, walk(flow.folder).files)
    await flow.run("hi")
    text = session.context.system.text
    assert await revoke(session, flow.folder)
    assert "Answer in Latin." in flow.shown[-1]
    assert "Use tabs." not in flow.shown[-1]
    assert session.context.system.text == text
