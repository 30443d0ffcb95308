"""Users who approve now, later or never: the model is told, and every text follows."""

from __future__ import annotations

from tests.flows.conftest import MakeFlow, yes
from tests.support.programs import require_sandbox

ONE = "replies: [{text: Done., repeat: forever}]"
NOBODY = "(No user is present: nobody can approve or answer."


async def test_the_state_is_told_at_the_first_request_and_when_it_changes(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(ONE)
    await flow.run("one")
    assert flow.shown[0].startswith(f"one\n\n{NOBODY}")
    await flow.run("two")
    assert sum(NOBODY in text for text in flow.shown) == 1
    flow.close()
    again = make_flow(ONE, decisions=[yes])
    again.open("last")
    await again.run("three")
    assert "(A user is present again, and can approve and answer.)" in again.shown[4]
    await again.run("four")
    assert sum("A user is present again" in text for text in again.shown) == 1


async def test_a_user_who_is_there_is_told_of_no_other(make_flow: MakeFlow) -> None:
    flow = make_flow(ONE, decisions=[yes])
    await flow.run("one")
    assert not any("present" in text for text in flow.shown)


async def test_nobody_is_invited_to_propose_what_will_be_refused(make_flow: MakeFlow) -> None:
    require_sandbox("auto")
    flow = make_flow(
        "replies: [{run: 'echo x > ../outside'}, {run: 'echo y > ../other'}, {text: Done.}]",
        approval_mode="auto",
        sandbox="auto",
    )
    await flow.run("one")
    result, later = [text for text in flow.shown if "[exit" in text]
    assert "Nothing runs outside the sandbox here" in result
    assert "propose" not in result.lower()
    assert "Could not write ../other: the sandbox protects it." in later
    assert "outside the sandbox" not in later  # told once


async def test_what_has_secrets_promises_no_question(make_flow: MakeFlow) -> None:
    script = "replies: [{calls: [{tool: search_text, arguments: {pattern: x, path: .env}}]}, Done.]"
    flow = make_flow(script)
    (flow.folder / ".env").write_text("x")
    flow.open().journal.given.give("hunter2-and-more", "TOKEN", told=False)
    await flow.run()
    assert "with the user's approval" in flow.shown[0]
    assert "with approval" in flow.shown[2]
    assert not any("asked" in text or "asks" in text for text in flow.shown)
