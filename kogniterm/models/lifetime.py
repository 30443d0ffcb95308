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


async def close_model(model: Model) -> None:
    """Release what `model` holds, on the loop it was used on."""
    close = getattr(model, "aclose", None)
    if close is not None:
        await close()
        return
    close = getattr(model, "close", None)
    if close is not None:
        close()
