"""Models: a registry of provider names and the adapters behind `protocols.Model`."""

from kogniterm.models.options import ModelOptions
from kogniterm.models.registry import (
    close_model,
    default_name,
    installed,
    open_model,
    parse_name,
    preload,
)

__all__ = [
    "ModelOptions",
    "close_model",
    "default_name",
    "installed",
    "open_model",
    "parse_name",
    "preload",
]
