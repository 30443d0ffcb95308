"""Forgetting in a session, the same by a slash command, a sentence or the model's tool.

What matches is found and shown; once the user agrees it is removed from every store, with proof.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from kogniterm.errors import (
    EXIT_DONE,
    EXIT_NOT_DONE,
    EXIT_REFUSED,
    ToolError,
    UsageError,
)
from kogniterm.memory.fact_records import Lesson, Preference
from kogniterm.memory.statements import forget_request
from kogniterm.protocols import EventSink
from kogniterm.runtime.services.archive import SessionArchive
from kogniterm.runtime.services.memory_service import MemoryService
from kogniterm.runtime.turn_ports import AskPort
from kogniterm.types import Answer, Phrase, UserInput, events

if TYPE_CHECKING:
    from kogniterm.memory import Memory
    from kogniterm.memory.forgetter import ForgetRequest, Forgetter, Receipt
    from kogniterm.runtime.services.written_files import UserFiles

MOST = 40
"""Facts and files that are shown before the user is asked."""

FORGET = Phrase("forget it")
KEEP = Phrase("keep it")

SentenceChoice = Literal["forget", "keep", "unattended"]
"""The user's choice about a sentence; "unattended" where nobody could be asked."""

Agrees = Callable[[Phrase, Sequence[Phrase]], Awaitable[bool]]
"""Ask the user a question, with the lines it is about; return whether they agree."""


class ForgetService:
    """Forgets for one session, this session's own journal included."""

    def __init__(
        self, archive: SessionArchive, memory: MemoryService | None, asker: AskPort
    ) -> None:
        self.archive = archive
        self.memory = memory
        self.asker = asker

    async def command(
        self, agrees: Agrees, words: str, *, everything: bool = False, here: bool = False
    ) -> Receipt | None:
        """Forget what `choose_request` returns; None when the user does not agree.

        Raises `UsageError` as `choose_request` does, and when memory is off.
        """
        forgetter = self._forgetter()
        assert self.memory is not None
        memory = self.memory.context.memory
        request, carry_out = choose_request(
            forgetter, memory, words, everything=everything, here=here
        )
        project = Phrase("everything learned in this project")
        what = Phrase("everything, of every project") if everything else words or project
        return await self._ask_and_forget(request, what, agrees, carry_out)

    async def forget(self, what: str, quote: str) -> str:
        """Forget what the model's tool call names. Raises `ToolError`."""
        try:
            forgetter = self._forgetter()
            assert self.memory is not None
            self.memory.context.for_tools().asked_to_forget(quote)
            request = forgetter.candidates(what) or forgetter.read_request(what)
        except UsageError as error:
            raise ToolError("{reason}", reason=str(error)) from error
        carry_out = partial(forgetter.carry_out, request)
        receipt = await self._ask_and_forget(request, what, self._ask_driver, carry_out)
        if receipt is None:
            return "The user chose to keep it; nothing was forgotten."
        return "\n".join(str(text) for text, _level in describe_receipt(receipt))

    def requested_in(self, user_input: UserInput) -> ForgetRequest | None:
        """Return what a typed sentence asks to forget, if it asks nothing else and facts match."""
        sentence = forget_request(user_input.typed)
        if sentence is None or self.memory is None or user_input.data or user_input.attachments:
            return None
        if self.memory.context.mode == "off":
            return None
        return self._forgetter().meant(*sentence)

    async def decide(self, request: ForgetRequest) -> SentenceChoice:
        """Ask whether to forget what a typed sentence asks for; needs no model."""
        what = ", ".join(request.labels) or ", ".join(request.phrases)
        try:
            agreed = await self._ask_driver(_question(what), self._lines(request))
        except ToolError:
            return "unattended"
        return "forget" if agreed else "keep"

    def answer(self, request: ForgetRequest, choice: SentenceChoice, sink: EventSink) -> Answer:
        """Forget what a typed sentence asked for, if the user chose that, and prove it."""
        if choice == "unattended":
            reason = Phrase(
                "Forgetting needs confirmation, and no user is available. "
                "Run: kogniterm memory forget {id} --yes",
                {"id": command_words(request)},
            )
            return Answer("", "refused", EXIT_REFUSED, reason)
        if choice != "forget":
            sink(events.Notice(NOTHING))
            return Answer("", "done", EXIT_DONE)
        receipt = self._forgetter().carry_out(request)
        self._forgot(request.terms)
        for text, level in describe_receipt(receipt):
            sink(events.Notice(text, level))
        if receipt.proved:
            return Answer("", "done", EXIT_DONE)
        reason = Phrase("Some of the text was still found after forgetting.")
        return Answer("", "not_done", EXIT_NOT_DONE, reason)

    async def _ask_and_forget(
        self,
        request: ForgetRequest,
        what: Phrase | str,
        agrees: Agrees,
        carry_out: Callable[[], Receipt],
    ) -> Receipt | None:
        if not await agrees(_question(what), self._lines(request)):
            return None
        receipt = carry_out()
        self._forgot(request.terms)
        return receipt

    async def _ask_driver(self, question: Phrase, lines: Sequence[Phrase]) -> bool:
        """Ask whoever drives the turn. Raises `ToolError` where nobody does."""
        return await self.asker.ask([question, *lines], [FORGET, KEEP]) == str(FORGET)

    def _lines(self, request: ForgetRequest) -> list[Phrase]:
        files = self.archive.user_files()
        return list(describe_request(request, files, most=MOST))

    def _forgetter(self) -> Forgetter:
        return self.archive.forgetter(self.memory)

    def _forgot(self, terms: Sequence[str]) -> None:
        """Remove the terms from what this session has in memory."""
        if self.memory is not None:
            self.memory.forgot(terms)


