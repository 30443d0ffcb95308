"""Loading a model ahead of its first call, and releasing it at the end."""

from __future__ import annotations

from collections.abc import Callable

from kogniterm.errors import ModelError
from kogniterm.protocols import Model


def preload(model: Model) -> None:
    """Import and construct what `model` needs, so that its first call does not.

    For a background thread; does nothing for models that are light. A failure is not raised
    here: the first call raises it, where somebody can be told.
    """
    load: Callable[[], None] | None = getattr(model, "preload", None)
    if load is not None:
        try:
            load()
        except ModelError:
            return


class OpenModels:
    """Opens models by name, and closes what it opened."""

    def __init__(self, open_one: Callable[[str], Model]) -> None:
        self._open_one = open_one
        self._open: list[Model] = []

    def __call__(self, name: str) -> Model:
        """Open the model `name`. Raises what opening it raises."""
        self._open.append(self._open_one(name))
        return self._open[-1]

    async def close(self, *, but: Model | None = None) -> None:
        """Close all models, on the loop they were used on; leave `but` open."""
        closing, self._open = self._open, [model for model in self._open if model is but]
        for model in closing:
            if model is not but:
                await close_model(model)


async def close_model(model: Model) -> None:
    """Release what `model` holds, on the loop it was used on."""
    close = getattr(model, "aclose", None)
    if close is not None:
        await close()
        return
    close = getattr(model, "close", None)
    if close is not None:
        close()
