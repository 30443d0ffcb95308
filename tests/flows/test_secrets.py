"""Secrets of the user: whichever way one is given, no file of KogniTerm holds it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from kogniterm.runtime.plan_edits import plan_from_text
from kogniterm.runtime.session_plans import give_plan, replace_plan
from kogniterm.text.redact import session_label
from kogniterm.types import ActionRequest, Decision, Phrase, Plan, PlanReview, UserInput
from tests.flows.conftest import Flow, MakeFlow, change_to, no, yes
from tests.support.typing_user import holding

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PLAN = f"""
goal: Log in with {SECRET}
steps:
  - {{id: s1, what: Use {SECRET}, check: {{kind: command, value: "test -n {SECRET}"}}}}
"""
PLANNED = """
  - plan: {goal: Make it, steps: [{id: s1, what: Create}]}
  - calls: [{tool: complete_step, arguments: {step: s1, note: Not needed., status: skipped}}]
  - {text: Ok., repeat: forever}
"""
RUN = """
  - run: echo start
  - {text: Ok., repeat: forever}
"""
ASKED = """
  - calls: [{tool: ask_user, arguments: {question: "Which token?", answers: [a, b]}}]
  - {text: Ok., repeat: forever}
"""


def placeholder(flow: Flow, number: int) -> str:
    """Return what stands for a secret in the session of `flow`."""
    return f"[secret:{session_label(flow.session.id)}-{number}]"


async def edited_command(make_flow: MakeFlow) -> Flow:
    flow = make_flow(f"replies:{RUN}", [change_to(f"echo {SECRET} | wc -c"), yes])
    await flow.run()
    assert [result.text.strip() for result in flow.results] == [str(len(SECRET) + 1)]
    return flow


async def reason_of_a_rejection(make_flow: MakeFlow) -> Flow:
    flow = make_flow(f"replies:{RUN}", [no(f"use {SECRET} instead")])
    await flow.run()
    return flow


async def word_to_the_running_turn(make_flow: MakeFlow) -> Flow:
    def steer(request: ActionRequest) -> Decision:
        flow.session.steer(f"the token is {SECRET}")
        return yes(request)

    flow = make_flow(f"replies:{RUN}", [steer])
    await flow.run()
    return flow


async def edited_plan(make_flow: MakeFlow) -> Flow:
    def edit(plan: Plan) -> PlanReview:
        return PlanReview("edit", plan_from_text(PLAN, plan), "person")

    flow = make_flow(f"replies:{PLANNED}", [yes] * 9)
    flow.user.reviews.append(edit)
    await flow.run()
    return flow


async def reason_of_a_rejected_plan(make_flow: MakeFlow) -> Flow:
    flow = make_flow(f"replies:{PLANNED}", [yes] * 9)
    flow.user.reviews.append(lambda plan: PlanReview("reject", plan, "person", f"use {SECRET}"))
    await flow.run()
    return flow


async def given_plan(make_flow: MakeFlow) -> Flow:
    flow = make_flow("replies: [{text: Ok., repeat: forever}]", [yes] * 9)
    give_plan(flow.open().context, plan_from_text(PLAN))
    await flow.run()
    return flow


async def plan_between_turns(make_flow: MakeFlow) -> Flow:
    flow = make_flow("replies: [{text: Ok., repeat: forever}]", [yes] * 9)
    replace_plan(flow.open().journal, plan_from_text(PLAN), flow.tell)
    await flow.run()
    return flow


async def answer_to_a_question(make_flow: MakeFlow) -> Flow:
    async def ask(question: object, answers: Sequence[str | Phrase]) -> str | None:
        return f"Use {SECRET}"

    flow = make_flow(f"replies:{ASKED}", [yes])
    await flow.open().run(UserInput("go"), approver=flow.user, sink=flow.tell, ask=ask)
    return flow


async def title(make_flow: MakeFlow) -> Flow:
    flow = make_flow("replies: [{text: Ok., repeat: forever}]")
    await flow.run(f"Look at {SECRET}")
    return flow


async def what_the_model_wrote(make_flow: MakeFlow) -> Flow:
    """As where it has read a secret in an image."""
    flow = make_flow(
        f"""replies:
  - calls:
    - tool: make_plan
      arguments:
        goal: Use {SECRET}
        steps: [{{what: Use {SECRET}, check: {{kind: command, value: "test -n {SECRET}"}}}}]
  - {{text: "I use {SECRET}.", run: "printf {SECRET} | wc -c"}}
  - {{text: "It is {SECRET}.", repeat: forever}}
