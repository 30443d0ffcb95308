"""Requests in words to forget: found, shown, asked about, removed with proof."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from kogniterm.runtime.turn_ports import Question
from kogniterm.sessions.chain_audit import verify
from kogniterm.types import Answer, Phrase, UserInput
from kogniterm.types.events import Notice
from tests.flows.conftest import Flow, MakeFlow, make_flow

__all__ = ["make_flow"]

FACT = "we deploy tangerines on Fridays only"
NO_MODEL = "replies: [{text: I was asked.}]"


class Asked:
    """A user who answers every question with the answer at `place` and records the questions."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.questions: list[str] = []

    async def __call__(self, question: Question, answers: Sequence[str | Phrase]) -> str:
        parts = [question] if isinstance(question, str) else question
        self.questions.append("\n".join(map(str, parts)))
        return str(answers[self.place])


async def say(flow: Flow, text: str, asked: Asked | None) -> Answer:
    session = flow.session or flow.open()
    return await session.run(UserInput(text), approver=flow.user, sink=flow.tell, ask=asked)


def remembered(flow: Flow) -> list[str]:
    session = flow.session or flow.open()
    return [fact.text for fact in session.memory.context.memory.facts()]


def holders(flow: Flow, word: str) -> list[str]:
    data = flow.data
    files = [file for file in data.rglob("*") if file.is_file()]
    return [file.name for file in files if word.encode() in file.read_bytes().lower()]


def told(flow: Flow) -> str:
    return "\n".join(str(event.text) for event in flow.of(Notice))


@pytest.mark.parametrize(
    "said", [f"Forget that {FACT}.", "olvida que deploy tangerines Fridays", "forget m1"]
)
async def test_a_plain_sentence_needs_no_model(make_flow: MakeFlow, said: str) -> None:
    flow = make_flow(NO_MODEL, decisions=[])
    flow.open()
    flow.session.memory.context.memory.add(FACT)
    asked = Asked(1)
    answer = await say(flow, said, asked)
    assert answer.exit_code == 0
    assert remembered(flow) == [FACT]
    asked.place = 0
    answer = await say(flow, said, asked)
    assert answer.exit_code == 0
    assert FACT in asked.questions[1]
    assert remembered(flow) == []
    assert holders(flow, "tangerines") == []
    assert "Proof:" in told(flow)
    assert flow.shown == []


async def test_a_plain_sentence_forgets_nothing_when_unattended(make_flow: MakeFlow) -> None:
    flow = make_flow(NO_MODEL, decisions=[])
    flow.open()
    flow.session.memory.context.memory.add(FACT)
    answer = await say(flow, f"forget that {FACT}", None)
    assert answer.exit_code == 3
    assert "kogniterm memory forget m1 --yes" in str(answer.reason)
    assert remembered(flow) == [FACT]


def wants(what: str, quote: str) -> str:
    call = {"tool": "forget", "arguments": {"what": what, "quote": quote}}
    return json.dumps({"replies": [{"calls": [call]}, {"text": "Done.", "repeat": "forever"}]})


async def test_the_models_tool_asks_forgets_and_proves(make_flow: MakeFlow) -> None:
    said = "I moved house. Please forget everything on our deploying of tangerines, and say done."
    flow = make_flow(wants("deploy tangerines", "Please forget everything"), decisions=[])
    flow.open()
    flow.session.memory.context.memory.add(FACT)
    asked = Asked(0)
    answer = await say(flow, said, asked)
    assert (answer.exit_code, answer.text) == (0, "Done.")
    assert FACT in asked.questions[0]
    assert remembered(flow) == []
    assert holders(flow, "deploy tangerines") == []
    assert "Proof:" in "\n".join(flow.shown)
    found = verify(flow.session.archive.store.database, flow.session.id)
    assert found.intact
    assert found.forgotten


async def test_the_tool_forgets_on_the_users_own_words_only(make_flow: MakeFlow) -> None:
    flow = make_flow(wants("m1", "forget m1"), decisions=[])
    flow.open()
    flow.session.memory.context.memory.add(FACT)
    asked = Asked(0)
    await say(flow, "read the notes", asked)
    assert asked.questions == []
    assert remembered(flow) == [FACT]
    assert "Only the user can ask to forget" in "\n".join(flow.shown)


async def test_everything_about_a_word_needs_no_fact_and_no_model(make_flow: MakeFlow) -> None:
    flow = make_flow("replies: [{text: Heron is a bird.}, {text: I was asked.}]", decisions=[])
    asked = Asked(0)
    await say(flow, "what is a quetzalcoatlus?", asked)
    assert holders(flow, "quetzalcoatlus")
    answer = await say(flow, "olvida todo lo que sabes de quetzalcoatlus", asked)
    assert answer.exit_code == 0
    assert "No fact matches" in asked.questions[0]
    assert holders(flow, "quetzalcoatlus") == []
    assert "Proof:" in told(flow)
