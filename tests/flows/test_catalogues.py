"""Catalogues of extensions that the core does not know, in whole sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kogniterm.agent.graph_state import NamedAgent
from kogniterm.runtime.context import system_message
from kogniterm.runtime.extensions.extension_port import Extension, Moment, Right
from kogniterm.runtime.inputs.agent_turn import address_agent
from kogniterm.runtime.session import LiveSession
from kogniterm.sessions.fold import Note
from kogniterm.sessions.records import Noted
from kogniterm.types import UserInput
from tests.flows.conftest import Flow, MakeFlow

READS = """replies:
  - {when: {sub_agent: true, system_contains: "On the shelf: a map."}, text: There is a map.}
  - {text: Done., repeat: forever}
"""
ANSWER = "replies: [{text: Done., repeat: forever}]"


class Shelf(Extension):
    """Offers what a test puts on it."""

    name = "a shelf"
    moments: ClassVar[Mapping[Moment, Right]] = {"offer_tools": "add"}

    def __init__(self) -> None:
        self.on_it = "On the shelf: a map."

    def catalogue(self) -> str | None:
        return self.on_it

    def agents(self) -> Mapping[str, NamedAgent]:
        return {"finder": NamedAgent("finder", "Finds things.", "Look twice.", ("read_file",))}


def with_shelf(flow: Flow, session_id: str | None = None) -> tuple[LiveSession, Shelf]:
    session, shelf = flow.open(session_id), Shelf()
    port = session.extensions.port
    port.extensions = (*port.extensions, shelf)
    return session, shelf


async def test_a_catalogue_of_any_extension_is_offered_changed_and_kept(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(ANSWER)
    session, shelf = with_shelf(flow)
    await flow.run("one")
    system = session.context.system.text
    assert "On the shelf: a map." in system
    shelf.on_it = "On the shelf: a key."
    await flow.run("two")
    assert session.context.system.text == system
    assert "On the shelf: a key." in "\n".join(flow.shown)
    shelf.on_it = ""
    await flow.run("three")
    told = [text for text in flow.shown if "a shelf is no longer available" in text]
    assert len(told) == 1


async def test_a_catalogue_ends_where_its_extension_is_not_there_any_more(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(ANSWER)
    session, _shelf = with_shelf(flow)
    await flow.run("one")
    flow.close()
    for _time in range(2):
        resumed = flow.open(str(session.id))
        await flow.run("two")
        texts = [message.text for message in resumed.state.messages]
        assert "".join(texts).count("a shelf is no longer available") == 1
        flow.close()


async def test_the_texts_of_a_system_message_keep_the_order_of_older_sessions(
    make_flow: MakeFlow,
) -> None:
    """Another order would be another message for providers and kept replies."""
    session = make_flow(ANSWER).open()
    names = ("a shelf", "zebras", "servers", Note.INSTRUCTIONS, "skills")
    session.journal.record(Noted(Note.INSTRUCTIONS, {name: f"text of {name}" for name in names}))
    texts = system_message(session.journal).text.split("\n\n")
    told = [one.removeprefix("text of ") for one in texts if one.startswith("text of ")]
    assert told == ["instructions", "skills", "servers", "a shelf", "zebras"]


async def test_a_sub_agent_of_any_extension_can_be_called(make_flow: MakeFlow) -> None:
    flow = make_flow(READS)
    session, _shelf = with_shelf(flow)
    given = address_agent(UserInput("@finder find it"), session.extensions.port.agents())
    answer = await flow.run(given)
    assert answer.text == "There is a map."
    (delegate,) = [one for one in session.context.offered_tools() if one.name == "delegate"]
    assert "Finds things." in delegate.description
