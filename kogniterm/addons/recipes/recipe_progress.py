"""Progress of a recipe that was interrupted, read from the journal so that it can continue.

The recipe with its inputs is a note at the beginning of its turn. Results of actions and sub-agents
stand in the history under an id made of the turn and the node, what model nodes said under the key
of the node, and results of tools without effects in notes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from pydantic import ValidationError

from kogniterm.addons.recipes.recipe_graph import NodeResult
from kogniterm.addons.recipes.recipe_schema import Recipe
from kogniterm.errors import RefusedError, UsageError
from kogniterm.sessions.fold import Note
from kogniterm.sessions.history import SessionHistory
from kogniterm.sessions.records import Noted, Outcome
from kogniterm.text.shorten import head_and_tail
from kogniterm.text.visible import with_texts

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession

BEGUN, FOUND = "recipe", "recipe_node"
MOST_CHARS = 100_000
"""Characters of a result that later nodes get."""


def call_ids(session: LiveSession) -> str:
    """Return the beginning of the ids of calls that the recipe of this turn makes."""
    return f"recipe-{session.state.turn}-"


def begun_note(recipe: Recipe, inputs: Mapping[str, Any], redact: Callable[[str], str]) -> Noted:
    """Return the note of a recipe that begins, with its secrets replaced."""
    told = {"recipe": recipe.model_dump(mode="json", by_alias=True), "inputs": dict(inputs)}
    return Noted(BEGUN, with_texts(told, redact))


def found_note(key: str, text: str, exit_code: int) -> Noted:
    """Return the note of what a tool without effects found for the node `key`."""
    return Noted(FOUND, {"node": key, "text": text, "exit_code": exit_code})


def recipe_in_progress(session: LiveSession) -> tuple[Recipe, Mapping[str, Any]]:
    """Return the recipe of the open turn with its inputs. Raises `UsageError` without one."""
    turn = SessionHistory(session.journal.records()).open_turn
    found = [note.data for note in turn.notes if note.kind == BEGUN]
    try:
        if found:
            return Recipe.model_validate(found[-1]["recipe"]), found[-1]["inputs"]
    except ValidationError:
        pass  # words of it were forgotten
    raise UsageError("The recipe of this turn is not in the journal; run it again.")


def result_of(answer: ToolMessage) -> NodeResult:
    """Return the result of an action by what the model is told of it."""
    return NodeResult(head_and_tail(answer.text, MOST_CHARS), int(answer.status == "error"))


@dataclass(frozen=True, slots=True)
class RecipeProgress:
    """Calls and results of the recipe from before it was interrupted.

    `calls` are the calls of its nodes and `answers` their results, `outcomes` those of actions, by
    the call's id. `again` are calls of unknown outcome that the user wants made again. `said` is
    what model nodes said and heard, and `found` what tools without effects found, by the key of
    the node.
    """

    calls: frozenset[str] = frozenset()
    answers: Mapping[str, ToolMessage] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    again: frozenset[str] = frozenset()
    said: Mapping[str, Sequence[BaseMessage]] = field(default_factory=dict)
    found: Mapping[str, NodeResult] = field(default_factory=dict)

    @classmethod
    def of(cls, session: LiveSession) -> RecipeProgress:
        """Return it for the open turn of the session."""
        state = session.state
        begins = call_ids(session)
        calls = [
            str(call["id"])
            for message in state.messages
            if isinstance(message, AIMessage)
            for call in message.tool_calls
            if str(call["id"]).startswith(begins)
        ]
        answers = {
            message.tool_call_id: message
            for message in state.messages
            if isinstance(message, ToolMessage) and message.tool_call_id.startswith(begins)
        }
        history = SessionHistory(session.journal.records())
        outcomes, requests, again = dict[str, Outcome](), dict[str, str](), set[str]()
        for action in (one for turn in history.all_turns for one in turn.ended):
            if action.outcome is not None and isinstance(action.outcome.message, ToolMessage):
                requests[action.id] = action.outcome.message.tool_call_id
                outcomes[requests[action.id]] = action.outcome
        for note in (one for turn in history.all_turns for one in turn.notes):
            if note.kind == Note.AGAIN:
                again.add(requests.get(str(note.value), ""))
        found = {
            note.data["node"]: NodeResult(note.data["text"], note.data["exit_code"])
            for note in history.open_turn.notes
            if note.kind == FOUND
        }
        said = {key: one.messages for key, one in state.agents.items()}
        return cls(frozenset(calls), answers, outcomes, frozenset(again), said, found)

    def attempt(self, call_id: str) -> str:
        """Return the id of the call, or of its repetition where the user wants it made again."""
        return self.attempt(f"{call_id}-again") if call_id in self.again else call_id

    def outcome(self, call_id: str) -> NodeResult | None:
        """Return how an action ended; None if it has not. Raises `RefusedError`."""
        answer, outcome = self.answers.get(call_id), self.outcomes.get(call_id)
        if answer is None:
            return None
        status = outcome.status if outcome is not None else "finished"
        if status in ("refused", "cancelled"):
            raise RefusedError("An earlier action of the recipe was refused.")
        if outcome is not None and outcome.result is not None:
            return NodeResult(outcome.result.text, outcome.result.exit_code)
        if status == "unknown":
            return NodeResult(answer.text, None)
        return result_of(answer)
