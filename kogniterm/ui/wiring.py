"""What the REPL is given: how to open a session, and what else it may use."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kogniterm.types import Text
from kogniterm.ui.commands.registry import Command

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession
    from kogniterm.ui.question import AskHooks


@dataclass(frozen=True, slots=True)
class Opened:
    """An open session, and what the person should be told about it once.

    `model_reason` says why this model; `hooks` add to questions; `redact` finds secrets that
    the input history must not keep. `commands` are the person's and the project's own;
    `last_turn` is what was said and answered last in a session that is resumed.
    """

    session: LiveSession
    model_reason: Text | None = None
    first_run: bool = False
    notices: tuple[Text, ...] = ()
    hooks: AskHooks | None = None
    redact: Callable[[str], str] | None = None
    commands: tuple[Command, ...] = ()
    last_turn: tuple[str, str] = ("", "")


OpenSession = Callable[[str | None], Awaitable[Opened]]
"""Opens the session with this id, or a new one for None."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the REPL is given besides the session; everything is optional.

    `commands` are added to the basic ones, `model_names` completes /model, `files` lists the
    workspace for @ completion, `save_preference` keeps what /theme, /keys and /lang change.
    """

    commands: Sequence[Command] = ()
    model_names: Callable[[], Sequence[str]] | None = None
    files: Callable[[], Iterable[str]] | None = None
    save_preference: Callable[[str, object], None] | None = None
    session_id: str | None = None
    first_input: str | None = None
    clock: Callable[[], float] = field(default=time.monotonic)
