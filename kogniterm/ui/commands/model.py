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
    from kogniterm.ui.questions.model_choice import Chosen, ModelQuestion, ModelRow
    from kogniterm.ui.questions.question import Question

SAVE = "--save"


async def model(repl: Repl, argument: str) -> None:
    """Run /model [NAME] [--save]."""
    words = argument.split()
    save = SAVE in words
    names = [word for word in words if word != SAVE]
    if len(names) > 1:
        raise UsageError("/model takes one name: /model PROVIDER:NAME.")
    if names:
        _use(repl, names[0], save=save)
    elif save:
        _save(repl, repl.session.model.name)
    else:
        chosen = await _picked(repl)
        if chosen is not None:
            _use(repl, chosen.name, save=chosen.save)


def model_choices(repl: Repl) -> Iterable[str]:
    """Return the names of models of the configured providers."""
    lists = repl.wiring.model_lists()
    if lists is None:
        return ()
    return [one.name for provider in lists.providers for one in lists.known(provider).models]


def _use(repl: Repl, name: str, *, save: bool) -> None:
    repl.session.use_model(name)
    used = repl.session.model.name
    if save:
        _save(repl, used)
    else:
        repl.display.say(
            Phrase("Model: {name}. To make it the default: /model --save", {"name": used})
        )


def _save(repl: Repl, name: str) -> None:
    """Make a model the default of new sessions."""
    if repl.wiring.save_preference is None:
        raise UsageError("Settings cannot be saved here.")
    repl.wiring.save_preference("model", name)
    repl.display.say(Phrase("Model: {name}. New sessions use it, too.", {"name": name}))


# --- the list ----------------------------------------------------------------------------------


async def _picked(repl: Repl) -> Chosen | None:
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
            self._here = {one.name: lists.known(one) for one in providers}
        self._waiting = [one.name for one in lists.asked] if lists is not None else []

    def question(self) -> ModelQuestion:
        """Return the question, with the model in use picked."""
        from kogniterm.ui.questions.model_choice import ModelQuestion

        rows = self._rows()
        at = [row.in_use for row in rows].index(True)
        can_save = self._repl.wiring.save_preference is not None
        return ModelQuestion(rows, picked=at, about=self._about(), can_save=can_save)

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
            self._repl.front.questions.renew(self._renewed)

    def _renewed(self, question: Question[Any]) -> Question[Any]:
        from kogniterm.ui.questions.model_choice import ModelQuestion

        if not isinstance(question, ModelQuestion):
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
        return ListedModel(info.name, info.provider, info.context_window, price_of(info.name))

    def _about(self) -> str:
        from kogniterm.ui.questions.model_choice import source_text, waiting_text

        return waiting_text(self._waiting) or source_text(tuple(self._here.values()))