NOTHING = Phrase("Nothing was forgotten.")


def choose_request(
    forgetter: Forgetter,
    memory: Memory,
    words: str,
    *,
    everything: bool = False,
    here: bool = False,
    session: str | None = None,
) -> tuple[ForgetRequest, Callable[[], Receipt]]:
    """Return what the user names to forget, and the function that forgets it.

    Raises `UsageError` unless it is exactly one thing, for an id that no fact has, and for words
    that are too short.
    """
    from kogniterm.memory.forgetter import ForgetRequest

    if sum([bool(words), everything, here, bool(session)]) != 1:
        raise UsageError("Specify exactly one of: an ID or words, --session ID, --here, --all.")
    if words:
        request = forgetter.read_request(words)
        return request, partial(forgetter.carry_out, request)
    if everything:
        return ForgetRequest(tuple(forgetter.everything())), forgetter.forget_everything
    facts, beside = memory.facts(), list[Lesson | Preference]()
    if session:
        own = [one for one in facts if one.origin.session_id == session]
    else:
        own = [one for one in facts if one.project == memory.project]
        beside = [*memory.learnings.all(), *memory.preferences.stored()]
    request = ForgetRequest(tuple(own), beside=tuple(beside))
    return request, partial(forgetter.forget_all, session_id=session)


def _question(what: Phrase | str) -> Phrase:
    return Phrase("Forget this permanently? {what}", {"what": what})


def describe_request(
    request: ForgetRequest,
    files: UserFiles,
    *,
    most: int | None = None,
) -> Iterator[Phrase]:
    """Yield what forgetting would remove, for a question; at most so many of each kind."""
    for fact in request.facts[:most]:
        yield Phrase("{id}: {text}", {"id": fact.label, "text": fact.text})
    for one in request.beside[:most]:
        if isinstance(one, Lesson):
            yield Phrase("{id}: {text}", {"id": one.label, "text": one.told})
        else:
            yield Phrase("preference {key}: {value}", {"key": one.key, "value": one.value})
    if not request.facts and not request.beside:
        none = Phrase("No facts are stored; lessons, notes and preferences are deleted.")
        text = Phrase(
            "No fact matches. The text will be removed from journals, outputs, history and logs."
        )
        yield text if request.phrases else none
    if not request.phrases and any(isinstance(one, Lesson) for one in request.beside):
        yield Phrase("The session in which a lesson was learned keeps its commands.")
    for mention in files.foreseen(request.terms)[:most]:
        where = {"file": mention.path, "line": mention.line}
        yield Phrase("also in a file that KogniTerm wrote: {file}, line {line}", where)


def command_words(request: ForgetRequest) -> str:
    """Return what follows `kogniterm memory forget` to forget the same in a shell."""
    named = request.labels or [shlex.quote(phrase) for phrase in request.phrases]
    if named:
        return " ".join(named)
    keys = [one.key for one in request.beside if isinstance(one, Preference)]
    return " ".join(map(shlex.quote, keys))


def describe_receipt(receipt: Receipt) -> Iterator[tuple[Phrase, str]]:
    """Yield the receipt as sentences with their level: removals, proof, what is out of reach."""
    for part in receipt.parts:
        if part.removed:
            yield (
                Phrase(
                    "removed from {place}: {count}", {"place": part.place, "count": part.removed}
                ),
                "info",
            )
    if receipt.proved:
        scanned = {"files": receipt.scanned_files, "size": receipt.scanned_bytes}
        proof = Phrase(
            "Proof: the text is in none of the files searched ({files}; {size} bytes).", scanned
        )
        columns = Phrase(
            "Proof: the text is in none of the database columns searched ({count}).",
            {"count": receipt.scanned_columns},
        )
        yield proof, "info"
        yield columns, "info"
    for place in (*receipt.found, *receipt.found_columns):
        yield Phrase("still found in {file}", {"file": place}), "warning"
    for mention in receipt.untouched:
        where = {"file": mention.path, "line": mention.line}
        yield Phrase("Not changed, because you wrote it: {file}, line {line}",
                   where), "info"  # fmt: skip
    for place in receipt.unreachable:
        yield Phrase("Cannot be removed: {place}", {"place": place}), "info"
