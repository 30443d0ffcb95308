"""What a model is opened with: everything the settings know, nothing read from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The settings a model needs, as plain values.

    `keys` and `base_urls` are by provider name (`google_genai`, `openai`, …). `deadline` bounds
    one model call in seconds, its retries and waits included; `idle` bounds the silence between
    two pieces of a reply. `tries` counts the first call too; `longest_wait` bounds one pause
    between tries and `total_wait` their sum, in seconds.

    `temperature` and `max_output` (tokens) are left to the provider when None, `context_window`
    (tokens) to the table of known models. `thoughts` asks for the model's thinking where it is
    shown; `images` says whether the model takes images (None: the table of known models
    does); `text_calls` offers tools in text to a model that calls none. `weights_file` is used
    instead of pulled weights; `examples_file` holds what the person's approvals taught. Relative
    paths of scripted and replay files start from `base_folder`; `record_to` keeps a recording of
    every exchange.
    """

    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    base_urls: Mapping[str, str] = field(default_factory=dict)
    deadline: float = 600.0
    idle: float = 120.0
    tries: int = 4
    longest_wait: float = 60.0
    total_wait: float = 180.0
    temperature: float | None = None
    max_output: int | None = None
    context_window: int | None = None
    thoughts: bool = False
    images: bool | None = None
    text_calls: bool = False
    weights_folder: Path | None = None
    weights_file: Path | None = None
    examples_file: Path | None = None
    base_folder: Path | None = None
    record_to: Path | None = None

    def __post_init__(self) -> None:
        if self.deadline <= 0 or self.idle <= 0:
            raise ValueError("deadline and idle are seconds above zero")
        if self.tries < 1:
            raise ValueError("a model is tried at least once")
