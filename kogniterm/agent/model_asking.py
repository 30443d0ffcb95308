"""One model call as events: announced, watched, and ended by its reply or its failure."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from kogniterm.errors import ModelError
from kogniterm.protocols import Model
from kogniterm.types import (
    AnswerDelta,
    ModelAsked,
    ModelEvent,
    ModelFailed,
    ModelRequest,
    ModelRetried,
    Reply,
    ThoughtDelta,
)

_NUMBERS = itertools.count(1)


async def ask(
    model: Model, request: ModelRequest, tell: Callable[[ModelAsked | ModelFailed], None]
) -> AsyncIterator[ModelEvent]:
    """Make a model call and yield its events, which name it by its id.

    `tell` gets the start of the call, and its end where it has no reply. Raises `ModelError`.
    """
    info = model.info
    number = f"m{next(_NUMBERS)}"
    asked = ModelAsked(request.purpose, number, request.agent, info.name, info.server, info.effort)
    tell(asked)
    began, first = time.monotonic(), None
    try:
        async for event in model.stream(request):
            if isinstance(event, ModelRetried):
                event = replace(event, call=asked.id)
            elif isinstance(event, AnswerDelta | ThoughtDelta):
                first = time.monotonic() - began if first is None else first
            elif isinstance(event, Reply):
                event = replace(event, asked=asked, first=first)
            yield event
    except ModelError as error:
        tell(ModelFailed(asked.id, type(error).__name__))
        raise
