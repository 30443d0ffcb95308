"""The model that runs on this machine without a key: the port that an add-on fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from kogniterm.installed import parts
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.models.calling import ModelOptions
    from kogniterm.protocols import Model


class PullProgress(NamedTuple):
    """The progress of a download, in bytes, and what it is doing at the moment."""

    done: int
    total: int
    doing: Phrase


class WeightsState(NamedTuple):
    """A file of weights, and whether it is here, whole and intact.

    `short` is the name that a user types: `local:1.5b`. `size` is in bytes, and so are `memory`,
    which is held while the model is loaded, and `bytes_on_disk`.
    """

    name: str
    short: str
    title: str
    file: Path
    size: int
    memory: int
    sha256: str
    license: str
    context_window: int
    state: Literal["ready", "partial", "damaged", "missing"]
    bytes_on_disk: int


class EmbeddedModel(Protocol):
    """The add-on as the core uses it. Weights are in `folder`; the default ones come first."""

    def open(self, name: str, options: ModelOptions) -> Model:
        """Open the model on the weights called `name`, or on the default ones for ""."""
        ...

    def default_name(self, folder: Path) -> str:
        """Return the full name of the weights that no name means: the first that are here."""
        ...

    def is_here(self, options: ModelOptions) -> bool:
        """Return whether weights are there or set, intact or not."""
        ...

    def states(self, folder: Path) -> Sequence[WeightsState]:
        """Return every file of weights that there is to download."""
        ...

    def pull(
        self, name: str, folder: Path, progress: Callable[[PullProgress], None], source: str | None
    ) -> WeightsState:
        """Download weights, or read them from the file `source`, and check them."""
        ...

    def keep_example(self, file: Path, request: str, command: str) -> bool:
        """Keep a command that worked; return whether it was kept. Raises `OSError`."""
        ...


def embedded_model() -> EmbeddedModel | None:
    """Return what the add-on brings; None where it was deleted."""
    return next(parts("EMBEDDED_MODEL"), None)
