"""The command /model: choose a model from the providers' lists, or name it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kogniterm.errors import UsageError
from kogniterm.types import Phrase
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from kogniterm.models.model_lists import ListedModel, ModelListing, ModelLists
    from kogniterm.ui.questions.model_choice import Chosen, ModelPickList, ModelRow
    from kogniterm.ui.questions.question import Question

SAVE = "--save"


async def model(repl: Repl, argument: str) -> None:
    """Run /model [NAME] [EFFORT] [--save]."""
    from kogniterm.models.catalog import EFFORTS
    from kogniterm.ui.questions.model_choice import DEFAULT, Chosen

    words = argument.split()
    save = SAVE in words
    words = [word for word in words if word != SAVE]
    effort = words.pop() if words and words[-1] in (DEFAULT, *EFFORTS) else None
    if len(words) > 1:
        raise UsageError(
            "Usage: /model PROVIDER:NAME [EFFORT], where EFFORT is one of {efforts}.",
            efforts=", ".join((DEFAULT, *EFFORTS)),
        )
    if not argument:
        chosen = await _ask_for_model(repl)
    else:
        name = words[0] if words else repl.session.model.name
        chosen = Chosen(name, "" if effort == DEFAULT else effort, save)
    if chosen is not None:
        _use(repl, chosen)


def model_choices(repl: Repl) -> Iterable[str]:
    """Return the names of models of the configured providers, and the efforts of the one in use."""
    lists = repl.wiring.model_lists()
    names = [] if lists is None else [
        one.name for provider in lists.providers for one in lists.list_known(provider).models
    ]  # fmt: skip
    return [*names, *repl.session.model.efforts]


def _use(repl: Repl, chosen: Chosen) -> None:
    from kogniterm.ui.questions.model_choice import DEFAULT

    session, save = repl.session, repl.wiring.save_preference
    if chosen.save and save is None:
        raise UsageError("Settings cannot be saved here.")
    if chosen.name != session.model.name or chosen.effort is not None:
        session.use_model(chosen.name, chosen.effort)
    used = session.model
    values = {"name": used.label}
    if not chosen.save or save is None:
        repl.display.say(Phrase("Model: {name}. To make it the default: /model --save", values))
        return
    save("model", used.name)
    if used.effort or chosen.effort is not None:
        save("effort", used.effort or DEFAULT)
    repl.display.say(Phrase("Model: {name}. New sessions use it, too.", values))


# --- the list ----------------------------------------------------------------------------------


async def _ask_for_model(repl: Repl) -> Chosen | None:
    """Ask for a model, while the providers are asked for their lists."""
    shelf = _Shelf(repl, repl.wiring.model_lists())
    fetching = asyncio.ensure_future(shelf.fetch())
    if repl.front.questions.stays:  # what is written cannot change any more
        await fetching
    try:
        return await repl.front.questions.ask(shelf.question())
    finally:
        fetching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await fetching


class _Shelf:
    """The listings as far as they are here."""

    def __init__(self, repl: Repl, lists: ModelLists | None) -> None:
        self._repl = repl
        self._lists = lists
        providers = lists.providers if lists is not None else ()
        self._here: dict[str, ModelListing] = {}
        if lists is not None:
            self._here = {one.name: lists.list_known(one) for one in providers}
        self._waiting = [one.name for one in lists.asked] if lists is not None else []

    def question(self) -> ModelPickList:
        """Return the question, with the model in use picked."""
        from kogniterm.ui.questions.model_choice import ModelPickList

        rows = self._rows()
        at = [row.in_use for row in rows].index(True)
        can_save = self._repl.wiring.save_preference is not None
        effort = self._repl.session.model.effort
        return ModelPickList(rows, picked=at, about=self._about(), can_save=can_save, effort=effort)

    async def fetch(self) -> None:
        """Ask all providers at once, and show each list as it comes."""
        lists = self._lists
        if lists is None:
            return
        calls = [asyncio.to_thread(lists.live, one) for one in lists.asked]
        for call in asyncio.as_completed(calls):
            listing = await call
            self._here[listing.provider] = listing
            self._waiting.remove(listing.provider)
            self._repl.front.questions.renew(self._renew_question)

    def _renew_question(self, question: Question[Any]) -> Question[Any]:
        from kogniterm.ui.questions.model_choice import ModelPickList

        if not isinstance(question, ModelPickList):
            return question
        return question.with_rows(self._rows(), self._about())

    def _rows(self) -> tuple[ModelRow, ...]:
        from kogniterm.ui.questions.model_choice import model_rows

        models = [one for listing in self._here.values() for one in listing.models]
        in_use = self._repl.session.model.name
        if in_use not in [one.name for one in models]:
            models.insert(0, self._current())
        return model_rows(models, in_use)

    def _current(self) -> ListedModel:
        """Return the model in use, which its provider does not list."""
        from kogniterm.models.catalog import price_of
        from kogniterm.models.model_lists import ListedModel

        info = self._repl.session.model
        price = price_of(info.name)
        return ListedModel(info.name, info.provider, info.context_window, price, info.efforts)

    def _about(self) -> str:
        from kogniterm.ui.questions.model_choice import source_text, waiting_text

        return waiting_text(self._waiting) or source_text(tuple(self._here.values()))
