"""A model that gives the replies of a recorded session again, without its provider.

The recording is an exported session or a bug report, the files that `kogniterm replay` reads too:
the journal holds each reply, and what its caller had heard before it. A replay plays the replies
in order and logs at which call the new session first differs from the recorded one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import ModelError
from kogniterm.models.catalog import ANY_IMAGES
from kogniterm.types import AnswerDelta, ModelEvent, ModelInfo, ModelRequest, Reply
from kogniterm.types.model_calls import ASIDE, RecordedCall, Recording

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

log = logging.getLogger(__name__)


class ReplayModel:
    """Gives recorded replies, to each caller its own in order; `path` is named in errors.

    A run that differs goes on all the same: times and paths differ between machines, and the rest
    of the session is still worth seeing. With `compare` the log names the first call that differs.
    """

    def __init__(self, recording: Recording, path: Path, *, compare: bool = True) -> None:
        # The window is larger than any: a replay shortens no history that was not shortened. Which
        # model saw an image is not recorded, so every recorded image is accepted.
        local = recording.model.partition(":")[0] == "local"
        self.info = ModelInfo(
            f"replay:{path}", "replay", 1_000_000, 100_000, one_command=local, images=ANY_IMAGES
        )
        self._left = list(enumerate(recording.calls, 1))
        self._calls = len(recording.calls)
        self._path = path
        self._compare = compare

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        number, call = self._next(request)
        if self._compare and (place := _difference(call.heard, request.messages)):
            self._compare = False
            log.warning("the replay of %s differs: call %d, %s", self._path, number, place)
        if call.failure is not None:
            raise ModelError(call.failure.template, **dict(call.failure.values))
        assert call.reply is not None
        if call.reply.text:
            yield AnswerDelta(call.reply.text)
        yield Reply(call.reply, call.usage)

    def waiting(self, asker: str) -> Iterator[RecordedCall]:
        """Yield the calls of an agent, or of a purpose of `ASIDE`, that were not made yet."""
        return (call for _, call in self._left if call.asker == asker)

    def _next(self, request: ModelRequest) -> tuple[int, RecordedCall]:
        """Return the caller's next recorded call. Raises `ModelError` when there is none."""
        asker = request.purpose if request.purpose in ASIDE else request.agent
        for at, (_, call) in enumerate(self._left):
            if call.asker == asker:
                return self._left.pop(at)
        if asker in ASIDE:
            raise ModelError(
                "The recording has no response to this model request ({purpose}).",
                purpose=request.purpose,
            )
        raise ModelError(
            "The recording {path} ends after {calls} calls, but the session made one more.",
            path=self._path,
            calls=self._calls,
        )


def _difference(heard: Sequence[BaseMessage], messages: Sequence[BaseMessage]) -> str:
    """Return where the messages since the last reply differ from those `heard`; "" if nowhere.

    Notes that KogniTerm adds at the end of a request are not in the journal.
    """
    last = max((at for at, one in enumerate(messages) if one.type == "ai"), default=-1)
    new = [one for one in messages[last + 1 :] if one.type != "system"]
    for number, one in enumerate(heard, 1):
        if number > len(new) or _identity(one) != _identity(new[number - 1]):
            return f"message {number} since the reply before it"
    return ""


def _identity(message: BaseMessage) -> tuple[str, str]:
    """Return the parts of a message that a model is shown."""
    return message.type, message.text
