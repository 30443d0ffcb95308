"""KogniTerm's own questions: terminal and editor ask the same, in the same words."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from acp.schema import AllowedOutcome, PermissionOption, RequestPermissionResponse, ToolCallUpdate

from kogniterm.addons.acp.editor_questions import EditorQuestions
from kogniterm.addons.acp.outbox import Outbox
from kogniterm.approval import Unattended
from kogniterm.runtime.fixed_questions import FixedQuestion, Value
from kogniterm.sessions.records import Intent
from kogniterm.ui.locale import translate
from kogniterm.ui.questions.lines import LineQuestions
from kogniterm.ui.questions.question import ask_fixed
from tests.flows.conftest import MakeFlow, make_flow
from tests.support.language import in_spanish
from tests.ui.face import PLAIN

__all__ = ["make_flow"]
KEY = "ghp_" + "Q7d2" * 9


class Fronts:
    """A user at a terminal and in an editor at once, who chooses the same answer at each."""

    painter = PLAIN

    def __init__(self, session: Any, chosen: int) -> None:
        self.chosen = chosen
        self.lines: list[str] = []
        self.title, self.text, self.answers = "", "", dict[str, str]()
        outbox = Outbox(self.send)
        outbox.release()
        self.editor = EditorQuestions(session, self, outbox, translate, forms=False)

    async def send(self, _update: Any) -> None:
        """Take an update of the session."""

    async def create_elicitation(self, message: str, mode: Any) -> Any:
        raise AssertionError("no form was offered")

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse:
        self.title = tool_call.title or ""
        fenced: Any = (tool_call.content or [])[0]
        self.text = fenced.content.text.strip("`\n")
        self.answers = {one.option_id: one.name for one in options}
        chosen = options[self.chosen].option_id
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=chosen)
        )

    def size(self) -> tuple[int, int]:
        return 24, 400

    def commit(self, text: str) -> None:
        self.lines += text.rstrip("\n").split("\n")

    async def read_line(self, prompt: str, start: str = "", *, free: bool = False) -> str | None:
        self.menu = dict(re.findall(r"(\w) = ([^,\]]+)", prompt))
        return list(self.menu)[self.chosen]

    async def pause(self) -> None:
        """Type nothing."""

    async def choose(self, question: FixedQuestion[Value]) -> Value:
        """Answer in both; what each shows and returns is the same."""
        self.lines = []
        found = await ask_fixed(LineQuestions(self), question)
        assert await self.editor.choose(question) == found
        assert self.lines[0] == self.title
        assert "\n".join(self.lines[1:]) in (self.text, "")
        shown = [words[:1].upper() + words[1:] for words in self.menu.values()]
        assert shown == list(self.answers.values())
        return found


@pytest.mark.parametrize("speaking", [nullcontext, in_spanish])
@pytest.mark.parametrize(("chosen", "told"), [(0, "check"), (1, "again"), (2, "not run it again")])
async def test_a_command_of_unknown_outcome(
    make_flow: MakeFlow, speaking: Callable[[], Any], chosen: int, told: str
) -> None:
    flow = make_flow()
    session = flow.open()
    outputs = session.journal.outputs
    assert outputs is not None
    output = outputs / "1.out"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(f"key {KEY}\x1b[2J\nhalf")
    command = f"deploy --token {KEY}\nrm -r ./old"
    intent = Intent(session.journal.new_id(), command, session.executor.cwd, "e", str(output))
    session.journal.record(intent, durable=True)
    flow.close()
    session = flow.open("last")
    fronts = Fronts(session, chosen)
    with speaking():
        await session.run(None, approver=Unattended(), sink=flow.tell, recover=fronts.choose)
    assert list(fronts.answers) == ["check", "again", "skip"]
    assert KEY not in fronts.text
    assert "\x1b" not in fronts.text
    assert fronts.text.startswith("$ deploy --token ")
    assert fronts.text.endswith("\n  half")
    assert any(told in text for text in flow.shown)


@pytest.mark.parametrize(("chosen", "exit_code"), [(0, 0), (1, 0), (2, 4)])
async def test_a_limit_that_is_reached(make_flow: MakeFlow, chosen: int, exit_code: int) -> None:
    flow = make_flow("replies: [{run: echo 1}, {run: echo 2}, {text: Done.}]", max_steps=2)
    fronts = Fronts(flow.open(), chosen)
    flow.at_limit = fronts.choose
    assert (await flow.run()).exit_code == exit_code
    assert list(fronts.answers) == ["more", "unlimited", "end"]
    assert fronts.title == "Model call limit reached: 2. Continue?"