""",
        [yes] * 9,
    )
    answer = await flow.run()
    assert flow.results[0].text.strip() == str(len(SECRET))
    assert placeholder(flow, 1) in answer.text
    assert SECRET not in answer.text
    return flow


async def what_a_sub_agent_wrote(make_flow: MakeFlow) -> Flow:
    flow = make_flow(
        f"""replies:
  - calls: [{{tool: delegate, arguments: {{task: Look., tools: all}}}}]
  - {{text: "I use {SECRET}.", run: "printf {SECRET} | wc -c"}}
  - {{text: "It is {SECRET}."}}
  - {{text: "It is {SECRET}.", repeat: forever}}
""",
        [yes] * 9,
    )
    await flow.run()
    assert flow.results[0].text.strip() == str(len(SECRET))
    return flow


WAYS = (
    edited_command,
    reason_of_a_rejection,
    word_to_the_running_turn,
    edited_plan,
    reason_of_a_rejected_plan,
    given_plan,
    plan_between_turns,
    answer_to_a_question,
    title,
    what_the_model_wrote,
    what_a_sub_agent_wrote,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_no_file_holds_it_and_the_model_does_not_get_it(
    make_flow: MakeFlow, way: Callable[[MakeFlow], Awaitable[Flow]]
) -> None:
    flow = await way(make_flow)
    assert not any(SECRET in text for text in flow.shown)
    flow.close()
    assert holding(flow.data, SECRET.encode()) == []


async def test_a_number_never_stands_for_another_secret(make_flow: MakeFlow) -> None:
    """Not in a later process either, after a compaction left the first number out."""
    other = SECRET.replace("a1B2", "z9Y8")
    flow = make_flow(
        "replies: [{when: {purpose: compact}, text: Short., repeat: forever}, "
        "{text: Ok., repeat: forever}]",
        [],
    )
    await flow.run(UserInput("look", data=f"the first is {SECRET}"))
    first = placeholder(flow, 1)
    assert first in flow.shown[0]
    await flow.session.context.compact_now(asked=True)
    for words in ("one", "two", "three"):
        await flow.run(words)
    await flow.session.context.compact_now(asked=True)
    assert not any(first in text for text in flow.shown)
    await flow.session.finish()
    flow.close()
    flow.open("last")
    await flow.run(UserInput("look", data=f"the second is {other}"))
    assert f"the second is {placeholder(flow, 2)}" in "\n".join(flow.shown)


async def test_a_private_key_that_the_cut_of_long_output_goes_through_is_hidden(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    line = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAABFwAAAAdz"
    frame = "-----{} OPENSSH PRIVATE KEY-----".format
    key = "\n".join([frame("BEGIN"), *[line] * 40, frame("END")])
    after = "\n".join(["x" * 60] * 175)  # the last 12,000 characters begin inside the key
    (tmp_path / "work" / "out.txt").write_text("\n".join(["y" * 60] * 500 + [key, after]))
    flow = make_flow("replies: [{run: cat out.txt}, {text: Done., repeat: forever}]", [yes])
    await flow.run()
    assert "bytes left out" in flow.results[0].text
    (result,) = [text for text in flow.shown if "bytes left out" in text]
    assert "PRIVATE KEY" not in result
    assert line[:16] not in result


async def test_numbers_in_the_output_of_a_command_are_not_kept(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{run: cat receipt.txt}, {text: Read.}]", approval_mode="auto")
    receipt = "paid with 4111-1111-1111-1111, ssn 219-09-9999, patient has diabetes\n"
    (flow.folder / "receipt.txt").write_text(receipt)
    await flow.run()
    await flow.session.finish()
    flow.close()

    def kept(text: bytes) -> list[Path]:
        # The raw bytes of an output have a file of their own, as docs/security.md says.
        files = holding(flow.data, text)
        return [file for file in files if "outputs" not in file.parts]

    assert kept(b"1111-1111") == kept(b"219-09-9999") == []
    # Only statements for memory are checked: what a command says about health is kept.
    assert kept(b"patient has diabetes") != []
