"""The local model as the core's embedded one. Loads its parts where they are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kogniterm.models.calling import ModelOptions
    from kogniterm.models.embedded import PullProgress, WeightsState
    from kogniterm.protocols import Model


class LocalWeights:
    """The weights of the catalogue behind `models.embedded.EmbeddedModel`."""

    def open(self, name: str, options: ModelOptions) -> Model:
        from kogniterm.addons.local_model.bank import LearnedExamples
        from kogniterm.addons.local_model.chat import open_local
        from kogniterm.addons.local_model.weights import default_weights

        learned = options.examples_file
        return open_local(
            name or default_weights(options.weights_folder).name,
            options.weights_folder,
            weights_file=options.weights_file,
            extra_examples=LearnedExamples(learned).load if learned is not None else tuple,
        )

    def default_name(self, folder: Path) -> str:
        from kogniterm.addons.local_model.weights import default_weights

        return f"local:{default_weights(folder).name}"

    def is_here(self, options: ModelOptions) -> bool:
        from kogniterm.addons.local_model.weights import default_weights

        if options.weights_file is not None:  # if it is wrong, opening the model tells
            return True
        folder = options.weights_folder
        return folder is not None and (folder / default_weights(folder).file).is_file()

    def states(self, folder: Path) -> Sequence[WeightsState]:
        from kogniterm.addons.local_model.weights import CATALOGUE, state_of

        return [state_of(entry, folder) for entry in CATALOGUE]

    def pull(
        self, name: str, folder: Path, progress: Callable[[PullProgress], None], source: str | None
    ) -> WeightsState:
        from kogniterm.addons.local_model.sources import source_of
        from kogniterm.addons.local_model.weights import pull, state_of, weights_called

        entry = weights_called(name)
        pull(entry, folder, source_of(entry, source), progress=progress)
        return state_of(entry, folder)

    def keep_example(self, file: Path, request: str, command: str) -> bool:
        from kogniterm.addons.local_model.bank import LearnedExamples

        return LearnedExamples(file).add(request, command)


EMBEDDED_MODEL = LocalWeights()
